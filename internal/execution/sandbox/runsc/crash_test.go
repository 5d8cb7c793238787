package runsc_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"drydock/internal/core"
	"drydock/internal/execution/guest"
	"drydock/internal/execution/sandbox"
	"drydock/internal/execution/sandbox/runsc"
)

// The test binary runs itself again as a daemon that is then killed.
const daemonVariable = "DRYDOCK_TEST_DAEMON"

func TestMain(m *testing.M) {
	if os.Getenv(daemonVariable) != "" {
		daemon()
		return
	}
	os.Exit(m.Run())
}

// fixedNetwork is a namespace that somebody else made and will remove.
type fixedNetwork struct{ at core.Attachment }

func (n fixedNetwork) Attach(context.Context, core.SandboxID, *core.NetworkPolicy) (core.Attachment, error) {
	return n.at, nil
}

func (n fixedNetwork) Hold(context.Context, core.SandboxID, *core.NetworkPolicy) (core.Attachment, error) {
	return n.at, nil
}

func (n fixedNetwork) Renew(ctx context.Context, _ core.SandboxID) error {
	for _, args := range [][]string{
		{"addr", "replace", n.at.Address.String() + "/30", "dev", "eth0"},
		{"link", "set", "eth0", "up"},
		{"route", "replace", "default", "via", n.at.Resolver.String()},
	} {
		if out, err := exec.CommandContext(ctx, "ip", append([]string{"-n", filepath.Base(n.at.Namespace)}, args...)...).CombinedOutput(); err != nil {
			return fmt.Errorf("ip %v: %w: %s", args, err, out)
		}
	}
	return nil
}
func (n fixedNetwork) Detach(context.Context, core.SandboxID) error   { return nil }
func (n fixedNetwork) List(context.Context) ([]core.SandboxID, error) { return nil, nil }

// daemon does what its arguments say, and then waits to be killed.
func daemon() {
	var in struct {
		Options runsc.Options
		At      core.Attachment
		Spec    sandbox.Spec
		Freeze  sandbox.FreezeOptions
		Owner   string // to assign to
	}
	must(decode(os.Getenv(daemonVariable), &in))
	d, err := runsc.New(runsc.Deps{Network: fixedNetwork{in.At}}, in.Options)
	must(err)
	ctx := context.Background()
	if in.Freeze.Into == "" && in.Owner == "" {
		fmt.Println("start")
		_, err = d.Create(ctx, in.Spec)
		must(err)
		fmt.Println("done")
		select {}
	}
	_, err = d.Recover(ctx, sandbox.Handle{ID: in.Spec.ID})
	must(err)
	fmt.Println("start")
	if in.Owner != "" {
		_, err = d.Assign(ctx, in.Spec.ID, sandbox.Assignment{Purpose: "session", Owner: in.Owner})
		must(err)
		err = d.Open(ctx, in.Spec.ID)
	} else {
		_, err = d.Freeze(ctx, in.Spec.ID, in.Freeze)
	}
	must(err)
	fmt.Println("done")
	select {}
}

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// killed runs a daemon and kills it after a delay counted from the moment it
// begins, or when it is done.
func killed(t *testing.T, in any, delay time.Duration) {
	t.Helper()
	over := time.Now()
	killedWhen(t, in, func(begun bool) bool {
		if !begun {
			over = time.Now().Add(delay)
		}
		return begun && !time.Now().Before(over)
	})
}

// killedWhen runs a daemon and kills it at the moment that when, which is asked
// all the time, says so, or when it is done.
func killedWhen(t *testing.T, in any, when func(begun bool) bool) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), daemonVariable+"="+encode(t, in))
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := make(chan string, 2)
	go func() {
		for s := bufio.NewScanner(out); s.Scan(); {
			lines <- s.Text()
		}
		close(lines)
	}()
	if line := <-lines; line != "start" {
		t.Errorf("the daemon says %q", line)
	}
	when(false)
	for done := false; !done && !when(true); {
		select {
		case <-lines:
			done = true
		case <-time.After(50 * time.Microsecond):
		}
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
}

func TestDaemonKilledDuringCreate(t *testing.T) {
	h := newHost(t)
	spec := sandbox.Spec{ID: core.NewSandboxID(), Layers: []string{h.base}, Token: "t", Limits: core.Limits{Memory: 512 << 20}}
	for _, ms := range []int{0, 5, 15, 40, 80, 120, 160, 5000} {
		spec.ID = core.NewSandboxID()
		at, err := h.network.Attach(t.Context(), spec.ID, nil)
		if err != nil {
			t.Fatal(err)
		}
		in := map[string]any{"Options": h.opts, "At": at, "Spec": spec}
		killed(t, in, time.Duration(ms)*time.Millisecond)
		d := h.driver(t)
		ids, err := d.List(t.Context())
		if err != nil || !slices.Contains(ids, spec.ID) {
			t.Fatalf("after %d ms the list is %v, error %v", ms, ids, err)
		}
		s, err := d.Recover(t.Context(), sandbox.Handle{ID: spec.ID})
		switch {
		case core.Is(err, core.NotFound): // killed before anything was written down
		case err != nil:
			t.Errorf("after %d ms: %v", ms, err)
		case s.State != core.SandboxRunning && s.State != core.SandboxDead:
			t.Errorf("after %d ms it is %+v", ms, s)
		case ms == 5000 && s.State != core.SandboxRunning:
			t.Errorf("a sandbox that was complete is %+v", s)
		}
		if err := d.Destroy(t.Context(), spec.ID); err != nil {
			t.Errorf("after %d ms: %v", ms, err)
		}
		if ids, err := d.List(t.Context()); err != nil || len(ids) > 0 {
			t.Errorf("after %d ms there is left: %v, error %v", ms, ids, err)
		}
	}
}

func TestDaemonKilledDuringFreeze(t *testing.T) {
	h := newHost(t)
	if err := os.MkdirAll(filepath.Join(h.opts.StateDir, "frozen"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, ms := range []int{0, 1, 3, 6, 10, 20, 5000} {
		d := h.driver(t)
		spec := sandbox.Spec{ID: core.NewSandboxID(), Layers: []string{h.base}, Token: "t"}
		if _, err := d.Create(t.Context(), spec); err != nil {
			t.Fatal(err)
		}
		kept := filepath.Join(h.opts.StateDir, "sandboxes", string(spec.ID), "upper/workspace/kept")
		at, err := h.network.Attach(t.Context(), spec.ID, nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
		_ = os.MkdirAll(filepath.Dir(kept), 0o755)
		if err := os.WriteFile(kept, []byte("precious"), 0o644); err != nil {
			t.Fatal(err)
		}
		into := filepath.Join(h.opts.StateDir, "frozen", fmt.Sprint(ms))
		killed(t, map[string]any{"Options": h.opts, "At": at, "Spec": spec, "Freeze": sandbox.FreezeOptions{Into: into}}, time.Duration(ms)*time.Millisecond)
		d = h.driver(t)
		s, err := d.Recover(t.Context(), sandbox.Handle{ID: spec.ID})
		if err != nil {
			t.Fatal(err)
		}
		if s.Frozen != "" && s.Frozen != into {
			t.Errorf("after %d ms it is %+v", ms, s)
		}
		frozen, err := d.Freeze(t.Context(), spec.ID, sandbox.FreezeOptions{Into: into})
		if err != nil {
			t.Fatalf("after %d ms: %v", ms, err)
		}
		if data, err := os.ReadFile(filepath.Join(frozen.Upper, "workspace/kept")); err != nil || string(data) != "precious" {
			t.Errorf("after %d ms the file says %q, error %v", ms, data, err)
		}
		if err := d.Destroy(t.Context(), spec.ID); err != nil {
			t.Error(err)
		}
	}
}

func TestInstancesLeaveEachOtherAlone(t *testing.T) {
	a, b := newHost(t), newHost(t)
	b.network = a.network
	spec := sandbox.Spec{Layers: []string{a.base}, Token: "t"}
	da, db := a.driver(t), b.driver(t)
	spec.ID = core.NewSandboxID()
	mine, err := da.Create(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.Recover(t.Context(), mine); !core.Is(err, core.NotFound) {
		t.Errorf("another instance adopts: %v", err)
	}
	other := spec
	other.ID = core.NewSandboxID()
	if _, err := db.Create(t.Context(), other); err != nil {
		t.Fatal(err)
	}
	if err := db.Destroy(t.Context(), other.ID); err != nil {
		t.Fatal(err)
	}
	if s, err := da.Status(t.Context(), mine.ID); err != nil || s.State != core.SandboxRunning {
		t.Errorf("after the other one has tidied up: %+v, error %v", s, err)
	}
	if err := da.Destroy(t.Context(), mine.ID); err != nil {
		t.Fatal(err)
	}
	// A state directory that was copied to another instance is refused.
	opts := a.opts
	if _, err := da.Create(t.Context(), spec); err != nil {
		t.Fatal(err)
	}
	opts.Instance += "x"
	stranger, err := runsc.New(runsc.Deps{Network: a.network}, opts)
	if err != nil {
		t.Fatal(err)
	}
	defer stranger.Close()
	if _, err := stranger.Recover(t.Context(), mine); !core.Is(err, core.Conflict) {
		t.Errorf("the record of another instance: %v", err)
	}
	if err := da.Destroy(t.Context(), spec.ID); err != nil {
		t.Fatal(err)
	}
}

func TestDestroyOfEveryHalfState(t *testing.T) {
	h := newHost(t)
	for name, breakIt := range map[string]func(dir string) error{
		"no record":      func(dir string) error { return os.Remove(filepath.Join(dir, "sandbox.json")) },
		"damaged record": func(dir string) error { return os.WriteFile(filepath.Join(dir, "sandbox.json"), []byte("{"), 0o600) },
		"no bundle":      func(dir string) error { return os.RemoveAll(filepath.Join(dir, "bundle")) },
		"no files":       func(dir string) error { return os.RemoveAll(filepath.Join(dir, "upper")) },
		"no runsc state": func(dir string) error {
			files, _ := filepath.Glob(filepath.Join(dir, "../../runsc/*sbx_*"))
			for _, f := range files {
				if err := os.Remove(f); err != nil {
					return err
				}
			}
			return nil
		},
	} {
		d := h.driver(t)
		hd, err := d.Create(t.Context(), sandbox.Spec{ID: core.NewSandboxID(), Layers: []string{h.base}, Token: "t"})
		if err != nil {
			t.Fatal(err)
		}
		if err := breakIt(filepath.Join(h.opts.StateDir, "sandboxes", string(hd.ID))); err != nil {
			t.Fatal(err)
		}
		d = h.driver(t)
		if err := d.Destroy(t.Context(), hd.ID); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if ids, err := d.List(t.Context()); err != nil || len(ids) > 0 {
			t.Errorf("%s: left %v, error %v", name, ids, err)
		}
	}
}

func TestHostileRoot(t *testing.T) {
	h := newHost(t)
	secret := filepath.Join(h.dir, "secret")
	if err := os.Mkdir(secret, 0o755); err != nil {
		t.Fatal(err)
	}
	// An image, or an earlier sandbox, has put links where things are written
	// and mounted.
	layer := filepath.Join(h.dir, "hostile")
	for link, target := range map[string]string{
		"tmp": secret, "etc/resolv.conf": filepath.Join(secret, "file"), "etc/hostname": "../../../../../../../../" + secret + "/name",
		"etc/hosts": filepath.Join(secret, "hosts"), "etc/machine-id": filepath.Join(secret, "id"), ".drydock/init": secret + "/init",
	} {
		path := filepath.Join(layer, link)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(target, path); err != nil {
			t.Fatal(err)
		}
	}
	d := h.driver(t)
	hd, err := d.Create(t.Context(), sandbox.Spec{
		ID: core.NewSandboxID(), Layers: []string{layer, h.base}, Token: "t", Hostname: "box", Machine: strings.Repeat("a1", 16),
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range [][2]string{
		{"echo x >/tmp/x; cat /tmp/x", "x"},
		{"head -n 1 /etc/resolv.conf", "nameserver " + hd.Resolver.String()},
		{"tail -n 1 /etc/hosts; cat /etc/hostname /etc/machine-id", "127.0.1.1\tbox\nbox\n" + strings.Repeat("a1", 16)},
		{"ls " + secret + " 2>/dev/null || echo nothing", "nothing"},
		// A device that overlayfs would take for a deletion cannot be made.
		{"mknod /workspace/base.txt2 c 0 0 2>/dev/null && mv /workspace/base.txt2 /workspace/base.txt; cat /workspace/base.txt", "base"},
	} {
		if got := shell(t, hd, c[0]); got != c[1] {
			t.Errorf("%s: %q, want %q", c[0], got, c[1])
		}
	}
	if entries, err := os.ReadDir(secret); err != nil || len(entries) > 0 {
		t.Errorf("written outside: %v, error %v", entries, err)
	}
	// What the set-up would say is there before anything runs: replacing a file
	// inside takes longer than all that is done outside.
	const files = "cd /etc; stat -c '%n %i' hosts hostname machine-id resolv.conf"
	before := shell(t, hd, files)
	c := guest.NewTCPClient(hd.Guest, hd.Token)
	defer c.Close()
	if _, err := c.Setup(t.Context(), guest.Setup{Hostname: "box", Machine: strings.Repeat("a1", 16), Resolver: hd.Resolver.String()}); err != nil {
		t.Fatal(err)
	}
	if after := shell(t, hd, files); after != before {
		t.Errorf("the set-up has written again: before\n%s\nafter\n%s", before, after)
	}
	if err := d.Destroy(t.Context(), hd.ID); err != nil {
		t.Fatal(err)
	}
}

func TestManyLayers(t *testing.T) {
	h := newHost(t)
	layers := []string{h.base}
	for i := range 120 {
		// Long names do not fit into one page of mount options.
		dir := filepath.Join(h.dir, strings.Repeat("n", 200), strings.Repeat("m", 60), fmt.Sprint(i))
		if err := os.MkdirAll(filepath.Join(dir, "workspace"), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "workspace", fmt.Sprint("f", i)), nil, 0o644); err != nil {
			t.Fatal(err)
		}
		layers = append([]string{dir}, layers...)
	}
	d := h.driver(t)
	hd, err := d.Create(t.Context(), sandbox.Spec{ID: core.NewSandboxID(), Layers: layers, Token: "t"})
	if err != nil {
		t.Fatal(err)
	}
	if got := shell(t, hd, "ls /workspace/f0 /workspace/f119"); got != "/workspace/f0\n/workspace/f119" {
		t.Errorf("layers show %q", got)
	}
	if err := d.Destroy(t.Context(), hd.ID); err != nil {
		t.Fatal(err)
	}
}

func TestStartThatCannotWork(t *testing.T) {
	h := newHost(t)
	d := h.driver(t)
	for name, c := range map[string]struct {
		limits core.Limits
		kind   core.Kind
		says   string
	}{
		"too little memory": {core.Limits{Memory: 8 << 20}, core.Exhausted, "memory limit"},
	} {
		_, err := d.Create(t.Context(), sandbox.Spec{ID: core.NewSandboxID(), Layers: []string{h.base}, Token: "t", Limits: c.limits})
		if !core.Is(err, c.kind) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v (%v)", name, err, core.KindOf(err))
		}
	}
	opts := h.opts
	opts.Init = "/bin/true" // a dynamic program that says nothing and ends
	broken, err := runsc.New(runsc.Deps{Network: h.network}, opts)
	if err != nil {
		t.Fatal(err)
	}
	defer broken.Close()
	if _, err := broken.Create(t.Context(), sandbox.Spec{ID: core.NewSandboxID(), Layers: []string{h.base}, Token: "t"}); err == nil ||
		!strings.Contains(err.Error(), "ended at once") {
		t.Errorf("an init that ends at once: %v", err)
	}
	if ids, err := d.List(t.Context()); err != nil || len(ids) > 0 {
		t.Errorf("left %v, error %v", ids, err)
	}
}
