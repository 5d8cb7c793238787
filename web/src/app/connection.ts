import { useSyncExternalStore } from 'react';

/** What the page knows of the way to the daemon. The stream reports it; the shell shows it. */
export interface Connection {
  state: 'starting' | 'live' | 'lost';
  /** Since when, in milliseconds; of `lost`: when it was last live. */
  since: number;
  /** The page in the browser is not the one that the daemon has now. */
  outdated: boolean;
}

let connection: Connection = { state: 'starting', since: Date.now(), outdated: false };
const listeners = new Set<() => void>();

export function setConnection(change: Partial<Connection>) {
  const next = { ...connection, ...change };
  if (next.state === connection.state && next.outdated === connection.outdated) return;
  connection = next;
  for (const listener of listeners) listener();
}

export const getConnection = (): Connection => connection;

export const subscribeConnection = (listener: () => void): (() => void) => {
  listeners.add(listener);
  return () => listeners.delete(listener);
};

export const useConnection = (): Connection => useSyncExternalStore(subscribeConnection, getConnection);

/** Nothing red before ten seconds: most gaps are shorter than that. */
export const patience = 10_000;
