package session

import (
	"context"
	"encoding/json"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"drydock/internal/control/event"
	"drydock/internal/core"
	"drydock/internal/store"
)

// drawn ends each run as the test drew it.
type drawn struct {
	next   result
	during func(Job) // what people do meanwhile
}

func (d *drawn) Execute(ctx context.Context, job Job) (Ending, error) {
	if d.during != nil {
		d.during(job)
	}
	if err := context.Cause(ctx); err != nil {
		return Ending{}, err
	}
	return d.next.ending, d.next.err
}

func (d *drawn) Kill(_ context.Context, _ core.SessionID) error { return nil }

// machine is a service without its loops: claims and deaths happen when the
// test draws them.
type machine struct {
	service  *Service
	exec     *drawn
	db       *store.DB
	sessions []core.SessionID
}

var people = []core.Author{{Handle: "alice"}, {Handle: "bob"}}

// Die begins a new life over the same store.
func (m *machine) Die(t *rapid.T) {
	service, err := New(Deps{Store: m.db, Log: event.New(m.db, event.Options{}), Executor: m.exec}, Options{Instance: "d"})
	if err != nil {
		t.Fatal(err)
	}
	m.service = service
	if err := service.Recover(context.Background()); err != nil {
		t.Fatal(err)
	}
}

// allow fails on every error but a refusal.
func allow(t *rapid.T, err error) {
	if err != nil && !core.Is(err, core.Conflict) {
		t.Fatal(err)
	}
}

func (m *machine) any(t *rapid.T) core.SessionID {
	if len(m.sessions) == 0 {
		t.Skip("no session")
	}
	return rapid.SampledFrom(m.sessions).Draw(t, "session")
}

func (m *machine) claim(t *rapid.T) func() {
	list, err := m.db.ClaimablePrompts(context.Background(), "d", m.service.busy(), time.Now())
	list = slices.DeleteFunc(list, func(p store.Waiting) bool { return !slices.Contains(m.sessions, p.Session) })
	if err != nil {
		t.Fatal(err)
	}
	if len(list) == 0 {
		t.Skip("nothing to claim")
	}
	work, err := m.service.claim(context.Background(), list[0].ID)
	if err != nil || work == nil {
		t.Fatalf("claim of %s: %v", list[0].ID, err)
	}
	return work
}

// Whatever people, engines and deaths do in whatever order: sessions, prompts,
// runs and the log agree.
func TestSessionsUnderAnyOrderOfEvents(t *testing.T) {
	db, err := store.Open(t.Context(), store.Options{Path: filepath.Join(t.TempDir(), "db")})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	env := core.Environment{ID: core.NewEnvironmentID(), Name: "shop", DefaultBranch: "main", Snapshot: "snp_1"}
	if err := db.CreateEnvironment(t.Context(), env); err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(rt *rapid.T) {
		m := &machine{exec: &drawn{}, db: db}
		m.Die(rt)
		rt.Repeat(rapid.StateMachineActions(m))
		for _, id := range m.sessions { // out of the way of the next case
			_, _ = m.service.Stop(t.Context(), id, people[0], "")
			if _, err := m.service.Archive(t.Context(), id, people[0]); err != nil {
				rt.Fatal(err)
			}
		}
	})
}

func person(t *rapid.T) core.Author { return rapid.SampledFrom(people).Draw(t, "who") }

func (m *machine) Create(t *rapid.T) {
	if len(m.sessions) == 3 {
		t.Skip("enough")
	}
	s, _, err := m.service.Create(t.Context(), core.NewSession{Environment: "shop", Prompt: core.NewPrompt{Author: person(t), Text: "x"}})
	if err != nil {
		t.Fatal(err)
	}
	m.sessions = append(m.sessions, s.ID)
}

func (m *machine) Prompt(t *rapid.T) {
	_, err := m.service.Prompt(t.Context(), m.any(t), core.NewPrompt{Author: person(t), Text: "x"})
	allow(t, err)
}

func (m *machine) Resume(t *rapid.T) {
	_, err := m.service.Resume(t.Context(), m.any(t), core.NewPrompt{Author: person(t)})
	allow(t, err)
}

func (m *machine) anyPrompt(t *rapid.T) core.PromptID {
	list, err := m.db.Prompts(t.Context(), m.any(t))
	if err != nil {
		t.Fatal(err)
	}
	return rapid.SampledFrom(list).Draw(t, "prompt").ID
}

func (m *machine) Remove(t *rapid.T) {
	_, err := m.service.RemovePrompt(t.Context(), m.anyPrompt(t), person(t))
	allow(t, err)
}

func (m *machine) Move(t *rapid.T) {
	_, err := m.service.MovePrompt(t.Context(), m.anyPrompt(t), person(t), rapid.IntRange(0, 4).Draw(t, "place"))
	allow(t, err)
}

func (m *machine) Stop(t *rapid.T) {
	s, err := m.service.Stop(t.Context(), m.any(t), person(t), "why")
	allow(t, err)
	if err == nil && s.State == core.SessionQueued {
		t.Fatal("a stopped session goes on by itself")
	}
}

func (m *machine) Archive(t *rapid.T) {
	_, err := m.service.Archive(t.Context(), m.any(t), person(t))
	allow(t, err)
}

func (m *machine) Wake(t *rapid.T) {
	_, err := m.service.Wake(t.Context(), m.any(t), person(t), "")
	allow(t, err)
}

func (m *machine) Budget(t *rapid.T) {
	money := rapid.SampledFrom([]core.Money{0, 1, 100}).Draw(t, "money")
	_, err := m.service.RaiseBudget(t.Context(), m.any(t), core.Budget{Money: money}, person(t))
	allow(t, err)
}

func (m *machine) Spend(t *rapid.T) {
	_, err := m.service.Spend(t.Context(), Call{Session: m.any(t)}, core.ModelData{Cost: core.Cost{Known: 10}})
	allow(t, err)
}

// Run claims a prompt and ends its run as drawn, after what people do meanwhile.
func (m *machine) Run(t *rapid.T) {
	state := rapid.SampledFrom([]core.RunState{
		core.RunDone, core.RunHandedOver, core.RunFailed, core.RunStopped, core.RunWaiting, core.RunRunning, "",
	}).Draw(t, "ending")
	m.exec.next = result{ending: Ending{RunState: state, Outcome: "said"}}
	if rapid.Bool().Draw(t, "exhausted") {
		m.exec.next.err = core.E("x", core.Exhausted, nil, "spent")
	}
	by := person(t)
	names := rapid.SliceOfN(rapid.SampledFrom([]string{"stop", "prompt", "wake", "raise", "started"}), 0, 3).Draw(t, "meanwhile")
	var session core.SessionID
	var failed error
	m.exec.during = func(job Job) {
		session = job.Session.ID
		for _, name := range names {
			if err := m.meanwhile(name, job, by); err != nil && !core.Is(err, core.Conflict) {
				failed = err
			}
		}
	}
	m.claim(t)()
	if failed != nil {
		t.Fatal(failed)
	}
	stop := slices.Index(names, "stop")
	if session == "" || stop < 0 || slices.Contains(names[stop:], "prompt") {
		return // nobody stopped it, or somebody let it go on
	}
	if got, err := m.db.Session(t.Context(), session); err != nil || got.State != core.SessionIdle {
		t.Fatalf("a session that was stopped is %s (%v)", got.State, err)
	}
}

func (m *machine) meanwhile(name string, job Job, by core.Author) (err error) {
	ctx, id := context.Background(), job.Session.ID
	switch name {
	case "stop":
		_, err = m.service.Stop(ctx, id, by, "why")
	case "prompt":
		_, err = m.service.Prompt(ctx, id, core.NewPrompt{Author: by, Text: "x"})
	case "wake":
		_, err = m.service.Wake(ctx, id, by, "")
	case "raise":
		_, err = m.service.RaiseBudget(ctx, id, core.Budget{}, by)
	case "started":
		err = job.Journal.Started(ctx, "ready")
	}
	return err
}

func (m *machine) ClaimAndDie(t *rapid.T) {
	m.claim(t)
	m.Die(t)
}

// Check looks at every session after every action.
func (m *machine) Check(t *rapid.T) {
	for _, id := range m.sessions {
		m.agree(t, id)
	}
}

// agree checks what must be true of a session at any time.
func (m *machine) agree(t *rapid.T, id core.SessionID) {
	ctx := context.Background()
	s, err := m.db.Session(ctx, id)
	if err != nil {
		t.Fatal(err)
	}
	list, err := m.db.Prompts(ctx, id)
	if err != nil {
		t.Fatal(err)
	}
	var queued int
	var running *core.Prompt
	for i, p := range list {
		switch p.State {
		case core.PromptQueued:
			queued++
		case core.PromptRunning:
			if running != nil {
				t.Fatalf("two prompts run in %s", id)
			}
			running = &list[i]
		}
	}
	runs, err := m.db.Runs(ctx, id)
	if err != nil {
		t.Fatal(err)
	}
	byPrompt := map[core.PromptID]core.Run{}
	for _, r := range runs {
		if _, twice := byPrompt[r.Prompt]; twice {
			t.Fatalf("prompt %s has two runs", r.Prompt)
		}
		byPrompt[r.Prompt] = r
	}
	for _, p := range list {
		want := map[core.PromptState][]core.RunState{
			core.PromptQueued: {""}, core.PromptRemoved: {""}, core.PromptRunning: {core.RunRunning, core.RunWaiting},
			core.PromptDone: {core.RunDone}, core.PromptHandedOver: {core.RunHandedOver}, core.PromptFailed: {core.RunFailed}, core.PromptStopped: {core.RunStopped},
		}[p.State]
		if !slices.Contains(want, byPrompt[p.ID].State) {
			t.Fatalf("prompt is %s, its run %q", p.State, byPrompt[p.ID].State)
		}
	}
	ok := true
	switch s.State {
	case core.SessionArchived:
		ok = queued == 0 && running == nil && !s.Held
	case core.SessionQueued:
		ok = !s.Held && (queued > 0 || running != nil)
	case core.SessionStarting, core.SessionRunning, core.SessionStopping:
		ok = running != nil && byPrompt[running.ID].State != core.RunWaiting
	case core.SessionWaiting:
		ok = running != nil && byPrompt[running.ID].State == core.RunWaiting && (s.Wait == waitBudget || s.Wait == waitPerson)
	case core.SessionIdle, core.SessionFailed:
		ok = running == nil && (queued > 0) == s.Held
	}
	if !ok {
		t.Fatalf("session is %s (held %v, wait %q), %d prompts wait, running %v", s.State, s.Held, s.Wait, queued, running)
	}
	m.replay(t, s, list)
}

// replay follows the log: it must lead to what is stored, along the tables.
func (m *machine) replay(t *rapid.T, s core.Session, list []core.Prompt) {
	events, err := m.db.Events(context.Background(), string(s.ID), 0, 10_000)
	if err != nil {
		t.Fatal(err)
	}
	state, reason := core.SessionState(""), ""
	prompts := map[core.PromptID]core.PromptState{}
	for i, e := range events {
		if e.Seq != int64(i+1) {
			t.Fatalf("event %d has number %d", i+1, e.Seq)
		}
		switch e.Kind {
		case core.EventSessionCreated, core.EventSessionState:
			var d core.StateData
			if err := json.Unmarshal(e.Data, &d); err != nil {
				t.Fatal(err)
			}
			if core.SessionState(d.From) != state || (state != "" && !core.SessionTable.Allows(state, core.SessionState(d.To))) {
				t.Fatalf("event %d goes from %s to %s, the session was %s", e.Seq, d.From, d.To, state)
			}
			state, reason = core.SessionState(d.To), d.Reason
		case core.EventPromptQueued, core.EventPromptState:
			var d core.PromptData
			if err := json.Unmarshal(e.Data, &d); err != nil {
				t.Fatal(err)
			}
			if was, known := prompts[d.Prompt]; known && !core.PromptTable.Allows(was, d.State) {
				t.Fatalf("event %d: prompt from %s to %s", e.Seq, was, d.State)
			}
			prompts[d.Prompt] = d.State
		}
	}
	if state != s.State || reason != s.Reason {
		t.Fatalf("the log says %s (%s), the store %s (%s)", state, reason, s.State, s.Reason)
	}
	for _, p := range list {
		if prompts[p.ID] != p.State {
			t.Fatalf("the log says prompt %s, the store %s", prompts[p.ID], p.State)
		}
	}
}
