import { type Fields, fields, type LogEvent, list, num, parseJSON, readEvent, str } from "./wire";

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
  rest: Fields;
}

/** A refusal of the daemon in its own words. */
export class Refusal extends Error {
  readonly status: number;
  readonly code: string;
  readonly hint: string;

  constructor(status: number, code: string, message: string, hint: string) {
    super(message);
    this.name = "Refusal";
    this.status = status;
    this.code = code;
    this.hint = hint;
  }
}

/** Asks the daemon; the answer is JSON or a Refusal. */
export async function ask(path: string, init: RequestInit = {}, get: typeof fetch = fetch): Promise<unknown> {
  const answer = await get(path, { cache: "no-store", credentials: "same-origin", ...init });
  const text = await answer.text();
  const body = parseJSON(text);
  if (answer.ok) return body;
  const f = fields(body);
  const message = str(f, "message") || `the daemon answered ${answer.status}`;
  throw new Refusal(answer.status, str(f, "code") || "internal", message, str(f, "hint"));
}

export function send(method: string, path: string, body?: unknown, get?: typeof fetch): Promise<unknown> {
  const init: RequestInit = { method };
  if (body !== undefined) {
    init.body = JSON.stringify(body);
    init.headers = { "content-type": "application/json" };
  }
  return ask(path, init, get);
}

export function readPage(body: unknown): Page {
  const f = fields(body);
  return { seq: num(f, "seq"), outline: list(f, "outline"), prompts: list(f, "prompts"), rest: f };
}

/** The daemon over HTTP. */
export function daemon(base = "/api/v1", get?: typeof fetch): Source {
  const of = (session: string) => `${base}/sessions/${encodeURIComponent(session)}`;
  return {
    page: async (session) => readPage(await ask(`${of(session)}/page`, {}, get)),
    events: async (session, { after, before, limit }) => {
      const q = new URLSearchParams({ follow: "false", bodies: "short", limit: String(limit) });
      if (after !== undefined) q.set("after", String(after));
      if (before !== undefined) q.set("before", String(before));
      const body = fields(await ask(`${of(session)}/events?${q}`, {}, get));
      return list(body, "items").flatMap((v) => readEvent(v) ?? []);
    },
    event: async (session, seq) => {
      const e = readEvent(await ask(`${of(session)}/events/${seq}`, {}, get));
      if (!e) throw new Refusal(500, "internal", `event ${seq} could not be read`, "");
      return e;
    },
  };
}
