package runsc_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"drydock/internal/core"
	"drydock/internal/execution/sandbox"
	"drydock/internal/testkit/need"
)

// smallDisk puts the state of a host on a file system of its own.
func smallDisk(t *testing.T, h *host, megabytes int64) {
	t.Helper()
	need.Program(t, "mkfs.ext4")
	file := filepath.Join(h.dir, "disk")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(file, megabytes<<20); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(h.opts.StateDir, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"mkfs.ext4", "-q", "-m", "0", file}, {"mount", "-o", "loop", file, h.opts.StateDir}} {
		if out, err := exec.CommandContext(t.Context(), args[0], args[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %v: %s", args, err, out)
		}
	}
	t.Cleanup(func() {
		if h.current != nil {
			_ = h.current.Close()
		}
		if t.Failed() {
			h.sweep(t)
		}
		if err := unix.Unmount(h.opts.StateDir, 0); err != nil {
			t.Errorf("the small disk stays: %v", err)
		}
	})
}

// fill leaves that much free; the file is returned.
func fill(t *testing.T, dir string, leave int64) string {
	t.Helper()
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		t.Error(err)
		return ""
	}
	name := filepath.Join(dir, "filler")
	f, err := os.Create(name)
	if err != nil {
		t.Error(err)
		return ""
	}
	defer f.Close()
	if err := unix.Fallocate(int(f.Fd()), 0, 0, max(int64(st.Bavail)*st.Bsize-leave, 1)); err != nil && !errors.Is(err, unix.ENOSPC) {
		t.Error(err)
	}
	return name
}

// The disk is full before, or becomes full in the middle of writing a memory
// image: a sandbox that is to go on does so, or is dead with all its files and
// a reason; one that is put away is put away without its memory.
func TestFullDiskDuringMemory(t *testing.T) {
	h := newHost(t)
	smallDisk(t, h, 600)
	frozenDir := filepath.Join(h.opts.StateDir, "frozen")
	n := 0
	for _, resume := range []bool{false, true} {
		for _, moment := range []string{"before", "checkpoint begun", "pages begun"} {
			n++
			name := fmt.Sprintf("resume %t, full %s", resume, moment)
			d := h.driver(t)
			if err := os.MkdirAll(frozenDir, 0o700); err != nil {
				t.Fatal(err)
			}
			hd := counting(t, h, d)
			shell(t, hd, "head -c 60000000 /dev/urandom >/dev/shm/memory")
			dir := filepath.Join(h.opts.StateDir, "sandboxes", string(hd.ID))
			into := filepath.Join(frozenDir, fmt.Sprint(n))
			var filler string
			stop, over := make(chan struct{}), make(chan struct{})
			if moment == "before" {
				filler = fill(t, h.opts.StateDir, 50<<20)
				close(over)
			} else {
				go func() {
					defer close(over)
					for i := range steps {
						for steps[i].name == moment {
							if steps[i].at(dir, into) {
								filler = fill(t, h.opts.StateDir, 1<<20)
								return
							}
							select {
							case <-stop:
								return
							case <-time.After(100 * time.Microsecond):
							}
						}
					}
				}()
			}
			frozen, err := d.Freeze(t.Context(), hd.ID, sandbox.FreezeOptions{Into: into, Memory: true, Resume: resume})
			close(stop)
			<-over
			s, statusErr := d.Status(t.Context(), hd.ID)
			t.Logf("%s: image %t, lost %q, error %v; %s (%s) frozen %q resumed %q", name, frozen.Image != nil, frozen.Lost, err, s.State, s.Detail, s.Frozen, s.Resumed)
			if statusErr != nil {
				t.Fatal(statusErr)
			}
			if moment == "before" && !core.Is(err, core.Exhausted) {
				t.Errorf("%s: %v", name, err)
			}
			if there(into, "image.new") {
				t.Errorf("%s: half an image fills the disk", name)
			}
			if s.State == core.SandboxRunning {
				if err := os.Truncate(filler, 0); filler != "" && err != nil {
					t.Error(err)
				}
				goesOn(t, hd, 0)
			} else {
				// The disk is as full as it was: files move all the same.
				got, err := d.Freeze(t.Context(), hd.ID, sandbox.FreezeOptions{Into: into})
				if err != nil || count(got.Upper) == 0 || !there(got.Upper, "workspace/kept") {
					t.Errorf("%s: its files are %+v, error %v", name, got, err)
				}
			}
			if filler != "" {
				if err := os.Remove(filler); err != nil {
					t.Error(err)
				}
			}
			if err := d.Destroy(t.Context(), hd.ID); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			if ids, err := d.List(t.Context()); err != nil || len(ids) > 0 {
				t.Errorf("%s: left %v, error %v", name, ids, err)
			}
			if err := os.RemoveAll(frozenDir); err != nil {
				t.Error(err)
			}
		}
	}
}
