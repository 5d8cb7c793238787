'use strict';

const { app } = require('../lib/app.js');
const carts = require('../lib/carts.js');
const db = require('../lib/db.js');
const { migrate } = require('../scripts/migrate.js');

// serve starts the shop on a free port against the real Postgres and Redis.
async function serve() {
  await migrate();
  const pool = db.open();
  const redis = await carts.open();
  const server = app({ pool, redis });
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  const url = `http://127.0.0.1:${server.address().port}`;
  return {
    url,
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
