import { useSyncExternalStore } from 'react';

// Whether this browser has to say who it is. The sign-in form stands in front of the page, so that what was
// written stays where it is.
let needed = false;
const listeners = new Set<() => void>();

function put(value: boolean) {
  if (needed === value) return;
  needed = value;
  for (const listener of listeners) listener();
}

export const signedOut = () => put(true);
export const signedIn = () => put(false);

export const useSignInNeeded = (): boolean =>
  useSyncExternalStore(
    (listener) => {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    () => needed,
  );
