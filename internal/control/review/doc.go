// Package review is what people need to read a change and to answer it: what
// differs, in reading order; what the proof says, put together for one page;
// remarks that stay with the lines they are about; and sending what was
// written back to the agent as one prompt.
//
// It changes no branch and no verdict: approving and merging are the forge's,
// judging is the proof's. It starts no sandbox. Git is read on the host's bare
// repositories, in a number of runs that does not grow with the number of
// files.
//
// Invariants: numbers of files mean one Diff, named by its digest; paths,
// lines and texts come from the change and are bounded, and never taken for
// UTF-8; what somebody has viewed is a content, not a name; drafts become
// comments, their prompt and the events in one transaction, once per client id.
//
// A Service is used by many goroutines.
//
//	svc := review.New(review.Deps{Changes: changes, Git: git, Store: db, ...}, review.Options{})
//	diff, err := svc.Files(ctx, change, by, core.DiffRange{})
package review
