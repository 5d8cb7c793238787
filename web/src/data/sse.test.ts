import { expect, test } from 'vitest';
import { type Message, Parser, TooLong } from './sse';

const bytes = (s: string) => new TextEncoder().encode(s);

function read(chunks: Uint8Array[], max?: number) {
  const out: Message[] = [];
  const comments: string[] = [];
  const p = new Parser(
    (m) => out.push(m),
    (c) => comments.push(c),
    max,
  );
  for (const c of chunks) p.push(c);
  return { out, comments };
}

test('reads what the daemon writes', () => {
  const { out, comments } = read([
    bytes(
      'event: hello\ndata: {"stream":"a"}\n\n: beat\n\nid: ses_a=1\nevent: event\ndata: x\ndata:  y\n\ndata: z\n\n',
    ),
  ]);
  expect(out).toEqual([
    { event: 'hello', data: '{"stream":"a"}', id: '' },
    { event: 'event', data: 'x\n y', id: 'ses_a=1' },
    { event: 'message', data: 'z', id: 'ses_a=1' },
  ]);
  expect(comments).toEqual(['beat']);
});

test('an unfinished message is never handed out', () => {
  expect(read([bytes('event: a\ndata: 1\n')]).out).toEqual([]);
});

/** Chance that can be had again: mulberry32. */
function chance(seed: number): (below: number) => number {
  let a = seed;
  return (below) => {
    a = (a + 0x6d2b79f5) | 0;
    let t = Math.imul(a ^ (a >>> 15), 1 | a);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) % below;
  };
}

const LETTERS = ['a', ':', ' ', '\0', '\ufeff', 'é', '漢', '😀', 'data: ', '\u2028', '{', '\\n'];

test('any cut of the bytes, with any line ends, reads the same', () => {
  for (let seed = 0; seed < 600; seed++) {
    const next = chance(seed);
    const messages = Array.from({ length: next(8) }, () => ({
      event: ['event', 'delta', 'row'][next(3)] as string,
      lines: Array.from({ length: 1 + next(3) }, () =>
        Array.from({ length: next(12) }, () => LETTERS[next(LETTERS.length)]).join(''),
      ),
      end: ['\n', '\r\n', '\r'][next(3)] as string,
      beat: next(2) === 0,
    }));
    const text = messages
      .map(
        (m) =>
          (m.beat ? `: beat${m.end}` : '') +
          `event: ${m.event}${m.end}` +
          m.lines.map((l) => `data: ${l}${m.end}`).join('') +
          m.end,
      )
      .join('');
    const all = bytes(text);
    const cuts = Array.from({ length: next(40) }, () => next(all.length + 1)).sort((a, b) => a - b);
    const chunks: Uint8Array[] = [];
    let from = 0;
    for (const cut of [...cuts, all.length]) {
      chunks.push(all.slice(from, cut));
      from = cut;
    }
    // A lone CR at the very end may still be followed by LF: one more line settles it.
    const { out } = read([...chunks, bytes(':\n')]);
    expect(out.map((m) => [m.event, m.data])).toEqual(messages.map((m) => [m.event, m.lines.join('\n')]));
  }
});

test('a message without an end is refused, whole or in lines', () => {
  expect(() => read([bytes('data: '), bytes('x'.repeat(200))], 100)).toThrow(TooLong);
  expect(() => read([bytes('data: xxxxxxxxx\n'.repeat(20))], 100)).toThrow(TooLong);
});

test('bytes that are not UTF-8 end it', () => {
  expect(() => read([new Uint8Array([100, 0xff, 10])])).toThrow();
});
