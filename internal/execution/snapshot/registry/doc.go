// Package registry takes snapshots to container registries and brings them
// back: a snapshot becomes an OCI image with one zstd layer for each of its
// own, which any tool can run, and its memory image an artifact that refers to
// the image. docs/formats/snapshot.md describes the form.
//
// It does not choose snapshots, makes no environments and starts nothing. The
// connection, logins and the unpacking of layers are package image's, what is
// on this host is package overlay's.
//
// Invariants: the same snapshot gives the same digests; a tag is written after
// everything that it leads to; what comes in is checked against its digest,
// bounded, and not to be seen before it is complete.
//
// A Service may be used by many goroutines.
//
//	pushed, err := s.Push(ctx, registry.PushRequest{Snapshot: id, Reference: ref}, report)
//	pulled, err := s.Pull(ctx, registry.PullRequest{Reference: ref}, report)
package registry
