import type { Row } from '../data/rows';
import { type Fields, fields, num, str } from '../data/wire';

// What a row of a tool says of itself: what was done to what, how it went, and the body below it.

export interface Part {
  title: 'input' | 'output' | '';
  text: string;
  /** Lines that begin with + and - are coloured. */
  diff: boolean;
}

export interface Told {
  verb: string;
  object: string;
  /** The object is a command or a path. */
  code: boolean;
  result: string;
  duration: number;
}

const ownWord = /^(read|list|edit|write|patch|search|look at)\s+/;

export function tell(
  row: Row,
  verbs: Record<string, string>,
  exit: (n: number) => string,
  words: { running: string; failed: string },
): Told {
  const d = (row.end ?? row.event).data;
  const tool = str(d, 'tool');
  const title = str(d, 'title') || tool;
  const verb = verbs[tool] ?? tool;
  const object = tool === 'run' ? title.replace(/^\$\s+/, '') : title.replace(ownWord, '');
  let result = '';
  if (!row.end) result = words.running;
  else if (typeof d.exit_code === 'number' && d.exit_code !== 0) result = exit(num(d, 'exit_code'));
  else if (row.failed) result = words.failed;
  else if (tool === 'edit' || tool === 'patch' || tool === 'write') result = short(str(d, 'output'));
  return { verb, object, code: tool in verbs, result, duration: row.end ? num(d, 'duration_ns') : 0 };
}

/** "-1 +1 lines" and the like; longer output is a body. */
function short(output: string): string {
  const line = output.trim();
  return line.length <= 32 && !line.includes('\n') ? line : '';
}

export function parts(row: Row): Part[] {
  const out: Part[] = [];
  const input = fields(row.event.data.input);
  const given = inputText(str(row.event.data, 'tool'), input);
  if (given) out.push(given);
  const output = row.end ? str(row.end.data, 'output') : '';
  if (output) out.push({ title: 'output', text: output, diff: false });
  return out;
}

function inputText(tool: string, input: Fields): Part | undefined {
  const cut = str(input, 'cut');
  if (cut) return { title: 'input', text: cut, diff: false };
  switch (tool) {
    case 'edit': {
      const sign = (text: string, by: string) =>
        text === ''
          ? ''
          : text
              .replace(/\n$/, '')
              .split('\n')
              .map((l) => by + l)
              .join('\n');
      const text = [sign(str(input, 'old'), '-'), sign(str(input, 'new'), '+')].filter(Boolean).join('\n');
      return text ? { title: 'input', text, diff: true } : undefined;
    }
    case 'patch':
      return str(input, 'patch') ? { title: 'input', text: str(input, 'patch'), diff: true } : undefined;
    case 'write':
      return str(input, 'content') ? { title: 'input', text: str(input, 'content'), diff: false } : undefined;
    case 'run':
      // A command of one line is the row itself.
      return str(input, 'command').includes('\n')
        ? { title: 'input', text: str(input, 'command'), diff: false }
        : undefined;
    case 'read':
    case 'list':
    case 'search':
    case 'process':
    case 'picture':
    case 'finish':
      return undefined;
    default: {
      if (Object.keys(input).length === 0) return undefined;
      return { title: 'input', text: JSON.stringify(input, null, 2), diff: false };
    }
  }
}

/** The size of a body that came cut, 0 when it is whole. */
export function cutSize(row: Row): number {
  return (row.event.cut ?? 0) + (row.end && row.end !== row.event ? (row.end.cut ?? 0) : 0);
}
