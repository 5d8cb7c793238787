import type { Shelf } from './shelf';

/** Text that was typed and not sent, per place (a session, the inbox). Survives reload, crash and change of tab. */
export class Drafts {
  #shelf: Shelf;
  #texts = new Map<string, string>();

  constructor(shelf: Shelf) {
    this.#shelf = shelf;
  }

  get(place: string): string {
    let text = this.#texts.get(place);
    if (text === undefined) {
      const kept = this.#shelf.get(`draft.${place}`);
      text = typeof kept === 'string' ? kept : '';
      this.#texts.set(place, text);
    }
    return text;
  }

  set(place: string, text: string): void {
    this.#texts.set(place, text);
    if (text) this.#shelf.set(`draft.${place}`, text);
    else this.#shelf.delete(`draft.${place}`);
  }
}
