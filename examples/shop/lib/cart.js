'use strict';

const money = require('./money.js');

// A cart is a list of {sku, quantity}. Prices come from the catalogue.

const MAX_QUANTITY = 99;

const CODES = {
  HARBOUR10: { label: 'Harbour days, 10 % off', percent: 10 },
  CREW25: { label: 'Crew discount, 25 % off', percent: 25 },
};

class CartError extends Error {}

function discount(code) {
  if (!code) return null;
  const found = CODES[code.toUpperCase()];
  if (!found) throw new CartError(`unknown code ${code}`);
  return found;
}

function add(cart, sku, quantity) {
  if (!Number.isInteger(quantity) || quantity < 1) throw new CartError('quantity must be a whole number above zero');
  const line = cart.find((l) => l.sku === sku);
  const total = (line ? line.quantity : 0) + quantity;
  if (total > MAX_QUANTITY) throw new CartError(`at most ${MAX_QUANTITY} of one thing`);
  if (line) line.quantity = total;
  else cart.push({ sku, quantity });
  return cart;
}

// totals prices a cart. products is a map from sku to {name, price}.
function totals(cart, products, code) {
  const off = discount(code);
  const lines = cart.map(({ sku, quantity }) => {
    const product = products[sku];
    if (!product) throw new CartError(`unknown product ${sku}`);
    return { sku, name: product.name, price: product.price, quantity, sum: product.price * quantity };
  });
  const subtotal = lines.reduce((all, line) => all + line.sum, 0);
  const saved = off ? money.round(lines.reduce((all, line) => all + line.price, 0) * off.percent / 100) : 0;
  return { lines, subtotal, discount: off ? { label: off.label, amount: saved } : null, total: subtotal - saved };
}

// parse reads the items of a shared cart: "anchor-mug:2,deck-lamp:1".
function parse(text) {
  const cart = [];
  for (const part of text.split(',').filter(Boolean)) {
    const [sku, quantity = '1'] = part.split(':');
    add(cart, sku, Number(quantity));
  }
  return cart;
}

module.exports = { CartError, add, totals, parse, discount };
