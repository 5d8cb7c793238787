// Package local is the built-in forge: bare repositories below a directory,
// and records of changes, comments and approvals in the store.
//
// It merges without a work tree, serves git over HTTP, and notices what people
// push, over HTTP or by path. It decides nothing about prompts and sends no
// messages.
//
// Invariants: what git says about a branch is true, what the store says about
// its head is what Drydock has acknowledged; a merge and the mark that it
// happened enter the repository in one transaction, so a crash between
// repository and store heals at the next look; branches move by compare and
// swap; nothing of a repository is executed.
//
// A Forge may be used by many goroutines and processes.
//
//	f, err := local.New(local.Deps{Git: git, Records: db, Log: log}, local.Options{Dir: "/var/lib/drydock/forge"})
package local
