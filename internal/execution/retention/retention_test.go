package retention_test

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"drydock/internal/core"
	"drydock/internal/execution/retention"
	"drydock/internal/execution/snapshot"
	"drydock/internal/execution/snapshot/overlay"
	"drydock/internal/store"
)

type world struct {
	t  *testing.T
	db *store.DB
	n  int
}

func newWorld(t *testing.T) *world {
	t.Helper()
	db, err := store.Open(t.Context(), store.Options{Path: filepath.Join(t.TempDir(), "db")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return &world{t: t, db: db}
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) environment(name string, snap core.SnapshotID) core.Environment {
	w.t.Helper()
	e := core.Environment{ID: core.NewEnvironmentID(), Name: name, Source: "/" + name, Snapshot: snap, Created: time.Now(), Updated: time.Now()}
	w.must(w.db.CreateEnvironment(w.t.Context(), e))
	return e
}

func (w *world) build(e core.Environment, state core.BuildState, snap core.SnapshotID) {
	w.t.Helper()
	w.n++
	b := core.Build{ID: core.BuildID(fmt.Sprintf("bld_%018d", w.n)), Environment: e.ID, State: core.BuildQueued, Created: time.Now()}
	w.must(w.db.CreateBuild(w.t.Context(), b))
	for _, s := range []core.BuildState{core.BuildRunning, state} {
		_, err := w.db.UpdateBuild(w.t.Context(), b.ID, func(b *core.Build) error {
			b.State, b.Snapshot, b.Finished = s, snap, time.Now()
			return nil
		})
		w.must(err)
	}
}

func (w *world) session(e core.Environment, state core.SessionState, snap core.SnapshotID) core.SessionID {
	w.t.Helper()
	s := core.Session{ID: core.NewSessionID(), Environment: e.ID, State: state, Snapshot: snap, Created: time.Now(), Updated: time.Now()}
	err := w.db.CreateSession(w.t.Context(), s, "")
	w.must(err)
	return s.ID
}

func (w *world) uses(p retention.Policy, later time.Duration) map[core.SnapshotID]snapshot.Use {
	w.t.Helper()
	list, err := retention.Uses(w.t.Context(), w.db, p, time.Now().Add(later))
	w.must(err)
	out := map[core.SnapshotID]snapshot.Use{}
	for _, u := range list {
		out[u.Snapshot] = u
	}
	return out
}

func snap(n int) core.SnapshotID { return core.SnapshotID(fmt.Sprintf("snp_%018d", n)) }

func TestTheLastGoodBuildsStay(t *testing.T) {
	w := newWorld(t)
	e := w.environment("shop", snap(5))
	for i := 1; i <= 5; i++ {
		w.build(e, core.BuildDone, snap(i))
		w.build(e, core.BuildFailed, "")
	}
	_, err := w.db.UpdateFreshness(t.Context(), e.ID, func(f *store.Freshness) error {
		f.Pinned, f.PinnedBy = snap(1), "alice"
		return nil
	})
	w.must(err)
	got := w.uses(retention.Default(), 0)
	kept := map[core.SnapshotID]string{}
	for id, u := range got {
		kept[id] = fmt.Sprintf("memory %v, spare %v", u.Memory, u.Spare)
	}
	want := map[core.SnapshotID]string{
		snap(5): "memory true, spare false", // the current one
		snap(4): "memory true, spare true",  // to go back to at once
		snap(3): "memory false, spare true",
		snap(1): "memory false, spare false", // pinned
	}
	if fmt.Sprint(kept) != fmt.Sprint(want) {
		t.Errorf("kept %v\nwant %v", kept, want)
	}
	if !strings.Contains(got[snap(3)].By, "one of its last 3 good builds") {
		t.Errorf("reason %q", got[snap(3)].By)
	}
}

func TestSessionsKeepTheirFilesByAge(t *testing.T) {
	w := newWorld(t)
	e := w.environment("shop", "")
	w.session(e, core.SessionRunning, snap(1))
	idle := w.session(e, core.SessionIdle, snap(2))
	w.session(e, core.SessionArchived, snap(3))
	p, day := retention.Default(), 24*time.Hour
	if got := w.uses(p, time.Hour); len(got) != 3 || !got[snap(3)].Spare || got[snap(2)].Spare || got[snap(1)].Last.IsZero() != true {
		t.Errorf("after an hour: %v", got)
	}
	if got := w.uses(p, 2*day); len(got) != 2 || got[snap(3)].By != "" {
		t.Errorf("after two days: %v", got)
	}
	// Before its time, and of one that works, nothing is let go.
	gone, err := retention.Expire(t.Context(), w.db, p, time.Now().Add(29*day))
	if err != nil || len(gone) > 0 {
		t.Errorf("too early: %v, error %v", gone, err)
	}
	gone, err = retention.Expire(t.Context(), w.db, p, time.Now().Add(31*day))
	if err != nil || len(gone) != 1 || gone[0].ID != idle || gone[0].Snapshot != snap(2) {
		t.Errorf("expired %v, error %v", gone, err)
	}
	s, err := w.db.Session(t.Context(), idle)
	if err != nil || s.Snapshot != "" || s.State != core.SessionIdle {
		t.Errorf("session %+v, error %v", s, err)
	}
	if got := w.uses(p, 31*day); len(got) != 1 || got[snap(1)].By == "" {
		t.Errorf("at the end: %v", got)
	}
}

// store of snapshots that writes down what it is asked.
type fakeSnapshots struct {
	mu    sync.Mutex
	asked []overlay.Request
	busy  int
	most  int
	frees int64
	used  int64
}

func (f *fakeSnapshots) GC(ctx context.Context, req overlay.Request) (overlay.Collected, error) {
	f.mu.Lock()
	f.asked = append(f.asked, req)
	f.busy++
	f.most = max(f.most, f.busy)
	f.mu.Unlock()
	select {
	case <-time.After(5 * time.Second):
	case <-ctx.Done():
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.busy--
	return overlay.Collected{Bytes: f.frees}, ctx.Err()
}

func (f *fakeSnapshots) Usage(context.Context) (overlay.Usage, error) {
	return overlay.Usage{Bytes: f.used}, nil
}

func (f *fakeSnapshots) times() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.asked)
}

func TestCollectsAtAnIntervalAndWhenKicked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeSnapshots{}
		c := retention.New(retention.Deps{Snapshots: f}, retention.Options{})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- c.Run(ctx) }()
		<-time.After(8 * time.Minute)
		if n := f.times(); n != 0 {
			t.Errorf("%d collections before the interval", n)
		}
		<-time.After(4 * time.Minute)
		if n := f.times(); n != 1 {
			t.Errorf("%d collections after the interval", n)
		}
		for range 5 {
			c.Kick()
		}
		var wg sync.WaitGroup
		for range 3 {
			wg.Go(func() { _, _ = c.Collect(ctx, true) })
		}
		wg.Wait()
		<-time.After(time.Minute)
		if n := f.times(); n < 5 || f.most != 1 {
			t.Errorf("%d collections, %d at once", n, f.most)
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

func TestCollectsWhenTheDiskIsShort(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeSnapshots{frees: 1 << 30}
		free := int64(100 << 30)
		var steps []string
		c := retention.New(retention.Deps{
			Snapshots: f, Disk: func() (int64, int64, error) { return free, 200 << 30, nil },
			After: []retention.Step{{Name: "blobs", Seldom: true, Do: func(_ context.Context, _ bool, want int64) (int64, error) {
				steps = append(steps, fmt.Sprint(want>>30))
				return 0, nil
			}}},
		}, retention.Options{Interval: 100 * time.Hour})
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go func() { _ = c.Run(ctx) }()
		<-time.After(10*time.Minute + time.Second)
		if f.times() != 0 {
			t.Error("collected although there is room")
		}
		free = 7 << 30 // a twentieth is 10 GiB
		<-time.After(time.Minute + 10*time.Second)
		if f.times() == 0 || f.asked[0].Want != 3<<30 {
			t.Errorf("asked %+v, want 3 GiB", f.asked)
		}
		if !slices.Equal(steps, []string{"2"}) {
			t.Errorf("the other steps were asked for %v GiB", steps)
		}
		// A bound of all snapshots is a shortage too.
		free = 100 << 30
		f.used = 50 << 30
		if got := retention.New(retention.Deps{Snapshots: f}, retention.Options{Max: 40 << 30}).Short(ctx); got != 10<<30 {
			t.Errorf("short of %d", got)
		}
	})
}
