package session_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"drydock/internal/control/session"
	"drydock/internal/core"
	"drydock/internal/store"
)

func TestStopOfAQueuedSessionHoldsIt(t *testing.T) {
	e := &engine{}
	d := newDaemon(t, path(t), e, session.Options{})
	addEnvironment(t, d.db, "shop")
	s, _ := d.create(alice, "one")
	d.prompt(s.ID, alice, "two")
	got, err := d.Stop(t.Context(), s.ID, bob, "not now")
	if err != nil || got.State != core.SessionIdle || !got.Held {
		t.Fatalf("%+v %v", got, err)
	}
	if want := "stopped by Bob: not now; 2 prompts held until somebody resumes or adds one"; got.Reason != want {
		t.Errorf("reason %q, want %q", got.Reason, want)
	}
	if _, err := d.Stop(t.Context(), s.ID, bob, "again"); err != nil {
		t.Errorf("a second stop: %v", err)
	}
	d.start()
	other, _ := d.create(alice, "other") // when this one is through, the held one was passed over
	d.wait(other.ID, core.SessionIdle)
	if n := len(e.seen()); n != 1 {
		t.Fatalf("%d jobs, a held session ran", n)
	}
	p, err := d.Resume(t.Context(), s.ID, core.NewPrompt{Author: alice})
	if err != nil || p.Text != "one" {
		t.Fatalf("resume: %v %v", p.Text, err)
	}
	if _, err := d.waitUntil(s.ID, func(s core.Session) bool { return s.State == core.SessionIdle && !s.Held }); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"one done", "two done"}, d.states(s.ID)); diff != "" {
		t.Error(diff)
	}
	if _, err := d.Stop(t.Context(), s.ID, bob, ""); !core.Is(err, core.Conflict) {
		t.Errorf("stop of an idle session: %v", err)
	}
}

func TestStopOfARunningPrompt(t *testing.T) {
	causes := make(chan error, 1)
	e := &engine{do: func(ctx context.Context, job session.Job) (session.Ending, error) {
		if job.Prompt.Text != "one" {
			return session.Ending{RunState: core.RunDone}, nil
		}
		ending, err := untilCancelled(ctx, job)
		causes <- context.Cause(ctx)
		return ending, err
	}}
	d := newDaemon(t, path(t), e, session.Options{})
	addEnvironment(t, d.db, "shop")
	s, _ := d.create(alice, "one")
	d.prompt(s.ID, alice, "two")
	d.start()
	d.wait(s.ID, core.SessionRunning)
	got, err := d.Stop(t.Context(), s.ID, bob, "wrong branch")
	if err != nil || got.State != core.SessionStopping {
		t.Fatalf("%s %v", got.State, err)
	}
	got = d.wait(s.ID, core.SessionIdle)
	if cause := <-causes; !errors.Is(cause, session.ErrStopped) {
		t.Errorf("cause %v", cause)
	}
	if diff := cmp.Diff([]string{"one stopped", "two queued"}, d.states(s.ID)); diff != "" {
		t.Error(diff)
	}
	if want := "stopped by Bob: wrong branch; 1 prompt held until somebody resumes or adds one"; got.Reason != want || !got.Held {
		t.Errorf("reason %q, want %q", got.Reason, want)
	}
	if e.kills() != 0 {
		t.Error("a run that ended in time was killed")
	}
	d.prompt(s.ID, alice, "three") // adding one lets the queue go on
	if _, err := d.waitUntil(s.ID, func(s core.Session) bool { return s.State == core.SessionIdle && !s.Held }); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"one stopped", "two done", "three done"}, d.states(s.ID)); diff != "" {
		t.Error(diff)
	}
}

func TestResumeAfterAnEndAddsAPrompt(t *testing.T) {
	d := newDaemon(t, path(t), &engine{do: func(context.Context, session.Job) (session.Ending, error) {
		return session.Ending{RunState: core.RunHandedOver, Outcome: "stuck"}, nil
	}}, session.Options{})
	addEnvironment(t, d.db, "shop")
	s, _ := d.create(alice, "one")
	d.start()
	d.wait(s.ID, core.SessionIdle)
	req := core.NewPrompt{Author: bob, ClientID: "r1"}
	p, err := d.Resume(t.Context(), s.ID, req)
	if err != nil || p.Text != "Continue." || p.Author.Handle != "bob" {
		t.Fatalf("%+v %v", p, err)
	}
	again, err := d.Resume(t.Context(), s.ID, req)
	if err != nil || again.ID != p.ID {
		t.Errorf("a client's retry: %v %v", again.ID, err)
	}
	if _, err := d.waitUntil(s.ID, func(core.Session) bool {
		return cmp.Equal(d.states(s.ID), []string{"one handed_over", "Continue. handed_over"})
	}); err != nil {
		t.Error(err, d.states(s.ID))
	}
}

// The ladder: cancel, after StopGrace the sandbox, after KillGrace without the
// runner. The slot stays taken until the runner is really gone.
func TestStopOfARunThatDoesNotEnd(t *testing.T) {
	file := path(t)
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		e := &engine{do: func(ctx context.Context, job session.Job) (session.Ending, error) {
			err := job.Journal.Started(ctx, "ready")
			if job.Prompt.Text == "stuck" {
				<-release
			}
			return session.Ending{RunState: core.RunDone}, err
		}}
		d := newDaemon(t, file, e, session.Options{MaxRunning: 1, StopGrace: 20 * time.Second, KillGrace: 10 * time.Second})
		addEnvironment(t, d.db, "shop")
		s, _ := d.create(alice, "stuck")
		d.start()
		synctest.Wait()
		time.Sleep(time.Second)
		if got := d.get(s.ID); got.State != core.SessionRunning {
			t.Fatalf("session is %s", got.State)
		}
		start := time.Now()
		if _, err := d.Stop(t.Context(), s.ID, bob, ""); err != nil {
			t.Fatal(err)
		}
		time.Sleep(19 * time.Second)
		if e.kills() != 0 || d.get(s.ID).State != core.SessionStopping {
			t.Errorf("after %v: %d kills, %s", time.Since(start), e.kills(), d.get(s.ID).State)
		}
		time.Sleep(2 * time.Second)
		if e.kills() != 1 || d.get(s.ID).State != core.SessionStopping {
			t.Errorf("after %v: %d kills, %s", time.Since(start), e.kills(), d.get(s.ID).State)
		}
		time.Sleep(10 * time.Second)
		if got := d.get(s.ID); got.State != core.SessionIdle || got.Reason != "stopped by Bob" {
			t.Errorf("after %v: %s (%s)", time.Since(start), got.State, got.Reason)
		}
		next, _ := d.create(alice, "next")
		time.Sleep(10 * time.Second)
		if got := d.get(next.ID); got.State != core.SessionQueued {
			t.Errorf("the slot of a run that did not end was given away: %s", got.State)
		}
		close(release)
		time.Sleep(5 * time.Second)
		if got := d.get(next.ID); got.State != core.SessionIdle {
			t.Errorf("next session is %s", got.State)
		}
		if got := d.states(s.ID); got[0] != "stuck stopped" {
			t.Errorf("what came late was written: %v", got)
		}
		d.kill()
	})
}

func TestStopWithADeadWorker(t *testing.T) {
	for name, c := range map[string]struct {
		instance string
		now      bool // the stop is carried out by Stop itself
	}{
		"of this daemon's earlier life": {"daemon", true},
		"of another daemon":             {"other", false},
	} {
		t.Run(name, func(t *testing.T) {
			file := path(t)
			e := &engine{do: untilCancelled}
			dead := newDaemon(t, file, e, session.Options{Instance: c.instance, Lease: 3 * time.Second})
			addEnvironment(t, dead.db, "shop")
			s, _ := dead.create(alice, "one")
			dead.prompt(s.ID, alice, "two")
			dead.start()
			dead.wait(s.ID, core.SessionRunning)
			dead.kill()

			d := newDaemon(t, file, e, session.Options{Poll: 50 * time.Millisecond})
			got, err := d.Stop(t.Context(), s.ID, bob, "")
			if err != nil {
				t.Fatal(err)
			}
			want := core.SessionStopping // until its lease is over, the other daemon may live
			if c.now {
				want = core.SessionIdle
			}
			if got.State != want {
				t.Errorf("after the stop the session is %s, want %s", got.State, want)
			}
			d.start()
			d.wait(s.ID, core.SessionIdle)
			if diff := cmp.Diff([]string{"one stopped", "two queued"}, d.states(s.ID)); diff != "" {
				t.Error(diff)
			}
			if n := len(e.seen()); n != 1 {
				t.Errorf("a stopped run was executed again: %d jobs", n)
			}
			deadline := time.Now().Add(30 * time.Second)
			for e.kills() == 0 && time.Now().Before(deadline) {
				<-time.After(10 * time.Millisecond)
			}
			if e.kills() != 1 {
				t.Errorf("%d kills", e.kills())
			}
		})
	}
}

func TestStopFromAnotherDaemonReachesTheRunner(t *testing.T) {
	file := path(t)
	e := &engine{do: untilCancelled}
	one := newDaemon(t, file, e, session.Options{Instance: "one", Lease: 6 * time.Second, Heartbeat: 100 * time.Millisecond})
	two := newDaemon(t, file, &engine{}, session.Options{Instance: "two"})
	addEnvironment(t, one.db, "shop")
	s, _ := one.create(alice, "one")
	one.start()
	one.wait(s.ID, core.SessionRunning)
	if got, err := two.Stop(t.Context(), s.ID, bob, ""); err != nil || got.State != core.SessionStopping {
		t.Fatalf("%s %v", got.State, err)
	}
	two.wait(s.ID, core.SessionIdle)
	if got := two.states(s.ID); got[0] != "one stopped" {
		t.Error(got)
	}
}

func TestStopOfAWaitingRun(t *testing.T) {
	e := &engine{do: func(ctx context.Context, job session.Job) (session.Ending, error) {
		return session.Ending{RunState: core.RunWaiting, Outcome: "may it touch payments?"}, job.Journal.Started(ctx, "ready")
	}}
	d := newDaemon(t, path(t), e, session.Options{})
	addEnvironment(t, d.db, "shop")
	s, _ := d.create(alice, "one")
	d.start()
	if got := d.wait(s.ID, core.SessionWaiting); got.Reason != "waits for a person: may it touch payments?" || got.Wait != "approval" {
		t.Errorf("%+v", got)
	}
	got, err := d.Stop(t.Context(), s.ID, bob, "no")
	if err != nil || got.State != core.SessionIdle || got.Held {
		t.Fatalf("%+v %v", got, err)
	}
	if runs, err := d.Runs(t.Context(), s.ID); err != nil || runs[0].State != core.RunStopped {
		t.Errorf("%+v %v", runs, err)
	}
	if e.kills() != 1 {
		t.Errorf("%d kills: a sandbox that waits must go too", e.kills())
	}
}

func TestAWaitingRunGoesOnWhenItIsAnswered(t *testing.T) {
	for _, early := range []bool{false, true} {
		var d *daemon
		e := &engine{do: func(ctx context.Context, job session.Job) (session.Ending, error) {
			if job.Resumed {
				return session.Ending{RunState: core.RunDone, Outcome: "yes"}, nil
			}
			if err := job.Journal.Started(ctx, "ready"); err != nil {
				return session.Ending{}, err
			}
			if early { // the answer comes before the run is put aside
				if _, err := d.Wake(ctx, job.Session.ID, bob, ""); err != nil {
					return session.Ending{}, err
				}
			}
			return session.Ending{RunState: core.RunWaiting}, nil
		}}
		d = newDaemon(t, path(t), e, session.Options{})
		addEnvironment(t, d.db, "shop")
		s, _ := d.create(alice, "one")
		d.start()
		if !early {
			d.wait(s.ID, core.SessionWaiting)
			if _, err := d.Resume(t.Context(), s.ID, core.NewPrompt{Author: bob}); !core.Is(err, core.Conflict) {
				t.Errorf("resume of a session that waits for an answer: %v", err)
			}
			if _, err := d.Wake(t.Context(), s.ID, bob, "fine"); err != nil {
				t.Fatal(err)
			}
		}
		d.wait(s.ID, core.SessionIdle)
		runs, err := d.Runs(t.Context(), s.ID)
		if err != nil || len(runs) != 1 || runs[0].State != core.RunDone {
			t.Errorf("%+v %v", runs, err)
		}
		if d.count(s.ID, core.EventRunStarted) != 1 || d.count(s.ID, core.EventRunFinished) != 1 || d.count(s.ID, core.EventWarning) != 0 {
			t.Errorf("events %v", d.events(s.ID))
		}
		if _, err := d.Wake(t.Context(), s.ID, bob, ""); !core.Is(err, core.Conflict) {
			t.Errorf("wake of an idle session: %v", err)
		}
	}
}

// A run whose row already says how it ended is closed, not executed again, and
// does not stand in the way of others.
func TestARunThatEndedWithoutItsPrompt(t *testing.T) {
	file := path(t)
	dead := newDaemon(t, file, &engine{do: untilCancelled}, session.Options{})
	addEnvironment(t, dead.db, "shop")
	s, _ := dead.create(alice, "one")
	dead.start()
	dead.wait(s.ID, core.SessionRunning)
	runs, err := dead.Runs(t.Context(), s.ID)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := dead.db.UpdateRun(t.Context(), runs[0].ID, func(r *core.Run) error { r.State, r.Outcome = core.RunDone, "by hand"; return nil }); err != nil {
		t.Fatal(err)
	}
	dead.kill()
	e := &engine{}
	d := newDaemon(t, file, e, session.Options{})
	d.start()
	if got := d.wait(s.ID, core.SessionIdle); !strings.Contains(got.Reason, "by hand") || len(e.seen()) != 0 {
		t.Errorf("%s (%s), %d jobs", got.State, got.Reason, len(e.seen()))
	}
}

func TestShutdownLeavesTheRunForTheNextStart(t *testing.T) {
	file := path(t)
	causes := make(chan error, 1)
	first := newDaemon(t, file, &engine{do: func(ctx context.Context, job session.Job) (session.Ending, error) {
		ending, err := untilCancelled(ctx, job)
		causes <- context.Cause(ctx)
		return ending, err
	}}, session.Options{Instance: "one", Lease: time.Hour, Heartbeat: time.Minute})
	addEnvironment(t, first.db, "shop")
	s, _ := first.create(alice, "one")
	first.start()
	before := first.wait(s.ID, core.SessionRunning)
	first.stopRunning()
	if cause := <-causes; !errors.Is(cause, session.ErrShutdown) {
		t.Errorf("cause %v", cause)
	}
	if got, err := first.db.Session(t.Context(), s.ID); err != nil || got.State != before.State || got.Reason != before.Reason {
		t.Errorf("a shutdown changed the session to %s (%s), %v", got.State, got.Reason, err)
	}
	if got := first.get(s.ID); got.Reason != before.Reason+"; waits for a runner: place 1 of 1" {
		t.Errorf("meanwhile it is shown as %q", got.Reason)
	}
	free, err := first.db.LeaseFree(t.Context(), store.LeaseOfSession(s.ID), "two", time.Now())
	if err != nil || !free {
		t.Errorf("the lease was not given back (%v)", err)
	}
	first.kill()
	e := &engine{}
	second := newDaemon(t, file, e, session.Options{Instance: "two"})
	second.start()
	second.wait(s.ID, core.SessionIdle)
	jobs := e.seen()
	runs, err := second.Runs(t.Context(), s.ID)
	if err != nil || len(jobs) != 1 || !jobs[0].Resumed || len(runs) != 1 || jobs[0].Run.ID != runs[0].ID {
		t.Errorf("jobs %+v, runs %+v, %v", jobs, runs, err)
	}
}

func TestAPromptIsDoneNow(t *testing.T) {
	e := &engine{do: func(ctx context.Context, job session.Job) (session.Ending, error) {
		if job.Prompt.Text == "one" {
			return untilCancelled(ctx, job)
		}
		return session.Ending{RunState: core.RunDone}, nil
	}}
	d := newDaemon(t, path(t), e, session.Options{})
	addEnvironment(t, d.db, "shop")
	s, first := d.create(alice, "one")
	d.prompt(s.ID, alice, "two")
	urgent := d.prompt(s.ID, alice, "three")
	d.start()
	d.wait(s.ID, core.SessionRunning)
	if _, err := d.Now(t.Context(), first.ID, bob); !core.Is(err, core.Conflict) {
		t.Errorf("a prompt that runs already: %v", err)
	}
	if _, err := d.Now(t.Context(), urgent.ID, bob); err != nil {
		t.Fatal(err)
	}
	if _, err := d.waitUntil(s.ID, func(s core.Session) bool { return s.State == core.SessionIdle }); err != nil {
		t.Fatal(err)
	}
	var order []string
	for _, job := range e.seen() {
		order = append(order, job.Prompt.Text)
	}
	if diff := cmp.Diff([]string{"one", "three", "two"}, order); diff != "" {
		t.Errorf("order (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"one stopped", "three done", "two done"}, d.states(s.ID)); diff != "" {
		t.Error(diff)
	}
}

func TestAHeldQueueGoesOnWithWhatIsDoneNow(t *testing.T) {
	e := &engine{}
	d := newDaemon(t, path(t), e, session.Options{})
	addEnvironment(t, d.db, "shop")
	s, _ := d.create(alice, "one")
	two := d.prompt(s.ID, alice, "two")
	if _, err := d.Stop(t.Context(), s.ID, bob, ""); err != nil {
		t.Fatal(err)
	}
	got, err := d.Now(t.Context(), two.ID, bob)
	if err != nil || got.Held || got.State != core.SessionQueued {
		t.Fatalf("%+v, %v", got, err)
	}
	d.start()
	if _, err := d.waitUntil(s.ID, func(s core.Session) bool { return s.State == core.SessionIdle }); err != nil {
		t.Fatal(err)
	}
	if jobs := e.seen(); len(jobs) != 2 || jobs[0].Prompt.Text != "two" {
		t.Errorf("jobs %+v", jobs)
	}
}
