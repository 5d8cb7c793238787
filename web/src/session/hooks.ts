import { createContext, useCallback, useContext, useSyncExternalStore } from 'react';
import type { Item } from '../data/rows';
import type { Session, Shown } from '../data/session';
import type { Turn } from '../data/turns';
import type { LogEvent } from '../data/wire';
import type { Folds } from './folds';

/** What the parts of one session's page share. */
export interface Here {
  session: Session;
  folds: Folds;
  /** The handle of the person who looks. */
  me: string;
  /** Goes to an event, whatever it takes. */
  goTo: (seq: number) => void;
}

export const HereContext = createContext<Here | undefined>(undefined);

export function useHere(): Here {
  const here = useContext(HereContext);
  if (!here) throw new Error('a part of a session page stands outside of one');
  return here;
}

function useTopic<T>(session: Session, topic: string, get: () => T): T {
  const subscribe = useCallback((call: () => void) => session.topics.on(topic, call), [session, topic]);
  return useSyncExternalStore(subscribe, get);
}

export const useShown = (session: Session): Shown => useTopic(session, 'session', session.shown);

export function useTurn(id: string): Turn | undefined {
  const { session } = useHere();
  return useTopic(session, `turn:${id}`, () => session.turn(id));
}

export function useItems(session: Session, id: string): readonly Item[] {
  return useTopic(session, `items:${id}`, () => session.items(id));
}

export function useLiveText(id: string): string {
  const { session } = useHere();
  return useTopic(session, `live:${id}`, () => session.live(id));
}

export function useEvent(seq: number): LogEvent | undefined {
  const { session } = useHere();
  return useTopic(session, `event:${seq}`, () => session.log.get(seq));
}

export function useQueue() {
  const { session } = useHere();
  return useTopic(session, 'queue', () => session.prompts.queue());
}

export function useFolds(folds: Folds): number {
  return useSyncExternalStore(
    useCallback((call: () => void) => folds.topics.on('folds', call), [folds]),
    () => folds.version,
  );
}
