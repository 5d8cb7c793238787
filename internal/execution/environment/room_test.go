package environment_test

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"drydock/internal/core"
	"drydock/internal/execution/environment"
)

// A host without room: a build stays queued, says why once, and starts by
// itself when there is room.
func TestABuildWaitsForRoom(t *testing.T) {
	w := newWorldIn(t, t.TempDir())
	var full atomic.Bool
	asked := make(chan struct{}, 100)
	full.Store(true)
	w.room = func(context.Context) (bool, string) {
		select {
		case asked <- struct{}{}:
		default:
		}
		return !full.Load(), "disk: only 1 GiB left"
	}
	w.start()
	t.Cleanup(w.stop)
	w.commit(goodRepo())
	b, err := w.builder.Build(t.Context(), environment.BuildRequest{Source: w.repo})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 { // when it came, and again later
		<-asked
	}
	if now, err := w.db.Build(t.Context(), b.ID); err != nil || now.State != core.BuildQueued {
		t.Errorf("without room the build is %s (%v)", now.State, err)
	}
	full.Store(false)
	if b = w.wait(b.ID); b.State != core.BuildDone {
		t.Errorf("the build ended %s: %+v", b.State, b.Failure)
	}
	told := 0
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, e := range w.events {
		if e.Kind == core.EventWarning && strings.Contains(string(e.Data), "the build waits for disk: only 1 GiB left") {
			told++
		}
	}
	if told != 1 {
		t.Errorf("it said %d times why it waits", told)
	}
}

// A daemon ends while a build waits for room: the build is queued at the next
// start.
func TestABuildThatWaitsForRoomSurvivesARestart(t *testing.T) {
	w := newWorldIn(t, t.TempDir())
	w.room = func(context.Context) (bool, string) { return false, "memory: needs 256 MiB" }
	w.start()
	w.commit(goodRepo())
	b, err := w.builder.Build(t.Context(), environment.BuildRequest{Source: w.repo})
	if err != nil {
		t.Fatal(err)
	}
	w.stop()
	w.room = nil
	w.start()
	t.Cleanup(w.stop)
	if err := w.builder.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if b = w.wait(b.ID); b.State != core.BuildDone {
		t.Errorf("the build ended %s: %+v", b.State, b.Failure)
	}
}

// Every sandbox is asked for before it starts, with its limits, and given back
// when it is gone or did not start.
func TestSandboxesAreAdmittedAndGivenBack(t *testing.T) {
	w := newWorldIn(t, t.TempDir())
	var mu sync.Mutex
	inside := map[core.SandboxID]environment.AdmitRequest{}
	refuse := false
	w.admit = func(_ context.Context, req environment.AdmitRequest) (func(), error) {
		mu.Lock()
		defer mu.Unlock()
		if refuse {
			return nil, core.E("test", core.Unavailable, nil, "no room")
		}
		inside[req.ID] = req
		return func() {
			mu.Lock()
			defer mu.Unlock()
			delete(inside, req.ID)
		}, nil
	}
	w.places = map[string]int{environment.PurposeProof: 1}
	w.start()
	t.Cleanup(w.stop)
	w.commit(goodRepo())
	if b := w.build(environment.BuildRequest{}); b.State != core.BuildDone {
		t.Fatalf("build: %+v", b.Failure)
	}
	if len(inside) != 0 {
		t.Errorf("after a build: %v", inside)
	}
	req := environment.LaunchRequest{
		Snapshot: w.env().Snapshot, Purpose: environment.PurposeProof, Owner: "run_1", Limits: core.Limits{Memory: 512 << 20},
	}
	m, err := w.launcher.Launch(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	if got := inside[m.ID()]; len(inside) != 1 || got.Purpose != "proof" || got.Owner != "run_1" || got.Limits.Memory != 512<<20 {
		t.Errorf("asked for %+v", inside)
	}
	if err := m.Close(t.Context()); err != nil || len(inside) != 0 {
		t.Errorf("after it was closed: %v (%v)", inside, err)
	}
	refuse = true
	for range 2 { // the place is given back, too
		if _, err := w.launcher.Launch(t.Context(), req); !core.Is(err, core.Unavailable) {
			t.Errorf("without room: %v", err)
		}
	}
	refuse, req.Snapshot = false, core.NewSnapshotID()
	if _, err := w.launcher.Launch(t.Context(), req); err == nil || len(inside) != 0 {
		t.Errorf("a sandbox that did not start: %v, %v", err, inside)
	}
}
