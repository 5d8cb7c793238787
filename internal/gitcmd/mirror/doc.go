// Package mirror keeps a bare mirror of one repository on the host: what the
// control plane knows of the source, and where work that leaves a sandbox
// arrives.
//
// Branches and tags of the source are under refs/heads and refs/tags and follow
// it, also backwards and into removal. Everything of Drydock's own is under
// refs/drydock and is never touched by a Sync.
//
// A bundle from a sandbox is hostile: its header is parsed here, its objects
// are checked and counted in a quarantine directory, only objects that the named
// commit needs can matter, and one ref enters. No ref of the bundle's choosing
// is ever written.
//
// A Mirror may be used by many goroutines and several processes: Sync and the
// entry of objects take a lock on the directory that lasts until the last git
// process they started has ended; moving a ref is compare-and-swap by git.
//
//	m, err := mirror.Open(ctx, mirror.Options{Git: git, Dir: dir, Source: "https://git.example.com/shop.git"})
//	_, err = m.Sync(ctx)
//	commit, err := m.Resolve(ctx, "main")
package mirror
