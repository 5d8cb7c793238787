import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import { Turns } from '../turns';
import type { LogEvent } from '../wire';

// A stand-in for the daemon over a real socket, with the wire format of docs/api.md: pages, events, the stream. Its
// connections can be cut at any byte.

const CODES: Record<number, string> = {
  401: 'unauthorized',
  403: 'denied',
  404: 'not_found',
  410: 'gone',
  503: 'unavailable',
};

interface Reader {
  id: string;
  res: ServerResponse;
  inbox: boolean;
  /** Sent up to here. */
  at: Map<string, number>;
}

export interface World {
  session: Record<string, unknown>;
  events: LogEvent[];
  prompts: Record<string, unknown>[];
  more: Record<string, unknown>;
}

export class Daemon {
  readonly worlds = new Map<string, World>();
  readonly asked: string[] = [];
  /** Bytes of events that were written to streams. */
  sent = 0;
  /** Cuts the next stream after so many bytes. */
  cut: number | undefined;
  /** Answers the next requests that match with this status. */
  refuse: ((path: string) => number) | undefined;
  beat = true;
  maxGap = 5000;
  #server: Server;
  #sockets = new Set<Socket>();
  #readers = new Set<Reader>();
  #next = 1;
  #beats: ReturnType<typeof setInterval>;

  constructor() {
    this.#server = createServer((q, r) => void this.handle(q, r));
    this.#server.on('connection', (s) => {
      this.#sockets.add(s);
      s.on('close', () => this.#sockets.delete(s));
    });
    this.#beats = setInterval(() => {
      if (this.beat) for (const r of this.#readers) r.res.write(': beat\n\n');
    }, 15_000);
  }

  async listen(port = 0): Promise<string> {
    await new Promise<void>((done) => this.#server.listen(port, '127.0.0.1', done));
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  async close(): Promise<void> {
    clearInterval(this.#beats);
    for (const s of this.#sockets) s.destroy();
    await new Promise<void>((done) => this.#server.close(() => done()));
  }

  get streams(): number {
    return this.#readers.size;
  }

  add(id: string, events: LogEvent[], more: Record<string, unknown> = {}): World {
    const world: World = {
      session: {
        id,
        title: `Session ${id}`,
        state: 'running',
        view: {
          word: 'working',
          role: 'run',
          glyph: 'half',
          reason: 'at work',
          action: '',
          since: events[0]?.time ?? '',
        },
        owner: { handle: 'ana', name: 'Ana' },
      },
      events,
      prompts: [],
      more,
    };
    this.worlds.set(id, world);
    return world;
  }

  /** Adds to the log and tells the streams. */
  append(id: string, event: LogEvent): void {
    const world = this.worlds.get(id);
    if (!world) throw new Error(`no session ${id}`);
    if (world.events[event.seq - 1] !== event) world.events.push(event);
    for (const r of this.#readers) this.#pump(r);
  }

  /** A message that is not an event. */
  tell(name: string, data: unknown, id = ''): void {
    for (const r of this.#readers)
      if (!id || r.at.has(id)) this.#write(r, `event: ${name}\ndata: ${JSON.stringify(data)}\n\n`);
  }

  /** Breaks all connections of streams. */
  drop(): void {
    for (const r of [...this.#readers]) r.res.destroy();
  }

  async handle(req: IncomingMessage, res: ServerResponse): Promise<void> {
    const url = new URL(req.url ?? '/', 'http://daemon');
    const path = url.pathname.replace(/^\/api\/v1/, '');
    this.asked.push(`${req.method} ${path}${url.search}`);
    const status = this.refuse?.(`${req.method} ${path}`) ?? 0;
    if (status) return json(res, status, { code: CODES[status] ?? 'internal', message: `refused with ${status}` });
    if (path === '/stream') return this.#stream(url, req, res);
    const parts = path.split('/').slice(1);
    if (parts[0] === 'streams') return this.#change(parts[1] ?? '', req, res);
    const world = this.worlds.get(parts[1] ?? '');
    if (parts[0] !== 'sessions' || !world)
      return json(res, 404, { code: 'not_found', message: `${path} does not exist` });
    if (parts.length === 2) return json(res, 200, world.session);
    if (parts[2] === 'page') return json(res, 200, page(world));
    if (parts[2] === 'events' && parts[3]) return json(res, 200, world.events[Number(parts[3]) - 1]);
    if (parts[2] === 'events') return this.#events(world, url, res);
    return this.other(req, res, world, parts.slice(2));
  }

  /** What else a test wants answered. */
  async other(_req: IncomingMessage, res: ServerResponse, _world: World, _parts: string[]): Promise<void> {
    json(res, 404, { code: 'not_found', message: 'no such thing here' });
  }

  #events(world: World, url: URL, res: ServerResponse): void {
    const limit = Math.min(500, Number(url.searchParams.get('limit') ?? 50));
    const before = url.searchParams.get('before');
    const after = Number(url.searchParams.get('after') ?? 0);
    const items = before
      ? world.events.slice(Math.max(0, Number(before) - 1 - limit), Number(before) - 1)
      : world.events.slice(after, after + limit);
    json(res, 200, { items });
  }

  async #stream(url: URL, req: IncomingMessage, res: ServerResponse): Promise<void> {
    const reader: Reader = {
      id: `str_${this.#next++}`,
      res,
      inbox: url.searchParams.get('inbox') === 'true',
      at: new Map(),
    };
    for (const s of (url.searchParams.get('sessions') ?? '').split(',').filter(Boolean)) {
      const [id, after] = s.split(':');
      if (!this.worlds.has(id ?? ''))
        return json(res, 404, { code: 'not_found', message: `session ${id} does not exist` });
      reader.at.set(id as string, Number(after));
    }
    res.writeHead(200, { 'content-type': 'text/event-stream', 'cache-control': 'no-store' });
    req.on('close', () => this.#readers.delete(reader));
    res.on('close', () => this.#readers.delete(reader));
    this.#readers.add(reader);
    this.#write(reader, `event: hello\ndata: ${JSON.stringify({ stream: reader.id, version: '1', web: 'w1' })}\n\n`);
    this.#pump(reader);
  }

  async #change(id: string, req: IncomingMessage, res: ServerResponse): Promise<void> {
    const body = JSON.parse(await text(req)) as { sessions: Record<string, number> };
    const reader = [...this.#readers].find((r) => r.id === id);
    if (!reader) return json(res, 404, { code: 'not_found', message: 'the stream is gone' });
    for (const old of [...reader.at.keys()]) if (!(old in body.sessions)) reader.at.delete(old);
    for (const [s, after] of Object.entries(body.sessions)) if (!reader.at.has(s)) reader.at.set(s, after);
    res.writeHead(204).end();
    this.#pump(reader);
  }

  #pump(r: Reader): void {
    for (const [id, at] of r.at) {
      const events = this.worlds.get(id)?.events ?? [];
      if (events.length - at > this.maxGap) {
        r.at.delete(id);
        this.#write(r, `event: reset\ndata: ${JSON.stringify({ session: id, reason: 'gap' })}\n\n`);
        continue;
      }
      for (let seq = at + 1; seq <= events.length; seq++) {
        r.at.set(id, seq);
        const ids = [...r.at].map(([k, v]) => `${k}=${v}`).join(',');
        if (!this.#write(r, `id: ${ids}\nevent: event\ndata: ${JSON.stringify(events[seq - 1])}\n\n`)) return;
      }
    }
  }

  #write(r: Reader, message: string): boolean {
    if (!this.#readers.has(r)) return false;
    const bytes = Buffer.from(message);
    this.sent += bytes.length;
    if (this.cut !== undefined && bytes.length >= this.cut) {
      r.res.write(bytes.subarray(0, this.cut), () => r.res.destroy());
      this.#readers.delete(r);
      this.cut = undefined;
      return false;
    }
    if (this.cut !== undefined) this.cut -= bytes.length;
    return r.res.write(bytes) || true;
  }
}

const outlines = new WeakMap<LogEvent[], { length: number; outline: unknown[]; runs: unknown[] }>();

/** The outline is what the page itself would make of the log, so that both ways to a turn are compared. */
export function page(world: World): Record<string, unknown> {
  let made = outlines.get(world.events);
  if (made?.length !== world.events.length) {
    // The daemon keeps it in a table; what is made anew for each question would be measured as the page's time.
    made = { length: world.events.length, ...outlineOf(world) };
    outlines.set(world.events, made);
  }
  const { outline } = made;
  return {
    session: world.session,
    seq: world.events.length,
    outline,
    prompts: world.prompts,
    runs: made.runs,
    children: [],
    people: [],
    ...world.more,
  };
}

function outlineOf(world: World): { outline: unknown[]; runs: unknown[] } {
  const turns = new Turns();
  for (const e of world.events) turns.apply(e);
  const runs = turns.list.map((t) => ({ id: t.run, prompt: t.id, outcome: t.outcome, verdict: t.verdict }));
  const outline = turns.list.map((t) => ({
    prompt: t.id,
    author: t.author,
    text: t.text,
    source: t.source,
    run: t.run,
    state: t.state,
    first_seq: t.start,
    last_seq: t.end,
    started: t.started,
    finished: t.finished,
    tools: t.tools,
    files: t.files,
    errors: t.errors,
    cost_microusd: t.cost,
    nodes: t.nodes.map((n) => ({ ...n, duration_ns: n.duration })),
    marks: t.marks.slice(-200),
    answer: t.answer,
  }));
  return { outline, runs };
}

export function json(res: ServerResponse, status: number, body: unknown): void {
  res.writeHead(status, { 'content-type': 'application/json' });
  res.end(JSON.stringify(body));
}

export async function text(req: IncomingMessage): Promise<string> {
  let all = '';
  for await (const part of req) all += part;
  return all;
}
