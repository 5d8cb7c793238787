// Package change hands work to people and brings their answers back: it pushes
// a session's branch, opens and updates its change exactly once, and turns what
// people do to a change into events and prompts of the session.
//
// It runs no git and keeps no records of its own: a forge does (package forge),
// and the journal of effects is the store's. It does not decide what a prompt
// does; it only says that there is one.
//
// Invariants: an outside effect is written down before it is done, and a
// repetition with the same key finds it done; a comment becomes one prompt at
// most, by its author; every activity is recorded once per key, by whoever
// fulfils Sessions.
//
// A Service is used by many goroutines. Watch owns the one loop there is.
//
//	svc := change.New(change.Deps{Forge: f, Effects: db, Sessions: sessions}, change.Options{})
//	done, err := svc.Deliver(ctx, change.DeliverRequest{Key: "run_1:deliver", Session: id, Repository: "shop", ...})
package change
