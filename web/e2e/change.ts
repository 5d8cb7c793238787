import type { ChangeDiff, ChangePageData } from '../src/change/model';
import type { StandIn } from './server';
import { world } from './world';

const alice = { handle: 'alice', name: 'Alice Example', email: 'alice@example.com' };
const head = '9b8d59f4f96a8ad757889ff00c585cba76d707d9';

export const page: ChangePageData = {
  change: {
    id: 'chg_1',
    number: 4,
    repository: 'shop',
    session: 'ses_1',
    title: 'Take the discount off every piece',
    body: '',
    state: 'open',
    base: 'main',
    branch: 'drydock/discount',
    base_commit: 'f0df10f679f0df10f679f0df10f679f0df10f679',
    head,
    authors: [alice],
    created: '2026-01-01T00:00:00Z',
    updated: '2026-01-02T00:00:00Z',
  },
  verdict: {
    verdict: 'proven',
    code: 'proven',
    head,
    stale: false,
    evidence: 'evd_1',
    reasons: ['fixed: a code takes its share off every piece'],
    not_shown: ['which changed lines the tests run'],
  },
  meaning: [{ kind: 'test', path: 'test/cart.test.js', text: 'tests are changed', risk: 'note' }],
  checks: [
    {
      check: 'unit',
      kept: 9,
      counts: { fixed: 1, kept: 9 },
      cells: {
        A: { result: 'green', exit_code: 0, passed: 9, failed: 0, skipped: 0, duration_ns: 2.5e9 },
        B: { result: 'green', exit_code: 0, passed: 10, failed: 0, skipped: 0, duration_ns: 3.5e9 },
        D: {
          result: 'red',
          exit_code: 1,
          passed: 9,
          failed: 1,
          skipped: 0,
          duration_ns: 7e9,
          log: { digest: 'sha256:aa', size: 10 },
        },
      },
      cases: [
        {
          id: 'unit/1',
          name: 'a code takes its share',
          class: 'fixed',
          cells: { B: 'green', D: 'red' },
          message: '225 !== 530',
        },
      ],
    },
  ],
  pictures: [],
  commits: [],
  files: { count: 3, added: 8, removed: 2, digest: 'sha256:ff' },
  threads: { open: 0, drafts: 0 },
  approvals: [],
  me: {
    author_of_prompt: false,
    approved: false,
    may_approve: true,
    may_merge: false,
    why_not_merge: 'nobody has approved it',
  },
  actions: ['approve', 'hand_back'],
};

const file = (n: number, path: string, more: object) => ({
  n,
  path,
  status: 'modified',
  kind: 'text',
  added: 4,
  removed: 1,
  role: 'source',
  group: 0,
  size: 100,
  viewed: false,
  changed_since_viewed: false,
  ...more,
});

export const diff = {
  from: page.change.base_commit,
  to: head,
  base: page.change.base_commit,
  digest: 'sha256:ff',
  count: 3,
  added: 8,
  removed: 2,
  items: [
    file(1, 'db/drop.sql', {}),
    file(2, 'docs/\u202egpj.exe', {}),
    file(3, 'logo.png', { kind: 'binary', added: 0, removed: 0 }),
  ],
  groups: [{ name: 'db', why: '2 changed lines', mode: 'read', files: [1, 2, 3] }],
} as unknown as ChangeDiff;

const patches = [
  { n: 1, patch: '@@ -1,2 +1,1 @@\n keep\n--- a comment of SQL\n', bytes: 40 },
  { n: 2, patch: '@@ -1 +1 @@\n-<img src=https://elsewhere.example/x onerror=alert(1)>\n+<b>bold</b>\n', bytes: 80 },
  { n: 3, patch: '', bytes: 0 },
  { next: '' },
];

/** A daemon with one change. */
export const changeWorld = (of: ChangePageData = page): StandIn =>
  world()
    .on('GET /changes/chg_1/page', { body: of })
    .on('GET /changes/chg_1/files', { body: diff })
    .on('GET /changes/chg_1/patches', { text: `${patches.map((p) => JSON.stringify(p)).join('\n')}\n` });
