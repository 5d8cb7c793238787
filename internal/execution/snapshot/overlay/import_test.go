package overlay_test

import (
	"os"
	"path/filepath"
	"testing"

	"drydock/internal/core"
	"drydock/internal/execution/sandbox"
	"drydock/internal/execution/snapshot"
	"drydock/internal/execution/snapshot/overlay"
)

// bring does what a pull does: it writes the files of a snapshot aside.
func (w *world) bring(live bool) (overlay.Import, overlay.Brought) {
	w.t.Helper()
	im, err := w.BeginImport(w.t.Context(), snapshot.Draft{Labels: map[string]string{"pulled": "sha256:1"}})
	if err != nil {
		w.t.Fatal(err)
	}
	for dir, file := range map[string]string{im.Upper: "file", im.Image: "pages.img", im.LiveUpper: "pid"} {
		if dir == im.LiveUpper && !live {
			continue
		}
		if err := os.Mkdir(dir, 0o755); err != nil {
			w.t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, file), []byte(file), 0o644); err != nil {
			w.t.Fatal(err)
		}
	}
	return im, overlay.Brought{
		Base: []snapshot.Layer{w.base}, Live: live, Services: []string{"db"},
		Image: &sandbox.Image{Token: "tok", Fit: sandbox.Fit{Runtime: "r"}},
	}
}

func TestImport(t *testing.T) {
	for name, live := range map[string]bool{"memory of its own": false, "memory of running services": true} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			im, b := w.bring(live)
			if _, err := w.Get(t.Context(), im.ID); !core.Is(err, core.NotFound) {
				t.Errorf("it is seen before it is complete: %v", err)
			}
			row, err := w.Imported(t.Context(), im, b)
			if err != nil || row.State != core.SnapshotReady || !row.Memory {
				t.Fatalf("imported %+v, error %v", row, err)
			}
			// Neither a collection nor a restart takes anything of it away.
			if _, err := w.GC(t.Context(), overlay.Request{Grace: 1 << 40}); err != nil {
				t.Fatal(err)
			}
			w.restart()
			layers, release, err := w.Acquire(t.Context(), im.ID)
			if err != nil {
				t.Fatal(err)
			}
			defer release()
			if len(layers) != 2 || layers[1] != w.base.Path {
				t.Errorf("layers %v", layers)
			}
			mem, release, err := w.AcquireMemory(t.Context(), im.ID)
			if err != nil {
				t.Fatal(err)
			}
			defer release()
			if mem.Live != live || mem.Image.Token != "tok" || mem.Image.Fit.Runtime != "r" {
				t.Errorf("memory %+v", mem)
			}
			if _, err := os.Lstat(filepath.Join(w.dir, "layers", string(im.ID), "new")); err == nil {
				t.Error("what it was written to is left")
			}
		})
	}
}

// TestImportDies ends the daemon while files are fetched, and between the last
// file and the row.
func TestImportDies(t *testing.T) {
	w := newWorld(t)
	im, _ := w.bring(true)
	w.restart()
	if row, err := w.db.Snapshot(t.Context(), im.ID); err != nil || row.State != core.SnapshotRemoved {
		t.Errorf("half fetched: %+v %v", row, err)
	}
	if left, _ := os.ReadDir(filepath.Join(w.dir, "layers")); len(left) != 0 {
		t.Errorf("half fetched: left %v", left)
	}

	im, b := w.bring(true)
	w.rows.fail = true
	if _, err := w.Imported(t.Context(), im, b); err == nil {
		t.Fatal("the daemon did not die")
	}
	w.restart()
	m, err := w.Get(t.Context(), im.ID)
	if err != nil || len(m.Layers) != 2 || m.Layers[0].Sum == "" || m.Memory != nil || m.Labels["pulled"] == "" {
		t.Errorf("completed as %+v, error %v", m, err)
	}
	entries, _ := os.ReadDir(filepath.Join(w.dir, "layers", string(im.ID)))
	if len(entries) != 1 || entries[0].Name() != "upper" {
		t.Errorf("left %v", entries)
	}
}
