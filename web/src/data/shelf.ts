import { fields, num, parseJSON } from './wire';

// What this browser keeps: drafts, places, choices. Bounded, with the version in the key, and never a reason to fail:
// a browser that keeps nothing is a browser without memory, no more.

/** The part of Storage that is used. */
export type Box = Pick<Storage, 'getItem' | 'setItem' | 'removeItem' | 'key' | 'length'>;

const PREFIX = 'drydock.1.';
/** Characters, of two bytes each: 2 MB. */
export const MAX_SHELF = 1 << 20;
export const MAX_VALUE = 256 << 10;

export class Shelf {
  #box: Box | undefined;
  #now: () => number;
  #sizes = new Map<string, { at: number; size: number }>();
  #counted = Number.NEGATIVE_INFINITY;

  constructor(box: Box | undefined, now: () => number = Date.now) {
    this.#box = box;
    this.#now = now;
    this.#sweep();
  }

  get(key: string): unknown {
    return fields(this.#read(PREFIX + key)).value;
  }

  /** Keeps a value; false when it could not be kept. The oldest give way. */
  set(key: string, value: unknown): boolean {
    const text = JSON.stringify({ at: this.#now(), value });
    if (text.length > MAX_VALUE) return false;
    const whole = PREFIX + key;
    this.#room(whole, text.length + whole.length);
    for (let tries = 0; tries < 20; tries++) {
      try {
        if (!this.#box) return false;
        this.#box.setItem(whole, text);
        this.#sizes.set(whole, { at: this.#now(), size: text.length + whole.length });
        return true;
      } catch {
        const oldest = this.#oldest(whole);
        if (!oldest) return false;
        this.#drop(oldest);
      }
    }
    return false;
  }

  delete(key: string): void {
    this.#drop(PREFIX + key);
  }

  keys(start: string): string[] {
    return this.#keys()
      .filter((k) => k.startsWith(PREFIX + start))
      .map((k) => k.slice(PREFIX.length));
  }

  #read(whole: string): unknown {
    try {
      return parseJSON(this.#box?.getItem(whole) ?? '');
    } catch {
      return undefined;
    }
  }

  #keys(): string[] {
    try {
      const box = this.#box;
      if (!box) return [];
      return Array.from({ length: box.length }, (_, i) => box.key(i) ?? '').filter((k) => k.startsWith('drydock.'));
    } catch {
      return [];
    }
  }

  /** Removes what an older version of the page left. */
  #sweep(): void {
    for (const key of this.#keys()) if (/^drydock\.\d+\./.test(key) && !key.startsWith(PREFIX)) this.#drop(key);
  }

  #drop(whole: string): void {
    this.#sizes.delete(whole);
    try {
      this.#box?.removeItem(whole);
    } catch {
      // Nothing to be done, and nothing lost.
    }
  }

  /** Makes room. What other tabs wrote is learned now and then, not at each key that is typed. */
  #room(whole: string, need: number): void {
    if (this.#now() - this.#counted > 60_000) this.#count();
    this.#sizes.delete(whole);
    let size = need;
    for (const s of this.#sizes.values()) size += s.size;
    while (size > MAX_SHELF) {
      const oldest = this.#oldest(whole);
      if (!oldest) return;
      size -= this.#sizes.get(oldest)?.size ?? 0;
      this.#drop(oldest);
    }
  }

  #count(): void {
    this.#counted = this.#now();
    this.#sizes.clear();
    for (const k of this.#keys()) {
      if (!k.startsWith(PREFIX)) continue;
      const kept = this.#read(k);
      this.#sizes.set(k, { at: num(fields(kept), 'at'), size: k.length + JSON.stringify(kept ?? '').length });
    }
  }

  #oldest(but: string): string | undefined {
    let oldest: string | undefined;
    let at = Number.POSITIVE_INFINITY;
    for (const [k, s] of this.#sizes) if (k !== but && s.at < at) [oldest, at] = [k, s.at];
    return oldest;
  }
}
