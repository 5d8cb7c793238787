package exam

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"drydock/internal/proof/check"
)

const (
	maxReports   = 256 << 20 // bytes of report files of one run
	setupDefault = 20 * time.Minute
	closeTime    = time.Minute
	clockSlack   = 2 * time.Second // between a room's clock and its file times
)

// roomError is a fault of the surroundings with its tier.
type roomError struct {
	tier string
	text string
}

func (r *roomError) Error() string { return r.text }

// runCell runs checks of one cell, if need be in a second room: a room that
// dies once may have had bad luck.
func (e *engine) runCell(ctx context.Context, j job) error {
	pending := j.checks
	deaths := map[string]int{}
	opens := 0
	for len(pending) > 0 {
		done, err := e.oneRoom(ctx, j, pending)
		pending = pending[done:]
		if err == nil {
			continue
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		var fault *roomError
		if !errors.As(err, &fault) {
			return err
		}
		if fault.tier == TierResources || fault.tier == TierCheck {
			name := pending[0].Name
			if deaths[name]++; deaths[name] > 1 {
				e.fault(j, []CheckSpec{pending[0]}, fault)
				pending = pending[1:]
				continue
			}
		} else if opens++; opens > 1 {
			e.fault(j, pending, fault)
			return nil
		}
		e.note("cell %s, try %d: %s; tried again in a new room", j.cell, j.try, fault.text)
	}
	return nil
}

func (e *engine) fault(j job, checks []CheckSpec, f *roomError) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, c := range checks {
		if j.try > 1 {
			// The first try stands; this one only could not be confirmed.
			e.result.Notes = append(e.result.Notes, fmt.Sprintf("check %s could not be run again in cell %s: %s", c.Name, j.cell, f.text))
		} else {
			e.result.Faults = append(e.result.Faults, RoomFault{Cell: j.cell, Try: j.try, Check: c.Name, Tier: f.tier, Text: f.text})
		}
		if e.faults[j.cell] == nil {
			e.faults[j.cell] = map[string]bool{}
		}
		e.faults[j.cell][c.Name] = true
	}
}

func (e *engine) commit(cell Cell) string {
	if cell == CellA || cell == CellD {
		return e.exam.Base
	}
	return e.exam.Head
}

func (e *engine) overlay(cell Cell) []OverlayFile {
	switch cell {
	case CellC:
		return e.plan.overC
	case CellD:
		return e.plan.overD
	}
	return nil
}

// oneRoom opens a room and runs checks until one of them takes the room down.
// It returns how many were done.
func (e *engine) oneRoom(ctx context.Context, j job, checks []CheckSpec) (done int, err error) {
	names := make([]string, len(checks))
	for i, c := range checks {
		names[i] = c.Name
	}
	release, err := e.slot(ctx)
	if err != nil {
		return 0, err
	}
	defer release()
	room, err := e.openRoom(ctx, RoomRequest{Cell: j.cell, Try: j.try, Checks: names, Commit: e.commit(j.cell), Services: e.exam.Services})
	if err != nil {
		return 0, err
	}
	defer e.closeRoom(ctx, room)
	for i, c := range checks {
		if i > 0 {
			// A check must not find what another one left in the repository.
			if err := e.place(ctx, room, j.cell); err != nil {
				return done, err
			}
		}
		run, err := e.runCheck(ctx, room, j, c)
		if err != nil {
			return done, err
		}
		e.keep(j.cell, run)
		done++
	}
	if j.cell == CellB && j.try == 1 {
		e.measure(ctx, room)
	}
	return done, nil
}

func (e *engine) closeRoom(ctx context.Context, room Room) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTime)
	defer cancel()
	if err := room.Close(ctx); err != nil {
		e.deps.Log.WarnContext(ctx, "a proof room could not be closed", "error", err)
	}
}

// openRoom makes a room ready: commit, overlay, dependencies, services.
func (e *engine) openRoom(ctx context.Context, req RoomRequest) (_ Room, err error) {
	room, err := e.deps.Rooms.Open(ctx, req)
	if err != nil {
		return nil, &roomError{TierPlatform, fmt.Sprintf("no room could be opened: %v", err)}
	}
	defer func() {
		if err != nil {
			e.closeRoom(ctx, room)
		}
	}()
	if err := e.place(ctx, room, req.Cell); err != nil {
		return nil, err
	}
	if e.plan.setup[req.Cell] && e.exam.Setup != "" {
		if err := e.setUp(ctx, room, req.Cell); err != nil {
			return nil, err
		}
	}
	if err := room.Ready(ctx); err != nil {
		return nil, &roomError{TierServices, fmt.Sprintf("services did not become ready: %v", err)}
	}
	return room, nil
}

// place puts the files of a cell into a room.
func (e *engine) place(ctx context.Context, room Room, cell Cell) error {
	if err := room.Checkout(ctx, e.commit(cell)); err != nil {
		return &roomError{TierEnvironment, fmt.Sprintf("commit %s could not be checked out: %v", e.commit(cell), err)}
	}
	if files := e.overlay(cell); len(files) > 0 {
		if err := room.Overlay(ctx, files); err != nil {
			return &roomError{TierEnvironment, fmt.Sprintf("files of the other side could not be laid over: %v", err)}
		}
	}
	return nil
}

func (e *engine) setUp(ctx context.Context, room Room, cell Cell) error {
	timeout := e.exam.SetupTimeout
	if timeout <= 0 {
		timeout = setupDefault
	}
	out, err := room.Run(ctx, Command{Shell: e.exam.Setup, Timeout: timeout})
	switch {
	case err != nil:
		return &roomError{TierEnvironment, fmt.Sprintf("the setup command could not be run: %v", err)}
	case out.Died != "":
		return &roomError{TierResources, died(out, "the setup command")}
	case out.TimedOut:
		return &roomError{TierSetup, fmt.Sprintf("the setup command did not end within %s", timeout)}
	case out.ExitCode != 0:
		return &roomError{TierSetup, fmt.Sprintf("the setup command ended with %d in cell %s: %s", out.ExitCode, cell, lastLines(out, 1000))}
	}
	// Installing may have touched tracked files, a lock file for example.
	return e.place(ctx, room, cell)
}

func died(out Outcome, what string) string {
	text := fmt.Sprintf("the room died under %s: %s", what, out.Died)
	if out.Detail != "" {
		text += " (" + out.Detail + ")"
	}
	return text
}

// lastLines is the end of what a command wrote.
func lastLines(out Outcome, n int) string {
	text := append(readTail(out.Stdout, n), readTail(out.Stderr, n)...)
	if len(text) > n {
		text = text[len(text)-n:]
	}
	return string(bytes.ToValidUTF8(bytes.TrimSpace(text), []byte("?")))
}

func readTail(o Output, n int) []byte {
	if o.Open == nil {
		return nil
	}
	r, err := o.Open()
	if err != nil {
		return nil
	}
	defer func() { _ = r.Close() }()
	if skip := o.Size - int64(n); skip > 0 {
		if _, err := io.CopyN(io.Discard, r, skip); err != nil {
			return nil
		}
	}
	out, _ := io.ReadAll(io.LimitReader(r, int64(n)))
	return out
}

// runCheck runs one check in a ready room and reads what it reports.
func (e *engine) runCheck(ctx context.Context, room Room, j job, c CheckSpec) (*checkRun, error) {
	src := e.sources[c.Name]
	run := &checkRun{Record: RunRecord{
		Cell: j.cell, Try: j.try, Check: c.Name, Command: c.Run, Commit: e.commit(j.cell),
		Setup: e.plan.setup[j.cell] && e.exam.Setup != "", Format: src.Format,
	}}
	for _, f := range e.overlay(j.cell) {
		name := f.Path
		if f.Delete {
			name = "-" + name
		}
		run.Record.Overlay = append(run.Record.Overlay, name)
	}
	// A snapshot holds the reports of its own warm-up: they must be gone.
	if len(src.Globs) > 0 {
		if err := room.Remove(ctx, src.Globs); err != nil {
			return nil, &roomError{TierEnvironment, fmt.Sprintf("old reports could not be removed: %v", err)}
		}
	}
	timeout := c.Timeout
	if timeout <= 0 {
		timeout = e.opts.Timeout
	}
	begin := e.deps.Now()
	out, err := room.Run(ctx, Command{Shell: c.Run, Dir: c.Dir, Timeout: timeout})
	if err != nil {
		return nil, &roomError{TierEnvironment, fmt.Sprintf("check %s could not be run: %v", c.Name, err)}
	}
	if out.Started.IsZero() {
		out.Started = begin
	}
	run.Record.ExitCode, run.Record.TimedOut, run.Record.Died = out.ExitCode, out.TimedOut, out.Died
	run.Record.Started, run.Record.Duration = out.Started, out.Duration
	if out.Died != "" {
		return nil, &roomError{TierResources, died(out, "check "+c.Name)}
	}
	if err := e.readReport(ctx, room, c, src, out, run); err != nil {
		return nil, err
	}
	run.conclude(c, out)
	e.keepLog(ctx, j, c, out, run)
	return run, nil
}

// readReport fills run.Report.
func (e *engine) readReport(ctx context.Context, room Room, c CheckSpec, src check.Source, out Outcome, run *checkRun) error {
	opts := check.Options{Check: c.Name, Root: room.Root()}
	switch {
	case src.Format == check.FormatExit:
		text := append(readTail(out.Stdout, 64<<10), readTail(out.Stderr, 64<<10)...)
		run.Report = check.FromExit(opts, out.ExitCode, out.TimedOut, text)
		return nil
	case len(src.Globs) == 0:
		if out.Stdout.Open == nil {
			run.guard(GuardMissing)
			run.Report.Format = src.Format
			return nil
		}
		r, err := out.Stdout.Open()
		if err != nil {
			return &roomError{TierPlatform, fmt.Sprintf("the output of check %s was lost: %v", c.Name, err)}
		}
		defer func() { _ = r.Close() }()
		run.Report = check.Read(src.Format, r, opts)
		if out.Stdout.Truncated {
			run.Report.Partial = true
			run.Report.Faults = append(run.Report.Faults, "the output was longer than what is kept")
		}
		return nil
	}
	files, err := room.Files(ctx, src.Globs, maxReports)
	if err != nil {
		return &roomError{TierEnvironment, fmt.Sprintf("the reports of check %s could not be read: %v", c.Name, err)}
	}
	var reports []check.Report
	for _, f := range files {
		if f.ModTime.Before(out.Started.Add(-clockSlack)) {
			run.guard(GuardStale)
			run.Report.Faults = append(run.Report.Faults, fmt.Sprintf("%s is older than the run and was not read", f.Path))
			continue
		}
		r := check.Read(src.Format, bytes.NewReader(f.Data), opts)
		if f.Cut {
			r.Partial = true
			r.Faults = append(r.Faults, "longer than what is read")
		}
		for i := range r.Faults {
			r.Faults[i] = f.Path + ": " + r.Faults[i]
		}
		reports = append(reports, r)
		e.keepFile(ctx, run, f)
	}
	faults := run.Report.Faults
	run.Report = check.Merge(reports...)
	run.Report.Format = src.Format
	run.Report.Faults = append(faults, run.Report.Faults...)
	if len(reports) == 0 {
		run.guard(GuardMissing)
	}
	return nil
}

func (r *checkRun) guard(code string) { r.Record.Guards = append(r.Record.Guards, code) }

func (r *checkRun) guarded(codes ...string) bool {
	for _, g := range r.Record.Guards {
		if slices.Contains(codes, g) {
			return true
		}
	}
	return false
}

// nameRun is the case that stands for the command as a whole.
const nameRun = "(run)"

// conclude holds the report against the exit code.
func (r *checkRun) conclude(c CheckSpec, out Outcome) {
	r.Record.Counts = r.Report.Count()
	r.Record.Faults = r.Report.Faults
	counts := r.Record.Counts
	cases := counts.Passed + counts.Failed + counts.Skipped
	if r.Report.Partial && !r.guarded(GuardMissing) {
		r.guard(GuardPartial)
	}
	if r.Report.Format == check.FormatExit {
		return
	}
	if cases == 0 && !r.guarded(GuardMissing) {
		r.guard(GuardZero)
	}
	add := func(fault check.Fault, format string, args ...any) {
		r.Report.Cases = append(r.Report.Cases, check.Case{
			ID: check.ID{Check: c.Name, Name: nameRun}, Status: check.Error, Fault: fault,
			Message: fmt.Sprintf(format, args...) + "\n" + lastLines(out, 2000),
		})
		r.Record.Counts.Failed++
	}
	switch {
	case out.TimedOut:
		add(check.FaultTimeout, "the command did not end within its time limit")
	case out.ExitCode == 0:
	case cases == 0:
		add(check.FaultExit, "the command ended with %d and reported no case", out.ExitCode)
	case counts.Failed == 0:
		r.guard(GuardExit)
	}
}

func (e *engine) keep(cell Cell, run *checkRun) {
	e.mu.Lock()
	if e.runs[cell] == nil {
		e.runs[cell] = map[string][]*checkRun{}
	}
	e.runs[cell][run.Record.Check] = append(e.runs[cell][run.Record.Check], run)
	onRun := e.opts.OnRun
	e.mu.Unlock()
	if onRun != nil {
		onRun(run.Record)
	}
}

func (e *engine) keepLog(ctx context.Context, j job, c CheckSpec, out Outcome, run *checkRun) {
	head := fmt.Sprintf("$ %s\n", c.Run)
	readers := []io.Reader{bytes.NewReader([]byte(head))}
	for _, o := range []Output{out.Stdout, out.Stderr} {
		if o.Open == nil {
			continue
		}
		r, err := o.Open()
		if err != nil {
			continue
		}
		defer func() { _ = r.Close() }()
		readers = append(readers, r)
	}
	readers = append(readers, bytes.NewReader(fmt.Appendf(nil, "\n[exit %d after %s]\n", out.ExitCode, out.Duration.Round(time.Millisecond))))
	e.keepArtifact(ctx, run, fmt.Sprintf("%s/%d/%s/log.txt", j.cell, j.try, c.Name), "text/plain; charset=utf-8", io.MultiReader(readers...))
}

func (e *engine) keepFile(ctx context.Context, run *checkRun, f RoomFile) {
	if len(run.Record.Artifacts) >= 50 {
		return
	}
	name := fmt.Sprintf("%s/%d/%s/%s", run.Record.Cell, run.Record.Try, run.Record.Check, f.Path)
	e.keepArtifact(ctx, run, name, "application/octet-stream", bytes.NewReader(f.Data))
}

func (e *engine) keepArtifact(ctx context.Context, run *checkRun, name, media string, r io.Reader) {
	if e.deps.Artifacts == nil {
		return
	}
	a, err := e.deps.Artifacts.Put(ctx, name, media, r)
	if err != nil {
		e.note("artifact %s could not be kept: %v", name, err)
		return
	}
	run.Record.Artifacts = append(run.Record.Artifacts, a)
}
