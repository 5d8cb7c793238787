import { afterEach, expect, test, vi } from 'vitest';
import { address, call, insist, onSignedOut } from './client';
import { Problem, problemOf } from './problem';

afterEach(() => vi.unstubAllGlobals());

function answers(...list: (Response | Error)[]) {
  const asked: { url: string; init: RequestInit }[] = [];
  vi.stubGlobal('fetch', async (url: string, init: RequestInit) => {
    asked.push({ url, init });
    const next = list.shift();
    if (!next || next instanceof Error) throw next ?? new TypeError('no answer left');
    return next;
  });
  return asked;
}
const json = (status: number, body: unknown) => new Response(JSON.stringify(body), { status });

test('addresses leave out what is empty and encode the rest', () => {
  expect(address('/inbox', { q: 'a&b=c', mine: false, environment: undefined, limit: 20 })).toBe(
    '/api/v1/inbox?q=a%26b%3Dc&limit=20',
  );
});

test('an effect has the content type that no form can send, a read has no body', async () => {
  const asked = answers(json(200, {}), json(200, {}));
  await call('/x', { method: 'PUT', body: { seq: 1 } });
  await call('/x');
  expect(asked[0]?.init.headers).toMatchObject({ 'Content-Type': 'application/json' });
  expect(asked[0]?.init.body).toBe('{"seq":1}');
  expect(asked[1]?.init.body).toBeUndefined();
});

test('the form of errors, and what a proxy makes of one', () => {
  expect(problemOf(409, { code: 'handed_over', message: 'm', hint: 'h', id: 'f1' })).toMatchObject({
    code: 'handed_over',
    message: 'm',
    hint: 'h',
    id: 'f1',
  });
  expect(problemOf(502, undefined).code).toBe('unavailable');
  expect(problemOf(410, '<html>').code).toBe('gone');
  expect(problemOf(500, { code: 'made up', message: 7 })).toMatchObject({ code: 'internal', status: 500 });
});

test('an effect is tried again only while that can help, with the same body', async () => {
  const asked = answers(
    new TypeError('network'),
    json(503, { code: 'unavailable', message: '' }),
    json(201, { ok: 1 }),
  );
  const got = await insist('/sessions', { method: 'POST', body: { client_id: 'web-1' } }, { wait: async () => {} });
  expect(got).toEqual({ ok: 1 });
  expect(new Set(asked.map((a) => a.init.body))).toEqual(new Set(['{"client_id":"web-1"}']));

  const refused = answers(json(400, { code: 'invalid', message: 'no' }));
  await expect(insist('/sessions', { method: 'POST' }, { wait: async () => {} })).rejects.toMatchObject({
    code: 'invalid',
  });
  expect(refused).toHaveLength(1);
});

test('a sign-in that ended is told once for the page, but not by the sign-in itself', async () => {
  const told = vi.fn();
  const stop = onSignedOut(told);
  answers(json(401, { code: 'unauthorized', message: '' }), json(401, { code: 'unauthorized', message: '' }));
  await expect(call('/inbox')).rejects.toBeInstanceOf(Problem);
  await expect(call('/login', { method: 'POST' })).rejects.toBeInstanceOf(Problem);
  expect(told).toHaveBeenCalledTimes(1);
  stop();
});
