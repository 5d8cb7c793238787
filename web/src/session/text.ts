// Text from a sandbox or a model, made safe to look at: colours of terminals and nothing else of their escapes, and
// signs that would turn or hide text made visible.

export interface Span {
  text: string;
  /** A class name of the body's styles, "" for none. */
  look: string;
}

/** Longer lines are cut in view. */
export const MAX_LINE = 4096;

// biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is looked for
const HIDDEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g;

/** Makes what cannot be seen seen: the number of the sign in brackets. */
export function visible(text: string): string {
  return text.replace(HIDDEN, (c) => `[U+${c.charCodeAt(0).toString(16).toUpperCase().padStart(4, '0')}]`);
}

const ESC = '\\u001b';
// CSI, OSC with its end, and the short ones. Whatever does not fit is a control sign and is shown as one.
const ESCAPE = new RegExp(
  `${ESC}\\[([0-9;:?<=>]*)[ -/]*([@-~])|${ESC}[\\]P^_][^\\u0007\\u001b]*(?:\\u0007|${ESC}\\\\|$)|${ESC}[ -/]*[0-~]`,
  'g',
);

const COLOURS = ['', 'bad', 'ok', 'ask', 'run', 'unp', 'run', ''];

/** One line as spans. State goes on from line to line in `from`. */
export function spans(line: string, from = ''): Span[] {
  const cut = line.length > MAX_LINE ? `${line.slice(0, MAX_LINE)} …` : line;
  const out: Span[] = [];
  let look = from;
  let at = 0;
  const add = (text: string) => {
    if (text) out.push({ text: visible(text), look });
  };
  for (const m of cut.matchAll(ESCAPE)) {
    add(cut.slice(at, m.index));
    at = m.index + m[0].length;
    if (m[2] === 'm') look = colour(m[1] ?? '', look);
  }
  add(cut.slice(at));
  return out;
}

function colour(codes: string, look: string): string {
  let now = look;
  for (const word of codes.split(';')) {
    const n = Number(word || 0);
    if (n === 0 || n === 39) now = '';
    else if ((n >= 30 && n <= 37) || (n >= 90 && n <= 97)) now = COLOURS[n % 10] ?? '';
    else if (n === 38 || n === 48) return now;
  }
  return now;
}

/** Lines as they are meant: a carriage return alone writes over what stands before it. */
export function linesOf(text: string): string[] {
  const all = text.split('\n');
  if (all.at(-1) === '') all.pop();
  return all.map((l) => {
    const line = l.endsWith('\r') ? l.slice(0, -1) : l;
    return line.slice(line.lastIndexOf('\r') + 1);
  });
}

/** Plain text without escapes, for one line. */
export function plain(text: string): string {
  return spans(text.replace(/\s*\n\s*/g, ' '))
    .map((s) => s.text)
    .join('');
}
