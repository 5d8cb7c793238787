import type { Page } from 'playwright-core';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { Script } from '../src/data/testing/synthetic';
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
const field = '[data-composer]';
const settled = (page: Page) => page.waitForSelector(`${scroller}[data-settled=true]`);

async function openSession(size: 'desk' | 'phone' = 'desk') {
  w = await open(at, { size });
  await settled(w.page);
  return w.page;
}

test('S22: text of a model starts nothing, fetches nothing and leads where it says', async () => {
  const script = d.play({ turns: 1, tools: 2, open: true });
  const page = await openSession();
  const hostile = [
    '![p](https://evil.example.com/a.png) ![q](data:image/svg+xml,<svg onload=alert(1)>)',
    '<img src="https://evil.example.com/b.png" onerror="alert(1)"><script>alert(1)</script><style>*{display:none}</style>',
    '[click](javascript:alert(1)) [data](data:text/html,x) [good](https://good.example.com/x) [mail](mailto:a@example.com)',
    '[https://bank.example.com](https://evil.example.com/) \u202etxt.exe\u202c zero\u200bwidth',
    '[ref]: https://evil.example.com/c "x"\n\n![ref] [ref]',
    `${'> '.repeat(200)}deep`,
    '<iframe src="https://evil.example.com/"></iframe> <svg><use href="https://evil.example.com/#a"/></svg>',
  ];
  for (const text of hostile) d.say(script.add('agent.text', { text }));
  d.say(
    script.add('tool.finished', {
      call: 'z',
      tool: 'run',
      title: '$ \u001b]8;;https://evil.example.com\u0007x\u001b]8;;\u0007',
      output: '\u001b[31mred\u001b[2J\u001b]0;t\u0007',
      exit_code: 0,
    }),
  );
  await page.waitForSelector('text=zero[U+200B]width');
  await page.waitForTimeout(300);
  const links = await page.$$eval(`${scroller} a`, (all) =>
    all.map((a) => [a.getAttribute('href'), a.getAttribute('rel'), a.parentElement?.textContent]),
  );
  for (const [href, rel] of links) {
    expect(href).toMatch(/^(https?:|mailto:|\/changes\/)/);
    expect(rel).toBe('noopener noreferrer nofollow');
  }
  const shown = await page.textContent(scroller);
  expect(shown).toContain('https://bank.example.com (evil.example.com)');
  expect(shown).toContain('image at evil.example.com');
  expect(shown).toContain('<script>alert(1)</script>');
  expect(shown).toContain('[U+202E]');
  expect(
    await page.$$eval(`${scroller} img, ${scroller} iframe, ${scroller} script, ${scroller} style`, (e) => e.length),
  ).toBe(0);
  expect(w.requests.filter((r) => !r.startsWith(d.origin))).toEqual([]);
});

test('S24: the header and the title say the word that the daemon says', async () => {
  d.play({ turns: 1, tools: 2 });
  const page = await openSession();
  for (const [word, role, title] of [
    ['needs_you', 'ask', 'needs you'],
    ['proven', 'ok', 'proven'],
    ['handed_over', 'ask', 'handed over'],
  ] as const) {
    d.view({ word, role, reason: `because of ${word}` });
    await page.waitForSelector(`[data-word=${word}]`);
    expect(await page.title()).toContain(title);
  }
});

test('S26: a draft outlives a reload; the field has the focus after sending; what fails keeps its text', async () => {
  d.play({ turns: 1, tools: 2 });
  const page = await openSession();
  await page.keyboard.press('i');
  await page.keyboard.type('Half a thought');
  await page.reload();
  await settled(page);
  expect(await page.inputValue(field)).toBe('Half a thought');
  await page.focus(field);
  d.accepts = false;
  await page.keyboard.press('Control+Enter');
  await page.waitForSelector('[data-sending=failed]');
  expect(await page.textContent('[data-sending=failed]')).toContain('Half a thought');
  expect(await page.evaluate(() => document.activeElement?.hasAttribute('data-composer'))).toBe(true);
  await page.reload();
  await page.waitForSelector('[data-sending]');
  d.accepts = true;
  const again = page.locator('[data-sending=failed] button[aria-label="Try again"]');
  if ((await again.count()) > 0) await again.click({ timeout: 500 }).catch(() => {});
  await page.waitForSelector('[data-sending]', { state: 'detached' });
  await page.waitForSelector('text=Queued 1');
  const ids = d.posted.filter((p) => p.path === 'POST prompts').map((p) => (p.body as { client_id: string }).client_id);
  expect(new Set(ids).size).toBe(1);
  expect(d.worlds.get(ID)?.prompts).toHaveLength(1);
});

test('the queue: add while it runs, reorder with keys and buttons, edit, remove, do this now', async () => {
  const script = d.play({ turns: 1, tools: 2, open: true });
  d.worlds.get(ID)?.prompts.push({
    id: 'prm_other',
    author: { handle: 'ben', name: 'Ben' },
    text: 'From Ben',
    state: 'queued',
    position: 1,
    created: '2026-11-29T12:00:00Z',
  });
  const page = await openSession();
  for (const text of ['First of mine', 'Second of mine']) {
    await page.fill(field, text);
    await page.click('button:has-text("Add to the queue")');
    await page.waitForSelector(`section[aria-label=Queue] >> text=${text}`);
  }
  const order = () =>
    page.$$eval('section[aria-label=Queue] li', (all) =>
      all.map((l) => /(From Ben|First of mine|Second of mine|Edited)/.exec(l.textContent ?? '')?.[0]),
    );
  await expect.poll(order).toEqual(['From Ben', 'First of mine', 'Second of mine']);
  expect(await page.textContent('section[aria-label=Queue] li')).toContain('Ben');
  await page.locator('section[aria-label=Queue] li').nth(2).getByLabel('Move up').click();
  await expect.poll(order).toEqual(['From Ben', 'Second of mine', 'First of mine']);
  await page.locator('section[aria-label=Queue] li').nth(1).getByLabel('Edit').focus();
  await page.keyboard.press('Alt+ArrowUp');
  await expect.poll(order).toEqual(['Second of mine', 'From Ben', 'First of mine']);
  await page.locator('section[aria-label=Queue] li').nth(2).getByLabel('Edit').click();
  await page.locator('section[aria-label=Queue] textarea').fill('Edited');
  await page.keyboard.press('Control+Enter');
  await expect.poll(order).toEqual(['Second of mine', 'From Ben', 'Edited']);
  await page.locator('section[aria-label=Queue] li').nth(0).getByLabel('Remove').click();
  await expect.poll(order).toEqual(['From Ben', 'Edited']);
  await page.locator('section[aria-label=Queue] li').nth(1).getByLabel('Do this now').click();
  await page.waitForSelector('dialog[open] >> text=Stop the run');
  await page.locator('dialog[open] button:has-text("Do this now")').click();
  await expect.poll(() => d.posted.some((p) => p.path.endsWith('/now'))).toBe(true);
  void script;
});

test('S27: silence while text comes, one sentence for an outcome, articles with author and place', async () => {
  const script = d.play({ turns: 3, tools: 2, open: true });
  const page = await openSession();
  await page.evaluate(() => {
    const g = globalThis as unknown as { said: string[] };
    g.said = [];
    for (const live of document.querySelectorAll('[aria-live]')) {
      new MutationObserver(() => live.textContent && g.said.push(live.textContent.trim())).observe(live, {
        childList: true,
        characterData: true,
        subtree: true,
      });
    }
  });
  const said = () => page.evaluate(() => (globalThis as unknown as { said: string[] }).said);
  for (let i = 0; i < 20; i++)
    d.tell('delta', { subject: ID, seq: 0, kind: 'delta', data: { text: `word ${i} ` } }, ID);
  d.say(script.add('agent.text', { text: 'whole' }));
  await page.waitForSelector('text=whole');
  expect(await said()).toEqual([]);
  expect(
    await page.$$eval(`${scroller} [aria-live], ${scroller}[aria-live], ${scroller} [role=log]`, (e) => e.length),
  ).toBe(0);
  d.view({ word: 'proven', role: 'ok', reason: '2 tests that failed pass now' });
  await expect
    .poll(said)
    .toEqual(['Make the total of the cart take the discount off: proven. 2 tests that failed pass now']);
  const articles = await page.$$eval('article', (all) => all.map((a) => a.getAttribute('aria-label')));
  expect(articles).toEqual(['Ben, 1 of 3', 'Chi, 2 of 3', 'Ana, 3 of 3']);
  // To the last message with one key.
  await page.focus(scroller);
  await page.keyboard.press('End');
  await page.waitForSelector(`${scroller}[data-phase=following]`);
});

test('S29: on a phone with its keyboard the field is visible, nothing scrolls sideways, wide output scrolls in its box', async () => {
  const s = new Script(ID);
  s.begin(1, `One${'x'.repeat(300)}`);
  s.add('tool.started', { call: 'a', tool: 'run', title: `$ echo ${'y'.repeat(400)}`, input: {} });
  s.add('tool.finished', {
    call: 'a',
    tool: 'run',
    title: `$ echo ${'y'.repeat(400)}`,
    output: `${'z'.repeat(900)}\n`,
    exit_code: 0,
  });
  s.add('agent.text', {
    text: `\`\`\`\n${'w'.repeat(500)}\n\`\`\`\n\n| ${'a | '.repeat(40)}\n|${'---|'.repeat(40)}\n| ${'b | '.repeat(40)}`,
  });
  d.put(s);
  const page = await openSession('phone');
  await page.locator('article button:has-text("echo")').click();
  await page.waitForSelector('pre');
  // What an on-screen keyboard leaves.
  await page.setViewportSize({ width: 390, height: 420 });
  await page.focus(field);
  await page.waitForTimeout(200);
  const box = await page.locator(field).boundingBox();
  expect((box?.y ?? 999) + (box?.height ?? 0)).toBeLessThanOrEqual(420);
  const wide = await page.evaluate(() => {
    const el = document.querySelector('[data-scroller]') as HTMLElement;
    const pre = document.querySelector('pre') as HTMLElement;
    return {
      page: document.documentElement.scrollWidth,
      scroller: el.scrollWidth - el.clientWidth,
      pre: pre.scrollWidth > pre.clientWidth && getComputedStyle(pre).overflowX === 'auto',
    };
  });
  expect(wide).toEqual({ page: 390, scroller: 0, pre: true });
  const small = await page.$$eval('button, a[href]', (all) =>
    all
      .filter(
        (b) => b.checkVisibility() && b.getBoundingClientRect().height > 0 && b.getBoundingClientRect().height < 24,
      )
      .map((b) => b.textContent),
  );
  expect(small).toEqual([]);
});

test('S33: any prompt or problem of a session of 200 turns in three keys; find leads through the whole log', async () => {
  const script = d.play({ turns: 200, tools: 20 });
  script.add('warning', { code: 'run_resumed', message: 'The daemon was restarted', hint: '' });
  const page = await openSession();
  const seen = async (key: string) => {
    await page.waitForSelector(`[data-key="${key}"]`);
    await settled(page);
    const inside = () =>
      page.$eval(`[data-key="${key}"]`, (e) => {
        const box = (e.closest('[data-scroller]') as HTMLElement).getBoundingClientRect();
        const at = e.getBoundingClientRect();
        return at.bottom > box.top && at.top < box.bottom;
      });
    await expect.poll(inside).toBe(true);
  };
  await page.focus(scroller);
  await page.keyboard.press('o');
  await page.keyboard.type('77');
  await page.keyboard.press('Enter');
  await seen('prm_000077/prompt');
  await page.keyboard.press(']');
  await seen('prm_000078/prompt');
  await page.keyboard.press('[');
  await seen('prm_000077/prompt');
  await page.keyboard.press('n');
  await page.waitForFunction(() => document.activeElement?.getAttribute('data-key')?.startsWith('r'));
  const first = await page.evaluate(() => document.activeElement?.getAttribute('data-key') ?? '');
  await seen(first);
  await page.keyboard.press('Control+f');
  await page.keyboard.type('of task 150 now');
  await page.waitForSelector('search >> text=1 of 1');
  const hit = (d.worlds.get(ID)?.events ?? []).find((e) => JSON.stringify(e.data).includes('of task 150 now'))?.seq;
  await page.waitForSelector(`[data-key="r${hit}"]`);
  await seen(`r${hit}`);
});

test('everything without a mouse: stop, fold, details, and no key behind an open dialog', async () => {
  d.play({ turns: 3, tools: 6, open: true });
  const page = await openSession();
  await page.focus(scroller);
  await page.keyboard.press('Control+.');
  await expect.poll(() => d.posted.some((p) => p.path === 'POST stop')).toBe(true);
  const open = () => page.$$eval('article button[aria-expanded=true]', (b) => b.length);
  const before = await open();
  await page.keyboard.press('Shift+X');
  await expect.poll(open).not.toBe(before);
  await page.keyboard.press('b');
  await page.waitForSelector('aside', { state: 'detached' });
  await page.keyboard.press('b');
  await page.waitForSelector('aside');
  await page.keyboard.press('o');
  await page.waitForSelector('dialog[open]');
  await page.keyboard.press('Shift+Tab');
  await page.keyboard.press('b');
  expect(await page.locator('aside').count()).toBe(1);
  await page.keyboard.press('Escape');
  await page.waitForSelector('dialog[open]', { state: 'detached' });
});
