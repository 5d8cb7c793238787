import type { Span } from './log';
import type { Source } from './source';
import type { LogEvent } from './wire';

/** Most that the daemon gives at once. */
export const PAGE = 500;

export interface Taker {
  missing(span: Span): Span[];
  take(events: LogEvent[]): void;
  failed(): void;
}

/** Reads spans of a log in pages, one request at a time, the newest wish first. */
export class Reader {
  trouble = '';
  #id: string;
  #source: Source;
  #to: Taker;
  #wishes: Span[] = [];
  #busy = false;
  #closed = false;
  /** What has come but is not taken in before the next frame. */
  #coming: Span[] = [];
  #timer: ReturnType<typeof setTimeout> | undefined;
  #tries = 0;

  constructor(id: string, source: Source, to: Taker) {
    this.#id = id;
    this.#source = source;
    this.#to = to;
  }

  need(span: Span): void {
    if (span.to < span.from || this.#closed) return;
    this.#wishes = this.#wishes.filter((w) => w.from < span.from || w.to > span.to);
    this.#wishes.push(span);
    if (!this.#busy && !this.#timer) void this.#run();
  }

  /** Everything that came is in the log now. */
  taken(): void {
    this.#coming = [];
  }

  close(): void {
    this.#closed = true;
    clearTimeout(this.#timer);
  }

  async #run(): Promise<void> {
    this.#busy = true;
    for (;;) {
      const next = this.#next();
      if (!next || this.#closed) break;
      try {
        const events = await this.#source.events(this.#id, {
          after: next.from - 1,
          limit: Math.min(PAGE, next.to - next.from + 1),
        });
        if (this.#closed) break;
        this.#tries = 0;
        this.trouble = '';
        // A log has no gaps: an answer that skips something cannot be completed by asking again.
        const got = events.filter((e) => e.seq >= next.from && e.seq <= next.to);
        if (got.length === 0) throw new Error(`events ${next.from} to ${next.to} could not be read`);
        this.#coming.push({ from: next.from, to: (got.at(-1) as LogEvent).seq });
        this.#to.take(got);
      } catch (e) {
        this.trouble = e instanceof Error ? e.message : String(e);
        this.#to.failed();
        const wait = Math.min(15_000, 300 * 2 ** this.#tries++);
        this.#timer = setTimeout(() => {
          this.#timer = undefined;
          void this.#run();
        }, wait);
        break;
      }
    }
    this.#busy = false;
  }

  /** The first piece of the newest wish that is neither here nor coming. */
  #next(): Span | undefined {
    for (let wish = this.#wishes.at(-1); wish; wish = this.#wishes.at(-1)) {
      let left = this.#to.missing(wish);
      for (const c of this.#coming) left = left.flatMap((s) => without(s, c));
      const first = left[0];
      if (first) return { from: first.from, to: Math.min(first.to, first.from + PAGE - 1) };
      this.#wishes.pop();
    }
    return undefined;
  }
}

function without(s: Span, cut: Span): Span[] {
  if (cut.to < s.from || cut.from > s.to) return [s];
  const out: Span[] = [];
  if (s.from < cut.from) out.push({ from: s.from, to: cut.from - 1 });
  if (s.to > cut.to) out.push({ from: cut.to + 1, to: s.to });
  return out;
}
