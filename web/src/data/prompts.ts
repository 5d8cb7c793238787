import { type Author, author, fields, type LogEvent, num, str } from './wire';

export interface Prompt {
  id: string;
  author: Author;
  text: string;
  source: string;
  state: string;
  position: number;
  client: string;
  run: string;
  created: string;
}

/** The prompts of a session, as the daemon last told them. */
export class Prompts {
  #all = new Map<string, Prompt>();
  #queue: Prompt[] | undefined;

  /** Those that wait, in order. The same array until something changes. */
  queue(): readonly Prompt[] {
    this.#queue ??= [...this.#all.values()].filter((p) => p.state === 'queued').sort((a, b) => a.position - b.position);
    return this.#queue;
  }

  get(id: string): Prompt | undefined {
    return this.#all.get(id);
  }

  byClient(client: string): Prompt | undefined {
    for (const p of this.#all.values()) if (p.client && p.client === client) return p;
    return undefined;
  }

  load(entries: readonly unknown[]): void {
    this.#all.clear();
    for (const entry of entries) this.put(entry);
    this.#queue = undefined;
  }

  /** Takes one prompt in the form of the API. */
  put(entry: unknown): void {
    const f = fields(entry);
    const id = str(f, 'id');
    if (!id) return;
    this.#all.set(id, {
      id,
      author: author(f, 'author'),
      text: str(f, 'text'),
      source: str(f, 'source'),
      state: str(f, 'state'),
      position: num(f, 'position'),
      client: str(f, 'client_id') || (this.#all.get(id)?.client ?? ''),
      run: str(f, 'run'),
      created: str(f, 'created'),
    });
    this.#queue = undefined;
  }

  /** Adds an event; true when the order may be another one, which only the daemon knows. */
  apply(e: LogEvent): boolean {
    if (e.kind !== 'prompt.queued' && e.kind !== 'prompt.state') return false;
    const d = e.data;
    const id = str(d, 'prompt');
    const old = this.#all.get(id);
    this.#queue = undefined;
    if (e.kind === 'prompt.queued') {
      if (old) return false;
      const last = Math.max(0, ...[...this.#all.values()].map((p) => p.position));
      this.#all.set(id, {
        id,
        author: author(d, 'author'),
        text: str(d, 'text'),
        source: '',
        state: str(d, 'state') || 'queued',
        position: last + 1,
        client: str(d, 'client_id'),
        run: '',
        created: e.time,
      });
      return false;
    }
    if (!old) return true;
    const state = str(d, 'state') || old.state;
    this.#all.set(id, { ...old, state, text: str(d, 'text') || old.text, run: e.run ?? old.run });
    return state === 'queued' && !str(d, 'text');
  }
}
