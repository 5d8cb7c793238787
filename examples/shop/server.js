'use strict';

const { app } = require('./lib/app.js');
const carts = require('./lib/carts.js');
const db = require('./lib/db.js');
const { migrate } = require('./scripts/migrate.js');

async function main() {
  await migrate();
  const pool = db.open();
  const redis = await carts.open();
  const port = Number(process.env.PORT || 3000);
  app({ pool, redis }).listen(port, '0.0.0.0', () => process.stdout.write(`listening on ${port}\n`));
}

main().catch((err) => {
  process.stderr.write(`${err.stack}\n`);
  process.exit(1);
});
