import { useSyncExternalStore } from 'react';

// One voice for the whole page: outcomes and questions politely, errors at once. Nothing that streams speaks.
interface Said {
  polite: string;
  urgent: string;
}

let said: Said = { polite: '', urgent: '' };
let turn = 0;
const listeners = new Set<() => void>();

function put(change: Partial<Said>) {
  // The same sentence twice is only spoken twice when the text differs.
  turn = 1 - turn;
  const mark = turn ? '\u00a0' : '';
  const next = { ...said };
  if (change.polite !== undefined) next.polite = change.polite + mark;
  if (change.urgent !== undefined) next.urgent = change.urgent + mark;
  said = next;
  for (const listener of listeners) listener();
}

export const announce = (text: string) => put({ polite: text });
export const announceError = (text: string) => put({ urgent: text });

export function Announcer() {
  const now = useSyncExternalStore(
    (listener) => {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    () => said,
  );
  return (
    <div className="sr-only">
      <div role="status" aria-live="polite">
        {now.polite}
      </div>
      <div role="alert" aria-live="assertive">
        {now.urgent}
      </div>
    </div>
  );
}
