import { expect, test } from 'vitest';
import type { Draft } from '../api/types';
import { Claim } from './claim';

function world() {
  let now = Date.parse('2026-01-02T15:00:00Z');
  let n = 0;
  const log: string[] = [];
  const waiting: (() => void)[] = [];
  let slow = false;
  let refuse = false;
  const claim = new Claim({
    now: () => now,
    make: async (environment): Promise<Draft> => {
      n++;
      const id = `drf_${n}`;
      log.push(`make ${environment}`);
      if (slow) await new Promise<void>((done) => waiting.push(done));
      if (refuse) throw new Error('none');
      return { id, environment, warm: true, expires: new Date(now + 120_000).toISOString() };
    },
    giveBack: async (id) => log.push(`back ${id}`),
  });
  return {
    claim,
    log,
    pass: (ms: number) => {
      now += ms;
    },
    slow: () => {
      slow = true;
    },
    refuse: () => {
      refuse = true;
    },
    answer: () => {
      for (const done of waiting.splice(0)) done();
    },
  };
}

test('one sandbox is kept however much is typed, and the task names it', async () => {
  const w = world();
  for (let i = 0; i < 20; i++) await w.claim.typing('env_a');
  expect(w.log).toEqual(['make env_a']);
  expect(w.claim.id('env_a')).toBe('drf_1');
  expect(w.claim.warm('env_a')).toBe(true);
  w.claim.used();
  w.claim.drop();
  expect(w.log).toEqual(['make env_a']);
});

test('another environment gives the first back', async () => {
  const w = world();
  await w.claim.typing('env_a');
  await w.claim.typing('env_b');
  expect(w.log).toEqual(['make env_a', 'back drf_1', 'make env_b']);
  expect(w.claim.id('env_a')).toBeUndefined();
});

test('one that ran out is asked for again at the next key', async () => {
  const w = world();
  await w.claim.typing('env_a');
  w.pass(119_000);
  expect(w.claim.id('env_a')).toBeUndefined();
  await w.claim.typing('env_a');
  expect(w.log).toEqual(['make env_a', 'make env_a']);
});

test('an answer that comes after the page was left goes back', async () => {
  const w = world();
  w.slow();
  const asked = w.claim.typing('env_a');
  w.claim.drop();
  w.answer();
  await asked;
  expect(w.log).toEqual(['make env_a', 'back drf_1']);
});

test('after a refusal it is not asked at every key', async () => {
  const w = world();
  w.refuse();
  for (let i = 0; i < 9; i++) await w.claim.typing('env_a');
  expect(w.log).toHaveLength(1);
  w.pass(31_000);
  await w.claim.typing('env_a');
  expect(w.log).toHaveLength(2);
});
