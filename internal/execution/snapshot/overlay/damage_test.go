package overlay_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"drydock/internal/core"
	"drydock/internal/execution/snapshot"
	"drydock/internal/testkit/need"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Whatever happened to what lies on the disk, it is found before a sandbox is
// started from it, and named.
func TestDamageIsFoundBeforeAnythingStarts(t *testing.T) {
	need.Root(t) // whose layer it is stands in an attribute that only root may write
	flip := func(t *testing.T, path string) {
		t.Helper()
		data, err := os.ReadFile(path)
		must(t, err)
		data[len(data)/2] ^= 1
		must(t, os.WriteFile(path, data, 0o600))
	}
	swap := func(t *testing.T, a, b string) {
		t.Helper()
		must(t, os.Rename(a, a+".x"))
		must(t, os.Rename(b, a))
		must(t, os.Rename(a+".x", b))
	}
	for name, c := range map[string]struct {
		damage func(t *testing.T, mine, other string)
		files  bool   // the files cannot be used; else it is the image alone
		says   string // in what is told
	}{
		"a layer is missing": {func(t *testing.T, mine, _ string) { must(t, os.RemoveAll(mine+"/upper")) }, true, "is missing"},
		"a layer is a file": {func(t *testing.T, mine, _ string) {
			must(t, os.RemoveAll(mine+"/upper"))
			must(t, os.WriteFile(mine+"/upper", nil, 0o600))
		}, true, "is missing"},
		"a layer is a link": {func(t *testing.T, mine, other string) {
			must(t, os.RemoveAll(mine+"/upper"))
			must(t, os.Symlink(other+"/upper", mine+"/upper"))
		}, true, "is missing"},
		"a file of a layer is cut short":   {func(t *testing.T, mine, _ string) { must(t, os.Truncate(mine+"/upper/a", 1)) }, true, "was changed"},
		"a file of a layer is gone":        {func(t *testing.T, mine, _ string) { must(t, os.Remove(mine+"/upper/a")) }, true, "was changed"},
		"a file of a layer was written":    {func(t *testing.T, mine, _ string) { must(t, os.WriteFile(mine+"/upper/a", []byte("b"), 0o600)) }, true, "was changed"},
		"layers changed places":            {func(t *testing.T, mine, other string) { swap(t, mine+"/upper", other+"/upper") }, true, "is the layer of"},
		"the running state is gone":        {func(t *testing.T, mine, _ string) { must(t, os.RemoveAll(mine+"/live/upper")) }, false, "is missing"},
		"running states changed places":    {func(t *testing.T, mine, other string) { swap(t, mine+"/live/upper", other+"/live/upper") }, false, "is the layer of"},
		"a file of the image is gone":      {func(t *testing.T, mine, _ string) { must(t, os.Remove(mine+"/live/image/pages.img")) }, false, "damaged"},
		"a file of the image is cut short": {func(t *testing.T, mine, _ string) { must(t, os.Truncate(mine+"/live/image/pages.img", 5)) }, false, "has 5 bytes"},
		"a bit of the image is another":    {func(t *testing.T, mine, _ string) { flip(t, mine+"/live/image/pages.img") }, false, "is not what was written"},
		"a file of the image is a link": {func(t *testing.T, mine, other string) {
			must(t, os.Remove(mine+"/live/image/pages.img"))
			must(t, os.Symlink(other+"/live/image/pages.img", mine+"/live/image/pages.img"))
		}, false, "damaged"},
		"files of an image changed places": {func(t *testing.T, mine, _ string) {
			swap(t, mine+"/live/image/pages.img", mine+"/live/image/checkpoint.img")
		}, false, "damaged"},
		"the image's directory is a file": {func(t *testing.T, mine, _ string) {
			must(t, os.RemoveAll(mine+"/live/image"))
			must(t, os.WriteFile(mine+"/live/image", nil, 0o600))
		}, false, "damaged"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			ids := [2]core.SnapshotID{}
			for i := range ids {
				ids[i] = w.take("", "a", "b")
				w.addMemory(ids[i], "live")
			}
			dir := func(i int) string { return filepath.Join(w.dir, "layers", string(ids[i])) }
			c.damage(t, dir(0), dir(1))
			w.restart()
			_, release, err := w.AcquireMemory(t.Context(), ids[0])
			if err == nil {
				release()
			}
			if !core.Is(err, core.Unavailable) || !strings.Contains(err.Error(), c.says) {
				t.Errorf("the memory image is restored all the same: %v", err)
			}
			if _, err := w.Layers(t.Context(), ids[0]); (err != nil) != c.files {
				t.Errorf("its files: %v", err)
			}
			if err := w.Verify(t.Context(), ids[0]); !core.Is(err, core.Unavailable) || !strings.Contains(err.Error(), c.says) {
				t.Errorf("verify says %v", err)
			}
		})
	}
}

// A manifest that is not what was written is refused, and nothing is removed on
// its word.
func TestHostileManifests(t *testing.T) {
	w := newWorld(t)
	a := w.take("", "a")
	b := w.take(a, "b")
	path := filepath.Join(w.dir, "layers", string(b)+".json")
	good, err := os.ReadFile(path)
	must(t, err)
	for name, text := range map[string]string{
		"empty": "", "cut short": string(good[:len(good)/2]), "of another": strings.ReplaceAll(string(good), string(b), string(a)),
		"with more": string(good) + "{}", "climbing": strings.ReplaceAll(string(good), w.base.Path, "/../etc"),
	} {
		must(t, os.WriteFile(path, []byte(text), 0o600))
		if _, err := w.Layers(t.Context(), b); err == nil {
			t.Errorf("%s: it is used", name)
		}
		w.uses = []snapshot.Use{{By: "session", Snapshot: b}}
		if err := w.Remove(t.Context(), a); err == nil {
			t.Errorf("%s: what lies below was removed", name)
		}
	}
	must(t, os.WriteFile(path, good, 0o600))
	if _, err := w.Layers(t.Context(), b); err != nil {
		t.Error(err)
	}
}
