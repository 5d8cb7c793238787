import { useEffect } from 'react';
import { call, part } from '../api/client';
import { live } from '../data/live';

let typing = false;

/** The composer says when somebody writes; it goes along with the next sign of life. */
export const setTyping = (on: boolean): void => {
  typing = on;
};

/** Says that this person looks at the session, while the tab is seen. */
export function usePresence(id: string, on: boolean): void {
  useEffect(() => {
    if (!on) return;
    let there = true;
    const path = `/sessions/${part(id)}/presence`;
    const tell = () => {
      if (document.hidden || !there) return;
      call(path, { method: 'PUT', body: { client: live().hub.tab, typing } }).catch((e: unknown) => {
        // A daemon without presence is asked once.
        if (e instanceof Error && 'status' in e && (e.status === 404 || e.status === 405)) there = false;
      });
    };
    tell();
    const timer = setInterval(tell, 20_000);
    document.addEventListener('visibilitychange', tell);
    return () => {
      const was = there;
      there = false;
      if (was) call(path, { method: 'PUT', body: { client: live().hub.tab, left: true } }).catch(() => {});
      clearInterval(timer);
      document.removeEventListener('visibilitychange', tell);
    };
  }, [id, on]);
}
