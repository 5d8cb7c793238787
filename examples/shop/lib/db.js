'use strict';

const { Pool } = require('pg');

function open(database = process.env.SHOP_DB || 'postgres') {
  return new Pool({ host: process.env.PGHOST || '/var/run/postgresql', user: 'postgres', database, max: 4 });
}

async function products(pool) {
  const { rows } = await pool.query('SELECT sku, name, blurb, price, tint FROM products ORDER BY position');
  return rows;
}

async function bySku(pool) {
  return Object.fromEntries((await products(pool)).map((p) => [p.sku, p]));
}

module.exports = { open, products, bySku };
