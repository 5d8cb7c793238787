import type { LogEvent } from './wire';

/** From and to, both belonging to it. */
export interface Span {
  from: number;
  to: number;
}

/** The events of one session that are here, by number, with knowledge of what is not. */
export class EventLog {
  #events = new Map<number, LogEvent>();
  /** Sorted, apart from each other. */
  #spans: Span[] = [];

  get size(): number {
    return this.#events.size;
  }

  /** The newest number that is here, 0 for none. */
  get last(): number {
    return this.#spans.at(-1)?.to ?? 0;
  }

  spans(): readonly Span[] {
    return this.#spans;
  }

  get(seq: number): LogEvent | undefined {
    return this.#events.get(seq);
  }

  /** Keeps an event; false when it was here already. */
  add(e: LogEvent): boolean {
    if (e.seq < 1 || this.#events.has(e.seq)) return false;
    this.#events.set(e.seq, e);
    this.#cover(e.seq);
    return true;
  }

  /** Puts a whole body in the place of a cut one. */
  replace(e: LogEvent): void {
    if (this.#events.has(e.seq)) this.#events.set(e.seq, e);
  }

  /** Lets go of events that nobody looks at; they can be asked for again. */
  forget(span: Span): void {
    for (const s of this.here(span)) for (let seq = s.from; seq <= s.to; seq++) this.#events.delete(seq);
    this.#spans = this.#spans.flatMap((s) => {
      const out: Span[] = [];
      if (s.from < span.from) out.push({ from: s.from, to: Math.min(s.to, span.from - 1) });
      if (s.to > span.to) out.push({ from: Math.max(s.from, span.to + 1), to: s.to });
      return out;
    });
  }

  /** The parts of a span that are here. */
  here(span: Span): Span[] {
    const out: Span[] = [];
    for (let i = this.#find(span.from); i < this.#spans.length; i++) {
      const s = this.#spans[i] as Span;
      if (s.from > span.to) break;
      out.push({ from: Math.max(s.from, span.from), to: Math.min(s.to, span.to) });
    }
    return out;
  }

  /** The parts of a span that are not here. */
  missing(span: Span): Span[] {
    const out: Span[] = [];
    let at = span.from;
    for (const s of this.here(span)) {
      if (s.from > at) out.push({ from: at, to: s.from - 1 });
      at = s.to + 1;
    }
    if (at <= span.to) out.push({ from: at, to: span.to });
    return out;
  }

  /** The end of what is here without a gap from seq on; seq - 1 when seq is not here. */
  reach(seq: number): number {
    const s = this.#spans[this.#find(seq)];
    return s && s.from <= seq ? s.to : seq - 1;
  }

  /** The first span that ends at or after seq. */
  #find(seq: number): number {
    let lo = 0;
    let hi = this.#spans.length;
    while (lo < hi) {
      const mid = (lo + hi) >> 1;
      if ((this.#spans[mid] as Span).to < seq) lo = mid + 1;
      else hi = mid;
    }
    return lo;
  }

  #cover(seq: number): void {
    const i = this.#find(seq - 1);
    const before = this.#spans[i];
    if (before?.to === seq - 1) {
      before.to = seq;
      const after = this.#spans[i + 1];
      if (after?.from === seq + 1) {
        before.to = after.to;
        this.#spans.splice(i + 1, 1);
      }
    } else if (before?.from === seq + 1) before.from = seq;
    else this.#spans.splice(i, 0, { from: seq, to: seq });
  }
}
