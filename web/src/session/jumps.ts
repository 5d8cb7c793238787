import type { Session } from '../data/session';
import type { Mark, MarkKind } from '../data/turns';
import { called } from '../data/wire';
import { plain } from './text';
import { w } from './words';

export interface Jump {
  seq: number;
  turn: string;
  n: number;
  kind: 'prompt' | MarkKind;
  label: string;
}

const PROBLEMS = new Set<MarkKind>(['question', 'approval', 'denied', 'error', 'warning']);

/** Everything that a person may want to go to, in order. */
export function jumps(session: Session, turns: readonly string[]): Jump[] {
  const out: Jump[] = [];
  for (const id of turns) {
    const t = session.turn(id);
    if (!t) continue;
    const n = t.index + 1;
    const label = `${called(t.author)}: ${plain(t.text.slice(0, 140))}`;
    out.push({ seq: t.start, turn: id, n, kind: 'prompt', label });
    for (const m of t.marks) out.push({ seq: m.seq, turn: id, n, kind: m.kind, label: labelOf(session, m) });
  }
  return out;
}

export function problems(session: Session, turns: readonly string[]): Jump[] {
  return jumps(session, turns).filter((j) => j.kind !== 'prompt' && PROBLEMS.has(j.kind));
}

/** What is known of a mark without asking for its event. */
function labelOf(session: Session, m: Mark): string {
  const d = session.log.get(m.seq)?.data;
  const text = d ? (d.title ?? d.message ?? d.question ?? d.host ?? d.verdict ?? d.name) : '';
  return typeof text === 'string' && text
    ? `${w.kinds[m.kind]}: ${plain(text.slice(0, 140))}`
    : (w.kinds[m.kind] ?? m.kind);
}
