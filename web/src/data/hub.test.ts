import { afterEach, beforeEach, expect, test } from 'vitest';
import type { Clock } from './clock';
import { type Channel, Hub, type Locks } from './hub';
import { Daemon } from './testing/daemon';
import { synthetic } from './testing/synthetic';

// Tabs of one browser, each a hub, over locks and channels that behave as a browser's.

class Air {
  ears = new Set<Ear>();
  open(): Ear {
    const ear = new Ear(this);
    this.ears.add(ear);
    return ear;
  }
}

class Ear implements Channel {
  onmessage: ((e: MessageEvent) => void) | null = null;
  frozen = false;
  #air: Air;
  constructor(air: Air) {
    this.#air = air;
  }
  postMessage(message: unknown): void {
    if (this.frozen) return;
    const data = structuredClone(message);
    for (const ear of this.#air.ears)
      if (ear !== this && !ear.frozen) queueMicrotask(() => ear.onmessage?.({ data } as MessageEvent));
  }
  close(): void {
    this.#air.ears.delete(this);
  }
}

class Keys implements Locks {
  #held = new Map<string, { end: (e?: unknown) => void }>();
  #queue = new Map<string, (() => void)[]>();

  async request(name: string, options: LockOptions, hold: (lock: unknown) => Promise<void>): Promise<unknown> {
    if (options.steal) this.#held.get(name)?.end(new DOMException('stolen', 'AbortError'));
    else if (this.#held.has(name)) {
      await new Promise<void>((go, no) => {
        const waiting = this.#queue.get(name) ?? [];
        waiting.push(go);
        this.#queue.set(name, waiting);
        options.signal?.addEventListener('abort', () => {
          this.#queue.set(
            name,
            (this.#queue.get(name) ?? []).filter((w) => w !== go),
          );
          no(options.signal?.reason);
        });
      });
    }
    return new Promise((done, fail) => {
      const mine = {
        end: (e?: unknown) => {
          if (this.#held.get(name) !== mine) return;
          this.#held.delete(name);
          if (e) fail(e);
          else {
            done(undefined);
            this.#queue.get(name)?.shift()?.();
          }
        },
      };
      this.#held.set(name, mine);
      void hold({}).then(() => mine.end());
    });
  }

  async query() {
    return { held: [...this.#held.keys()].map((name) => ({ name })) };
  }
}

const fast: Clock = {
  now: () => Date.now(),
  random: () => 0.5,
  after: (ms, call) => {
    const t = setTimeout(call, ms / 20);
    return () => clearTimeout(t);
  },
};

let server: Daemon;
let base: string;
let air: Air;
let locks: Keys;
let tabs: Hub[];

beforeEach(async () => {
  server = new Daemon();
  base = `${await server.listen()}/api/v1`;
  air = new Air();
  locks = new Keys();
  tabs = [];
});

afterEach(async () => {
  for (const t of tabs) t.leave();
  await server.close();
});

interface Tab {
  hub: Hub;
  ear: Ear;
  heard: string[];
  show(on: boolean): void;
}

function tab(visible = true): Tab {
  const ear = air.open();
  const at = { visible };
  const hub = new Hub({ base, clock: fast, locks, channel: ear, visible: () => at.visible });
  tabs.push(hub);
  const heard: string[] = [];
  hub.listen((signals) => {
    for (const s of signals) heard.push(s.is === 'event' ? `${s.event.subject}:${s.event.seq}` : s.is);
  });
  const show = (on: boolean) => {
    at.visible = on;
    hub.looked();
  };
  return { hub, ear, heard, show };
}

async function until(what: string, holds: () => boolean): Promise<void> {
  const end = Date.now() + 4000;
  while (!holds()) {
    if (Date.now() > end) throw new Error(`never: ${what}`);
    await new Promise((done) => setTimeout(done, 5));
  }
}

test('twelve tabs have one stream, and each hears what it wants', async () => {
  for (const id of ['ses_a', 'ses_b'])
    server.add(id, synthetic({ session: id, turns: 1, tools: 3, open: true }).events);
  const all = Array.from({ length: 12 }, () => tab());
  all.forEach((t, i) => {
    t.hub.want({ inbox: true, sessions: { [i % 2 ? 'ses_a' : 'ses_b']: 0 } });
  });
  const a = server.worlds.get('ses_a')?.events.length ?? 0;
  await until('all', () => all.every((t, i) => t.heard.includes(`${i % 2 ? 'ses_a' : 'ses_b'}:${a}`)));
  expect(server.streams).toBe(1);
  expect(all.filter((t) => t.hub.leading)).toHaveLength(1);
  expect(all.every((t) => t.hub.status().condition === 'live')).toBe(true);
});

test('when the leader leaves, another goes on after what all have heard', async () => {
  const all = synthetic({ session: 'ses_a', turns: 1, tools: 20, open: true }).events;
  server.add('ses_a', all.slice(0, 10));
  const first = tab();
  const second = tab();
  first.hub.want({ inbox: false, sessions: { ses_a: 0 } });
  second.hub.want({ inbox: false, sessions: { ses_a: 0 } });
  await until('heard', () => second.heard.includes('ses_a:10'));
  expect(first.hub.leading).toBe(true);
  first.hub.leave();
  await until('taken over', () => second.hub.leading && server.streams === 1);
  await until('live', () => second.hub.status().condition === 'live');
  server.append('ses_a', all[10] as never);
  await until('goes on', () => second.heard.includes('ses_a:11'));
  expect(second.heard.filter((h) => h.startsWith('ses_a:'))).toHaveLength(11);
});

test('a tab that is looked at takes the stream from a hidden one, also from one that is frozen', async () => {
  server.add('ses_a', synthetic({ session: 'ses_a', turns: 1, tools: 3, open: true }).events);
  const first = tab();
  const second = tab(false);
  for (const t of [first, second]) t.hub.want({ inbox: true, sessions: {} });
  await until('live', () => second.hub.status().condition === 'live');
  expect(first.hub.leading).toBe(true);
  first.show(false);
  second.show(true);
  await until('taken', () => second.hub.leading && !first.hub.leading);
  // Now the other way, and the leader does not answer any more.
  second.show(false);
  first.show(true);
  await until('taken back', () => first.hub.leading);
  await until('live', () => first.hub.status().condition === 'live');
  first.ear.frozen = true;
  second.show(true);
  await until('robbed', () => second.hub.leading && !first.hub.leading);
  await until('one stream', () => server.streams === 1 && second.hub.status().condition === 'live');
});

test('a visible leader keeps the stream', async () => {
  const first = tab();
  const second = tab();
  for (const t of [first, second]) t.hub.want({ inbox: true, sessions: {} });
  await until('live', () => second.hub.status().condition === 'live');
  second.show(true);
  await new Promise((done) => setTimeout(done, 100));
  expect(first.hub.leading).toBe(true);
});

test('a session that is added later follows its own number without a new connection', async () => {
  const b = synthetic({ session: 'ses_b', turns: 1, tools: 3, open: true }).events;
  server.add('ses_a', synthetic({ session: 'ses_a', turns: 1, tools: 3, open: true }).events);
  server.add('ses_b', b);
  const first = tab();
  const second = tab();
  first.hub.want({ inbox: false, sessions: { ses_a: 0 } });
  await until('live', () => first.hub.status().condition === 'live');
  second.hub.want({ inbox: false, sessions: { ses_b: 2 } });
  await until('added', () => second.heard.includes(`ses_b:${b.length}`));
  expect(second.heard).not.toContain('ses_b:2');
  expect(server.asked.filter((q) => q.startsWith('GET /stream'))).toHaveLength(1);
  // A third tab with less is told how far the stream is, to ask for the rest.
  const third = tab();
  third.hub.want({ inbox: false, sessions: { ses_b: 0 } });
  await until('told', () => third.heard.includes('position'));
});

test('without locks each tab has its own stream', async () => {
  const alone = () => {
    const hub = new Hub({ base, clock: fast });
    tabs.push(hub);
    return hub;
  };
  const two = [alone(), alone()];
  for (const h of two) h.want({ inbox: true, sessions: {} });
  await until('two', () => server.streams === 2);
});

test('silence is noticed and answered with a new connection', async () => {
  server.beat = false;
  let now = Date.now();
  const clock: Clock = { ...fast, now: () => now };
  const hub = new Hub({ base, clock });
  tabs.push(hub);
  hub.want({ inbox: true, sessions: {} });
  await until('live', () => hub.status().condition === 'live');
  const before = server.asked.length;
  now += 20_000;
  hub.looked();
  await until('asked again', () => server.asked.length > before);
  await until('live again', () => hub.status().condition === 'live');
});
