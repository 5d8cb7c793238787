package registry

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"drydock/internal/execution/image"
	"drydock/internal/testkit/need"
)

// scramble does what programs do to a tree: makes, renames, replaces, removes.
func scramble(t *testing.T, root string, r *rand.Rand, steps int) {
	t.Helper()
	name := func() string { return string(rune('a' + r.IntN(5))) }
	for i := range steps {
		var dirs, all []string
		err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if err == nil && path != root {
				all = append(all, path)
			}
			if err == nil && d.IsDir() {
				dirs = append(dirs, path)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		dir := dirs[r.IntN(len(dirs))]
		to := filepath.Join(dir, name())
		switch n := r.IntN(10); {
		case n < 3 || len(all) == 0:
			_ = os.Mkdir(to, 0o755)
		case n < 5:
			_ = os.WriteFile(to, fmt.Appendf(nil, "%d", i), 0o644)
		case n < 8:
			_ = os.Rename(all[r.IntN(len(all))], to) // into itself, over a full one: refused, which is fine
		case n < 9:
			_ = os.RemoveAll(all[r.IntN(len(all))])
		default:
			_ = os.Chmod(all[r.IntN(len(all))], 0o750)
		}
	}
}

// TestWhateverWasRenamed compares what overlayfs shows of layers that were
// scrambled one on another with what is unpacked from what they pack to.
func TestWhateverWasRenamed(t *testing.T) {
	need.Root(t)
	images, err := image.New(image.Options{Dir: filepath.Join(t.TempDir(), "images")})
	if err != nil {
		t.Fatal(err)
	}
	for seed := range uint64(12) {
		r := rand.New(rand.NewPCG(seed, 7))
		var layers, again []string // topmost first
		for n := range 5 {
			upper := t.TempDir()
			if err := os.Chmod(upper, 0o755); err != nil {
				t.Fatal(err)
			}
			if n == 0 {
				scramble(t, upper, r, 60)
			} else {
				at := mount(t, layers, upper)
				scramble(t, at, r, 30)
				if err := unix.Unmount(at, 0); err != nil {
					t.Fatal(err)
				}
			}
			layers = append([]string{upper}, layers...)

			var tar bytes.Buffer
			if err := pack(t.Context(), &tar, layers, func(string) {}); err != nil {
				t.Fatalf("seed %d, layer %d: %v", seed, n, err)
			}
			dir := t.TempDir()
			if err := os.Chmod(dir, 0o755); err != nil {
				t.Fatal(err)
			}
			digest := image.Digest(tar.Bytes())
			blob := image.Blob{Descriptor: image.Descriptor{Digest: digest}, DiffID: digest, Open: func(context.Context) io.ReadCloser {
				return io.NopCloser(bytes.NewReader(tar.Bytes()))
			}}
			below := func(context.Context) ([]string, error) { return again, nil }
			if err := images.Unpack(t.Context(), blob, dir, image.Limits{}, below); err != nil {
				t.Fatalf("seed %d, layer %d: %v", seed, n, err)
			}
			again = append([]string{dir}, again...)
			want, got := tree(t, mount(t, layers, t.TempDir())), tree(t, mount(t, again, t.TempDir()))
			if diff := cmp.Diff(want, got); diff != "" {
				t.Fatalf("seed %d, after layer %d:\n%s", seed, n, diff)
			}
		}
	}
}
