'use strict';

const test = require('node:test');
const assert = require('node:assert');
const crypto = require('node:crypto');
const { serve } = require('../helper.js');

test('the catalogue comes from Postgres, in order', async () => {
  const shop = await serve();
  try {
    const products = await shop.get('/api/products');
    assert.strictEqual(products.length, 6);
    assert.strictEqual(products[0].sku, 'anchor-mug');
  } finally {
    await shop.close();
  }
});

test('a cart is kept in Redis', async () => {
  const shop = await serve();
  try {
    const id = crypto.randomUUID();
    await shop.post('/api/carts', { id, sku: 'anchor-mug', quantity: 1 });
    const cart = await shop.get(`/api/carts?id=${id}`);
    assert.strictEqual(cart.total, 1450);
  } finally {
    await shop.close();
  }
});

test('an unknown product is refused with a reason', async () => {
  const shop = await serve();
  try {
    const got = await shop.post('/api/carts', { id: 'x', sku: 'kraken', quantity: 1 });
    assert.strictEqual(got.status, 400);
    assert.match(got.body.error, /kraken/);
  } finally {
    await shop.close();
  }
});
