import { expect, test } from 'vitest';
import { Rows } from '../data/rows';
import { synthetic } from '../data/testing/synthetic';
import { Turns } from '../data/turns';
import { Folds } from './folds';
import { Lines, lineOf } from './lines';

function world(turns: number, tools: number, open: boolean) {
  const all = synthetic({ session: 'ses_a', turns, tools, open }).events;
  const model = new Turns();
  const rows = new Map<string, Rows>();
  for (const e of all) {
    model.apply(e);
    const t = model.list.at(-1);
    if (!t) continue;
    if (!rows.has(t.id)) rows.set(t.id, new Rows(e.seq));
    rows.get(t.id)?.push(e);
  }
  const items = new Map([...rows].map(([id, r]) => [id, r.items.slice()]));
  return { turns: model.list, items: (id: string) => items.get(id) ?? [] };
}

test('a finished turn is its prompt, one line, its answer and its outcome; a running one is open with closed groups', () => {
  const { turns, items } = world(2, 24, true);
  const lines = new Lines().make(turns, items, new Folds());
  const first = lines.filter((l) => l.turn === turns[0]?.id).map((l) => l.is);
  expect(first).toEqual(['prompt', 'summary', 'answer', 'outcome']);
  const second = lines.filter((l) => l.turn === turns[1]?.id);
  expect(second.some((l) => l.is === 'group')).toBe(true);
  expect(second.some((l) => l.is === 'row' && l.inner)).toBe(false);
  expect(second.at(-1)?.is).toBe('live');
});

test('a turn that ends while it is open stays open', () => {
  const folds = new Folds();
  expect(folds.turn({ id: 'p', state: 'running' })).toBe(true);
  expect(folds.turn({ id: 'p', state: 'done' })).toBe(true);
  expect(folds.turn({ id: 'q', state: 'done' })).toBe(false);
});

test('lines are made again only when something changed', () => {
  const { turns, items } = world(50, 10, false);
  const folds = new Folds();
  const maker = new Lines();
  const first = maker.make(turns, items, folds);
  expect(maker.make(turns, items, folds)).toBe(first);
  folds.setTurn(turns[3]?.id ?? '', true);
  expect(maker.make(turns, items, folds)).not.toBe(first);
});

test('an event is found in its row, or in the group that hides it', () => {
  const { turns, items } = world(1, 24, true);
  const folds = new Folds();
  const lines = new Lines().make(turns, items, folds);
  const group = lines.find((l) => l.is === 'group');
  if (group?.is !== 'group') throw new Error('no group');
  const seq = group.group.rows[1]?.end?.seq ?? 0;
  expect(lines[lineOf(lines, seq)]?.key).toBe(group.key);
  folds.toggle(group.key);
  const opened = new Lines().make(turns, items, folds);
  const line = opened[lineOf(opened, seq)];
  expect(line?.is === 'row' && line.row.end?.seq).toBe(seq);
});
