import { readFileSync } from 'node:fs';
import { describe, expect, test } from 'vitest';

const css = readFileSync(new URL('./tokens.css', import.meta.url), 'utf8');

type Theme = 'light' | 'dark';
type Set_ = Record<string, Record<Theme, string>>;

function values(block: string): Set_ {
  const out: Set_ = {};
  for (const [, name, light, dark] of block.matchAll(/--([\w-]+): light-dark\((#[0-9a-f]{6}), (#[0-9a-f]{6})\)/g)) {
    if (name && light && dark) out[name] = { light, dark };
  }
  return out;
}

function luminance(hex: string): number {
  const part = (at: number) => {
    const c = Number.parseInt(hex.slice(at, at + 2), 16) / 255;
    return c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
  };
  return 0.2126 * part(1) + 0.7152 * part(3) + 0.0722 * part(5);
}

function contrast(a: string, b: string): number {
  const [hi = 0, lo = 0] = [luminance(a), luminance(b)].sort((x, y) => y - x);
  return (hi + 0.05) / (lo + 0.05);
}

const usual = values(css.slice(0, css.indexOf('[data-diff="blue"]')));
const blue = { ...usual, ...values(css.slice(css.indexOf('[data-diff="blue"]'))) };

// What stands on what, and the least ratio that it needs.
const grounds = ['canvas', 'surface', 'sunken', 'hover', 'selected'];
const pairs: [string, string[], number][] = [
  ['text', [...grounds, 'ask-tint', 'ok-tint', 'bad-tint', 'unp-tint', 'run-tint'], 7],
  ['text-2', [...grounds, 'ask-tint', 'ok-tint', 'bad-tint', 'unp-tint', 'run-tint'], 4.5],
  ['text-3', grounds, 4.5],
  ['control', ['canvas', 'surface', 'sunken'], 3],
  ['accent', [...grounds, 'run-tint'], 4.5],
  ['on-accent', ['accent', 'accent-hover'], 4.5],
  ['ask', ['canvas', 'surface', 'sunken', 'hover', 'selected', 'ask-tint'], 4.5],
  ['ok', ['canvas', 'surface', 'sunken', 'hover', 'selected', 'ok-tint'], 4.5],
  ['bad', ['canvas', 'surface', 'sunken', 'hover', 'selected', 'bad-tint'], 4.5],
  ['unp', ['canvas', 'surface', 'sunken', 'hover', 'selected', 'unp-tint'], 4.5],
  ['add-bar', ['surface'], 3],
  ['del-bar', ['surface'], 3],
];
const diffGrounds = ['surface', 'add-line', 'add-word', 'del-line', 'del-word'];
for (const name of ['keyword', 'string', 'number', 'comment', 'function', 'type']) {
  pairs.push([`syn-${name}`, diffGrounds, 4.5]);
}
pairs.push(['text', diffGrounds, 4.5]);

describe.each([
  ['usual', usual],
  ['blue and orange diff', blue],
])('contrast, %s', (_, tokens) => {
  test.each(['light', 'dark'] as const)('%s', (theme) => {
    const low: string[] = [];
    for (const [front, backs, least] of pairs) {
      for (const back of backs) {
        const [a, b] = [tokens[front]?.[theme], tokens[back]?.[theme]];
        if (!a || !b) throw new Error(`no colour for ${front} on ${back}`);
        const ratio = contrast(a, b);
        if (ratio < least) low.push(`${front} on ${back}: ${ratio.toFixed(2)}, needs ${least}`);
      }
    }
    expect(low).toEqual([]);
  });
});

test('every colour has its forced-colours twin or is only a diff, syntax or shadow', () => {
  const forced = css.slice(css.indexOf('forced-colors'));
  const missing = Object.keys(usual).filter(
    (name) => !/^(add|del|syn)-/.test(name) && !new RegExp(`--${name}: \\w+;`).test(forced),
  );
  expect(missing).toEqual([]);
});
