package scenarios

import (
	"sync"
	"testing"
	"time"

	"drydock/internal/core"
	"drydock/internal/surface/api"
	"drydock/internal/testkit"
)

// TestFiftySessions queues more work than the machine may do at once. Every
// session has a follower from its beginning, who must miss nothing.
func TestFiftySessions(t *testing.T) {
	const sessions, together = 50, 3
	d := testkit.Start(t, testkit.Options{Script: scripts(mendHello()), MaxSessions: together})
	env := d.BuildEnvironment(t, tinyRepo(t, nil))
	c := d.Client(t, "ana")
	begun := time.Now()
	var made []api.CreatedSession
	for range sessions {
		s, err := c.CreateSession(t.Context(), api.CreateSession{Environment: env.Name, Prompt: "Mend the greeting"})
		if err != nil {
			t.Fatal(err)
		}
		made = append(made, s)
	}
	t.Logf("%d sessions were taken on in %s", sessions, time.Since(begun).Round(time.Millisecond))

	var mu sync.Mutex
	running, most := 0, 0
	logs := make([][]core.Event, sessions)
	errs := make([]error, sessions)
	var followers sync.WaitGroup
	for i, s := range made {
		followers.Go(func() {
			for e, err := range c.SessionEvents(t.Context(), s.Session.ID, 0) {
				if err != nil {
					errs[i] = err
					return
				}
				if e.Seq == 0 {
					continue
				}
				logs[i] = append(logs[i], e)
				mu.Lock()
				switch e.Kind {
				case core.EventRunStarted:
					running++
				case core.EventRunFinished:
					running--
				}
				most = max(most, running)
				mu.Unlock()
				if e.Kind == core.EventPromptState && core.PromptTable.Final(testkit.Data[core.PromptData](t, e).State) {
					return
				}
			}
		})
	}
	followers.Wait()
	took := time.Since(begun)
	t.Logf("%d sessions, %d at once: %s in all, %s for one", sessions, together, took.Round(time.Second), (took / sessions).Round(time.Millisecond))
	numbers := map[int64]bool{}
	for i, s := range made {
		if errs[i] != nil {
			t.Fatalf("follower %d: %v\n%s", i, errs[i], testkit.Story(logs[i]))
		}
		for n, e := range logs[i] {
			if e.Seq != int64(n)+1 {
				t.Fatalf("session %d: event %d is the %dth", i, e.Seq, n+1)
			}
		}
		got := testkit.Result(t, c, s.Session.ID, s.Prompt.ID, logs[i])
		if got.Run.Verdict != "proven" || got.Prompt.State != core.PromptDone {
			t.Fatalf("session %d: %+v\n%s", i, got.Run, testkit.Story(logs[i]))
		}
		if numbers[got.Change.Number] || got.Change.Number < 1 || got.Change.Number > sessions {
			t.Errorf("session %d has change #%d", i, got.Change.Number)
		}
		numbers[got.Change.Number] = true
	}
	// A follower hears of an end a moment after the next one may begin.
	if most > 2*together {
		t.Errorf("%d runs at once, the bound is %d", most, together)
	}
	// Sandboxes of sessions that have nothing to do made room for the others.
	boxes, err := c.Sandboxes(t.Context())
	if err != nil || len(boxes) > together {
		t.Errorf("%d sandboxes are left, the bound is %d, error %v", len(boxes), together, err)
	}
}
