'use strict';

const test = require('node:test');
const assert = require('node:assert');
const { flags } = require('../flags.js');

test('reads names and switches', () => {
  const got = flags(['--name', 'shop', '--verbose']);
  assert.strictEqual(got.name, 'shop');
  assert.strictEqual(got.verbose, true);
});
