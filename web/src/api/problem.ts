/** An error of the daemon or of the way to it, in the form of docs/api.md. */
export type Code =
  | 'internal'
  | 'invalid'
  | 'unauthorized'
  | 'denied'
  | 'not_found'
  | 'gone'
  | 'conflict'
  | 'handed_over'
  | 'needs_approval'
  | 'exhausted'
  | 'unavailable'
  | 'canceled'
  | 'offline';

const codes: ReadonlySet<string> = new Set<Code>([
  'internal',
  'invalid',
  'unauthorized',
  'denied',
  'not_found',
  'gone',
  'conflict',
  'handed_over',
  'needs_approval',
  'exhausted',
  'unavailable',
  'canceled',
]);

const ofStatus: Record<number, Code> = {
  400: 'invalid',
  401: 'unauthorized',
  403: 'denied',
  404: 'not_found',
  405: 'invalid',
  409: 'conflict',
  410: 'gone',
  413: 'invalid',
  421: 'denied',
  429: 'exhausted',
  499: 'canceled',
  502: 'unavailable',
  503: 'unavailable',
  504: 'unavailable',
};

export class Problem extends Error {
  override readonly name = 'Problem';
  readonly code: Code;
  readonly status: number;
  readonly hint: string;
  readonly id: string;

  constructor(code: Code, message: string, more: { status?: number; hint?: string; id?: string } = {}) {
    super(message);
    this.code = code;
    this.status = more.status ?? 0;
    this.hint = more.hint ?? '';
    this.id = more.id ?? '';
  }

  /** Whether the same request may succeed a moment later without anybody doing anything. */
  get passes(): boolean {
    return this.code === 'offline' || this.code === 'unavailable' || this.code === 'exhausted';
  }
}

const text = (value: unknown): string => (typeof value === 'string' ? value.slice(0, 2000) : '');

/** Reads the body of a refused request; whatever a proxy in between made of it gives a usable problem. */
export function problemOf(status: number, body: unknown): Problem {
  const fields = typeof body === 'object' && body !== null ? (body as Record<string, unknown>) : {};
  const said = text(fields.code);
  const code = codes.has(said) ? (said as Code) : (ofStatus[status] ?? (status >= 500 ? 'internal' : 'invalid'));
  return new Problem(code, text(fields.message) || `The daemon answered with status ${status}.`, {
    status,
    hint: text(fields.hint),
    id: text(fields.id),
  });
}

export function asProblem(error: unknown): Problem {
  if (error instanceof Problem) return error;
  if (error instanceof DOMException && error.name === 'AbortError')
    return new Problem('canceled', 'The request was ended.');
  if (error instanceof TypeError) return new Problem('offline', 'The daemon does not answer.');
  return new Problem('internal', error instanceof Error ? error.message : String(error));
}
