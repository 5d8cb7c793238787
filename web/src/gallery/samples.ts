import type { Row, View, Word } from '../api/types';
import { sectionOf } from '../inbox/model';
import { roleOf } from '../ui/glyphs';

// Made up for the gallery and its tests: every state once, and texts that are too long.
const alice = { handle: 'alice', name: 'Alice Example', email: 'alice@example.com' };
const bob = { handle: 'bob', name: 'Bob Example', email: 'bob@example.com' };
const at = '2026-01-02T15:04:05Z';

export const people = [
  alice,
  bob,
  { handle: 'carol', name: '' },
  { handle: 'dave', name: 'Dave' },
  { handle: 'erin', name: 'Erin' },
];

const reasons: Record<Word, [string, string]> = {
  draft: ['Not started yet.', ''],
  queued: ['Waits for one of 4 places.', ''],
  starting: ['Starts from the snapshot of this morning.', ''],
  working: ['implement, first attempt: runs node --test test/unit', ''],
  needs_you: ['May it install left-pad from the registry?', 'Answer'],
  paused: ['Its budget of 2.00 USD is spent.', 'Raise the budget'],
  stopping: ['The running command is being ended.', ''],
  stopped: ['Stopped by alice.', 'Continue'],
  proven: ['1 fixed, 16 kept.', 'Review'],
  unproven: ['No test shows the difference.', 'Review'],
  broken: ['2 tests that passed before fail now.', 'Look at the tests'],
  answered: ['The question is answered; nothing was changed.', 'Read'],
  handed_over: ['Three attempts did not make the tests pass.', 'Take over the branch'],
  merged: ['Merged by bob.', ''],
  closed: ['Closed without merging.', ''],
  lost: ['Nothing was heard for 2 minutes; work is safe up to 3f2c1d0.', 'Continue'],
};

export const viewOf = (word: Word, more: Partial<View> = {}): View => ({
  word,
  role: roleOf[word],
  glyph: '',
  reason: reasons[word][0],
  action: reasons[word][1],
  since: at,
  ...more,
});

export const words = Object.keys(reasons) as Word[];

export function sampleRow(id: string, word: Word, title: string, more: Partial<Row> = {}): Row {
  const row: Row = {
    session: {
      id,
      title,
      environment: 'env_shop',
      state: word,
      owner: alice,
      blueprint: 'code-change',
      agent: 'builtin',
      model: 'scripted',
      base: 'main',
      budget: {},
      usage: { input: 0, cache_read: 0, cache_write: 0, output: 0, calls: 0 },
      cost: { known_microusd: 420_000 },
      active_ns: 0,
      created: at,
      updated: at,
      view: viewOf(word),
    },
    environment_name: 'shop',
    unread: false,
    seq: 40,
    read: 20,
    elapsed_ns: 252e9,
    running: word === 'starting' || word === 'working' || word === 'stopping',
    ...more,
  };
  return { ...row, section: more.section ?? sectionOf(row) };
}

const long =
  'A very long title that goes on about what should be done, in which order, and why, with_an_identifier_that_has_no_place_to_break_anywhere_at_all';

export const rows: Row[] = [
  sampleRow('ses_1', 'needs_you', 'Take the discount off every piece', { unread: true }),
  sampleRow('ses_2', 'broken', 'Sort the catalogue by price', {
    unread: true,
    session: { ...sampleRow('ses_2', 'broken', 'Sort the catalogue by price').session, owner: bob },
    change: { id: 'chg_1', number: 1, state: 'open', verdict: 'broken', added: 1204, removed: 317, files: 9 },
  }),
  sampleRow('ses_3', 'proven', long, {
    change: { id: 'chg_2', number: 2, state: 'open', verdict: 'proven', added: 12, removed: 3, files: 2 },
    environment_name: 'an-environment-with-a-long-name',
    session: { ...sampleRow('ses_3', 'proven', long).session, selection: 'sel_1' },
  }),
  sampleRow('ses_4', 'working', 'Say how many of one thing fit', {
    session: {
      ...sampleRow('ses_4', 'working', 'Say how many of one thing fit').session,
      cost: { known_microusd: 1200, unknown: true },
    },
  }),
  sampleRow('ses_5', 'unproven', 'A child of the one above', { parent: 'ses_4' }),
];
