import type { Cost } from '../api/types';
import { absolute, bytes, duration, money, relative } from '../app/format';
import { useNow } from './clock';

/** `4 min ago`; the whole time in the title and in copies. */
export function RelativeTime({ time }: { time: string | number }) {
  const at = typeof time === 'number' ? time : Date.parse(time);
  const now = useNow('age');
  if (!Number.isFinite(at)) return null;
  return (
    <time dateTime={new Date(at).toISOString()} title={absolute(at)}>
      {relative(at, now)}
    </time>
  );
}

/** A span of time; with `since` it goes on while one looks. */
export function Duration({ ns, since }: { ns: number; since?: number }) {
  return <span className="num">{since === undefined ? duration(ns) : <Running ns={ns} since={since} />}</span>;
}

function Running({ ns, since }: { ns: number; since: number }) {
  const now = useNow('second');
  return duration(ns + Math.max(0, now - since) * 1e6);
}

/** What it cost; of what has no price it says so. */
export function Money({ cost }: { cost: Cost }) {
  if (cost.unknown && cost.known_microusd === 0) return <span className="num">price unknown</span>;
  return (
    <span className="num">
      {cost.unknown && '≥ '}
      {money(cost.known_microusd)}
    </span>
  );
}

export const Bytes = ({ n }: { n: number }) => <span className="num">{bytes(n)}</span>;
