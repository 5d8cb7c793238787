package store_test

import (
	"context"
	"maps"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"drydock/internal/core"
	"drydock/internal/store"
)

// queue is what a session's prompts should be, in memory.
type queue struct {
	db       *store.DB
	session  core.SessionID
	waiting  []core.PromptID // in order
	running  core.PromptID
	byClient map[string]core.PromptID
}

// The prompt queue against the model: order is kept, a retry is not a second
// prompt, one prompt runs at a time, and only states of the table are reached.
func TestPromptQueueProperties(t *testing.T) {
	db := open(t)
	env := addEnvironment(t, db, "shop").ID
	rapid.Check(t, func(rt *rapid.T) {
		q := &queue{db: db, session: addSession(t, db, env).ID, byClient: map[string]core.PromptID{}}
		rt.Repeat(rapid.StateMachineActions(q))
		if q.running != "" { // out of the way of the next case
			if err := q.move(q.running, core.PromptDone); err != nil {
				rt.Fatal(err)
			}
		}
		if _, err := db.UpdateSession(t.Context(), q.session, func(s *core.Session) error { s.Held = true; return nil }); err != nil {
			rt.Fatal(err)
		}
	})
}

func (q *queue) move(id core.PromptID, to core.PromptState) error {
	_, err := q.db.UpdatePrompt(context.Background(), id, func(p *core.Prompt) error { p.State = to; return nil })
	return err
}

func (q *queue) any(t *rapid.T) core.PromptID {
	if len(q.waiting) == 0 {
		t.Skip("nothing waits")
	}
	return rapid.SampledFrom(q.waiting).Draw(t, "prompt")
}

func (q *queue) take(id core.PromptID) {
	q.waiting = slices.DeleteFunc(q.waiting, func(w core.PromptID) bool { return w == id })
}

func (q *queue) Add(t *rapid.T) {
	client := rapid.SampledFrom([]string{"", "a", "b", "c"}).Draw(t, "client")
	p, added, err := q.db.AddPrompt(t.Context(), core.Prompt{
		ID: core.NewPromptID(), Session: q.session, ClientID: client, Author: alice, State: core.PromptQueued, Created: time.Now(),
	})
	if err != nil {
		t.Fatal(err)
	}
	old, known := q.byClient[client]
	known = known && client != ""
	if known == added || (known && p.ID != old) {
		t.Fatalf("client id %q: added %v, prompt %s, earlier %s", client, added, p.ID, old)
	}
	if added {
		q.waiting, q.byClient[client] = append(q.waiting, p.ID), p.ID
	}
}

func (q *queue) Remove(t *rapid.T) {
	id := q.any(t)
	if err := q.move(id, core.PromptRemoved); err != nil {
		t.Fatal(err)
	}
	q.take(id)
}

func (q *queue) Move(t *rapid.T) {
	id := q.any(t)
	place := rapid.IntRange(-1, len(q.waiting)+2).Draw(t, "place")
	if _, err := q.db.MovePrompt(t.Context(), id, place); err != nil {
		t.Fatal(err)
	}
	q.take(id)
	q.waiting = slices.Insert(q.waiting, min(max(place-1, 0), len(q.waiting)), id)
}

func (q *queue) Claim(t *rapid.T) {
	list, err := q.db.ClaimablePrompts(t.Context(), "me", nil, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	var mine []core.PromptID
	for _, p := range list {
		if again, err := q.db.ClaimablePrompt(t.Context(), p.ID, "me", time.Now()); err != nil || again.ID != p.ID || again.Author.Handle != p.Author.Handle || again.State != p.State {
			t.Fatalf("looked at again, %s is %+v (%v)", p.ID, again, err)
		}
		if p.Session == q.session {
			mine = append(mine, p.ID)
		}
	}
	want := q.waiting[:min(len(q.waiting), 1)]
	if q.running != "" { // left behind: nobody holds the lease
		want = []core.PromptID{q.running}
	}
	if !slices.Equal(mine, want) {
		t.Fatalf("claimable %v, want %v", mine, want)
	}
	if q.running != "" || len(want) == 0 {
		return
	}
	if err := q.move(want[0], core.PromptRunning); err != nil {
		t.Fatal(err)
	}
	q.running, q.waiting = want[0], slices.Clone(q.waiting[1:])
}

func (q *queue) ClaimAnother(t *rapid.T) {
	id := q.any(t)
	if q.running == "" {
		t.Skip("nothing runs")
	}
	if err := q.move(id, core.PromptRunning); !core.Is(err, core.Conflict) {
		t.Fatalf("a second running prompt: %v", err)
	}
	if _, err := q.db.ClaimablePrompt(t.Context(), id, "me", time.Now()); !core.Is(err, core.NotFound) {
		t.Fatalf("a second claimable prompt: %v", err)
	}
}

func (q *queue) Finish(t *rapid.T) {
	if q.running == "" {
		t.Skip("nothing runs")
	}
	end := rapid.SampledFrom([]core.PromptState{core.PromptDone, core.PromptHandedOver, core.PromptFailed, core.PromptStopped}).Draw(t, "end")
	if err := q.move(q.running, end); err != nil {
		t.Fatal(err)
	}
	if err := q.move(q.running, core.PromptRunning); !core.Is(err, core.Conflict) {
		t.Fatalf("a finished prompt ran again: %v", err)
	}
	q.running = ""
}

// Check compares the store with the model after every action.
func (q *queue) Check(t *rapid.T) {
	got, err := q.db.QueuedPrompts(t.Context(), q.session)
	if err != nil {
		t.Fatal(err)
	}
	var ids []core.PromptID
	for _, p := range got {
		ids = append(ids, p.ID)
	}
	if !slices.Equal(ids, q.waiting) {
		t.Fatalf("queue is %v, want %v", ids, q.waiting)
	}
	r, err := q.db.RunningPrompt(t.Context(), q.session)
	if q.running == "" && !core.Is(err, core.NotFound) || q.running != "" && r.ID != q.running {
		t.Fatalf("running is %s (%v), want %s", r.ID, err, q.running)
	}
}

// What turns are taken by: who has how much running where, and who was served
// when. A run that waits for a person is not running.
func TestLoadsAndServed(t *testing.T) {
	db, ctx := open(t), t.Context()
	shop, blog := addEnvironment(t, db, "shop").ID, addEnvironment(t, db, "blog").ID
	start := time.Now().Truncate(time.Second).UTC()
	add := func(env core.EnvironmentID, author string, state core.SessionState, began time.Time) {
		s := addSession(t, db, env)
		p, _, err := db.AddPrompt(ctx, core.Prompt{
			ID: core.NewPromptID(), Session: s.ID, Author: core.Author{Handle: author}, State: core.PromptQueued, Created: start,
		})
		if err != nil {
			t.Fatal(err)
		}
		path := map[core.SessionState][]core.SessionState{
			core.SessionStarting: {core.SessionStarting}, core.SessionRunning: {core.SessionStarting, core.SessionRunning},
			core.SessionWaiting: {core.SessionStarting, core.SessionRunning, core.SessionWaiting},
		}[state]
		for _, to := range path {
			if _, err := db.UpdateSession(ctx, s.ID, func(s *core.Session) error { s.State = to; return nil }); err != nil {
				t.Fatal(err)
			}
		}
		if len(path) == 0 {
			return
		}
		if _, err := db.UpdatePrompt(ctx, p.ID, func(p *core.Prompt) error { p.State, p.Started = core.PromptRunning, began; return nil }); err != nil {
			t.Fatal(err)
		}
	}
	add(shop, "alice", core.SessionRunning, start)
	add(shop, "alice", core.SessionStarting, start.Add(time.Minute))
	add(blog, "alice", core.SessionRunning, start)
	add(blog, "bob", core.SessionWaiting, start.Add(time.Hour))
	for _, author := range []string{"alice", "bob", "carol"} {
		add(shop, author, core.SessionQueued, time.Time{})
	}
	loads, err := db.Loads(ctx)
	if err != nil {
		t.Fatal(err)
	}
	sum := map[string]int{}
	for _, l := range loads {
		sum[l.Author+" "+map[core.EnvironmentID]string{shop: "shop", blog: "blog"}[l.Environment]] = l.Running
	}
	if want := map[string]int{"alice shop": 2, "alice blog": 1}; !maps.Equal(sum, want) {
		t.Errorf("running %v, want %v", sum, want)
	}
	served, err := db.Served(ctx)
	want := map[string]time.Time{"alice": start.Add(time.Minute), "bob": start.Add(time.Hour), "carol": {}}
	if err != nil || !maps.Equal(served, want) {
		t.Errorf("served %v (%v), want %v", served, err, want)
	}
}

// One person's flood does not push another's prompt out of sight.
func TestNobodyIsHiddenByAFlood(t *testing.T) {
	db, ctx := open(t), t.Context()
	env, other := addEnvironment(t, db, "shop").ID, addEnvironment(t, db, "blog").ID
	start := time.Now()
	err := db.Tx(ctx, func(tx *store.Tx) error {
		for i := range store.MaxWaiting + 5 {
			author, place := "alice", env
			switch i {
			case store.MaxWaiting + 3:
				author = "bob"
			case store.MaxWaiting + 4:
				place = other
			}
			s := core.Session{ID: core.NewSessionID(), Environment: place, State: core.SessionQueued, Owner: core.Author{Handle: author}}
			if err := tx.CreateSession(ctx, s, ""); err != nil {
				return err
			}
			if _, _, err := tx.AddPrompt(ctx, core.Prompt{
				ID: core.NewPromptID(), Session: s.ID, Author: s.Owner, State: core.PromptQueued, Created: start.Add(time.Duration(i) * time.Second),
			}); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	begun := time.Now()
	list, err := db.ClaimablePrompts(ctx, "me", nil, time.Now())
	if err != nil || len(list) != store.MaxWaiting || list[0].Author.Handle != "alice" || list[1].Author.Handle != "bob" || list[2].Environment != other {
		t.Errorf("%d prompts, %v", len(list), err)
	}
	t.Logf("%d of %d were read in %v", len(list), store.MaxWaiting+5, time.Since(begun))
}

func TestHeldAndLeasedSessionsAreNotClaimable(t *testing.T) {
	db, ctx := open(t), t.Context()
	s := addSession(t, db, addEnvironment(t, db, "shop").ID)
	addPrompt(t, db, s.ID, "x")
	at := time.Now()
	count := func(owner string, busy []core.SessionID, at time.Time) int {
		list, err := db.ClaimablePrompts(ctx, owner, busy, at)
		if err != nil {
			t.Fatal(err)
		}
		return len(list)
	}
	if count("me", nil, at) != 1 || count("me", []core.SessionID{s.ID}, at) != 0 {
		t.Error("a free session is claimable unless the caller is at it")
	}
	if _, err := db.Claim(ctx, store.LeaseOfSession(s.ID), "me", at, time.Minute); err != nil {
		t.Fatal(err)
	}
	if count("other", nil, at) != 0 || count("other", nil, at.Add(time.Hour)) != 1 || count("me", nil, at) != 1 {
		t.Error("a lease keeps others away until it expires, and not its own owner")
	}
	if _, err := db.UpdateSession(ctx, s.ID, func(s *core.Session) error { s.Held = true; return nil }); err != nil {
		t.Fatal(err)
	}
	if count("me", nil, at) != 0 {
		t.Error("a held session is claimable")
	}
}
