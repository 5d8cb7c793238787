import type { IncomingMessage, ServerResponse } from 'node:http';
import { Daemon, json, page, text, type World } from '../src/data/testing/daemon';
import { type Plan, type Script, synthetic } from '../src/data/testing/synthetic';
import { file } from './server';

// A daemon for the session page: a log of any length over real sockets, whose streams can be cut at any byte, and
// the built page with the headers of the real one.

export const ID = 'ses_main';
const ana = { handle: 'ana', name: 'Ana', email: 'ana@example.com' };
/** The smallest PNG there is; its digest is only a name here. */
const PIXEL = Buffer.from(
  'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==',
  'base64',
);

export class SessionDaemon extends Daemon {
  readonly scripts = new Map<string, Script>();
  readonly posted: { path: string; body: unknown }[] = [];
  readonly violations: string[] = [];
  /** Inlines the snapshot, as the daemon does for one who is signed in. */
  inlined = false;
  /** Accepts prompts only while this holds. */
  accepts = true;
  origin = '';
  #prompts = 0;

  async start(): Promise<string> {
    this.origin = await this.listen();
    return this.origin;
  }

  play(plan: Partial<Plan> = {}, more: Record<string, unknown> = {}): Script {
    const script = synthetic({ session: ID, turns: 3, tools: 12, ...plan });
    return this.put(script, more);
  }

  put(script: Script, more: Record<string, unknown> = {}): Script {
    this.scripts.set(script.session, script);
    const world = this.add(script.session, script.events, {
      environment: { id: 'env_shop', name: 'shop' },
      snapshot: { id: 'snp_1', age_ns: 7_200_000_000_000, commit: '3f2a91c0', started_from: 'memory' },
      people: [ana, { handle: 'ben', name: 'Ben' }],
      ...more,
    });
    world.session = {
      ...world.session,
      title: script.session === ID ? 'Make the total of the cart take the discount off' : `Session ${script.session}`,
      owner: ana,
      model: 'scripted/shop',
      blueprint: 'code-change',
      base: 'main',
      branch: 'drydock/ses_main',
      cost: { known_microusd: 420_000 },
      usage: { input: 91_000, output: 8_200, cache_read: 310_000, calls: 31 },
      budget: { microusd: 2_000_000 },
      active_ns: 252_000_000_000,
    };
    return script;
  }

  /** Appends to the log and tells the streams. */
  say(event: ReturnType<Script['add']>): void {
    this.append(event.subject, event);
  }

  view(view: Record<string, unknown>, id = ID): void {
    const world = this.worlds.get(id);
    if (!world) return;
    const { role, glyph } = { role: 'run', glyph: 'half', ...view } as { role: string; glyph: string };
    world.session.view = { reason: '', action: '', since: new Date().toISOString(), ...view, role, glyph };
    this.tell('view', world.session, id);
  }

  override async handle(req: IncomingMessage, res: ServerResponse): Promise<void> {
    const url = new URL(req.url ?? '/', 'http://daemon');
    if (url.pathname === '/csp-report') {
      this.violations.push(await text(req));
      res.writeHead(204).end();
    } else if (!url.pathname.startsWith('/api/v1/')) {
      const world = this.worlds.get(url.pathname.split('/')[2] ?? '');
      file(res, url.pathname, this.inlined && world ? { who: who(), session: page(world) } : undefined);
    } else if (url.pathname === '/api/v1/whoami') json(res, 200, who());
    else if (url.pathname.startsWith('/api/v1/blobs/')) {
      res.writeHead(200, { 'content-type': 'image/png' }).end(PIXEL);
    } else if (url.pathname === '/api/v1/approvals') {
      json(res, 200, { items: this.worlds.get(ID)?.more.approvals ?? [] });
    } else await super.handle(req, res);
  }

  override async other(req: IncomingMessage, res: ServerResponse, world: World, parts: string[]): Promise<void> {
    const body = req.method === 'GET' ? undefined : JSON.parse((await text(req)) || '{}');
    const path = parts.join('/');
    if (req.method !== 'GET' && path !== 'presence') this.posted.push({ path: `${req.method} ${path}`, body });
    if (path === 'search') return this.#search(req, res, world);
    if (path === 'presence' || path === 'read' || path === 'stop') return void res.writeHead(204).end();
    if (path === 'prompts' && req.method === 'POST') return this.#prompt(res, world, body);
    if (parts[0] === 'prompts') return this.#queue(res, world, req.method ?? '', parts, body);
    json(res, 404, { code: 'not_found', message: `no ${path} here` });
  }

  #prompt(res: ServerResponse, world: World, body: { text: string; client_id: string }): void {
    if (!this.accepts) {
      json(res, 503, { code: 'unavailable', message: 'the daemon is busy' });
      return;
    }
    const old = world.prompts.find((p) => p.client_id === body.client_id);
    if (old) {
      json(res, 201, old);
      return;
    }
    const prompt = {
      id: `prm_web${++this.#prompts}`,
      session: world.session.id,
      client_id: body.client_id,
      author: ana,
      text: body.text,
      source: 'web',
      state: 'queued',
      position: world.prompts.length + 1,
      created: new Date().toISOString(),
    };
    world.prompts.push(prompt);
    json(res, 201, prompt);
    const script = this.scripts.get(String(world.session.id));
    if (script)
      this.say(script.add('prompt.queued', { prompt: prompt.id, author: ana, text: body.text, state: 'queued' }));
  }

  #queue(
    res: ServerResponse,
    world: World,
    method: string,
    parts: string[],
    body: { text?: string; position?: number },
  ) {
    const prompt = world.prompts.find((p) => p.id === parts[1]);
    if (!prompt) return json(res, 404, { code: 'not_found', message: 'no such prompt' });
    if (method === 'DELETE') prompt.state = 'removed';
    if (method === 'PATCH') prompt.text = body.text;
    if (parts[2] === 'move') {
      const queue = world.prompts.filter((p) => p.state === 'queued' && p !== prompt);
      queue.splice(body.position ?? 0, 0, prompt);
      queue.forEach((p, i) => {
        p.position = i + 1;
      });
    }
    const script = this.scripts.get(String(world.session.id));
    const data = { prompt: prompt.id, author: ana, state: prompt.state, ...(body.text ? { text: body.text } : {}) };
    if (script) this.say(script.add('prompt.state', data));
    if (method === 'PATCH') json(res, 200, prompt);
    else res.writeHead(204).end();
  }

  #search(req: IncomingMessage, res: ServerResponse, world: World): void {
    const q = new URL(req.url ?? '/', 'http://daemon').searchParams.get('q') ?? '';
    const hits = world.events
      .filter((e) => JSON.stringify(e.data).includes(q))
      .map((e) => ({ seq: e.seq, kind: e.kind, snippet: JSON.stringify(e.data).slice(0, 120) }));
    json(res, 200, { hits: hits.slice(0, 50), total: hits.length });
  }
}

export const who = () => ({ user: ana, version: 'test' });
