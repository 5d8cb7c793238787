import { useEffect, useState } from 'react';
import { announce } from './announcer';
import s from './ConnectionBar.module.css';
import { patience, useConnection } from './connection';
import { clockTime } from './format';
import { t } from './strings';

/** Whether the daemon has been away for longer than most gaps last. */
export function useLost(): number | undefined {
  const { state, since } = useConnection();
  const [lost, setLost] = useState(false);
  useEffect(() => {
    if (state !== 'lost') {
      setLost(false);
      return;
    }
    const timer = setTimeout(() => setLost(true), Math.max(0, since + patience - Date.now()));
    return () => clearTimeout(timer);
  }, [state, since]);
  return lost && state === 'lost' ? since : undefined;
}

/** One line, only when there is something to say. */
export function ConnectionBar() {
  const { outdated } = useConnection();
  const lost = useLost();
  const was = lost !== undefined;
  useEffect(() => {
    if (!was) return;
    return () => announce(t.connection.back);
  }, [was]);
  if (lost !== undefined) {
    return (
      <div className={s.bar} role="status">
        {t.connection.reconnecting(clockTime(lost))}
      </div>
    );
  }
  if (outdated) {
    return (
      <div className={s.note} role="status">
        {t.connection.outdated}{' '}
        <button type="button" className={s.reload} onClick={() => location.reload()}>
          {t.connection.reload}
        </button>
      </div>
    );
  }
  return null;
}
