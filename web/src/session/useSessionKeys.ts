import type { RefObject } from 'react';
import { useKeys } from '../app/useKeys';
import type { Session, Shown } from '../data/session';
import type { Moves } from './Activity';
import { stop } from './effects';
import type { Folds } from './folds';
import { problems } from './jumps';
import { w } from './words';

interface With {
  session: Session;
  folds: Folds;
  moves: RefObject<Moves | null>;
  shown: Shown;
  openJump: () => void;
  openFind: () => void;
  toggle: () => void;
}

export const composerField = () => document.querySelector<HTMLTextAreaElement>('[data-composer]');

/** The keys of the session page. Nothing that approves, merges, denies or removes has one. */
export function useSessionKeys(o: With): void {
  const group = w.keys.group;
  const turn = (by: number) => {
    const { turns } = o.shown;
    const at = turns.indexOf(o.moves.current?.turn() ?? '');
    const to = turns[Math.max(0, Math.min(turns.length - 1, at + by))];
    if (to) o.moves.current?.goToTurn(to);
  };
  const problem = (by: number) => {
    const all = problems(o.session, o.shown.turns);
    const from = lastJump.session === o.session.id ? lastJump.seq : (o.moves.current?.seq() ?? 0);
    const next = by > 0 ? all.find((p) => p.seq > from) : all.findLast((p) => p.seq < from);
    const to = next ?? (by > 0 ? all[0] : all.at(-1));
    if (!to) return;
    lastJump = { session: o.session.id, seq: to.seq };
    o.moves.current?.goTo(to.seq);
  };
  const fold = () => {
    const id = o.moves.current?.turn();
    const t = id ? o.session.turn(id) : undefined;
    if (t) o.folds.setTurn(t.id, !o.folds.turn(t));
  };
  const foldAll = () => {
    const ids = [...o.shown.turns];
    const open = ids.some((id) => {
      const t = o.session.turn(id);
      return t !== undefined && o.folds.turn(t);
    });
    o.folds.setAll(ids, !open);
  };
  useKeys([
    { keys: 'i', label: w.keys.composer, group, run: () => composerField()?.focus() },
    { keys: ']', label: w.keys.nextTurn, group, run: () => turn(1) },
    { keys: '[', label: w.keys.prevTurn, group, run: () => turn(-1) },
    { keys: 'n', label: w.keys.nextProblem, group, run: () => problem(1) },
    { keys: 'p', label: w.keys.prevProblem, group, run: () => problem(-1) },
    { keys: 'o', label: w.keys.jump, group, run: o.openJump },
    { keys: 'x', label: w.keys.fold, group, run: fold },
    { keys: 'Shift+X', label: w.keys.foldAll, group, run: foldAll },
    { keys: 'End', label: w.keys.end, group, run: () => o.moves.current?.follow() },
    { keys: 'b', label: w.keys.inspector, group, run: o.toggle },
    { keys: 'Mod+f', label: w.keys.find, group, run: o.openFind, inFields: true },
    { keys: 'Mod+.', label: w.keys.stop, group, run: () => void stop(o.session), inFields: true },
  ]);
}

let lastJump = { session: '', seq: 0 };
