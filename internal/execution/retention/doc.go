// Package retention decides how long snapshots, memory images, base images and
// blobs are worth their room, and collects the rest in the background.
//
// It removes nothing itself: package overlay does, which keeps by its own rule
// whatever something runs on, stands on or is written above. What it decides is
// taken from rows of the database alone.
//
// Invariants: one collection at a time; a row names nothing that was removed;
// interrupted anywhere, the next collection goes on.
//
// A Collector may be used by many goroutines.
//
//	uses, err := retention.Uses(ctx, db, policy, time.Now())
//	c := retention.New(retention.Deps{...}, retention.Options{...})
//	go c.Run(ctx)
//	c.Kick() // something may have become superfluous
package retention
