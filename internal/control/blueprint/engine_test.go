package blueprint_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"drydock/internal/control/blueprint"
	"drydock/internal/core"
)

// memory is a journal that survives the engine, as the store survives the daemon.
type memory struct {
	mu       sync.Mutex
	run      core.Run
	attempts []core.Attempt
	resumes  map[core.AttemptID]int
	calls    int
	killAt   int // the call that fails before it does anything; 0 never
	trail    []string
}

var errKilled = errors.New("killed")

func (m *memory) tick() error {
	m.calls++
	if m.killAt != 0 && m.calls >= m.killAt {
		return errKilled
	}
	return nil
}

func (m *memory) Enter(_ context.Context, _ blueprint.Job, node string, _ blueprint.Node) (core.Attempt, int, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.tick(); err != nil {
		return core.Attempt{}, 0, err
	}
	number := 1
	for _, a := range m.attempts {
		if a.Node != node {
			continue
		}
		if a.State == core.AttemptRunning {
			m.resumes[a.ID]++
			return a, m.resumes[a.ID], nil
		}
		number++
	}
	a := core.Attempt{ID: core.NewAttemptID(), Node: node, Number: number, State: core.AttemptRunning}
	m.attempts = append(m.attempts, a)
	m.run.Node = node
	return a, 0, nil
}

func (m *memory) Visits(context.Context, core.RunID) (map[string]int, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := map[string]int{}
	for _, a := range m.attempts {
		if a.State != core.AttemptRunning {
			out[a.Node]++
		}
	}
	return out, m.tick()
}

func (m *memory) Leave(_ context.Context, _ blueprint.Job, att core.Attempt, _ blueprint.Node, out blueprint.Outcome, next string, data blueprint.Data) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.tick(); err != nil {
		return err
	}
	for i := range m.attempts {
		if m.attempts[i].ID == att.ID {
			m.attempts[i].State = core.AttemptDone
		}
	}
	m.trail = append(m.trail, att.Node+":"+out.Result)
	m.run.Node = next
	m.run.Data, _ = json.Marshal(data)
	return nil
}

func (m *memory) Rest(_ context.Context, _ blueprint.Job, att core.Attempt) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.resumes[att.ID]--
	return m.tick()
}

func (m *memory) Skip(_ context.Context, _ blueprint.Job, node, next, _ string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.tick(); err != nil {
		return err
	}
	m.trail = append(m.trail, node+":spent")
	m.run.Node = next
	return nil
}

func (m *memory) Load(context.Context, core.RunID) (core.Run, error) { return m.run, m.tick() }

// step plays results in order, the last one for ever.
type step struct {
	results []string
	play    func(v *blueprint.Visit) (blueprint.Outcome, error)
}

func (s step) Results() []string { return s.results }
func (s step) Run(_ context.Context, v *blueprint.Visit) (blueprint.Outcome, error) {
	return s.play(v)
}

const loop = `
name: loop
start: work
nodes:
  work:   {step: work, on: {ok: judge, fault: lost}}
  judge:  {step: judge, on: {good: done, bad: repair, fault: lost}}
  repair: {agent: repair, cap: 2, on: {finished: work, spent: lost, fault: lost}}
  done:   {end: done}
  lost:   {end: handed_over}
`

func engine(t *testing.T, source string, journal blueprint.Journal, judge func(v *blueprint.Visit) (blueprint.Outcome, error)) *blueprint.Engine {
	t.Helper()
	m, err := blueprint.Parse("loop.yaml", []byte(source))
	if err != nil {
		t.Fatal(err)
	}
	ok := func(result string) step {
		return step{[]string{result}, func(*blueprint.Visit) (blueprint.Outcome, error) {
			return blueprint.Outcome{Result: result}, nil
		}}
	}
	e, err := blueprint.New(blueprint.Deps{
		Journal: journal, Log: slog.New(slog.DiscardHandler),
		Steps:  map[string]blueprint.Step{"work": ok("ok"), "judge": step{[]string{"good", "bad"}, judge}},
		Agents: map[string]blueprint.Step{"repair": ok("finished")},
	}, blueprint.Options{}, []blueprint.Machine{m})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func newMemory() *memory {
	return &memory{run: core.Run{ID: core.NewRunID(), Blueprint: "loop", Created: time.Now()}, resumes: map[core.AttemptID]int{}}
}

func TestCapsEndALoop(t *testing.T) {
	j := newMemory()
	e := engine(t, loop, j, func(v *blueprint.Visit) (blueprint.Outcome, error) {
		v.Data.Set(blueprint.KeyOutcome, "still bad")
		return blueprint.Outcome{Result: "bad"}, nil
	})
	end, err := e.Execute(t.Context(), blueprint.Job{Run: j.run})
	if err != nil {
		t.Fatal(err)
	}
	if end.State != core.RunHandedOver || end.Outcome != "still bad" {
		t.Errorf("ending = %+v, want a hand-over that says why", end)
	}
	want := []string{"work:ok", "judge:bad", "repair:finished", "work:ok", "judge:bad", "repair:finished", "work:ok", "judge:bad", "repair:spent"}
	if diff := cmp.Diff(want, j.trail); diff != "" {
		t.Errorf("trail (-want +got):\n%s", diff)
	}
}

// TestKilledAnywhere kills the engine at every journal call and starts a new
// one: the path taken is the same, no visit is counted twice.
func TestKilledAnywhere(t *testing.T) {
	judge := func(v *blueprint.Visit) (blueprint.Outcome, error) {
		if v.Number == 2 {
			return blueprint.Outcome{Result: "good"}, nil
		}
		return blueprint.Outcome{Result: "bad"}, nil
	}
	whole := newMemory()
	if _, err := engine(t, loop, whole, judge).Execute(t.Context(), blueprint.Job{Run: whole.run}); err != nil {
		t.Fatal(err)
	}
	for kill := 1; kill <= whole.calls; kill++ {
		j := newMemory()
		j.killAt = kill
		if _, err := engine(t, loop, j, judge).Execute(t.Context(), blueprint.Job{Run: j.run}); !errors.Is(err, errKilled) {
			t.Fatalf("kill at %d: %v", kill, err)
		}
		j.killAt = 0
		end, err := engine(t, loop, j, judge).Execute(t.Context(), blueprint.Job{Run: j.run, Resumed: true})
		if err != nil || end.State != core.RunDone {
			t.Fatalf("kill at %d: ending %+v, %v", kill, end, err)
		}
		if diff := cmp.Diff(whole.trail, j.trail); diff != "" {
			t.Errorf("kill at %d changed the path (-want +got):\n%s", kill, diff)
		}
	}
}

func TestCrashLoopIsHandedOver(t *testing.T) {
	j := newMemory()
	for range 10 {
		j.killAt, j.calls = 4, 0 // always inside the first visit
		_, _ = engine(t, loop, j, nil).Execute(t.Context(), blueprint.Job{Run: j.run})
	}
	j.killAt = 0
	end, err := engine(t, loop, j, nil).Execute(t.Context(), blueprint.Job{Run: j.run})
	if err != nil || end.State != core.RunHandedOver || end.Failure == nil || end.Failure.Code != "crash_loop" {
		t.Errorf("ending = %+v, %v; want a hand-over because of a crash loop", end, err)
	}
}

func TestFaults(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, c := range []struct {
			kind  core.Kind
			tries int
		}{{core.Unavailable, 3}, {core.Invalid, 1}} {
			j, tries := newMemory(), 0
			e := engine(t, loop, j, func(*blueprint.Visit) (blueprint.Outcome, error) {
				tries++
				return blueprint.Outcome{}, core.E("x", c.kind, nil, "no room").WithHint("make room")
			})
			end, err := e.Execute(t.Context(), blueprint.Job{Run: j.run})
			if err != nil || end.State != core.RunHandedOver || tries != c.tries {
				t.Errorf("%s: ending %+v, %v after %d tries, want %d", c.kind, end, err, tries, c.tries)
			}
			if end.Failure == nil || end.Failure.Hint != "make room" {
				t.Errorf("%s: failure = %+v, want the hint kept", c.kind, end.Failure)
			}
		}
	})
}

// named is a fault that has a name of its own.
type named struct{ error }

func (named) Reason() string { return "out_of_memory" }

func TestFaultWithAName(t *testing.T) {
	j := newMemory()
	e := engine(t, loop, j, func(*blueprint.Visit) (blueprint.Outcome, error) {
		dead := core.E("x", core.Exhausted, named{errors.New("needed more than 1 GiB")}, "").WithHint("raise the limit")
		return blueprint.Outcome{}, fmt.Errorf("check test: %w", dead)
	})
	end, err := e.Execute(t.Context(), blueprint.Job{Run: j.run})
	if err != nil || end.State != core.RunHandedOver || end.Failure == nil {
		t.Fatalf("ending %+v, error %v", end, err)
	}
	f := end.Failure
	if f.Code != "out_of_memory" || f.Hint != "raise the limit" || !strings.HasPrefix(f.Message, "check test: ") || !strings.Contains(f.Message, "1 GiB") {
		t.Errorf("failure %+v, want what the fault is called and says", f)
	}
}

func TestStopLeavesThePosition(t *testing.T) {
	j := newMemory()
	stop := errors.New("ana stopped it")
	ctx, cancel := context.WithCancelCause(t.Context())
	e := engine(t, loop, j, func(*blueprint.Visit) (blueprint.Outcome, error) {
		cancel(stop)
		return blueprint.Outcome{}, ctx.Err()
	})
	if _, err := e.Execute(ctx, blueprint.Job{Run: j.run}); !errors.Is(err, stop) {
		t.Fatalf("err = %v, want the cause", err)
	}
	if j.run.Node != "judge" {
		t.Errorf("position = %q, want judge", j.run.Node)
	}
}

func TestPauseKeepsTheVisit(t *testing.T) {
	j, ready := newMemory(), false
	e := engine(t, loop, j, func(v *blueprint.Visit) (blueprint.Outcome, error) {
		if !ready {
			return blueprint.Outcome{}, &blueprint.Pause{Err: core.E("x", core.Exhausted, nil, "the budget is spent")}
		}
		return blueprint.Outcome{Result: "good", Detail: string(v.Attempt)}, nil
	})
	if _, err := e.Execute(t.Context(), blueprint.Job{Run: j.run}); !core.Is(err, core.Exhausted) && core.KindOf(errors.Unwrap(err)) != core.Exhausted {
		t.Fatalf("err = %v, want the pause", err)
	}
	ready = true
	end, err := e.Execute(t.Context(), blueprint.Job{Run: j.run, Resumed: true})
	if err != nil || end.State != core.RunDone {
		t.Fatalf("ending = %+v, %v", end, err)
	}
	if n := len(j.attempts); n != 2 {
		t.Errorf("%d attempts, want 2: a pause is not a new try", n)
	}
}

func TestParseRefuses(t *testing.T) {
	for name, c := range map[string]struct{ source, want string }{
		"unknown key":   {"name: a\nstart: x\nnods: {}\n", "nods"},
		"no start":      {"name: a\nstart: y\nnodes:\n  x: {end: done}\n", `"y"`},
		"dangling edge": {"name: a\nstart: x\nnodes:\n  x: {step: s, on: {ok: z}}\n  d: {end: done}\n", `"z"`},
		"unreachable":   {"name: a\nstart: x\nnodes:\n  x: {end: done}\n  d: {end: done}\n", "cannot be reached"},
		"two kinds":     {"name: a\nstart: x\nnodes:\n  x: {end: done, step: s}\n", "exactly one"},
		"uncapped loop": {"name: a\nstart: x\nnodes:\n  x: {step: s, on: {ok: y, no: d}}\n  y: {step: s, on: {ok: x}}\n  d: {end: done}\n", "no node with a cap"},
		"cap, no edge":  {"name: a\nstart: x\nnodes:\n  x: {step: s, cap: 2, on: {ok: d}}\n  d: {end: done}\n", "spent"},
		"spent loop":    {"name: a\nstart: x\nnodes:\n  x: {step: s, cap: 1, on: {ok: d, spent: y}}\n  y: {step: s, cap: 1, on: {ok: d, spent: x}}\n  d: {end: done}\n", "spent"},
		"no end":        {"name: a\nstart: x\nnodes:\n  x: {step: s, cap: 2, on: {ok: x, spent: y}}\n  y: {step: s, on: {ok: x}}\n", "no end"},
		"not a final":   {"name: a\nstart: x\nnodes:\n  x: {end: running}\n", "running"},
		"second doc":    {"name: a\nstart: x\nnodes:\n  x: {end: done}\n---\nname: b\n", "more than one"},
		"bad duration":  {"name: a\nstart: x\nwall_clock: soon\nnodes:\n  x: {end: done}\n", "soon"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := blueprint.Parse("m.yaml", []byte(c.source))
			if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "m.yaml") {
				t.Errorf("err = %v, want one that names %s", err, c.want)
			}
		})
	}
}

func TestBuiltinMachinesAreSound(t *testing.T) {
	machines, err := blueprint.Builtin()
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, m := range machines {
		all = append(all, m.Name)
		for name, n := range m.Nodes {
			if n.End == "" && n.Title == "" {
				t.Errorf("%s: node %s has no title for people", m.Name, name)
			}
		}
	}
	if !slices.Contains(all, "code-change") {
		t.Errorf("machines = %v, want code-change among them", all)
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(loop))
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := blueprint.Parse("f.yaml", data)
		if err == nil && m.Nodes[m.Start].Kind() == "" {
			t.Error("a machine without a start passed")
		}
	})
}
