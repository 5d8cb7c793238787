package overlay_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"drydock/internal/core"
	"drydock/internal/execution/snapshot"
	"drydock/internal/execution/snapshot/overlay"
	"drydock/internal/testkit/need"
)

// smallWorld keeps its layers on a file system of their own, which fills up.
// The database is elsewhere: it has a test of its own to stand.
func smallWorld(t *testing.T, inodes int) *world {
	t.Helper()
	need.Root(t)
	w := newWorld(t)
	dir := filepath.Join(w.dir, "layers")
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprintf("size=4m,nr_inodes=%d", inodes)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	w.base.Path = filepath.Join(w.dir, "base")
	return w
}

// fill takes all the room there is, and returns how to give it back.
func (w *world) fill() (free func()) {
	w.t.Helper()
	path := filepath.Join(w.dir, "layers", "ballast")
	f, err := os.Create(path)
	if err != nil {
		w.t.Fatal(err)
	}
	buf := make([]byte, 4096)
	for err == nil {
		_, err = f.Write(buf)
	}
	if !errors.Is(err, unix.ENOSPC) {
		w.t.Fatal(err)
	}
	f.Close()
	return func() {
		if err := os.Remove(path); err != nil {
			w.t.Fatal(err)
		}
	}
}

func wantFull(t *testing.T, err error) {
	t.Helper()
	if !core.Is(err, core.Exhausted) || !strings.Contains(err.Error(), "disk is full") || !strings.Contains(core.HintOf(err), "nothing is lost") {
		t.Errorf("a full disk is told as %v (%s)", err, core.HintOf(err))
	}
}

func TestAFullDiskLosesNothing(t *testing.T) {
	t.Run("begin", func(t *testing.T) {
		w := smallWorld(t, 0)
		free := w.fill()
		_, err := w.Begin(t.Context(), snapshot.Draft{ID: "snp_000000000000000001", Base: []snapshot.Layer{w.base}})
		wantFull(t, err)
		free()
		if _, err := w.Begin(t.Context(), snapshot.Draft{ID: "snp_000000000000000001", Base: []snapshot.Layer{w.base}}); err != nil {
			t.Error(err)
		}
	})
	t.Run("commit", func(t *testing.T) {
		w := smallWorld(t, 0)
		p := w.begin(snapshot.Draft{})
		frozen := w.freeze(p, "precious")
		free := w.fill()
		_, err := w.Commit(t.Context(), p.ID, frozen)
		wantFull(t, err)
		w.wantState(p.ID, core.SnapshotWriting, true)
		w.restart() // the next start tries, and keeps the files
		w.wantState(p.ID, core.SnapshotWriting, true)
		w.gc(overlay.Request{})
		free()
		if row, err := w.Commit(t.Context(), p.ID, frozen); err != nil || row.State != core.SnapshotReady {
			t.Errorf("again: %+v, error %v", row, err)
		}
		if data, err := os.ReadFile(filepath.Join(frozen.Upper, "precious")); err != nil || string(data) != "precious" {
			t.Errorf("the files: %q, error %v", data, err)
		}
	})
	t.Run("memory", func(t *testing.T) {
		w := smallWorld(t, 0)
		id := w.take("", "a")
		p, err := w.BeginMemory(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		frozen := w.freeze(p, "live")
		frozen.Image = w.image(p.Into)
		free := w.fill()
		wantFull(t, w.CommitMemory(t.Context(), id, frozen, nil))
		if _, err := w.Layers(t.Context(), id); err != nil {
			t.Errorf("the snapshot itself: %v", err)
		}
		free()
		if err := w.CommitMemory(t.Context(), id, frozen, nil); err != nil {
			t.Error(err)
		}
		w.wantMemory(id, true)
		// Dropping one to make room needs a little room itself; it says so.
		free = w.fill()
		wantFull(t, w.DropMemory(t.Context(), id))
		w.wantMemory(id, true)
		free()
	})
	t.Run("compaction", func(t *testing.T) {
		w := smallWorld(t, 600)
		var id core.SnapshotID
		for i := range 10 {
			id = w.session(id, func(root string) {
				for k := range 20 {
					dir := filepath.Join(root, fmt.Sprintf("d%d-%d", i, k))
					if err := errors.Join(os.Mkdir(dir, 0o755), os.WriteFile(filepath.Join(dir, "f"), []byte("x"), 0o644)); err != nil {
						t.Fatal(err)
					}
				}
			})
		}
		w.uses = []snapshot.Use{{By: "session", Snapshot: id}}
		was := w.seen(id)
		_, err := w.Compact(t.Context(), 0, 8)
		wantFull(t, err)
		wantSame(t, was, w.seen(id))
		left, err := filepath.Glob(filepath.Join(w.dir, "layers", "*", ".merging-*"))
		if err != nil || len(left) > 0 {
			t.Errorf("left behind: %v, error %v", left, err)
		}
		w.gc(overlay.Request{})
		if err := w.Verify(t.Context(), id); err != nil {
			t.Error(err)
		}
	})
}
