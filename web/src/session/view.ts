import type { Anchor, Port } from '../data/scroll';
import type { Line } from './lines';

/** The scroller of the activity, as the scroll authority sees it. */
export class View implements Port {
  scroller: HTMLElement | null = null;
  /** All lines; those that are drawn are also in `drawn`. */
  lines: readonly Line[] = [];
  /** Brings the line with this index among what is drawn. */
  show: (index: number) => void = () => {};
  /** Lines may still come: what is looked for may be among them. */
  waiting: () => boolean = () => false;
  #drawn = new Map<string, HTMLElement>();

  drawn(key: string, el: HTMLElement | null): void {
    if (el) this.#drawn.set(key, el);
    else this.#drawn.delete(key);
  }

  element(key: string): HTMLElement | undefined {
    return this.#drawn.get(key);
  }

  top = () => this.scroller?.scrollTop ?? 0;
  height = () => this.scroller?.clientHeight ?? 0;
  full = () => this.scroller?.scrollHeight ?? 0;

  moveTo(top: number): void {
    if (this.scroller) this.scroller.scrollTop = top;
  }

  offset(key: string): number | undefined {
    const el = this.#drawn.get(key);
    if (!el || !this.scroller) return undefined;
    return el.getBoundingClientRect().top - this.#edge();
  }

  reveal(key: string): boolean {
    const index = this.lines.findIndex((l) => l.key === key);
    if (index < 0) return this.waiting();
    this.show(index);
    return true;
  }

  first(): Anchor | undefined {
    const edge = this.#edge();
    let best: Anchor | undefined;
    for (const [key, el] of this.#drawn) {
      const box = el.getBoundingClientRect();
      if (box.bottom <= edge) continue;
      const offset = box.top - edge;
      if (!best || offset < best.offset) best = { key, offset };
    }
    return best;
  }

  #edge(): number {
    return this.scroller?.getBoundingClientRect().top ?? 0;
  }
}
