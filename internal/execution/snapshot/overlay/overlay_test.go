package overlay_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"drydock/internal/core"
	"drydock/internal/execution/sandbox"
	"drydock/internal/execution/snapshot"
	"drydock/internal/execution/snapshot/overlay"
	"drydock/internal/store"
)

// world is a store with a real database; open again to restart the daemon.
type world struct {
	*overlay.Store
	t    *testing.T
	dir  string
	base snapshot.Layer
	db   *store.DB
	rows *rows
	uses []snapshot.Use
}

// rows fail on request, as if the daemon died at that write.
type rows struct {
	overlay.Rows
	fail bool
}

var errDies = errors.New("the daemon dies here")

func (r *rows) UpdateSnapshot(ctx context.Context, id core.SnapshotID, change func(*core.Snapshot) error) (core.Snapshot, error) {
	if r.fail {
		return core.Snapshot{}, errDies
	}
	return r.Rows.UpdateSnapshot(ctx, id, change)
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, dir: t.TempDir()}
	w.base = snapshot.Layer{Base: "sha256:0", Path: filepath.Join(w.dir, "base")}
	if err := os.Mkdir(w.base.Path, 0o755); err != nil {
		t.Fatal(err)
	}
	db, err := store.Open(t.Context(), store.Options{Path: filepath.Join(w.dir, "db")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	w.db, w.rows = db, &rows{Rows: db}
	w.restart()
	return w
}

func (w *world) restart() {
	w.t.Helper()
	w.rows.fail = false
	s, err := overlay.New(overlay.Deps{
		Rows: w.rows, Uses: func(context.Context) ([]snapshot.Use, error) { return w.uses, nil },
	}, overlay.Options{Dir: filepath.Join(w.dir, "layers"), NoSync: true})
	if err != nil {
		w.t.Fatal(err)
	}
	if err := s.Recover(w.t.Context()); err != nil {
		w.t.Fatal(err)
	}
	w.Store = s
}

// freeze does what a driver does.
func (w *world) freeze(p overlay.Pending, files ...string) sandbox.Frozen {
	w.t.Helper()
	upper := filepath.Join(p.Into, "upper")
	if err := os.MkdirAll(upper, 0o755); err != nil {
		w.t.Fatal(err)
	}
	for _, f := range files {
		if err := os.WriteFile(filepath.Join(upper, f), []byte(f), 0o644); err != nil {
			w.t.Fatal(err)
		}
	}
	return sandbox.Frozen{Upper: upper}
}

func (w *world) begin(d snapshot.Draft) overlay.Pending {
	w.t.Helper()
	if d.Parent == "" {
		d.Base = []snapshot.Layer{w.base}
	}
	p, err := w.Begin(w.t.Context(), d)
	if err != nil {
		w.t.Fatal(err)
	}
	return p
}

func (w *world) take(parent core.SnapshotID, files ...string) core.SnapshotID {
	w.t.Helper()
	p := w.begin(snapshot.Draft{Parent: parent, Labels: map[string]string{"recipe": "x"}})
	row, err := w.Commit(w.t.Context(), p.ID, w.freeze(p, files...))
	if err != nil {
		w.t.Fatal(err)
	}
	if row.State != core.SnapshotReady || row.Bytes <= 0 {
		w.t.Fatalf("committed as %+v", row)
	}
	return p.ID
}

// state is what the row says, and whether anything is on the disk.
func (w *world) state(id core.SnapshotID) (core.SnapshotState, bool) {
	w.t.Helper()
	row, err := w.db.Snapshot(w.t.Context(), id)
	if err != nil && !core.Is(err, core.NotFound) {
		w.t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(w.dir, "layers", string(id)+"*"))
	if err != nil {
		w.t.Fatal(err)
	}
	return row.State, len(files) > 0
}

func (w *world) wantState(id core.SnapshotID, state core.SnapshotState, files bool) {
	w.t.Helper()
	if s, f := w.state(id); s != state || f != files {
		w.t.Errorf("snapshot is %q with files %v, want %q with files %v", s, f, state, files)
	}
}

func TestChain(t *testing.T) {
	w := newWorld(t)
	a := w.take("", "a")
	b := w.take(a, "b")
	layers, err := w.Layers(t.Context(), b)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		filepath.Join(w.dir, "layers", string(b), "upper"), filepath.Join(w.dir, "layers", string(a), "upper"), w.base.Path,
	}
	if !slices.Equal(layers, want) {
		t.Errorf("layers %v, want %v", layers, want)
	}
	m, err := w.Get(t.Context(), b)
	if err != nil || m.Parent != a || m.Layers[1].Bytes <= 0 || m.Labels["recipe"] != "x" {
		t.Errorf("manifest %+v, error %v", m, err)
	}
	if _, err := w.Layers(t.Context(), core.NewSnapshotID()); !core.Is(err, core.NotFound) {
		t.Errorf("an unknown snapshot: %v", err)
	}
	if err := os.RemoveAll(w.base.Path); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Layers(t.Context(), b); !core.Is(err, core.Unavailable) {
		t.Errorf("with a layer missing: %v", err)
	}
}

func TestInterruptedCommit(t *testing.T) {
	t.Run("before the files are frozen", func(t *testing.T) {
		w := newWorld(t)
		p := w.begin(snapshot.Draft{})
		if _, err := w.Layers(t.Context(), p.ID); !core.Is(err, core.NotFound) {
			t.Errorf("a snapshot that is being written can be used: %v", err)
		}
		w.restart()
		w.wantState(p.ID, core.SnapshotRemoved, false)
		if _, err := w.Begin(t.Context(), snapshot.Draft{ID: p.ID, Base: []snapshot.Layer{w.base}}); !core.Is(err, core.Conflict) {
			t.Errorf("beginning a given up one again: %v", err)
		}
	})
	t.Run("after the files are frozen", func(t *testing.T) {
		w := newWorld(t)
		p := w.begin(snapshot.Draft{})
		w.freeze(p, "precious")
		w.restart()
		w.wantState(p.ID, core.SnapshotReady, true)
		if got := w.FromPath(p.Into); got != p.ID {
			t.Errorf("the path belongs to %q", got)
		}
		again, err := w.Begin(t.Context(), snapshot.Draft{ID: p.ID, Base: []snapshot.Layer{w.base}})
		if err != nil || again != p {
			t.Errorf("beginning again: %+v, error %v", again, err)
		}
		if row, err := w.Commit(t.Context(), p.ID, sandbox.Frozen{Upper: filepath.Join(p.Into, "upper")}); err != nil || row.State != core.SnapshotReady {
			t.Errorf("committing again: %+v, error %v", row, err)
		}
	})
	t.Run("before the row is written", func(t *testing.T) {
		w := newWorld(t)
		p := w.begin(snapshot.Draft{})
		w.rows.fail = true
		if _, err := w.Commit(t.Context(), p.ID, w.freeze(p, "precious")); !errors.Is(err, errDies) {
			t.Fatal(err)
		}
		w.wantState(p.ID, core.SnapshotWriting, true)
		w.restart()
		w.wantState(p.ID, core.SnapshotReady, true)
		if _, err := w.Layers(t.Context(), p.ID); err != nil {
			t.Error(err)
		}
	})
	t.Run("while it is removed", func(t *testing.T) {
		w := newWorld(t)
		id := w.take("", "a")
		if _, err := w.db.UpdateSnapshot(t.Context(), id, func(s *core.Snapshot) error {
			s.State = core.SnapshotRemoved
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		w.restart()
		w.wantState(id, core.SnapshotRemoved, false)
	})
}

func TestAbort(t *testing.T) {
	w := newWorld(t)
	p := w.begin(snapshot.Draft{})
	w.freeze(p, "x")
	if err := w.Abort(t.Context(), p.ID); err != nil {
		t.Fatal(err)
	}
	w.wantState(p.ID, core.SnapshotRemoved, false)
	done := w.take("", "a")
	if err := w.Abort(t.Context(), done); !core.Is(err, core.Conflict) {
		t.Errorf("giving up a complete one: %v", err)
	}
}

func TestRemoveNamesWhoNeedsIt(t *testing.T) {
	w := newWorld(t)
	a := w.take("", "a")
	b := w.take(a, "b")
	wantConflict := func(id core.SnapshotID, by string) {
		t.Helper()
		err := w.Remove(t.Context(), id)
		if !core.Is(err, core.Conflict) || !strings.Contains(err.Error(), by) {
			t.Errorf("error %v does not name %s", err, by)
		}
		w.wantState(id, core.SnapshotReady, true)
	}
	wantConflict(a, string(b))
	w.uses = []snapshot.Use{{By: "environment shop", Snapshot: b}}
	wantConflict(b, "environment shop")
	wantConflict(a, "environment shop")
	layers, release, err := w.Acquire(t.Context(), b)
	if err != nil {
		t.Fatal(err)
	}
	w.uses = nil
	wantConflict(b, "starting")
	w.uses = []snapshot.Use{{By: "sandbox sbx_1", Layers: layers}}
	release()
	release()
	wantConflict(b, "sandbox sbx_1")
	w.uses = nil
	for _, id := range []core.SnapshotID{b, a} {
		if err := w.Remove(t.Context(), id); err != nil {
			t.Fatal(err)
		}
		w.wantState(id, core.SnapshotRemoved, false)
		if err := w.Remove(t.Context(), id); err != nil {
			t.Errorf("removing again: %v", err)
		}
	}
}

func TestGC(t *testing.T) {
	w := newWorld(t)
	base := w.take("", "base")
	used := w.take(base, "used")
	unused := w.take(base, "unused")
	child := w.take(unused, "child")
	pending := w.begin(snapshot.Draft{Parent: used})
	w.uses = []snapshot.Use{{By: "session ses_1", Snapshot: used}}
	c, err := w.GC(t.Context(), overlay.Request{Grace: time.Hour})
	if err != nil || len(c.Removed) > 0 {
		t.Fatalf("young snapshots were removed: %+v, error %v", c, err)
	}
	// Interrupted after the rows were written: only files are left.
	w.rows.fail = true
	if _, err := w.GC(t.Context(), overlay.Request{}); !errors.Is(err, errDies) {
		t.Fatal(err)
	}
	w.rows.fail = false
	if c, err := w.GC(t.Context(), overlay.Request{Dry: true}); err != nil || len(c.Removed) != 2 {
		t.Errorf("dry: %+v, error %v", c, err)
	}
	c, err = w.GC(t.Context(), overlay.Request{})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(c.Removed)
	if want := []core.SnapshotID{unused, child}; !slices.Equal(c.Removed, want) || c.Bytes <= 0 {
		t.Errorf("removed %+v, want %v", c, want)
	}
	w.wantState(base, core.SnapshotReady, true)
	w.wantState(used, core.SnapshotReady, true)
	w.wantState(unused, core.SnapshotRemoved, false)
	w.uses = nil
	if c, err = w.GC(t.Context(), overlay.Request{}); err != nil || len(c.Removed) > 0 {
		t.Errorf("what a snapshot being written lies on was removed: %+v, error %v", c, err)
	}
	if err := w.Abort(t.Context(), pending.ID); err != nil {
		t.Fatal(err)
	}
	if c, err = w.GC(t.Context(), overlay.Request{}); err != nil || len(c.Removed) != 2 {
		t.Errorf("at the end: %+v, error %v", c, err)
	}
}
