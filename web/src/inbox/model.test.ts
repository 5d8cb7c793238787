import { describe, expect, test } from 'vitest';
import type { Inbox, Row, View, Word } from '../api/types';
import { addPage, emptyInbox, moveRead, nest, putCounts, putRead, putRow, sections } from './model';

function row(id: string, word: Word, more: Partial<Row> = {}): Row {
  const view: View = { word, role: 'idle', glyph: '', reason: '', action: '', since: '2026-01-02T15:04:05Z' };
  return {
    session: { id, title: id, environment: 'env_a', view } as Row['session'],
    environment_name: 'shop',
    unread: false,
    seq: 1,
    elapsed_ns: 0,
    ...more,
  };
}

const ids = (inbox: Inbox) => Object.fromEntries(sections.map((s) => [s, inbox[s].items.map((r) => r.session.id)]));

function inboxOf(rows: Row[]): Inbox {
  return [...rows].reverse().reduce((inbox, r) => putRow(inbox, r), emptyInbox);
}

describe('a row that changes', () => {
  test('keeps its place within its section', () => {
    const before = inboxOf([row('a', 'working'), row('b', 'working'), row('c', 'queued')]);
    const after = putRow(before, row('b', 'stopping', { seq: 2 }));
    expect(ids(after)).toEqual({ needs: [], running: ['a', 'b', 'c'], recent: [] });
    expect(after.running.items[0]).toBe(before.running.items[0]);
    expect(after.running.count).toBe(3);
  });

  test('goes to the top of another section, and both counts follow', () => {
    const before = inboxOf([row('a', 'needs_you'), row('b', 'working')]);
    const after = putRow(before, row('b', 'proven', { seq: 9, unread: true }));
    expect(ids(after)).toEqual({ needs: ['b', 'a'], running: [], recent: [] });
    expect([after.needs.count, after.running.count]).toEqual([2, 0]);
  });

  test('is not put back by an older message', () => {
    const before = inboxOf([row('a', 'proven', { seq: 9 })]);
    expect(putRow(before, row('a', 'working', { seq: 8 }))).toBe(before);
  });
});

describe('reading', () => {
  test('an outcome that was read leaves "needs you", a question does not', () => {
    const before = inboxOf([row('a', 'broken', { unread: true }), row('b', 'needs_you', { unread: true })]);
    const after = putRead(putRead(before, 'a', false), 'b', false);
    expect(ids(after)).toEqual({ needs: ['b'], running: [], recent: ['a'] });
    expect(after.needs.items[0]?.unread).toBe(false);
  });

  test('a mark set in another browser: past all is read, back is unread, in between changes nothing', () => {
    const before = inboxOf([row('a', 'broken', { unread: true, seq: 9, read: 3 })]);
    expect(moveRead(before, 'a', 5).needs.items[0]?.unread).toBe(true);
    const read = moveRead(before, 'a', 9);
    expect(ids(read).recent).toEqual(['a']);
    expect(ids(moveRead(read, 'a', 0)).needs).toEqual(['a']);
  });

  test('made unread, it comes back', () => {
    const before = inboxOf([row('a', 'broken')]);
    expect(ids(putRead(before, 'a', true)).needs).toEqual(['a']);
  });
});

test('a further page shows nobody twice and takes over its cursor', () => {
  const before = inboxOf([row('a', 'closed'), row('b', 'closed')]);
  const after = addPage(before, 'recent', { items: [row('b', 'closed'), row('c', 'closed')], count: 40, next: 'n2' });
  expect(ids(after).recent).toEqual(['a', 'b', 'c']);
  expect(after.recent).toMatchObject({ count: 40, next: 'n2' });
  expect(addPage(after, 'recent', { items: [], count: 40 }).recent.next).toBeUndefined();
});

test('counts that are the same make no new inbox', () => {
  const before = inboxOf([row('a', 'closed')]);
  expect(putCounts(before, { recent: 1, needs: 0 })).toBe(before);
  expect(putCounts(before, { recent: 7 }).recent.count).toBe(7);
});

test('children stand under their parent, and a circle of parents loses nobody', () => {
  const rows = [
    row('child', 'closed', { parent: 'root' }),
    row('other', 'closed'),
    row('root', 'closed'),
    row('x', 'closed', { parent: 'y' }),
    row('y', 'closed', { parent: 'x' }),
    row('far', 'closed', { parent: 'elsewhere' }),
  ];
  const shown = nest(rows).map((n) => `${n.child ? '-' : ''}${n.row.session.id}`);
  expect(shown).toEqual(['other', 'root', '-child', 'far', 'x', '-y']);
});
