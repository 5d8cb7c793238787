package overlay_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"drydock/internal/core"
	"drydock/internal/execution/sandbox"
	"drydock/internal/execution/snapshot"
	"drydock/internal/execution/snapshot/overlay"
	"drydock/internal/testkit/need"
)

// mount mounts layers below an upper directory, as a sandbox has them.
func (w *world) mount(layers []string, upper string) (root string, unmount func()) {
	w.t.Helper()
	dir, err := os.MkdirTemp(filepath.Join(w.dir, "layers"), "m")
	if err != nil {
		w.t.Fatal(err)
	}
	root = filepath.Join(dir, "root")
	options := "lowerdir=" + strings.Join(layers, ":") + ",redirect_dir=on,metacopy=off,index=off"
	if upper != "" {
		options += ",upperdir=" + upper + ",workdir=" + filepath.Join(dir, "work")
	}
	for _, d := range []string{"root", "work"} {
		if err := os.Mkdir(filepath.Join(dir, d), 0o755); err != nil {
			w.t.Fatal(err)
		}
	}
	if err := unix.Mount("overlay", root, "overlay", unix.MS_NODEV|unix.MS_NOSUID, options); err != nil {
		w.t.Fatal(err)
	}
	done := false
	unmount = func() {
		if !done {
			done = true
			if err := errors.Join(unix.Unmount(root, unix.MNT_DETACH), os.RemoveAll(dir)); err != nil {
				w.t.Error(err)
			}
		}
	}
	w.t.Cleanup(unmount)
	return root, unmount
}

// session starts a sandbox from a snapshot, lets work happen, and freezes it.
func (w *world) session(parent core.SnapshotID, work func(root string)) core.SnapshotID {
	w.t.Helper()
	p := w.begin(snapshot.Draft{Parent: parent})
	upper := filepath.Join(w.dir, "layers", "upper-"+string(p.ID))
	if err := os.Mkdir(upper, 0o755); err != nil {
		w.t.Fatal(err)
	}
	layers := []string{w.base.Path}
	if parent != "" {
		var err error
		if layers, err = w.Layers(w.t.Context(), parent); err != nil {
			w.t.Fatal(err)
		}
	}
	root, unmount := w.mount(layers, upper)
	work(root)
	unmount()
	if err := os.Mkdir(p.Into, 0o700); err != nil {
		w.t.Fatal(err)
	}
	if err := os.Rename(upper, filepath.Join(p.Into, "upper")); err != nil {
		w.t.Fatal(err)
	}
	if _, err := w.Commit(w.t.Context(), p.ID, sandbox.Frozen{Upper: filepath.Join(p.Into, "upper")}); err != nil {
		w.t.Fatal(err)
	}
	return p.ID
}

// seen is everything that can be told of a tree from inside.
func (w *world) seen(id core.SnapshotID) map[string]string {
	w.t.Helper()
	layers, err := w.Layers(w.t.Context(), id)
	if err != nil {
		w.t.Fatal(err)
	}
	root, unmount := w.mount(layers, "")
	defer unmount()
	return describeTree(w.t, root)
}

func describeTree(t *testing.T, root string) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		var st unix.Stat_t
		if err := unix.Lstat(path, &st); errors.Is(err, fs.ErrNotExist) {
			return nil // the kernel lists a whiteout that hides nothing: nobody can open it
		} else if err != nil {
			return err
		}
		text := fmt.Sprintf("%o %d:%d %d.%d rdev %d", st.Mode, st.Uid, st.Gid, st.Mtim.Sec, st.Mtim.Nsec, st.Rdev)
		buf := make([]byte, 4096)
		if n, err := unix.Llistxattr(path, buf); err == nil {
			names := strings.Split(string(buf[:n]), "\x00")
			slices.Sort(names)
			for _, name := range names {
				if name == "" || name == "trusted.drydock.layer" {
					continue
				}
				value := make([]byte, 4096)
				n, err := unix.Lgetxattr(path, name, value)
				text += fmt.Sprintf(" %s=%q %v", name, value[:max(n, 0)], err)
			}
		}
		switch {
		case d.Type()&fs.ModeSymlink != 0:
			to, err := os.Readlink(path)
			text += fmt.Sprintf(" -> %s %v", to, err)
		case d.Type().IsRegular():
			data, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			text += fmt.Sprintf(" size %d %x", len(data), sha256.Sum256(data))
		}
		rel, err := filepath.Rel(root, path)
		out[rel] = text
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func wantSame(t *testing.T, was, is map[string]string) {
	t.Helper()
	for path, text := range was {
		if is[path] != text {
			t.Errorf("%s: was %s\nis %s", path, text, is[path])
		}
	}
	for path := range is {
		if _, ok := was[path]; !ok {
			t.Errorf("%s is new: %s", path, is[path])
		}
	}
}

// mess does random things to a tree, as package managers and tests do.
type mess struct {
	r    *rand.Rand
	root string
	did  []string
}

func (m *mess) pick(dirs bool) string {
	var all []string
	_ = filepath.WalkDir(m.root, func(path string, d fs.DirEntry, err error) error {
		if err == nil && path != m.root && d.IsDir() == dirs {
			all = append(all, path)
		}
		return nil
	})
	if len(all) == 0 {
		return m.root
	}
	return all[m.r.IntN(len(all))]
}

// name is one of few, so that things meet.
func (m *mess) name() string { return string(rune('a' + m.r.IntN(6))) }

func (m *mess) dir() string {
	if m.r.IntN(4) == 0 {
		return m.root
	}
	return m.pick(true)
}

func (m *mess) step() {
	to := filepath.Join(m.dir(), m.name())
	from, verb := "", ""
	var err error
	switch n := m.r.IntN(16); n {
	case 0, 1, 2:
		verb, err = "write", os.WriteFile(to, []byte(m.name()+to), 0o644)
	case 3, 4:
		verb, err = "mkdir", os.Mkdir(to, 0o755)
	case 5:
		if to = m.pick(false); to != m.root {
			verb, err = "rm", os.Remove(to)
		}
	case 6:
		to = m.pick(true)
		if to != m.root {
			verb, err = "rm -r", os.RemoveAll(to)
		}
	case 7, 8, 9:
		from = m.pick(true)
		verb, err = "mv", os.Rename(from, to)
	case 10:
		from = m.pick(false)
		verb, err = "mv", os.Rename(from, to)
	case 11:
		from = m.pick(false)
		verb, err = "ln", os.Link(from, to)
	case 12:
		verb, err = "ln -s", os.Symlink(m.name(), to)
	case 13:
		to = m.pick(m.r.IntN(2) == 0)
		verb, err = "chmod", os.Chmod(to, fs.FileMode(0o700|m.r.IntN(64)))
	case 14:
		to = m.pick(m.r.IntN(2) == 0)
		verb, err = "setfattr", unix.Lsetxattr(to, "user."+m.name(), []byte(m.name()), 0)
	case 15:
		from = m.pick(true)
		if from != m.root { // replaced by one of its name: opaque
			if err = os.RemoveAll(from); err == nil {
				err = os.Mkdir(from, 0o711)
			}
		}
		verb = "replace"
	}
	m.did = append(m.did, fmt.Sprintf("%s %s %s: %v", verb, strings.TrimPrefix(from, m.root), strings.TrimPrefix(to, m.root), err))
}

func TestCompactionIsNotSeen(t *testing.T) {
	need.Root(t)
	seeds := 8
	for seed := range seeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			r := rand.New(rand.NewPCG(uint64(seed), 7))
			w := newWorld(t)
			base := &mess{r: r, root: w.base.Path}
			for range 60 {
				base.step()
			}
			var did [][]string
			work := func(root string) {
				m := &mess{r: r, root: root}
				for range 5 + r.IntN(30) {
					m.step()
				}
				did = append(did, m.did)
			}
			env := w.session("", work)
			for range 2 {
				env = w.session(env, work)
			}
			mine, other := env, w.session(env, work)
			for range 6 {
				mine = w.session(mine, work)
			}
			w.uses = []snapshot.Use{{By: "environment", Snapshot: env}, {By: "session 1", Snapshot: mine}, {By: "session 2", Snapshot: other}}
			before := map[core.SnapshotID]map[string]string{}
			for _, id := range []core.SnapshotID{env, mine, other} {
				before[id] = w.seen(id)
			}
			running, err := w.Layers(t.Context(), mine)
			if err != nil {
				t.Fatal(err)
			}
			c, err := w.Compact(t.Context(), 0, 8)
			if err != nil || c.Merged != 9 || c.Into != 2 {
				t.Errorf("compacted %+v, error %v", c, err)
			}
			check := func() {
				t.Helper()
				for id, was := range before {
					wantSame(t, was, w.seen(id))
					if err := w.Verify(t.Context(), id); err != nil {
						t.Error(err)
					}
				}
			}
			check()
			// What runs keeps its layers; afterwards only the new ones are left.
			w.uses = append(w.uses, snapshot.Use{By: "sandbox", Layers: running})
			w.gc(overlay.Request{})
			for _, dir := range running {
				if _, err := os.Stat(dir); err != nil {
					t.Errorf("a running sandbox lost %v", err)
				}
			}
			w.uses = w.uses[:3]
			w.gc(overlay.Request{})
			w.restart()
			check()
			layers, err := w.Layers(t.Context(), mine)
			if err != nil || len(layers) != 3 {
				t.Errorf("layers %v, error %v", layers, err)
			}
			if _, err := os.Stat(running[2]); err == nil {
				t.Errorf("%s is still there", running[2])
			}
			// Work goes on above, and the next time it is merged again.
			for range 8 {
				mine = w.session(mine, work)
			}
			delete(before, w.uses[1].Snapshot)
			w.uses[1].Snapshot = mine
			before[mine] = w.seen(mine)
			if c, err := w.Compact(t.Context(), 0, 8); err != nil || c.Into != 1 {
				t.Errorf("compacted %+v, error %v", c, err)
			}
			w.gc(overlay.Request{})
			check()
			if t.Failed() {
				for i, list := range did {
					t.Logf("session %d:\n%s", i, strings.Join(list, "\n"))
				}
			}
		})
	}
}

// A death at any step of a compaction leaves every chain whole; the next one
// finishes, and what was half made goes.
func TestDeathInACompaction(t *testing.T) {
	need.Root(t)
	w := newWorld(t)
	var env, id core.SnapshotID
	write := func(name string) func(string) {
		return func(root string) {
			if err := os.WriteFile(filepath.Join(root, name), []byte(name), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	for i := range 6 {
		env = w.session(env, write(fmt.Sprintf("env%d", i)))
	}
	id = env
	for i := range 6 {
		id = w.session(id, write(fmt.Sprintf("ses%d", i)))
	}
	w.uses = []snapshot.Use{{By: "environment", Snapshot: env}, {By: "session", Snapshot: id}}
	was := w.seen(id)
	manifest := func(id core.SnapshotID) string { return filepath.Join(w.dir, "layers", string(id)+".json") }
	before, err := os.ReadFile(manifest(id))
	if err != nil {
		t.Fatal(err)
	}
	check := func(when string) {
		t.Helper()
		w.gc(overlay.Request{})
		w.restart()
		wantSame(t, was, w.seen(id))
		for _, s := range []core.SnapshotID{env, id} {
			if err := w.Verify(t.Context(), s); err != nil {
				t.Errorf("%s: %v", when, err)
			}
		}
	}
	// Cut off before anything was made.
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := w.Compact(ctx, 0, 8); !core.Is(err, core.Canceled) {
		t.Errorf("cut off: %v", err)
	}
	check("cut off")
	// While it was made, and after it was made but not yet named.
	for _, name := range []string{".merging-x", "merged-6"} {
		if err := os.MkdirAll(filepath.Join(w.dir, "layers", string(id), name, "half"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if c, err := w.Compact(t.Context(), 0, 8); err != nil || c.Into != 2 {
		t.Fatalf("%+v, error %v", c, err)
	}
	// After the manifests of older snapshots were written: this one is as before.
	if err := os.WriteFile(manifest(id), before, 0o600); err != nil {
		t.Fatal(err)
	}
	check("between manifests")
	if _, err := w.Compact(t.Context(), 0, 8); err != nil {
		t.Fatal(err)
	}
	check("done")
	if left, err := filepath.Glob(filepath.Join(w.dir, "layers", "*", ".*")); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, error %v", left, err)
	}
	if layers, err := w.Layers(t.Context(), id); err != nil || len(layers) > 3 {
		t.Errorf("layers %v, error %v", layers, err)
	}
}
