import { useCallback, useRef, useSyncExternalStore } from 'react';
import type { Session } from '../data/session';
import type { Folds } from './folds';

/** A number that changes with the turns, and with the items of those that are open. */
export function useItemsOf(session: Session, turns: readonly string[], folds: Folds): number {
  const version = useRef(0);
  const open = turns
    .filter((id) => {
      const t = session.turn(id);
      return t !== undefined && folds.turn(t);
    })
    .join(' ');
  const all = turns.join(' ');
  return useSyncExternalStore(
    useCallback(
      (call: () => void) => {
        const changed = () => {
          version.current++;
          call();
        };
        const offs = all.split(' ').map((id) => session.topics.on(`turn:${id}`, changed));
        for (const id of open.split(' ')) offs.push(session.topics.on(`items:${id}`, changed));
        return () => {
          for (const off of offs) off();
        };
      },
      [session, all, open],
    ),
    () => version.current,
  );
}
