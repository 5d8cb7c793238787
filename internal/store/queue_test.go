package store_test

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"drydock/internal/core"
	"drydock/internal/store"
)

// The prompt queue against a model in memory: order is kept, a retry is not a
// second prompt, one prompt runs at a time, and only states of the table are
// reached.
func TestPromptQueueProperties(t *testing.T) {
	db := open(t)
	ctx := t.Context()
	env := addEnvironment(t, db, "shop").ID
	rapid.Check(t, func(rt *rapid.T) {
		session := addSession(t, db, env)
		var queue []core.PromptID // what the model says waits, in order
		running := core.PromptID("")
		byClient := map[string]core.PromptID{}

		anyQueued := func(t *rapid.T) core.PromptID {
			if len(queue) == 0 {
				t.Skip("nothing waits")
			}
			return rapid.SampledFrom(queue).Draw(t, "prompt")
		}
		move := func(t *rapid.T, id core.PromptID, to core.PromptState) error {
			_, err := db.UpdatePrompt(ctx, id, func(p *core.Prompt) error { p.State = to; return nil })
			return err
		}
		rt.Repeat(map[string]func(*rapid.T){
			"add": func(t *rapid.T) {
				client := rapid.SampledFrom([]string{"", "a", "b", "c"}).Draw(t, "client")
				p, added, err := db.AddPrompt(ctx, core.Prompt{
					ID: core.NewPromptID(), Session: session.ID, ClientID: client, Author: alice, State: core.PromptQueued, Created: time.Now(),
				})
				if err != nil {
					t.Fatal(err)
				}
				old, known := byClient[client]
				known = known && client != ""
				if known == added || (known && p.ID != old) {
					t.Fatalf("client id %q: added %v, prompt %s, earlier %s", client, added, p.ID, old)
				}
				if added {
					queue, byClient[client] = append(queue, p.ID), p.ID
				}
			},
			"remove": func(t *rapid.T) {
				id := anyQueued(t)
				if err := move(t, id, core.PromptRemoved); err != nil {
					t.Fatal(err)
				}
				queue = slices.DeleteFunc(queue, func(q core.PromptID) bool { return q == id })
			},
			"move": func(t *rapid.T) {
				id := anyQueued(t)
				place := rapid.IntRange(-1, len(queue)+2).Draw(t, "place")
				if _, err := db.MovePrompt(ctx, id, place); err != nil {
					t.Fatal(err)
				}
				queue = slices.DeleteFunc(queue, func(q core.PromptID) bool { return q == id })
				queue = slices.Insert(queue, min(max(place-1, 0), len(queue)), id)
			},
			"claim": func(t *rapid.T) {
				list, err := db.ClaimablePrompts(ctx, "me", nil, time.Now(), 1000)
				if err != nil {
					t.Fatal(err)
				}
				var mine []core.PromptID
				for _, p := range list {
					if p.Session == session.ID {
						mine = append(mine, p.ID)
					}
				}
				switch {
				case running != "" && !slices.Equal(mine, []core.PromptID{running}): // left behind, nobody holds the lease
					t.Fatalf("claimable %v, running %s", mine, running)
				case running == "" && len(queue) == 0 && len(mine) != 0:
					t.Fatalf("claimable %v from an empty queue", mine)
				case running == "" && len(queue) > 0:
					if !slices.Equal(mine, queue[:1]) {
						t.Fatalf("claimable %v, want the first of %v", mine, queue)
					}
					if err := move(t, queue[0], core.PromptRunning); err != nil {
						t.Fatal(err)
					}
					running, queue = queue[0], queue[1:]
				}
			},
			"claim another": func(t *rapid.T) {
				id := anyQueued(t)
				if running == "" {
					t.Skip("nothing runs")
				}
				if err := move(t, id, core.PromptRunning); !core.Is(err, core.Conflict) {
					t.Fatalf("a second running prompt: %v", err)
				}
			},
			"finish": func(t *rapid.T) {
				if running == "" {
					t.Skip("nothing runs")
				}
				end := rapid.SampledFrom([]core.PromptState{core.PromptDone, core.PromptHandedOver, core.PromptFailed, core.PromptStopped}).Draw(t, "end")
				if err := move(t, running, end); err != nil {
					t.Fatal(err)
				}
				if err := move(t, running, core.PromptRunning); !core.Is(err, core.Conflict) {
					t.Fatalf("a finished prompt ran again: %v", err)
				}
				running = ""
			},
			"": func(t *rapid.T) {
				got, err := db.QueuedPrompts(ctx, session.ID)
				if err != nil {
					t.Fatal(err)
				}
				var ids []core.PromptID
				for _, p := range got {
					ids = append(ids, p.ID)
				}
				if !slices.Equal(ids, queue) {
					t.Fatalf("queue is %v, want %v", ids, queue)
				}
				r, err := db.RunningPrompt(ctx, session.ID)
				if running == "" && !core.Is(err, core.NotFound) || running != "" && r.ID != running {
					t.Fatalf("running is %s (%v), want %s", r.ID, err, running)
				}
			},
		})
		if running != "" { // out of the way of the next case
			if err := move(rt, running, core.PromptDone); err != nil {
				rt.Fatal(err)
			}
		}
		if _, err := db.UpdateSession(ctx, session.ID, func(s *core.Session) error { s.Held = true; return nil }); err != nil {
			rt.Fatal(err)
		}
	})
}

func TestUsersTakeTurns(t *testing.T) {
	db, ctx := open(t), t.Context()
	env := addEnvironment(t, db, "shop").ID
	add := func(author string, at time.Time) core.Prompt {
		s := addSession(t, db, env)
		p, _, err := db.AddPrompt(ctx, core.Prompt{
			ID: core.NewPromptID(), Session: s.ID, Author: core.Author{Handle: author}, State: core.PromptQueued, Created: at,
		})
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	start := time.Now()
	for i := range 4 {
		add("alice", start.Add(time.Duration(i)*time.Second))
	}
	add("bob", start.Add(time.Minute))
	add("carol", start.Add(2*time.Minute))
	var order []string
	for i := range 6 {
		list, err := db.ClaimablePrompts(ctx, "me", nil, time.Now(), 1)
		if err != nil || len(list) != 1 {
			t.Fatalf("%d: %v %v", i, list, err)
		}
		order = append(order, list[0].Author.Handle)
		for _, to := range []core.PromptState{core.PromptRunning, core.PromptDone} {
			if _, err := db.UpdatePrompt(ctx, list[0].ID, func(p *core.Prompt) error {
				p.State, p.Started = to, start.Add(time.Duration(i+1)*time.Hour)
				return nil
			}); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := db.UpdateSession(ctx, list[0].Session, func(s *core.Session) error { s.State = core.SessionIdle; return nil }); err != nil {
			t.Fatal(err)
		}
	}
	if want := []string{"alice", "bob", "carol", "alice", "alice", "alice"}; !slices.Equal(order, want) {
		t.Errorf("order %v, want %v", order, want)
	}
}

func TestHeldAndLeasedSessionsAreNotClaimable(t *testing.T) {
	db, ctx := open(t), t.Context()
	s := addSession(t, db, addEnvironment(t, db, "shop").ID)
	addPrompt(t, db, s.ID, "x")
	at := time.Now()
	count := func(owner string, busy []core.SessionID, at time.Time) int {
		list, err := db.ClaimablePrompts(ctx, owner, busy, at, 10)
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
