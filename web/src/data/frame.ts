/** Joins what comes into one piece of work per frame, 100 ms while nobody looks. */
export class Frame {
  #work = new Set<() => void>();
  #planned = false;
  #plan: (run: () => void) => void;

  constructor(plan: (run: () => void) => void = nextFrame) {
    this.#plan = plan;
  }

  /** Runs work once, in the next frame, however often it is asked for. */
  ask(work: () => void): void {
    this.#work.add(work);
    if (this.#planned) return;
    this.#planned = true;
    this.#plan(this.run);
  }

  run = (): void => {
    this.#planned = false;
    const work = [...this.#work];
    this.#work.clear();
    for (const w of work) w();
  };
}

/** A tab may be hidden between asking for a frame and getting it, and then gets none: the timer is for that. */
function nextFrame(run: () => void): void {
  if (document.hidden) {
    setTimeout(run, 100);
    return;
  }
  let ran = false;
  const once = () => {
    if (ran) return;
    ran = true;
    cancelAnimationFrame(frame);
    clearTimeout(timer);
    run();
  };
  const frame = requestAnimationFrame(once);
  const timer = setTimeout(once, 250);
}
