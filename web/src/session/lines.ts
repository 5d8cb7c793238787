import type { Span } from '../data/log';
import type { Group, Item, Row } from '../data/rows';
import { isRunning, type Mark, type Turn } from '../data/turns';
import type { Folds } from './folds';

// The activity as lines, each with a key and drawn by itself: what is folded is not among them. A turn's lines are
// made again only when the turn, its items or its folds change.

export type Line = { key: string; turn: string } & (
  | { is: 'prompt' }
  | { is: 'summary' }
  | { is: 'mark'; seq: number }
  | { is: 'group'; group: Group; open: boolean }
  | { is: 'row'; row: Row; inner: boolean }
  | { is: 'gap'; span: Span }
  | { is: 'answer'; seq: number; head: string }
  | { is: 'live' }
  | { is: 'outcome' }
);

/** About how many nodes a line is drawn with, to know when drawing all of them is too much. */
export const WEIGHT: Record<Line['is'], number> = {
  prompt: 12,
  summary: 14,
  mark: 10,
  group: 8,
  row: 9,
  gap: 3,
  answer: 22,
  live: 5,
  outcome: 20,
};

/** About how high a line is before it was drawn. */
export const HEIGHT: Record<Line['is'], number> = {
  prompt: 76,
  summary: 40,
  mark: 36,
  group: 32,
  row: 32,
  gap: 32,
  answer: 104,
  live: 32,
  outcome: 132,
};

const MAX_MARKS = 5;

export function turnLines(turn: Turn, items: readonly Item[], folds: Folds): Line[] {
  const t = turn.id;
  const out: Line[] = [
    { key: `${t}/prompt`, turn: t, is: 'prompt' },
    { key: `${t}/summary`, turn: t, is: 'summary' },
  ];
  if (folds.turn(turn)) {
    for (const item of items) add(out, t, item, folds);
  } else {
    for (const m of pinned(turn)) out.push({ key: `m${m.seq}`, turn: t, is: 'mark', seq: m.seq });
    if (turn.answer) out.push({ key: `${t}/answer`, turn: t, is: 'answer', ...turn.answer });
  }
  if (isRunning(turn)) out.push({ key: `${t}/live`, turn: t, is: 'live' });
  else if (turn.verdict || turn.failure || turn.outcome) out.push({ key: `${t}/outcome`, turn: t, is: 'outcome' });
  return out;
}

function add(out: Line[], t: string, item: Item, folds: Folds): void {
  if (item.is === 'gap') out.push({ key: item.key, turn: t, is: 'gap', span: item.span });
  else if (item.is === 'row') out.push({ key: item.key, turn: t, is: 'row', row: item, inner: false });
  else {
    const open = folds.has(item.key, true);
    out.push({ key: item.key, turn: t, is: 'group', group: item, open });
    if (open) for (const row of item.rows) out.push({ key: row.key, turn: t, is: 'row', row, inner: true });
  }
}

/** What a folded turn shows all the same: questions, refusals, and in a failed turn where it failed. */
export function pinned(turn: Turn): Mark[] {
  const last = new Map<string, Mark>();
  const out: Mark[] = [];
  for (const m of turn.marks) {
    if (m.kind === 'approval' || m.kind === 'question' || m.kind === 'denied') out.push(m);
    else if (m.kind === 'error') last.set('error', m);
  }
  const error = last.get('error');
  if (error && turn.state === 'failed') out.push(error);
  return out.slice(-MAX_MARKS);
}

/** The place of an event among the lines: its row, the group it is in, or what stands before it. */
export function lineOf(lines: readonly Line[], seq: number): number {
  let best = -1;
  for (let i = 0; i < lines.length; i++) {
    const l = lines[i] as Line;
    if (l.is === 'row' && (l.row.seq === seq || l.row.end?.seq === seq)) return i;
    if (l.is === 'group' && within(l.group, seq) && !l.open) return i;
    if ((l.is === 'mark' || l.is === 'answer') && l.seq === seq) return i;
    if (l.is === 'gap' && l.span.from <= seq && seq <= l.span.to) return i;
    if (startOf(l) <= seq) best = i;
  }
  return best;
}

export function within(g: Group, seq: number): boolean {
  return g.rows.some((r) => r.seq === seq || r.end?.seq === seq);
}

function startOf(l: Line): number {
  if (l.is === 'row') return l.row.seq;
  if (l.is === 'group') return l.group.seq;
  if (l.is === 'gap') return l.span.from;
  return Number.POSITIVE_INFINITY;
}

interface Made {
  turn: Turn;
  items: readonly Item[];
  version: number;
  open: boolean;
  lines: Line[];
}

/** Makes the lines of all turns and keeps those that did not change. */
export class Lines {
  #made = new Map<string, Made>();
  #all: Line[] = [];

  make(turns: readonly Turn[], items: (id: string) => readonly Item[], folds: Folds): readonly Line[] {
    let same = turns.length === this.#made.size;
    const made = new Map<string, Made>();
    for (const turn of turns) {
      const open = folds.turn(turn);
      const of = open ? items(turn.id) : [];
      let m = this.#made.get(turn.id);
      const fresh = m && m.turn === turn && m.open === open && m.version === folds.version;
      if (!m || !fresh || (open && m.items !== of)) {
        m = { turn, items: of, version: folds.version, open, lines: turnLines(turn, of, folds) };
        same = false;
      }
      made.set(turn.id, m);
    }
    this.#made = made;
    if (!same) this.#all = [...made.values()].flatMap((m) => m.lines);
    return this.#all;
  }
}
