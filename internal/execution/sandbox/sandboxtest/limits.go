package sandboxtest

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"drydock/internal/execution/guest"

	"drydock/internal/core"
	"drydock/internal/execution/sandbox"
)

func (r *Rig) needLimits(t *testing.T) {
	t.Helper()
	if !r.Driver.Capabilities().Limits {
		t.Skip("this driver has no limits")
	}
}

func testMemoryLimit(t *testing.T, r *Rig) {
	r.needLimits(t)
	h := r.create(t, func(s *sandbox.Spec) { s.Limits.Memory = 256 << 20 })
	shell(t, h, "echo precious >kept")
	// tail keeps the last line, which has no end.
	background(t, h, "head -c 600M /dev/zero | tail")
	s := r.wait(t, h.ID)
	if s.State != core.SandboxDead || s.Cause != sandbox.CauseMemory || !strings.Contains(s.Detail, "256 MiB") {
		t.Errorf("after using too much memory the status is %+v", s)
	}
	frozen, err := r.Driver.Freeze(t.Context(), h.ID, sandbox.FreezeOptions{Into: filepath.Join(r.Dir, "f")})
	if err != nil {
		t.Fatal(err)
	}
	if data, err := os.ReadFile(filepath.Join(frozen.Upper, "workspace/kept")); err != nil || string(data) != "precious\n" {
		t.Errorf("after death by memory the file says %q, error %v", data, err)
	}
}

func testPidsLimit(t *testing.T, r *Rig) {
	r.needLimits(t)
	h := r.create(t, func(s *sandbox.Spec) { s.Limits.Pids = 60 })
	res := try(t, h, "i=0; while [ $i -lt 200 ]; do sleep 3 & i=$((i+1)); done; echo all started")
	if strings.Contains(string(res.Stdout), "all started") {
		t.Error("200 processes were started under a limit of 60")
	}
	awaitAlive(t, h)
	if s, err := r.Driver.Status(t.Context(), h.ID); err != nil || s.State != core.SandboxRunning {
		t.Errorf("too many processes ended the sandbox: %+v, error %v", s, err)
	}
}

// awaitAlive waits until the sandbox runs commands again: what filled it ends
// by itself, and must not have broken it.
func awaitAlive(t *testing.T, h sandbox.Handle) {
	t.Helper()
	c := guest.NewTCPClient(h.Guest, h.Token)
	defer c.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for {
		res, err := c.Run(ctx, guest.Command{Argv: []string{"sh", "-c", "echo alive"}})
		if err == nil && strings.TrimSpace(string(res.Stdout)) == "alive" {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("after too many processes the sandbox runs nothing any more: %v", err)
		}
	}
}

func testDiskLimit(t *testing.T, r *Rig) {
	r.needLimits(t)
	for name, script := range map[string]string{
		"file":         "dd if=/dev/zero of=big bs=1M count=64 2>/dev/null; sleep 60",
		"deleted file": "exec 3>hidden; rm hidden; dd if=/dev/zero bs=1M count=64 >&3 2>/dev/null; sleep 60",
		"in /tmp":      "dd if=/dev/zero of=/tmp/big bs=1M count=64 2>/dev/null; sleep 60",
	} {
		h := r.create(t, func(s *sandbox.Spec) { s.Limits.Disk = 32 << 20 })
		shell(t, h, "echo precious >kept")
		background(t, h, script)
		s := r.wait(t, h.ID)
		if s.State != core.SandboxDead || s.Cause != sandbox.CauseDisk || !strings.Contains(s.Detail, "32 MiB") {
			t.Errorf("%s: after writing too much the status is %+v", name, s)
		}
		frozen, err := r.Driver.Freeze(t.Context(), h.ID, sandbox.FreezeOptions{Into: filepath.Join(r.Dir, strings.ReplaceAll(name, "/", "-"))})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(filepath.Join(frozen.Upper, "workspace/kept")); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// What was written in earlier sandboxes of the same work counts.
func testDiskLimitOfAll(t *testing.T, r *Rig) {
	r.needLimits(t)
	h := r.create(t, func(s *sandbox.Spec) { s.Limits.Disk, s.Written = 32<<20, 28<<20 })
	background(t, h, "dd if=/dev/zero of=big bs=1M count=8 2>/dev/null; sleep 60")
	if s := r.wait(t, h.ID); s.State != core.SandboxDead || s.Cause != sandbox.CauseDisk {
		t.Errorf("after writing too much in all the status is %+v", s)
	}
}

// What was written before a freeze counts on in a sandbox that goes on.
func testDiskLimitGoesOn(t *testing.T, r *Rig) {
	r.needLimits(t)
	if !r.Driver.Capabilities().Fork {
		t.Skip("cannot go on")
	}
	h := r.create(t, func(s *sandbox.Spec) { s.Limits.Disk = 32 << 20 })
	shell(t, h, "dd if=/dev/zero of=early bs=1M count=24 2>/dev/null")
	if _, err := r.Driver.Freeze(t.Context(), h.ID, sandbox.FreezeOptions{Into: filepath.Join(r.Dir, "f"), Memory: true, Resume: true}); err != nil {
		t.Fatal(err)
	}
	background(t, h, "dd if=/dev/zero of=late bs=1M count=16 2>/dev/null; sleep 60")
	if s := r.wait(t, h.ID); s.State != core.SandboxDead || s.Cause != sandbox.CauseDisk {
		t.Errorf("after writing too much in all the status is %+v", s)
	}
}

func testLifetime(t *testing.T, r *Rig) {
	r.needLimits(t)
	h := r.create(t, func(s *sandbox.Spec) { s.Limits.Lifetime = 1500 * time.Millisecond })
	// The clock goes on over a restart.
	r.Driver = r.Reopen(t)
	if _, err := r.Driver.Recover(t.Context(), h); err != nil {
		t.Fatal(err)
	}
	s := r.wait(t, h.ID)
	if s.State != core.SandboxDead || s.Cause != sandbox.CauseLifetime {
		t.Errorf("after its lifetime the status is %+v", s)
	}
	if age := time.Since(h.Created); age < 1500*time.Millisecond || age > 10*time.Second {
		t.Errorf("it ended at the age of %s", age)
	}
}
