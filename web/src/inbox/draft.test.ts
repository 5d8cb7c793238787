import { expect, test } from 'vitest';
import { emptyTask, readBudget, readKept, request, sendingID } from './draft';

const task = { ...emptyTask, text: ' fix the cart ', environment: 'env_a' };

test('every try of a task has the same id, a changed task another', () => {
  const first = sendingID({ task });
  expect(sendingID({ task, sending: first })).toEqual(first);
  expect(sendingID({ task: { ...task, text: 'fix it' }, sending: first }).id).not.toBe(first.id);
});

test('a budget is a sum or nothing, never a guess', () => {
  expect(readBudget('')).toBe('');
  expect(readBudget('5')).toBe(5_000_000);
  expect(readBudget(' 0,25 ')).toBe(250_000);
  for (const wrong of ['0', '-1', '1e9', '5 USD', '1.2.3', 'Infinity', '9999999'])
    expect(readBudget(wrong)).toBeUndefined();
});

test('only what was said is asked for', () => {
  expect(request(task, 'web-1', undefined)).toEqual({
    environment: 'env_a',
    prompt: 'fix the cart',
    client_id: 'web-1',
  });
  expect(request({ ...task, base: ' main ', model: 'a/b', budget: '2' }, 'web-1', 'drf_1')).toMatchObject({
    base: 'main',
    model: 'a/b',
    draft: 'drf_1',
    budget: { microusd: 2_000_000 },
  });
});

test('what is kept is read strictly', () => {
  for (const text of [null, '', 'x', '[]', '{"task":7}', '{"task":{"text":{}}}']) {
    expect(readKept(text).task).toEqual(emptyTask);
  }
  expect(readKept(JSON.stringify({ task: { text: 'a' }, sending: { id: 'i', of: 'o' } }))).toEqual({
    task: { ...emptyTask, text: 'a' },
    sending: { id: 'i', of: 'o' },
  });
});
