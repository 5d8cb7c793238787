import { readFileSync } from 'node:fs';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { accessible, open, shot, startBrowser } from './browser';
import { Daemon, lacking } from './daemon';

startBrowser();

// The page as the daemon serves it: its headers, its sign-in, its answers. It needs a daemon that has an inbox.
const described = readFileSync(new URL('../../docs/openapi.json', import.meta.url), 'utf8');
const without = !described.includes('"/api/v1/inbox"') || lacking() !== '';

describe.skipIf(without)('a real daemon', () => {
  let daemon: Daemon;
  let url: string;
  beforeAll(async () => {
    daemon = new Daemon();
    url = await daemon.start();
  });
  afterAll(() => daemon?.stop());

  test('signing in with a code that works once, and out again', async () => {
    const w = await open(url);
    const { page } = w;
    await page.waitForSelector('text=Sign in to Drydock');
    await page.fill('input[name=secret]', 'AAAA-BBBB');
    await page.keyboard.press('Enter');
    await page.waitForSelector('text=not accepted');

    const { code } = JSON.parse(daemon.run('web', '--json')) as { code: string };
    await page.fill('input[name=secret]', code);
    await page.keyboard.press('Enter');
    await page.waitForSelector('text=First, make an environment');
    await accessible(page);
    await shot(page, 'daemon-first-run');
    const cookies = await w.context.cookies();
    expect(cookies.map((c) => [c.httpOnly, c.sameSite])).toEqual([[true, 'Strict']]);
    // No script can read it, and nothing of it is kept by the page.
    expect(await page.evaluate(() => document.cookie + JSON.stringify({ ...localStorage }))).not.toContain(
      cookies[0]?.value,
    );

    // It holds after a reload, with the first answers in the document.
    const before = w.requests.length;
    await page.reload();
    await page.waitForSelector('text=First, make an environment');
    expect(await page.locator('#snapshot').count()).toBe(1);
    expect(w.requests.slice(before).filter((r) => r.endsWith('/whoami'))).toEqual([]);

    await page.click('button[aria-label="Sign out"]');
    await page.waitForSelector('text=Sign in to Drydock');
    await page.fill('input[name=secret]', code);
    await page.keyboard.press('Enter');
    await page.waitForSelector('text=not accepted');
    w.clean();
    await w.close();
  });

  test('a token signs in too, and every page of the shell is served', async () => {
    const w = await open(`${url}/settings/appearance`);
    const { page } = w;
    await page.fill('input[name=secret]', daemon.token);
    await page.keyboard.press('Enter');
    await page.waitForSelector('text=Single keys');
    for (const path of ['/', '/gallery', '/s/ses_nothing', '/?q=x&mine=true']) {
      await page.goto(url + path);
      await page.waitForSelector('#content');
    }
    await page.goto(`${url}/?q=x`);
    await page.waitForSelector('text=No session fits');
    w.clean();
    await w.close();
  });
});
