import { asProblem, Problem, problemOf } from '../api/problem';
import { type Fields, fields, type LogEvent, list, num, parseJSON, readEvent } from './wire';

/** What a session is read from. */
export interface Source {
  page(session: string): Promise<Page>;
  /** At most limit events after or before a number, in order. */
  events(session: string, ask: { after?: number; before?: number; limit: number }): Promise<LogEvent[]>;
  /** One event with its whole body. */
  event(session: string, seq: number): Promise<LogEvent>;
}

/** A session at one number of its log. */
export interface Page {
  seq: number;
  outline: readonly unknown[];
  prompts: readonly unknown[];
  runs: readonly unknown[];
  /** Turns before those of the outline. */
  earlier: number;
  rest: Fields;
}

/** Asks the daemon; the answer is JSON, and everything else a Problem. */
export async function ask(path: string, init: RequestInit = {}, get: typeof fetch = fetch): Promise<unknown> {
  let answer: Response;
  try {
    answer = await get(path, { cache: 'no-store', credentials: 'same-origin', redirect: 'error', ...init });
  } catch (e) {
    throw asProblem(e);
  }
  const body = parseJSON(await answer.text());
  if (!answer.ok) throw problemOf(answer.status, body);
  return body;
}

export function readPage(body: unknown): Page {
  const f = fields(body);
  return {
    seq: num(f, 'seq'),
    outline: list(f, 'outline'),
    prompts: list(f, 'prompts'),
    runs: list(f, 'runs'),
    earlier: num(f, 'earlier'),
    rest: f,
  };
}

/** The daemon over HTTP. */
export function daemon(base = '/api/v1', get?: typeof fetch): Source {
  const of = (session: string) => `${base}/sessions/${encodeURIComponent(session)}`;
  return {
    page: async (session) => readPage(await ask(`${of(session)}/page`, {}, get)),
    events: async (session, { after, before, limit }) => {
      const q = new URLSearchParams({ follow: 'false', bodies: 'short', limit: String(limit) });
      if (after !== undefined) q.set('after', String(after));
      if (before !== undefined) q.set('before', String(before));
      const body = fields(await ask(`${of(session)}/events?${q}`, {}, get));
      return list(body, 'items').flatMap((v) => readEvent(v) ?? []);
    },
    event: async (session, seq) => {
      const e = readEvent(await ask(`${of(session)}/events/${seq}`, {}, get));
      if (!e) throw new Problem('internal', `event ${seq} could not be read`);
      return e;
    },
  };
}
