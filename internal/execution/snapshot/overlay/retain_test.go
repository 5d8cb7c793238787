package overlay_test

import (
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
)

// image writes what a driver would as a memory image.
func (w *world) image(into string) *sandbox.Image {
	w.t.Helper()
	dir := filepath.Join(into, "image")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		w.t.Fatal(err)
	}
	for _, name := range []string{"checkpoint.img", "pages.img"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(strings.Repeat(name, 400)), 0o600); err != nil {
			w.t.Fatal(err)
		}
	}
	return &sandbox.Image{Dir: dir, Token: "t", Fit: sandbox.Fit{Runtime: "sha256:r", Init: "sha256:i", Shape: "s", Network: "n"}}
}

// suspend takes a snapshot with the memory of that moment.
func (w *world) suspend(parent core.SnapshotID, files ...string) core.SnapshotID {
	w.t.Helper()
	p := w.begin(snapshot.Draft{Parent: parent})
	frozen := w.freeze(p, files...)
	frozen.Image = w.image(p.Into)
	if _, err := w.Commit(w.t.Context(), p.ID, frozen); err != nil {
		w.t.Fatal(err)
	}
	return p.ID
}

// addMemory adds the running state to a snapshot of files.
func (w *world) addMemory(id core.SnapshotID, files ...string) {
	w.t.Helper()
	p, err := w.BeginMemory(w.t.Context(), id)
	if err != nil {
		w.t.Fatal(err)
	}
	frozen := w.freeze(p, files...)
	frozen.Image = w.image(p.Into)
	if err := w.CommitMemory(w.t.Context(), id, frozen, []string{"db"}); err != nil {
		w.t.Fatal(err)
	}
}

// wantMemory asks the row, the manifest and the disk.
func (w *world) wantMemory(id core.SnapshotID, want bool) {
	w.t.Helper()
	row, err := w.db.Snapshot(w.t.Context(), id)
	if err != nil {
		w.t.Fatal(err)
	}
	m, err := w.Get(w.t.Context(), id)
	if err != nil {
		w.t.Fatal(err)
	}
	var dirs []string
	for _, at := range []string{"image", "live/image"} {
		if _, err := os.Stat(filepath.Join(w.dir, "layers", string(id), at)); err == nil {
			dirs = append(dirs, at)
		}
	}
	if row.Memory != want || (m.Memory != nil) != want || (len(dirs) > 0) != want {
		w.t.Errorf("memory of %s: row %v, manifest %v, on disk %v; want %v", id, row.Memory, m.Memory != nil, dirs, want)
	}
}

func (w *world) gc(req overlay.Request) overlay.Collected {
	w.t.Helper()
	c, err := w.GC(w.t.Context(), req)
	if err != nil {
		w.t.Fatal(err)
	}
	return c
}

func TestMemoryImagesGoWhenNobodyNeedsThem(t *testing.T) {
	w := newWorld(t)
	env := w.take("", "env")
	w.addMemory(env, "live")
	old := w.suspend(env, "old")
	now := w.suspend(old, "now")
	w.uses = []snapshot.Use{
		{By: "environment shop", Snapshot: env, Memory: true}, {By: "session ses_1", Snapshot: now, Memory: true},
	}
	c := w.gc(overlay.Request{Dry: true})
	if want := []core.SnapshotID{old}; !slices.Equal(c.Images, want) || len(c.Removed) > 0 || c.Bytes <= 0 {
		t.Errorf("dry: %+v, want images %v", c, want)
	}
	w.wantMemory(old, true)
	w.gc(overlay.Request{Grace: time.Hour})
	w.wantMemory(old, true) // it is new
	w.gc(overlay.Request{})
	for id, want := range map[core.SnapshotID]bool{env: true, old: false, now: true} {
		w.wantMemory(id, want)
	}
	// The files of all are still there.
	if _, err := w.Layers(t.Context(), now); err != nil {
		t.Error(err)
	}
	if err := w.Verify(t.Context(), old); err != nil {
		t.Error(err)
	}
}

func mustGet(t *testing.T, w *world, id core.SnapshotID) snapshot.Manifest {
	t.Helper()
	m, err := w.Get(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestAnImageThatIsBeingRestoredStays(t *testing.T) {
	w := newWorld(t)
	env := w.take("", "env")
	w.addMemory(env, "live")
	r, release, err := w.AcquireMemory(t.Context(), env)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.DropMemory(t.Context(), env); !core.Is(err, core.Conflict) {
		t.Errorf("dropped while it is restored: %v", err)
	}
	if c := w.gc(overlay.Request{}); len(c.Images)+len(c.Removed)+c.Layers > 0 {
		t.Errorf("collected while it is restored: %+v", c)
	}
	// The sandbox runs on the files of the running state.
	w.uses = []snapshot.Use{{By: "sandbox sbx_1", Layers: r.Layers}}
	release()
	w.gc(overlay.Request{})
	w.wantMemory(env, false)
	for _, dir := range r.Layers {
		if _, err := os.Stat(dir); err != nil {
			t.Errorf("a running sandbox lost a layer: %v", err)
		}
	}
	// And then it is gone.
	w.uses = []snapshot.Use{{By: "environment shop", Snapshot: env}}
	if c := w.gc(overlay.Request{}); c.Layers != 1 {
		t.Errorf("the files of the running state stay: %+v", c)
	}
	if _, err := os.Stat(r.Layers[0]); err == nil {
		t.Errorf("%s is still there", r.Layers[0])
	}
}

func TestWhatGoesWhenTheDiskIsShort(t *testing.T) {
	w := newWorld(t)
	at := func(days int) time.Time { return time.Now().Add(-time.Duration(days) * 24 * time.Hour) }
	old, current := w.suspend("", "old"), w.suspend("", "current")
	idle, busy := w.suspend(current, "idle"), w.suspend(current, "busy")
	w.uses = []snapshot.Use{
		{By: "build of before", Snapshot: old, Memory: true, Spare: true, Last: at(3)},
		{By: "environment shop", Snapshot: current, Memory: true, Last: at(1)},
		{By: "session idle", Snapshot: idle, Memory: true, Last: at(2)},
		{By: "session busy", Snapshot: busy, Memory: true},
	}
	check := func(want string, removed, images []core.SnapshotID, c overlay.Collected) {
		t.Helper()
		if !slices.Equal(c.Removed, removed) || !slices.Equal(c.Images, images) {
			t.Errorf("%s: %+v, want removed %v and images of %v", want, c, removed, images)
		}
	}
	check("nothing is short", nil, nil, w.gc(overlay.Request{Dry: true}))
	check("a little is short", nil, []core.SnapshotID{old}, w.gc(overlay.Request{Want: 1, Dry: true}))
	one := mustGet(t, w, old).Memory.Bytes
	check("more is short", nil, []core.SnapshotID{old, idle}, w.gc(overlay.Request{Want: one + 1, Dry: true}))
	c := w.gc(overlay.Request{Want: 1 << 40})
	check("everything is short", []core.SnapshotID{old}, []core.SnapshotID{current, idle}, c)
	w.wantMemory(busy, true)
	w.wantMemory(idle, false)
	if _, err := w.Layers(t.Context(), idle); err != nil {
		t.Error(err)
	}
}

func TestKeptSnapshotsSayWhy(t *testing.T) {
	w := newWorld(t)
	env := w.take("", "env")
	ses := w.take(env, "ses")
	spare := w.take("", "spare")
	w.uses = []snapshot.Use{{By: "session ses_1", Snapshot: ses}, {By: "one of 3 good builds", Snapshot: spare, Spare: true}}
	why := map[core.SnapshotID][]string{}
	for _, k := range w.gc(overlay.Request{Dry: true}).Kept {
		why[k.ID] = k.By
	}
	if !slices.Equal(why[env], []string{"session ses_1"}) || !slices.Equal(why[spare], []string{"one of 3 good builds"}) {
		t.Errorf("reasons %v", why)
	}
	if files, _, err := w.Users(t.Context(), env); err != nil || !slices.Contains(files, "snapshot "+string(ses)) {
		t.Errorf("users %v, error %v", files, err)
	}
	// A person may remove what is only spare.
	if err := w.Remove(t.Context(), spare); err != nil {
		t.Error(err)
	}
}

// A death between any two steps of taking and dropping memory leaves what is
// used, and the next start cleans the rest.
func TestDeathAroundMemory(t *testing.T) {
	at := func(w *world, id core.SnapshotID, rest string) bool {
		_, err := os.Lstat(filepath.Join(w.dir, "layers", string(id), rest))
		return err == nil
	}
	t.Run("between begin and freeze", func(t *testing.T) {
		w := newWorld(t)
		id := w.take("", "a")
		if _, err := w.BeginMemory(t.Context(), id); err != nil {
			t.Fatal(err)
		}
		w.restart()
		w.wantMemory(id, false)
	})
	t.Run("between freeze and commit", func(t *testing.T) {
		w := newWorld(t)
		id := w.take("", "a")
		p, err := w.BeginMemory(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		w.freeze(p, "live")
		w.image(p.Into)
		w.uses = []snapshot.Use{{By: "environment shop", Snapshot: id, Memory: true}}
		w.gc(overlay.Request{}) // a collection meanwhile takes nothing away
		if !at(w, id, "live/upper") || !at(w, id, "live/image") {
			t.Error("a collection took away what was being written")
		}
		w.restart()
		w.wantMemory(id, false)
		if at(w, id, "live") {
			t.Error("what was half taken is still there")
		}
		w.addMemory(id, "live")
		w.wantMemory(id, true)
	})
	t.Run("before the row says so", func(t *testing.T) {
		w := newWorld(t)
		id := w.take("", "a")
		p, err := w.BeginMemory(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		frozen := w.freeze(p, "live")
		frozen.Image = w.image(p.Into)
		w.rows.fail = true
		if err := w.CommitMemory(t.Context(), id, frozen, nil); !errors.Is(err, errDies) {
			t.Fatal(err)
		}
		w.restart()
		w.wantMemory(id, true)
		// Dropping it dies between manifest and row.
		w.rows.fail = true
		if err := w.DropMemory(t.Context(), id); !errors.Is(err, errDies) {
			t.Fatal(err)
		}
		w.restart()
		w.wantMemory(id, false)
		if at(w, id, "live") || !at(w, id, "upper") {
			t.Error("wrong directories are left")
		}
	})
	t.Run("a suspended session completed without its image", func(t *testing.T) {
		w := newWorld(t)
		p := w.begin(snapshot.Draft{})
		w.freeze(p, "precious")
		w.image(p.Into)
		w.restart()
		w.wantState(p.ID, core.SnapshotReady, true)
		w.wantMemory(p.ID, false)
	})
	t.Run("while something stands on the running state", func(t *testing.T) {
		w := newWorld(t)
		id := w.take("", "a")
		w.addMemory(id, "live")
		d := w.begin(snapshot.Draft{Parent: id, Live: true})
		child, err := w.Commit(t.Context(), d.ID, w.freeze(d, "child"))
		if err != nil {
			t.Fatal(err)
		}
		w.uses = []snapshot.Use{{By: "session ses_1", Snapshot: child.ID}}
		w.gc(overlay.Request{})
		w.restart()
		w.wantMemory(id, false)
		if !at(w, id, "live/upper") {
			t.Error("the files that a session stands on are gone")
		}
		if _, err := w.Layers(t.Context(), child.ID); err != nil {
			t.Error(err)
		}
	})
}
