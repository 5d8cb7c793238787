// What the daemon sends, as far as the page reads it. Fields may be missing and kinds unknown: every reader here
// treats the wire as data from outside and falls back to something neutral.

export interface Author {
  handle: string;
  name?: string;
}

export interface LogEvent {
  subject: string;
  seq: number;
  time: string;
  kind: string;
  run?: string;
  node?: string;
  attempt?: string;
  actor?: string;
  data: Fields;
  /** Bytes of the texts that came cut; what is between their beginning and end is asked for with the event. */
  cut?: number;
}

export type Fields = Readonly<Record<string, unknown>>;

const none: Fields = Object.freeze({});

export function fields(value: unknown): Fields {
  return typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Fields) : none;
}

export function str(of: Fields, name: string): string {
  const v = of[name];
  return typeof v === 'string' ? v : '';
}

export function num(of: Fields, name: string): number {
  const v = of[name];
  return typeof v === 'number' && Number.isFinite(v) ? v : 0;
}

export function flag(of: Fields, name: string): boolean {
  return of[name] === true;
}

export function list(of: Fields, name: string): readonly unknown[] {
  const v = of[name];
  return Array.isArray(v) ? v : [];
}

export function strings(of: Fields, name: string): string[] {
  return list(of, name).filter((v): v is string => typeof v === 'string');
}

export function author(of: Fields, name: string): Author {
  const v = fields(of[name]);
  return { handle: str(v, 'handle'), name: str(v, 'name') };
}

/** The name that people know, else the handle. */
export function called(who: Author): string {
  return who.name || who.handle || 'somebody';
}

/** Reads one event; undefined when it is none. A delta has no sequence number and is 0 here. */
export function readEvent(value: unknown): LogEvent | undefined {
  const v = fields(value);
  const subject = str(v, 'subject');
  const kind = str(v, 'kind');
  if (!subject || !kind) return undefined;
  const seq = num(v, 'seq');
  if (!Number.isSafeInteger(seq) || seq < 0) return undefined;
  const e: LogEvent = { subject, seq, time: str(v, 'time'), kind, data: fields(v.data) };
  for (const name of ['run', 'node', 'attempt', 'actor'] as const) {
    const word = str(v, name);
    if (word) e[name] = word;
  }
  const cuts = Object.entries(fields(v.cut));
  if (cuts.length > 0) {
    e.cut = cuts.reduce((n, [, c]) => n + num(fields(c), 'size'), 0);
    for (const [path, c] of cuts.slice(0, 32)) e.data = rejoin(e.data, path.split('.'), fields(c));
  }
  return e;
}

/** Puts the end of a cut text behind its beginning, with a line between that says so. */
function rejoin(data: Fields, path: readonly string[], cut: Fields): Fields {
  const [name, ...rest] = path;
  if (!name) return data;
  const old = data[name];
  if (rest.length > 0) return { ...data, [name]: rejoin(fields(old), rest, cut) };
  if (typeof old !== 'string') return data;
  return { ...data, [name]: `${old}\n[…]\n${str(cut, 'tail')}` };
}

export function parseJSON(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
