import { useSyncExternalStore } from 'react';

// One clock for the page: it ticks each second while something visible runs, each half minute for ages, and not at
// all in a hidden tab.
type Pace = 'second' | 'age';
const every: Record<Pace, number> = { second: 1000, age: 30_000 };
const now: Record<Pace, number> = { second: Date.now(), age: Date.now() };
const listeners: Record<Pace, Set<() => void>> = { second: new Set(), age: new Set() };
const timers: Partial<Record<Pace, ReturnType<typeof setInterval>>> = {};

function tick(pace: Pace) {
  now[pace] = Date.now();
  for (const listener of listeners[pace]) listener();
}

function adjust(pace: Pace) {
  const wanted = listeners[pace].size > 0 && document.visibilityState === 'visible';
  if (wanted && timers[pace] === undefined) timers[pace] = setInterval(() => tick(pace), every[pace]);
  if (!wanted && timers[pace] !== undefined) {
    clearInterval(timers[pace]);
    delete timers[pace];
  }
}

if (typeof document !== 'undefined') {
  document.addEventListener('visibilitychange', () => {
    for (const pace of ['second', 'age'] as const) {
      if (document.visibilityState === 'visible' && listeners[pace].size > 0) tick(pace);
      adjust(pace);
    }
  });
}

const subscribe: Record<Pace, (listener: () => void) => () => void> = {
  second: (listener) => add('second', listener),
  age: (listener) => add('age', listener),
};
function add(pace: Pace, listener: () => void) {
  if (listeners[pace].size === 0) now[pace] = Date.now();
  listeners[pace].add(listener);
  adjust(pace);
  return () => {
    listeners[pace].delete(listener);
    adjust(pace);
  };
}

export const useNow = (pace: Pace): number => useSyncExternalStore(subscribe[pace], () => now[pace]);
