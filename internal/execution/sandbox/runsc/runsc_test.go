package runsc_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"drydock/internal/core"
	"drydock/internal/execution/sandbox"
	"drydock/internal/execution/sandbox/runsc"
	"drydock/internal/execution/sandbox/sandboxtest"
	"drydock/internal/testkit/need"
)

// host is a place for drivers on this machine.
type host struct {
	dir, base string
	network   *sandboxtest.Network
	current   *runsc.Driver
	opts      runsc.Options
}

func newHost(t testing.TB) *host {
	t.Helper()
	binary := need.Runsc(t)
	need.Program(t, "ip")
	dir, err := os.MkdirTemp("", "dd-exec-") //nolint:usetesting // those names are too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	h := &host{dir: dir, base: filepath.Join(dir, "base")}
	sandboxtest.Root(t, h.base)
	instance := "t" + strings.ToLower(filepath.Base(dir)[len("dd-exec-"):])
	h.network = sandboxtest.NewNetwork(t, "ddx", 88)
	h.opts = runsc.Options{
		Runsc: binary, Init: need.Bin(t, "drydock-init"), StateDir: filepath.Join(dir, "state"), Instance: instance,
		DiskInterval: 100 * time.Millisecond,
	}
	t.Cleanup(func() {
		if t.Failed() {
			h.sweep(t)
		}
		h.clean(t, instance)
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return h
}

// driver opens a driver, as a daemon does when it starts; the one before, if
// any, only stops watching.
func (h *host) driver(t *testing.T) *runsc.Driver {
	t.Helper()
	if h.current != nil {
		if err := h.current.Close(); err != nil {
			t.Fatal(err)
		}
	}
	d, err := runsc.New(runsc.Deps{Network: h.network}, h.opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	h.current = d
	return d
}

// sweep removes what a failed test did not.
func (h *host) sweep(t testing.TB) {
	t.Helper()
	d, err := runsc.New(runsc.Deps{Network: h.network}, h.opts)
	if err != nil {
		return
	}
	ids, _ := d.List(context.Background())
	for _, id := range ids {
		if err := d.Destroy(context.Background(), id); err != nil {
			t.Log(err)
		}
	}
}

// clean checks that a test left nothing on the host.
func (h *host) clean(t testing.TB, instance string) {
	t.Helper()
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(mounts)) {
		if strings.Contains(line, h.dir) {
			t.Errorf("mount left: %s", line)
		}
	}
	groups, _ := filepath.Glob("/sys/fs/cgroup/*/drydock-" + instance)
	more, _ := filepath.Glob("/sys/fs/cgroup/drydock-" + instance)
	if groups = append(groups, more...); len(groups) > 0 {
		t.Errorf("control groups left: %v", groups)
	}
	procs, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, p := range procs {
		if line, err := os.ReadFile(p); err == nil && strings.Contains(string(line), h.dir) {
			t.Errorf("process left: %s %s", p, strings.ReplaceAll(string(line), "\x00", " "))
		}
	}
	for _, dir := range []string{"sandboxes", "runsc"} {
		if entries, err := os.ReadDir(filepath.Join(h.opts.StateDir, dir)); err == nil && len(entries) > 0 {
			t.Errorf("files left in %s: %v", dir, entries)
		}
	}
}

func TestContract(t *testing.T) {
	sandboxtest.Run(t, func(t *testing.T) *sandboxtest.Rig {
		h := newHost(t)
		dir := filepath.Join(h.opts.StateDir, "frozen")
		d := h.driver(t)
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		return &sandboxtest.Rig{
			Driver: d, Base: h.base, Dir: dir,
			Reopen: func(t *testing.T) sandbox.Driver { return h.driver(t) },
			Kill:   func(t *testing.T, id core.SandboxID) { killSandbox(t, h.opts.StateDir, id) },
		}
	})
}
