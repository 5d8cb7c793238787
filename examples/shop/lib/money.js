'use strict';

// Amounts are whole cents. Rounding is half up, once, at the end.

function round(cents) {
  return Math.floor(cents + 0.5);
}

function format(cents) {
  const sign = cents < 0 ? '-' : '';
  const whole = Math.floor(Math.abs(cents) / 100);
  const rest = String(Math.abs(cents) % 100).padStart(2, '0');
  return `${sign}€${whole}.${rest}`;
}

module.exports = { round, format };
