package exam

import (
	"context"
	"maps"
	"slices"
	"strings"
)

// opened knows which checks of cell B read a test or harness file that the
// change touched. A check that read none does in C what it did in B, and in D
// what it did in A: only those files differ. Running it there would show
// nothing, and a suite can take long. Where a room cannot tell, every check is
// run.
//
// What this does not see: a check that depends on what an earlier check made
// out of such a file, and one that only looks whether a new test is there.
type opened struct {
	blind  string          // why nothing can be left out; "" if something can
	checks map[string]bool // ran in cell B and opened none of the files: false
}

// overlaid lists the files that cells C and D exchange, as they are named in
// cell B. why says that a file is not there, so that no reading of it can be
// seen.
func (e *engine) overlaid() (paths []string, why string) {
	there := map[string]bool{}
	for _, f := range e.result.Files {
		if f.Status != "deleted" {
			there[f.Path] = true
		}
		if f.Status == "added" && f.Role == RoleHarness {
			return nil, f.Path + " may decide how tests run by being there"
		}
	}
	all := map[string]bool{gitHead: true}
	for _, f := range slices.Concat(e.plan.overC, e.plan.overD) {
		if !there[f.Path] {
			return nil, f.Path + " is not on the branch"
		}
		all[f.Path] = true
	}
	return slices.Sorted(maps.Keys(all)), ""
}

// gitHead is opened by every git: it can bring the content of a file from its
// own store.
const gitHead = ".git/HEAD"

// watchRoom watches the start of a room's services: one that reads a changed
// test file may answer differently to every check.
func (e *engine) watchRoom(ctx context.Context, room Room, req RoomRequest) func() {
	if req.Cell != CellB || req.Try != 1 || !e.plan.needC && !e.plan.needD || req.Pictures {
		return func() {}
	}
	stop := e.watch(ctx, room)
	return func() {
		if touched, why := stop(); why != "" {
			e.unseen(why)
		} else if len(touched) > 0 {
			e.unseen("a service reads " + touched[0])
		}
	}
}

// watchCheck watches one check of cell B.
func (e *engine) watchCheck(ctx context.Context, room Room, j job, name string) func() {
	e.mu.Lock()
	blind := e.opened.blind
	e.mu.Unlock()
	if j.cell != CellB || j.try != 1 || !e.plan.needC && !e.plan.needD || blind != "" {
		return func() {}
	}
	stop := e.watch(ctx, room)
	return func() {
		touched, why := stop()
		if why != "" {
			e.unseen(why)
			return
		}
		e.mu.Lock()
		defer e.mu.Unlock()
		e.opened.checks[name] = e.opened.checks[name] || len(touched) > 0
	}
}

func (e *engine) watch(ctx context.Context, room Room) func() (touched []string, why string) {
	fail := func(why string) func() ([]string, string) {
		return func() ([]string, string) { return nil, why }
	}
	watcher, ok := room.(Watcher)
	if !ok {
		return fail("rooms of this kind do not tell which files are opened")
	}
	paths, why := e.overlaid()
	if why != "" {
		return fail(why)
	}
	stop, err := watcher.WatchOpens(ctx, paths)
	if err != nil {
		return fail("which files are opened cannot be seen: " + err.Error())
	}
	return func() ([]string, string) {
		touched, complete, err := stop(ctx)
		switch {
		case err != nil:
			return nil, "which files were opened is not known: " + err.Error()
		case !complete:
			return nil, "not every opening of a file was seen"
		}
		return touched, ""
	}
}

func (e *engine) unseen(why string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.opened.blind == "" {
		e.opened.blind = why
	}
}

// mixed are the jobs of cells C and D.
func (e *engine) mixed() []job {
	var run []CheckSpec
	var left []string
	for _, c := range e.testChecks() {
		touched, seen := e.opened.checks[c.Name]
		if e.opened.blind == "" && seen && !touched {
			left = append(left, c.Name)
			continue
		}
		run = append(run, c)
	}
	var jobs []job
	for _, cell := range []Cell{CellC, CellD} {
		need := e.plan.needC
		if cell == CellD {
			need = e.plan.needD
		}
		if need && len(run) > 0 {
			jobs = append(jobs, job{cell: cell, try: 1, checks: run})
		}
	}
	if len(left) > 0 && (e.plan.needC || e.plan.needD) {
		e.note("not run with exchanged tests, because on the branch they opened none of the changed test files: %s", strings.Join(left, ", "))
	}
	return jobs
}
