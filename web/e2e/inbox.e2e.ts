import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { sampleRow } from '../src/gallery/samples';
import { accessible, open, startBrowser, type Watched } from './browser';
import type { Asked, StandIn } from './server';
import { usual, world } from './world';

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
const asked = (method: string, path: string): Asked[] =>
  stand.asked.filter((a) => a.method === method && a.path === path);
const composer = 'textarea[aria-label="What should be done?"]';
const created = (a: Asked) => {
  const body = a.body as { prompt: string };
  return { status: 201, body: { session: sampleRow('ses_new', 'queued', body.prompt).session, prompt: {} } };
};
const focused = () =>
  w.page.evaluate(
    () => (document.activeElement as HTMLElement | null)?.dataset.row ?? document.activeElement?.tagName ?? '',
  );

describe('writing a task', () => {
  test('a sandbox is kept while one types, and the task takes it', async () => {
    stand.on('POST /sessions', created);
    const page = await enter();
    await page.selectOption('select[aria-label], form select', 'env_shop');
    await page.fill(composer, 'Fix the cart');
    await page.type(composer, ' today');
    await page.waitForSelector('text=A sandbox is ready');
    expect(asked('POST', '/drafts')).toHaveLength(1);
    await page.keyboard.press('Control+Enter');
    await page.waitForSelector('text=Started: Fix the cart today');
    expect(asked('POST', '/sessions')[0]?.body).toMatchObject({
      environment: 'env_shop',
      prompt: 'Fix the cart today',
      draft: 'drf_1',
      client_id: expect.stringMatching(/^web-[0-9a-f]{24}$/),
    });
    expect(await page.inputValue(composer)).toBe('');
    // The next task can be written at once.
    expect(await focused()).toBe('TEXTAREA');
    expect(asked('DELETE', '/drafts/drf_1')).toHaveLength(0);
  });

  test('the text survives reload; Enter is a new line', async () => {
    const page = await enter();
    await page.fill(composer, 'First line');
    await page.keyboard.press('Enter');
    await page.keyboard.type('second line');
    await page.reload();
    await page.waitForSelector('[data-row]');
    expect(await page.inputValue(composer)).toBe('First line\nsecond line');
    expect(asked('POST', '/sessions')).toHaveLength(0);
  });

  test('an answer that is lost is asked for again under the same id, and the text stays when it fails for good', async () => {
    let n = 0;
    stand.on('POST /sessions', (a) => (++n === 1 ? { cut: true } : n === 2 ? { status: 503, body: {} } : created(a)));
    const page = await enter();
    await page.selectOption('form select', 'env_shop');
    await page.fill(composer, 'Once only');
    await page.keyboard.press('Control+Enter');
    await page.waitForSelector('text=Started: Once only');
    const ids = asked('POST', '/sessions').map((a) => (a.body as { client_id: string }).client_id);
    expect(ids).toHaveLength(3);
    expect(new Set(ids).size).toBe(1);

    stand.on('POST /sessions', {
      status: 409,
      body: { code: 'conflict', message: 'the base was deleted', hint: 'name another' },
    });
    await page.fill(composer, 'Refused');
    await page.keyboard.press('Control+Enter');
    await page.waitForSelector('text=the base was deleted');
    await page.waitForSelector('text=name another');
    expect(await page.inputValue(composer)).toBe('Refused');
    await accessible(page);
  });

  test('what is missing is said, and where', async () => {
    const page = await enter();
    await page.click('text=Start');
    await page.waitForSelector('text=Write what should be done.');
    expect(await focused()).toBe('TEXTAREA');
    await page.fill(composer, 'Fix it');
    await page.click('text=Start');
    await page.waitForSelector('text=Choose the environment');
    expect(asked('POST', '/sessions')).toHaveLength(0);
  });

  test('options are named where they are set, and sent', async () => {
    stand.on('POST /sessions', created).on('GET /models', { body: { items: [{ name: 'scripted' }] } });
    const page = await enter();
    await page.selectOption('form select', 'env_shop');
    await page.fill(composer, 'Fix it');
    await page.click('button:has-text("Options")');
    await page.getByLabel('Model').fill('scripted');
    await page.getByLabel('Budget in USD').fill('x');
    await page.waitForSelector('text=Enter a sum like');
    await accessible(page);
    await page.getByLabel('Budget in USD').fill('2');
    await page.keyboard.press('Escape');
    await page.waitForSelector('text=scripted · 2 USD');
    await page.click('button:has-text("Start")');
    await page.waitForSelector('text=Started:');
    expect(asked('POST', '/sessions')[0]?.body).toMatchObject({ model: 'scripted', budget: { microusd: 2_000_000 } });
  });

  test('a sign-in that ends meanwhile loses nothing', async () => {
    stand
      .on('POST /sessions', { status: 401, body: { code: 'unauthorized', message: '' } })
      .on('POST /login', (a) =>
        (a.body as { secret: string }).secret === 'good'
          ? { body: { user: { handle: 'alice', name: 'Alice', email: '' }, version: '' } }
          : { status: 401, body: { code: 'unauthorized', message: 'no' } },
      );
    const page = await enter();
    await page.selectOption('form select', 'env_shop');
    await page.fill(composer, 'Kept');
    await page.keyboard.press('Control+Enter');
    await page.waitForSelector('dialog >> text=Your sign-in has ended');
    await accessible(page);
    await page.fill('input[name=secret]', 'bad');
    await page.keyboard.press('Enter');
    await page.waitForSelector('text=not accepted');
    await page.fill('input[name=secret]', 'good');
    await page.keyboard.press('Enter');
    await page.waitForSelector('dialog[open]', { state: 'detached' });
    expect(await page.inputValue(composer)).toBe('Kept');
  });
});

describe('keys', () => {
  test('j, k and Enter go through the rows', async () => {
    const page = await enter();
    await page.keyboard.press('j');
    expect(await focused()).toBe('ses_1');
    await page.keyboard.press('j');
    await page.keyboard.press('j');
    await page.keyboard.press('k');
    expect(await focused()).toBe('ses_2');
    await page.keyboard.press('Enter');
    await page.waitForURL('**/s/ses_2');
    await page.keyboard.press('g');
    await page.keyboard.press('i');
    await page.waitForSelector('[data-row]');
  });

  test('e reads, Shift+U makes unread, and the mark is never lost', async () => {
    stand.on('PUT /sessions/ses_3/read', { status: 204 }).on('DELETE /sessions/ses_3/read', { status: 204 });
    const page = await enter();
    await page.focus('[data-row=ses_3]');
    await page.keyboard.press('e');
    await page.waitForSelector('[data-section=recent] [data-row=ses_3]');
    expect(asked('PUT', '/sessions/ses_3/read')[0]?.body).toEqual({ seq: 40 });
    await expect.poll(focused).toBe('ses_4');
    await page.focus('[data-row=ses_3]');
    await page.keyboard.press('Shift+U');
    await page.waitForSelector('[data-section=needs] [data-row=ses_3]');
    expect(asked('DELETE', '/sessions/ses_3/read')).toHaveLength(1);
  });

  test('a mark that could not be kept is taken back and said', async () => {
    const page = await enter();
    await page.focus('[data-row=ses_3]');
    await page.keyboard.press('e');
    await page.waitForSelector('text=The mark was not kept');
    await page.waitForSelector('[data-section=needs] [data-row=ses_3]');
  });

  test('they never fire in a field or behind a dialog', async () => {
    const page = await enter();
    await page.keyboard.press('c');
    expect(await focused()).toBe('TEXTAREA');
    await page.keyboard.type('jke?/g i');
    expect(await page.inputValue(composer)).toBe('jke?/g i');
    await page.keyboard.press('Escape');
    await page.keyboard.press('?');
    await page.waitForSelector('dialog >> text=Keyboard shortcuts');
    await accessible(page);
    await page.keyboard.press('j');
    expect(await focused()).not.toBe('ses_1');
    await page.keyboard.press('Escape');
    await page.waitForSelector('dialog[open]', { state: 'detached' });
    await page.keyboard.press('j');
    expect(await focused()).toBe('ses_1');
  });

  test('single keys can be switched off; those with Ctrl stay', async () => {
    await enter('/');
    await w.page.evaluate(() => localStorage.setItem('drydock.v1.look', '{"singleKeys":false}'));
    await w.page.reload();
    await w.page.waitForSelector('[data-row]');
    await w.page.keyboard.press('j');
    expect(await focused()).toBe('BODY');
    await w.page.keyboard.press('Control+k');
    await w.page.waitForSelector('dialog input[role=combobox]');
  });

  test('the palette finds commands and sessions, from within a field too', async () => {
    const page = await enter();
    await page.focus(composer);
    await page.keyboard.press('Control+k');
    await page.waitForSelector('dialog [role=option]');
    await accessible(page);
    await page.keyboard.type('theme da');
    await page.waitForSelector('[role=option][aria-selected=true]:has-text("Theme: Dark")');
    await page.keyboard.press('Enter');
    await page.waitForSelector('html[data-theme=dark]');
    await page.keyboard.press('Control+k');
    await page.keyboard.type('discount');
    await expect.poll(() => asked('GET', '/inbox').at(-1)?.query.get('q')).toBe('discount');
    await page.click('[role=option]:has-text("Take the discount")');
    await page.waitForURL('**/s/ses_1');
  });
});

describe('filters and pages', () => {
  test('filters stand in the address, and Back undoes them', async () => {
    const page = await enter();
    await page.fill('input[type=search]', 'cart');
    await page.waitForURL('**/?q=cart');
    await page.click('text=Mine');
    await page.waitForURL('**/?q=cart&mine=true');
    await page.selectOption('search select', 'shop');
    await expect
      .poll(() => asked('GET', '/inbox').at(-1)?.query.toString())
      .toBe('q=cart&environment=shop&mine=true&limit=20');
    await page.goBack();
    await page.waitForURL('**/?q=cart&mine=true');
    await page.reload();
    await page.waitForSelector('[data-row]');
    expect(await page.inputValue('input[type=search]')).toBe('cart');
  });

  test('the next page comes below; when it fails the rest stays and it can be tried again', async () => {
    const few = usual();
    stand.on('GET /inbox', { body: { ...few, recent: { ...few.recent, count: 30, next: 'c1' } } });
    stand.on('GET /inbox/recent', { status: 500, body: { code: 'internal', message: 'disk', id: 'f-1' } });
    const page = await enter();
    const before = await page.locator('[data-row]').count();
    await page.click('text=Show more');
    await page.waitForSelector('text=Fault f-1');
    expect(await page.locator('[data-row]').count()).toBe(before);
    stand.on('GET /inbox/recent', { body: { items: [sampleRow('ses_99', 'merged', 'An older one')], count: 30 } });
    await page.click('text=Try again');
    await page.waitForSelector('[data-row=ses_99]');
    expect(asked('GET', '/inbox/recent').at(-1)?.query.get('cursor')).toBe('c1');
    expect(await page.locator('text=Show more').count()).toBe(0);
  });
});
