import { describe, expect, test } from 'vitest';
import { type Binding, Keys, nameOfPress, type Place, type Press } from './keys';

const page: Place = { field: false, dialog: false, terminal: false, singleKeys: true };
const press = (key: string, more: Partial<Press> = {}): Press => ({
  key,
  ctrlKey: false,
  metaKey: false,
  altKey: false,
  shiftKey: false,
  ...more,
});
const binding = (keys: string, more: Partial<Binding> = {}): Binding => ({
  keys,
  label: keys,
  group: 'g',
  run: () => {},
  ...more,
});
const hit = (keys: Keys, p: Press, place: Partial<Place> = {}, now = 0, apple = false) =>
  keys.match(p, { ...page, ...place }, apple, now)?.keys;

test('names of presses', () => {
  expect(nameOfPress(press('j'), false)).toBe('j');
  expect(nameOfPress(press('U', { shiftKey: true }), false)).toBe('Shift+U');
  expect(nameOfPress(press('?', { shiftKey: true }), false)).toBe('?');
  expect(nameOfPress(press('K', { ctrlKey: true }), false)).toBe('Mod+k');
  expect(nameOfPress(press('k', { metaKey: true }), true)).toBe('Mod+k');
  // Not ours: the system's or the browser's.
  expect(nameOfPress(press('k', { metaKey: true }), false)).toBe('');
  expect(nameOfPress(press('k', { ctrlKey: true }), true)).toBe('');
  expect(nameOfPress(press('j', { altKey: true }), false)).toBe('');
});

describe('where keys hold', () => {
  const keys = new Keys();
  keys.add([
    binding('j'),
    binding('End'),
    binding('Mod+k', { inFields: true }),
    binding('Mod+b'),
    binding('Escape', { inDialogs: true, inFields: true }),
  ]);
  test.each<[string, Press, Partial<Place>, string | undefined]>([
    ['a letter on the page', press('j'), {}, 'j'],
    ['a letter in a field', press('j'), { field: true }, undefined],
    ['a letter behind a dialog', press('j'), { dialog: true }, undefined],
    ['a letter in a terminal', press('j'), { terminal: true }, undefined],
    ['a letter when single keys are off', press('j'), { singleKeys: false }, undefined],
    ['End when single keys are off', press('End'), { singleKeys: false }, 'End'],
    ['Mod in a field', press('k', { ctrlKey: true }), { field: true }, 'Mod+k'],
    ['Mod in a field that is not for fields', press('b', { ctrlKey: true }), { field: true }, undefined],
    ['Mod in a terminal', press('k', { ctrlKey: true }), { terminal: true }, 'Mod+k'],
    ['Mod behind a dialog', press('k', { ctrlKey: true }), { dialog: true }, undefined],
    ['Escape in a terminal', press('Escape'), { terminal: true }, undefined],
    ['Escape in a dialog', press('Escape'), { dialog: true }, 'Escape'],
  ])('%s', (_, p, place, want) => expect(hit(keys, p, place)).toBe(want));
});

describe('chords', () => {
  const keys = new Keys();
  keys.add([binding('g i'), binding('i')]);
  test('two keys after one another', () => {
    expect(hit(keys, press('g'), {}, 100)).toBeUndefined();
    expect(hit(keys, press('i'), {}, 300)).toBe('g i');
    expect(hit(keys, press('i'), {}, 400)).toBe('i');
  });
  test('too slow is two single keys', () => {
    hit(keys, press('g'), {}, 1000);
    expect(hit(keys, press('i'), {}, 5000)).toBe('i');
  });
  test('another key in between ends it', () => {
    hit(keys, press('g'), {}, 0);
    hit(keys, press('x'), {}, 10);
    expect(hit(keys, press('i'), {}, 20)).toBe('i');
  });
});

test('of two with the same keys the newest holds, and the old one again when it goes', () => {
  const keys = new Keys();
  const old = binding('j', { label: 'old' });
  const fresh = binding('j', { label: 'new' });
  keys.add([old]);
  const drop = keys.add([fresh]);
  expect(keys.list()).toEqual([fresh]);
  drop();
  expect(keys.list()).toEqual([old]);
});
