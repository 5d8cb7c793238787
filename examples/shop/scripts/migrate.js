'use strict';

const fs = require('node:fs');
const path = require('node:path');
const db = require('../lib/db.js');

const dir = path.join(__dirname, '..', 'migrations');

async function migrate(database) {
  const pool = db.open(database);
  try {
    for (const file of fs.readdirSync(dir).sort()) {
      await pool.query(fs.readFileSync(path.join(dir, file), 'utf8'));
    }
  } finally {
    await pool.end();
  }
}

module.exports = { migrate };

if (require.main === module) {
  migrate().catch((err) => {
    process.stderr.write(`${err.stack}\n`);
    process.exit(1);
  });
}
