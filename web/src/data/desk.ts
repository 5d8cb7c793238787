import type { Frame } from './frame';
import type { Hub } from './hub';
import { Session } from './session';
import { MAX_SESSIONS, type Want } from './signals';
import type { Page, Source } from './source';

/** What one tab has open. A session that was left stays warm for a while, so that going back shows it at once. */
export class Desk {
  readonly hub: Hub;
  readonly source: Source;
  readonly frame: Frame;
  #sessions = new Map<string, { session: Session; users: number }>();
  #inbox = false;

  constructor(hub: Hub, source: Source, frame: Frame) {
    this.hub = hub;
    this.source = source;
    this.frame = frame;
  }

  inbox(on: boolean): void {
    this.#inbox = on;
    this.#want();
  }

  /** Opens a session, or finds it open. Whoever asked closes it. */
  open(id: string, inlined?: Page): Session {
    let entry = this.#sessions.get(id);
    if (!entry) {
      const session = new Session(id, this.source, this.hub, this.frame);
      entry = { session, users: 0 };
      this.#sessions.set(id, entry);
      void session.open(inlined).then(() => this.#want());
    }
    entry.users++;
    // The newest in use is last.
    this.#sessions.delete(id);
    this.#sessions.set(id, entry);
    this.#want();
    return entry.session;
  }

  close(id: string): void {
    const entry = this.#sessions.get(id);
    if (!entry) return;
    entry.users--;
    const idle = [...this.#sessions].filter(([, e]) => e.users <= 0);
    for (const [key, e] of idle.slice(0, Math.max(0, idle.length - 3))) {
      e.session.close();
      this.#sessions.delete(key);
    }
    this.#want();
  }

  /** A session is wanted from its snapshot on, so not before there is one. */
  #want(): void {
    const want: Want = { inbox: this.#inbox, sessions: {} };
    for (const [id, { session }] of [...this.#sessions].slice(-MAX_SESSIONS)) {
      if (session.shown().phase.is === 'ready') want.sessions[id] = session.shown().seq;
    }
    this.hub.want(want);
  }
}
