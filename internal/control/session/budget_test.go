package session_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"drydock/internal/control/session"
	"drydock/internal/core"
)

func call(j session.Job) session.Call {
	return session.Call{Session: j.Session.ID, Prompt: j.Prompt.ID, Run: j.Run.ID}
}

func cost(m core.Money) core.ModelData {
	return core.ModelData{
		Provider: "scripted", Model: "m", Outcome: "end_turn",
		Usage: core.Usage{Input: 100, Output: 10, Calls: 1}, Cost: core.Cost{Known: m},
	}
}

// A run asks before each model call; three calls of a dollar and a budget of
// two: it waits before the third, and goes on when there is more.
func TestMoneyPausesARunAndRaisingItGoesOn(t *testing.T) {
	var d *daemon
	calls := 0
	e := &engine{}
	e.do = func(ctx context.Context, job session.Job) (session.Ending, error) {
		if err := job.Journal.Started(ctx, "ready"); err != nil {
			return session.Ending{}, err
		}
		for calls < 3 {
			if err := d.CheckBudget(ctx, job.Session.ID); err != nil {
				return session.Ending{}, core.E("agent", core.KindOf(err), err, "model call")
			}
			calls++
			if _, err := d.Spend(ctx, call(job), cost(1_000_000)); err != nil {
				return session.Ending{}, err
			}
		}
		return session.Ending{RunState: core.RunDone}, nil
	}
	d = newDaemon(t, path(t), e, session.Options{})
	addEnvironment(t, d.db, "shop")
	s, _, err := d.Create(t.Context(), core.NewSession{Environment: "shop", Budget: core.Budget{Money: 2_000_000}, Prompt: say(alice, "one")})
	if err != nil {
		t.Fatal(err)
	}
	d.start()
	got := d.wait(s.ID, core.SessionWaiting)
	if calls != 2 || got.Cost.Known != 2_000_000 || got.Usage.Calls != 2 || got.Wait != "budget" {
		t.Errorf("%d calls, session %+v", calls, got)
	}
	if want := "waits: the budget of $2.0000 is spent ($2.0000)"; got.Reason != want {
		t.Errorf("reason %q, want %q", got.Reason, want)
	}
	runs, err := d.Runs(t.Context(), s.ID)
	if err != nil || runs[0].State != core.RunWaiting || d.count(s.ID, core.EventBudget) != 1 || e.kills() != 0 {
		t.Errorf("runs %+v %v, %d kills", runs, err, e.kills())
	}
	if err := d.CheckBudget(t.Context(), s.ID); !core.Is(err, core.Exhausted) || core.HintOf(err) == "" {
		t.Errorf("check: %v", err)
	}

	if got, err = d.RaiseBudget(t.Context(), s.ID, core.Budget{Money: 1_500_000}, bob); err != nil || got.State != core.SessionWaiting {
		t.Errorf("a budget that is still spent: %s %v", got.State, err)
	}
	if _, err := d.RaiseBudget(t.Context(), s.ID, core.Budget{Money: -1}, bob); !core.Is(err, core.Invalid) {
		t.Errorf("negative: %v", err)
	}
	if _, err = d.RaiseBudget(t.Context(), s.ID, core.Budget{Money: 10_000_000}, bob); err != nil {
		t.Fatal(err)
	}
	d.wait(s.ID, core.SessionIdle)
	runs, err = d.Runs(t.Context(), s.ID)
	if err != nil || len(runs) != 1 || runs[0].State != core.RunDone || calls != 3 {
		t.Errorf("runs %+v %v, %d calls", runs, err, calls)
	}
	if jobs := e.seen(); len(jobs) != 2 || !jobs[1].Resumed {
		t.Errorf("%d jobs", len(jobs))
	}
	modelCalls, err := d.db.ModelCalls(t.Context(), s.ID)
	if err != nil || len(modelCalls) != 3 || modelCalls[0].Run != runs[0].ID || d.count(s.ID, core.EventModelCall) != 3 {
		t.Errorf("model calls %+v %v", modelCalls, err)
	}
	// Spent again at once: the next prompt waits without starting a sandbox.
	if _, err = d.RaiseBudget(t.Context(), s.ID, core.Budget{Money: 3_000_000}, bob); err != nil {
		t.Fatal(err)
	}
	d.prompt(s.ID, alice, "two")
	d.wait(s.ID, core.SessionWaiting)
	if n := len(e.seen()); n != 2 {
		t.Errorf("%d jobs: a session without money started", n)
	}
}

func TestWallClockPausesARun(t *testing.T) {
	file := path(t)
	synctest.Test(t, func(t *testing.T) {
		var d *daemon
		e := &engine{}
		e.do = func(ctx context.Context, job session.Job) (session.Ending, error) {
			if err := job.Journal.Started(ctx, "ready"); err != nil {
				return session.Ending{}, err
			}
			for range 100 {
				if err := d.CheckBudget(ctx, job.Session.ID); err != nil {
					return session.Ending{}, err
				}
				select { // a minute of work between two model calls
				case <-time.After(time.Minute):
				case <-ctx.Done():
					return session.Ending{}, context.Cause(ctx)
				}
			}
			return session.Ending{RunState: core.RunDone}, nil
		}
		d = newDaemon(t, file, e, session.Options{})
		addEnvironment(t, d.db, "shop")
		s, _, err := d.Create(t.Context(), core.NewSession{Environment: "shop", Budget: core.Budget{WallClock: 10*time.Minute + time.Second}, Prompt: say(alice, "one")})
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour) // time in the queue does not count
		d.start()
		time.Sleep(15 * time.Minute)
		got := d.get(s.ID)
		if got.State != core.SessionWaiting || got.Wait != "budget" || got.Active < 10*time.Minute || got.Active > 12*time.Minute {
			t.Fatalf("%s (%s) after %v", got.State, got.Reason, got.Active)
		}
		time.Sleep(time.Hour) // nor does time spent waiting
		if now := d.get(s.ID); now.Active != got.Active {
			t.Errorf("a waiting session used %v", now.Active-got.Active)
		}
		if _, err := d.RaiseBudget(t.Context(), s.ID, core.Budget{}, bob); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Hour)
		if got := d.get(s.ID); got.State != core.SessionIdle {
			t.Errorf("%s (%s)", got.State, got.Reason)
		}
		d.kill()
	})
}

// A run that never asks for a model again is paused too, later.
func TestWallClockEndsWaitingForever(t *testing.T) {
	file := path(t)
	synctest.Test(t, func(t *testing.T) {
		var cause error
		e := &engine{do: func(ctx context.Context, job session.Job) (session.Ending, error) {
			ending, err := untilCancelled(ctx, job)
			cause = context.Cause(ctx)
			return ending, err
		}}
		d := newDaemon(t, file, e, session.Options{BudgetGrace: 2 * time.Minute})
		addEnvironment(t, d.db, "shop")
		s, _, err := d.Create(t.Context(), core.NewSession{Environment: "shop", Budget: core.Budget{WallClock: 10 * time.Minute}, Prompt: say(alice, "one")})
		if err != nil {
			t.Fatal(err)
		}
		d.start()
		time.Sleep(11 * time.Minute)
		if got := d.get(s.ID); got.State != core.SessionRunning {
			t.Errorf("%s before its grace is over", got.State)
		}
		time.Sleep(2 * time.Minute)
		if got := d.get(s.ID); got.State != core.SessionWaiting || !errors.Is(cause, session.ErrBudget) || e.kills() != 0 {
			t.Errorf("%s, cause %v, %d kills", got.State, cause, e.kills())
		}
		d.kill()
	})
}

func TestUnknownCostIsSaidOnce(t *testing.T) {
	d := newDaemon(t, path(t), &engine{}, session.Options{Budget: core.Budget{Money: 100}})
	addEnvironment(t, d.db, "shop")
	s, _ := d.create(alice, "one")
	data := core.ModelData{Model: "new", Cost: core.Cost{Unknown: true}, Usage: core.Usage{Calls: 1}}
	for range 2 {
		if spent, err := d.Spend(t.Context(), session.Call{Session: s.ID}, data); err != nil || spent {
			t.Fatalf("%v %v", spent, err)
		}
	}
	if got := d.get(s.ID); got.Cost.String() != "unknown" || got.Usage.Calls != 2 {
		t.Errorf("%+v", got.Cost)
	}
	warnings := 0
	for _, e := range d.events(s.ID) {
		if e.Kind == core.EventWarning {
			warnings++
			var w core.WarningData
			if err := json.Unmarshal(e.Data, &w); err != nil || w.Code != "cost_unknown" || !strings.Contains(w.Message, "new") {
				t.Errorf("%+v %v", w, err)
			}
		}
	}
	if warnings != 1 {
		t.Errorf("%d warnings", warnings)
	}
	if spent, err := d.Spend(t.Context(), session.Call{Session: s.ID}, cost(100)); err != nil || !spent {
		t.Errorf("spent %v %v", spent, err)
	}
	if _, err := d.Spend(t.Context(), session.Call{}, data); !core.Is(err, core.Invalid) {
		t.Errorf("a call of no session: %v", err)
	}
}
