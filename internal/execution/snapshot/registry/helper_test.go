package registry

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-containerregistry/pkg/registry"
	"golang.org/x/sys/unix"

	"drydock/internal/core"
	"drydock/internal/execution/image"
	"drydock/internal/execution/sandbox"
	"drydock/internal/execution/snapshot"
	"drydock/internal/execution/snapshot/overlay"
	"drydock/internal/store"
	"drydock/internal/testkit/need"
)

// host is a state directory with its stores.
type host struct {
	*Service
	t     *testing.T
	dir   string
	db    *store.DB
	snaps *overlay.Store
	uses  []snapshot.Use
	progs *shelf
}

func newHost(t *testing.T, change ...func(*Options)) *host {
	t.Helper()
	need.Root(t)
	h := &host{t: t, dir: t.TempDir(), progs: &shelf{have: map[string]string{}}}
	var err error
	if h.db, err = store.Open(t.Context(), store.Options{Path: filepath.Join(h.dir, "db")}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { h.db.Close() })
	h.snaps, err = overlay.New(overlay.Deps{
		Rows: h.db, Uses: func(context.Context) ([]snapshot.Use, error) { return h.uses, nil },
	}, overlay.Options{Dir: filepath.Join(h.dir, "layers"), NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	images, err := image.New(image.Options{Dir: filepath.Join(h.dir, "images")})
	if err != nil {
		t.Fatal(err)
	}
	opts := Options{Dir: filepath.Join(h.dir, "registry")}
	for _, c := range change {
		c(&opts)
	}
	if h.Service, err = New(Deps{Snapshots: h.snaps, Images: images, Programs: h.progs}, opts); err != nil {
		t.Fatal(err)
	}
	return h
}

// shelf holds programs.
type shelf struct {
	mu   sync.Mutex
	have map[string]string
}

func (s *shelf) OpenProgram(kind, digest string) (io.ReadCloser, int64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	text, ok := s.have[kind+digest]
	if !ok {
		return nil, 0, core.E("test", core.NotFound, nil, "no %s", kind)
	}
	return io.NopCloser(strings.NewReader(text)), int64(len(text)), nil
}

func (s *shelf) KeepProgram(kind, digest string, r io.Reader) error {
	data, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	if image.Digest(data) != digest {
		return core.E("test", core.Invalid, nil, "another digest")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.have[kind+digest] = string(data)
	return nil
}

// mount shows layers (topmost first) as a sandbox would see them, and returns
// where; what is written there is in upper.
func mount(t *testing.T, layers []string, upper string) string {
	t.Helper()
	at, work := t.TempDir(), t.TempDir()
	opts := "lowerdir=" + strings.Join(layers, ":") + ",upperdir=" + upper + ",workdir=" + work + ",redirect_dir=on,metacopy=off,index=off"
	if err := unix.Mount("overlay", at, "overlay", 0, opts); err != nil {
		t.Fatalf("mount: %v", err)
	}
	t.Cleanup(func() { unix.Unmount(at, unix.MNT_DETACH) })
	return at
}

// shell changes a root on top of layers and returns the new layer.
func shell(t *testing.T, script string, layers ...string) string {
	t.Helper()
	upper := t.TempDir()
	if err := os.Chmod(upper, 0o755); err != nil {
		t.Fatal(err)
	}
	at := upper
	if len(layers) > 0 {
		at = mount(t, layers, upper)
	}
	cmd := exec.CommandContext(t.Context(), "bash", "-euc", script)
	cmd.Dir = at
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", script, err, out)
	}
	if len(layers) > 0 {
		if err := unix.Unmount(at, 0); err != nil {
			t.Fatal(err)
		}
	}
	return upper
}

// tree describes everything in a root.
func tree(t *testing.T, root string) string {
	t.Helper()
	var b strings.Builder
	first := map[uint64]string{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == root {
			return err
		}
		var st unix.Stat_t
		if err := unix.Lstat(path, &st); err != nil {
			return err
		}
		rel, _ := filepath.Rel(root, path)
		fmt.Fprintf(&b, "%s %o %d:%d %d.%09d", rel, st.Mode, st.Uid, st.Gid, st.Mtim.Sec, st.Mtim.Nsec)
		switch {
		case d.Type().IsRegular():
			data, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			fmt.Fprintf(&b, " %d %.12s", len(data), image.Digest(data)[7:])
			if st.Nlink > 1 {
				if first[st.Ino] != "" {
					b.WriteString(" link " + first[st.Ino])
				} else {
					first[st.Ino] = rel
				}
			}
		case d.Type()&fs.ModeSymlink != 0:
			to, _ := os.Readlink(path)
			b.WriteString(" -> " + to)
		}
		for _, attr := range []string{"user.note", "security.capability"} {
			buf := make([]byte, 100)
			if n, err := unix.Lgetxattr(path, attr, buf); err == nil {
				fmt.Fprintf(&b, " %s=%x", attr, buf[:n])
			}
		}
		b.WriteString("\n")
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// frozen makes a snapshot of a layer's files, as a driver and a build would.
func (h *host) frozen(d snapshot.Draft, upper string) core.SnapshotID {
	h.t.Helper()
	p, err := h.snaps.Begin(h.t.Context(), d)
	if err != nil {
		h.t.Fatal(err)
	}
	if err := os.Mkdir(p.Into, 0o700); err != nil {
		h.t.Fatal(err)
	}
	to := filepath.Join(p.Into, "upper")
	if out, err := exec.CommandContext(h.t.Context(), "cp", "-a", upper, to).CombinedOutput(); err != nil {
		h.t.Fatalf("%v: %s", err, out)
	}
	if _, err := h.snaps.Commit(h.t.Context(), p.ID, sandbox.Frozen{Upper: to}); err != nil {
		h.t.Fatal(err)
	}
	return p.ID
}

// remember gives a snapshot a memory image.
func (h *host) remember(id core.SnapshotID, files map[string]string) {
	h.t.Helper()
	p, err := h.snaps.BeginMemory(h.t.Context(), id)
	if err != nil {
		h.t.Fatal(err)
	}
	upper, dir := filepath.Join(p.Into, "upper"), filepath.Join(p.Into, "image")
	for _, d := range []string{upper, dir} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			h.t.Fatal(err)
		}
	}
	write(h.t, filepath.Join(upper, "pid"), "4711")
	for name, text := range files {
		write(h.t, filepath.Join(dir, name), text)
	}
	fit := sandbox.Fit{Runtime: image.Digest([]byte("runsc build")), Init: image.Digest([]byte("init build")), Shape: "s", Network: "n", CPU: []string{"avx"}}
	h.progs.have["runsc"+fit.Runtime], h.progs.have["drydock-init"+fit.Init] = "runsc build", "init build"
	err = h.snaps.CommitMemory(h.t.Context(), id, sandbox.Frozen{Upper: upper, Image: &sandbox.Image{Dir: dir, Token: "tok", Fit: fit}}, []string{"db"})
	if err != nil {
		h.t.Fatal(err)
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// seen is the content of a snapshot as a sandbox sees it.
func (h *host) seen(id core.SnapshotID) string {
	h.t.Helper()
	layers, err := h.snaps.Layers(h.t.Context(), id)
	if err != nil {
		h.t.Fatal(err)
	}
	at := mount(h.t, layers, h.t.TempDir())
	defer unix.Unmount(at, 0)
	return tree(h.t, at)
}

// clean says that nothing half-made is left.
func (h *host) clean() {
	h.t.Helper()
	for _, state := range []core.SnapshotState{core.SnapshotReady, core.SnapshotWriting} {
		rows, err := h.db.SnapshotsInState(h.t.Context(), state)
		if err != nil || len(rows) > 0 {
			h.t.Errorf("rows left: %v %v", rows, err)
		}
	}
	for _, dir := range []string{"layers", "registry/tmp", "registry/pulled", "images/work"} {
		if left, _ := os.ReadDir(filepath.Join(h.dir, dir)); len(left) > 0 {
			h.t.Errorf("%s: left %v", dir, left)
		}
	}
}

// server is a registry in this process, whose answers a test may change.
type server struct {
	*httptest.Server
	host string

	mu       sync.Mutex
	requests []string
	hook     func(w http.ResponseWriter, r *http.Request, next http.Handler) bool
}

func newServer(t *testing.T) *server {
	t.Helper()
	s := &server{}
	inner := registry.New(registry.Logger(log.New(io.Discard, "", 0)))
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		s.requests = append(s.requests, r.Method+" "+r.URL.Path)
		hook := s.hook
		s.mu.Unlock()
		if hook != nil && hook(w, r, inner) {
			return
		}
		inner.ServeHTTP(w, r)
	}))
	t.Cleanup(s.Close)
	s.host = strings.TrimPrefix(s.URL, "http://")
	return s
}

func (s *server) use(hook func(w http.ResponseWriter, r *http.Request, next http.Handler) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hook = hook
}

// asked names the requests of a kind.
func (s *server) asked(method, part string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(s.requests), func(r string) bool {
		return !strings.HasPrefix(r, method) || !strings.Contains(r, part)
	})
}
