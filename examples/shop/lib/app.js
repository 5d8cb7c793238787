'use strict';

const crypto = require('node:crypto');
const fs = require('node:fs');
const http = require('node:http');
const path = require('node:path');
const cart = require('./cart.js');
const carts = require('./carts.js');
const db = require('./db.js');
const pages = require('./pages.js');

const STYLE = fs.readFileSync(path.join(__dirname, '..', 'public', 'style.css'));
const MAX_BODY = 16 * 1024;

async function body(req) {
  let text = '';
  for await (const chunk of req) {
    text += chunk;
    if (text.length > MAX_BODY) throw new cart.CartError('that is too much');
  }
  return text;
}

function cartId(req, res) {
  const found = /(?:^|; )cart=([a-f0-9]{32})/.exec(req.headers.cookie || '');
  if (found) return found[1];
  const id = crypto.randomBytes(16).toString('hex');
  res.setHeader('set-cookie', `cart=${id}; HttpOnly; SameSite=Lax; Path=/`);
  return id;
}

function html(res, status, text) {
  res.writeHead(status, { 'content-type': 'text/html; charset=utf-8' });
  res.end(text);
}

function json(res, status, value) {
  res.writeHead(status, { 'content-type': 'application/json' });
  res.end(JSON.stringify(value));
}

// app answers requests; pool and redis are open connections.
function app({ pool, redis }) {
  const routes = {
    'GET /healthz': async (req, res) => {
      await pool.query('SELECT 1');
      await redis.command('PING');
      json(res, 200, { ok: true });
    },
    'GET /style.css': async (req, res) => {
      res.writeHead(200, { 'content-type': 'text/css' });
      res.end(STYLE);
    },
    'GET /': async (req, res) => html(res, 200, pages.shop(await db.products(pool))),
    'GET /cart': async (req, res, url) => {
      const items = url.searchParams.get('items');
      const lines = items === null ? await carts.load(redis, cartId(req, res)) : cart.parse(items);
      html(res, 200, pages.cart(cart.totals(lines, await db.bySku(pool), url.searchParams.get('code'))));
    },
    'POST /cart': async (req, res) => {
      const form = new URLSearchParams(await body(req));
      await carts.add(redis, cartId(req, res), form.get('sku'), Number(form.get('quantity') || '1'));
      res.writeHead(303, { location: '/cart' });
      res.end();
    },
    'GET /api/products': async (req, res) => json(res, 200, await db.products(pool)),
    'POST /api/carts': async (req, res) => {
      const { id, sku, quantity } = JSON.parse(await body(req));
      const products = await db.bySku(pool);
      if (!products[sku]) throw new cart.CartError(`unknown product ${sku}`);
      json(res, 200, { lines: await carts.add(redis, id, sku, quantity) });
    },
    'GET /api/carts': async (req, res, url) => {
      const lines = await carts.load(redis, url.searchParams.get('id'));
      json(res, 200, cart.totals(lines, await db.bySku(pool), url.searchParams.get('code')));
    },
  };
  return http.createServer(async (req, res) => {
    const url = new URL(req.url, 'http://shop');
    const isApi = url.pathname.startsWith('/api/');
    const route = routes[`${req.method} ${url.pathname}`];
    try {
      if (!route) return isApi ? json(res, 404, { error: 'not found' }) : html(res, 404, pages.problem('There is no such page.'));
      return await route(req, res, url);
    } catch (err) {
      const known = err instanceof cart.CartError || err instanceof SyntaxError;
      const message = known ? err.message : 'something broke on our side';
      return isApi ? json(res, known ? 400 : 500, { error: message }) : html(res, known ? 400 : 500, pages.problem(message));
    }
  });
}

module.exports = { app };
