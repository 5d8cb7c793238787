import { type Clock, realClock } from './clock';
import { randomId } from './random';
import type { Signal, Status, Want } from './signals';
import { MAX_SESSIONS } from './signals';
import { Stream, type StreamOptions } from './stream';

// One stream for all tabs of a browser: a daemon on plain HTTP gets six sockets from it, and each stream takes one. A
// lock elects the tab that holds the stream; the others hear it over a channel. A tab that is looked at takes the
// stream from one that is not, because hidden tabs are slowed down or frozen.

const LOCK = 'drydock-stream';

/** The part of LockManager that is used. */
export interface Locks {
  request(name: string, options: LockOptions, hold: (lock: unknown) => Promise<void>): Promise<unknown>;
  query(): Promise<{ held?: { name?: string }[] }>;
}

/** The part of BroadcastChannel that is used. */
export interface Channel {
  postMessage(message: unknown): void;
  onmessage: ((e: MessageEvent) => void) | null;
  close(): void;
}

export interface HubOptions {
  base?: string;
  fetch?: typeof fetch;
  clock?: Clock;
  /** Without both, every tab has a stream of its own. */
  locks?: Locks | undefined;
  channel?: Channel | undefined;
  visible?: () => boolean;
}

type Note =
  | { note: 'want'; tab: string; want: Want }
  | { note: 'who' }
  | { note: 'signals'; signals: Signal[] }
  | { note: 'status'; status: Status; visible: boolean }
  | { note: 'take' }
  | { note: 'nudge' }
  | { note: 'bye'; tab: string };

export type Listener = (signals: readonly Signal[]) => void;

export class Hub {
  readonly tab = randomId('tab_');
  #o: HubOptions;
  #clock: Clock;
  #stream: Stream | undefined;
  #status: Status;
  #want: Want = { inbox: false, sessions: {} };
  #others = new Map<string, Want>();
  #listeners = new Set<Listener>();
  #statusListeners = new Set<() => void>();
  #release: (() => void) | undefined;
  #asking: AbortController | undefined;
  #stealing: (() => void) | undefined;
  #alive: (() => void) | undefined;
  #gone = false;

  constructor(options: HubOptions = {}) {
    this.#o = options;
    this.#clock = options.clock ?? realClock;
    this.#status = { condition: 'connecting', since: this.#clock.now(), detail: '' };
    this.join();
  }

  get leading(): boolean {
    return this.#stream !== undefined;
  }

  status = (): Status => this.#status;

  onStatus = (call: () => void): (() => void) => {
    this.#statusListeners.add(call);
    return () => this.#statusListeners.delete(call);
  };

  listen(call: Listener): () => void {
    this.#listeners.add(call);
    return () => this.#listeners.delete(call);
  }

  /** What this tab wants to hear from now on. */
  want(want: Want): void {
    this.#want = want;
    this.#spread();
    this.#post({ note: 'want', tab: this.tab, want });
  }

  /** The session was read anew up to seq: nothing before that is wanted. */
  moveTo(session: string, seq: number): void {
    if (!(session in this.#want.sessions)) return;
    this.want({ inbox: this.#want.inbox, sessions: { ...this.#want.sessions, [session]: seq } });
  }

  nudge(): void {
    this.#stream?.nudge();
    if (!this.#stream) this.#post({ note: 'nudge' });
  }

  /** The tab was shown or hidden. */
  looked(): void {
    if (this.#visible()) {
      if (this.#stream) this.#stream.nudge();
      else {
        this.#post({ note: 'who' });
        this.#post({ note: 'want', tab: this.tab, want: this.#want });
        this.#waitForLeader();
      }
    }
    if (this.#stream) this.#tellStatus();
  }

  /** Takes part, at first and again after the page came back from the browser's memory. */
  join(): void {
    this.#gone = false;
    const { locks, channel } = this.#o;
    if (!locks || !channel) {
      this.#lead();
      return;
    }
    channel.onmessage = (e) => this.#hear(e.data as Note);
    // A lock of its own says that this tab lives, so that the wishes of a tab that crashed are forgotten.
    void locks.request(this.tab, {}, () => new Promise<void>((done) => (this.#alive = done))).catch(() => {});
    this.#ask(false);
    this.#post({ note: 'want', tab: this.tab, want: this.#want });
    this.#post({ note: 'who' });
    this.#waitForLeader();
  }

  /** Gives everything up at once: the page is left or put into the browser's memory. */
  leave(): void {
    this.#gone = true;
    this.#asking?.abort();
    this.#stealing?.();
    this.#follow();
    this.#release?.();
    this.#alive?.();
    this.#post({ note: 'bye', tab: this.tab });
  }

  #visible(): boolean {
    return this.#o.visible?.() ?? true;
  }

  #ask(steal: boolean): void {
    const asking = new AbortController();
    this.#asking?.abort();
    this.#asking = asking;
    const options: LockOptions = steal ? { steal: true } : { signal: asking.signal };
    this.#o.locks
      ?.request(LOCK, options, () => {
        if (this.#gone) return Promise.resolve();
        this.#lead();
        return new Promise<void>((done) => (this.#release = done));
      })
      .then(
        () => this.#lost(asking),
        () => this.#lost(asking),
      );
  }

  /** The lock was given up or stolen, or the asking was called off: wait for the next turn. */
  #lost(asking: AbortController): void {
    if (this.#asking !== asking || this.#gone) return;
    this.#follow();
    this.#ask(false);
  }

  #lead(): void {
    this.#stealing?.();
    this.#stealing = undefined;
    const o: StreamOptions = {
      clock: this.#clock,
      onSignals: (signals) => {
        this.#hand(signals);
        this.#post({ note: 'signals', signals });
      },
      onStatus: (status) => {
        this.#status = status;
        this.#tellStatus();
      },
    };
    if (this.#o.base) o.base = this.#o.base;
    if (this.#o.fetch) o.fetch = this.#o.fetch;
    this.#stream = new Stream(o);
    this.#status = this.#stream.status;
    this.#tellStatus();
    this.#post({ note: 'who' });
    this.#spread();
    void this.forgetDead();
  }

  #follow(): void {
    this.#stream?.close();
    this.#stream = undefined;
  }

  /** The wishes of all tabs as one: the lowest number of each session, so that nobody misses anything. */
  #spread(): void {
    const stream = this.#stream;
    if (!stream) return;
    const all: Want = { inbox: this.#want.inbox, sessions: { ...this.#want.sessions } };
    for (const want of this.#others.values()) {
      all.inbox ||= want.inbox;
      for (const [id, after] of Object.entries(want.sessions)) {
        if (id in all.sessions) all.sessions[id] = Math.min(all.sessions[id] ?? after, after);
        else if (Object.keys(all.sessions).length < MAX_SESSIONS) all.sessions[id] = after;
      }
    }
    if (!all.inbox && Object.keys(all.sessions).length === 0) return;
    stream.want(all);
    // A session that another tab had before is further than a new wish for it: say so, the tab asks for the rest.
    const told: Signal[] = [];
    for (const [id, after] of Object.entries(all.sessions)) {
      const seq = stream.position(id);
      if (seq !== undefined && seq > after) told.push({ is: 'position', session: id, seq });
    }
    if (told.length > 0) {
      this.#hand(told);
      this.#post({ note: 'signals', signals: told });
    }
  }

  #hear(note: Note): void {
    if (this.#gone) return;
    switch (note.note) {
      case 'want':
        this.#others.set(note.tab, note.want);
        this.#spread();
        break;
      case 'who':
        if (this.#stream) this.#tellStatus();
        this.#post({ note: 'want', tab: this.tab, want: this.#want });
        break;
      case 'signals':
        if (!this.#stream) this.#hand(note.signals);
        break;
      case 'status':
        if (this.#stream) break;
        this.#setStatus(note.status);
        if (note.visible) {
          this.#stealing?.();
          this.#stealing = undefined;
        } else if (this.#visible()) {
          this.#post({ note: 'take' });
          this.#waitForLeader();
        }
        break;
      case 'take':
        if (this.#stream && !this.#visible()) this.#release?.();
        break;
      case 'nudge':
        this.#stream?.nudge();
        break;
      case 'bye':
        this.#others.delete(note.tab);
        this.#spread();
        break;
    }
  }

  /** A leader that is frozen cannot answer, and one that is hidden should give way: after a while it is robbed. */
  #waitForLeader(): void {
    if (this.#stealing || this.#stream || !this.#visible()) return;
    this.#stealing = this.#clock.after(700, () => {
      this.#stealing = undefined;
      if (!this.#stream && this.#visible() && !this.#gone) this.#ask(true);
    });
  }

  /** Forgets the wishes of tabs that ended without a word. */
  async forgetDead(): Promise<void> {
    if (!this.#stream || !this.#o.locks) return;
    const held = new Set((await this.#o.locks.query()).held?.map((l) => l.name));
    for (const tab of this.#others.keys()) if (!held.has(tab)) this.#others.delete(tab);
    this.#spread();
  }

  #tellStatus(): void {
    this.#post({ note: 'status', status: this.#status, visible: this.#visible() });
    for (const call of this.#statusListeners) call();
  }

  #setStatus(status: Status): void {
    this.#status = status;
    for (const call of this.#statusListeners) call();
  }

  #hand(signals: Signal[]): void {
    // All tabs hear the same: what one has, the others have. Who slept says so when it wakes.
    for (const s of signals) {
      if (s.is !== 'event') continue;
      for (const want of [this.#want, ...this.#others.values()]) {
        const at = want.sessions[s.event.subject];
        if (at !== undefined && at < s.event.seq) want.sessions[s.event.subject] = s.event.seq;
      }
    }
    for (const call of this.#listeners) call(signals);
  }

  #post(note: Note): void {
    // Without locks every tab is on its own, and has nobody to tell.
    if (this.#o.locks) this.#o.channel?.postMessage(note);
  }
}
