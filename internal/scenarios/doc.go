// Package scenarios holds tests only: whole sessions, from a prompt to what
// people get, on real sandboxes with a scripted model. They say what the
// product promises; the packages' own tests say how.
//
// Each needs root and what `make build` makes; on a laptop without them it is
// skipped. Files under testdata/foreign are repositories that depend on
// packages with a fault everybody can look up.
package scenarios
