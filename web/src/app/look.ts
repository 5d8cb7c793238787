import { useSyncExternalStore } from 'react';

/** What a person chose for this device. Kept under a versioned key; a full or forbidden storage does no harm. */
export interface Look {
  theme: 'system' | 'light' | 'dark';
  diff: 'green' | 'blue';
  /** Single keys (j, k, e, ...) can be switched off, so that dictation and slips do nothing (WCAG 2.1.4). */
  singleKeys: boolean;
}

const key = 'drydock.v1.look';
const usual: Look = { theme: 'system', diff: 'green', singleKeys: true };

export function readLook(text: string | null): Look {
  try {
    const said: unknown = JSON.parse(text ?? '{}');
    const of = (typeof said === 'object' && said !== null ? said : {}) as Record<string, unknown>;
    return {
      theme: of.theme === 'light' || of.theme === 'dark' ? of.theme : 'system',
      diff: of.diff === 'blue' ? 'blue' : 'green',
      singleKeys: of.singleKeys !== false,
    };
  } catch {
    return usual;
  }
}

let look: Look = usual;
const listeners = new Set<() => void>();

function show() {
  const root = document.documentElement;
  if (look.theme === 'system') delete root.dataset.theme;
  else root.dataset.theme = look.theme;
  if (look.diff === 'green') delete root.dataset.diff;
  else root.dataset.diff = look.diff;
}

export function startLook() {
  const load = () => {
    try {
      look = readLook(localStorage.getItem(key));
    } catch {
      look = usual;
    }
    show();
    for (const listener of listeners) listener();
  };
  load();
  // Chosen in another tab.
  window.addEventListener('storage', (e) => {
    if (e.key === key || e.key === null) load();
  });
}

export function setLook(change: Partial<Look>) {
  look = { ...look, ...change };
  show();
  try {
    localStorage.setItem(key, JSON.stringify(look));
  } catch {
    // It holds until the page is left.
  }
  for (const listener of listeners) listener();
}

export const getLook = (): Look => look;

export function useLook(): Look {
  return useSyncExternalStore(
    (listener) => {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    () => look,
  );
}
