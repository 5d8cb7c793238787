import { beforeAll, expect, test } from 'vitest';
import { bytes, count, duration, money, relative, setLocale } from './format';

beforeAll(() => setLocale('en-GB'));
const ms = 1e6;

test.each([
  [240 * ms, '240ms'],
  [4230 * ms, '4.2s'],
  [59_000 * ms, '59s'],
  [59_800 * ms, '1m'],
  [252_000 * ms, '4m 12s'],
  [3600_000 * ms, '1h'],
  [7500_000 * ms, '2h 5m'],
  [100 * 3600_000 * ms, '4d 4h'],
  [-5, '0ms'],
])('%d ns is %s', (ns, want) => expect(duration(ns)).toBe(want));

test('money never reads as nothing when it is something', () => {
  expect(money(420_000)).toBe('0.42\u00a0USD');
  expect(money(1200)).toBe('0.0012\u00a0USD');
  expect(money(0)).toBe('0.00\u00a0USD');
  expect(money(1_234_567_000)).toBe('1,234.57\u00a0USD');
});

test('ages', () => {
  const now = Date.parse('2026-01-10T12:00:00Z');
  const at = (s: number) => relative(now - s * 1000, now);
  expect([at(10), at(60), at(240), at(3 * 3600), at(30 * 3600), at(3 * 86400), at(30 * 86400)]).toEqual([
    'just now',
    '1 min ago',
    '4 min ago',
    '3 hr ago',
    '30 hr ago',
    '3 days ago',
    '11 Dec 2025',
  ]);
});

test('sizes and plurals', () => {
  expect(bytes(999)).toBe('999 byte');
  expect(bytes(1_250_000)).toBe('1.3 MB');
  expect(count(1, { one: 'file', other: 'files' })).toBe('1 file');
  expect(count(1200, { one: 'file', other: 'files' })).toBe('1,200 files');
});
