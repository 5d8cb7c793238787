import { backoff } from './backoff';
import { type Clock, realClock } from './clock';
import { readSignal, type Signal, type Status, sameWant, type Want } from './signals';
import { Parser } from './sse';

/** The daemon sends something at least each 15 s; two missed mean that nobody is there. */
export const SILENCE = 31_000;

export interface StreamOptions {
  /** Where the interface lives on the page's own origin. Never taken from an address. */
  base?: string;
  fetch?: typeof fetch;
  clock?: Clock;
  onSignals: (signals: Signal[]) => void;
  onStatus: (status: Status) => void;
}

/** One connection to the daemon that always comes back and goes on where it stood. */
export class Stream {
  #o: StreamOptions;
  #clock: Clock;
  #fetch: typeof fetch;
  #base: string;
  #want: Want = { inbox: false, sessions: {} };
  #sent: Want = this.#want;
  /** The newest number that was handed on, per session. */
  #positions = new Map<string, number>();
  #refused = new Set<string>();
  /** Reset by the daemon: not asked for until somebody has read it anew. */
  #paused = new Set<string>();
  #status: Status;
  #tries = 0;
  #heard = 0;
  #opened = 0;
  #id = '';
  #abort: AbortController | undefined;
  #retry: (() => void) | undefined;
  #watch: (() => void) | undefined;
  #putting = false;
  #closed = false;

  constructor(options: StreamOptions) {
    this.#o = options;
    this.#clock = options.clock ?? realClock;
    this.#fetch = options.fetch ?? ((...a) => fetch(...a));
    this.#base = options.base ?? '/api/v1';
    this.#status = { condition: 'connecting', since: this.#clock.now(), detail: '' };
  }

  get status(): Status {
    return this.#status;
  }

  /** How far the session was handed on; undefined when it is not wanted. */
  position(session: string): number | undefined {
    return this.#positions.get(session);
  }

  /** Says what is wanted from now on. Opens the connection when there is none yet. */
  want(want: Want): void {
    for (const [session, after] of Object.entries(want.sessions)) {
      const at = this.#positions.get(session);
      if (at === undefined) this.#positions.set(session, after);
      else if (this.#paused.has(session) && after > at) {
        this.#positions.set(session, after);
        this.#paused.delete(session);
      }
    }
    for (const session of [...this.#positions.keys()]) {
      if (!(session in want.sessions)) {
        this.#positions.delete(session);
        this.#refused.delete(session);
        this.#paused.delete(session);
      }
    }
    this.#want = want;
    if (this.#closed) return;
    if (!this.#abort && !this.#retry) void this.#connect();
    else if (this.#id) void this.#put();
  }

  /** Something suggests that trying now makes sense: the network is back, the tab is looked at, somebody signed in. */
  nudge(): void {
    if (this.#closed) return;
    if (this.#retry) {
      this.#retry();
      this.#retry = undefined;
      this.#tries = 0;
      void this.#connect();
    } else if (this.#id && this.#clock.now() - this.#heard > SILENCE / 2) {
      this.#drop();
    }
  }

  close(): void {
    this.#closed = true;
    this.#retry?.();
    this.#retry = undefined;
    this.#drop();
  }

  #wanted(): Want {
    const sessions: Record<string, number> = {};
    for (const [id, at] of this.#positions) if (!this.#refused.has(id) && !this.#paused.has(id)) sessions[id] = at;
    return { inbox: this.#want.inbox, sessions };
  }

  async #connect(): Promise<void> {
    const abort = new AbortController();
    this.#abort = abort;
    this.#id = '';
    if (this.#status.condition === 'signed_out') this.#tell('connecting', '');
    const want = this.#wanted();
    this.#sent = want;
    const query = new URLSearchParams();
    if (want.inbox) query.set('inbox', 'true');
    const sessions = Object.entries(want.sessions).map(([id, at]) => `${id}:${at}`);
    if (sessions.length > 0) query.set('sessions', sessions.join(','));
    this.#listen();
    let detail = '';
    let status = 0;
    try {
      const answer = await this.#fetch(`${this.#base}/stream?${query}`, {
        headers: { accept: 'text/event-stream' },
        cache: 'no-store',
        credentials: 'same-origin',
        signal: abort.signal,
      });
      status = answer.status;
      if (status === 200 && answer.body) await this.#read(answer.body, abort);
      else detail = `the daemon answered ${status}`;
    } catch (e) {
      detail = e instanceof Error ? e.message : String(e);
    }
    if (this.#abort !== abort) return;
    this.#drop(true);
    if (!this.#closed) await this.#next(status, detail);
  }

  async #read(body: ReadableStream<Uint8Array>, abort: AbortController): Promise<void> {
    let batch: Signal[] = [];
    const parser = new Parser((m) => {
      const signal = readSignal(m.event, m.data);
      if (!signal) return;
      this.#note(signal);
      batch.push(signal);
    });
    const reader = body.getReader();
    for (;;) {
      const { done, value } = await reader.read();
      if (done || this.#abort !== abort) return;
      this.#heard = this.#clock.now();
      try {
        parser.push(value);
      } finally {
        // What was read before a fault is true and is handed on: the position moved already.
        if (batch.length > 0) {
          const whole = batch;
          batch = [];
          this.#o.onSignals(whole);
        }
      }
    }
  }

  #note(signal: Signal): void {
    if (signal.is === 'event') {
      const { subject, seq } = signal.event;
      const at = this.#positions.get(subject);
      if (at !== undefined && seq > at) this.#positions.set(subject, seq);
    } else if (signal.is === 'reset') {
      this.#paused.add(signal.session);
      delete this.#sent.sessions[signal.session];
    } else if (signal.is === 'hello') {
      this.#id = signal.stream;
      this.#opened = this.#clock.now();
      this.#tell('live', '');
      void this.#put();
    }
  }

  /** Decides what a connection that ended means. */
  async #next(status: number, detail: string): Promise<void> {
    if (status === 401) this.#tell('signed_out', detail);
    else if (status === 421) this.#tell('misdirected', detail);
    else this.#tell('waiting', detail);
    if (status === 403 || status === 404 || status === 410) await this.#sift();
    if (this.#closed || this.#abort) return;
    // A daemon that greets and hangs up at once must not be called in a circle.
    if (this.#opened && this.#clock.now() - this.#opened > 5000) this.#tries = 0;
    this.#opened = 0;
    const slow = status === 401 || status === 421;
    const wait = slow ? 30_000 : status === 200 && this.#tries === 0 ? 50 + 200 * this.#clock.random() : undefined;
    const ms = wait ?? backoff(this.#tries, this.#clock.random);
    this.#tries++;
    this.#retry = this.#clock.after(ms, () => {
      this.#retry = undefined;
      void this.#connect();
    });
  }

  /** One session that is gone must not cost the others their stream: asks for each and leaves out who is refused. */
  async #sift(): Promise<void> {
    for (const id of Object.keys(this.#wanted().sessions)) {
      try {
        const { status } = await this.#fetch(`${this.#base}/sessions/${encodeURIComponent(id)}`, {
          cache: 'no-store',
          credentials: 'same-origin',
        });
        if (status === 403 || status === 404 || status === 410) {
          this.#refused.add(id);
          this.#o.onSignals([{ is: 'refused', session: id, status }]);
        }
      } catch {
        return;
      }
    }
  }

  /** Changes what an open stream sends. One request at a time; the newest wish wins. */
  async #put(): Promise<void> {
    const id = this.#id;
    if (!id || this.#putting || sameWant(this.#wanted(), this.#sent)) return;
    this.#putting = true;
    const want = this.#wanted();
    let ok = false;
    try {
      const answer = await this.#fetch(`${this.#base}/streams/${encodeURIComponent(id)}`, {
        method: 'PUT',
        headers: { 'content-type': 'application/json' },
        credentials: 'same-origin',
        body: JSON.stringify(want),
      });
      ok = answer.ok;
    } catch {
      // The connection tells more than this request: it is dropped below and comes back with the new wish.
    }
    this.#putting = false;
    if (this.#id !== id || this.#closed) return;
    if (ok) {
      this.#sent = want;
      void this.#put();
    } else this.#drop();
  }

  /** Watches for silence. The timer may come late in a tab that slept: then too it ends what is dead. */
  #listen(): void {
    this.#heard = this.#clock.now();
    const look = () => {
      const left = SILENCE - (this.#clock.now() - this.#heard);
      if (left > 0) this.#watch = this.#clock.after(left, look);
      else this.#drop();
    };
    this.#watch = this.#clock.after(SILENCE, look);
  }

  /** Ends the connection; unless it ended by itself, a new one is made. */
  #drop(ended = false): void {
    const abort = this.#abort;
    this.#watch?.();
    this.#watch = undefined;
    this.#abort = undefined;
    this.#id = '';
    if (ended || !abort) return;
    abort.abort();
    if (!this.#closed) void this.#next(0, 'nothing was heard from the daemon');
  }

  #tell(condition: Status['condition'], detail: string): void {
    if (this.#status.condition === condition && this.#status.detail === detail) return;
    const keep = condition === 'waiting' && this.#status.condition === 'waiting';
    this.#status = { condition, detail, since: keep ? this.#status.since : this.#clock.now() };
    this.#o.onStatus(this.#status);
  }
}
