import { afterEach, beforeEach, expect, test } from 'vitest';
import type { Clock } from './clock';
import { Desk } from './desk';
import { Frame } from './frame';
import { Hub } from './hub';
import { type Item, Rows } from './rows';
import type { Session } from './session';
import { daemon } from './source';
import { Daemon } from './testing/daemon';
import { Script, synthetic } from './testing/synthetic';

const ID = 'ses_a';
let server: Daemon;
let origin: string;
let hubs: Hub[];

/** Waits of the client pass a hundred times as fast. */
const fast: Clock = {
  now: () => Date.now(),
  random: () => 0.5,
  after: (ms, call) => {
    const t = setTimeout(call, ms / 100);
    return () => clearTimeout(t);
  },
};

beforeEach(async () => {
  server = new Daemon();
  origin = await server.listen();
  hubs = [];
});

afterEach(async () => {
  for (const h of hubs) h.leave();
  await server.close();
});

function desk(clock: Clock = fast): Desk {
  const hub = new Hub({ base: `${origin}/api/v1`, clock });
  hubs.push(hub);
  return new Desk(hub, daemon(`${origin}/api/v1`), new Frame((run) => setTimeout(run, 1)));
}

async function until(what: string, holds: () => boolean, ms = 8000): Promise<void> {
  const end = Date.now() + ms;
  while (!holds()) {
    if (Date.now() > end) throw new Error(`never: ${what}`);
    await new Promise((done) => setTimeout(done, 5));
  }
}

function flat(items: readonly Item[]): string[] {
  return items.flatMap((i) => (i.is === 'group' ? i.rows.map((r) => r.key) : [i.key]));
}

/** All that is known of the session, as a list of numbers. */
function numbers(s: Session): number[] {
  return s.log.spans().flatMap(({ from, to }) => Array.from({ length: to - from + 1 }, (_, i) => from + i));
}

test('after 20 cuts at random bytes the log is whole, once, in order, and little was sent twice', async () => {
  for (let round = 0; round < 3; round++) {
    const id = `ses_${round}`;
    const all = synthetic({ session: id, turns: 3, tools: 60, open: true }).events;
    server.add(id, all.slice(0, 5));
    const d = desk();
    const s = d.open(id);
    await until('open', () => s.shown().phase.is === 'ready');
    await until('streaming', () => server.streams === 1);
    server.sent = 0;
    let at = 5;
    let once = 0;
    for (let n = 0; n < 20; n++) {
      server.cut = Math.floor(Math.random() * 4000);
      const burst = 1 + Math.floor(Math.random() * 17);
      for (let i = 0; i < burst && at < all.length; i++) {
        once += JSON.stringify(all[at]).length + 60;
        server.append(id, all[at++] as never);
      }
      if (n % 3 === 0) await until('back', () => s.shown().seq === at);
    }
    server.cut = undefined;
    while (at < all.length) server.append(id, all[at++] as never);
    once += JSON.stringify(all.slice(at)).length;
    await until('all', () => s.shown().seq === all.length);
    s.need({ from: 1, to: 5 });
    await until('the beginning', () => s.log.size === all.length);
    expect(numbers(s)).toEqual(all.map((e) => e.seq));
    expect(all.every((e) => JSON.stringify(s.log.get(e.seq)) === JSON.stringify(e))).toBe(true);
    // What went along outline, stream and gaps folds to what the whole log folds to.
    const folded = s.shown().turns.flatMap((t) => flat(s.items(t)));
    const rows = new Rows(1);
    for (const e of all) rows.push(e);
    expect(folded.sort()).toEqual(flat(rows.items).sort());
    expect(server.sent).toBeLessThan(once * 2 + 20 * 40_000);
    hubs.pop()?.leave();
  }
}, 30_000);

test('a gap over the bound is a new snapshot, and the stream goes on after it', async () => {
  const all = synthetic({ session: ID, turns: 40, tools: 100 }).events;
  server.add(ID, all.slice(0, 50));
  const s = desk().open(ID);
  await until('open', () => s.shown().phase.is === 'ready');
  await until('streaming', () => server.streams === 1);
  server.worlds.get(ID)?.events.push(...all.slice(50, 7000));
  server.tell('noop', {});
  server.append(ID, all[7000] as never);
  await until('a new snapshot', () => s.shown().seq === 7001);
  expect(s.log.size).toBeLessThan(200);
  await until('asked for again', () => server.asked.some((a) => a.startsWith('PUT')));
  server.append(ID, all[7001] as never);
  await until('the next', () => s.shown().seq === 7002);
});

test('a session of 100,000 events opens with its outline alone; an open turn is read in pages', async () => {
  const all = synthetic({ session: ID, turns: 200, tools: 240 }).events;
  expect(all.length).toBeGreaterThan(100_000);
  server.add(ID, all);
  const s = desk().open(ID);
  await until('open', () => s.shown().phase.is === 'ready');
  expect(s.shown().turns).toHaveLength(200);
  expect(s.log.size).toBe(0);
  const id = s.shown().turns[77] as string;
  const turn = s.turn(id);
  expect(turn).toMatchObject({ tools: 240, state: 'done', verdict: 'proven', files: 17 });
  expect(s.items(id).map((i) => i.is)).toEqual(['gap']);
  s.need({ from: turn?.start ?? 0, to: (turn?.start ?? 0) + 99 });
  await until('a page', () => s.items(id).length > 1);
  expect(s.log.size).toBe(100);
  expect(s.items(id).at(-1)?.is).toBe('gap');
  s.need({ from: turn?.start ?? 0, to: turn?.end ?? 0 });
  await until('the whole', () => s.items(id).every((i) => i.is !== 'gap'));
  expect(server.asked.filter((a) => a.includes('/events?'))).toHaveLength(2);
});

test('one appended event touches one turn, and nothing that is drawn of the others', async () => {
  const script = synthetic({ session: ID, turns: 3, tools: 20, open: true });
  server.add(ID, script.events);
  const s = desk().open(ID);
  await until('open', () => s.shown().phase.is === 'ready');
  s.need({ from: 1, to: 1000 });
  await until('read', () => s.log.size === script.events.length);
  const before = s.shown().turns.map((t) => [s.turn(t), s.items(t)]);
  const told: string[] = [];
  for (const t of s.shown().turns) s.topics.on(`turn:${t}`, () => told.push(t));
  await until('streaming', () => server.streams === 1);
  server.append(ID, script.add('agent.text', { text: 'one more' }));
  await until('told', () => told.length > 0);
  expect(new Set(told)).toEqual(new Set([s.shown().turns[2]]));
  const after = s.shown().turns.map((t) => [s.turn(t), s.items(t)]);
  expect(after[0]?.[0]).toBe(before[0]?.[0]);
  expect(after[1]?.[1]).toBe(before[1]?.[1]);
  const [old, now] = [before[2]?.[1] as readonly Item[], after[2]?.[1] as readonly Item[]];
  expect(now.length).toBe(old.length + 1);
  expect(old.every((row, i) => now[i] === row)).toBe(true);
});

test('text as it is generated is told to its own topic and gives way to the whole', async () => {
  const script = synthetic({ session: ID, turns: 1, tools: 2, open: true });
  server.add(ID, script.events);
  const s = desk().open(ID);
  await until('streaming', () => server.streams === 1);
  await until('open', () => s.shown().phase.is === 'ready');
  const id = s.shown().turns[0] as string;
  const told: string[] = [];
  s.topics.on(`turn:${id}`, () => told.push('turn'));
  s.topics.on(`items:${id}`, () => told.push('items'));
  for (const text of ['The ', 'total'])
    server.tell('delta', { subject: ID, seq: 0, kind: 'delta', data: { text } }, ID);
  await until('live', () => s.live(id) === 'The total');
  expect(told).toEqual([]);
  server.append(ID, script.add('agent.text', { text: 'The total is right.' }));
  await until('whole', () => s.live(id) === '');
  expect(s.turn(id)?.answer?.head).toBe('The total is right.');
});

test('unknown kinds are neutral rows and do not stop what follows', async () => {
  const script = new Script(ID);
  script.begin(1);
  script.add('quantum.leap', { anything: [1, 2] });
  script.add('agent.text', { text: 'after' });
  server.add(ID, script.events);
  const s = desk().open(ID);
  await until('open', () => s.shown().phase.is === 'ready');
  s.need({ from: 1, to: 100 });
  await until('read', () => s.log.size === script.events.length);
  const items = s.items(s.shown().turns[0] as string);
  expect(items.map((i) => (i.is === 'row' ? i.kind : i.is))).toEqual(['machine', 'node', 'unknown', 'text']);
});

test('refusals are told apart and the rest goes on', async () => {
  const script = synthetic({ session: ID, turns: 1, tools: 2, open: true });
  server.add(ID, script.events);
  const d = desk();
  const gone = d.open('ses_gone');
  const s = d.open(ID);
  await until('refused', () => gone.shown().phase.is === 'refused');
  expect(gone.shown().phase).toMatchObject({ problem: { status: 404 } });
  await until('streaming', () => server.streams === 1);
  // Taken away while it is shown: the stream of the other one must survive that.
  const other = synthetic({ session: 'ses_b', turns: 1, tools: 2, open: true });
  server.add('ses_b', other.events);
  const b = d.open('ses_b');
  await until('open', () => b.shown().phase.is === 'ready');
  server.worlds.delete('ses_b');
  server.drop();
  await until('refused', () => b.shown().phase.is === 'refused');
  server.append(ID, script.add('agent.text', { text: 'still here' }));
  await until('goes on', () => s.shown().seq === script.events.length);
});

test('signed out is said, and signing in goes on where it stood', async () => {
  const script = synthetic({ session: ID, turns: 1, tools: 2, open: true });
  server.add(ID, script.events);
  const d = desk();
  const s = d.open(ID);
  await until('streaming', () => server.streams === 1);
  server.refuse = () => 401;
  server.drop();
  await until('said', () => d.hub.status().condition === 'signed_out');
  server.append(ID, script.add('agent.text', { text: 'meanwhile' }));
  server.refuse = undefined;
  d.hub.nudge();
  await until('back', () => s.shown().seq === script.events.length);
  expect(d.hub.status().condition).toBe('live');
});

test('a hundred thousand events fold in linear time', () => {
  const time = (tools: number) => {
    const all = synthetic({ session: ID, turns: 2, tools }).events;
    const began = performance.now();
    const rows = new Rows(1);
    for (const e of all) rows.push(e);
    return (performance.now() - began) / all.length;
  };
  time(2000);
  const small = Math.min(time(2500), time(2500), time(2500));
  expect(Math.min(time(25_000), time(25_000))).toBeLessThan(small * 6);
});
