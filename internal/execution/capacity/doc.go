// Package capacity knows what the host has and what living sandboxes may still
// take of it, and so decides what may start: sessions, proof rooms, builds,
// warm sandboxes.
//
// Memory is promised, not measured off limits: an idle sandbox uses some 60 MiB
// of a limit of 4 GiB. Each sandbox is reserved what it uses now, or a floor if
// that is more; a reserve of the host is never given out. Of the processors,
// which everybody shares, only how many busy sandboxes there are is bounded. Below
// a reserve of the disk nothing new starts; what runs goes on.
//
// When room is scarce, running sessions and their proof rooms come first, then
// new sessions, builds, warm sandboxes; warm ones are given back for the others.
// The rooms of one proof always get in: a session that waits for its own proof
// would wait for itself.
//
// Nothing is stored. What is measured is looked at again after a second. A
// measurement that fails bounds nothing, and is told in the log. A Keeper may be
// used by several goroutines.
//
//	k := capacity.New(capacity.Deps{Host: capacity.HostOf(stateDir), Living: living}, capacity.Options{})
//	release, err := k.Admit(ctx, capacity.Request{ID: id, Purpose: capacity.Build, Owner: build})
package capacity
