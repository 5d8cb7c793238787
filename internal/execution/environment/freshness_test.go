package environment_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"drydock/internal/core"
	"drydock/internal/execution/environment"
	"drydock/internal/execution/snapshot"
	"drydock/internal/execution/snapshot/overlay"
	"drydock/internal/store"
)

// keeper is a Refresher with a database, and a builder that plays builds: it
// writes what a real one does, as environment.Replan has it.
type keeper struct {
	t    *testing.T
	db   *store.DB
	r    *environment.Refresher
	stop func()

	mu     sync.Mutex
	built  []asked
	fails  int // of the next builds
	heads  map[string]string
	full   error
	asks   int           // for heads
	takes  time.Duration // a build
	most   map[core.EnvironmentID]int
	active map[core.EnvironmentID]int
}

type asked struct {
	name, why string
	at        time.Time
	by        string
}

func newKeeper(t *testing.T, file string) *keeper {
	t.Helper()
	k := &keeper{t: t, heads: map[string]string{}, takes: time.Minute, most: map[core.EnvironmentID]int{}, active: map[core.EnvironmentID]int{}}
	var err error
	if k.db, err = store.Open(t.Context(), store.Options{Path: file}); err != nil {
		t.Fatal(err)
	}
	return k
}

// run starts it; stop is the end of the daemon.
func (k *keeper) run() {
	ctx, cancel := context.WithCancel(k.t.Context())
	k.r = environment.NewRefresher(environment.RefresherDeps{
		Rows: k.db, Build: k.build,
		Head: func(_ context.Context, env core.Environment) (string, error) {
			k.mu.Lock()
			defer k.mu.Unlock()
			k.asks++
			return k.heads[env.Name], nil
		},
		Allowed: func(context.Context) error {
			k.mu.Lock()
			defer k.mu.Unlock()
			return k.full
		},
	})
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := k.r.Run(ctx); err != nil {
			k.t.Error(err)
		}
	}()
	k.stop = func() {
		cancel()
		<-done
	}
}

func (k *keeper) close() {
	k.stop()
	synctest.Wait()
	time.Sleep(k.takes) //nolint:forbidigo // in a bubble: what is being built ends
	if err := k.db.Close(); err != nil {
		k.t.Error(err)
	}
}

func (k *keeper) add(name string, refresh time.Duration) core.EnvironmentID {
	k.t.Helper()
	id := core.NewEnvironmentID()
	now := time.Now().UTC()
	if err := k.db.CreateEnvironment(k.t.Context(), core.Environment{ID: id, Name: name, Source: "/srv/" + name, DefaultBranch: "main", Created: now, Updated: now}); err != nil {
		k.t.Fatal(err)
	}
	k.row(id, func(f *store.Freshness) { f.Refresh = refresh })
	k.heads[name] = "a"
	return id
}

func (k *keeper) row(id core.EnvironmentID, change func(*store.Freshness)) store.Freshness {
	k.t.Helper()
	f, err := k.db.UpdateFreshness(k.t.Context(), id, func(f *store.Freshness) error {
		change(f)
		return nil
	})
	if err != nil {
		k.t.Fatal(err)
	}
	return f
}

// build plays one that takes a minute.
func (k *keeper) build(ctx context.Context, req environment.BuildRequest) (core.Build, error) {
	env, err := k.db.Environment(ctx, req.Name)
	if err != nil {
		return core.Build{}, err
	}
	b := core.Build{ID: core.NewBuildID(), Environment: env.ID, State: core.BuildQueued, By: req.By.Handle, Why: req.Why, Created: time.Now().UTC()}
	if err := k.db.CreateBuild(ctx, b); err != nil {
		return b, err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.built = append(k.built, asked{req.Name, req.Why, time.Now(), req.By.Handle})
	k.active[env.ID]++
	k.most[env.ID] = max(k.most[env.ID], k.active[env.ID])
	fails := k.fails > 0
	k.fails--
	commit := k.heads[req.Name]
	time.AfterFunc(k.takes, func() { k.end(b, commit, fails) })
	return b, nil
}

func (k *keeper) end(b core.Build, commit string, fails bool) {
	ctx := context.Background()
	state, failure := core.BuildDone, (*core.Failure)(nil)
	if fails {
		state, failure = core.BuildFailed, &core.Failure{Code: "setup_failed", Message: "it broke"}
	}
	err := k.db.Tx(ctx, func(tx *store.Tx) error {
		for _, s := range []core.BuildState{core.BuildRunning, state} {
			if _, err := tx.UpdateBuild(ctx, b.ID, func(b *core.Build) error {
				b.State, b.Commit, b.Failure = s, commit, failure
				return nil
			}); err != nil {
				return err
			}
		}
		b.Commit = commit
		_, err := tx.UpdateFreshness(ctx, b.Environment, func(f *store.Freshness) error {
			if f.Head == "" {
				f.Head = commit
			}
			environment.Replan(f, b, state, failure)
			return nil
		})
		return err
	})
	if err != nil {
		k.t.Error(err)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.active[b.Environment]--
}

func (k *keeper) after(d time.Duration) []asked {
	time.Sleep(d) //nolint:forbidigo // in a bubble
	synctest.Wait()
	k.mu.Lock()
	defer k.mu.Unlock()
	out := k.built
	k.built = nil
	return out
}

func bubble(t *testing.T, f func(t *testing.T, k *keeper)) {
	file := filepath.Join(t.TempDir(), "db")
	synctest.Test(t, func(t *testing.T) {
		k := newKeeper(t, file)
		defer k.close()
		f(t, k)
	})
}

func TestRefreshByInterval(t *testing.T) {
	bubble(t, func(t *testing.T, k *keeper) {
		k.add("shop", 30*time.Minute)
		never := k.add("never", 0)
		k.run()
		k.after(30*time.Minute + time.Second) // anywhere in the first interval
		var times []time.Time
		for _, a := range k.after(10 * time.Hour) {
			if a.name != "shop" || a.why != environment.WhyInterval || a.by != "platform" {
				t.Errorf("built %+v", a)
			}
			times = append(times, a.at)
		}
		if len(times) < 17 || len(times) > 23 {
			t.Errorf("%d builds in ten hours", len(times))
		}
		gaps := map[time.Duration]bool{}
		for i := range len(times) - 1 {
			gap := times[i+1].Sub(times[i])
			gaps[gap] = true
			if gap < 28*time.Minute || gap > 35*time.Minute {
				t.Errorf("%s between two builds", gap)
			}
		}
		if len(gaps) < 5 {
			t.Errorf("no jitter: %v", gaps)
		}
		// Where nothing is built by itself, a push does not change that.
		k.heads["never"] = "b"
		k.r.Poke(never)
		if got := k.after(time.Minute); slices.ContainsFunc(got, func(a asked) bool { return a.name == "never" }) {
			t.Errorf("built %+v", got)
		}
		if row, err := k.db.Freshness(t.Context(), never); err != nil || row.Head != "b" {
			t.Errorf("its head is %+v, error %v", row, err)
		}
	})
}

func TestPushIsBuiltAtOnce(t *testing.T) {
	bubble(t, func(t *testing.T, k *keeper) {
		id := k.add("shop", 2*time.Hour)
		k.takes = 10 * time.Minute
		k.row(id, func(f *store.Freshness) { f.Head, f.Next = "a", time.Now().Add(2*time.Hour) })
		k.run()
		k.heads["shop"] = "b"
		k.r.Poke(id)
		if got := k.after(time.Second); len(got) != 1 || got[0].why != environment.WhyPush {
			t.Fatalf("after a push: %+v", got)
		}
		// While it is built the branch moves twice: one more build, then none.
		for _, head := range []string{"c", "d"} {
			k.heads["shop"] = head
			k.r.Poke(id)
			if got := k.after(time.Minute); len(got) != 0 {
				t.Errorf("two at a time: %+v", got)
			}
		}
		if got := k.after(15 * time.Minute); len(got) != 1 || got[0].why != environment.WhyPush {
			t.Errorf("after it: %+v", got)
		}
		if got := k.after(time.Hour); len(got) != 0 {
			t.Errorf("and then: %+v", got)
		}
		// Nobody says anything: the next question finds out.
		asks := k.asks
		k.heads["shop"] = "e"
		if got := k.after(23 * time.Minute); len(got) != 1 || got[0].why != environment.WhyPush {
			t.Errorf("within a sixth of the interval: %+v", got)
		}
		if n := k.asks - asks; n < 1 || n > 3 {
			t.Errorf("%d questions in 23 minutes", n)
		}
		if k.most[id] != 1 {
			t.Errorf("%d builds at once", k.most[id])
		}
	})
}

func TestFailuresBackOff(t *testing.T) {
	bubble(t, func(t *testing.T, k *keeper) {
		id := k.add("shop", time.Hour)
		k.row(id, func(f *store.Freshness) { f.Head, f.Next, f.Why = "a", time.Now(), environment.WhyInterval })
		k.fails = 100
		k.run()
		built := k.after(40 * time.Hour)
		var gaps []time.Duration
		for i := range len(built) - 1 {
			gaps = append(gaps, (built[i+1].at.Sub(built[i].at) - time.Minute).Round(time.Minute))
			if built[i+1].why != environment.WhyRetry {
				t.Errorf("built %+v", built[i+1])
			}
		}
		for i, want := range []time.Duration{time.Hour, 2 * time.Hour, 4 * time.Hour, 6 * time.Hour, 6 * time.Hour, 6 * time.Hour} {
			if i >= len(gaps) || gaps[i] < want*88/100 || gaps[i] > want*112/100 {
				t.Fatalf("between tries: %s", gaps)
			}
		}
		// A push begins anew.
		k.heads["shop"] = "b"
		k.r.Poke(id)
		if got := k.after(time.Minute - time.Second); len(got) != 1 || got[0].why != environment.WhyPush {
			t.Errorf("after a push: %+v", got)
		}
		row := k.row(id, func(*store.Freshness) {})
		if row.Failures != 0 {
			t.Errorf("while it is built: %+v", row)
		}
		if got := k.after(70 * time.Minute); len(got) != 1 || got[0].why != environment.WhyRetry {
			t.Errorf("and then: %+v", got)
		}
		k.fails = 0
		k.after(3 * time.Hour)
		if row := k.row(id, func(*store.Freshness) {}); row.Failures != 0 || row.Failure != nil || row.Why != environment.WhyInterval {
			t.Errorf("after a good one: %+v", row)
		}
	})
}

func TestRestartIsNoStampede(t *testing.T) {
	bubble(t, func(t *testing.T, k *keeper) {
		var ids []core.EnvironmentID
		for i := range 20 {
			ids = append(ids, k.add(fmt.Sprintf("env%d", i), time.Hour))
		}
		k.run()
		k.after(90 * time.Minute)
		// What is planned is not built because of a restart.
		for _, id := range ids {
			k.row(id, func(f *store.Freshness) { f.Next = time.Now().Add(50 * time.Minute) })
		}
		k.stop()
		k.after(time.Minute)
		k.run()
		if got := k.after(45 * time.Minute); len(got) != 0 {
			t.Errorf("restart: %+v", got)
		}
		// What is overdue comes one after the other.
		k.stop()
		k.after(5 * time.Hour)
		k.run()
		first := k.after(time.Minute)
		if len(first) == 0 || len(first) > 4 {
			t.Errorf("%d builds in the first minute", len(first))
		}
		rest := k.after(11 * time.Minute)
		if n := len(first) + len(rest); n != 20 {
			t.Errorf("%d builds in twelve minutes", n)
		}
	})
}

func TestNothingIsBuiltWhileTheHostIsFull(t *testing.T) {
	bubble(t, func(t *testing.T, k *keeper) {
		id := k.add("shop", 30*time.Minute)
		k.row(id, func(f *store.Freshness) { f.Next = time.Now() })
		k.full = errors.New("8 sandboxes run")
		k.run()
		if got := k.after(time.Hour); len(got) != 0 {
			t.Errorf("built %+v", got)
		}
		k.mu.Lock()
		k.full = nil
		k.mu.Unlock()
		if got := k.after(2 * time.Minute); len(got) != 1 {
			t.Errorf("when there is room: %+v", got)
		}
	})
}

func TestOldSnapshotIsAskedFor(t *testing.T) {
	bubble(t, func(t *testing.T, k *keeper) {
		good, failing, never := k.add("good", 12*time.Hour), k.add("failing", 12*time.Hour), k.add("never", 0)
		for _, id := range []core.EnvironmentID{good, failing} {
			k.row(id, func(f *store.Freshness) { f.Next = time.Now().Add(10 * time.Hour) })
		}
		k.row(failing, func(f *store.Freshness) { f.Failures = 3 })
		k.run()
		for id, want := range map[core.EnvironmentID]bool{good: true, failing: false, never: false} {
			if coming, err := k.r.Wanted(t.Context(), id); err != nil || coming != want {
				t.Errorf("%s is coming: %v, error %v", id, coming, err)
			}
		}
		if got := k.after(time.Minute); len(got) != 1 || got[0].name != "good" || got[0].why != environment.WhyOld {
			t.Errorf("built %+v", got)
		}
	})
}

func TestPinIsKeptUntilTheBranchMoves(t *testing.T) {
	bubble(t, func(t *testing.T, k *keeper) {
		id := k.add("shop", 30*time.Minute)
		k.row(id, func(f *store.Freshness) { f.Head, f.Pinned, f.PinnedAt, f.Next = "a", "snp_1", time.Now(), time.Time{} })
		k.run()
		if got := k.after(5 * time.Hour); len(got) != 0 {
			t.Errorf("pinned, and built %+v", got)
		}
		k.heads["shop"] = "b"
		if got := k.after(10 * time.Minute); len(got) != 1 || got[0].why != environment.WhyPush {
			t.Errorf("after a push: %+v", got)
		}
	})
}

// The states, as people see them.
func TestHowAnEnvironmentStands(t *testing.T) {
	now := time.Now().UTC()
	env := core.Environment{Name: "shop", DefaultBranch: "main", Snapshot: "snp_1", Created: now.Add(-240 * time.Hour)}
	snap := &core.Snapshot{Commit: "a", Created: now.Add(-10 * time.Minute)}
	good := store.Freshness{Refresh: time.Hour, Head: "a", Checked: now.Add(-10 * time.Minute), Next: now.Add(50 * time.Minute), Why: "interval"}
	for name, c := range map[string]struct {
		change   func(*core.Environment, *store.Freshness, *core.Snapshot)
		building core.BuildID
		state    core.EnvironmentState
		why      string
		since    time.Duration
		old      bool
	}{
		"good": {state: core.EnvironmentFresh},
		"not for long": {state: core.EnvironmentFresh, change: func(_ *core.Environment, f *store.Freshness, _ *core.Snapshot) {
			f.Checked = now.Add(-119 * time.Minute)
		}},
		"no build": {state: core.EnvironmentStale, why: "3h", since: time.Hour, change: func(_ *core.Environment, f *store.Freshness, s *core.Snapshot) {
			f.Checked = now.Add(-3 * time.Hour)
			s.Created = f.Checked
		}},
		"never by self": {state: core.EnvironmentFresh, change: func(_ *core.Environment, f *store.Freshness, s *core.Snapshot) {
			f.Refresh = 0
			f.Checked = now.Add(-72 * time.Hour)
			s.Created = f.Checked
		}},
		"moved": {state: core.EnvironmentStale, why: "main has moved on to b", since: time.Minute, change: func(_ *core.Environment, f *store.Freshness, _ *core.Snapshot) {
			f.Head, f.HeadSeen = "b", now.Add(-time.Minute)
		}},
		"nothing yet": {state: core.EnvironmentStale, why: "no good build", since: 240 * time.Hour, change: func(e *core.Environment, _ *store.Freshness, _ *core.Snapshot) { e.Snapshot = "" }},
		"failing": {state: core.EnvironmentFailing, why: "2 builds in a row failed: it broke", change: func(_ *core.Environment, f *store.Freshness, _ *core.Snapshot) {
			f.Failures, f.Failure = 2, &core.Failure{Message: "it broke"}
		}},
		"building": {state: core.EnvironmentBuilding, why: "bld_1", building: "bld_1", since: time.Minute, change: func(_ *core.Environment, f *store.Freshness, _ *core.Snapshot) {
			f.Failures, f.Head, f.HeadSeen = 1, "b", now.Add(-time.Minute)
		}},
		"pinned": {state: core.EnvironmentPinned, why: "alice went back", change: func(_ *core.Environment, f *store.Freshness, _ *core.Snapshot) {
			f.Pinned, f.PinnedBy, f.Head = "snp_1", "alice", "b"
		}},
		"old": {state: core.EnvironmentFresh, old: true, change: func(_ *core.Environment, _ *store.Freshness, s *core.Snapshot) {
			s.Created = now.Add(-8 * 24 * time.Hour)
		}},
		"may be old": {state: core.EnvironmentFresh, change: func(_ *core.Environment, f *store.Freshness, s *core.Snapshot) {
			f.MaxAge, s.Created = -1, now.Add(-8*24*time.Hour)
		}},
		"old sooner": {state: core.EnvironmentFresh, old: true, change: func(_ *core.Environment, f *store.Freshness, _ *core.Snapshot) { f.MaxAge = time.Minute }},
	} {
		e, f, s := env, good, *snap
		if c.change != nil {
			c.change(&e, &f, &s)
		}
		got := environment.Judge(e, f, &s, c.building, 7*24*time.Hour, now)
		since := time.Duration(0)
		if !got.StaleSince.IsZero() {
			since = now.Sub(got.StaleSince)
		}
		if got.State != c.state || !strings.Contains(got.Why, c.why) || since != c.since || got.Old != c.old {
			t.Errorf("%s: %+v, stale for %s", name, got, since)
		}
	}
}

func (w *world) freshness() core.Freshness {
	w.t.Helper()
	f := w.env().Freshness
	if f == nil {
		w.t.Fatal("the environment is shown without how it stands")
	}
	return *f
}

// What builds write is what people see, and the next build is planned by.
func TestBuildsPlanTheNext(t *testing.T) {
	w := newWorld(t)
	commit := w.commit(map[string]string{"drydock.yaml": "base: debian:bookworm\nrefresh: 1h\nmax_age: 2d\n"})
	before := time.Now()
	b := w.build(environment.BuildRequest{By: core.Author{Handle: "alice"}})
	f := w.freshness()
	if f.State != core.EnvironmentFresh || f.Refresh != time.Hour || f.MaxAge != 48*time.Hour || f.Head != commit || f.Commit != commit || f.Made.IsZero() ||
		f.NextWhy != environment.WhyInterval || f.Next.Before(before.Add(53*time.Minute)) || f.Next.After(time.Now().Add(67*time.Minute)) {
		t.Errorf("after a good build: %+v", f)
	}
	if b.By != "alice" || b.Why != "" {
		t.Errorf("the build is of %q because %q", b.By, b.Why)
	}
	// Something else that breaks says nothing of the branch.
	w.run("checkout", "-q", "-b", "other")
	w.commit(map[string]string{"drydock.yaml": "base: debian:bookworm\nsetup: exit 1\n"})
	w.run("checkout", "-q", "main")
	if b := w.build(environment.BuildRequest{Name: "shop", Ref: "other"}); b.State != core.BuildFailed {
		t.Errorf("%+v", b)
	}
	if f := w.freshness(); f.State != core.EnvironmentFresh || f.NextWhy != environment.WhyInterval {
		t.Errorf("after another branch failed: %+v", f)
	}
	w.commit(map[string]string{"drydock.yaml": "base: debian:bookworm\nrefresh: 1h\nsetup: exit 1\n"})
	for i := range 2 {
		if b := w.build(environment.BuildRequest{Name: "shop"}); b.State != core.BuildFailed {
			t.Errorf("%+v", b)
		}
		f = w.freshness()
		wait := time.Hour << i
		if f.State != core.EnvironmentFailing || f.Failures != i+1 || f.Failure == nil || f.Failure.Code != "setup_failed" || f.NextWhy != environment.WhyRetry ||
			f.StaleSince.IsZero() || time.Until(f.Next) < wait*85/100 || time.Until(f.Next) > wait*115/100 {
			t.Errorf("after failure %d: %+v", i+1, f)
		}
	}
	w.commit(map[string]string{"drydock.yaml": "base: debian:bookworm\nrefresh: never\n"})
	w.built(environment.BuildRequest{})
	if f := w.freshness(); f.State != core.EnvironmentFresh || f.Failures != 0 || !f.Next.IsZero() {
		t.Errorf("never by itself: %+v", f)
	}
}

func TestRollback(t *testing.T) {
	w := newWorld(t)
	w.commit(map[string]string{"drydock.yaml": "base: debian:bookworm\n", "code.txt": "1\n"})
	first := w.build(environment.BuildRequest{})
	w.commit(map[string]string{"code.txt": "2\n"})
	second := w.built(environment.BuildRequest{})
	alice := core.Author{Handle: "alice"}
	env, err := w.builder.Rollback(t.Context(), "shop", first.Snapshot, alice)
	if err != nil || env.Snapshot != first.Snapshot || env.Freshness.State != core.EnvironmentPinned || env.Freshness.PinnedBy != "alice" || !env.Freshness.Next.IsZero() {
		t.Fatalf("%+v %+v, error %v", env, env.Freshness, err)
	}
	// What nobody asked for since does not end it; what somebody asks for does.
	w.builder.Finished(t, w.env().ID, second.Snapshot, env.Freshness.PinnedAt.Add(-time.Second))
	if e := w.env(); e.Snapshot != first.Snapshot || e.Freshness.State != core.EnvironmentPinned {
		t.Errorf("after a build that was under way: %+v %+v", e, e.Freshness)
	}
	b := w.built(environment.BuildRequest{})
	if e := w.env(); e.Snapshot != b.Snapshot || e.Freshness.State != core.EnvironmentFresh || b.Snapshot == first.Snapshot {
		t.Errorf("after a build: %+v %+v", e, e.Freshness)
	}
	m := w.launch(environment.LaunchRequest{})
	row, err := m.Freeze(t.Context(), snapshot.Draft{Environment: w.env().ID, Session: "ses_1"}, environment.FreezeOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	for id, kind := range map[core.SnapshotID]core.Kind{core.NewSnapshotID(): core.NotFound, row.ID: core.Invalid} {
		if _, err := w.builder.Rollback(t.Context(), "shop", id, alice); !core.Is(err, kind) {
			t.Errorf("to %s: %v", id, err)
		}
	}
	if _, err := w.snaps.GC(t.Context(), overlay.Request{}); err != nil {
		t.Fatal(err)
	}
	if _, err := w.builder.Rollback(t.Context(), "shop", second.Snapshot, alice); !core.Is(err, core.Conflict) && err != nil {
		t.Errorf("to a removed one: %v", err)
	}
}
