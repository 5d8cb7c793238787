import { useCallback, useEffect, useRef, useState, useSyncExternalStore } from 'react';
import { Claim } from './claim';
import { keepTask, loadTask, type Task } from './draft';

/** The task that is being written: kept a moment after each key and when the page is left. */
export function useTask() {
  const [kept, setKept] = useState(loadTask);
  const latest = useRef(kept);
  latest.current = kept;

  useEffect(() => {
    const timer = setTimeout(() => keepTask(kept), 300);
    return () => clearTimeout(timer);
  }, [kept]);
  useEffect(() => {
    const keep = () => keepTask(latest.current);
    window.addEventListener('pagehide', keep);
    return () => {
      window.removeEventListener('pagehide', keep);
      keep();
    };
  }, []);

  const change = useCallback((part: Partial<Task>) => {
    setKept((k) => ({ ...k, task: { ...k.task, ...part } }));
  }, []);
  return { kept, change, setKept };
}

/** A sandbox that waits for the task. Given back when the page is left without one. */
export function useClaim(environment: string) {
  const [claim] = useState(() => new Claim());
  const listeners = useRef(new Set<() => void>());
  useEffect(() => {
    claim.onChange(() => {
      for (const listener of listeners.current) listener();
    });
    return () => claim.drop();
  }, [claim]);
  const warm = useSyncExternalStore(
    useCallback((listener: () => void) => {
      listeners.current.add(listener);
      return () => listeners.current.delete(listener);
    }, []),
    () => claim.warm(environment),
  );
  return { claim, warm };
}
