import { describe, expect, test } from 'vitest';
import type { Word } from '../api/types';
import { readSignal } from '../data/signals';
import { sampleRow } from '../gallery/samples';
import { applyChange, readChange, spoken } from './live';
import { emptyInbox, putRow } from './model';

const row = (id: string, word: Word, seq = 1) => sampleRow(id, word, id, { seq });
const message = (name: string, data: unknown) => {
  const signal = readSignal(name, JSON.stringify(data));
  return signal && readChange(signal);
};

describe('messages', () => {
  test('a row, and one that was put away', () => {
    expect(message('row', row('ses_a', 'working'))).toMatchObject({ is: 'row', row: { seq: 1 } });
    expect(message('row', { ...row('ses_a', 'working'), section: undefined })).toEqual({
      is: 'gone',
      session: 'ses_a',
    });
  });
  test('counts and read marks', () => {
    expect(message('counts', { needs: 3, running: 'x', other: 1 })).toEqual({ is: 'counts', counts: { needs: 3 } });
    expect(message('read', { session: 'ses_a', seq: 4 })).toEqual({ is: 'read', session: 'ses_a', seq: 4 });
  });
  test.each([null, 7, [], {}, { session: {} }, { session: { id: 'ses_a' } }, { session: { id: 'x', owner: null } }])(
    'what is no row is left alone: %j',
    (data) => expect(message('row', data)).toBeUndefined(),
  );
  test('what this page does not know is left alone', () => expect(message('weather', { sun: 1 })).toBeUndefined());
});

test('a list with filters keeps up its own rows and takes in nobody else', () => {
  const list = putRow(emptyInbox, row('ses_a', 'working'));
  const kept = applyChange(list, { is: 'row', row: row('ses_a', 'needs_you', 2) }, false);
  expect(kept.needs.items.map((r) => r.session.id)).toEqual(['ses_a']);
  expect(applyChange(list, { is: 'row', row: row('ses_b', 'working') }, false)).toBe(list);
  expect(applyChange(list, { is: 'counts', counts: { recent: 90 } }, false)).toBe(list);
});

test('only questions and outcomes are spoken, and once', () => {
  const working = row('ses_a', 'working');
  expect(spoken(working, row('ses_a', 'needs_you'))).toContain('Needs you');
  expect(spoken(row('ses_a', 'needs_you'), row('ses_a', 'needs_you', 2))).toBe('');
  expect(spoken(row('ses_a', 'starting'), working)).toBe('');
});
