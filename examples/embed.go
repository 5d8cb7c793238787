// Package examples holds the product that `drydock demo` works on, and the
// script that the demo's stand-in for a model follows. Both are embedded, so
// that the demo needs nothing but the binary.
package examples

import "embed"

// Shop is a small true product with one visible fault, below "shop".
//
//go:embed shop/.gitignore shop/*.json shop/*.md shop/*.js shop/*.yaml shop/lib shop/public shop/scripts shop/migrations shop/test
var Shop embed.FS

// Script is what the scripted provider answers in the demo.
//
//go:embed shop.script.yaml
var Script []byte

// Task is what the demo asks for.
const Task = `The cart page takes too little off when a discount code meets a quantity above one.
With 2 Anchor mugs and 1 Deck lamp, HARBOUR10 takes €5.35 off; ten percent of €68.00 is €6.80.
Find out why and fix it.`
