package session_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"drydock/internal/control/session"
	"drydock/internal/core"
	"drydock/internal/store"
)

func TestCreateAnswersBeforeAnythingStarts(t *testing.T) {
	e := &engine{}
	d := newDaemon(t, path(t), e, session.Options{})
	env := addEnvironment(t, d.db, "shop")
	s, p, err := d.Create(t.Context(), core.NewSession{Environment: string(env.ID), Prompt: say(alice, "\n  fix the cart\nplease")})
	if err != nil {
		t.Fatal(err)
	}
	want := core.Session{
		ID: s.ID, Environment: env.ID, Title: "fix the cart", State: core.SessionQueued, Reason: "waits for a runner: place 1 of 1", Owner: alice,
		Blueprint: "code-change", Agent: "builtin", Base: "main", Created: s.Created, Updated: s.Updated,
	}
	got := d.get(s.ID)
	if got.View == nil || got.View.Word != core.ViewQueued || got.View.Position != 1 {
		t.Errorf("view %+v", got.View)
	}
	got.View = nil
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if p.State != core.PromptQueued || p.Position != 1 || p.Session != s.ID {
		t.Errorf("prompt %+v", p)
	}
	if ev := d.events(s.ID); len(ev) != 2 || ev[0].Kind != core.EventSessionCreated || ev[1].Kind != core.EventPromptQueued || ev[1].Actor != "alice" {
		t.Errorf("events %+v", ev)
	}
	if len(e.seen()) != 0 {
		t.Error("something was started")
	}
}

func TestCreateRefuses(t *testing.T) {
	d := newDaemon(t, path(t), &engine{}, session.Options{})
	addEnvironment(t, d.db, "shop")
	bare := core.Environment{ID: core.NewEnvironmentID(), Name: "bare", Source: "/srv/bare"}
	if err := d.db.CreateEnvironment(t.Context(), bare); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		req  core.NewSession
		kind core.Kind
		hint string
	}{
		"no such environment": {core.NewSession{Environment: "none", Prompt: say(alice, "x")}, core.NotFound, "drydock env"},
		"never built":         {core.NewSession{Environment: "bare", Prompt: say(alice, "x")}, core.Conflict, "drydock env build /srv/bare"},
		"no environment":      {core.NewSession{Prompt: say(alice, "x")}, core.Invalid, ""},
		"no author":           {core.NewSession{Environment: "shop", Prompt: core.NewPrompt{Text: "x"}}, core.Unauthorized, ""},
		"empty prompt":        {core.NewSession{Environment: "shop", Prompt: say(alice, " \n")}, core.Invalid, ""},
		"long prompt":         {core.NewSession{Environment: "shop", Prompt: say(alice, strings.Repeat("x", session.MaxText+1))}, core.Invalid, "file"},
		"not text":            {core.NewSession{Environment: "shop", Prompt: say(alice, "\xff\xfe")}, core.Invalid, ""},
		"odd branch":          {core.NewSession{Environment: "shop", Base: "a\nb", Prompt: say(alice, "x")}, core.Invalid, ""},
		"negative budget":     {core.NewSession{Environment: "shop", Budget: core.Budget{Money: -1}, Prompt: say(alice, "x")}, core.Invalid, ""},
	} {
		_, _, err := d.Create(t.Context(), c.req)
		if !core.Is(err, c.kind) || !strings.Contains(core.HintOf(err), c.hint) {
			t.Errorf("%s: %v (%s), hint %q", name, err, core.KindOf(err), core.HintOf(err))
		}
	}
	if list, _, err := d.List(t.Context(), core.SessionFilter{}, core.Page{}); err != nil || len(list) != 0 {
		t.Errorf("%d sessions are left (%v)", len(list), err)
	}
}

func TestAClientsRetryIsNotASecondPrompt(t *testing.T) {
	d := newDaemon(t, path(t), &engine{}, session.Options{})
	addEnvironment(t, d.db, "shop")
	req := core.NewSession{Environment: "shop", Prompt: say(alice, "x")}
	req.Prompt.ClientID = "c1"
	var wg sync.WaitGroup
	ids := make([]core.SessionID, 8)
	for i := range ids {
		wg.Go(func() {
			s, _, err := d.Create(t.Context(), req)
			if err != nil {
				t.Error(err)
			}
			ids[i] = s.ID
		})
	}
	wg.Wait()
	for _, id := range ids {
		if id != ids[0] {
			t.Fatalf("sessions %v", ids)
		}
	}
	next := say(alice, "more")
	next.ClientID = "c2"
	first, err := d.Prompt(t.Context(), ids[0], next)
	if err != nil {
		t.Fatal(err)
	}
	again, err := d.Prompt(t.Context(), ids[0], next)
	if err != nil || again.ID != first.ID {
		t.Fatalf("again %v %v", again.ID, err)
	}
	next.Author = bob
	if _, err := d.Prompt(t.Context(), ids[0], next); !core.Is(err, core.Conflict) {
		t.Errorf("the client id of somebody else: %v", err)
	}
	if got := d.count(ids[0], core.EventPromptQueued); got != 2 {
		t.Errorf("%d prompts were told of, want 2", got)
	}
	req.Prompt.Author = bob // another person's client may use the same identifier
	if s, _, err := d.Create(t.Context(), req); err != nil || s.ID == ids[0] {
		t.Errorf("session of another author: %v %v", s.ID, err)
	}
}

func TestFollowUpsRunInOrder(t *testing.T) {
	e := &engine{}
	d := newDaemon(t, path(t), e, session.Options{})
	addEnvironment(t, d.db, "shop")
	s, _ := d.create(alice, "one")
	two := d.prompt(s.ID, bob, "two")
	three := d.prompt(s.ID, alice, "three")
	four := d.prompt(s.ID, alice, "four")
	if _, err := d.MovePrompt(t.Context(), three.ID, bob, 1); err != nil {
		t.Fatal(err)
	}
	if _, err := d.EditPrompt(t.Context(), two.ID, bob, "two!"); err != nil {
		t.Fatal(err)
	}
	if _, err := d.RemovePrompt(t.Context(), four.ID, bob); err != nil {
		t.Fatal(err)
	}
	d.start()
	d.wait(s.ID, core.SessionIdle)
	var order []string
	for _, j := range e.seen() {
		order = append(order, j.Prompt.Text)
		if j.Resumed || j.Run.Prompt != j.Prompt.ID {
			t.Errorf("job %+v", j)
		}
	}
	if diff := cmp.Diff([]string{"three", "one", "two!"}, order); diff != "" {
		t.Error(diff)
	}
	for name, fn := range map[string]func() error{
		"edit":   func() error { _, err := d.EditPrompt(t.Context(), two.ID, bob, "x"); return err },
		"move":   func() error { _, err := d.MovePrompt(t.Context(), two.ID, bob, 1); return err },
		"remove": func() error { _, err := d.RemovePrompt(t.Context(), two.ID, bob); return err },
	} {
		if err := fn(); !core.Is(err, core.Conflict) {
			t.Errorf("%s of a finished prompt: %v", name, err)
		}
	}
	runs, err := d.Runs(t.Context(), s.ID)
	if err != nil || len(runs) != 3 || runs[0].State != core.RunDone || runs[0].Outcome != "did it" || runs[0].Finished.IsZero() {
		t.Errorf("runs %+v %v", runs, err)
	}
}

// The events of a session tell every state it had: replayed, they give the
// same state as the store, along edges of the table only.
func TestEventsTellEveryState(t *testing.T) {
	d := newDaemon(t, path(t), &engine{}, session.Options{})
	addEnvironment(t, d.db, "shop")
	s, _ := d.create(alice, "one")
	d.prompt(s.ID, alice, "two")
	d.start()
	d.wait(s.ID, core.SessionIdle)
	var kinds []string
	for _, e := range d.events(s.ID) {
		kinds = append(kinds, fmt.Sprintf("%s %s", e.Kind, stateIn(t, e)))
	}
	want := []string{
		"session.created queued", "prompt.queued queued", "prompt.queued queued",
		"prompt.state running", "run.started running", "session.state starting", "session.state running",
		"run.finished done", "prompt.state done", "session.state queued",
		"prompt.state running", "run.started running", "session.state starting", "session.state running",
		"run.finished done", "prompt.state done", "session.state idle",
	}
	if diff := cmp.Diff(want, kinds); diff != "" {
		t.Error(diff)
	}
}

func TestEndings(t *testing.T) {
	failure := &core.Failure{Code: "push_failed", Message: "the push was refused"}
	for name, c := range map[string]struct {
		do      func(ctx context.Context, job session.Job) (session.Ending, error)
		session core.SessionState
		prompt  core.PromptState
		run     core.RunState
		reason  string
		code    string
	}{
		"done": {func(context.Context, session.Job) (session.Ending, error) {
			return session.Ending{RunState: core.RunDone, Outcome: "change 1 opened", Verdict: "proven", Change: "chg_1"}, nil
		}, core.SessionIdle, core.PromptDone, core.RunDone, "done: change 1 opened", ""},
		"handed over": {func(context.Context, session.Job) (session.Ending, error) {
			return session.Ending{RunState: core.RunHandedOver, Outcome: "nothing to prove"}, nil
		}, core.SessionIdle, core.PromptHandedOver, core.RunHandedOver, "handed over: nothing to prove", ""},
		"failed": {func(context.Context, session.Job) (session.Ending, error) {
			return session.Ending{RunState: core.RunFailed, Failure: failure}, nil
		}, core.SessionFailed, core.PromptFailed, core.RunFailed, "failed: the push was refused", "push_failed"},
		"error": {func(context.Context, session.Job) (session.Ending, error) {
			return session.Ending{}, core.E("x", core.Unavailable, nil, "no room").WithHint("free some")
		}, core.SessionFailed, core.PromptFailed, core.RunFailed, "failed: no room", "unavailable"},
		"panic": {
			func(context.Context, session.Job) (session.Ending, error) { panic("boom") },
			core.SessionFailed, core.PromptFailed, core.RunFailed, "failed: the engine panicked: boom", "internal",
		},
		"nothing said": {
			func(context.Context, session.Job) (session.Ending, error) { return session.Ending{}, nil },
			core.SessionFailed, core.PromptFailed, core.RunFailed, "failed: the engine returned without saying how the run ended", "bad_ending",
		},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDaemon(t, path(t), &engine{do: c.do}, session.Options{})
			addEnvironment(t, d.db, "shop")
			s, _ := d.create(alice, "one")
			d.start()
			got := d.wait(s.ID, c.session)
			if got.Reason != c.reason {
				t.Errorf("reason %q, want %q", got.Reason, c.reason)
			}
			runs, err := d.Runs(t.Context(), s.ID)
			if err != nil || len(runs) != 1 || runs[0].State != c.run {
				t.Fatalf("runs %+v %v", runs, err)
			}
			if f := runs[0].Failure; (f == nil) != (c.code == "") || f != nil && f.Code != c.code {
				t.Errorf("failure %+v", f)
			}
			if got := d.states(s.ID); got[0] != "one "+string(c.prompt) {
				t.Errorf("prompt %v", got)
			}
			// A follow-up is welcome after any of them.
			d.prompt(s.ID, alice, "again")
			d.wait(s.ID, c.session)
		})
	}
}

func TestPromptsAfterAFailureStillRun(t *testing.T) {
	d := newDaemon(t, path(t), &engine{do: func(_ context.Context, job session.Job) (session.Ending, error) {
		if job.Prompt.Text == "one" {
			return session.Ending{}, errors.New("boom")
		}
		return session.Ending{RunState: core.RunDone}, nil
	}}, session.Options{})
	addEnvironment(t, d.db, "shop")
	s, _ := d.create(alice, "one")
	d.prompt(s.ID, alice, "two")
	d.start()
	d.wait(s.ID, core.SessionIdle)
	if diff := cmp.Diff([]string{"one failed", "two done"}, d.states(s.ID)); diff != "" {
		t.Error(diff)
	}
}

func TestUsersTakeTurnsAtTheRunners(t *testing.T) {
	e := &engine{}
	d := newDaemon(t, path(t), e, session.Options{MaxRunning: 1})
	addEnvironment(t, d.db, "shop")
	var last core.Session
	for range 4 {
		last, _ = d.create(alice, "a")
	}
	b, _ := d.create(bob, "b")
	d.start()
	d.wait(b.ID, core.SessionIdle)
	d.wait(last.ID, core.SessionIdle)
	if jobs := e.seen(); jobs[1].Prompt.Author.Handle != "bob" {
		t.Errorf("bob waited behind %d prompts of alice", len(jobs))
	}
}

func TestMaxRunningBounds(t *testing.T) {
	var mu sync.Mutex
	now, most := 0, 0
	full, release := make(chan struct{}), make(chan struct{})
	d := newDaemon(t, path(t), &engine{do: func(ctx context.Context, _ session.Job) (session.Ending, error) {
		mu.Lock()
		now++
		if most = max(most, now); now == 3 && most == 3 {
			select {
			case <-full:
			default:
				close(full)
			}
		}
		mu.Unlock()
		<-release
		mu.Lock()
		now--
		mu.Unlock()
		return session.Ending{RunState: core.RunDone}, nil
	}}, session.Options{MaxRunning: 3, Poll: 10 * time.Millisecond})
	addEnvironment(t, d.db, "shop")
	var all []core.Session
	for range 12 {
		s, _ := d.create(alice, "x")
		all = append(all, s)
	}
	d.start()
	select {
	case <-full:
	case <-time.After(time.Minute):
		t.Error("fewer than 3 run at once")
	}
	<-time.After(50 * time.Millisecond) // several polls: a fourth would have started
	close(release)
	for _, s := range all {
		d.wait(s.ID, core.SessionIdle)
	}
	if most != 3 {
		t.Errorf("%d ran at once, want 3", most)
	}
}

func TestArchive(t *testing.T) {
	d := newDaemon(t, path(t), &engine{do: untilCancelled}, session.Options{})
	addEnvironment(t, d.db, "shop")
	s, _ := d.create(alice, "one")
	d.prompt(s.ID, alice, "two")
	if _, err := d.Archive(t.Context(), s.ID, bob); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Archive(t.Context(), s.ID, bob); err != nil {
		t.Errorf("a second time: %v", err)
	}
	if diff := cmp.Diff([]string{"one removed", "two removed"}, d.states(s.ID)); diff != "" {
		t.Error(diff)
	}
	if _, err := d.Prompt(t.Context(), s.ID, say(alice, "three")); !core.Is(err, core.Conflict) || core.HintOf(err) == "" {
		t.Errorf("prompt in an archived session: %v", err)
	}
	if len(d.states(s.ID)) != 2 {
		t.Error("a refused prompt was stored")
	}
	d.start()
	run, _ := d.create(alice, "one")
	d.wait(run.ID, core.SessionRunning)
	if _, err := d.Archive(t.Context(), run.ID, bob); !core.Is(err, core.Conflict) || !strings.Contains(core.HintOf(err), "stop") {
		t.Errorf("archive of a running session: %v", err)
	}
}

func TestRemovingTheLastPromptLeavesTheSessionIdle(t *testing.T) {
	d := newDaemon(t, path(t), &engine{}, session.Options{})
	addEnvironment(t, d.db, "shop")
	s, p := d.create(alice, "one")
	if _, err := d.RemovePrompt(t.Context(), p.ID, alice); err != nil {
		t.Fatal(err)
	}
	if got := d.get(s.ID); got.State != core.SessionIdle {
		t.Errorf("session is %s", got.State)
	}
}

func TestAJournalOfALostLeaseWritesNothing(t *testing.T) {
	errs := make(chan error, 3)
	proceed := make(chan struct{})
	d := newDaemon(t, path(t), &engine{do: func(ctx context.Context, job session.Job) (session.Ending, error) {
		if err := job.Journal.Started(ctx, "ready"); err != nil {
			return session.Ending{}, err
		}
		<-proceed
		errs <- job.Journal.Append(ctx, core.NewEvent(core.EventAgentText, core.TextData{Text: "late"}))
		_, err := job.Journal.UpdateRun(ctx, func(r *core.Run) error { r.Node = "late"; return nil })
		errs <- err
		_, err = job.Journal.UpdateSession(ctx, func(s *core.Session) error { s.Branch = "late"; return nil })
		errs <- err
		return session.Ending{RunState: core.RunDone, Outcome: "late"}, nil
	}}, session.Options{Heartbeat: time.Hour / 3, Lease: time.Hour})
	addEnvironment(t, d.db, "shop")
	s, _ := d.create(alice, "one")
	d.start()
	d.wait(s.ID, core.SessionRunning)
	if _, err := d.db.Seize(t.Context(), store.LeaseOfSession(s.ID), "another", time.Now(), time.Hour); err != nil {
		t.Fatal(err)
	}
	before := len(d.events(s.ID))
	close(proceed)
	for range 3 {
		if err := <-errs; !errors.Is(err, store.ErrLeaseLost) {
			t.Errorf("a late write: %v", err)
		}
	}
	d.stopRunning()
	if got := d.get(s.ID); got.State != core.SessionRunning || got.Branch != "" || len(d.events(s.ID)) != before {
		t.Errorf("session %+v", got)
	}
	if got := d.states(s.ID); got[0] != "one running" {
		t.Errorf("prompts %v", got)
	}
}
