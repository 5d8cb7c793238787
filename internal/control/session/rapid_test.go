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

func (m *machine) restart(t *rapid.T) {
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
	list, err := m.db.ClaimablePrompts(context.Background(), "d", m.service.busy(), time.Now(), 100)
	list = slices.DeleteFunc(list, func(p core.Prompt) bool { return !slices.Contains(m.sessions, p.Session) })
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
		ctx := context.Background()
		m := &machine{exec: &drawn{}, db: db}
		m.restart(rt)
		person := func(t *rapid.T) core.Author { return rapid.SampledFrom(people).Draw(t, "who") }
		rt.Repeat(map[string]func(*rapid.T){
			"create": func(t *rapid.T) {
				if len(m.sessions) == 3 {
					t.Skip("enough")
				}
				s, _, err := m.service.Create(ctx, core.NewSession{Environment: "shop", Prompt: core.NewPrompt{Author: person(t), Text: "x"}})
				if err != nil {
					t.Fatal(err)
				}
				m.sessions = append(m.sessions, s.ID)
			},
			"prompt": func(t *rapid.T) {
				_, err := m.service.Prompt(ctx, m.any(t), core.NewPrompt{Author: person(t), Text: "x"})
				allow(t, err)
			},
			"resume": func(t *rapid.T) {
				_, err := m.service.Resume(ctx, m.any(t), core.NewPrompt{Author: person(t)})
				allow(t, err)
			},
			"remove": func(t *rapid.T) {
				list, err := db.Prompts(ctx, m.any(t))
				if err != nil {
					t.Fatal(err)
				}
				_, err = m.service.RemovePrompt(ctx, rapid.SampledFrom(list).Draw(t, "prompt").ID, person(t))
				allow(t, err)
			},
			"move": func(t *rapid.T) {
				list, err := db.Prompts(ctx, m.any(t))
				if err != nil {
					t.Fatal(err)
				}
				_, err = m.service.MovePrompt(ctx, rapid.SampledFrom(list).Draw(t, "prompt").ID, person(t), rapid.IntRange(0, 4).Draw(t, "place"))
				allow(t, err)
			},
			"stop": func(t *rapid.T) {
				s, err := m.service.Stop(ctx, m.any(t), person(t), "why")
				allow(t, err)
				if err == nil && s.State == core.SessionQueued {
					t.Fatal("a stopped session goes on by itself")
				}
			},
			"archive": func(t *rapid.T) { _, err := m.service.Archive(ctx, m.any(t), person(t)); allow(t, err) },
			"wake":    func(t *rapid.T) { _, err := m.service.Wake(ctx, m.any(t), person(t), ""); allow(t, err) },
			"budget": func(t *rapid.T) {
				money := rapid.SampledFrom([]core.Money{0, 1, 100}).Draw(t, "money")
				_, err := m.service.RaiseBudget(ctx, m.any(t), core.Budget{Money: money}, person(t))
				allow(t, err)
			},
			"spend": func(t *rapid.T) {
				_, err := m.service.Spend(ctx, Call{Session: m.any(t)}, core.ModelData{Cost: core.Cost{Known: 10}})
				allow(t, err)
			},
			"run": func(t *rapid.T) {
				state := rapid.SampledFrom([]core.RunState{
					core.RunDone, core.RunHandedOver, core.RunFailed, core.RunStopped, core.RunWaiting, core.RunRunning, "",
				}).Draw(t, "ending")
				m.exec.next = result{ending: Ending{RunState: state, Outcome: "said"}}
				if rapid.Bool().Draw(t, "exhausted") {
					m.exec.next.err = core.E("x", core.Exhausted, nil, "spent")
				}
				by := person(t)
				meanwhile := map[string]func(core.SessionID) error{
					"nothing": func(core.SessionID) error { return nil },
					"stop": func(id core.SessionID) error {
						_, err := m.service.Stop(ctx, id, by, "why")
						return err
					},
					"prompt": func(id core.SessionID) error {
						_, err := m.service.Prompt(ctx, id, core.NewPrompt{Author: by, Text: "x"})
						return err
					},
					"wake": func(id core.SessionID) error {
						_, err := m.service.Wake(ctx, id, by, "")
						return err
					},
					"raise": func(id core.SessionID) error {
						_, err := m.service.RaiseBudget(ctx, id, core.Budget{}, by)
						return err
					},
					"started": nil,
				}
				names := rapid.SliceOfN(rapid.SampledFrom([]string{"nothing", "stop", "prompt", "wake", "raise", "started"}), 0, 3).Draw(t, "meanwhile")
				var session core.SessionID
				var failed error
				m.exec.during = func(job Job) {
					session = job.Session.ID
					for _, name := range names {
						err := job.Journal.Started(ctx, "ready")
						if name != "started" {
							err = meanwhile[name](session)
						}
						if err != nil && !core.Is(err, core.Conflict) {
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
				if got, err := db.Session(ctx, session); err != nil || got.State != core.SessionIdle {
					t.Fatalf("a session that was stopped is %s (%v)", got.State, err)
				}
			},
			"claim and die": func(t *rapid.T) {
				m.claim(t)
				m.restart(t)
			},
			"die": m.restart,
			"": func(t *rapid.T) {
				for _, id := range m.sessions {
					m.agree(t, id)
				}
			},
		})
		for _, id := range m.sessions { // out of the way of the next case
			_, _ = m.service.Stop(ctx, id, people[0], "")
			if _, err := m.service.Archive(ctx, id, people[0]); err != nil {
				rt.Fatal(err)
			}
		}
	})
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
