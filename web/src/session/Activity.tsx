import { ArrowDown } from 'lucide-react';
import { type Ref, useImperativeHandle, useSyncExternalStore } from 'react';
import { number } from '../app/format';
import type { Session } from '../data/session';
import { called, num } from '../data/wire';
import { Button } from '../ui/Button';
import { cx } from '../ui/cx';
import { EmptyState } from '../ui/EmptyState';
import s from './activity.module.css';
import type { Folds } from './folds';
import { useShown } from './hooks';
import { LineView } from './LineView';
import type { Line } from './lines';
import { useActivity } from './useActivity';
import { w } from './words';

export interface Moves {
  goTo: (seq: number) => void;
  goToTurn: (id: string) => void;
  follow: () => void;
  /** The turn at the top of the view. */
  turn: () => string | undefined;
  /** The newest number at the top of the view. */
  seq: () => number;
  sent: () => void;
}

/** The turns of a session in one scroller that only a person, or a jump that a person asked for, moves. */
export function Activity({ session, folds, ref }: { session: Session; folds: Folds; ref: Ref<Moves> }) {
  const shown = useShown(session);
  const a = useActivity(session, folds, shown);
  useImperativeHandle(ref, () => a.moves, [a.moves]);
  const turns = shown.turns;
  const earlier = num(shown.page, 'earlier');
  const last = turns.at(-1);
  const state = useSyncExternalStore(a.onState, a.state);
  return (
    <div className={s.frame}>
      <section
        ref={a.scroller}
        className={s.scroller}
        data-scroller=""
        data-region=""
        data-phase={state.phase}
        data-settled={state.settled}
        data-virtual={a.virtual}
        aria-label={w.activity}
        // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls has to be reached with keys
        tabIndex={0}
        onScroll={a.onScroll}
      >
        <div ref={a.content} className={cx(s.content, a.seeking && s.seeking)}>
          {turns.length === 0 && shown.phase.is === 'ready' && <EmptyState title={w.emptyTitle} text={w.emptyText} />}
          {earlier > 0 && <p className={s.earlier}>{w.earlier(earlier)}</p>}
          {a.above > 0 && <div style={{ blockSize: a.above }} aria-hidden="true" />}
          {byTurn(a.drawn).map(({ turn, lines }) => {
            const t = session.turn(turn);
            if (!t) return null;
            return (
              <article
                key={turn}
                className={cx(s.turn, a.room === turn && s.room)}
                aria-label={w.article(called(t.author), t.index + 1, earlier + turns.length)}
                aria-posinset={t.index + 1}
                aria-setsize={earlier + turns.length}
                data-turn={turn}
                data-state={t.state}
              >
                {lines.map(({ line, index }) => (
                  <LineView
                    key={line.key}
                    line={line}
                    index={index}
                    view={a.view}
                    open={folds.turn(t)}
                    last={turn === last}
                    target={a.target === line.key}
                    measure={a.measure}
                  />
                ))}
              </article>
            );
          })}
          {a.below > 0 && <div style={{ blockSize: a.below }} aria-hidden="true" />}
        </div>
      </section>
      {state.phase !== 'following' && a.fresh > 0 && (
        <div className={s.below}>
          <Button size="small" icon={ArrowDown} onClick={a.moves.follow} title={w.toEnd}>
            {w.newBelow(a.fresh)}
          </Button>
        </div>
      )}
      <span className="sr-only" data-drawn={number(a.drawn.length)} />
    </div>
  );
}

interface Drawn {
  line: Line;
  index: number;
}

function byTurn(drawn: readonly Drawn[]): { turn: string; lines: Drawn[] }[] {
  const out: { turn: string; lines: Drawn[] }[] = [];
  for (const d of drawn) {
    const at = out.at(-1);
    if (at?.turn === d.line.turn) at.lines.push(d);
    else out.push({ turn: d.line.turn, lines: [d] });
  }
  return out;
}
