import { useEffect, useRef } from 'react';
import { call, part } from '../api/client';
import type { Shown } from '../data/session';
import { str } from '../data/wire';

/** What a person has before their eyes is read: said when the state is another one, and when the page is left. */
export function useRead(id: string, shown: Shown): void {
  const said = useRef(0);
  const seq = useRef(0);
  seq.current = shown.seq;
  const word = str(shown.view, 'word');
  const ready = shown.phase.is === 'ready';
  useEffect(() => {
    if (!ready || !word) return;
    const tell = () => {
      if (document.hidden || seq.current <= said.current) return;
      said.current = seq.current;
      // Not to have it marked is a dot too many, no more.
      call(`/sessions/${part(id)}/read`, { method: 'PUT', body: { seq: seq.current } }).catch(() => {});
    };
    const timer = setTimeout(tell, 1000);
    document.addEventListener('visibilitychange', tell);
    return () => {
      clearTimeout(timer);
      document.removeEventListener('visibilitychange', tell);
      tell();
    };
  }, [id, ready, word]);
}
