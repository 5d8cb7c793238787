'use strict';

const test = require('node:test');
const assert = require('node:assert');
const { serve } = require('../helper.js');

test('the shop page shows every thing with its price', async () => {
  const shop = await serve();
  try {
    const html = await shop.page('/');
    assert.match(html, /Anchor mug/);
    assert.match(html, /€14\.50/);
    assert.strictEqual(html.match(/class="card"/g).length, 6);
  } finally {
    await shop.close();
  }
});

test('the cart page shows lines and total', async () => {
  const shop = await serve();
  try {
    const html = await shop.page('/cart?items=anchor-mug:1,brass-hook:1');
    assert.match(html, /id="total">€22\.49</);
  } finally {
    await shop.close();
  }
});

test('what people type is shown as text', async () => {
  const shop = await serve();
  try {
    const html = await shop.page('/cart?items=%3Cb%3E:1');
    assert.doesNotMatch(html, /<b>/);
  } finally {
    await shop.close();
  }
});
