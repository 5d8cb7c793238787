import { useEffect, useRef, useSyncExternalStore } from 'react';
import { type Binding, Keys, type Place } from './keys';
import { getLook } from './look';

export const keys = new Keys();

export const apple = /mac|iphone|ipad/i.test(typeof navigator === 'undefined' ? '' : navigator.platform);

const openOverlay =
  'dialog[open], [role="dialog"][data-open], [role="alertdialog"][data-open], [role="menu"][data-open], [role="listbox"][data-open]';

function placeOf(target: EventTarget | null): Place {
  const at = target instanceof Element ? target : document.body;
  return {
    field:
      at.matches('input:not([type="checkbox"], [type="radio"], [type="button"]), textarea, select') ||
      (at instanceof HTMLElement && at.isContentEditable),
    terminal: at.closest('[data-terminal]') !== null,
    dialog: document.querySelector(openOverlay) !== null,
    singleKeys: getLook().singleKeys,
  };
}

export function startKeys(): () => void {
  const onKey = (e: KeyboardEvent) => {
    if (e.defaultPrevented || e.isComposing || e.keyCode === 229) return;
    const binding = keys.match(e, placeOf(e.target), apple, performance.now());
    // Enter on a button or link presses that; the list's Enter is for the row that has the mark.
    if (!binding) return;
    if (
      binding.keys === 'Enter' &&
      e.target instanceof Element &&
      e.target.closest('a, button, summary, [role="button"]')
    )
      return;
    e.preventDefault();
    binding.run(e);
  };
  document.addEventListener('keydown', onKey);
  return () => document.removeEventListener('keydown', onKey);
}

/** Binds keys while the component is there. The functions may change at each render, the keys may not. */
export function useKeys(bindings: readonly Binding[]) {
  const latest = useRef(bindings);
  useEffect(() => {
    latest.current = bindings;
  });
  const names = bindings.map((b) => `${b.keys}\n${b.label}`).join('\n\n');
  // biome-ignore lint/correctness/useExhaustiveDependencies: bound anew when the keys or their words change, not at each render
  useEffect(
    () => keys.add(bindings.map((b, i) => ({ ...b, run: (e: KeyboardEvent) => latest.current[i]?.run(e) }))),
    [names],
  );
}

export const useBindings = (): readonly Binding[] => useSyncExternalStore(keys.subscribe, () => keys.list());
