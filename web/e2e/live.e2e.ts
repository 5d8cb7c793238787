import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import type { Row } from '../src/api/types';
import { sampleRow, viewOf } from '../src/gallery/samples';
import { accessible, keepsItsFrame, open, shot, startBrowser, type Watched } from './browser';
import type { StandIn } from './server';
import { inboxOf, usual, world } from './world';

startBrowser();

let stand: StandIn;
let address: string;
let w: Watched;

beforeEach(async () => {
  stand = world();
  address = await stand.start();
});
afterEach(async () => {
  w?.clean();
  expect(stand.violations).toEqual([]);
  await w?.close();
  await stand.stop();
});

const enter = async (path = '/', o = {}) => {
  w = await open(address + path, o);
  await w.page.waitForSelector('[data-row]');
  return w.page;
};
const connected = () => expect.poll(() => stand.streams, { timeout: 10_000 }).toBe(1);
const working = (): Row => usual().running.items[0] as Row;

describe('what happens while one looks', () => {
  test('a session that asks goes up, is counted, said once, and no other row is drawn again', async () => {
    const page = await enter();
    await connected();
    await page.evaluate(() => {
      for (const li of document.querySelectorAll('[data-session]')) li.setAttribute('data-same', '');
    });
    const row = working();
    stand.push('row', { ...row, section: 'needs', seq: 41, session: { ...row.session, view: viewOf('needs_you') } });
    stand.push('counts', { needs: 4, running: 2, recent: 8 });
    await page.waitForSelector('[data-section=needs] li:first-child [data-row=ses_4]');
    await expect.poll(() => page.title()).toBe('(4) Inbox · Drydock');
    await expect
      .poll(() => page.locator('[role=status][aria-live=polite]').first().textContent())
      .toContain('Needs you');
    // The nodes of the others are the ones that were there.
    expect(await page.locator('[data-session]:not([data-same])').count()).toBe(1);
  });

  test('a row that only goes on says nothing and stays where it is', async () => {
    const page = await enter();
    await connected();
    const row = working();
    const view = { ...viewOf('working'), reason: 'prove, first attempt' };
    stand.push('row', { ...row, seq: 42, session: { ...row.session, view } });
    await page.waitForSelector('text=prove, first attempt');
    expect(await page.locator('[data-section=running] li').first().getAttribute('data-session')).toBe('ses_4');
    expect((await page.locator('[role=status][aria-live=polite]').first().textContent())?.trim()).toBe('');
  });

  test('read in another browser is read here', async () => {
    const page = await enter();
    await connected();
    stand.push('read', { session: 'ses_3', seq: 40 });
    await page.waitForSelector('[data-section=recent] [data-row=ses_3]');
  });

  test('the stream comes back by itself, and what happened meanwhile is read', async () => {
    const page = await enter();
    await connected();
    const later = usual();
    later.needs.items.unshift(sampleRow('ses_77', 'needs_you', 'Asked while nobody listened'));
    stand.on('GET /inbox', { body: later });
    stand.drop();
    await page.waitForSelector('[data-row=ses_77]', { timeout: 15_000 });
    expect(await page.locator('text=Reconnecting').count()).toBe(0);
  });

  test('after ten seconds without the daemon one line says so, starting waits, and writing goes on', async () => {
    const page = await enter();
    await connected();
    stand.on('GET /stream', { status: 503, body: {} });
    stand.drop();
    await page.waitForTimeout(6000);
    expect(await page.locator('text=Reconnecting').count()).toBe(0);
    await page.waitForSelector('text=Reconnecting, showing', { timeout: 12_000 });
    await page.fill('textarea', 'Written on a train');
    await page.waitForSelector('button[aria-disabled=true]:has-text("Start")');
    await accessible(page);
    await shot(page, 'inbox-lost');
    await page.keyboard.press('Control+Enter');
    expect(stand.asked.filter((a) => a.method === 'POST' && a.path === '/sessions')).toHaveLength(0);
  });
});

describe('what the page is given', () => {
  test('the first rows come with the document, without a question', async () => {
    await stand.stop();
    stand = world().inline({
      who: { user: { handle: 'alice', name: 'Alice', email: '' }, version: '' },
      inbox: usual(),
    });
    address = await stand.start();
    const page = await enter();
    await page.waitForSelector('[data-row=ses_1]');
    const before = stand.asked.filter((a) => a.path === '/whoami').length;
    expect(before).toBe(0);
  });

  test('the rows of the last visit are there before the answer', async () => {
    await enter();
    // The page keeps them when it has them.
    await w.page.waitForFunction(() => localStorage.getItem('drydock.v1.inbox') !== null);
    stand.on('GET /inbox', { after: 'never' });
    await w.page.reload();
    await w.page.waitForSelector('[data-row=ses_1]');
    await w.page.waitForSelector('[aria-busy=true]');
  });

  test('hostile texts are texts', async () => {
    const evil = [
      '<img src=http://evil.example/a.png onerror=alert(1)>',
      '[click](javascript:alert(1)) ![x](http://evil.example/b.png)',
      '<script>document.title="owned"</script><style>*{display:none}</style>',
      '\u202Egnp.exe\u202C \u200b\u2066x\u2069',
      `${'x'.repeat(5000)}`,
    ];
    stand.on('GET /inbox', {
      body: inboxOf(
        evil.map((text, i) => {
          const row = sampleRow(`ses_${i}`, 'needs_you', text);
          const view = { ...viewOf('needs_you'), reason: text, action: text };
          return { ...row, environment_name: text.slice(0, 60), session: { ...row.session, view } };
        }),
      ),
    });
    const page = await enter('/', { size: 'phone' });
    await page.waitForSelector('[data-row=ses_4]');
    await keepsItsFrame(page);
    expect(await page.title()).toContain('Inbox');
    expect(await page.locator('main img, main script, main style, main iframe').count()).toBe(0);
  });

  test('words that this page does not know are shown as they came', async () => {
    const row = sampleRow('ses_1', 'working', 'From tomorrow');
    const view = { ...viewOf('working'), word: 'levitating', role: 'new', glyph: 'x' };
    stand.on('GET /inbox', {
      body: inboxOf([{ ...row, unread: true, session: { ...row.session, view } } as unknown as Row]),
    });
    const page = await enter();
    await page.waitForSelector('text=levitating');
  });
});

describe('what it costs', () => {
  test('bytes, requests, nodes', async () => {
    w = await open(`${address}/login`);
    const sizes: { url: string; bytes: number }[] = [];
    const client = await w.context.newCDPSession(w.page);
    await client.send('Network.enable');
    await client.send('Network.setCacheDisabled', { cacheDisabled: true });
    const urls = new Map<string, string>();
    client.on('Network.requestWillBeSent', (e) => urls.set(e.requestId, e.request.url));
    client.on('Network.loadingFinished', (e) =>
      sizes.push({ url: urls.get(e.requestId) ?? '', bytes: e.encodedDataLength }),
    );
    await w.page.goto(address);
    await w.page.waitForSelector('[data-row]');
    await w.page.waitForLoadState('load');
    const files = sizes.filter((s) => s.url !== '' && !s.url.includes('/api/'));
    expect(files.length).toBeLessThanOrEqual(12);
    const nodes = await w.page.evaluate(() => document.querySelectorAll('*').length);
    expect(nodes).toBeLessThanOrEqual(1500);
    const moved = await w.page.evaluate(
      () =>
        new Promise<number>((done) => {
          let sum = 0;
          new PerformanceObserver((list) => {
            for (const e of list.getEntries()) sum += (e as unknown as { value: number }).value;
          }).observe({ type: 'layout-shift', buffered: true });
          setTimeout(() => done(sum), 300);
        }),
    );
    expect(moved).toBeLessThan(0.1);
  });

  test('a huge inbox is bounded', async () => {
    const few = usual();
    const many = (name: 'needs' | 'running' | 'recent') => ({
      items: Array.from({ length: 20 }, (_, i) =>
        sampleRow(`ses_${name}${i}`, 'working', `Task ${i} of many`, { unread: true }),
      ),
      count: 3401,
      next: 'c',
    });
    stand.on('GET /inbox', {
      body: { ...few, needs: many('needs'), running: many('running'), recent: many('recent') },
    });
    const page = await enter();
    expect(await page.evaluate(() => document.querySelectorAll('*').length)).toBeLessThanOrEqual(1500);
  });
});

describe('for everybody', () => {
  test('forced colours', async () => {
    const page = await enter('/', { forced: true });
    await accessible(page);
    await shot(page, 'inbox-forced');
    await page.goto(`${address}/gallery`);
    await page.waitForSelector('text=IconButton');
    await shot(page, 'gallery-forced');
  });

  test('a window of 320 pixels, and letters twice as large', async () => {
    const page = await enter();
    await page.setViewportSize({ width: 320, height: 640 });
    await keepsItsFrame(page);
    await page.evaluate(() => document.documentElement.style.setProperty('font-size', '200%'));
    await keepsItsFrame(page);
    await shot(page, 'inbox-320');
  });

  test('the ways past the rail, and the rail on a phone', async () => {
    const page = await enter();
    await page.keyboard.press('Tab');
    await page.keyboard.press('Enter');
    expect(await page.evaluate(() => document.activeElement?.id)).toBe('content');
    await page.keyboard.press('Control+F6');
    expect(await page.evaluate(() => document.activeElement?.hasAttribute('data-region'))).toBe(true);
    await page.setViewportSize({ width: 390, height: 844 });
    await page.click('button[aria-label="Open navigation"]');
    await page.waitForSelector('dialog[open] >> text=Appearance');
    await accessible(page);
    await shot(page, 'navigation-phone');
    await page.click('dialog[open] >> text=Appearance');
    await page.waitForURL('**/settings/appearance');
    expect(await page.locator('dialog[open]').count()).toBe(0);
  });

  test('every overlay of the gallery', async () => {
    w = await open(`${address}/gallery`);
    const page = w.page;
    await page.click('role=tab[name=Work]');
    await page.waitForSelector('text=A row in every state');
    await accessible(page);
    await shot(page, 'gallery-work', true);
    await page.click('role=tab[name=Overlays]');
    await page.click('button[aria-label=More]');
    await page.waitForSelector('[role=menuitem]');
    await accessible(page, true);
    await shot(page, 'gallery-menu');
    await page.keyboard.press('Escape');
    await page.click('button:has-text("Popover")');
    await page.waitForSelector('text=of this morning');
    await accessible(page, true);
    await page.keyboard.press('Escape');
    await page.fill('input[placeholder=Choose]', 'model-1');
    await page.waitForSelector('[role=option]');
    await accessible(page, true);
    await shot(page, 'gallery-combobox');
    await page.keyboard.press('Escape');
    for (const name of ['Dialog', 'Sheet at the side', 'Sheet below']) {
      await page.getByRole('button', { name, exact: true }).click();
      await page.waitForSelector('dialog[open]');
      await accessible(page, true);
      await page.keyboard.press('Escape');
      await page.waitForSelector('dialog[open]', { state: 'detached' });
      // The focus is where it was.
      expect(await page.evaluate(() => document.activeElement?.textContent)).toBe(name);
    }
  });
});
