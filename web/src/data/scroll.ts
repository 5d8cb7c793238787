// The one authority over where the view stands. Everything that moves it goes through here, and a person's hand wins
// from every state.

export type ScrollPhase =
  /** A person scrolled: nothing but a person moves the view. */
  | 'userControlled'
  /** An old place is being found again, while what is above it still gets its size. */
  | 'restoring'
  /** A prompt that was just sent is put at the top, once. */
  | 'anchoringTurn'
  /** The end is kept in view. */
  | 'following'
  /** A jump to an event, a turn, a find. */
  | 'navigating';

/** A line of the view and how far its top is below the top of the view. */
export interface Anchor {
  key: string;
  offset: number;
}

export interface Saved {
  anchor: Anchor | undefined;
  following: boolean;
}

/** What the authority sees and moves. All in pixels. */
export interface Port {
  top(): number;
  height(): number;
  full(): number;
  moveTo(top: number): void;
  /** Where the line is now, from the top of the view; undefined when it is not drawn. */
  offset(key: string): number | undefined;
  /** Asks that a line be drawn that is not; false when there is no such line. */
  reveal(key: string): boolean;
  /** The first line that is in view. */
  first(): Anchor | undefined;
}

/** How near the end counts as the end. */
const END = 4;
/** Calls of layout without a change of the place after which a jump is over. */
const CALM = 2;

export class ScrollAuthority {
  #port: Port;
  #phase: ScrollPhase = 'restoring';
  #settled = false;
  #anchor: Anchor | undefined;
  #calm = 0;
  /** Where the view stood when we last looked: what it differs by is a person's doing. */
  #last = 0;
  #full = 0;
  #height = 0;
  #tell: () => void;

  constructor(port: Port, tell: () => void = () => {}) {
    this.#port = port;
    this.#tell = tell;
  }

  get phase(): ScrollPhase {
    return this.#phase;
  }

  get settled(): boolean {
    return this.#settled;
  }

  atEnd(): boolean {
    return this.#port.full() - this.#port.height() - this.#port.top() <= END;
  }

  /** A wheel, a finger, a key, the scroll bar: from now on the person decides. */
  userInput(): void {
    if (this.#phase === 'userControlled') return;
    this.#enter('userControlled', this.#port.first());
    this.#seen();
    this.#rest();
  }

  /** The place changed. */
  scrolled(): void {
    const by = this.#port.top() - this.#last;
    if (Math.abs(by) < 1) return;
    if (this.#phase === 'following') {
      // Neither we nor a change of size: the browser brought something into view, on a person's behalf.
      const same = this.#full === this.#port.full() && this.#height === this.#port.height();
      if (!same || by > 0) return;
      this.userInput();
    }
    if (this.#phase !== 'userControlled') return;
    this.#anchor = this.#port.first();
    this.#seen();
    if (by > 0 && this.atEnd()) {
      this.#enter('following', undefined);
      this.#rest();
    }
  }

  /** Back to an old place; without one, to the end. */
  restore(saved: Saved | undefined): void {
    if (!saved || saved.following || !saved.anchor) this.follow();
    else this.#go('restoring', saved.anchor);
  }

  /** A prompt was sent here: its line goes to the top of the view. */
  anchorTurn(key: string): void {
    this.#go('anchoringTurn', { key, offset: 0 });
  }

  navigate(key: string, offset = Math.round(this.#port.height() / 4)): void {
    this.#go('navigating', { key, offset });
  }

  follow(): void {
    this.#enter('following', undefined);
    this.layout();
  }

  save(): Saved {
    return {
      anchor: this.#phase === 'following' ? undefined : (this.#anchor ?? this.#port.first()),
      following: this.#phase === 'following',
    };
  }

  /** What is drawn changed or got another size. Called after each, before it is painted. */
  layout(): void {
    if (this.#phase === 'following') {
      this.#move(this.#port.full() - this.#port.height());
      this.#seen();
      this.#rest();
      return;
    }
    const anchor = this.#anchor;
    if (!anchor) {
      this.#anchor = this.#port.first();
      this.#rest();
      return;
    }
    this.#moved();
    const now = this.#port.offset(anchor.key);
    if (now === undefined) {
      if (this.#phase !== 'userControlled' && this.#port.reveal(anchor.key)) return;
      // The line is gone (a fold closed over it): what is at the top stands for it.
      this.#enter('userControlled', this.#port.first());
      this.#seen();
      this.#rest();
      return;
    }
    const before = this.#port.top();
    const want = this.#anchor?.offset ?? anchor.offset;
    if (Math.abs(now - want) >= 1) this.#move(before + now - want);
    this.#seen();
    if (this.#phase === 'userControlled') {
      // A line that is far out of view says little about what is in it.
      if (Math.abs(want) > 2 * this.#port.height()) this.#anchor = this.#port.first();
      return;
    }
    this.#calm = Math.abs(this.#port.top() - before) < 1 ? this.#calm + 1 : 0;
    if (this.#calm >= CALM) {
      // From here on the line keeps its place until a person moves it. A place that cannot be reached is where it is.
      this.#enter('userControlled', { key: anchor.key, offset: this.#port.offset(anchor.key) ?? anchor.offset });
      this.#rest();
    }
  }

  /** Whether more calls of layout are wanted although nothing changes. */
  get working(): boolean {
    return !this.#settled;
  }

  /** The person scrolled, and what that drew is laid out before we heard of it: the anchor goes along. */
  #moved(): void {
    const by = this.#port.top() - this.#last;
    if (this.#phase !== 'userControlled' || !this.#anchor || Math.abs(by) < 1) return;
    this.#anchor = { key: this.#anchor.key, offset: this.#anchor.offset - by };
    this.#seen();
  }

  #seen(): void {
    this.#last = this.#port.top();
    this.#full = this.#port.full();
    this.#height = this.#port.height();
  }

  #go(phase: ScrollPhase, anchor: Anchor): void {
    this.#enter(phase, anchor);
    this.layout();
  }

  #enter(phase: ScrollPhase, anchor: Anchor | undefined): void {
    this.#phase = phase;
    this.#anchor = anchor;
    this.#settled = false;
    this.#calm = 0;
    this.#tell();
  }

  #rest(): void {
    if (this.#settled) return;
    this.#settled = true;
    this.#tell();
  }

  #move(top: number): void {
    const to = Math.max(0, Math.min(top, this.#port.full() - this.#port.height()));
    if (Math.abs(to - this.#port.top()) < 1) return;
    this.#port.moveTo(to);
  }
}
