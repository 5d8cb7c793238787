'use strict';

const minimist = require('minimist');

// Reads command-line flags of the service into a plain object.
function flags(argv) {
  return minimist(argv, { boolean: ['verbose'], string: ['name'] });
}

module.exports = { flags };
