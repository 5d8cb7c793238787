package model

import "context"

// Provider speaks one wire format. Stream makes exactly one request and never
// retries; the gateway does. An answer that did not end well is a *Fault; the
// Response then still carries the usage that the provider reported. A
// cancelled context is returned as its cause. Implementations are safe for use
// by many goroutines and pass the suite in modeltest.
type Provider interface {
	Stream(ctx context.Context, req Request, onDelta func(Delta)) (Response, error)
}

// Labelled is a Provider whose answers are not a model's; whatever shows them
// says so.
type Labelled interface {
	Scripted() bool
}

// Seeded is a Provider that passes Request.Seed on.
type Seeded interface {
	Seeded() bool
}

// Vendor is a Provider that knows whose prices hold for it, whatever name it
// was configured under; "" when it does not.
type Vendor interface {
	Vendor() string
}
