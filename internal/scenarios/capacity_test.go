package scenarios

import (
	"strings"
	"sync"
	"testing"
	"time"

	"drydock/internal/core"
	"drydock/internal/daemon"
	"drydock/internal/execution/capacity"
	"drydock/internal/surface/api"
	"drydock/internal/surface/client"
	"drydock/internal/testkit"
)

// TestAFullHost takes a daemon through a full disk, and then through a host
// with memory for one session, whose proof has to get in all the same.
func TestAFullHost(t *testing.T) {
	const gib = int64(1) << 30
	var mu sync.Mutex
	host := capacity.Host{
		Memory: capacity.Amount{Total: 16 * gib, Free: 12 * gib}, Disk: capacity.Amount{Total: 100 * gib, Free: 50 * gib}, Processors: 4,
	}
	set := func(change func(*capacity.Host)) {
		mu.Lock()
		defer mu.Unlock()
		change(&host)
	}
	d := testkit.Start(t, testkit.Options{Script: scripts(mendHello()), MaxSessions: 4, Change: func(o *daemon.Options) {
		o.Capacity = capacity.Options{MemoryReserve: gib, DiskReserve: 10 * gib}
		o.Host = func() (capacity.Host, error) {
			mu.Lock()
			defer mu.Unlock()
			return host, nil
		}
	}})
	env := d.BuildEnvironment(t, tinyRepo(t, nil))
	c := d.Client(t, "ana")
	start := func() api.CreatedSession {
		s, err := c.CreateSession(t.Context(), api.CreateSession{Environment: env.Name, Prompt: "Mend the greeting"})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}

	set(func(h *capacity.Host) { h.Disk.Free = 4 * gib })
	waitFor(t, c, func(v api.Capacity) bool { return v.State == "full: disk" })
	one := start()
	v := waitFor(t, c, func(v api.Capacity) bool { return v.Queued == 1 })
	if v.Running != 0 || !strings.Contains(v.Reason, "only 4 GiB left (reserve 10 GiB)") || !strings.Contains(v.Hint, "snapshot gc") {
		t.Errorf("a full disk is told as %+v", v)
	}
	got, err := c.Session(t.Context(), one.Session.ID)
	if want := "waits for disk: the disk of the state directory has only 4 GiB left (reserve 10 GiB): place 1 of 1"; err != nil || got.Reason != want || got.State != core.SessionQueued {
		t.Errorf("the session is %s (%s), %v; want %s", got.State, got.Reason, err, want)
	}
	build, err := c.CreateBuild(t.Context(), api.CreateBuild{Name: env.Name})
	if err != nil {
		t.Fatal(err)
	}
	set(func(h *capacity.Host) { h.Disk.Free = 50 * gib })
	if end := testkit.Await(t, c, one.Session.ID, one.Prompt.ID); end.Run.Verdict != "proven" {
		t.Errorf("after there was room: %s %s", end.Run.State, end.Run.Outcome)
	}
	for e, err := range c.BuildEvents(t.Context(), build.ID, 0) {
		if err != nil {
			t.Fatal(err)
		}
		if e.Kind != core.EventBuildState {
			continue
		}
		if state := testkit.Data[core.BuildData](t, e); core.BuildTable.Final(state.State) {
			if state.State != core.BuildDone {
				t.Errorf("the build ended %s: %+v", state.State, state.Failure)
			}
			break
		}
	}

	// 300 MiB can be given out: one session, and nothing for its proof.
	set(func(h *capacity.Host) { h.Memory.Free = gib + 300<<20 })
	waitFor(t, c, func(v api.Capacity) bool { return v.Memory.Free <= 300<<20 })
	two, three := start(), start()
	full := waitFor(t, c, func(v api.Capacity) bool { return v.Running == 1 && v.Queued == 1 })
	if full.State != "full: memory" {
		t.Errorf("with one session: %+v", full)
	}
	for _, s := range []api.CreatedSession{two, three} {
		if end := testkit.Await(t, c, s.Session.ID, s.Prompt.ID); end.Run.Verdict != "proven" {
			t.Errorf("on a full host: %s %s", end.Run.State, end.Run.Outcome)
		}
	}
	waitFor(t, c, func(v api.Capacity) bool { return v.State == "open" && v.Running == 0 && v.Busy == 0 })
}

// waitFor asks until the capacity is as wanted.
func waitFor(t *testing.T, c *client.Client, ok func(api.Capacity) bool) api.Capacity {
	t.Helper()
	deadline := time.After(time.Minute)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		v, err := c.Capacity(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if ok(v) {
			return v
		}
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("the capacity is %+v", v)
		}
	}
}
