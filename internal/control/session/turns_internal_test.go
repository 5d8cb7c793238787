package session

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"drydock/internal/core"
	"drydock/internal/store"
)

var someTime = time.Date(2026, 9, 1, 12, 0, 0, 0, time.UTC)

// asks makes waiting prompts of "alice/shop alice/blog!": a mark means that it
// was begun already. The first is the oldest; its number is its name.
func asks(list string) []store.Waiting {
	var out []store.Waiting
	for i, word := range strings.Fields(list) {
		word, begun := strings.CutSuffix(word, "!")
		who, env, _ := strings.Cut(word, "/")
		w := store.Waiting{
			ID: core.PromptID(fmt.Sprintf("prm_%03d", i+1)), Author: core.Author{Handle: who}, Environment: core.EnvironmentID(env),
			State: core.PromptQueued, Created: someTime.Add(time.Duration(i) * time.Second),
		}
		if begun {
			w.State = core.PromptRunning
		}
		out = append(out, w)
	}
	return out
}

func order(list []turn) string {
	var out []string
	for _, t := range list {
		number := strings.TrimLeft(strings.TrimPrefix(string(t.ID), "prm_"), "0")
		if t.bound != "" {
			number = "(" + number + ")"
		}
		out = append(out, number)
	}
	return strings.Join(out, " ")
}

func TestWhoseTurnItIs(t *testing.T) {
	for _, c := range []struct {
		name, waiting string
		st            standing
		limit         bounds
		want          string
	}{
		{name: "nothing", waiting: "", want: ""},
		{name: "the oldest first", waiting: "alice/shop alice/shop alice/shop", want: "1 2 3"},
		{name: "a run that was begun goes first", waiting: "alice/shop bob/shop alice/shop!", want: "3 1 2"},
		{name: "people take turns", waiting: "alice/shop alice/shop alice/shop bob/shop", want: "1 4 2 3"},
		{
			name: "least running first", waiting: "alice/shop bob/shop carol/shop",
			st: standing{loads: []store.Load{{Author: "alice", Environment: "x", Running: 2}, {Author: "bob", Environment: "y", Running: 1}}}, want: "3 2 1",
		},
		{
			name: "the environment with least running first", waiting: "alice/shop alice/blog",
			st: standing{loads: []store.Load{{Author: "carol", Environment: "shop", Running: 1}}}, want: "2 1",
		},
		{
			name: "who was served longest ago, with one runner", waiting: "alice/shop alice/shop bob/shop",
			st: standing{served: map[string]time.Time{"alice": someTime, "bob": someTime.Add(-time.Hour)}}, want: "3 1 2",
		},
		{
			name: "a busy environment does not keep a person out", waiting: "alice/blog alice/blog bob/shop",
			st: standing{
				loads:  []store.Load{{Author: "carol", Environment: "shop", Running: 1}},
				served: map[string]time.Time{"alice": someTime, "bob": someTime.Add(-time.Hour)},
			}, want: "3 1 2",
		},
		{
			name: "environments of one person take turns", waiting: "alice/shop alice/shop alice/shop alice/blog", want: "1 4 2 3",
		},
		{
			name: "a limit for each person", waiting: "alice/shop alice/blog bob/shop bob/shop", limit: bounds{person: 1},
			st: standing{loads: []store.Load{{Author: "alice", Environment: "x", Running: 1}}}, want: "3 4 (1) (2)",
		},
		{
			name: "a limit for each environment", waiting: "alice/shop bob/shop bob/blog", limit: bounds{environment: 2},
			st: standing{loads: []store.Load{{Author: "carol", Environment: "shop", Running: 2}}}, want: "3 (1) (2)",
		},
		{
			name: "what was begun is under no limit", waiting: "alice/shop! alice/shop", limit: bounds{person: 1, environment: 1},
			st: standing{loads: []store.Load{{Author: "alice", Environment: "shop", Running: 1}}}, want: "1 (2)",
		},
	} {
		if got := order(inTurn(asks(c.waiting), c.st, c.limit)); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}

// turning is a queue with runners, to hold promises over time.
type turning struct {
	waiting  []store.Waiting
	running  []store.Waiting
	served   map[string]time.Time
	limit    bounds
	runners  int
	clock    time.Time
	number   int
	people   int
	overtook map[string]int // how often others were taken since a person who has nothing running asked
}

func (q *turning) standing() standing {
	st := standing{served: q.served}
	for _, r := range q.running {
		st.loads = append(st.loads, store.Load{Author: r.Author.Handle, Environment: r.Environment, Running: 1})
	}
	return st
}

func (q *turning) of(who string) int {
	n := 0
	for _, r := range q.running {
		if r.Author.Handle == who {
			n++
		}
	}
	return n
}

func (q *turning) in(env core.EnvironmentID) int {
	n := 0
	for _, r := range q.running {
		if r.Environment == env {
			n++
		}
	}
	return n
}

func (q *turning) Ask(t *rapid.T) {
	who := rapid.IntRange(0, q.people-1).Draw(t, "who")
	for range rapid.SampledFrom([]int{1, 1, 1, 20}).Draw(t, "prompts") {
		q.number++
		q.clock = q.clock.Add(time.Second)
		w := asks(fmt.Sprintf("u%d/e%d", who, rapid.IntRange(0, 2).Draw(t, "environment")))[0]
		w.ID, w.Created = core.PromptID(fmt.Sprintf("prm_%05d", q.number)), q.clock
		q.waiting = append(q.waiting, w)
	}
}

func (q *turning) Finish(t *rapid.T) {
	if len(q.running) == 0 {
		t.Skip("nothing runs")
	}
	i := rapid.IntRange(0, len(q.running)-1).Draw(t, "which")
	q.running = slices.Delete(q.running, i, i+1)
}

func (q *turning) Claim(t *rapid.T) {
	if len(q.running) >= q.runners || len(q.waiting) == 0 {
		t.Skip("nothing to claim")
	}
	list := inTurn(q.waiting, q.standing(), q.limit)
	if len(list) != len(q.waiting) {
		t.Fatalf("%d of %d have a turn", len(list), len(q.waiting))
	}
	seen := map[core.PromptID]bool{}
	oldest := map[string]time.Time{}
	for _, x := range list {
		key := x.Author.Handle + "/" + string(x.Environment)
		if seen[x.ID] || x.Created.Before(oldest[key]) {
			t.Fatalf("%s comes twice or before an older one of its kind: %s", x.ID, order(list))
		}
		seen[x.ID], oldest[key] = true, x.Created
	}
	next := list[0]
	if next.bound != "" {
		for _, w := range q.waiting { // then really nothing may run
			if q.limit.reached(w.Author, q.of(w.Author.Handle), q.in(w.Environment)) == "" {
				t.Fatalf("%s may run and has no turn", w.ID)
			}
		}
		return
	}
	who := next.Author.Handle
	if q.limit.person > 0 && q.of(who) >= q.limit.person || q.limit.environment > 0 && q.in(next.Environment) >= q.limit.environment {
		t.Fatalf("%s runs over a limit", next.ID)
	}
	for _, w := range q.waiting {
		other := w.Author.Handle
		if q.of(other) == 0 && q.of(who) > 0 && q.limit.environment == 0 {
			t.Fatalf("%s has %d running and is taken before %s, who has none", who, q.of(who), other)
		}
	}
	// Nobody is overtaken more often than there are other people.
	waits := map[string]bool{}
	for _, w := range q.waiting {
		waits[w.Author.Handle] = true
	}
	for other := range waits {
		if other == who || q.of(other) > 0 {
			delete(q.overtook, other)
			continue
		}
		if q.overtook[other]++; q.overtook[other] > q.people-1 && q.limit.environment == 0 {
			t.Fatalf("%s has nothing running and was passed over %d times by %d people", other, q.overtook[other], q.people-1)
		}
	}
	q.clock = q.clock.Add(time.Second)
	q.served[who] = q.clock
	q.running = append(q.running, next.Waiting)
	q.waiting = slices.DeleteFunc(q.waiting, func(w store.Waiting) bool { return w.ID == next.ID })
}

// Check looks after every action.
func (q *turning) Check(t *rapid.T) {
	if len(q.running) > q.runners {
		t.Fatalf("%d run, %d runners", len(q.running), q.runners)
	}
}

// Whoever asks for how much: nobody starves, no limit is broken, nothing is
// forgotten.
func TestTurnsAreFairWhateverComes(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		q := &turning{
			served: map[string]time.Time{}, clock: someTime, overtook: map[string]int{},
			runners: rapid.IntRange(1, 4).Draw(rt, "runners"), people: rapid.IntRange(1, 4).Draw(rt, "people"),
			limit: bounds{person: rapid.IntRange(0, 2).Draw(rt, "per person"), environment: rapid.IntRange(0, 2).Draw(rt, "per environment")},
		}
		rt.Repeat(rapid.StateMachineActions(q))
	})
}

func TestPlacesAreTakenAsTheyAreTold(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		q := &turning{served: map[string]time.Time{}, clock: someTime, overtook: map[string]int{}, runners: 1000, people: 4}
		for range rapid.IntRange(1, 6).Draw(rt, "asks") {
			q.Ask(rt)
		}
		told := inTurn(q.waiting, q.standing(), q.limit)
		for _, want := range told { // all begin, none ends
			got := inTurn(q.waiting, q.standing(), q.limit)[0]
			if got.ID != want.ID {
				rt.Fatalf("%s is taken, %s was told", got.ID, want.ID)
			}
			q.Claim(rt)
		}
	})
}

func TestAPlaceIsToldBesideTheReason(t *testing.T) {
	for _, c := range [][4]string{
		{"waits for a runner", "a runner", "4 sessions run (limit 4)", "waits for a runner: place 3 of 7; 4 sessions run (limit 4)"},
		{
			"done: said; the next prompt waits for a runner", "memory: needs 256 MiB, 100 MiB are free", "",
			"done: said; the next prompt waits for memory: needs 256 MiB, 100 MiB are free: place 3 of 7",
		},
		{"goes on, Alice answered", "a runner", "", "goes on, Alice answered; waits for a runner: place 3 of 7"},
		{"", "a runner", "", "waits for a runner: place 3 of 7"},
	} {
		if got := placeTold(c[0], c[1], "place 3 of 7", c[2]); got != c[3] {
			t.Errorf("%q, want %q", got, c[3])
		}
	}
}
