import { expect, test } from 'vitest';
import { Problem } from '../api/problem';
import { Drafts } from './drafts';
import { Outbox } from './outbox';
import { type Box, MAX_SHELF, Shelf } from './shelf';

class Memory implements Box {
  all = new Map<string, string>();
  quota = Number.POSITIVE_INFINITY;
  get length() {
    return this.all.size;
  }
  key(i: number) {
    return [...this.all.keys()][i] ?? null;
  }
  getItem(k: string) {
    return this.all.get(k) ?? null;
  }
  removeItem(k: string) {
    this.all.delete(k);
  }
  setItem(k: string, v: string) {
    if (this.size() + v.length > this.quota) throw new DOMException('full', 'QuotaExceededError');
    this.all.set(k, v);
  }
  size() {
    return [...this.all].reduce((n, [k, v]) => n + k.length + v.length, 0);
  }
}

const calm = () => new Promise((done) => setTimeout(done, 0));

test('two months of use stay within the bound, and the newest stays', () => {
  const box = new Memory();
  let now = 0;
  const shelf = new Shelf(box, () => now++);
  for (let i = 0; i < 3000; i++) shelf.set(`draft.${i}`, 'x'.repeat(2000));
  expect(box.size()).toBeLessThanOrEqual(MAX_SHELF);
  expect(shelf.get('draft.2999')).toHaveLength(2000);
  expect(shelf.get('draft.0')).toBeUndefined();
});

test('a full, a broken and a missing storage are harmless', () => {
  const box = new Memory();
  const shelf = new Shelf(box);
  shelf.set('a', 'x'.repeat(500));
  box.quota = 700;
  expect(shelf.set('b', 'y'.repeat(500))).toBe(true);
  expect(shelf.get('a')).toBeUndefined();
  expect(shelf.set('c', 'z'.repeat(900))).toBe(false);
  expect(new Shelf(undefined).set('a', 1)).toBe(false);
  box.all.set('drydock.1.bad', '{not json');
  expect(shelf.get('bad')).toBeUndefined();
});

test('keys of an older version are removed, those of others are left alone', () => {
  const box = new Memory();
  box.all.set('drydock.0.draft', '1');
  box.all.set('theme', 'dark');
  new Shelf(box);
  expect([...box.all.keys()]).toEqual(['theme']);
});

test('a draft survives a reload and ends when it is empty', () => {
  const box = new Memory();
  new Drafts(new Shelf(box)).set('ses_a', 'half a thought');
  const after = new Drafts(new Shelf(box));
  expect(after.get('ses_a')).toBe('half a thought');
  after.set('ses_a', '');
  expect(new Drafts(new Shelf(box)).get('ses_a')).toBe('');
});

test('a prompt is shown at once, keeps its text when it fails, and is sent again under its own id', async () => {
  const box = new Memory();
  const sent: string[] = [];
  let fail: Error | undefined = new Error('the network is away');
  const post = async (_session: string, _text: string, client: string) => {
    sent.push(client);
    if (fail) throw fail;
    return 'prm_1';
  };
  const out = new Outbox(post, new Shelf(box));
  const first = out.send('ses_a', 'make it so');
  expect(out.of('ses_a')).toMatchObject([{ state: 'sending', text: 'make it so' }]);
  await calm();
  expect(out.of('ses_a')).toMatchObject([{ state: 'failed', text: 'make it so', refused: false }]);
  const again = new Outbox(post, new Shelf(box));
  expect(again.of('ses_a')).toMatchObject([{ state: 'failed', text: 'make it so', client: first.client }]);
  fail = undefined;
  again.resume();
  await calm();
  expect(again.of('ses_a')).toMatchObject([{ state: 'sent', prompt: 'prm_1' }]);
  expect(new Set(sent)).toEqual(new Set([first.client]));
  again.settle('ses_a', (o) => o.prompt === 'prm_1');
  expect(again.of('ses_a')).toEqual([]);
  expect(box.size()).toBe(0);
});

test('what the daemon refuses is not sent again by itself', async () => {
  let n = 0;
  const post = async () => {
    n++;
    throw new Problem('invalid', 'the text is too long', { status: 400 });
  };
  const out = new Outbox(post, new Shelf(new Memory()));
  out.send('ses_a', 'x');
  await calm();
  out.resume();
  await calm();
  expect(n).toBe(1);
  expect(out.of('ses_a')).toMatchObject([{ state: 'failed', problem: 'the text is too long', refused: true }]);
});
