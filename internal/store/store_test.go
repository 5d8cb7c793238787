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

// TestAViewIsOneState: what is read in one belongs together, and any number of
// them may read otherwise too without waiting for one another.
func TestAViewIsOneState(t *testing.T) {
	db, ctx := open(t), t.Context()
	env := addEnvironment(t, db, "shop")
	s := addSession(t, db, env.ID)
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			err := db.View(ctx, func(r store.Reader) error {
				before, err := r.Session(ctx, s.ID)
				if err != nil {
					return err
				}
				if _, _, err := db.Sessions(ctx, core.SessionFilter{}, core.Page{}); err != nil {
					return err
				}
				after, err := r.Session(ctx, s.ID)
				if err == nil && after.Title != before.Title {
					t.Errorf("title %q became %q within one view", before.Title, after.Title)
				}
				return err
			})
			if err != nil {
				t.Error(err)
			}
		})
		if _, err := db.UpdateSession(ctx, s.ID, func(v *core.Session) error { v.Title += "x"; return nil }); err != nil {
			t.Fatal(err)
		}
	}
	wg.Wait()
}
