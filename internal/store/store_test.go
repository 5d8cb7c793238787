package store_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"drydock/internal/core"
	"drydock/internal/store"
)

var alice = core.Author{Handle: "alice", Name: "Alice", Email: "alice@example.com"}

func open(t testing.TB) *store.DB {
	t.Helper()
	return openAt(t, filepath.Join(t.TempDir(), "drydock.db"))
}

func openAt(t testing.TB, path string) *store.DB {
	t.Helper()
	db, err := store.Open(t.Context(), store.Options{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return db
}

func addEnvironment(t testing.TB, db *store.DB, name string) core.Environment {
	t.Helper()
	at := time.Now().UTC()
	e := core.Environment{
		ID: core.NewEnvironmentID(), Name: name, Source: "/srv/" + name, DefaultBranch: "main", Snapshot: core.NewSnapshotID(), Created: at, Updated: at,
	}
	if err := db.CreateEnvironment(t.Context(), e); err != nil {
		t.Fatal(err)
	}
	return e
}

func addSession(t testing.TB, db *store.DB, env core.EnvironmentID) core.Session {
	t.Helper()
	at := time.Now().UTC()
	s := core.Session{
		ID: core.NewSessionID(), Environment: env, Title: "do it", State: core.SessionQueued, Owner: alice, Blueprint: "code-change",
		Agent: "builtin", Model: "m", Base: "main", Budget: core.Budget{WallClock: time.Hour, Money: 5}, Created: at, Updated: at,
	}
	if err := db.CreateSession(t.Context(), s, ""); err != nil {
		t.Fatal(err)
	}
	return s
}

func addPrompt(t testing.TB, db *store.DB, session core.SessionID, text string) core.Prompt {
	t.Helper()
	p, added, err := db.AddPrompt(t.Context(), core.Prompt{
		ID: core.NewPromptID(), Session: session, Author: alice, Text: text, Source: "cli", State: core.PromptQueued, Created: time.Now().UTC(),
	})
	if err != nil || !added {
		t.Fatalf("added %v, error %v", added, err)
	}
	return p
}

// Every record comes back as it was written.
func TestRecordsRoundTrip(t *testing.T) {
	db, ctx := open(t), t.Context()
	at := time.Now().UTC()
	env := addEnvironment(t, db, "shop")
	session := addSession(t, db, env.ID)
	prompt := addPrompt(t, db, session.ID, "x")
	failure := &core.Failure{Code: "setup_failed", Message: "no", Command: "npm ci", Output: "tail", Hint: "h"}

	check := func(name string, want, got any, err error) {
		t.Helper()
		if err != nil {
			t.Errorf("%s: %v", name, err)
		} else if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%s:\n%s", name, d)
		}
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}

	gotEnv, err := db.Environment(ctx, "shop")
	check("environment", env, gotEnv, err)
	gotSession, err := db.Session(ctx, session.ID)
	check("session", session, gotSession, err)
	gotPrompt, err := db.Prompt(ctx, prompt.ID)
	check("prompt", prompt, gotPrompt, err)

	must(db.PutUser(ctx, alice))
	must(db.PutUser(ctx, core.Author{Handle: "alice", Name: "Alice B", Email: "b@example.com"}))
	user, err := db.User(ctx, "alice")
	check("user", core.Author{Handle: "alice", Name: "Alice B", Email: "b@example.com"}, user, err)

	token := store.Token{ID: core.NewTokenID(), Hash: store.HashToken("secret"), User: "alice", Label: "laptop", Created: at}
	must(db.CreateToken(ctx, token))
	gotToken, err := db.TokenByHash(ctx, store.HashToken("secret"))
	check("token", token, gotToken, err)

	build := core.Build{
		ID: core.NewBuildID(), Environment: env.ID, Commit: "abc", State: core.BuildRunning, Failure: failure,
		Phases: []core.Phase{{Name: "setup", Duration: time.Second, Cached: true}}, Created: at,
	}
	must(db.CreateBuild(ctx, build))
	gotBuild, err := db.Build(ctx, build.ID)
	check("build", build, gotBuild, err)

	snapshot := core.Snapshot{ID: core.NewSnapshotID(), Environment: env.ID, State: core.SnapshotWriting, Bytes: 1 << 40, Memory: true, Created: at}
	must(db.CreateSnapshot(ctx, snapshot))
	gotSnapshot, err := db.Snapshot(ctx, snapshot.ID)
	check("snapshot", snapshot, gotSnapshot, err)

	sandbox := store.Sandbox{
		ID: core.NewSandboxID(), Purpose: "session", Owner: string(session.ID), State: core.SandboxCreating,
		Handle: json.RawMessage(`{"driver":"fake"}`), Created: at, Updated: at,
	}
	must(db.CreateSandbox(ctx, sandbox))
	gotSandbox, err := db.Sandbox(ctx, sandbox.ID)
	check("sandbox", sandbox, gotSandbox, err)

	run := core.Run{
		ID: core.NewRunID(), Session: session.ID, Prompt: prompt.ID, Blueprint: "code-change", State: core.RunRunning, Node: "a",
		Data: json.RawMessage(`{"k":1}`), Failure: failure, Created: at,
	}
	must(db.CreateRun(ctx, run))
	gotRun, err := db.Run(ctx, run.ID)
	check("run", run, gotRun, err)

	attempt := core.Attempt{ID: core.NewAttemptID(), Run: run.ID, Node: "a", State: core.AttemptRunning, Detail: json.RawMessage(`[1]`), Started: at}
	attempt, err = db.CreateAttempt(ctx, attempt)
	must(err)
	gotAttempt, err := db.Attempt(ctx, attempt.ID)
	check("attempt", attempt, gotAttempt, err)

	change := core.Change{
		ID: core.NewChangeID(), Repository: "shop", Session: session.ID, Title: "t", Body: "b", State: core.ChangeOpen, Base: "main", Branch: "w",
		BaseCommit: "a", Head: "h", Authors: []core.Author{alice}, Verdict: "proven", Created: at, Updated: at,
	}
	change, _, err = db.CreateChange(ctx, "k", change)
	must(err)
	gotChange, err := db.ChangeByNumber(ctx, "shop", 1)
	check("change", change, gotChange, err)

	comment := core.Comment{ID: core.NewCommentID(), Change: change.ID, Author: alice, Body: "b", Path: "p", Line: 3, Created: at}
	_, _, err = db.CreateComment(ctx, "", comment)
	must(err)
	gotComment, err := db.Comment(ctx, comment.ID)
	check("comment", comment, gotComment, err)

	approval := store.Approval{
		ID: core.NewApprovalID(), Session: session.ID, Kind: "scope", Question: "may it?", State: core.ApprovalPending,
		Detail: json.RawMessage(`{}`), Deadline: at, Created: at,
	}
	must(db.CreateApproval(ctx, approval))
	gotApproval, err := db.Approval(ctx, approval.ID)
	check("approval", approval, gotApproval, err)

	call := store.ModelCall{
		Session: session.ID, Provider: "p", Model: "m", Scripted: true, Outcome: "end_turn", Usage: core.Usage{Input: 1, CacheRead: 2, CacheWrite: 3, Output: 4, Calls: 1},
		Cost: core.Cost{Known: 7, Unknown: true}, Retries: 1, Duration: time.Second, Created: at,
	}
	must(db.AddModelCall(ctx, call))
	calls, err := db.ModelCalls(ctx, session.ID)
	check("model call", []store.ModelCall{call}, calls, err)
	usage, err := db.UsageSince(ctx, at.Add(-time.Hour))
	check("usage", []store.UsageRow{{
		Owner: "alice", Provider: "p", Model: "m", Scripted: true, Outcome: "end_turn", Usage: call.Usage, Cost: call.Cost,
	}}, usage, err)

	must(db.PutCell(ctx, "key", json.RawMessage(`{"a":1}`)))
	must(db.PutCell(ctx, "key", json.RawMessage(`{"a":2}`)))
	cell, err := db.Cell(ctx, "key")
	check("cell", `{"a":2}`, string(cell.Result), err)

	history := []store.CaseResult{{Repository: "shop", Check: "test", Case: "c", Commit: "a", Cell: "B", Status: "pass", Time: at}}
	must(db.AddCaseResults(ctx, history))
	gotHistory, err := db.CaseHistory(ctx, "shop", "test", "c", 10)
	check("case history", history, gotHistory, err)

	must(db.AppendTranscript(ctx, run.ID, "a", json.RawMessage(`{"n":1}`)))
	must(db.AppendTranscript(ctx, run.ID, "a", json.RawMessage(`{"n":2}`)))
	transcript, err := db.Transcript(ctx, run.ID, "a")
	check("transcript", []json.RawMessage{json.RawMessage(`{"n":1}`), json.RawMessage(`{"n":2}`)}, transcript, err)

	evidence := store.Evidence{ID: core.NewEvidenceID(), Session: session.ID, Verdict: "proven", Digest: "sha256:x", Created: at}
	must(db.CreateEvidence(ctx, evidence))
	gotEvidence, err := db.Evidence(ctx, evidence.ID)
	check("evidence", evidence, gotEvidence, err)

	repo := store.Repository{Name: "shop", Environment: env.ID, DefaultBranch: "main", Created: at, Updated: at}
	must(db.CreateRepository(ctx, repo))
	gotRepo, err := db.Repository(ctx, "shop")
	check("repository", repo, gotRepo, err)
}

func TestErrorsNameTheObject(t *testing.T) {
	db, ctx := open(t), t.Context()
	env := addEnvironment(t, db, "shop")
	session := addSession(t, db, env.ID)

	_, err := db.Session(ctx, "ses_none")
	if !core.Is(err, core.NotFound) || err.Error() != "session ses_none does not exist" {
		t.Errorf("missing session: %v", err)
	}
	if err := db.CreateSession(ctx, session, ""); !core.Is(err, core.Conflict) || !strings.Contains(err.Error(), string(session.ID)) {
		t.Errorf("second session of one id: %v", err)
	}
	if err := db.CreateEnvironment(ctx, core.Environment{ID: core.NewEnvironmentID(), Name: "shop"}); !core.Is(err, core.Conflict) {
		t.Errorf("second environment of one name: %v", err)
	}
	orphan := session
	orphan.ID, orphan.Environment = core.NewSessionID(), "env_none"
	if err := db.CreateSession(ctx, orphan, ""); !core.Is(err, core.NotFound) {
		t.Errorf("session of no environment: %v", err)
	}
	_, err = db.UpdateSession(ctx, session.ID, func(s *core.Session) error { s.State = core.SessionWaiting; return nil })
	if want := fmt.Sprintf("session %s is queued and cannot become waiting", session.ID); !core.Is(err, core.Conflict) || err.Error() != want {
		t.Errorf("edge that is not in the table: %v", err)
	}
	if got, _ := db.Session(ctx, session.ID); got.State != core.SessionQueued {
		t.Errorf("a refused change left state %s", got.State)
	}
	gone, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := db.Session(gone, session.ID); !core.Is(err, core.Canceled) {
		t.Errorf("cancelled read: %v", err)
	}
}

// walk tries every pair of states and expects the store to agree with the table.
func walk[S ~string](t *testing.T, noun string, table core.Table[S], try func(from, to S) error) {
	t.Helper()
	for _, from := range table.States() {
		for _, to := range table.States() {
			err := try(from, to)
			if table.Allows(from, to) && err != nil {
				t.Errorf("%s %s -> %s: %v", noun, from, to, err)
			}
			if !table.Allows(from, to) && !core.Is(err, core.Conflict) {
				t.Errorf("%s %s -> %s was not refused: %v", noun, from, to, err)
			}
		}
	}
}

func TestStoreRefusesEveryEdgeThatIsNotInTheTable(t *testing.T) {
	db, ctx := open(t), t.Context()
	env := addEnvironment(t, db, "shop")
	walk(t, "session", core.SessionTable, func(from, to core.SessionState) error {
		s := addSession(t, db, env.ID)
		s.ID, s.State = core.NewSessionID(), from
		if err := db.CreateSession(ctx, s, ""); err != nil {
			return err
		}
		_, err := db.UpdateSession(ctx, s.ID, func(s *core.Session) error { s.State = to; return nil })
		return err
	})
	walk(t, "prompt", core.PromptTable, func(from, to core.PromptState) error {
		p, _, err := db.AddPrompt(ctx, core.Prompt{ID: core.NewPromptID(), Session: addSession(t, db, env.ID).ID, State: from})
		if err != nil {
			return err
		}
		_, err = db.UpdatePrompt(ctx, p.ID, func(p *core.Prompt) error { p.State = to; return nil })
		return err
	})
	session := addSession(t, db, env.ID)
	prompt := addPrompt(t, db, session.ID, "x")
	walk(t, "run", core.RunTable, func(from, to core.RunState) error {
		r := core.Run{ID: core.NewRunID(), Session: session.ID, Prompt: prompt.ID, State: from}
		if err := db.CreateRun(ctx, r); err != nil {
			return err
		}
		_, err := db.UpdateRun(ctx, r.ID, func(r *core.Run) error { r.State = to; return nil })
		return err
	})
	walk(t, "build", core.BuildTable, func(from, to core.BuildState) error {
		b := core.Build{ID: core.NewBuildID(), Environment: env.ID, State: from}
		if err := db.CreateBuild(ctx, b); err != nil {
			return err
		}
		_, err := db.UpdateBuild(ctx, b.ID, func(b *core.Build) error { b.State = to; return nil })
		return err
	})
	walk(t, "sandbox", core.SandboxTable, func(from, to core.SandboxState) error {
		s := store.Sandbox{ID: core.NewSandboxID(), State: from}
		if err := db.CreateSandbox(ctx, s); err != nil {
			return err
		}
		_, err := db.UpdateSandbox(ctx, s.ID, func(s *store.Sandbox) error { s.State = to; return nil })
		return err
	})
	walk(t, "snapshot", core.SnapshotTable, func(from, to core.SnapshotState) error {
		s := core.Snapshot{ID: core.NewSnapshotID(), State: from}
		if err := db.CreateSnapshot(ctx, s); err != nil {
			return err
		}
		_, err := db.UpdateSnapshot(ctx, s.ID, func(s *core.Snapshot) error { s.State = to; return nil })
		return err
	})
	walk(t, "change", core.ChangeTable, func(from, to core.ChangeState) error {
		c, _, err := db.CreateChange(ctx, "", core.Change{ID: core.NewChangeID(), Repository: "r", State: from})
		if err != nil {
			return err
		}
		_, err = db.UpdateChange(ctx, c.ID, func(c *core.Change) error { c.State = to; return nil })
		return err
	})
	walk(t, "approval", core.ApprovalTable, func(from, to core.ApprovalState) error {
		a := store.Approval{ID: core.NewApprovalID(), State: from}
		if err := db.CreateApproval(ctx, a); err != nil {
			return err
		}
		_, err := db.UpdateApproval(ctx, a.ID, func(a *store.Approval) error { a.State = to; return nil })
		return err
	})
	run := core.Run{ID: core.NewRunID(), Session: session.ID, Prompt: prompt.ID, State: core.RunRunning}
	if err := db.CreateRun(ctx, run); err != nil {
		t.Fatal(err)
	}
	walk(t, "attempt", core.AttemptTable, func(from, to core.AttemptState) error {
		a, err := db.CreateAttempt(ctx, core.Attempt{ID: core.NewAttemptID(), Run: run.ID, Node: "n", State: from})
		if err != nil {
			return err
		}
		_, err = db.UpdateAttempt(ctx, a.ID, func(a *core.Attempt) error { a.State = to; return nil })
		return err
	})
}

func TestOnePromptRunsPerSession(t *testing.T) {
	db, ctx := open(t), t.Context()
	session := addSession(t, db, addEnvironment(t, db, "shop").ID)
	first, second := addPrompt(t, db, session.ID, "1"), addPrompt(t, db, session.ID, "2")
	run := func(id core.PromptID) error {
		_, err := db.UpdatePrompt(ctx, id, func(p *core.Prompt) error { p.State = core.PromptRunning; return nil })
		return err
	}
	if err := run(first.ID); err != nil {
		t.Fatal(err)
	}
	if err := run(second.ID); !core.Is(err, core.Conflict) || !strings.Contains(err.Error(), string(first.ID)) {
		t.Fatalf("second running prompt: %v", err)
	}
	_, _, err := db.AddPrompt(ctx, core.Prompt{ID: core.NewPromptID(), Session: session.ID, State: core.PromptRunning})
	if !core.Is(err, core.Conflict) {
		t.Fatalf("second running prompt, inserted: %v", err)
	}
}

func TestPagesAreStableWhileRowsAreAdded(t *testing.T) {
	db, ctx := open(t), t.Context()
	env := addEnvironment(t, db, "shop").ID
	want := map[core.SessionID]bool{}
	for range 7 {
		want[addSession(t, db, env).ID] = true
	}
	got, cursor, pages := map[core.SessionID]bool{}, "", 0
	for {
		list, next, err := db.Sessions(ctx, core.SessionFilter{}, core.Page{Limit: 3, Cursor: cursor})
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range list {
			if got[s.ID] {
				t.Errorf("%s was listed twice", s.ID)
			}
			got[s.ID] = true
		}
		pages++
		time.AfterFunc(0, func() {}) // identifiers differ by the millisecond; a new row sorts first
		if pages == 1 {
			next1 := addSession(t, db, env)
			delete(want, next1.ID)
		}
		if next == "" {
			break
		}
		cursor = next
	}
	for id := range want {
		if !got[id] {
			t.Errorf("%s is missing", id)
		}
	}
	for _, bad := range []string{"x", "!!", strings.Repeat("a", 1000), "c2Vzc2lvbnM"} {
		if _, _, err := db.Sessions(ctx, core.SessionFilter{}, core.Page{Cursor: bad}); !core.Is(err, core.Invalid) {
			t.Errorf("cursor %q: %v", bad, err)
		}
	}
}

func TestSessionFilter(t *testing.T) {
	db, ctx := open(t), t.Context()
	env := addEnvironment(t, db, "shop").ID
	s := addSession(t, db, env)
	archived := addSession(t, db, env)
	if _, err := db.UpdateSession(ctx, archived.ID, func(s *core.Session) error { s.State = core.SessionArchived; return nil }); err != nil {
		t.Fatal(err)
	}
	if _, err := db.UpdateSession(ctx, s.ID, func(s *core.Session) error { s.Title = "Raise 100% of_it"; return nil }); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		filter core.SessionFilter
		want   int
	}{
		{core.SessionFilter{}, 1},
		{core.SessionFilter{Archived: true}, 2},
		{core.SessionFilter{State: core.SessionArchived}, 1},
		{core.SessionFilter{Owner: "alice"}, 1},
		{core.SessionFilter{Owner: "bob"}, 0},
		{core.SessionFilter{Text: "raise 100%"}, 1},
		{core.SessionFilter{Text: "1%0"}, 0},
		{core.SessionFilter{Environment: env, Text: "F_IT"}, 1},
	} {
		list, _, err := db.Sessions(ctx, c.filter, core.Page{})
		if err != nil || len(list) != c.want {
			t.Errorf("%+v: %d sessions, want %d (%v)", c.filter, len(list), c.want, err)
		}
	}
}

func TestEffectsAndChangesHappenOnce(t *testing.T) {
	db, ctx := open(t), t.Context()
	intend := func() (store.Effect, bool) {
		e, fresh, err := db.IntendEffect(ctx, store.Effect{ID: "push:1", Kind: "push", Request: json.RawMessage(`{}`)})
		if err != nil {
			t.Fatal(err)
		}
		return e, fresh
	}
	if _, fresh := intend(); !fresh {
		t.Fatal("the first intent is fresh")
	}
	if e, fresh := intend(); fresh || e.State != store.EffectIntended {
		t.Fatalf("the second intent: fresh %v, state %s", fresh, e.State)
	}
	if open, err := db.OpenEffects(ctx); err != nil || len(open) != 1 {
		t.Fatalf("open effects: %v %v", open, err)
	}
	if err := db.FinishEffect(ctx, "push:1", store.EffectFailed, json.RawMessage(`"refused"`)); err != nil {
		t.Fatal(err)
	}
	if _, fresh := intend(); !fresh {
		t.Fatal("what is known to have failed may be tried again")
	}
	if err := db.FinishEffect(ctx, "push:1", store.EffectDone, json.RawMessage(`{"n":1}`)); err != nil {
		t.Fatal(err)
	}
	if e, fresh := intend(); fresh || string(e.Response) != `{"n":1}` {
		t.Fatalf("after it is done: fresh %v, response %s", fresh, e.Response)
	}

	first, added, err := db.CreateChange(ctx, "ses_1/change", core.Change{ID: core.NewChangeID(), Repository: "r", State: core.ChangeOpen})
	if err != nil || !added {
		t.Fatal(added, err)
	}
	again, added, err := db.CreateChange(ctx, "ses_1/change", core.Change{ID: core.NewChangeID(), Repository: "r", State: core.ChangeOpen})
	if err != nil || added || again.ID != first.ID {
		t.Fatalf("opened twice: %v %v %v", again.ID, added, err)
	}
	other, _, err := db.CreateChange(ctx, "ses_2/change", core.Change{ID: core.NewChangeID(), Repository: "r", State: core.ChangeOpen})
	if err != nil || other.Number != 2 {
		t.Fatalf("number %d, want 2 (%v)", other.Number, err)
	}
}

func TestFences(t *testing.T) {
	db, ctx := open(t), t.Context()
	at := time.Now()
	one, err := db.Claim(ctx, "l", "one", at, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.Claim(ctx, "l", "two", at, time.Minute); !core.Is(err, core.Conflict) {
		t.Fatalf("claim of a held lease: %v", err)
	}
	two, err := db.Claim(ctx, "l", "two", at.Add(2*time.Minute), time.Minute)
	if err != nil || two.Token != one.Token+1 {
		t.Fatalf("claim of an expired lease: %+v %v", two, err)
	}
	wrote := false
	err = db.Fenced(ctx, one, func(*store.Tx) error { wrote = true; return nil })
	if wrote || !errors.Is(err, store.ErrLeaseLost) || !core.Is(err, core.Conflict) {
		t.Fatalf("the old holder wrote: %v %v", wrote, err)
	}
	if err := db.Extend(ctx, one, at, time.Minute); !errors.Is(err, store.ErrLeaseLost) {
		t.Fatalf("the old holder extended: %v", err)
	}
	if err := db.Release(ctx, two); err != nil {
		t.Fatal(err)
	}
	three, err := db.Claim(ctx, "l", "one", at, time.Minute)
	if err != nil || three.Token != two.Token+1 {
		t.Fatalf("claim of a released lease: %+v %v", three, err)
	}
	seized, err := db.Seize(ctx, "l", "two", at, 0)
	if err != nil || seized.Token != three.Token+1 {
		t.Fatalf("seize: %+v %v", seized, err)
	}
	if free, err := db.LeaseFree(ctx, "l", "one", at); err != nil || !free {
		t.Fatalf("free %v %v", free, err)
	}
}

// Many writers in several handles on one file: numbers have no gap, nothing is
// busy.
func TestEventsOfManyWritersHaveNoGap(t *testing.T) {
	path := filepath.Join(t.TempDir(), "drydock.db")
	a, b := openAt(t, path), openAt(t, path)
	var wg sync.WaitGroup
	for i := range 8 {
		db := a
		if i%2 == 1 {
			db = b
		}
		wg.Go(func() {
			for range 25 {
				if _, err := db.AppendEvents(t.Context(), "ses_x", []core.Event{core.NewEvent(core.EventLog, core.LogData{Text: "x"})}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	events, err := a.Events(t.Context(), "ses_x", 0, 1000)
	if err != nil || len(events) != 200 {
		t.Fatalf("%d events, %v", len(events), err)
	}
	for i, e := range events {
		if e.Seq != int64(i+1) {
			t.Fatalf("event %d has number %d", i, e.Seq)
		}
	}
}

func TestTxIsAllOrNothing(t *testing.T) {
	db, ctx := open(t), t.Context()
	hooks := 0
	boom := errors.New("boom")
	err := db.Tx(ctx, func(tx *store.Tx) error {
		tx.OnCommit(func() { hooks++ })
		if err := tx.PutUser(ctx, alice); err != nil {
			return err
		}
		if _, err := tx.User(ctx, "alice"); err != nil {
			t.Errorf("a transaction sees its own writes: %v", err)
		}
		return boom
	})
	if !errors.Is(err, boom) || hooks != 0 {
		t.Fatalf("error %v, hooks %d", err, hooks)
	}
	func() {
		defer func() { _ = recover() }()
		_ = db.Tx(ctx, func(tx *store.Tx) error {
			_ = tx.PutUser(ctx, alice)
			panic("boom")
		})
	}()
	if _, err := db.User(ctx, "alice"); !core.Is(err, core.NotFound) {
		t.Fatalf("user after two failures: %v", err)
	}
	if err := db.PutUser(ctx, alice); err != nil {
		t.Fatalf("the store goes on: %v", err)
	}
}

func TestBackupOpensAsADatabase(t *testing.T) {
	db, ctx := open(t), t.Context()
	addEnvironment(t, db, "shop")
	file := filepath.Join(t.TempDir(), "copy.db")
	if err := db.Backup(ctx, file); err != nil {
		t.Fatal(err)
	}
	if err := db.Backup(ctx, file); !core.Is(err, core.Conflict) {
		t.Fatalf("backup over a file: %v", err)
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("mode %v %v", info.Mode(), err)
	}
	if _, err := openAt(t, file).Environment(ctx, "shop"); err != nil {
		t.Fatal(err)
	}
}

func TestOpen(t *testing.T) {
	path := filepath.Join(t.TempDir(), "odd name?%20#.db")
	db := openAt(t, path)
	addEnvironment(t, db, "shop")
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("the file is readable to others: %v %v", info, err)
	}
	if _, err := store.Open(t.Context(), store.Options{Path: filepath.Join(t.TempDir(), "no", "db")}); err == nil {
		t.Fatal("a directory that is not there was accepted")
	}
	if _, err := store.Open(t.Context(), store.Options{}); !core.Is(err, core.Invalid) {
		t.Fatalf("no path: %v", err)
	}
	var wg sync.WaitGroup
	fresh := filepath.Join(t.TempDir(), "fresh.db")
	for range 4 {
		wg.Go(func() {
			db, err := store.Open(context.WithoutCancel(t.Context()), store.Options{Path: fresh})
			if err != nil {
				t.Errorf("several open a new database at once: %v", err)
				return
			}
			_ = db.Close()
		})
	}
	wg.Wait()
}
