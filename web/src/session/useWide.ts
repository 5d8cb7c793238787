import { useCallback, useSyncExternalStore } from 'react';

/** Whether a media query holds, and when that changes. */
export function useWide(query: string): boolean {
  return useSyncExternalStore(
    useCallback(
      (call: () => void) => {
        const media = window.matchMedia(query);
        media.addEventListener('change', call);
        return () => media.removeEventListener('change', call);
      },
      [query],
    ),
    () => window.matchMedia(query).matches,
  );
}
