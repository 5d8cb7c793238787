/** Who wants to know when what changes. A topic is a word; nobody hears of topics that they did not name. */
export class Topics {
  #listeners = new Map<string, Set<() => void>>();
  #dirty = new Set<string>();

  on(topic: string, call: () => void): () => void {
    let set = this.#listeners.get(topic);
    if (!set) {
      set = new Set();
      this.#listeners.set(topic, set);
    }
    set.add(call);
    return () => {
      set.delete(call);
      if (set.size === 0) this.#listeners.delete(topic);
    };
  }

  mark(topic: string): void {
    this.#dirty.add(topic);
  }

  /** Tells everyone whose topic was marked. */
  tell(): void {
    const dirty = [...this.#dirty];
    this.#dirty.clear();
    for (const topic of dirty) for (const call of [...(this.#listeners.get(topic) ?? [])]) call();
  }
}
