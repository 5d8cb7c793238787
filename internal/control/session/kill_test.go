package session_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"drydock/internal/control/event"
	"drydock/internal/control/session"
	"drydock/internal/core"
	"drydock/internal/store"
)

// world is what is outside of all daemons: it remembers what was done to it.
type world struct {
	mu    sync.Mutex
	times map[string]int
}

func (w *world) do(what string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.times[what]++
}

func (w *world) has(what string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.times[what] > 0
}

// stepper is an engine in small: its position is the run's row, moved together
// with the event that tells of it; its one outside effect is journaled.
type stepper struct {
	world *world
	kill  func(point string, job session.Job) // may end this daemon's life
}

var steps = []string{"restore", "agent", "push", "proof"}

func (s *stepper) Kill(context.Context, core.SessionID) error { return nil }

func (s *stepper) Execute(ctx context.Context, job session.Job) (session.Ending, error) {
	s.at("claimed", job)
	if err := job.Journal.Started(ctx, "ready"); err != nil {
		return session.Ending{}, err
	}
	next := slices.Index(steps, job.Run.Node) + 1 // Node is the last one done
	for _, step := range steps[next:] {
		if step == "push" {
			if err := s.push(ctx, job); err != nil {
				return session.Ending{}, err
			}
		}
		err := job.Journal.Tx(ctx, func(tx *store.Tx) error {
			if _, err := tx.UpdateRun(ctx, job.Run.ID, func(r *core.Run) error { r.Node = step; return nil }); err != nil {
				return err
			}
			return job.Journal.AppendTx(ctx, tx, core.NewEvent(core.EventNodeFinished, core.NodeData{Node: step}))
		})
		if err != nil {
			return session.Ending{}, err
		}
		s.at("after "+step, job)
	}
	s.at("before the end", job)
	return session.Ending{RunState: core.RunDone, Outcome: "done"}, nil
}

func (s *stepper) push(ctx context.Context, job session.Job) error {
	id := "push:" + string(job.Run.ID)
	var fresh bool
	var effect store.Effect
	err := job.Journal.Tx(ctx, func(tx *store.Tx) (err error) {
		effect, fresh, err = tx.IntendEffect(ctx, store.Effect{ID: id, Kind: "push", Request: json.RawMessage(`{}`)})
		return err
	})
	if err != nil {
		return err
	}
	s.at("intended", job)
	if effect.State != store.EffectDone {
		if fresh || !s.world.has(id) { // ask the world before a retry
			s.world.do(id)
		}
		s.at("pushed, nobody knows", job)
		return job.Journal.Tx(ctx, func(tx *store.Tx) error { return tx.FinishEffect(ctx, id, store.EffectDone, nil) })
	}
	return nil
}

func (s *stepper) at(point string, job session.Job) {
	if s.kill != nil {
		s.kill(point, job)
	}
}

var points = []string{
	"claimed", "after restore", "after agent", "intended", "pushed, nobody knows", "after push", "after proof", "before the end",
}

// A daemon that dies at each point of a run, and one that dies as soon as each
// event can be seen: the next life finishes everything; nothing acknowledged
// is lost, nothing shown is changed, nothing is done twice.
func TestKillAtEveryStep(t *testing.T) {
	for _, point := range points {
		for _, victim := range []string{"one", "two"} {
			t.Run(point+" of "+victim, func(t *testing.T) {
				t.Parallel()
				c := newCase(t)
				var first *daemon
				ready := make(chan struct{})
				first = newDaemon(t, c.file, &stepper{world: c.world, kill: func(p string, job session.Job) {
					if p == point && job.Prompt.Text == victim {
						<-ready
						_ = first.db.Close()
					}
				}}, session.Options{})
				c.begin(first)
				close(ready)
				first.start()
				c.die(first, func() bool { return first.db.PutUser(context.Background(), alice) != nil })
				c.finish()
			})
		}
	}
}

func TestKillAtEveryEvent(t *testing.T) {
	whole := newCase(t)
	d := newDaemon(t, whole.file, &stepper{world: whole.world}, session.Options{})
	whole.begin(d)
	d.start()
	d.wait(whole.session, core.SessionIdle)
	total := len(d.events(whole.session))
	d.kill()
	if total < 20 {
		t.Fatalf("only %d events", total)
	}
	for n := 1; n <= total; n++ {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			t.Parallel()
			c := newCase(t)
			first := newDaemon(t, c.file, &stepper{world: c.world}, session.Options{})
			c.begin(first)
			first.start()
			c.shown(n)
			first.kill()
			second := newDaemon(t, c.file, &stepper{world: c.world}, session.Options{})
			second.start()
			c.shown(min(n+4, total)) // and once more
			second.kill()
			c.finish()
		})
	}
}

type killCase struct {
	t        *testing.T
	file     string
	world    *world
	session  core.SessionID
	observer *event.Log // as another process sees it
	seen     []core.Event
}

func newCase(t *testing.T) *killCase {
	t.Helper()
	c := &killCase{t: t, file: path(t), world: &world{times: map[string]int{}}}
	db, err := store.Open(t.Context(), store.Options{Path: c.file})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	c.observer = event.New(db, event.Options{Poll: 2 * time.Millisecond})
	addEnvironment(t, db, "shop")
	return c
}

func (c *killCase) begin(d *daemon) {
	s, _ := d.create(alice, "one")
	d.prompt(s.ID, bob, "two")
	c.session = s.ID
}

// shown reads events until n were seen.
func (c *killCase) shown(n int) {
	if len(c.seen) >= n {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for e, err := range c.observer.Follow(ctx, string(c.session), int64(len(c.seen))) {
		if err != nil {
			c.t.Fatal(err)
		}
		if c.seen = append(c.seen, e); len(c.seen) >= n {
			return
		}
	}
	c.t.Fatalf("%d events in a minute, want %d", len(c.seen), n)
}

// die waits until the daemon's store is closed and buries it.
func (c *killCase) die(d *daemon, dead func() bool) {
	deadline := time.Now().Add(time.Minute)
	for !dead() {
		if time.Now().After(deadline) {
			c.t.Fatal("the daemon did not die")
		}
		<-time.After(5 * time.Millisecond)
	}
	if list, err := c.observer.Read(context.Background(), string(c.session), 0, 500); err == nil {
		c.seen = list
	}
	d.kill()
}

// finish lets a last daemon do the rest and checks the promises.
func (c *killCase) finish() {
	t := c.t
	t.Helper()
	last := newDaemon(t, c.file, &stepper{world: c.world}, session.Options{})
	last.start()
	got := last.wait(c.session, core.SessionIdle)
	if got.Reason != "done: done" {
		t.Errorf("reason %q", got.Reason)
	}
	if diff := cmp.Diff([]string{"one done", "two done"}, last.states(c.session)); diff != "" {
		t.Error(diff)
	}
	runs, err := last.Runs(t.Context(), c.session)
	if err != nil || len(runs) != 2 {
		t.Errorf("%d runs (%v)", len(runs), err)
	}
	events := last.events(c.session)
	if diff := cmp.Diff(c.seen, events[:len(c.seen)]); diff != "" {
		t.Errorf("what was shown is not what is stored:\n%s", diff)
	}
	count := map[string]int{}
	for _, e := range events {
		count[string(e.Kind)]++
		if e.Kind == core.EventNodeFinished {
			count[string(e.Run)]++
		}
	}
	for what, want := range map[string]int{
		"session.created": 1, "prompt.queued": 2, "run.started": 2, "run.finished": 2, "node.finished": 2 * len(steps),
	} {
		if count[what] != want {
			t.Errorf("%d events of kind %s, want %d", count[what], what, want)
		}
	}
	for _, r := range runs {
		if r.State != core.RunDone || count[string(r.ID)] != len(steps) || c.world.times["push:"+string(r.ID)] != 1 {
			t.Errorf("run %s is %s, %d steps, pushed %d times", r.ID, r.State, count[string(r.ID)], c.world.times["push:"+string(r.ID)])
		}
	}
}

// Two daemons on one store: every prompt is executed by one of them, once.
func TestTwoDaemonsRunNoPromptTwice(t *testing.T) {
	file := path(t)
	var mu sync.Mutex
	executions := map[core.PromptID]int{}
	by := map[string]int{}
	do := func(name string) func(context.Context, session.Job) (session.Ending, error) {
		return func(ctx context.Context, job session.Job) (session.Ending, error) {
			if err := job.Journal.Started(ctx, name); err != nil {
				return session.Ending{}, err
			}
			mu.Lock()
			defer mu.Unlock()
			executions[job.Prompt.ID]++
			by[name]++
			return session.Ending{RunState: core.RunDone}, nil
		}
	}
	var all []*daemon
	for _, name := range []string{"a", "b"} {
		all = append(all, newDaemon(t, file, &engine{do: do(name)}, session.Options{Instance: name, MaxRunning: 3, Poll: 20 * time.Millisecond}))
	}
	addEnvironment(t, all[0].db, "shop")
	var sessions []core.Session
	for i := range 20 {
		s, _ := all[i%2].create(alice, "one")
		all[(i+1)%2].prompt(s.ID, bob, "two")
		sessions = append(sessions, s)
	}
	for _, d := range all {
		d.start()
	}
	for _, s := range sessions {
		all[0].wait(s.ID, core.SessionIdle)
	}
	if len(executions) != 40 {
		t.Errorf("%d prompts were executed, want 40", len(executions))
	}
	for id, n := range executions {
		if n != 1 {
			t.Errorf("prompt %s was executed %d times", id, n)
		}
	}
	if by["a"] == 0 || by["b"] == 0 {
		t.Errorf("one daemon did everything: %v", by)
	}
}

func TestAnotherDaemonTakesOverWhenTheLeaseIsOver(t *testing.T) {
	file := path(t)
	dead := newDaemon(t, file, &engine{do: untilCancelled}, session.Options{Instance: "dead", Lease: 2 * time.Second})
	addEnvironment(t, dead.db, "shop")
	s, _ := dead.create(alice, "one")
	dead.start()
	dead.wait(s.ID, core.SessionRunning)
	dead.kill()
	e := &engine{}
	d := newDaemon(t, file, e, session.Options{Instance: "alive", Poll: 50 * time.Millisecond})
	d.start()
	d.wait(s.ID, core.SessionIdle)
	if jobs := e.seen(); len(jobs) != 1 || !jobs[0].Resumed {
		t.Errorf("%d jobs", len(jobs))
	}
}

// A daemon that hangs past its lease, and wakes up: its run was taken over, its
// context ends, and it writes nothing.
func TestALostLeaseEndsTheRunner(t *testing.T) {
	causes := make(chan error, 1)
	d := newDaemon(t, path(t), &engine{do: func(ctx context.Context, job session.Job) (session.Ending, error) {
		ending, err := untilCancelled(ctx, job)
		causes <- context.Cause(ctx)
		return ending, err
	}}, session.Options{MaxRunning: 1, Lease: 6 * time.Second, Heartbeat: 50 * time.Millisecond})
	addEnvironment(t, d.db, "shop")
	s, _ := d.create(alice, "one")
	d.start()
	d.wait(s.ID, core.SessionRunning)
	if _, err := d.db.Seize(t.Context(), store.LeaseOfSession(s.ID), "another", time.Now(), time.Hour); err != nil {
		t.Fatal(err)
	}
	if cause := <-causes; !errors.Is(cause, session.ErrLeaseLost) {
		t.Errorf("cause %v", cause)
	}
	if got := d.states(s.ID); got[0] != "one running" {
		t.Errorf("prompts %v", got)
	}
}

// 50 sessions of 3 prompts at once: all end right, in order, and every log is
// complete, also as followers saw it.
func TestFiftySessions(t *testing.T) {
	d := newDaemon(t, path(t), &engine{do: func(ctx context.Context, job session.Job) (session.Ending, error) {
		if err := job.Journal.Started(ctx, "ready"); err != nil {
			return session.Ending{}, err
		}
		for i := range 5 {
			job.Journal.Delta("x")
			if err := job.Journal.Append(ctx, core.NewEvent(core.EventAgentText, core.TextData{Text: fmt.Sprint(job.Prompt.Text, i)})); err != nil {
				return session.Ending{}, err
			}
		}
		return session.Ending{RunState: core.RunDone}, nil
	}}, session.Options{MaxRunning: 8})
	addEnvironment(t, d.db, "shop")
	d.start()
	const n, each = 50, 1 + 3 + 3*(7+5) // created, queued, and per run 7 of ours and 5 of the engine's
	var wg sync.WaitGroup
	for i := range n {
		by := []core.Author{alice, bob}[i%2]
		s, _ := d.create(by, "1")
		d.prompt(s.ID, by, "2")
		d.prompt(s.ID, by, "3")
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
			defer cancel()
			next, text := int64(1), ""
			for e, err := range d.log.Follow(ctx, string(s.ID), 0) {
				switch {
				case err != nil:
					t.Error(err)
					return
				case e.Kind == core.EventDelta:
					continue
				case e.Seq != next:
					t.Errorf("event %d of %s after %d", e.Seq, s.ID, next-1)
					return
				}
				if e.Kind == core.EventAgentText {
					var d core.TextData
					_ = json.Unmarshal(e.Data, &d)
					text += d.Text + " "
				}
				if next++; next > each {
					break
				}
			}
			if want := "10 11 12 13 14 20 21 22 23 24 30 31 32 33 34 "; text != want {
				t.Errorf("%s said %q", s.ID, text)
			}
			if got := d.wait(s.ID, core.SessionIdle); got.Reason != "done" {
				t.Errorf("%s: %s", s.ID, got.Reason)
			}
			if got := len(d.events(s.ID)); got != each {
				t.Errorf("%s has %d events, want %d", s.ID, got, each)
			}
		})
	}
	wg.Wait()
}
