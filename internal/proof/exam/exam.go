package exam

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"drydock/internal/core"
	"drydock/internal/proof/check"
)

// Deps of an Examiner. Rooms and Repo must be set.
type Deps struct {
	Rooms        Rooms
	Repo         Repo
	Cache        Cache        // nil: cell A runs in every exam
	Artifacts    Artifacts    // nil: no logs and reports are kept
	Photographer Photographer // nil: no pictures
	Log          *slog.Logger
	Now          func() time.Time
}

// Options of an Examiner; zero values are the defaults.
type Options struct {
	Reruns      int           // of a red check at B, and as many at A; default 3
	Parallel    int           // rooms at once; default 2
	Timeout     time.Duration // of a check that names none; default 30 min
	RerunBudget time.Duration // after this much time no rerun starts; default 30 min
	NoCoverage  bool          // leave changed lines unmeasured
	OnRun       func(RunRecord)
}

// Examiner runs exams.
type Examiner struct {
	deps Deps
	opts Options
}

// New makes an Examiner.
func New(deps Deps, opts Options) *Examiner {
	if opts.Reruns <= 0 {
		opts.Reruns = 3
	}
	if opts.Parallel <= 0 {
		opts.Parallel = 2
	}
	if opts.Timeout <= 0 {
		opts.Timeout = 30 * time.Minute
	}
	if opts.RerunBudget <= 0 {
		opts.RerunBudget = 30 * time.Minute
	}
	if deps.Log == nil {
		deps.Log = slog.New(slog.DiscardHandler)
	}
	if deps.Now == nil {
		deps.Now = time.Now
	}
	return &Examiner{deps: deps, opts: opts}
}

// engine is one exam under way.
type engine struct {
	*Examiner
	exam    Exam
	sources map[string]check.Source
	plan    plan
	slots   chan struct{} // one for each room that may be open
	result  Result

	mu         sync.Mutex
	runs       map[Cell]map[string][]*checkRun
	faults     map[Cell]map[string]bool // checks of a cell that could not be run
	profile    []byte                   // Go cover profile of cell B, if one was taken
	coverWhy   string
	coverCheck CheckSpec
}

// checkRun is one run of one check with its cases.
type checkRun struct {
	Record RunRecord    `json:"record"`
	Report check.Report `json:"report"`
}

// Run examines. The error is about the exam itself (a bad request, a lost
// repository, cancellation); everything about the change is in the Result.
func (x *Examiner) Run(ctx context.Context, ex Exam) (Result, error) {
	e := &engine{
		Examiner: x, exam: ex, sources: map[string]check.Source{},
		runs: map[Cell]map[string][]*checkRun{}, faults: map[Cell]map[string]bool{},
		slots: make(chan struct{}, x.opts.Parallel),
	}
	if err := e.prepare(ctx); err != nil {
		return Result{}, err
	}
	if len(e.result.Files) > 0 && len(e.exam.Checks) > 0 {
		if err := e.examine(ctx); err != nil {
			return Result{}, err
		}
	}
	e.result.Finished = x.deps.Now()
	e.record()
	Judge(&e.result)
	return e.result, nil
}

// prepare checks the request and reads the difference.
func (e *engine) prepare(ctx context.Context) error {
	const op = "exam.run"
	if e.exam.RecipePath == "" {
		e.exam.RecipePath = "drydock.yaml"
	}
	if e.exam.SnapshotCommit == "" {
		e.exam.SnapshotCommit = e.exam.Base
	}
	for _, c := range e.exam.Checks {
		if c.Name == "" || c.Run == "" {
			return core.E(op, core.Invalid, nil, "check %q has no name or no command", c.Name)
		}
		if _, twice := e.sources[c.Name]; twice {
			return core.E(op, core.Invalid, nil, "check %q is listed twice", c.Name)
		}
		src, err := check.ParseSource(c.Report)
		if err != nil {
			return core.E(op, core.Invalid, err, "check %q", c.Name)
		}
		e.sources[c.Name] = src
	}
	e.result = Result{Exam: e.exam, Started: e.deps.Now(), Files: []FileChange{}, Runs: []RunRecord{}, Checks: []CheckRow{}, Cases: []CaseRow{}}
	var err error
	if e.result.BaseTree, err = e.deps.Repo.Tree(ctx, e.exam.Base); err != nil {
		return err
	}
	if e.exam.Head == "" {
		return nil
	}
	if e.result.HeadTree, err = e.deps.Repo.Tree(ctx, e.exam.Head); err != nil {
		return err
	}
	if e.result.BaseTree == e.result.HeadTree {
		return nil
	}
	if e.result.Files, err = e.deps.Repo.Changes(ctx, e.exam.Base, e.exam.Head); err != nil {
		return err
	}
	return e.makePlan(ctx)
}

// examine runs the cells, with the pictures beside them, and compares.
func (e *engine) examine(ctx context.Context) error {
	if err := e.loadA(ctx); err != nil {
		return err
	}
	g, gctx := errgroup.WithContext(ctx)
	g.Go(func() error { return e.cells(gctx) })
	g.Go(func() error { return e.picture(gctx) })
	if err := g.Wait(); err != nil {
		return err
	}
	e.compare()
	e.guards()
	e.findings(ctx)
	return e.coverage(ctx)
}

// cells runs the checks in every cell that is needed.
func (e *engine) cells(ctx context.Context) error {
	first := []job{{cell: CellB, try: 1, checks: e.exam.Checks}}
	if e.runs[CellA] == nil {
		first = append(first, job{cell: CellA, try: 1, checks: e.exam.Checks})
	}
	if e.plan.needC {
		first = append(first, job{cell: CellC, try: 1, checks: e.testChecks()})
	}
	if e.plan.needD {
		first = append(first, job{cell: CellD, try: 1, checks: e.testChecks()})
	}
	if err := e.wave(ctx, first); err != nil {
		return err
	}
	if err := e.reruns(ctx); err != nil {
		return err
	}
	e.storeA(ctx)
	return nil
}

// job is some checks in one room.
type job struct {
	cell   Cell
	try    int
	checks []CheckSpec
}

// slot waits until one more room may be open.
func (e *engine) slot(ctx context.Context) (release func(), err error) {
	select {
	case e.slots <- struct{}{}:
		return func() { <-e.slots }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// wave runs jobs side by side. Rooms are slow to fill and quick to judge, so
// the order of the result does not depend on who ends first.
func (e *engine) wave(ctx context.Context, jobs []job) error {
	g, ctx := errgroup.WithContext(ctx)
	for _, j := range jobs {
		g.Go(func() error { return e.runCell(ctx, j) })
	}
	if err := g.Wait(); err != nil {
		return err
	}
	for _, byCheck := range e.runs {
		for _, list := range byCheck {
			slices.SortStableFunc(list, func(a, b *checkRun) int { return a.Record.Try - b.Record.Try })
		}
	}
	return nil
}

// reruns asks again wherever luck could have answered.
func (e *engine) reruns(ctx context.Context) error {
	deadline := e.result.Started.Add(e.opts.RerunBudget)
	for range 3 { // a rerun can raise a new doubt, but not forever
		jobs := e.doubts()
		if len(jobs) == 0 {
			return nil
		}
		if e.deps.Now().After(deadline) {
			e.note("reruns stopped after %s; what was seen too seldom does not count", e.opts.RerunBudget)
			return nil
		}
		if err := e.wave(ctx, jobs); err != nil {
			return err
		}
	}
	return nil
}

// doubts lists the runs that are still needed to be sure.
func (e *engine) doubts() []job {
	need := map[Cell]map[string]int{CellA: {}, CellB: {}, CellC: {}, CellD: {}}
	want := func(c Cell, name string, tries int) {
		if e.faults[c][name] || len(e.runs[c][name]) == 0 {
			return
		}
		need[c][name] = max(need[c][name], tries)
	}
	for _, row := range e.rows() {
		name := row.id.Check
		a, b, c := row.state(CellA), row.state(CellB), row.state(CellC)
		tries := 1 + e.opts.Reruns
		if row.last(CellB).fault == check.FaultTimeout {
			tries = 2 // each try costs the whole time limit
		}
		if b == mixed || b == red && a != red {
			want(CellB, name, tries)
			want(CellA, name, tries)
		}
		if b == green && row.oldRedStrong() {
			want(CellB, name, 3)
			want(row.oldCell(), name, 2)
		}
		if c == red && (a == green || a == none) && b != red {
			want(CellC, name, 2)
		}
	}
	var jobs []job
	for _, cell := range []Cell{CellB, CellD, CellC, CellA} {
		byTry := map[int][]CheckSpec{}
		for _, c := range e.exam.Checks {
			for try := len(e.runs[cell][c.Name]) + 1; try <= need[cell][c.Name]; try++ {
				byTry[try] = append(byTry[try], c)
			}
		}
		for try := 2; try <= 1+max(e.opts.Reruns, 3); try++ {
			if len(byTry[try]) > 0 {
				jobs = append(jobs, job{cell: cell, try: try, checks: byTry[try]})
			}
		}
	}
	return jobs
}

var notTestsWords = []string{"lint", "fmt", "format", "prettier", "vet", "tsc", "types", "typecheck", "mypy", "ruff", "flake8", "clippy", "build", "compile", "staticcheck", "audit"}

// testChecks are the checks worth running on mixed code: those with cases,
// and of the others all that are not plainly something else than tests.
func (e *engine) testChecks() []CheckSpec {
	var out []CheckSpec
	for _, c := range e.exam.Checks {
		words := strings.FieldsFunc(strings.ToLower(c.Name), func(r rune) bool { return r < 'a' || r > 'z' })
		other := slices.ContainsFunc(words, func(w string) bool { return slices.Contains(notTestsWords, w) })
		if e.sources[c.Name].Format != check.FormatExit || !other {
			out = append(out, c)
		}
	}
	return out
}

func (e *engine) note(format string, args ...any) {
	e.mu.Lock()
	defer e.mu.Unlock()
	text := fmt.Sprintf(format, args...)
	if !slices.Contains(e.result.Notes, text) && len(e.result.Notes) < 100 {
		e.result.Notes = append(e.result.Notes, text)
	}
}

// record puts every run into the result, in the order of cells and tries.
func (e *engine) record() {
	for _, cell := range []Cell{CellA, CellB, CellC, CellD} {
		for _, c := range e.exam.Checks {
			for _, r := range e.runs[cell][c.Name] {
				e.result.Runs = append(e.result.Runs, r.Record)
			}
		}
	}
}
