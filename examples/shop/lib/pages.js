'use strict';

const money = require('./money.js');

function escape(text) {
  return String(text).replace(/[&<>"']/g, (c) => `&#${c.charCodeAt(0)};`);
}

function layout(title, body) {
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>${escape(title)} · Harbour shop</title>
<link rel="icon" href="data:,">
<link rel="stylesheet" href="/style.css">
</head>
<body>
<header><a class="brand" href="/">Harbour shop</a><nav><a href="/">Things</a><a href="/cart">Cart</a></nav></header>
<main>${body}</main>
<footer>Everything here is made to be used at sea.</footer>
</body>
</html>
`;
}

function shop(products) {
  const cards = products.map((p) => `
<article class="card" style="--tint:${escape(p.tint)}">
  <div class="swatch" aria-hidden="true"></div>
  <h2>${escape(p.name)}</h2>
  <p>${escape(p.blurb)}</p>
  <form method="post" action="/cart"><input type="hidden" name="sku" value="${escape(p.sku)}">
    <strong>${money.format(p.price)}</strong><button>Add to cart</button></form>
</article>`).join('');
  return layout('Things', `<h1>Things for small boats</h1><section class="grid">${cards}</section>`);
}

function cart(totals) {
  if (totals.lines.length === 0) return layout('Cart', '<h1>Your cart</h1><p class="empty">Nothing in it yet.</p>');
  const rows = totals.lines.map((l) => `
<tr data-sku="${escape(l.sku)}"><td>${escape(l.name)}</td><td class="n">${l.quantity}</td><td class="n">${money.format(l.price)}</td><td class="n">${money.format(l.sum)}</td></tr>`).join('');
  const off = totals.discount
    ? `<tr class="off"><td colspan="3">${escape(totals.discount.label)}</td><td class="n" id="discount">${money.format(-totals.discount.amount)}</td></tr>`
    : '';
  return layout('Cart', `<h1>Your cart</h1>
<table>
<thead><tr><th>Thing</th><th class="n">Quantity</th><th class="n">Each</th><th class="n">Sum</th></tr></thead>
<tbody>${rows}</tbody>
<tfoot>
<tr><td colspan="3">Subtotal</td><td class="n" id="subtotal">${money.format(totals.subtotal)}</td></tr>${off}
<tr class="total"><td colspan="3">Total</td><td class="n" id="total">${money.format(totals.total)}</td></tr>
</tfoot>
</table>`);
}

function problem(message) {
  return layout('Not possible', `<h1>That did not work</h1><p class="empty">${escape(message)}</p>`);
}

module.exports = { shop, cart, problem };
