package selection

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"drydock/internal/control/event"
	"drydock/internal/control/session"
	"drydock/internal/core"
	"drydock/internal/delivery/forge"
	"drydock/internal/store"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var (
	ana = core.Author{Handle: "ana", Name: "Ana", Email: "ana@example.com"}
	ben = core.Author{Handle: "ben", Name: "Ben", Email: "ben@example.com"}
)

// work is what a candidate of a seed comes to.
type work struct {
	verdict string // "" hangs until it is stopped
	lines   int
	cost    core.Money
}

// engine plays work by seed; a second prompt of a session is proven.
type engine struct{ plan map[int64]work }

func (e engine) Execute(ctx context.Context, job session.Job) (session.Ending, error) {
	if err := job.Journal.Started(ctx, ""); err != nil {
		return session.Ending{}, err
	}
	w := e.plan[job.Session.Seed]
	if job.Prompt.Text == "again" {
		w.verdict = "proven"
	}
	if w.verdict == "" {
		<-ctx.Done()
		return session.Ending{}, context.Cause(ctx)
	}
	end := session.Ending{RunState: core.RunDone, Verdict: w.verdict}
	err := job.Journal.Tx(ctx, func(tx *store.Tx) error {
		events := []core.Event{
			core.NewEvent(core.EventCommit, core.CommitData{Files: 1, Added: w.lines}),
			core.NewEvent(core.EventVerdict, core.VerdictData{Verdict: w.verdict, Reasons: []string{"because of " + w.verdict}, Fixed: 1}),
		}
		if w.verdict == "handed_over" {
			end.RunState, end.Failure = core.RunHandedOver, &core.Failure{Code: "gave_up", Message: "no printer"}
			return job.Journal.AppendTx(ctx, tx, events[1:]...)
		}
		c, _, err := tx.CreateChange(ctx, string(job.Run.ID), core.Change{
			ID: core.NewChangeID(), Repository: "shop", Session: job.Session.ID, State: core.ChangeOpen, Verdict: w.verdict, Branch: string(job.Session.ID),
		})
		if err != nil {
			return err
		}
		end.Change = c.ID
		if _, err := tx.UpdateSession(ctx, job.Session.ID, func(s *core.Session) error { s.Cost.Known += w.cost; return nil }); err != nil {
			return err
		}
		return job.Journal.AppendTx(ctx, tx, events...)
	})
	return end, err
}

func (engine) Kill(context.Context, core.SessionID) error { return nil }

// changes is a forge of rows. From the call number fail on it is dead; with
// late, that call still does its work.
type changes struct {
	*store.DB
	mu    sync.Mutex
	calls int
	fail  int
	late  bool
}

func (c *changes) call(do func() error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.calls++
	if c.fail > 0 && c.calls >= c.fail {
		if c.late && c.calls == c.fail {
			_ = do()
		}
		return core.E("test", core.Unavailable, nil, "killed here")
	}
	return do()
}

func (c *changes) Get(ctx context.Context, ref string) (out core.Change, err error) {
	err = c.call(func() error { out, err = c.Change(ctx, core.ChangeID(ref)); return err })
	return out, err
}

func (c *changes) List(ctx context.Context, f core.ChangeFilter, p core.Page) ([]core.Change, string, error) {
	return c.Changes(ctx, f, p)
}

func (c *changes) Comment(ctx context.Context, v forge.NewComment) (out core.Comment, err error) {
	err = c.call(func() error {
		out, _, err = c.CreateComment(ctx, v.Key, core.Comment{ID: core.NewCommentID(), Change: v.Change, Author: v.Author, Body: v.Body})
		return err
	})
	return out, err
}

func (c *changes) Close(ctx context.Context, id core.ChangeID, _ core.Author) (out core.Change, err error) {
	err = c.call(func() error {
		out, err = c.UpdateChange(ctx, id, func(v *core.Change) error { v.State = core.ChangeClosed; return nil })
		return err
	})
	return out, err
}

type world struct {
	*testing.T
	db       *store.DB
	log      *event.Log
	sessions *session.Service
	changes  *changes
	svc      *Service
}

func newWorld(t *testing.T, plan map[int64]work) *world {
	t.Helper()
	db, err := store.Open(t.Context(), store.Options{Path: filepath.Join(t.TempDir(), "db")})
	if err != nil {
		t.Fatal(err)
	}
	w := &world{T: t, db: db, log: event.New(db, event.Options{}), changes: &changes{DB: db}}
	env := core.Environment{ID: core.NewEnvironmentID(), Name: "shop", Source: "/srv/shop", DefaultBranch: "main", Snapshot: core.NewSnapshotID()}
	if err := db.CreateEnvironment(t.Context(), env); err != nil {
		t.Fatal(err)
	}
	w.sessions, err = session.New(session.Deps{Store: db, Log: w.log, Executor: engine{plan}}, session.Options{MaxRunning: 10, Poll: 20 * time.Millisecond, Model: "usual"})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); _ = w.sessions.Run(ctx) }()
	t.Cleanup(func() { stop(); <-done; w.log.Close(); _ = db.Close() })
	w.live()
	return w
}

// live is a new life of the service.
func (w *world) live() {
	w.svc = New(Deps{
		Store: w.db, Log: w.log, Sessions: w.sessions, Changes: w.changes, Seeded: func(m string) bool { return m != "odd" },
		Known: func(m string) error {
			if m == "none" {
				return core.E("test", core.Invalid, nil, "nobody has it")
			}
			return nil
		},
		Start: func(context.Context, core.Environment, string) (string, string, error) { return "main", "c0ffee", nil },
	}, Options{})
}

func ask(n int, rule core.SelectionRule) core.NewSelection {
	return core.NewSelection{
		NewSession: core.NewSession{Environment: "shop", Prompt: core.NewPrompt{Author: ana, Text: "fix it"}}, Sessions: n, Rule: rule,
	}
}

func (w *world) create(n int, rule core.SelectionRule) core.Selection {
	w.Helper()
	sel, err := w.svc.Create(w.Context(), ask(n, rule))
	if err != nil {
		w.Fatal(err)
	}
	return sel
}

// until steps until a selection satisfies.
func (w *world) until(id core.SelectionID, is func(core.Selection) bool) (core.Selection, []core.Candidate) {
	w.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(20 * time.Second); ; <-tick.C {
		w.svc.Step(w.Context())
		sel, list, err := w.svc.Compare(w.Context(), id)
		if err != nil {
			w.Fatal(err)
		}
		if is(sel) {
			return sel, list
		}
		if time.Now().After(deadline) {
			w.Fatalf("%+v\n%+v", sel, list)
		}
	}
}

func in(states ...core.SelectionState) func(core.Selection) bool {
	return func(s core.Selection) bool { return slices.Contains(states, s.State) }
}

func seeds(list []core.Candidate) (out []int64) {
	for _, c := range list {
		out = append(out, c.Seed)
	}
	return out
}

// aside checks that all but the picked one are archived, their changes closed
// with one comment that names it.
func (w *world) aside(sel core.Selection, list []core.Candidate) {
	w.Helper()
	for _, c := range list {
		s, err := w.db.Session(w.Context(), c.Session)
		if err != nil {
			w.Fatal(err)
		}
		if c.Picked {
			if c.Session != sel.Picked || s.State == core.SessionArchived || c.Standing == core.ChangeClosed {
				w.Errorf("picked: %+v, session %s", c, s.State)
			}
			continue
		}
		if s.State != core.SessionArchived || c.Standing == core.ChangeOpen {
			w.Errorf("passed over: %+v, session %s (%s)", c, s.State, s.Reason)
		}
		e, err := w.db.LastEventOfKind(w.Context(), string(c.Session), core.EventSelection)
		if err != nil || !strings.Contains(string(e.Data), "passed_over") {
			w.Errorf("its log does not tell: %s %v", e.Data, err)
		}
		if c.Change == "" {
			continue
		}
		comments, err := w.db.Comments(w.Context(), c.Change)
		if err != nil || len(comments) != 1 || !strings.Contains(comments[0].Body, string(sel.Picked)) {
			w.Errorf("comments %+v %v", comments, err)
		}
	}
}

func TestAllStartAlike(t *testing.T) {
	w := newWorld(t, nil)
	req := ask(3, "")
	req.Models, req.Budget, req.Prompt.ClientID = []string{"one", "odd"}, core.Budget{Money: 3_000_001, WallClock: time.Hour}, "c1"
	sel, err := w.svc.Create(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := w.svc.Create(t.Context(), req); err != nil || again.ID != sel.ID {
		t.Errorf("a retry made %+v %v", again, err)
	}
	list, err := w.db.SessionsOfSelection(t.Context(), sel.ID)
	if err != nil || len(list) != 3 || sel.Rule != core.PickPerson || sel.Title != "fix it" {
		t.Fatalf("%+v %+v %v", sel, list, err)
	}
	for i, s := range list {
		if s.Seed != int64(i+1) || s.Model != []string{"one", "odd", "one"}[i] || s.BaseCommit != "c0ffee" || s.Snapshot != sel.Snapshot || s.Snapshot == "" ||
			s.Budget.Money != 1_000_000 || s.Budget.WallClock != time.Hour || s.Owner != ana {
			t.Errorf("session %+v", s)
		}
		_, err := w.db.LastEventOfKind(t.Context(), string(s.ID), core.EventWarning)
		if odd := s.Model == "odd"; odd != (err == nil) {
			t.Errorf("model %s: warned of its seed %v", s.Model, err)
		}
	}
	for name, change := range map[string]func(*core.NewSelection){
		"one session":   func(r *core.NewSelection) { r.Sessions = 1 },
		"many sessions": func(r *core.NewSelection) { r.Sessions = 11 },
		"many models":   func(r *core.NewSelection) { r.Models = []string{"a", "b", "c"} },
		"no model":      func(r *core.NewSelection) { r.Models = []string{"one", "none"} },
		"odd model":     func(r *core.NewSelection) { r.Models = []string{"a\nb"} },
		"no rule":       func(r *core.NewSelection) { r.Rule = "prettiest" },
		"small budget":  func(r *core.NewSelection) { r.Budget.Money = 1 },
		"no text":       func(r *core.NewSelection) { r.Prompt.Text = "" },
	} {
		bad := ask(2, "")
		change(&bad)
		if _, err := w.svc.Create(t.Context(), bad); !core.Is(err, core.Invalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	bad := ask(2, "")
	bad.Environment = "none"
	if _, err := w.svc.Create(t.Context(), bad); !core.Is(err, core.NotFound) || core.HintOf(err) == "" {
		t.Errorf("no environment: %v", err)
	}
	if all, _, err := w.db.Sessions(t.Context(), core.SessionFilter{}, core.Page{}); err != nil || len(all) != 3 {
		t.Errorf("%d sessions are there: %v", len(all), err)
	}
}

func TestRulesPickAProvenOne(t *testing.T) {
	plan := map[int64]work{
		1: {"proven", 50, 100}, 2: {"unproven", 1, 1}, 3: {"proven", 5, 900}, 4: {"handed_over", 0, 0}, 5: {"broken", 2, 2},
	}
	for rule, want := range map[core.SelectionRule][]int64{
		core.PickSmallest: {3, 1, 2, 5, 4}, core.PickCheapest: {1, 3, 2, 5, 4},
	} {
		t.Run(string(rule), func(t *testing.T) {
			w := newWorld(t, plan)
			sel, list := w.until(w.create(5, rule).ID, in(core.SelectionPicked))
			if got := seeds(list); !slices.Equal(got, want) || list[0].Session != sel.Picked || sel.PickedBy != "platform" || !strings.Contains(sel.Reason, "of 2 proven") {
				t.Errorf("order %v, want %v; %+v", got, want, sel)
			}
			if list[4].Reasons[0] != "no printer" || list[2].Reasons[0] != "because of unproven" || list[0].Fixed != 1 {
				t.Errorf("reasons %+v", list)
			}
			w.aside(sel, list)
		})
	}
}

func TestTheFirstProvenStopsTheOthers(t *testing.T) {
	w := newWorld(t, map[int64]work{2: {verdict: "proven"}}) // the others never end
	sel, list := w.until(w.create(3, core.PickFirstProven).ID, in(core.SelectionPicked))
	if list[0].Seed != 2 || list[0].Session != sel.Picked {
		t.Errorf("%+v %+v", sel, list)
	}
	w.aside(sel, list)
	for _, c := range list[1:] {
		if len(c.Reasons) == 0 || !strings.Contains(c.Reasons[0], string(sel.ID)) {
			t.Errorf("the table does not say why it was stopped: %+v", c)
		}
		if runs, err := w.db.Runs(t.Context(), c.Session); err != nil || len(runs) > 0 && runs[0].State != core.RunStopped {
			t.Errorf("runs %+v %v", runs, err)
		}
	}
}

func TestAPersonPicks(t *testing.T) {
	w := newWorld(t, map[int64]work{1: {verdict: "proven"}, 2: {verdict: "unproven"}})
	sel, list := w.until(w.create(2, core.PickPerson).ID, in(core.SelectionWaiting))
	if !strings.Contains(sel.Reason, "a person has to pick: 1 of 2") {
		t.Errorf("reason %q", sel.Reason)
	}
	undecided, err := w.svc.Undecided(t.Context())
	if err != nil || undecided[list[0].Session] != sel.ID || len(undecided) != 2 {
		t.Errorf("candidates %v %v", undecided, err)
	}
	if _, err := w.svc.Pick(t.Context(), sel.ID, core.NewSessionID(), ben); !core.Is(err, core.NotFound) {
		t.Errorf("a session of nobody: %v", err)
	}
	for range 2 { // a person may pick what no rule would
		if sel, err = w.svc.Pick(t.Context(), sel.ID, list[1].Session, ben); err != nil || sel.PickedBy != "ben" {
			t.Fatal(sel, err)
		}
	}
	if _, err := w.svc.Pick(t.Context(), sel.ID, list[0].Session, ana); !core.Is(err, core.Conflict) || core.HintOf(err) == "" {
		t.Errorf("a second pick: %v", err)
	}
	late, err := w.db.Change(t.Context(), list[0].Change)
	if err != nil || !core.Is(w.svc.MayMerge(t.Context(), late), core.Conflict) {
		t.Errorf("what is being put aside may be merged: %v", err)
	}
	sel, list = w.until(sel.ID, in(core.SelectionPicked))
	w.aside(sel, list)
	for _, c := range list {
		if a, err := w.db.ChangeApprovals(t.Context(), c.Change); err != nil || len(a) > 0 {
			t.Errorf("a pick approved: %+v %v", a, err)
		}
	}
}

func TestNoneIsProven(t *testing.T) {
	w := newWorld(t, map[int64]work{1: {verdict: "handed_over"}, 2: {verdict: "unproven"}})
	sel, list := w.until(w.create(2, core.PickSmallest).ID, in(core.SelectionWaiting))
	if !strings.Contains(sel.Reason, "none of 2") || sel.Picked != "" {
		t.Errorf("%+v", sel)
	}
	// A person helps one of them, and the rule holds again.
	if _, err := w.sessions.Prompt(t.Context(), list[1].Session, core.NewPrompt{Author: ben, Text: "again"}); err != nil {
		t.Fatal(err)
	}
	sel, list = w.until(sel.ID, in(core.SelectionPicked))
	if sel.Picked != list[0].Session || list[0].Seed != 1 {
		t.Errorf("%+v %+v", sel, list)
	}
	w.aside(sel, list)
}

func TestAMergePicks(t *testing.T) {
	w := newWorld(t, map[int64]work{1: {verdict: "proven"}, 2: {verdict: "proven"}})
	sel, list := w.until(w.create(2, core.PickPerson).ID, in(core.SelectionWaiting))
	c, err := w.db.UpdateChange(t.Context(), list[1].Change, func(c *core.Change) error { c.State = core.ChangeMerged; return nil })
	if err != nil {
		t.Fatal(err)
	}
	w.svc.Step(t.Context()) // nobody has told yet by whom
	if now, _ := w.svc.Get(t.Context(), sel.ID); now.State.Decided() {
		t.Errorf("picked before it is known by whom: %+v", now)
	}
	if _, err := w.svc.Pick(t.Context(), sel.ID, list[0].Session, ana); !core.Is(err, core.Conflict) {
		t.Errorf("another one is picked beside a merged one: %v", err)
	}
	// Killed before Merged was called: the session's log tells.
	e := core.NewEvent(core.EventChange, core.ChangeData{Change: c.ID, Action: "merged", By: "ben"})
	if _, err := w.log.Append(t.Context(), string(c.Session), e); err != nil {
		t.Fatal(err)
	}
	sel, list = w.until(sel.ID, in(core.SelectionPicked))
	if sel.Picked != c.Session || sel.PickedBy != "ben" || !strings.Contains(sel.Reason, "merged by ben") {
		t.Errorf("%+v", sel)
	}
	w.aside(sel, list)
	if err := w.svc.Merged(t.Context(), c, ben); err != nil {
		t.Errorf("told again: %v", err)
	}
}

// TestKilledAnywhere ends the service at each of its calls to the forge, before
// and after it had its effect, and goes on with a new one.
func TestKilledAnywhere(t *testing.T) {
	for _, late := range []bool{false, true} {
		for at := 1; ; at++ {
			over := false
			t.Run(fmt.Sprintf("call %d, late %v", at, late), func(t *testing.T) {
				w := newWorld(t, map[int64]work{1: {verdict: "proven"}, 2: {"proven", 1, 1}, 3: {verdict: "unproven"}})
				w.changes.fail, w.changes.late = at, late
				sel := w.create(3, core.PickSmallest)
				sel, _ = w.until(sel.ID, func(s core.Selection) bool {
					w.changes.mu.Lock()
					defer w.changes.mu.Unlock()
					return w.changes.calls >= at || s.State == core.SelectionPicked
				})
				over = sel.State == core.SelectionPicked
				if !over && sel.State != core.SelectionPicking {
					t.Errorf("the forge was touched before the pick was stored: %+v", sel)
				}
				w.changes.fail = 0
				w.live()
				sel, list := w.until(sel.ID, in(core.SelectionPicked))
				if list[0].Seed != 1 || sel.Picked != list[0].Session {
					t.Errorf("%+v %+v", sel, list)
				}
				w.aside(sel, list)
			})
			if over || t.Failed() {
				break
			}
		}
	}
}
