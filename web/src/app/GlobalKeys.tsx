import { useNavigate } from '@tanstack/react-router';
import { lazy, Suspense, useSyncExternalStore } from 'react';
import { t } from './strings';
import { useKeys } from './useKeys';

const Palette = lazy(() => import('./Palette').then((m) => ({ default: m.Palette })));
const Shortcuts = lazy(() => import('./Shortcuts').then((m) => ({ default: m.Shortcuts })));

type Open = '' | 'palette' | 'shortcuts';
let open: Open = '';
const listeners = new Set<() => void>();
function put(value: Open) {
  open = value;
  for (const listener of listeners) listener();
}
export const openPalette = () => put('palette');
export const openShortcuts = () => put('shortcuts');

/** The next of the page's regions gets the focus; also the way out of a terminal. */
function nextRegion() {
  const regions = [...document.querySelectorAll<HTMLElement>('[data-region]')].filter((r) => r.checkVisibility());
  const at = regions.findIndex((r) => r.contains(document.activeElement));
  const next = regions[(at + 1) % regions.length];
  if (!next) return;
  if (!next.hasAttribute('tabindex')) next.tabIndex = -1;
  next.focus();
}

export function GlobalKeys() {
  const navigate = useNavigate();
  const now = useSyncExternalStore(
    (listener) => {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    () => open,
  );
  useKeys([
    { keys: 'Mod+k', label: t.keys.palette, group: t.keys.groups.go, run: openPalette, inFields: true },
    { keys: '?', label: t.keys.shortcuts, group: t.keys.groups.help, run: openShortcuts },
    { keys: 'g i', label: t.keys.goInbox, group: t.keys.groups.go, run: () => void navigate({ to: '/' }) },
    { keys: 'Mod+F6', label: t.keys.nextRegion, group: t.keys.groups.go, run: nextRegion, inFields: true },
  ]);
  const close = () => put('');
  return (
    <Suspense fallback={null}>
      {now === 'palette' && <Palette onClose={close} />}
      {now === 'shortcuts' && <Shortcuts onClose={close} />}
    </Suspense>
  );
}
