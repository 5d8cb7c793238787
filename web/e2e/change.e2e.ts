import { afterEach, beforeEach, expect, test } from 'vitest';
import { open, startBrowser, type Watched } from './browser';
import { changeWorld, page as data } from './change';
import type { StandIn } from './server';

startBrowser();

let stand: StandIn;
let w: Watched;

beforeEach(async () => {
  stand = changeWorld();
  w = await open(`${await stand.start()}/changes/chg_1`);
  await w.page.waitForSelector('text=a comment of SQL');
});
afterEach(async () => {
  w.clean();
  expect(stand.violations).toEqual([]);
  await w.close();
  await stand.stop();
});

const asked = (method: string, path: string) => stand.asked.filter((a) => a.method === method && a.path === path);

test('the verdict, what it means and the cases stand before the files', async () => {
  const text = (await w.page.textContent('main')) ?? '';
  const order = [
    'Proven',
    'fixed: a code takes its share',
    'tests are changed',
    '9 cases kept',
    '225 !== 530',
    'db/drop.sql',
  ];
  const at = order.map((words) => text.indexOf(words));
  expect(at.every((n) => n >= 0)).toBe(true);
  expect([...at].sort((a, b) => a - b)).toEqual(at);
  expect(await w.page.title()).toContain('#4 Take the discount off every piece');
});

test('lines of files are text: what looks like a page loads and runs nothing, what turns text round is shown', async () => {
  const text = (await w.page.textContent('main')) ?? '';
  expect(text).toContain('-- a comment of SQL');
  expect(text).toContain('<img src=https://elsewhere.example/x onerror=alert(1)>');
  expect(text).toContain('docs/[U+202E]gpj.exe');
  expect(text).toContain('Binary: not shown as text.');
  expect(await w.page.locator('main img, main b').count()).toBe(0);
  // Three files are one request.
  expect(asked('GET', '/changes/chg_1/patches')).toHaveLength(1);
});

test('an approval is of the commit that was looked at, and is asked for twice', async () => {
  stand.on('POST /changes/chg_1/approve', {
    status: 409,
    body: { code: 'conflict', message: 'the change has moved on', hint: 'look at it again' },
  });
  await w.page.getByRole('button', { name: 'Approve' }).click();
  expect(asked('POST', '/changes/chg_1/approve')).toHaveLength(0);
  await w.page.locator('dialog').getByRole('button', { name: 'Approve' }).click();
  await w.page.waitForSelector('text=the change has moved on');
  expect(asked('POST', '/changes/chg_1/approve')[0]?.body).toEqual({ head: data.change.head });
  stand.on('POST /changes/chg_1/approve', { body: {} });
  await w.page.locator('dialog').getByRole('button', { name: 'Approve' }).click();
  await expect.poll(() => w.page.locator('dialog[open]').count()).toBe(0);
  expect(asked('GET', '/changes/chg_1/page').length).toBeGreaterThan(1);
});

test('what may not be done says why and does nothing', async () => {
  const merge = w.page.getByRole('button', { name: 'Merge' });
  expect(await merge.getAttribute('title')).toBe('nobody has approved it');
  await merge.dispatchEvent('click');
  expect(await w.page.locator('dialog[open]').count()).toBe(0);
});

test('handing back asks what is missing, and is one prompt however often it is sent', async () => {
  stand.on('POST /changes/chg_1/hand-back', { cut: true });
  await w.page.getByRole('button', { name: 'Hand back to the agent' }).click();
  await w.page.locator('dialog textarea').fill('Round once, at the end.');
  const send = w.page.locator('dialog').getByRole('button', { name: 'Hand back to the agent' });
  await send.click();
  await w.page.waitForSelector('dialog [role=alert]');
  expect(await w.page.locator('dialog textarea').inputValue()).toBe('Round once, at the end.');
  stand.on('POST /changes/chg_1/hand-back', { status: 201, body: {} });
  await send.click();
  await expect.poll(() => w.page.locator('dialog[open]').count()).toBe(0);
  const bodies = asked('POST', '/changes/chg_1/hand-back').map((a) => a.body as { note: string; client_id: string });
  // The browser sends again by itself what was cut off: every time it is the same prompt.
  expect(bodies.length).toBeGreaterThan(1);
  expect(new Set(bodies.map((b) => b.client_id)).size).toBe(1);
  expect(bodies[0]?.note).toBe('Round once, at the end.');
});
