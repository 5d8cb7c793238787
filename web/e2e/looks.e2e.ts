import { afterAll, describe, test } from 'vitest';
import { emptyInbox } from '../src/inbox/model';
import { accessible, keepsItsFrame, open, type SizeName, shot, sizes, startBrowser } from './browser';
import { page as change, changeWorld } from './change';
import type { StandIn } from './server';
import { inboxOf, usual, world } from './world';

startBrowser();

// Each page in each state, in both themes and at three widths: nothing that the rules of accessibility name, nothing
// that sticks out, no request elsewhere, no report of the policy. DRYDOCK_SHOTS=DIR keeps the pictures.
const problem = (status: number, code: string) => ({
  status,
  body: { code, message: `the inbox is ${code}`, hint: 'drydock doctor' },
});

interface Look {
  name: string;
  path?: string;
  make: () => StandIn;
  /** What is there once the state is reached. */
  ready: string;
}

const looks: Look[] = [
  { name: 'inbox', make: world, ready: '[data-row]' },
  { name: 'inbox-first-run', make: () => world(emptyInbox), ready: 'text=Start with one of these' },
  {
    name: 'inbox-no-environment',
    make: () => world(emptyInbox).on('GET /environments', { body: { items: [] } }),
    ready: 'text=drydock demo',
  },
  { name: 'inbox-no-fit', path: '/?q=nothing', make: () => world(emptyInbox), ready: 'text=No session fits' },
  { name: 'inbox-loading', make: () => world().on('GET /inbox', { after: 'never' }), ready: '[aria-label=Loading]' },
  {
    name: 'inbox-error',
    make: () => world().on('GET /inbox', problem(500, 'internal')),
    ready: 'text=could not be read',
  },
  {
    name: 'inbox-forbidden',
    make: () => world().on('GET /inbox', problem(403, 'denied')),
    ready: 'text=not open to you',
  },
  {
    name: 'inbox-huge',
    make: () => {
      const few = usual();
      const items = Array.from({ length: 20 }, (_, i) =>
        few.recent.items.map((r) => ({ ...r, session: { ...r.session, id: `${r.session.id}${i}` } })),
      ).flat();
      return world({ ...few, recent: { items: items.slice(0, 20), count: 10_204, next: 'c1' } });
    },
    ready: 'text=Show more',
  },
  { name: 'inbox-calm', make: () => world(inboxOf(usual().recent.items)), ready: 'text=Nothing needs you' },
  {
    name: 'login',
    make: () => world().on('GET /whoami', problem(401, 'unauthorized')),
    ready: 'text=Sign in to Drydock',
  },
  { name: 'offline', make: () => world().on('GET /whoami', { cut: true }), ready: 'text=does not answer' },
  { name: 'not-found', path: '/nowhere/at/all', make: world, ready: 'text=Nothing is here' },
  { name: 'settings', path: '/settings/appearance', make: world, ready: 'text=Single keys' },
  { name: 'change', path: '/changes/chg_1', make: () => changeWorld(), ready: 'text=a comment of SQL' },
  {
    name: 'change-unproven',
    path: '/changes/chg_1',
    make: () =>
      changeWorld({
        ...change,
        verdict: { head: change.change.head, stale: true, reasons: [], not_shown: [] },
        meaning: [],
        checks: [],
      }),
    ready: 'text=a comment of SQL',
  },
  {
    name: 'change-missing',
    path: '/changes/chg_9',
    make: () => changeWorld().on('GET /changes/chg_9/page', problem(404, 'not_found')),
    ready: 'text=Nothing is here',
  },
  { name: 'gallery', path: '/gallery', make: world, ready: 'text=Button' },
];

describe.each(looks)('$name', (look) => {
  const stand = look.make();
  const address = stand.start();
  afterAll(() => stand.stop());

  test.each(Object.keys(sizes) as SizeName[])('%s', async (size) => {
    for (const scheme of ['light', 'dark'] as const) {
      const w = await open((await address) + (look.path ?? '/'), { size, scheme });
      await w.page.waitForSelector(look.ready, { timeout: 20_000 });
      await shot(w.page, `${look.name}-${size}-${scheme}`);
      await keepsItsFrame(w.page);
      await accessible(w.page);
      w.clean();
      await w.close();
    }
  });
});
