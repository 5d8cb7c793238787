// Package environment makes working machines: it builds an environment's
// recipe into a snapshot, launches sandboxes from snapshots with services up,
// and moves repositories in and work out.
//
// Launcher starts a Machine, which is a sandbox with an identity, a guest
// client and a working tree; sessions, builds and proof rooms all use it.
// Builder runs builds: one at a time for each environment, with named phases,
// a full log, and the last good snapshot in use until a better one exists.
//
// The package decides nothing about sessions or proof. It believes nothing a
// sandbox says beyond the bytes it hands out, and those are checked where they
// enter (package mirror).
//
// A Launcher and a Builder may be used by many goroutines; a Machine by one at
// a time for changes, by many for reading.
package environment
