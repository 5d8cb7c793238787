// Package selection gives one task to several sessions that start alike,
// compares what they deliver, and sees to it that one is picked and the others
// are put aside: by a person, or by a rule that picks a proven one or none.
//
// It runs no session and merges nothing. A pick is no approval: the picked
// change waits for its review like every other.
//
// Invariants. A selection and its sessions are made in one transaction. A pick
// is a row before anything is done about it; what follows (stop, comment,
// close, archive) is looked for before it is done, so that it may be cut off
// anywhere and is repeated by the next Step. Once picked, another one is never
// picked. Branches and evidence of those not picked stay.
//
//	open ──> waiting ──> picking ──> picked
//	  └─────────────────────^
//
// A Service is used by many goroutines.
//
//	service := selection.New(selection.Deps{Store: db, Log: events, Sessions: sessions, Changes: changes, Start: start}, selection.Options{})
//	go service.Run(ctx)
package selection
