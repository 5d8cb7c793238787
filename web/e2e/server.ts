import { readFileSync } from 'node:fs';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { extname, join, normalize } from 'node:path';

// A stand-in for the daemon, for what a real one cannot be made to say at will: answers that are late, refused,
// huge or hostile. It serves the built page with the headers that the daemon sends.
export const dist = new URL('../../internal/surface/web/dist/', import.meta.url).pathname;

export const policy = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self' 'nonce-test'",
  "font-src 'self'",
  "img-src 'self' blob:",
  "connect-src 'self'",
  "worker-src 'self'",
  "frame-ancestors 'none'",
  "base-uri 'none'",
  "form-action 'none'",
  "object-src 'none'",
  "require-trusted-types-for 'script'",
  'trusted-types default drydock',
  'report-uri /csp-report',
].join('; ');

export interface Answer {
  status?: number;
  body?: unknown;
  /** In place of a body: lines of JSON, as they are. */
  text?: string;
  /** Milliseconds until it is answered; `never` leaves it open. */
  after?: number | 'never';
  /** The connection is cut. */
  cut?: boolean;
}

export interface Asked {
  method: string;
  path: string;
  query: URLSearchParams;
  body: unknown;
}

export type Handler = (asked: Asked) => Answer | Promise<Answer>;

const types: Record<string, string> = {
  '.html': 'text/html; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
  '.svg': 'image/svg+xml',
  '.woff2': 'font/woff2',
};

export class StandIn {
  readonly asked: Asked[] = [];
  readonly violations: string[] = [];
  /** The latest handler for a `GET /path` wins. */
  #handlers = new Map<string, Handler>();
  #streams = new Set<ServerResponse>();
  #snapshot: unknown;
  #server = createServer((req, res) => void this.#serve(req, res));

  async start(): Promise<string> {
    await new Promise<void>((done) => this.#server.listen(0, '127.0.0.1', done));
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  async stop(): Promise<void> {
    this.#server.closeAllConnections();
    await new Promise((done) => this.#server.close(done));
  }

  on(route: string, answer: Handler | Answer): this {
    this.#handlers.set(route, typeof answer === 'function' ? answer : () => answer);
    return this;
  }

  /** What is inlined into the document. */
  inline(snapshot: unknown): this {
    this.#snapshot = snapshot;
    return this;
  }

  /** A message on every open stream. */
  push(event: string, data: unknown, id = '') {
    for (const res of this.#streams) {
      res.write(`${id ? `id: ${id}\n` : ''}event: ${event}\ndata: ${JSON.stringify(data)}\n\n`);
    }
  }

  get streams(): number {
    return this.#streams.size;
  }

  /** Ends every stream; the next ones may come back. */
  drop() {
    for (const res of this.#streams) res.destroy();
  }

  async #serve(req: IncomingMessage, res: ServerResponse) {
    const url = new URL(req.url ?? '/', 'http://stand.in');
    const chunks: Buffer[] = [];
    for await (const chunk of req) chunks.push(chunk as Buffer);
    const text = Buffer.concat(chunks).toString();
    if (url.pathname === '/csp-report') {
      this.violations.push(text);
      res.writeHead(204).end();
      return;
    }
    if (url.pathname.startsWith('/api/v1/')) await this.#api(req, res, url, text);
    else file(res, url.pathname, this.#snapshot);
  }

  async #api(req: IncomingMessage, res: ServerResponse, url: URL, text: string) {
    const path = url.pathname.slice('/api/v1'.length);
    let body: unknown;
    try {
      body = text ? JSON.parse(text) : undefined;
    } catch {
      body = text;
    }
    const asked: Asked = { method: req.method ?? 'GET', path, query: url.searchParams, body };
    this.asked.push(asked);
    const handler = this.#handlers.get(`${asked.method} ${path}`) ?? this.#handlers.get(`${asked.method} *`);
    if (!handler && path === '/stream') {
      res.writeHead(200, { 'Content-Type': 'text/event-stream', 'Cache-Control': 'no-store' });
      this.#streams.add(res);
      res.on('close', () => this.#streams.delete(res));
      res.write(`event: hello\ndata: {"stream":"str_1","version":"test","time":"2026-01-02T15:04:05Z","web":""}\n\n`);
      return;
    }
    const missing: Answer = { status: 404, body: { code: 'not_found', message: `no route ${asked.method} ${path}` } };
    const answer = handler ? await handler(asked) : missing;
    if (answer.after === 'never') return;
    if (answer.after) await new Promise((done) => setTimeout(done, answer.after as number));
    if (answer.cut) {
      res.destroy();
      return;
    }
    const status = answer.status ?? 200;
    res.writeHead(status, { 'Content-Type': 'application/json', 'Cache-Control': 'no-store' });
    res.end(status === 204 ? undefined : (answer.text ?? JSON.stringify(answer.body ?? {})));
  }
}

/** A file of the built page; every other path is the page itself, with what is inlined into it. */
export function file(res: ServerResponse, path: string, snapshot?: unknown) {
  const name = normalize(path).replace(/^\/+/, '');
  const asset = name.startsWith('assets/');
  const head = {
    'Content-Security-Policy': policy,
    'X-Content-Type-Options': 'nosniff',
    'Cross-Origin-Opener-Policy': 'same-origin',
    'Cross-Origin-Resource-Policy': 'same-origin',
    'Referrer-Policy': 'no-referrer',
  };
  try {
    let content: string | Buffer = readFileSync(join(dist, asset ? name : 'index.html'));
    if (!asset) content = content.toString().replaceAll('__CSP_NONCE__', 'test');
    if (!asset && snapshot) {
      const json = JSON.stringify(snapshot).replaceAll('<', '\\u003c');
      content = content
        .toString()
        .replace('<div id="root">', `<script type="application/json" id="snapshot">${json}</script><div id="root">`);
    }
    res.writeHead(200, {
      ...head,
      'Content-Type': types[asset ? extname(name) : '.html'] ?? 'application/octet-stream',
    });
    res.end(content);
  } catch {
    res.writeHead(404, head).end();
  }
}
