import { existsSync, mkdirSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { type Browser, type BrowserContext, chromium, type Page } from 'playwright-core';
import { afterAll, beforeAll, expect } from 'vitest';

// One real browser, the distribution's, for a file of tests. Each page that it opens is watched: a request to any
// other host, a report of the content policy or an error of a script fails the test that opened it.

const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');
const shots = process.env.DRYDOCK_SHOTS;

export const sizes = {
  phone: { width: 390, height: 844 },
  tablet: { width: 768, height: 1024 },
  desk: { width: 1280, height: 800 },
} as const;
export type SizeName = keyof typeof sizes;

export interface Open {
  size?: SizeName;
  scheme?: 'light' | 'dark';
  forced?: boolean;
  still?: boolean;
  /** Errors of scripts that the test is about. */
  mayFail?: RegExp;
}

export interface Watched {
  page: Page;
  context: BrowserContext;
  requests: string[];
  /** Fails if anything happened that may not. */
  clean: () => void;
  close: () => Promise<void>;
}

let browser: Browser | undefined;

export function program(): string | undefined {
  return ['/usr/bin/chromium', '/usr/bin/chromium-browser', process.env.CHROMIUM ?? ''].find((p) => p && existsSync(p));
}

/** Starts the browser for a file of tests. */
export function startBrowser() {
  beforeAll(async () => {
    const path = program();
    if (!path) throw new Error('no Chromium; scripts/setup installs it');
    browser = await chromium.launch({
      executablePath: path,
      args: ['--no-sandbox', '--disable-gpu', '--disable-background-networking', '--disable-component-update'],
    });
  });
  afterAll(async () => {
    await browser?.close();
    browser = undefined;
  });
}

export async function open(url: string, o: Open = {}): Promise<Watched> {
  if (!browser) throw new Error('startBrowser() first');
  const size = sizes[o.size ?? 'desk'];
  const context = await browser.newContext({
    viewport: size,
    colorScheme: o.scheme ?? 'light',
    reducedMotion: o.still === false ? 'no-preference' : 'reduce',
    forcedColors: o.forced ? 'active' : 'none',
    hasTouch: o.size === 'phone',
    isMobile: o.size === 'phone',
    locale: 'en-GB',
    timezoneId: 'UTC',
    deviceScaleFactor: 1,
  });
  const page = await context.newPage();
  const origin = new URL(url).origin;
  const requests: string[] = [];
  const faults: string[] = [];
  context.on('request', (r) => {
    requests.push(r.url());
    if (!r.url().startsWith(`${origin}/`) && !r.url().startsWith('blob:')) faults.push(`foreign request: ${r.url()}`);
  });
  page.on('pageerror', (e) => faults.push(`script: ${e.message}`));
  page.on('console', (m) => {
    // A refused request is an answer, not a fault of the page.
    if (m.type() === 'error' && !/Failed to load resource/.test(m.text())) faults.push(`console: ${m.text()}`);
    if (/Content.Security.Policy/i.test(m.text())) faults.push(`policy: ${m.text()}`);
  });
  await page.goto(url);
  return {
    page,
    context,
    requests,
    clean: () => expect(faults.filter((f) => !o.mayFail?.test(f))).toEqual([]),
    close: () => context.close(),
  };
}

/** What the rules of accessibility say of the page as it stands: nothing. */
export async function accessible(page: Page, overlay = false) {
  await page.evaluate(axe);
  const found = await page.evaluate(async (lists) => {
    type Result = {
      violations: { id: string; help: string; nodes: { target: unknown[]; failureSummary?: string }[] }[];
    };
    const run = (globalThis as unknown as { axe: { run: (on: unknown, o: unknown) => Promise<Result> } }).axe.run;
    const result = await run(document, {
      runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice'],
      // A menu or list that is open lies over the page, in none of its regions.
      rules: { region: { enabled: !lists } },
    });
    return result.violations.map(
      (v) => `${v.id}: ${v.help}: ${v.nodes.map((n) => `${n.target.join(' ')} ${n.failureSummary ?? ''}`).slice(0, 3)}`,
    );
  }, overlay);
  expect(found).toEqual([]);
}

/** The page never scrolls sideways, nor as a whole. */
export async function keepsItsFrame(page: Page) {
  const over = await page.evaluate(() => {
    const root = document.documentElement;
    const main = document.getElementById('content');
    return {
      sideways: root.scrollWidth - root.clientWidth,
      down: root.scrollHeight - root.clientHeight,
      content: main ? main.scrollWidth - main.clientWidth : 0,
    };
  });
  expect(over).toEqual({ sideways: 0, down: 0, content: 0 });
}

export async function shot(page: Page, name: string, fullPage = false) {
  if (!shots) return;
  mkdirSync(shots, { recursive: true });
  await page.screenshot({ path: `${shots}/${name}.png`, fullPage });
}
