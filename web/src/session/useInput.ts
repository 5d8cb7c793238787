import { type RefObject, useEffect } from 'react';
import type { ScrollAuthority } from '../data/scroll';

const KEYS = new Set(['PageUp', 'PageDown', 'ArrowUp', 'ArrowDown', 'Home', ' ']);

/** A person's hand on the scroller, in all its forms. */
export function useInput(scroller: RefObject<HTMLElement | null>, authority: ScrollAuthority): void {
  useEffect(() => {
    const el = scroller.current;
    if (!el) return;
    const hand = () => authority.userInput();
    const wheel = (e: WheelEvent) => {
      // Sideways in a body is not a move of the view; down at the end is where one stands already.
      if (e.deltaY < 0 || (e.deltaY > 0 && !authority.atEnd())) hand();
    };
    const pointer = (e: PointerEvent) => {
      // The scroll bar belongs to the scroller itself, right of what it shows.
      if (e.target === el && e.offsetX >= el.clientWidth) hand();
    };
    const key = (e: KeyboardEvent) => {
      if (KEYS.has(e.key) && !(e.target instanceof HTMLElement && e.target.matches('button, input, textarea, select')))
        hand();
      else if (KEYS.has(e.key) && (e.key === 'PageUp' || e.key === 'Home')) hand();
    };
    const focus = (e: FocusEvent) => {
      // Lines are focused by jumps alone, and a jump has the view already.
      if (
        e.target instanceof HTMLElement &&
        e.target !== el &&
        !e.target.dataset.key &&
        e.target.matches(':focus-visible')
      )
        hand();
    };
    el.addEventListener('wheel', wheel, { passive: true });
    el.addEventListener('touchmove', hand, { passive: true });
    el.addEventListener('pointerdown', pointer);
    el.addEventListener('keydown', key);
    el.addEventListener('focusin', focus);
    return () => {
      el.removeEventListener('wheel', wheel);
      el.removeEventListener('touchmove', hand);
      el.removeEventListener('pointerdown', pointer);
      el.removeEventListener('keydown', key);
      el.removeEventListener('focusin', focus);
    };
  }, [scroller, authority]);
}
