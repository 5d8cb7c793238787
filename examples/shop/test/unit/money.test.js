'use strict';

const test = require('node:test');
const assert = require('node:assert');
const money = require('../../lib/money.js');

test('cents become text', () => {
  assert.strictEqual(money.format(1450), '€14.50');
  assert.strictEqual(money.format(5), '€0.05');
  assert.strictEqual(money.format(-145), '-€1.45');
});

test('halves are rounded up', () => {
  assert.strictEqual(money.round(199.5), 200);
  assert.strictEqual(money.round(199.4), 199);
});
