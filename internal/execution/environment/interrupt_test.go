package environment_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"drydock/internal/core"
	"drydock/internal/execution/environment"
	"drydock/internal/execution/environment/recipe"
	"drydock/internal/execution/guest"
	"drydock/internal/execution/sandbox"
	"drydock/internal/execution/sandbox/fake"
	"drydock/internal/execution/snapshot"
	"drydock/internal/store"
)

// memoryWorld is a world whose driver takes memory images, with a build.
func memoryWorld(t *testing.T) (*world, core.Build) {
	t.Helper()
	w := newWorldIn(t, t.TempDir())
	w.newDriver = func() sandbox.Driver { return w.host.Driver(fake.Options{Memory: true, Rest: true}) }
	w.start()
	t.Cleanup(w.stop)
	w.commit(goodRepo())
	b := w.build(environment.BuildRequest{})
	m, err := w.snaps.Get(t.Context(), b.Snapshot)
	if err != nil || m.Memory == nil {
		t.Fatalf("the build left %+v, error %v\n%s", m, err, w.logOf(b.ID))
	}
	return w, b
}

// dies is the death of the daemon and the start of the next one, which keeps
// what sessions have.
func (w *world) dies() {
	w.t.Helper()
	w.stop()
	w.start()
	if err := w.launcher.Recover(w.t.Context(), func(row store.Sandbox) bool { return row.Purpose == environment.PurposeSession }); err != nil {
		w.t.Fatal(err)
	}
	if err := w.snaps.Recover(w.t.Context()); err != nil {
		w.t.Fatal(err)
	}
}

// seen is what a new sandbox of a snapshot finds in its workspace.
func (w *world) seen(id core.SnapshotID, script string) string {
	w.t.Helper()
	m := w.launch(environment.LaunchRequest{Snapshot: id, FilesOnly: true})
	out := w.shell(m, script)
	if err := m.Close(w.t.Context()); err != nil {
		w.t.Fatal(err)
	}
	return out
}

// The daemon dies after the driver let a sandbox go on, and before anybody
// wrote down that it stands on a snapshot now. Nothing is lost, also not in a
// later snapshot of it.
func TestDaemonDiesBeforeCommit(t *testing.T) {
	for _, resume := range []bool{false, true} {
		w, b := memoryWorld(t)
		box := w.launch(environment.LaunchRequest{Snapshot: b.Snapshot, Owner: "ses_aaaaaaaaaaaaaaaaa1"})
		w.shell(box, "echo one >one")
		p, err := w.snaps.Begin(t.Context(), snapshot.Draft{Parent: b.Snapshot, Live: box.From() == environment.FromMemory, Session: "ses_aaaaaaaaaaaaaaaaa1"})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.driver.Freeze(t.Context(), box.ID(), sandbox.FreezeOptions{Into: p.Into, Memory: true, Resume: resume}); err != nil {
			t.Fatal(err)
		}
		if resume {
			w.shell(box, "echo two >two")
		}
		id := box.ID()
		w.dies()
		if row, err := w.db.Snapshot(t.Context(), p.ID); err != nil || row.State == core.SnapshotRemoved {
			t.Fatalf("resume %t: the snapshot on which a sandbox stands is %+v, error %v", resume, row, err)
		}
		box, err = w.launcher.Adopt(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		if resume && box.Parent() != p.ID {
			t.Errorf("it stands on %s, not on %s", box.Parent(), p.ID)
		}
		row, err := box.Freeze(t.Context(), snapshot.Draft{}, environment.FreezeOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if !resume && (row.ID != p.ID || !row.Memory) {
			t.Errorf("finished as %+v", row)
		}
		if first, err := w.db.Snapshot(t.Context(), p.ID); err != nil || first.State != core.SnapshotReady || !first.Memory {
			t.Errorf("resume %t: the snapshot is %+v, error %v", resume, first, err)
		}
		if err := box.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		want := "one"
		if resume {
			want = "one\ntwo"
		}
		if got := w.seen(row.ID, "cat one; if [ -e two ]; then cat two; fi"); got != want {
			t.Errorf("resume %t: in the end there is %q", resume, got)
		}
		w.leftovers()
	}
}

// Whoever asked for a fork walks away in the middle: the snapshot is complete,
// and what the sandbox stands on is known.
func TestWalkingAwayFromAFreeze(t *testing.T) {
	w, b := memoryWorld(t)
	box := w.launch(environment.LaunchRequest{Snapshot: b.Snapshot, Owner: "ses_aaaaaaaaaaaaaaaaa1"})
	w.shell(box, "echo one >one")
	ctx, leave := context.WithCancel(t.Context())
	row, err := box.Freeze(ctx, snapshot.Draft{}, environment.FreezeOptions{Memory: true, Resume: true, Paused: func(time.Duration) { leave() }})
	if err != nil || row.State != core.SnapshotReady || box.Parent() != row.ID {
		t.Errorf("the snapshot is %+v, error %v; the sandbox stands on %s", row, err, box.Parent())
	}
	w.shell(box, "echo two >two")
	last, err := box.Freeze(t.Context(), snapshot.Draft{}, environment.FreezeOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := box.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := w.seen(last.ID, "cat one two"); got != "one\ntwo" {
		t.Errorf("in the end there is %q", got)
	}
	w.leftovers()
}

// Memory is a cache: what goes wrong with it never keeps a sandbox from being
// put away, nor one that is forked from going on.
func TestMemoryThatCannotBeTaken(t *testing.T) {
	w, b := memoryWorld(t)
	box := w.launch(environment.LaunchRequest{Snapshot: b.Snapshot})
	w.shell(box, "echo one >one")
	for _, kind := range []core.Kind{core.Unavailable, core.Exhausted, core.Internal} {
		w.host.Faults.Set(fake.Freeze, fake.Fault{Err: core.E("test", kind, nil, "no memory today"), Times: 1})
		_, err := box.Freeze(t.Context(), snapshot.Draft{}, environment.FreezeOptions{Memory: true, Resume: true})
		if !core.Is(err, kind) {
			t.Errorf("a fork gives %v", err)
		}
		if got := w.shell(box, "cat one"); got != "one" {
			t.Errorf("afterwards it says %q", got)
		}
	}
	if rows, err := w.db.SnapshotsInState(t.Context(), core.SnapshotWriting); err != nil || len(rows) > 0 {
		t.Errorf("snapshots that nobody writes: %+v, error %v", rows, err)
	}
	w.host.Faults.Set(fake.Freeze, fake.Fault{Err: core.E("test", core.Unavailable, nil, "no memory today"), Times: 1})
	var told warnings
	row, err := box.Freeze(t.Context(), snapshot.Draft{}, environment.FreezeOptions{Memory: true, Warn: told.add})
	if err != nil || row.Memory || !told.has(environment.WarnMemoryLost) {
		t.Fatalf("put away as %+v, warned %+v, error %v", row, told, err)
	}
	if err := box.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := w.seen(row.ID, "cat one"); got != "one" {
		t.Errorf("in the end there is %q", got)
	}
	w.leftovers()
}

// Whoever ends a sandbox and is told to end too, ends it all the same.
func TestCloseWhileEverythingEnds(t *testing.T) {
	w, b := memoryWorld(t)
	box := w.launch(environment.LaunchRequest{Snapshot: b.Snapshot})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := box.Close(ctx); err != nil {
		t.Error(err)
	}
	w.leftovers()
}

// pooled is a running pool of the world's one environment.
func (w *world) pooled(opts environment.PoolOptions) (pool *environment.Pool, env core.Environment, stop func()) {
	w.t.Helper()
	rec := w.recipe()
	pool = environment.NewPool(environment.PoolDeps{
		Launcher: w.launcher,
		Environments: func(ctx context.Context) ([]core.Environment, error) {
			list, _, err := w.db.Environments(ctx, core.Page{})
			return list, err
		},
		Recipe: func(context.Context, core.Environment) (recipe.Recipe, error) { return rec, nil },
	}, opts)
	run, cancel := context.WithCancel(w.t.Context())
	over := make(chan struct{})
	go func() { defer close(over); pool.Run(run) }()
	return pool, w.env(), sync.OnceFunc(func() { cancel(); <-over })
}

func (w *world) waits(pool *environment.Pool, env core.EnvironmentID, n int) {
	w.t.Helper()
	for deadline := time.Now().Add(time.Minute); pool.Counts()[env] != n; {
		if time.Now().After(deadline) {
			w.t.Fatalf("%d sandboxes wait, not %d", pool.Counts()[env], n)
		}
		<-time.After(5 * time.Millisecond)
	}
}

func (w *world) claim(b core.Build, draft core.DraftID) *environment.Machine {
	w.t.Helper()
	rec := w.recipe()
	return w.launch(environment.LaunchRequest{
		Snapshot: b.Snapshot, Recipe: &rec, Limits: rec.Limits, Owner: string(core.NewSessionID()), Environment: w.env().ID, Draft: draft, Policy: &core.NetworkPolicy{},
	})
}

// Ten launches at once take three warm sandboxes: each is one session's alone,
// and everybody gets one.
func TestPoolClaimsRace(t *testing.T) {
	w, b := memoryWorld(t)
	pool, env, stop := w.pooled(environment.PoolOptions{Max: 3, Min: 3})
	defer stop()
	w.waits(pool, env.ID, 3)
	const n = 10
	var mu sync.Mutex
	var wg sync.WaitGroup
	seen, warm := map[core.SandboxID]bool{}, 0
	boxes := make([]*environment.Machine, n)
	for i := range n {
		wg.Go(func() {
			box := w.claim(b, "")
			mu.Lock()
			defer mu.Unlock()
			if boxes[i] = box; seen[box.ID()] {
				t.Errorf("sandbox %s was given to two", box.ID())
			}
			seen[box.ID()] = true
			if box.From() == environment.FromWarm {
				warm++
			}
		})
	}
	wg.Wait()
	if warm < 3 {
		t.Errorf("%d of the launches took a warm one", warm)
	}
	stop() // it gives back what is left, and nothing else
	for _, box := range boxes {
		if got := w.shell(box, "echo mine"); got != "mine" {
			t.Errorf("a sandbox says %q", got)
		}
		if err := box.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
	w.leftovers()
}

// A warm sandbox dies while it waits: who asks gets another.
func TestWarmSandboxDies(t *testing.T) {
	w, b := memoryWorld(t)
	pool, env, stop := w.pooled(environment.PoolOptions{Max: 1, Min: 1})
	defer stop()
	w.waits(pool, env.ID, 1)
	dead := w.warm()
	w.host.Kill(dead)
	box := w.claim(b, "")
	if box.ID() == dead || w.shell(box, "cat code.txt") != "code" {
		t.Errorf("got %s, from %s", box.ID(), box.From())
	}
	if err := box.Close(t.Context()); err != nil {
		t.Error(err)
	}
	stop()
	w.leftovers()
}

// Whoever takes a warm sandbox at the moment in which the pool brings it to rest
// can work in it: the pool does not stop what is no longer its own.
func TestTakenWhileItIsBroughtToRest(t *testing.T) {
	for _, slow := range []fake.Op{fake.Status, fake.Rest} { // looking at it, bringing it to rest
		w, b := memoryWorld(t)
		pool, env, stop := w.pooled(environment.PoolOptions{Max: 1, Min: 1, Settle: time.Nanosecond})
		defer stop()
		until := make(chan struct{})
		w.host.Faults.Set(slow, fake.Fault{Hang: true, Until: until, Times: 1})
		before := w.host.Faults.Count(slow)
		for deadline := time.Now().Add(time.Minute); w.host.Faults.Count(slow) == before; pool.Wake() {
			if time.Now().After(deadline) {
				t.Fatalf("the pool does not %s", slow)
			}
			<-time.After(time.Millisecond)
		}
		claimed := make(chan *environment.Machine, 1)
		go func() { claimed <- w.claim(b, "") }()
		var box *environment.Machine
		select { // it may have to wait for the pool
		case box = <-claimed:
		case <-time.After(time.Second):
		}
		close(until)
		if box == nil {
			box = <-claimed
		}
		w.waits(pool, env.ID, 1) // the pool is done with all that it has seen before
		if got := w.answer(box, "echo mine"); got != "mine" || box.From() != environment.FromWarm {
			t.Errorf("slow %s: the sandbox, from %s, says %q", slow, box.From(), got)
		}
		if err := box.Close(t.Context()); err != nil {
			t.Error(err)
		}
		stop()
		w.leftovers()
	}
}

// A warm sandbox rests; it is awake for whoever takes it.
func TestWarmSandboxRests(t *testing.T) {
	w, b := memoryWorld(t)
	pool, env, stop := w.pooled(environment.PoolOptions{Max: 1, Min: 1, Settle: time.Nanosecond})
	defer stop()
	w.waits(pool, env.ID, 1)
	first := w.warm()
	m, _ := w.launcher.Machine(first)
	for deadline := time.Now().Add(time.Minute); w.answer(m, "echo awake") == "awake"; pool.Wake() {
		if time.Now().After(deadline) {
			t.Fatal("a warm sandbox does not rest")
		}
	}
	box := w.claim(b, "")
	if got := w.answer(box, "echo mine"); got != "mine" || box.ID() != first {
		t.Errorf("the sandbox that was taken is %s, not %s, and says %q", box.ID(), first, got)
	}
	if err := box.Close(t.Context()); err != nil {
		t.Error(err)
	}
	stop()
	w.leftovers()
}

// answer is what a sandbox says, or "" where it says nothing in time.
func (w *world) answer(m *environment.Machine, script string) string {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), 2*time.Second)
	defer cancel()
	res, err := m.Guest().Run(ctx, guest.Command{Argv: []string{"sh", "-ec", script}})
	if err != nil && ctx.Err() == nil {
		w.t.Fatal(err)
	}
	return strings.TrimSpace(string(res.Stdout))
}

// warm is the one sandbox that waits.
func (w *world) warm() core.SandboxID {
	w.t.Helper()
	rows, err := w.db.LiveSandboxes(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	for _, row := range rows {
		if row.Purpose == environment.PurposeWarm {
			return row.ID
		}
	}
	w.t.Fatal("no sandbox waits")
	return ""
}

// The environment gets another snapshot while one waits. Who was faster than
// the pool keeps the sandbox; the pool takes away only what is still its own.
func TestSnapshotChangesUnderThePool(t *testing.T) {
	w, b := memoryWorld(t)
	pool, env, stop := w.pooled(environment.PoolOptions{Max: 1, Min: 1})
	defer stop()
	w.waits(pool, env.ID, 1)
	// The pool looks whether its sandbox is still of use, and is slow at it.
	until := make(chan struct{})
	w.host.Faults.Set(fake.Status, fake.Fault{Hang: true, Until: until, Times: 1})
	before := w.host.Faults.Count(fake.Status)
	pool.Wake()
	for w.host.Faults.Count(fake.Status) == before {
		<-time.After(time.Millisecond)
	}
	box := w.claim(b, "")
	w.commit(map[string]string{"code.txt": "newer\n"})
	next := w.build(environment.BuildRequest{Name: "shop"})
	close(until)
	if next.Snapshot == b.Snapshot {
		t.Fatalf("built %+v", next)
	}
	for deadline := time.Now().Add(time.Minute); ; {
		if m := w.warmParent(); m == next.Snapshot {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("no sandbox of the new snapshot waits")
		}
		pool.Wake()
		<-time.After(10 * time.Millisecond)
	}
	if got := w.shell(box, "cat code.txt"); got != "code" {
		t.Errorf("the sandbox that was taken says %q", got)
	}
	if err := box.Close(t.Context()); err != nil {
		t.Error(err)
	}
	stop()
	w.leftovers()
}

// warmParent is the snapshot of the one sandbox that waits, if one does.
func (w *world) warmParent() core.SnapshotID {
	w.t.Helper()
	rows, err := w.db.LiveSandboxes(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	for _, row := range rows {
		if m, ok := w.launcher.Machine(row.ID); ok && row.Purpose == environment.PurposeWarm {
			return m.Parent()
		}
	}
	return ""
}

func TestDrafts(t *testing.T) {
	w, b := memoryWorld(t)
	pool, env, stop := w.pooled(environment.PoolOptions{Max: 1, Min: 1, Draft: 200 * time.Millisecond})
	defer stop()
	w.waits(pool, env.ID, 1)
	first := w.warm()
	// One that nobody comes back to gives its sandbox back by itself.
	if _, _, kept := pool.Draft(env); !kept {
		t.Fatal("nothing was kept")
	}
	for deadline := time.Now().Add(time.Minute); ; {
		pool.Wake()
		if _, ok := w.launcher.Machine(first); ok && pool.Counts()[env.ID] >= 1 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the draft does not end")
		}
		<-time.After(10 * time.Millisecond)
	}
	stop()
	w.leftovers()

	pool, env, stop = w.pooled(environment.PoolOptions{Max: 1, Min: 1})
	defer stop()
	w.waits(pool, env.ID, 1)
	id, _, kept := pool.Draft(env)
	if !kept {
		t.Fatal("nothing was kept")
	}
	// Another snapshot than the draft's: it does not fit, and is not lost.
	old := w.seen(b.Snapshot, "echo files")
	box := w.launch(environment.LaunchRequest{Snapshot: b.Snapshot, Owner: string(core.NewSessionID()), Draft: id, Limits: core.Limits{Memory: 1 << 30}})
	if box.From() == environment.FromWarm || old != "files" {
		t.Errorf("a draft with other limits was used: from %s", box.From())
	}
	if err := box.Close(t.Context()); err != nil {
		t.Error(err)
	}
	w.waits(pool, env.ID, 1)
	// Used once, it is gone.
	id, _, _ = pool.Draft(env)
	one := w.claim(b, id)
	two := w.claim(b, id)
	if one.From() != environment.FromWarm || one.ID() == two.ID() {
		t.Errorf("one draft gave %s (%s) and %s (%s)", one.ID(), one.From(), two.ID(), two.From())
	}
	if err := pool.Return(id); !core.Is(err, core.NotFound) {
		t.Errorf("a used draft is returned: %v", err)
	}
	// The daemon ends while a draft holds one, and while another is made.
	_, _, _ = pool.Draft(env)
	stop()
	if id, _, kept := pool.Draft(env); kept || pool.Return(id) == nil {
		t.Error("a closed pool keeps a draft")
	}
	for _, m := range []*environment.Machine{one, two} {
		if err := m.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
	w.leftovers()
}

// What waited in the pool when the daemon was killed is gone after the next
// start; what a session had taken stays.
func TestPoolOfADeadDaemon(t *testing.T) {
	w, b := memoryWorld(t)
	pool, env, stop := w.pooled(environment.PoolOptions{Max: 2, Min: 2})
	defer stop()
	w.waits(pool, env.ID, 2)
	box := w.claim(b, "")
	w.shell(box, "echo work >work")
	w.waits(pool, env.ID, 2)
	id := box.ID()
	warm := w.warm()
	w.dies() // the pool of before knows nothing of it
	rows, err := w.db.LiveSandboxes(t.Context())
	if err != nil || len(rows) != 1 || rows[0].ID != id {
		t.Errorf("left: %+v, error %v", rows, err)
	}
	if ids, err := w.driver.List(t.Context()); err != nil || len(ids) != 1 || ids[0] != id {
		t.Errorf("left of %s and others: %v, error %v", warm, ids, err)
	}
	box, err = w.launcher.Adopt(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	if got := w.shell(box, "cat work"); got != "work" || box.From() != environment.FromWarm {
		t.Errorf("the adopted one, from %s, says %q", box.From(), got)
	}
	if err := box.Close(t.Context()); err != nil {
		t.Error(err)
	}
	w.leftovers()
}

// What a death between two steps leaves in the place of a snapshot is neither
// kept forever nor taken from a sandbox that needs it.
func TestHalfWrittenSnapshots(t *testing.T) {
	w, b := memoryWorld(t)
	p, err := w.snaps.Begin(t.Context(), snapshot.Draft{Parent: b.Snapshot})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(p.Into, "image.new"), 0o700); err != nil {
		t.Fatal(err)
	}
	live, err := w.snaps.BeginMemory(t.Context(), b.Snapshot)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(live.Into, "image.new"), 0o700); err != nil {
		t.Fatal(err)
	}
	w.dies()
	for _, dir := range []string{p.Into, live.Into} {
		if _, err := os.Lstat(dir); err == nil {
			t.Errorf("%s is left", strings.TrimPrefix(dir, w.dir))
		}
	}
	if m, err := w.snaps.Get(t.Context(), b.Snapshot); err != nil || m.Memory != nil {
		t.Errorf("the snapshot has memory %+v, error %v", m.Memory, err)
	}
	if got := w.seen(b.Snapshot, "cat code.txt"); got != "code" {
		t.Errorf("it says %q", got)
	}
}
