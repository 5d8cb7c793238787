import type { Inbox, Row, Word } from '../src/api/types';
import { sampleRow } from '../src/gallery/samples';
import { emptyInbox, putRow } from '../src/inbox/model';
import { StandIn } from './server';

export const who = { user: { handle: 'alice', name: 'Alice Example', email: 'alice@example.com' }, version: 'test' };

export const environments = ['shop', 'billing-service'].map((name) => ({
  id: `env_${name}`,
  name,
  source: `/srv/${name}`,
  default_branch: 'main',
  created: '2026-01-01T00:00:00Z',
  updated: '2026-01-02T00:00:00Z',
}));

const bob = { handle: 'bob', name: 'Bob Example', email: 'bob@example.com' };

function row(n: number, word: Word, title: string, minutes: number, more: Partial<Row> = {}): Row {
  const r = sampleRow(`ses_${n}`, word, title, more);
  const since = new Date(Date.now() - minutes * 60_000).toISOString();
  const view = r.session.view && { ...r.session.view, since };
  return {
    ...r,
    session: { ...r.session, ...(view ? { view } : {}), updated: since, ...(n % 3 === 2 ? { owner: bob } : {}) },
  };
}

const change = (n: number, added: number, removed: number) => ({
  id: `chg_${n}`,
  number: n,
  state: 'open',
  verdict: 'proven',
  added,
  removed,
  files: 3,
});

export function inboxOf(rows: Row[]): Inbox {
  return [...rows].reverse().reduce((inbox, r) => putRow(inbox, r), emptyInbox);
}

export const usual = (): Inbox =>
  inboxOf([
    row(1, 'needs_you', 'Take the discount off every piece of a line', 4, { unread: true, elapsed_ns: 252e9 }),
    row(2, 'paused', 'Move carts from Redis to Postgres without losing one', 31),
    row(3, 'broken', 'Sort the catalogue by price and by name', 52, { unread: true, change: change(3, 120, 31) }),
    row(4, 'working', 'Say on the cart page how many of one thing fit', 1, {
      elapsed_ns: 61e9,
    }),
    row(5, 'starting', 'Find the test that fails now and then', 0, { elapsed_ns: 4e8 }),
    row(6, 'queued', 'Update the README so that each command works', 0),
    row(7, 'proven', 'Round amounts once, at the end', 140, { change: change(7, 12, 3) }),
    row(8, 'unproven', 'Explain why an order can be empty', 200, {
      environment_name: 'billing-service',
      change: change(8, 4, 4),
    }),
    row(9, 'merged', 'Show times of orders in UTC', 1500, { change: change(9, 48, 12) }),
    row(10, 'handed_over', 'Upgrade the driver of the database', 2900),
    row(11, 'stopped', 'Try a smaller image', 4000, { parent: 'ses_10' }),
    row(12, 'answered', 'Which pages need JavaScript?', 9000),
    row(13, 'closed', 'Draw the logo in SVG', 90_000),
    row(14, 'lost', 'Measure the start of the shop', 95_000),
  ]);

/** A daemon with two environments and an inbox. */
export function world(inbox: Inbox = usual()): StandIn {
  return new StandIn()
    .on('GET /whoami', { body: who })
    .on('GET /environments', { body: { items: environments } })
    .on('GET /inbox', { body: inbox })
    .on('POST /drafts', (a) => ({
      status: 201,
      body: {
        id: 'drf_1',
        environment: (a.body as { environment: string }).environment,
        warm: true,
        expires: new Date(Date.now() + 120_000).toISOString(),
      },
    }))
    .on('DELETE /drafts/drf_1', { status: 204 })
    .on('POST /logout', { status: 204 });
}
