'use strict';

const cart = require('./cart.js');
const { connect } = require('./redis.js');

// Carts live in Redis for a day.
const DAY = 24 * 60 * 60;

function open(port = Number(process.env.REDIS_PORT || 6379)) {
  return connect(port);
}

async function load(client, id) {
  const text = await client.command('GET', `cart:${id}`);
  return text ? JSON.parse(text) : [];
}

async function add(client, id, sku, quantity) {
  const lines = cart.add(await load(client, id), sku, quantity);
  await client.command('SET', `cart:${id}`, JSON.stringify(lines), 'EX', DAY);
  return lines;
}

module.exports = { open, load, add };
