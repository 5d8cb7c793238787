'use strict';

const http = require('node:http');
const { app } = require('../lib/app.js');
const carts = require('../lib/carts.js');
const db = require('../lib/db.js');
const { migrate } = require('../scripts/migrate.js');

// ask speaks plain HTTP: fetch takes longer to load than a test takes to run.
function ask(url, method, body) {
  return new Promise((resolve, reject) => {
    const req = http.request(url, { method, agent: false }, (res) => {
      let text = '';
      res.setEncoding('utf8');
      res.on('data', (part) => { text += part; });
      res.on('end', () => resolve({ status: res.statusCode, text }));
    });
    req.on('error', reject);
    req.end(body);
  });
}

// serve starts the shop on a free port against the real Postgres and Redis.
async function serve() {
  await migrate();
  const pool = db.open();
  const redis = await carts.open();
  const server = app({ pool, redis });
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  const url = `http://127.0.0.1:${server.address().port}`;
  return {
    async page(path) {
      return (await ask(url + path, 'GET')).text;
    },
    async get(path) {
      return JSON.parse((await ask(url + path, 'GET')).text);
    },
    async post(path, value) {
      const { status, text } = await ask(url + path, 'POST', JSON.stringify(value));
      return { status, body: JSON.parse(text) };
    },
    async close() {
      await new Promise((resolve) => {
        server.close(resolve);
        server.closeAllConnections();
      });
      await redis.quit();
      await pool.end();
    },
  };
}

module.exports = { serve };
