import { asProblem, Problem, problemOf } from './problem';

export const base = '/api/v1';

export type Query = Record<string, string | number | boolean | undefined>;

/** A path below the API with its query; what is empty is left out, since unknown and empty parameters are refused. */
export function address(path: string, query: Query = {}): string {
  const params = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    if (value !== undefined && value !== '' && value !== false) params.set(name, String(value));
  }
  const tail = params.toString();
  return base + path + (tail ? `?${tail}` : '');
}

export const part = (value: string): string => encodeURIComponent(value);

export interface Options {
  method?: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';
  query?: Query;
  body?: unknown;
  signal?: AbortSignal | undefined;
}

const listeners = new Set<() => void>();

/** Told when a request was refused for want of a sign-in, whichever it was. */
export function onSignedOut(listener: () => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

/** One request. Whatever goes wrong is thrown as a Problem. */
export async function call<T>(path: string, options: Options = {}): Promise<T> {
  const method = options.method ?? 'GET';
  let answer: Response;
  try {
    const init: RequestInit = {
      method,
      credentials: 'same-origin',
      cache: 'no-store',
      redirect: 'error',
      headers: { Accept: 'application/json' },
    };
    if (options.signal) init.signal = options.signal;
    if (method !== 'GET') {
      // Effects are accepted with this content type alone: no form of another page can send it.
      init.headers = { Accept: 'application/json', 'Content-Type': 'application/json' };
      init.body = JSON.stringify(options.body ?? {});
    }
    answer = await fetch(address(path, options.query), init);
  } catch (error) {
    throw asProblem(error);
  }
  if (answer.status === 204) return undefined as T;
  let body: unknown;
  try {
    body = await answer.json();
  } catch {
    body = undefined;
  }
  if (!answer.ok) {
    const problem = problemOf(answer.status, body);
    if (problem.code === 'unauthorized' && path !== '/login') for (const listener of listeners) listener();
    throw problem;
  }
  if (body === undefined) throw new Problem('internal', "The daemon's answer could not be read.");
  return body as T;
}

/** Waits for a growing, uneven time: several pages do not come back at the same moment. */
export const pause = (attempt: number, random: () => number = Math.random): number =>
  Math.min(8000, 250 * 2 ** attempt) * (0.5 + random() / 2);

/**
 * A request with an effect that carries an id of its own, so that asking again is safe:
 * what the daemon has already taken is answered, not done twice.
 */
export async function insist<T>(
  path: string,
  options: Options,
  { tries = 4, wait = (ms: number) => new Promise<void>((done) => setTimeout(done, ms)) } = {},
): Promise<T> {
  for (let attempt = 0; ; attempt++) {
    try {
      return await call<T>(path, options);
    } catch (error) {
      const problem = asProblem(error);
      if (!problem.passes || attempt + 1 >= tries) throw problem;
      await wait(pause(attempt));
    }
  }
}

/** An id for one effect: unguessable, and the same for every try of it. */
export const clientID = (): string => {
  const bytes = crypto.getRandomValues(new Uint8Array(12));
  return `web-${Array.from(bytes, (b) => b.toString(16).padStart(2, '0')).join('')}`;
};
