'use strict';

const test = require('node:test');
const assert = require('node:assert');
const cart = require('../../lib/cart.js');

const products = { mug: { name: 'Mug', price: 1450 }, hook: { name: 'Hook', price: 799 } };

test('a cart without a code costs what its lines sum to', () => {
  const got = cart.totals([{ sku: 'mug', quantity: 2 }, { sku: 'hook', quantity: 1 }], products);
  assert.strictEqual(got.subtotal, 3699);
  assert.strictEqual(got.discount, null);
  assert.strictEqual(got.total, 3699);
});

test('a code takes its share off', () => {
  const got = cart.totals([{ sku: 'mug', quantity: 1 }], products, 'harbour10');
  assert.strictEqual(got.discount.amount, 145);
  assert.strictEqual(got.total, 1305);
});

test('the discount is rounded half up, once', () => {
  const got = cart.totals([{ sku: 'hook', quantity: 1 }], products, 'CREW25');
  assert.strictEqual(got.discount.amount, 200);
});

test('an unknown code is refused', () => {
  assert.throws(() => cart.totals([], products, 'FREE'), cart.CartError);
});

test('adding the same thing twice makes one line', () => {
  const lines = cart.add(cart.add([], 'mug', 1), 'mug', 2);
  assert.deepStrictEqual(lines, [{ sku: 'mug', quantity: 3 }]);
});

test('quantities are whole, positive and bounded', () => {
  for (const quantity of [0, -1, 1.5, NaN, 100]) {
    assert.throws(() => cart.add([], 'mug', quantity), cart.CartError);
  }
});

test('a shared cart is read from its text', () => {
  assert.deepStrictEqual(cart.parse('mug:2,hook'), [{ sku: 'mug', quantity: 2 }, { sku: 'hook', quantity: 1 }]);
});
