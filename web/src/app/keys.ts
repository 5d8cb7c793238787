/**
 * Which key does what. Bindings come and go with what is on the screen; `?` lists those that hold.
 *
 * A key is written as one of `j`, `?`, `Enter`, `Shift+U`, `Mod+k` (Ctrl, on Apple machines Cmd), or as two after one
 * another, `g i`. Single keys never fire in a field, behind an open dialog or list, or in a terminal.
 */
export interface Binding {
  keys: string;
  label: string;
  group: string;
  run: (event: KeyboardEvent) => void;
  /** Holds in text fields too; only sensible with Mod. */
  inFields?: boolean;
  /** Holds while a dialog is open. */
  inDialogs?: boolean;
  /** Not listed by `?`: a twin of one that is. */
  hidden?: boolean;
}

/** The parts of a KeyboardEvent that decide; a test can make one up. */
export interface Press {
  key: string;
  ctrlKey: boolean;
  metaKey: boolean;
  altKey: boolean;
  shiftKey: boolean;
}

export interface Place {
  field: boolean;
  dialog: boolean;
  terminal: boolean;
  singleKeys: boolean;
}

export function nameOfPress(e: Press, apple: boolean): string {
  const mod = apple ? e.metaKey && !e.ctrlKey : e.ctrlKey && !e.metaKey;
  const stray = apple ? e.ctrlKey : e.metaKey;
  if (stray || e.altKey) return '';
  const letter = /^[a-z]$/i.test(e.key);
  const named = e.key.length > 1;
  const key = letter
    ? e.shiftKey && !mod
      ? e.key.toUpperCase()
      : e.key.toLowerCase()
    : e.key === ' '
      ? 'Space'
      : e.key;
  // The shift of `?` is how it is typed; the shift of Shift+U and Shift+Enter is meant.
  const shift = e.shiftKey && (letter || named || mod);
  return `${mod ? 'Mod+' : ''}${shift ? 'Shift+' : ''}${key}`;
}

const chordTime = 1200;

export class Keys {
  #bindings: Binding[] = [];
  #pending = '';
  #pendingAt = 0;
  #listeners = new Set<() => void>();
  #list: readonly Binding[] = [];

  add(bindings: readonly Binding[]): () => void {
    this.#bindings = [...this.#bindings, ...bindings];
    this.#changed();
    return () => {
      this.#bindings = this.#bindings.filter((b) => !bindings.includes(b));
      this.#changed();
    };
  }

  /** What holds now; of two with the same keys the one that came last. */
  list(): readonly Binding[] {
    return this.#list;
  }

  subscribe = (listener: () => void): (() => void) => {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  };

  /** The binding that this press completes, if one does. */
  match(press: Press, place: Place, apple: boolean, now: number): Binding | undefined {
    const name = nameOfPress(press, apple);
    if (name === '' || ['Shift', 'Control', 'Meta', 'Alt'].includes(press.key)) return undefined;
    const before = now - this.#pendingAt < chordTime ? this.#pending : '';
    this.#pending = '';
    const may = (b: Binding) => {
      const mod = b.keys.includes('Mod+');
      // Letters, digits and signs are what a slip or dictation produces; Enter or End are not.
      const character = !mod && b.keys.split(' ').some((k) => k.replace(/^Shift\+/, '').length === 1);
      if (place.dialog && !b.inDialogs) return false;
      if (place.terminal && !(mod && b.inFields)) return false;
      if (place.field && !b.inFields) return false;
      return place.singleKeys || !character;
    };
    const fits = this.#list.filter(may);
    if (before) {
      const chord = fits.find((b) => b.keys === `${before} ${name}`);
      if (chord) return chord;
    }
    const single = fits.find((b) => b.keys === name);
    if (single) return single;
    if (fits.some((b) => b.keys.startsWith(`${name} `))) {
      this.#pending = name;
      this.#pendingAt = now;
    }
    return undefined;
  }

  #changed() {
    const seen = new Set<string>();
    const list: Binding[] = [];
    for (const b of [...this.#bindings].reverse()) {
      if (seen.has(b.keys)) continue;
      seen.add(b.keys);
      list.unshift(b);
    }
    this.#list = list;
    for (const listener of this.#listeners) listener();
  }
}
