import { useEffect, useRef } from 'react';
import { duration } from '../app/format';
import type { NodeMark } from '../data/turns';
import { cx } from '../ui/cx';
import { useHere, useShown, useTurn } from './hooks';
import s from './steps.module.css';
import { plain } from './text';
import { w } from './words';

/** The blueprint's nodes of the newest turn in the order in which they began; each attempt counts, each leads there. */
export function StepRail() {
  const { session, goTo } = useHere();
  const { turns } = useShown(session);
  const turn = useTurn(turns.at(-1) ?? '');
  const list = useRef<HTMLOListElement>(null);
  const count = turn?.nodes.length ?? 0;
  useEffect(() => {
    // The newest step is the one to see; this box scrolls sideways by itself alone.
    if (list.current && count > 0) list.current.scrollLeft = list.current.scrollWidth;
  }, [count]);
  if (!turn || count === 0) return null;
  return (
    <nav className={s.rail} aria-label={w.steps}>
      <ol ref={list} className={s.list}>
        {steps(turn.nodes).map((n) => (
          <li key={`${n.node}-${n.seq}`} className={s.item}>
            <button
              type="button"
              className={cx(s.step, n.state === 'running' && s.running, bad(n.result) && s.bad)}
              aria-current={n.state === 'running' ? 'step' : undefined}
              title={w.step(plain(n.title || n.node), n.state === 'running' ? w.running : plain(n.result))}
              onClick={() => goTo(n.seq)}
            >
              <span>{plain(n.node || n.title)}</span>
              {n.number > 1 && <span className={s.number}>{n.number}</span>}
              {n.duration > 0 && <span className={s.time}>{duration(n.duration)}</span>}
              <span className="sr-only">{n.state === 'running' ? w.running : plain(n.result)}</span>
            </button>
          </li>
        ))}
      </ol>
    </nav>
  );
}

function bad(result: string): boolean {
  return result === 'failed' || result === 'red' || result === 'error';
}

/** The newest attempt of each node in a row stands for those before it. */
function steps(nodes: readonly NodeMark[]): NodeMark[] {
  const out: NodeMark[] = [];
  for (const n of nodes.slice(-60)) {
    if (out.at(-1)?.node === n.node) out[out.length - 1] = n;
    else out.push(n);
  }
  return out;
}
