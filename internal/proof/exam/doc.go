// Package exam judges a change: it runs the base's checks in clean rooms on
// four mixtures of old and new code and old and new tests, compares case by
// case, and sets a verdict.
//
//	A  old code, old tests   what was green before
//	B  new code, new tests   what is green now
//	C  new code, old tests   was the exam changed?
//	D  old code, new tests   do the new tests notice the old fault?
//
// It starts no machine itself (Rooms does), knows no forge, no model and no
// session, and reads the repository through Repo. Judge is a pure function of
// the gathered facts, so a verdict can be worked out again later, for example
// after a person acknowledged something.
//
// Invariants: a report is a claim, and only cases that ran in a room made for
// this exam count; the recipe is the base's; nothing that failed to happen
// counts as green; an error of the platform never makes a change look broken.
//
// Where dependencies come from: a room is restored from the environment's
// snapshot, whose dependencies fit the commit it was built at. Where a
// manifest or lock file differs between that commit and the code of a cell,
// the recipe's setup command runs again in the room, under the environment's
// own network policy, before any check.
//
// Run may be called from many goroutines; each call opens its rooms, at most
// Options.Parallel at a time, and closes them before it returns.
//
//	result, err := exam.New(exam.Deps{Rooms: rooms, Repo: repo}, exam.Options{}).Run(ctx, exam.Exam{
//		Base: base, Head: head, Checks: []exam.CheckSpec{{Name: "test", Run: "go test -json ./...", Report: "gotest"}},
//	})
//	fmt.Println(result.Verdict, result.Reasons, result.NotShown)
package exam
