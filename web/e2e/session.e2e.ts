import type { Page } from 'playwright-core';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import type { Script } from '../src/data/testing/synthetic';
import { open, startBrowser, type Watched } from './browser';
import { ID, SessionDaemon } from './session';

startBrowser();

let d: SessionDaemon;
let w: Watched;
let at: string;

beforeEach(async () => {
  d = new SessionDaemon();
  at = `${await d.start()}/s/${ID}`;
});

afterEach(async () => {
  w?.clean();
  await w?.close();
  expect(d.violations).toEqual([]);
  await d.close();
});

const scroller = '[data-scroller]';
const settled = (page: Page) => page.waitForSelector(`${scroller}[data-settled=true]`);
const atEnd = (page: Page) => page.$eval(scroller, (e) => e.scrollHeight - e.clientHeight - e.scrollTop < 5);
/** The first line in view and how far its top is from the scroller's. */
const anchor = (page: Page) =>
  page.$eval(scroller, (el) => {
    const edge = el.getBoundingClientRect().top;
    const line = [...el.querySelectorAll('[data-key]')].find((l) => l.getBoundingClientRect().bottom > edge + 1);
    return { key: line?.getAttribute('data-key'), offset: Math.round((line?.getBoundingClientRect().top ?? 0) - edge) };
  });

/** A hundred events each second, until it is called off. */
function flood(script: Script): () => void {
  let n = 0;
  const timer = setInterval(() => {
    const events = script.events.length;
    if (n % 10 === 0) script.say(n);
    else script.tool(n);
    for (const e of script.events.slice(events)) d.say(e);
    d.tell('delta', { subject: ID, seq: 0, kind: 'delta', data: { text: `word ${n} ` } }, ID);
    n++;
  }, 15);
  return () => clearInterval(timer);
}

async function openSession(path = at, size: 'desk' | 'phone' = 'desk') {
  w = await open(path, { size });
  await settled(w.page);
  return w.page;
}

describe('S1: while a hundred events come each second', () => {
  const hands: Record<string, (page: Page) => Promise<void>> = {
    wheel: async (p) => {
      await p.mouse.move(500, 400);
      await p.mouse.wheel(0, -400);
    },
    'page up': async (p) => {
      await p.focus(scroller);
      await p.keyboard.press('PageUp');
    },
    'arrow up': async (p) => {
      await p.focus(scroller);
      for (let i = 0; i < 5; i++) await p.keyboard.press('ArrowUp');
    },
    'scroll bar': async (p) => {
      const box = await p.$eval(scroller, (e) => {
        const b = e.getBoundingClientRect();
        return { x: b.right - 6, y: b.top, h: b.height };
      });
      await p.mouse.move(box.x, box.y + box.h - 24);
      await p.mouse.down();
      await p.mouse.move(box.x, box.y + box.h / 2, { steps: 4 });
      await p.mouse.up();
    },
  };

  test.each(Object.keys(hands))('%s up keeps the view to the pixel until the end is reached again', async (name) => {
    const script = d.play({ turns: 2, tools: 60, open: true });
    const page = await openSession();
    const stop = flood(script);
    await page.waitForTimeout(400);
    expect(await page.getAttribute(scroller, 'data-phase')).toBe('following');
    expect(await atEnd(page)).toBe(true);
    await hands[name]?.(page);
    await page.waitForSelector(`${scroller}[data-phase=userControlled]`);
    await page.waitForTimeout(200);
    const before = await anchor(page);
    await page.waitForTimeout(1500);
    expect(await anchor(page)).toEqual(before);
    const fresh = page.locator('button', { hasText: /new$/ });
    expect(await fresh.count()).toBe(1);
    await fresh.click();
    await page.waitForSelector(`${scroller}[data-phase=following]`);
    await page.waitForTimeout(200);
    expect(await atEnd(page)).toBe(true);
    stop();
  });
});

test('S2: only the region scrolls; sending puts my prompt at the top once, and nothing else moves the view', async () => {
  const script = d.play({ turns: 4, tools: 8 });
  const page = await openSession();
  await page.fill('[data-composer]', 'And the README');
  await page.keyboard.press('Control+Enter');
  await expect.poll(() => d.posted.length).toBe(1);
  const id = String(d.worlds.get(ID)?.prompts[0]?.id);
  d.say(script.add('prompt.state', { prompt: id, state: 'running' }));
  await page.waitForSelector(`[data-turn=${id}]`);
  await settled(page);
  const offset = () => page.$eval(`[data-key="${id}/prompt"]`, (e) => Math.round(e.getBoundingClientRect().top));
  const edge = await page.$eval(scroller, (e) => Math.round(e.getBoundingClientRect().top));
  expect(Math.abs((await offset()) - edge)).toBeLessThan(2);
  for (let i = 0; i < 40; i++) {
    script.tool(i);
    for (const e of script.events.slice(-2)) d.say(e);
  }
  await page.waitForTimeout(400);
  expect(Math.abs((await offset()) - edge)).toBeLessThan(2);
  // A node far below everything cannot make the page itself scroll.
  const whole = await page.evaluate(() => {
    const far = document.createElement('div');
    far.style.cssText = 'position:absolute;top:9000px;left:0;width:1px;height:1px';
    document.querySelector('article')?.append(far);
    const root = document.documentElement;
    root.scrollTop = 500;
    return { over: root.scrollHeight - root.clientHeight, top: root.scrollTop };
  });
  expect(whole.top).toBe(0);
});

test('S3: going between sessions, a reload and a link find the same line at the same place', async () => {
  for (const id of ['ses_b', 'ses_c']) d.play({ session: id, turns: 30, tools: 6 });
  d.play({ turns: 60, tools: 10 });
  const page = await openSession();
  await page.mouse.move(500, 400);
  await page.mouse.wheel(0, -2400);
  await page.waitForTimeout(300);
  await page.locator('article button[aria-expanded=false]').first().click();
  await page.waitForTimeout(500);
  const before = await anchor(page);
  for (const id of ['ses_b', 'ses_c', ID]) {
    await page.evaluate((to) => {
      history.pushState({}, '', `/s/${to}`);
      dispatchEvent(new PopStateEvent('popstate', { state: {} }));
    }, id);
    await page.waitForFunction(
      (to) => document.querySelector('h1')?.textContent?.includes(to),
      id === ID ? 'Make' : id,
    );
    await settled(page);
  }
  expect(await anchor(page)).toEqual(before);
  await page.reload();
  await settled(page);
  await page.waitForTimeout(300);
  const after = await anchor(page);
  expect(after.key).toBe(before.key);
  expect(Math.abs(after.offset - before.offset)).toBeLessThan(2);
  const seq =
    (d.worlds.get(ID)?.events ?? []).findIndex((e) => e.run === 'run_000005' && e.kind === 'tool.finished') + 1;
  await page.goto(`${at}#e=${seq}`);
  await page.waitForFunction(() => location.hash === '');
  await page.waitForFunction((n) => document.activeElement?.getAttribute('data-key') === `r${n}`, seq - 1);
  expect(page.url()).toBe(at);
});

test('S4: twenty cuts at random bytes lose nothing, show nothing twice and move nothing', async () => {
  const script = d.play({ turns: 2, tools: 20, open: true });
  const page = await openSession();
  await expect.poll(() => d.streams).toBe(1);
  const id = 'prm_000002';
  let n = 0;
  for (let i = 0; i < 20; i++) {
    d.cut = Math.floor(Math.random() * 3000);
    for (let k = 0; k < 8; k++) d.say(script.add('agent.text', { text: `part ${n++} of the story` }));
    await page.waitForTimeout(60);
  }
  d.cut = undefined;
  d.say(script.add('agent.text', { text: `part ${n++} of the story` }));
  await page.waitForFunction((last) => document.body.textContent?.includes(`part ${last} of the story`), n - 1, {
    timeout: 20_000,
  });
  const told = await page.$$eval(`[data-turn=${id}] p`, (ps) =>
    ps.map((p) => /part (\d+) of/.exec(p.textContent ?? '')?.[1]).filter(Boolean),
  );
  const drawn = told.map(Number);
  expect(new Set(drawn).size).toBe(drawn.length);
  expect(drawn).toEqual([...drawn].sort((a, b) => a - b));
  expect(drawn.at(-1)).toBe(n - 1);
  // Everything since the first that is drawn, without a hole.
  expect(drawn.length).toBe(n - (drawn[0] ?? 0));
});

test('S5: after ten minutes of sleep and a dead connection the state is right within two seconds, and no alarm was raised', async () => {
  const script = d.play({ turns: 1, tools: 4, open: true });
  w = await open('about:blank'.replace('about:blank', at));
  const page = w.page;
  await settled(page);
  await expect.poll(() => d.streams).toBe(1);
  d.refuse = (path) => (path === 'GET /stream' ? 503 : 0);
  d.drop();
  await page.waitForTimeout(1500);
  expect(await page.locator('text=Reconnecting').count()).toBe(0);
  d.say(script.add('agent.text', { text: 'written while nobody heard it' }));
  d.refuse = undefined;
  await page.evaluate(() => dispatchEvent(new Event('online')));
  await page.waitForSelector('text=written while nobody heard it', { timeout: 2000 });
});

test('S8: a streamed word draws one block anew; old rows keep their nodes; typing draws the composer alone', async () => {
  const script = d.play({ turns: 2, tools: 30, open: true });
  const page = await openSession();
  await expect.poll(() => d.streams).toBe(1);
  d.tell('delta', { subject: ID, seq: 0, kind: 'delta', data: { text: 'First ' } }, ID);
  await page.waitForSelector('text=First');
  await page.evaluate(() => {
    const g = globalThis as unknown as { touched: Set<string>; rows: Element[] };
    g.touched = new Set();
    g.rows = [...document.querySelectorAll('[data-key]')];
    new MutationObserver((list) => {
      for (const m of list) {
        const el = m.target instanceof Element ? m.target : m.target.parentElement;
        g.touched.add(
          el?.closest('[data-key]')?.getAttribute('data-key') ?? (el?.closest('form') ? 'composer' : 'other'),
        );
      }
    }).observe(document.getElementById('content') as Element, {
      subtree: true,
      childList: true,
      characterData: true,
      attributes: true,
    });
  });
  const touched = () =>
    page.evaluate(() => {
      const g = globalThis as unknown as { touched: Set<string> };
      const all = [...g.touched].filter((k) => !k.endsWith('/summary'));
      g.touched.clear();
      return all;
    });
  d.tell('delta', { subject: ID, seq: 0, kind: 'delta', data: { text: 'second' } }, ID);
  await page.waitForSelector('text=First second');
  expect(await touched()).toEqual(['prm_000002/live']);
  await page.click('[data-composer]');
  await touched();
  await page.keyboard.type('hello');
  await page.waitForTimeout(100);
  expect((await touched()).filter((k) => k !== 'composer')).toEqual([]);
  d.say(script.add('agent.text', { text: 'one more row' }));
  await page.waitForSelector('text=one more row');
  const kept = await page.evaluate(() => {
    const g = globalThis as unknown as { rows: Element[] };
    return g.rows.filter((r) => r.isConnected || r.getAttribute('data-key')?.endsWith('/live')).length / g.rows.length;
  });
  expect(kept).toBe(1);
});

test('S6, S9: an event of a kind that nobody knows is one neutral row; other sessions cost nothing', async () => {
  const script = d.play({ turns: 1, tools: 3, open: true });
  for (let i = 0; i < 50; i++) d.play({ session: `ses_${i}`, turns: 1, tools: 20, open: true });
  const page = await openSession();
  await expect.poll(() => d.streams).toBe(1);
  const before = d.sent;
  for (let i = 0; i < 50; i++)
    d.say((d.scripts.get(`ses_${i}`) as Script).add('agent.text', { text: 'x'.repeat(5000) }));
  expect(d.sent).toBe(before);
  d.say(script.add('quantum.leap', { to: 'somewhere' }));
  await page.waitForSelector('text=does not know: quantum.leap');
  d.say(script.add('agent.text', { text: 'and it goes on' }));
  await page.waitForSelector('text=and it goes on');
});

test('a hundred thousand events open as fast as a hundred, with few nodes', async () => {
  d.play({ session: 'ses_small', turns: 2, tools: 22 });
  d.play({ turns: 200, tools: 240 });
  const time = async (path: string) => {
    const began = performance.now();
    w = await open(path);
    await settled(w.page);
    await w.page.waitForSelector('article');
    return performance.now() - began;
  };
  // Both once before: caches are warm, and the stand-in has made its outlines.
  for (const path of [at, at.replace(ID, 'ses_small')]) {
    await time(path);
    await w.close();
  }
  d.asked.length = 0;
  const small = await time(at.replace(ID, 'ses_small'));
  await w.close();
  const large = await time(at);
  const page = w.page;
  const nodes = () => page.evaluate(() => document.querySelectorAll('*').length);
  expect(await nodes()).toBeLessThan(3000);
  const asked = d.asked.filter((a) => a.includes(`/sessions/${ID}/events`)).length;
  expect(asked).toBeLessThan(6);
  console.log(`100 events ${Math.round(small)} ms, 100,000 events ${Math.round(large)} ms, ${await nodes()} nodes`);
  // All turns open: what is drawn stays bounded, what is read comes with the view.
  await page.focus(scroller);
  await page.keyboard.press('Shift+X');
  for (let i = 0; i < 12; i++) {
    await page.keyboard.press('PageUp');
    await page.waitForTimeout(120);
  }
  expect(await nodes()).toBeLessThan(3000);
  expect(large).toBeLessThan(small * 4 + 1500);
});
