package environment_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"drydock/internal/core"
	"drydock/internal/execution/environment"
	"drydock/internal/execution/environment/recipe"
	"drydock/internal/execution/guest"
	"drydock/internal/execution/snapshot"
)

// liveRecipe has one service that nobody starts again but a probe.
const liveRecipe = `base: debian:bookworm
packages: [git, redis-server, python3]
user: nobody
services:
  cache: {run: redis-server --save '' --appendonly no --dir /tmp, ready: redis-cli ping, port: 6379, restart: "no"}
  web:   {run: python3 -m http.server 8000, ready: "http://127.0.0.1:8000/code.txt", port: 8000, after: [cache]}
limits: {memory: 1GiB, disk: 2GiB}
`

func liveWorld(t *testing.T) (*world, core.Build, recipe.Recipe) {
	t.Helper()
	w := realWorld(t)
	w.commit(map[string]string{"drydock.yaml": liveRecipe, "code.txt": "code\n"})
	b := w.build(environment.BuildRequest{})
	return w, b, w.recipe()
}

// warnings collects what Launch falls back from.
type warnings []core.WarningData

func (l *warnings) add(d core.WarningData) { *l = append(*l, d) }

func (l warnings) has(code string) bool {
	for _, d := range l {
		if d.Code == code {
			return true
		}
	}
	return false
}

func TestMemoryImageForReal(t *testing.T) {
	w, b, rec := liveWorld(t)
	m, err := w.snaps.Get(t.Context(), b.Snapshot)
	if err != nil || m.Memory == nil || m.Memory.Live == nil || len(m.Memory.Services) != 2 || m.Memory.Runtime == "" || m.Memory.Init == "" {
		t.Fatalf("the build left manifest %+v with memory %+v, error %v\n%s", m, m.Memory, err, w.logOf(b.ID))
	}
	var told warnings
	launch := func(owner string) *environment.Machine {
		start := time.Now()
		box := w.launch(environment.LaunchRequest{Recipe: &rec, Limits: rec.Limits, Owner: owner, Warn: told.add, StartServices: true})
		t.Logf("%s in %s", box.From(), time.Since(start).Round(time.Millisecond))
		return box
	}
	one, two := launch("ses_aaaaaaaaaaaaaaaaa1"), launch("ses_aaaaaaaaaaaaaaaaa2")
	if one.From() != environment.FromMemory || two.From() != environment.FromMemory || len(told) > 0 {
		t.Fatalf("started from %s and %s, warned %+v", one.From(), two.From(), told)
	}
	const who = "hostname; cat /etc/hostname /etc/machine-id"
	if a, b := w.shell(one, who), w.shell(two, who); a == b || !strings.HasPrefix(a, "session-aaaaaaa1\nsession-aaaaaaa1\n") {
		t.Errorf("two clones say that they are %q and %q", a, b)
	}
	w.shell(one, "redis-cli set x one >/dev/null")
	if got := w.shell(two, "redis-cli get x; redis-cli set x two >/dev/null"); got != "" {
		t.Errorf("clones share a database: %q", got)
	}
	if now, err := strconv.ParseInt(w.shell(one, "date +%s"), 10, 64); err != nil || time.Since(time.Unix(now, 0)).Abs() > 5*time.Second {
		t.Errorf("the clock of a restored sandbox says %d, error %v", now, err)
	}
	for _, box := range []*environment.Machine{one, two} {
		if err := box.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
	}

	// A service of which nothing answers any more is started from its entry.
	box := launch("")
	const token = "a-token-for-this-test"
	if err := box.Guest().Hold(t.Context(), token); err != nil {
		t.Fatal(err)
	}
	g := guest.NewTCPClient(box.Handle().Guest, token)
	defer g.Close()
	if _, err := g.Rotate(t.Context(), box.Handle().Token); err != nil {
		t.Fatal(err)
	}
	w.shell(box, "redis-cli shutdown nosave; while redis-cli ping >/dev/null 2>&1; do :; done")
	found, err := box.Guest().Probe(t.Context())
	if err != nil || fmt.Sprint(found.Restarted) != "[cache]" || len(found.Silent) == 0 || found.Listeners < 2 {
		t.Fatalf("a silent service was found as %+v, error %v", found, err)
	}
	if _, err := box.StartServices(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := w.shell(box, "redis-cli ping"); got != "PONG" {
		t.Errorf("the service that was started again says %q", got)
	}
	// What runs from the workspace starts again after its files have moved.
	before := w.shell(box, "pidof python3; pidof redis-server")
	if _, err := box.Reload(t.Context(), true); err != nil {
		t.Fatal(err)
	}
	after := w.shell(box, "pidof python3; pidof redis-server")
	if b, a := strings.Fields(before), strings.Fields(after); len(a) != 2 || a[0] == b[0] || a[1] != b[1] {
		t.Errorf("before the files moved %q ran, after it %q", before, after)
	}
	if err := box.Close(t.Context()); err != nil {
		t.Fatal(err)
	}

	// Damage is found before anything starts.
	live := filepath.Join(w.dir, "layers", string(b.Snapshot), "live")
	for name, breakIt := range map[string]func() error{
		"cut":     func() error { return os.Truncate(filepath.Join(live, "image", "pages.img"), 1000) },
		"flipped": func() error { return flip(filepath.Join(live, "image", "pages.img")) },
		"missing": func() error {
			return os.Rename(filepath.Join(live, "image", "checkpoint.img"), filepath.Join(live, "elsewhere"))
		},
		"layer": func() error { return os.Rename(filepath.Join(live, "upper"), filepath.Join(live, "lower")) },
	} {
		undo := backup(t, live)
		if err := breakIt(); err != nil {
			t.Fatal(err)
		}
		told = nil
		box := launch("")
		if box.From() != environment.FromFiles || !told.has(environment.WarnMemoryUnfit) {
			t.Errorf("%s: started from %s, warned %+v", name, box.From(), told)
		}
		if got := w.shell(box, "redis-cli ping"); got != "PONG" {
			t.Errorf("%s: the service says %q", name, got)
		}
		if err := box.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		undo()
	}
	told = nil
	box = launch("")
	if box.From() != environment.FromMemory {
		t.Errorf("when all is in order again it starts from %s, warned %+v", box.From(), told)
	}
	if err := box.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	// Other limits make another shape.
	told = nil
	other := rec
	other.Limits.Memory = 768 << 20
	box = w.launch(environment.LaunchRequest{Recipe: &other, Limits: other.Limits, Warn: told.add, StartServices: true})
	if box.From() != environment.FromFiles || !told.has(environment.WarnMemoryUnfit) {
		t.Errorf("with other limits it starts from %s, warned %+v", box.From(), told)
	}
	if err := box.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.leftovers()
}

func flip(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	var b [1]byte
	if _, err := f.ReadAt(b[:], 4096); err != nil {
		return err
	}
	b[0] ^= 1
	_, err = f.WriteAt(b[:], 4096)
	return err
}

// backup keeps hard copies of a directory's files and says how to put them
// back.
func backup(t *testing.T, dir string) (undo func()) {
	t.Helper()
	kept := map[string][]byte{}
	for _, name := range []string{"image/pages.img", "image/checkpoint.img"} {
		data, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		kept[name] = data
	}
	return func() {
		for name, data := range kept {
			if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		_ = os.Rename(filepath.Join(dir, "lower"), filepath.Join(dir, "upper"))
	}
}

// Ten times a sandbox is suspended and comes back: files, processes and
// services are as they were.
func TestSuspendForReal(t *testing.T) {
	w, b, rec := liveWorld(t)
	at := b.Snapshot
	box := w.launch(environment.LaunchRequest{Snapshot: at, Recipe: &rec, StartServices: true})
	sum := w.shell(box, "head -c 3000000 /dev/urandom >/workspace/random; echo lost >gone; exec 3<gone; rm gone; sha256sum /workspace/random")
	w.shell(box, `(n=0; while :; do n=$((n+1)); echo $n >/tmp/count.new; mv /tmp/count.new /tmp/count; sleep 0.05; done) >/dev/null 2>&1 &`)
	w.shell(box, "redis-cli set kept yes >/dev/null")
	last := 0
	for round := range 10 {
		w.shell(box, fmt.Sprintf("echo %d >>rounds; mkdir -p d%d; mv d%d e%d; redis-cli incr rounds >/dev/null", round, round, round, round))
		if _, err := fmt.Sscan(w.shell(box, "cat /tmp/count"), &last); err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		row, err := box.Freeze(t.Context(), snapshot.Draft{Session: "ses_1"}, environment.FreezeOptions{Memory: true})
		if err != nil || !row.Memory {
			t.Fatalf("round %d: suspended as %+v, error %v", round, row, err)
		}
		if err := box.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		gone := time.Since(start)
		start = time.Now()
		var told warnings
		box = w.launch(environment.LaunchRequest{Snapshot: row.ID, Recipe: &rec, StartServices: true, Warn: told.add})
		t.Logf("round %d: away in %s, back in %s", round, gone.Round(time.Millisecond), time.Since(start).Round(time.Millisecond))
		if box.From() != environment.FromMemory || len(told) > 0 {
			t.Fatalf("round %d: came back from %s, warned %+v", round, box.From(), told)
		}
		n := 0
		if _, err := fmt.Sscan(w.shell(box, fmt.Sprintf("while [ $(cat /tmp/count) -le %d ]; do :; done; cat /tmp/count", last)), &n); err != nil || n <= last {
			t.Fatalf("round %d: the process counts %d after %d, error %v", round, n, last, err)
		}
	}
	if got := w.shell(box, "sha256sum /workspace/random"); got != sum {
		t.Errorf("the file has sum %q, not %q", got, sum)
	}
	want := "0\n1\n2\n3\n4\n5\n6\n7\n8\n9\nyes\n10\ne0 e1 e2 e3 e4 e5 e6 e7 e8 e9"
	if got := w.shell(box, "cat rounds; redis-cli get kept; redis-cli get rounds; echo e?"); got != want {
		t.Errorf("after ten rounds there is %q", got)
	}
	if err := box.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.leftovers()
}

// A sandbox of which a snapshot is taken goes on; who waits for a command in it
// does not notice.
func TestGoOnForReal(t *testing.T) {
	w, b, rec := liveWorld(t)
	box := w.launch(environment.LaunchRequest{Snapshot: b.Snapshot, Recipe: &rec, StartServices: true})
	out := make(chan string, 2)
	go func() { out <- w.shell(box, "for i in 1 2 3 4 5 6 7 8; do echo $i; sleep 0.2; done") }()
	go func() {
		var text strings.Builder
		_, _, err := box.Stream(context.WithoutCancel(t.Context()), guest.Command{Argv: []string{"sh", "-c", "for i in 1 2 3 4 5 6 7 8; do echo $i; sleep 0.2; done"}}, &text)
		if err != nil {
			out <- err.Error()
			return
		}
		out <- strings.TrimSpace(text.String())
	}()
	w.shell(box, "sleep 0.4; echo before >before")
	var paused time.Duration
	row, err := box.Freeze(t.Context(), snapshot.Draft{}, environment.FreezeOptions{Memory: true, Resume: true, Paused: func(d time.Duration) { paused = d }})
	if err != nil || !row.Memory || paused <= 0 {
		t.Fatalf("snapshot %+v, stood still %s, error %v", row, paused, err)
	}
	t.Logf("stood still for %s", paused.Round(time.Millisecond))
	w.shell(box, "echo after >after; redis-cli ping")
	for range 2 {
		if got := <-out; got != "1\n2\n3\n4\n5\n6\n7\n8" {
			t.Errorf("a command that went on over it printed %q", got)
		}
	}
	child := w.launch(environment.LaunchRequest{Snapshot: row.ID, Recipe: &rec, StartServices: true})
	if got := w.shell(child, "cat before; ls after 2>/dev/null || echo none; redis-cli ping"); got != "before\nnone\nPONG" || child.From() != environment.FromMemory {
		t.Errorf("the fork, from %s, says %q", child.From(), got)
	}
	for _, m := range []*environment.Machine{child, box} {
		if err := m.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	w.leftovers()
}

func TestWarmPoolForReal(t *testing.T) {
	w, b, rec := liveWorld(t)
	pool := environment.NewPool(environment.PoolDeps{
		Launcher: w.launcher,
		Environments: func(ctx context.Context) ([]core.Environment, error) {
			list, _, err := w.db.Environments(ctx, core.Page{})
			return list, err
		},
		Recipe: func(context.Context, core.Environment) (recipe.Recipe, error) { return rec, nil },
	}, environment.PoolOptions{Max: 2, Min: 1, Draft: 300 * time.Millisecond})
	run, stop := context.WithCancel(t.Context())
	over := make(chan struct{})
	go func() { defer close(over); pool.Run(run) }()
	env, err := w.db.Environment(t.Context(), "shop")
	if err != nil {
		t.Fatal(err)
	}
	count := func(n int) {
		t.Helper()
		for deadline := time.Now().Add(time.Minute); pool.Counts()[env.ID] != n; {
			if time.Now().After(deadline) {
				t.Fatalf("%d sandboxes wait, not %d", pool.Counts()[env.ID], n)
			}
			<-time.After(20 * time.Millisecond)
		}
	}
	count(1)
	start := time.Now()
	box := w.launch(environment.LaunchRequest{
		Snapshot: b.Snapshot, Recipe: &rec, Limits: rec.Limits, Owner: "ses_aaaaaaaaaaaaaaaaa1", Policy: &core.NetworkPolicy{}, StartServices: true,
	})
	t.Logf("a warm one was taken in %s", time.Since(start).Round(time.Millisecond))
	if box.From() != environment.FromWarm || box.Handle().Owner != "ses_aaaaaaaaaaaaaaaaa1" || box.Handle().Purpose != environment.PurposeSession {
		t.Errorf("it is %s, %+v", box.From(), box.Handle())
	}
	if row, err := w.db.Sandbox(t.Context(), box.ID()); err != nil || row.Owner != "ses_aaaaaaaaaaaaaaaaa1" || row.Purpose != environment.PurposeSession {
		t.Errorf("its row is %+v, error %v", row, err)
	}
	if got := w.shell(box, "redis-cli ping; cat code.txt"); got != "PONG\ncode" {
		t.Errorf("it says %q", got)
	}
	count(1)
	// A draft holds one; without a prompt it goes back.
	id, _, warm := pool.Draft(env)
	if !warm {
		t.Error("nothing was kept for a draft")
	}
	drafted := w.launch(environment.LaunchRequest{
		Snapshot: b.Snapshot, Recipe: &rec, Limits: rec.Limits, Owner: "ses_aaaaaaaaaaaaaaaaa2", Draft: id, Policy: &core.NetworkPolicy{},
	})
	if drafted.From() != environment.FromWarm {
		t.Errorf("the draft was started from %s", drafted.From())
	}
	if err := pool.Return(id); !core.Is(err, core.NotFound) {
		t.Errorf("a used draft is returned: %v", err)
	}
	count(2) // demand has grown
	if _, _, warm := pool.Draft(env); !warm {
		t.Error("nothing was kept for the next draft")
	}
	count(2)
	if n := pool.Reclaim(t.Context(), 5); n < 1 {
		t.Errorf("%d were given back", n)
	}
	stop()
	<-over
	for _, m := range []*environment.Machine{box, drafted} {
		if err := m.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	w.leftovers()
}
