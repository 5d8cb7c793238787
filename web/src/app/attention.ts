import { useSyncExternalStore } from 'react';

// How many sessions need this person: shown in the rail, in the tab's title and by the shape of its icon.
let needs = 0;
const listeners = new Set<() => void>();

export function setNeeds(n: number) {
  if (n === needs) return;
  needs = n;
  for (const listener of listeners) listener();
}

export const useNeeds = (): number =>
  useSyncExternalStore(
    (listener) => {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    () => needs,
  );
