package image

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/klauspost/compress/zstd"
	"golang.org/x/sys/unix"

	"drydock/internal/core"
	"drydock/internal/testkit/need"
)

// entry is one file of a generated layer.
type entry struct {
	name string
	kind byte
	data string
	link string
	mode int64
	uid  int
	pax  map[string]string
}

func archive(t testing.TB, entries ...entry) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, e := range entries {
		if e.kind == 0 {
			e.kind = tar.TypeReg
		}
		if e.mode == 0 {
			e.mode = 0o644
			if e.kind == tar.TypeDir {
				e.mode = 0o755
			}
		}
		h := &tar.Header{Name: e.name, Typeflag: e.kind, Linkname: e.link, Mode: e.mode, Uid: e.uid, Gid: e.uid, Size: int64(len(e.data)), ModTime: time.Unix(1700000000, 0), PAXRecords: e.pax}
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, e.data); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func dir(name string) entry        { return entry{name: name, kind: tar.TypeDir} }
func file(name, data string) entry { return entry{name: name, data: data} }
func link(name, to string) entry   { return entry{name: name, kind: tar.TypeSymlink, link: to} }
func hard(name, to string) entry   { return entry{name: name, kind: tar.TypeLink, link: to} }

func layerOf(t testing.TB, raw []byte, pack func([]byte) []byte, kind types.MediaType) v1.Layer {
	t.Helper()
	packed := pack(raw)
	l, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(packed)), nil }, tarball.WithMediaType(kind))
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func packGzip(raw []byte) []byte {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, _ = w.Write(raw)
	_ = w.Close()
	return b.Bytes()
}

func packZstd(raw []byte) []byte {
	var b bytes.Buffer
	w, _ := zstd.NewWriter(&b)
	_, _ = w.Write(raw)
	_ = w.Close()
	return b.Bytes()
}

func imageOf(t testing.TB, layers ...v1.Layer) v1.Image {
	t.Helper()
	img, err := mutate.AppendLayers(mutate.MediaType(empty.Image, types.OCIManifestSchema1), layers...)
	if err != nil {
		t.Fatal(err)
	}
	cf, err := img.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	cf = cf.DeepCopy()
	cf.OS, cf.Architecture = "linux", runtime.GOARCH
	cf.Config = v1.Config{Env: []string{"A=b", "bad"}, Entrypoint: []string{"/init"}, Cmd: []string{"x"}, User: "app", WorkingDir: "/srv"}
	img, err = mutate.ConfigFile(img, cf)
	if err != nil {
		t.Fatal(err)
	}
	return img
}

type server struct {
	*httptest.Server
	host   string
	blobs  atomic.Int64
	fail   atomic.Int64 // how many blob downloads to cut off
	user   string
	broken string // which blob
}

func newServer(t testing.TB, user string) *server {
	t.Helper()
	s := &server{user: user}
	inner := registry.New(registry.Logger(log.New(io.Discard, "", 0)))
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s.user != "" {
			if u, p, _ := r.BasicAuth(); u != s.user || p != "secret" {
				w.Header().Set("WWW-Authenticate", `Basic realm="x"`)
				w.WriteHeader(http.StatusUnauthorized)
				return
			}
		}
		if r.Method == http.MethodGet && strings.Contains(r.URL.Path, "/blobs/") {
			s.blobs.Add(1)
			if s.fail.Load() > 0 && strings.HasSuffix(r.URL.Path, s.broken) {
				s.fail.Add(-1)
				_, _ = w.Write([]byte{0x1f, 0x8b})
				_ = http.NewResponseController(w).Flush()
				panic(http.ErrAbortHandler)
			}
		}
		inner.ServeHTTP(w, r)
	}))
	t.Cleanup(s.Close)
	s.host = strings.TrimPrefix(s.URL, "http://")
	return s
}

func (s *server) push(t testing.TB, repo string, img v1.Image) string {
	t.Helper()
	full := s.host + "/" + repo
	ref, err := name.ParseReference(full)
	if err != nil {
		t.Fatal(err)
	}
	user := s.user
	s.user = ""
	defer func() { s.user = user }()
	if err := remote.Write(ref, img); err != nil {
		t.Fatal(err)
	}
	return full
}

func gz(t testing.TB, entries ...entry) v1.Layer {
	return layerOf(t, archive(t, entries...), packGzip, types.OCILayer)
}

func TestPull(t *testing.T) {
	need.Root(t)
	srv := newServer(t, "")
	s := newStore(t, nil)
	ctx := t.Context()
	bottom := gz(t,
		dir("etc/"), file("etc/os-release", "ID=alpine\nVERSION_ID=3.20\n"),
		dir("bin/"), entry{name: "bin/su", data: "x", mode: 0o4755}, hard("bin/su2", "bin/su"), link("bin/sh", "/bin/su"),
		entry{name: "home/u", kind: tar.TypeDir, mode: 0o700, uid: 1000}, file("gone", "x"), dir("old"), file("old/a", "x"),
		entry{name: "bin/cap", data: "c", mode: 0o755, pax: map[string]string{
			"SCHILY.xattr.security.capability":      "\x01\x00\x00\x02\x00\x04\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00",
			"SCHILY.xattr.trusted.overlay.redirect": "/etc",
			"SCHILY.xattr.trusted.overlay.metacopy": "",
			"SCHILY.xattr.user.note":                "hello",
			"SCHILY.xattr.user.overlay.opaque":      "y",
		}},
		entry{name: "fifo", kind: tar.TypeFifo}, entry{name: "dev/null", kind: tar.TypeChar},
	)
	top := layerOf(t, archive(t, file(".wh.gone", ""), dir("old"), file("old/.wh..wh..opq", ""), file("old/b", "y"), file("./etc/new", "n")), packZstd, types.OCILayerZStd)
	ref := srv.push(t, "team/app:v1", imageOf(t, bottom, top, bottom))

	img, err := s.Ensure(ctx, Request{Base: ref})
	if err != nil {
		t.Fatal(err)
	}
	want := Image{
		Base: ref, Digest: img.Digest, Layers: img.Layers, Env: []string{"A=b"}, Cmd: []string{"/init", "x"}, User: "app", WorkDir: "/srv",
		OS: OS{ID: "alpine", Version: "3.20", Family: "alpine"}, Created: img.Created,
	}
	if diff := cmp.Diff(want, img); diff != "" {
		t.Error(diff)
	}
	if len(img.Layers) != 2 { // the doubled one stands once
		t.Fatalf("layers: %v", img.Layers)
	}
	bottomDir, topDir := img.Layers[0], img.Layers[1]
	st := stat(t, filepath.Join(bottomDir, "bin/su"))
	if st.Mode&0o7777 != 0o4755 || st.Nlink != 2 || st.Mtim.Sec != 1700000000 {
		t.Errorf("su: mode %o, links %d", st.Mode, st.Nlink)
	}
	if st := stat(t, filepath.Join(bottomDir, "home/u")); st.Uid != 1000 || st.Mode&0o7777 != 0o700 {
		t.Errorf("home: %+v", st)
	}
	if st := stat(t, filepath.Join(bottomDir, "fifo")); st.Mode&syscall.S_IFMT != syscall.S_IFIFO {
		t.Errorf("fifo: %o", st.Mode)
	}
	attrs := listAttrs(t, filepath.Join(bottomDir, "bin/cap"))
	if diff := cmp.Diff([]string{"security.capability", "user.note"}, attrs); diff != "" {
		t.Error(diff)
	}
	if _, err := os.Lstat(filepath.Join(bottomDir, "dev/null")); err == nil {
		t.Error("a device was made")
	}
	if st := stat(t, filepath.Join(topDir, "gone")); st.Mode&syscall.S_IFMT != syscall.S_IFCHR || st.Rdev != 0 {
		t.Errorf("whiteout: %o", st.Mode)
	}
	if !isOpaque(filepath.Join(topDir, "old")) {
		t.Error("not opaque")
	}

	before := srv.blobs.Load()
	again, err := s.Ensure(ctx, Request{Base: ref})
	if err != nil || !cmp.Equal(img, again) {
		t.Errorf("again: %v", err)
	}
	byDigest, err := s.Ensure(ctx, Request{Base: srv.host + "/team/app@" + img.Digest})
	if err != nil || byDigest.Digest != img.Digest {
		t.Errorf("by digest: %v", err)
	}
	// Another image with the same layer fetches only its own.
	other := srv.push(t, "team/other:v1", imageOf(t, bottom, gz(t, file("x", "x"))))
	if _, err := s.Ensure(ctx, Request{Base: other}); err != nil {
		t.Error(err)
	}
	if n := srv.blobs.Load() - before; n > 4 { // configurations and one layer
		t.Errorf("%d blobs were fetched", n)
	}
	// Without the registry, what is here still works.
	srv.Close()
	if offline, err := s.Ensure(ctx, Request{Base: ref}); err != nil || offline.Digest != img.Digest {
		t.Errorf("registry away: %v", err)
	}
	if _, err := s.Ensure(ctx, Request{Base: srv.host + "/team/unknown:v1"}); !core.Is(err, core.Unavailable) {
		t.Errorf("registry away: %v", err)
	}
	if left, _ := os.ReadDir(filepath.Join(s.dir, "work")); len(left) != 0 {
		t.Errorf("left in work: %v", left)
	}
}

func stat(t testing.TB, path string) syscall.Stat_t {
	t.Helper()
	var st syscall.Stat_t
	if err := syscall.Lstat(path, &st); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	return st
}

func listAttrs(t testing.TB, path string) []string {
	t.Helper()
	buf := make([]byte, 4096)
	n, err := unix.Llistxattr(path, buf)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for a := range strings.SplitSeq(strings.TrimRight(string(buf[:n]), "\x00"), "\x00") {
		if a != "security.selinux" && a != "" {
			out = append(out, a)
		}
	}
	slices.Sort(out)
	return out
}

func TestCredentials(t *testing.T) {
	need.Root(t)
	srv := newServer(t, "ada")
	img := imageOf(t, gz(t, file("x", "x")))
	ref := srv.push(t, "app:v1", img)
	if _, err := newStore(t, nil).Ensure(t.Context(), Request{Base: ref}); !core.Is(err, core.Denied) || core.HintOf(err) == "" {
		t.Errorf("nobody: %v", err)
	}
	s := newStore(t, func(o *Options) {
		o.Registry.Credentials = map[string]Credential{srv.host: {"ada", "secret"}}
	})
	if _, err := s.Ensure(t.Context(), Request{Base: ref}); err != nil {
		t.Errorf("configured: %v", err)
	}
	home := t.TempDir()
	_ = os.Mkdir(filepath.Join(home, ".docker"), 0o700)
	login := fmt.Sprintf(`{"auths": {%q: {"auth": %q}}}`, srv.host, base64.StdEncoding.EncodeToString([]byte("ada:secret")))
	if err := os.WriteFile(filepath.Join(home, ".docker", "config.json"), []byte(login), 0o600); err != nil {
		t.Fatal(err)
	}
	s = newStore(t, func(o *Options) { o.Environ = []string{"HOME=" + home} })
	if _, err := s.Ensure(t.Context(), Request{Base: ref}); err != nil {
		t.Errorf("logged in: %v", err)
	}
}

func TestReferences(t *testing.T) {
	s := newStore(t, nil)
	for _, short := range []string{"node", "node:20", "library/node"} {
		_, err := s.Ensure(t.Context(), Request{Base: short})
		if !core.Is(err, core.Invalid) || !strings.Contains(core.HintOf(err), "default_registry") {
			t.Errorf("%s: %v", short, err)
		}
	}
	s = newStore(t, func(o *Options) { o.Registry.Default = "registry.example.com/mirror" })
	for in, want := range map[string]string{
		"node:20":           "registry.example.com/mirror/node:20",
		"a/b":               "registry.example.com/mirror/a/b:latest",
		"r.example.com/a/b": "r.example.com/a/b:latest",
		"localhost:5000/a":  "localhost:5000/a:latest",
	} {
		ref, err := s.parseReference(in, nil)
		if err != nil || ref.Name() != want {
			t.Errorf("%s: %v %v", in, ref, err)
		}
	}
	// A private address is spoken to with TLS unless that was said.
	_, err := s.Ensure(t.Context(), Request{Base: "10.255.255.254:1/a"})
	if !core.Is(err, core.Denied) && !core.Is(err, core.Unavailable) {
		t.Errorf("private: %v", err)
	}
	for host, want := range map[string]bool{"localhost:1": true, "127.0.0.1:5": true, "[::1]:5": true, "10.0.0.1": false, "r.example.com": false, "in.example.com:80": true} {
		if got := plainAllowed(host, []string{"in.example.com"}); got != want {
			t.Errorf("%s: %v", host, got)
		}
	}
	srv := newServer(t, "")
	if _, err := s.Ensure(t.Context(), Request{Base: srv.host + "/nothing:v1"}); !core.Is(err, core.NotFound) {
		t.Errorf("missing: %v", err)
	}
}

func TestBrokenDownloadsAreTriedAgain(t *testing.T) {
	need.Root(t)
	srv := newServer(t, "")
	layer := gz(t, file("x", strings.Repeat("abc", 100)))
	ref := srv.push(t, "app:v1", imageOf(t, layer))
	h, err := layer.Digest()
	if err != nil {
		t.Fatal(err)
	}
	srv.broken = h.Hex
	s := newStore(t, nil)
	srv.fail.Store(2)
	if _, err := s.Ensure(t.Context(), Request{Base: ref}); err != nil {
		t.Errorf("two broken downloads: %v", err)
	}
	s = newStore(t, nil)
	srv.fail.Store(1000)
	if _, err := s.Ensure(t.Context(), Request{Base: ref}); !core.Is(err, core.Unavailable) {
		t.Errorf("always broken: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Ensure(ctx, Request{Base: ref}); !core.Is(err, core.Canceled) {
		t.Errorf("canceled: %v", err)
	}
}

func TestOCILayout(t *testing.T) {
	need.Root(t)
	a, b := imageOf(t, gz(t, file("a", "a"))), imageOf(t, gz(t, file("b", "b")))
	dir := t.TempDir()
	p, err := layout.Write(dir, empty.Index)
	if err != nil {
		t.Fatal(err)
	}
	for tag, img := range map[string]v1.Image{"one": a, "two": b} {
		if err := p.AppendImage(img, layout.WithAnnotations(map[string]string{refNameAnno: tag})); err != nil {
			t.Fatal(err)
		}
	}
	foreign := mutate.AppendManifests(empty.Index, mutate.IndexAddendum{Add: b, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: "other"}}})
	if err := p.AppendIndex(foreign, layout.WithAnnotations(map[string]string{refNameAnno: "foreign"})); err != nil {
		t.Fatal(err)
	}
	s := newStore(t, nil)
	digest, _ := b.Digest()
	for spec, file := range map[string]string{dir + ":one": "a", dir + ":two": "b", dir + "@" + digest.String(): "b"} {
		img, err := s.Ensure(t.Context(), Request{Base: "oci-layout:" + spec})
		if err != nil {
			t.Errorf("%s: %v", spec, err)
			continue
		}
		if _, err := os.Stat(filepath.Join(img.Layers[0], file)); err != nil {
			t.Error(err)
		}
	}
	for _, spec := range []string{dir + ":none", dir + ":foreign", "/nonexistent", "relative"} {
		if _, err := s.Ensure(t.Context(), Request{Base: "oci-layout:" + spec}); !core.Is(err, core.NotFound) && !core.Is(err, core.Invalid) {
			t.Errorf("%s: %v", spec, err)
		}
	}
	// A blob that was tampered with.
	layers, _ := a.Layers()
	h, _ := layers[0].Digest()
	tampered := packGzip(archive(t, file("evil", "e")))
	if err := os.WriteFile(filepath.Join(dir, "blobs", "sha256", h.Hex), tampered, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := newStore(t, nil).Ensure(t.Context(), Request{Base: "oci-layout:" + dir + ":one"}); !core.Is(err, core.Invalid) {
		t.Errorf("tampered: %v", err)
	}
}

// A layer without entries for its directories must fit onto those below: links
// followed, owners and modes kept, files linked that only a lower layer has.
func TestLayersFitOntoLowerOnes(t *testing.T) {
	need.Root(t)
	srv := newServer(t, "")
	bottom := gz(t, dir("usr"), dir("usr/lib"), file("usr/lib/a", "a"), link("lib", "usr/lib"),
		entry{name: "tmp", kind: tar.TypeDir, mode: 0o1777}, entry{name: "srv", kind: tar.TypeDir, uid: 7}, file("srv/shared", "s"))
	top := gz(t, file("lib/b", "b"), file("tmp/t", "t"), hard("srv/second", "srv/shared"), file("opt/x/y", "y"))
	s := newStore(t, nil)
	img, err := s.Ensure(t.Context(), Request{Base: srv.push(t, "app:v1", imageOf(t, bottom, top))})
	if err != nil {
		t.Fatal(err)
	}
	out := inBusybox(t, img)
	want := map[string]string{"lib": "link usr/lib", "usr/lib/a": "a", "usr/lib/b": "b", "tmp/t": "t", "srv/second": "s", "srv/shared": "s", "opt/x/y": "y"}
	for path, text := range want {
		if out[path] != text {
			t.Errorf("%s: %q, want %q", path, out[path], text)
		}
	}
	if st := stat(t, filepath.Join(img.Layers[0], "tmp")); st.Mode&0o7777 != 0o1777 {
		t.Errorf("tmp: %o", st.Mode)
	}
	if st := stat(t, filepath.Join(img.Layers[0], "srv")); st.Uid != 7 {
		t.Errorf("srv: %d", st.Uid)
	}
	// The same layer where nothing is below stays as it is.
	if _, err := s.Ensure(t.Context(), Request{Base: srv.push(t, "app:v2", imageOf(t, gz(t, file("z", "z")), gz(t, file("opt/x/y", "y"))))}); err != nil {
		t.Error(err)
	}
	if _, err := s.Ensure(t.Context(), Request{Base: srv.push(t, "app:v3", imageOf(t, gz(t, hard("a", "b"))))}); !core.Is(err, core.Invalid) {
		t.Errorf("a link to nothing: %v", err)
	}
}

// inBusybox reads every file of an overlay of the image, as a sandbox would
// see it.
func inBusybox(t *testing.T, img Image) map[string]string {
	t.Helper()
	dir := t.TempDir()
	for _, d := range []string{"u", "w", "m"} {
		if err := os.Mkdir(filepath.Join(dir, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	mnt := filepath.Join(dir, "m")
	opts := "lowerdir=" + strings.Join(img.Layers, ":") + ",upperdir=" + dir + "/u,workdir=" + dir + "/w,redirect_dir=on"
	if err := unix.Mount("overlay", mnt, "overlay", 0, opts); err != nil {
		t.Fatalf("%s: %v", opts, err)
	}
	defer func() { _ = unix.Unmount(mnt, unix.MNT_DETACH) }()
	out := map[string]string{}
	_ = filepath.WalkDir(mnt, func(p string, d os.DirEntry, err error) error {
		rel, _ := filepath.Rel(mnt, p)
		switch {
		case err != nil:
			t.Error(err)
		case d.Type()&os.ModeSymlink != 0:
			to, _ := os.Readlink(p)
			out[rel] = "link " + to
		case d.Type().IsRegular():
			raw, _ := os.ReadFile(p)
			out[rel] = string(raw)
		}
		return nil
	})
	return out
}

type wrongDiff struct{ v1.Layer }

func (wrongDiff) DiffID() (v1.Hash, error) { return v1.NewHash("sha256:" + strings.Repeat("1", 64)) }

func TestHostileImages(t *testing.T) {
	need.Root(t)
	srv := newServer(t, "")
	many := make([]v1.Layer, 0, 200)
	for i := range 130 {
		many = append(many, gz(t, file(fmt.Sprint(i), "x")))
	}
	foreign := mutate.Addendum{Layer: gz(t, file("a", "a")), URLs: []string{"http://evil.example.com/x"}}
	withURL, err := mutate.Append(imageOf(t), foreign)
	if err != nil {
		t.Fatal(err)
	}
	otherArch := imageOf(t, gz(t, file("a", "a")))
	cf, _ := otherArch.ConfigFile()
	cf = cf.DeepCopy()
	cf.Architecture = "other"
	otherArch, _ = mutate.ConfigFile(otherArch, cf)
	for name, img := range map[string]v1.Image{
		"wrong-content": imageOf(t, wrongDiff{gz(t, file("a", "a"))}),
		"many-layers":   imageOf(t, many...),
		"no-layers":     imageOf(t),
		"url":           withURL,
		"arch":          otherArch,
		"media-type":    imageOf(t, layerOf(t, archive(t, file("a", "a")), packGzip, "application/x.unknown")),
	} {
		_, err := newStore(t, nil).Ensure(t.Context(), Request{Base: srv.push(t, name+":v1", img)})
		if !core.Is(err, core.Invalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
