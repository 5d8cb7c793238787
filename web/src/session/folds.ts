import { Topics } from '../data/topics';
import { isRunning, type Turn } from '../data/turns';

export type Density = 'closed' | 'smart' | 'open';

export interface Kept {
  turns: Record<string, boolean>;
  groups: string[];
}

/** What of a session is open. A person's word wins over what the density says. */
export class Folds {
  readonly topics = new Topics();
  version = 0;
  #density: Density = 'smart';
  #turns = new Map<string, boolean>();
  #open = new Set<string>();
  /** Turns that were open because they ran stay so when they end: nothing moves by itself. */
  #ran = new Set<string>();

  get density(): Density {
    return this.#density;
  }

  setDensity(to: Density): void {
    this.#density = to;
    this.#turns.clear();
    this.#ran.clear();
    this.#open.clear();
    this.#changed();
  }

  turn(t: Pick<Turn, 'id' | 'state'>): boolean {
    const said = this.#turns.get(t.id);
    if (said !== undefined) return said;
    if (this.#density !== 'smart') return this.#density === 'open';
    if (isRunning(t)) this.#ran.add(t.id);
    return this.#ran.has(t.id);
  }

  setTurn(id: string, open: boolean): void {
    this.#turns.set(id, open);
    this.#changed();
  }

  setAll(ids: readonly string[], open: boolean): void {
    for (const id of ids) this.#turns.set(id, open);
    this.#changed();
  }

  /** Groups and bodies, by their keys. Groups are open in density "open" until they are closed. */
  has(key: string, group = false): boolean {
    const said = this.#open.has(key);
    return group && this.#density === 'open' ? !said : said;
  }

  toggle(key: string): void {
    if (!this.#open.delete(key)) this.#open.add(key);
    this.#changed();
  }

  show(key: string, group = false): void {
    if (this.has(key, group)) return;
    this.toggle(key);
  }

  save(): Kept {
    return { turns: Object.fromEntries(this.#turns), groups: [...this.#open].slice(-200) };
  }

  load(kept: Kept): void {
    for (const [id, open] of Object.entries(kept.turns)) if (typeof open === 'boolean') this.#turns.set(id, open);
    for (const key of kept.groups) if (typeof key === 'string') this.#open.add(key);
  }

  #changed(): void {
    this.version++;
    this.topics.mark('folds');
    this.topics.tell();
  }
}
