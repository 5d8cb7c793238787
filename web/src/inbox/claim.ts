import { call, part } from '../api/client';
import type { Draft } from '../api/types';

/** What a claim needs of the outside; tests give their own. */
export interface ClaimPorts {
  make: (environment: string) => Promise<Draft>;
  giveBack: (id: string) => Promise<unknown>;
  now: () => number;
}

export const daemonPorts: ClaimPorts = {
  make: (environment) => call<Draft>('/drafts', { method: 'POST', body: { environment } }),
  giveBack: (id) => call(`/drafts/${part(id)}`, { method: 'DELETE' }),
  now: () => Date.now(),
};

/**
 * While a task is being written, a warm sandbox is kept for it. One at a time: another environment gives the first
 * back, and one that ran out is asked for again at the next key. That there is none is no fault of the person's and
 * is not told.
 */
export class Claim {
  #ports: ClaimPorts;
  #draft: Draft | undefined;
  #asking = '';
  #refusedAt = Number.NEGATIVE_INFINITY;
  #listener: () => void = () => {};

  constructor(ports: ClaimPorts = daemonPorts) {
    this.#ports = ports;
  }

  onChange(listener: () => void): void {
    this.#listener = listener;
  }

  /** Whether a sandbox waits for this task. */
  warm(environment: string): boolean {
    return this.#held(environment)?.warm === true;
  }

  /** The draft that the task may name, if it still holds. */
  id(environment: string): string | undefined {
    return this.#held(environment)?.id;
  }

  /** Somebody types. Cheap to call at every key. */
  async typing(environment: string): Promise<void> {
    if (environment === '' || this.#asking === environment || this.#held(environment)) return;
    // After a refusal (none warm, none allowed) not at every key again.
    if (this.#ports.now() - this.#refusedAt < 30_000) return;
    this.#asking = environment;
    const before = this.#draft;
    this.#draft = undefined;
    if (before && this.#valid(before)) void this.#ports.giveBack(before.id).catch(() => {});
    try {
      const draft = await this.#ports.make(environment);
      // Meanwhile left, sent or changed: nobody would use it.
      if (this.#asking !== environment) void this.#ports.giveBack(draft.id).catch(() => {});
      else this.#draft = draft;
    } catch {
      this.#refusedAt = this.#ports.now();
    } finally {
      if (this.#asking === environment) this.#asking = '';
      this.#listener();
    }
  }

  /** The task was sent with it: it is the session's now. */
  used(): void {
    this.#draft = undefined;
    this.#asking = '';
    this.#listener();
  }

  /** There will be no task. */
  drop(): void {
    const draft = this.#draft;
    this.used();
    if (draft && this.#valid(draft)) void this.#ports.giveBack(draft.id).catch(() => {});
  }

  #held(environment: string): Draft | undefined {
    const d = this.#draft;
    return d && d.environment === environment && this.#valid(d) ? d : undefined;
  }

  #valid(d: Draft): boolean {
    const expires = Date.parse(d.expires);
    return !Number.isFinite(expires) || expires - 2000 > this.#ports.now();
  }
}
