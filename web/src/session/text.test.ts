import { expect, test } from 'vitest';
import { linesOf, MAX_LINE, plain, spans } from './text';

test('colours stay, everything else of a terminal is gone', () => {
  expect(spans('\u001b[31mred\u001b[0m \u001b]0;title\u0007x\u001b[2J\u001b[1;32mok')).toEqual([
    { text: 'red', look: 'bad' },
    { text: ' ', look: '' },
    { text: 'x', look: '' },
    { text: 'ok', look: 'ok' },
  ]);
});

test('an escape that does not end takes nothing of the next line with it', () => {
  expect(plain('\u001b]8;;http://a')).toBe('');
  expect(linesOf('\u001b]0;a\nb').map((l) => plain(l))).toEqual(['', 'b']);
});

test('signs that turn or hide text are seen', () => {
  expect(plain('a\u202eb\u200bc\u0000')).toBe('a[U+202E]b[U+200B]c[U+0000]');
});

test('progress that writes over itself is its last state; long lines are cut', () => {
  expect(linesOf('10%\r50%\r100%\r\nnext\n')).toEqual(['100%', 'next']);
  expect(spans('x'.repeat(MAX_LINE + 10))[0]?.text).toHaveLength(MAX_LINE + 2);
});
