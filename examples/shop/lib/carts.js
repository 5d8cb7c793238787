'use strict';

const { createClient } = require('@redis/client');
const cart = require('./cart.js');

// Carts live in Redis for a day.
const DAY = 24 * 60 * 60;

async function open(url = process.env.REDIS_URL || 'redis://127.0.0.1:6379') {
  const client = createClient({ url });
  client.on('error', () => {});
  await client.connect();
  return client;
}

async function load(client, id) {
  const text = await client.get(`cart:${id}`);
  return text ? JSON.parse(text) : [];
}

async function add(client, id, sku, quantity) {
  const lines = cart.add(await load(client, id), sku, quantity);
  await client.set(`cart:${id}`, JSON.stringify(lines), { EX: DAY });
  return lines;
}

module.exports = { open, load, add };
