package image

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"drydock/internal/core"
)

// Options of a Store. Limits that are zero take their default.
type Options struct {
	Dir     string   // absolute; made when missing
	Environ []string // of the host: proxies, certificates, home directory of registry credentials
	Log     *slog.Logger

	// DebianSources are lines of a sources.list with the suite's name where
	// {suite} stands. Empty: what this host's own apt is set to.
	DebianSources []string
	// CABundle is the host's certificate bundle; certificates that are not
	// public ones are added to bootstrapped images. Empty: SSL_CERT_FILE or the
	// system's.
	CABundle string

	Registry Registry
	Limits   Limits
}

// Registry says how registries are reached.
type Registry struct {
	// Default is the registry of names without one. Empty: such names are
	// refused.
	Default string
	// Credentials by registry host. Others come from the host's
	// ~/.docker/config.json.
	Credentials map[string]Credential
	// Insecure registries (host or host:port) are spoken to without TLS;
	// loopback addresses always may be.
	Insecure []string
	Parallel int // downloads at once, default 3
}

// Credential of a registry.
type Credential struct{ User, Password string }

// Limits bound what an image may unpack to.
type Limits struct {
	LayerBytes int64 // files of one layer, default 32 GiB
	Entries    int   // of one layer, default 4 million
	Ratio      int64 // unpacked to packed, from 64 MiB on, default 500
	Layers     int   // of one image, default 127
	// LeaveDevices leaves devices out instead of refusing a layer with some.
	LeaveDevices bool
}

func (l *Limits) fill() {
	if l.LayerBytes <= 0 {
		l.LayerBytes = 32 << 30
	}
	if l.Entries <= 0 {
		l.Entries = 4_000_000
	}
	if l.Ratio <= 0 {
		l.Ratio = 500
	}
	if l.Layers <= 0 {
		l.Layers = 127
	}
}

// Request asks for an image.
type Request struct {
	Base     string
	Packages []string     // only with debian:SUITE
	Progress func(string) // a line for people; may be nil; never called at the same time
	Refresh  bool         // make a debian image anew even if there is one
}

// Image is ready to be used as lower directories.
type Image struct {
	Digest  string    `json:"digest"` // of the content
	Base    string    `json:"base"`
	Layers  []string  `json:"layers"` // directories, topmost first
	Env     []string  `json:"env,omitempty"`
	Cmd     []string  `json:"cmd,omitempty"` // entry point and arguments
	User    string    `json:"user,omitempty"`
	WorkDir string    `json:"work_dir,omitempty"`
	OS      OS        `json:"os"`
	Created time.Time `json:"created"` // when this store made it
}

// OS is what /etc/os-release of the image says.
type OS struct {
	ID       string `json:"id,omitempty"`      // "debian", "alpine"
	Version  string `json:"version,omitempty"` // "12"
	Codename string `json:"codename,omitempty"`
	Family   string `json:"family,omitempty"` // "debian", "alpine", "rhel", "suse", "arch" or ID
}

// manifest is an Image as it is kept, with layers by name.
type manifest struct {
	Image
	Layers []string `json:"layers"`
}

// Store keeps images in a directory.
type Store struct {
	dir  string
	opts Options
	log  *slog.Logger

	aptMu    sync.Mutex
	aptState string // what aptKnown was made of
	aptKnown []source
}

// New opens a store. It reaches for nothing.
func New(opts Options) (*Store, error) {
	dir := filepath.Clean(opts.Dir)
	if !filepath.IsAbs(dir) || strings.ContainsAny(dir, ":,\\\"\n") {
		return nil, core.E("image.open", core.Invalid, nil, "image directory %q is not absolute, or holds a character that overlay mounts cannot take", opts.Dir)
	}
	if opts.Log == nil {
		opts.Log = slog.New(slog.DiscardHandler)
	}
	opts.Limits.fill()
	if opts.Registry.Parallel <= 0 {
		opts.Registry.Parallel = 3
	}
	for _, sub := range []string{"layers", "images", "work", "locks", "apt"} {
		if err := os.MkdirAll(filepath.Join(dir, sub), 0o711); err != nil {
			return nil, core.E("image.open", core.Internal, err, "cannot make %s", filepath.Join(dir, sub))
		}
	}
	s := &Store{dir: dir, opts: opts, log: opts.Log}
	s.sweep()
	return s, nil
}

// sweep removes what processes that died left half-made.
func (s *Store) sweep() {
	entries, _ := os.ReadDir(filepath.Join(s.dir, "work"))
	for _, e := range entries {
		if path := filepath.Join(s.dir, "work", e.Name()); s.abandoned("work", path) {
			_ = os.RemoveAll(path)
		}
	}
}

// Ensure returns the image, making it if it is not there yet. Interrupted, it
// leaves nothing that looks finished.
func (s *Store) Ensure(ctx context.Context, req Request) (Image, error) {
	if req.Progress == nil {
		req.Progress = func(string) {}
	}
	if suite, ok := strings.CutPrefix(req.Base, "debian:"); ok {
		return s.debian(ctx, suite, req)
	}
	if len(req.Packages) > 0 {
		return Image{}, core.E("image.ensure", core.Invalid, nil, "packages are only installed on a base of debian:SUITE, not on %q", req.Base).
			WithHint("install them in setup")
	}
	if dir, ok := strings.CutPrefix(req.Base, "oci-layout:"); ok {
		return s.layout(ctx, dir, req)
	}
	return s.registry(ctx, req)
}

// layerDir is where a finished layer is; id is a digest in hex.
func (s *Store) layerDir(id string) string { return filepath.Join(s.dir, "layers", id) }

func (s *Store) haveLayer(id string) bool {
	_, err := os.Lstat(s.layerDir(id))
	return err == nil
}

// stage makes an empty directory for a layer that is being written. The
// returned function removes what is left of it.
func (s *Store) stage() (string, func(), error) {
	dir, err := os.MkdirTemp(filepath.Join(s.dir, "work"), "w")
	if err != nil {
		return "", nil, core.E("image.stage", core.Internal, err, "cannot make a directory in %s", s.dir)
	}
	// Held while somebody writes here, so that GC can tell what was left by a
	// process that died.
	lock, err := tryLock(dir + ".lock")
	if err != nil {
		_ = os.RemoveAll(dir)
		return "", nil, core.E("image.stage", core.Internal, err, "cannot lock %s", dir)
	}
	return dir, func() {
		_ = os.RemoveAll(dir)
		_ = os.Remove(dir + ".lock")
		_ = lock.Close()
	}, nil
}

// promote puts a finished directory in its place as layer id.
func (s *Store) promote(dir, id string) error {
	// The root of a layer is the root of the machine.
	if err := os.Chmod(dir, 0o755); err != nil {
		return core.E("image.promote", core.Internal, err, "cannot set the mode of %s", dir)
	}
	if err := syncTree(dir); err != nil {
		return core.E("image.promote", core.Internal, err, "cannot write layer %s to disk", id)
	}
	err := os.Rename(dir, s.layerDir(id))
	if errors.Is(err, fs.ErrExist) || errors.Is(err, unix.ENOTEMPTY) {
		return nil // another process was first; its content is the same
	}
	if err != nil {
		return core.E("image.promote", core.Internal, err, "cannot put layer %s in place", id)
	}
	return syncDir(filepath.Join(s.dir, "layers"))
}

func clearDir(dir string) error {
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		err = errors.Join(err, os.RemoveAll(filepath.Join(dir, e.Name())))
	}
	return err
}

func syncTree(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	err = unix.Syncfs(int(f.Fd()))
	return errors.Join(err, f.Close())
}

func syncDir(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	err = f.Sync()
	return errors.Join(err, f.Close())
}

// save keeps what a key stands for.
func (s *Store) save(key string, img Image, layers []string) error {
	raw, err := json.MarshalIndent(manifest{Image: img, Layers: layers}, "", " ")
	if err != nil {
		return core.E("image.save", core.Internal, err, "cannot write the manifest of %s", img.Base)
	}
	if err := writeFile(s.manifestPath(key), raw); err != nil {
		return core.E("image.save", core.Internal, err, "cannot write the manifest of %s", img.Base)
	}
	return nil
}

// writeFile puts a file in place as a whole, or not at all.
func writeFile(path string, data []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".new")
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(f.Name()) }()
	_, err = f.Write(data)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return err
	}
	return syncDir(filepath.Dir(path))
}

func (s *Store) manifestPath(key string) string {
	return filepath.Join(s.dir, "images", key+".json")
}

// load finds what a key stands for. A manifest that cannot be read, or whose
// layers are not all there, counts as absent.
func (s *Store) load(key string) (Image, bool) {
	m, ok := s.read(s.manifestPath(key))
	if !ok {
		return Image{}, false
	}
	return m.Image, true
}

func (s *Store) read(path string) (manifest, bool) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return manifest{}, false
	}
	var m manifest
	if json.Unmarshal(raw, &m) != nil || len(m.Layers) == 0 {
		return manifest{}, false
	}
	m.Image.Layers = nil
	for _, id := range m.Layers {
		if !isHex(id) || !s.haveLayer(id) {
			return manifest{}, false
		}
		m.Image.Layers = append(m.Image.Layers, s.layerDir(id))
	}
	return m, true
}

func isHex(s string) bool { return len(s) == 64 && strings.Trim(s, "0123456789abcdef") == "" }

func hash(parts ...string) string {
	h := sha256.New()
	for _, p := range parts {
		h.Write([]byte(p))
		h.Write([]byte{0})
	}
	return hex.EncodeToString(h.Sum(nil))
}

// List is every image that is complete.
func (s *Store) List(ctx context.Context) ([]Image, error) {
	entries, err := os.ReadDir(filepath.Join(s.dir, "images"))
	if err != nil {
		return nil, core.E("image.list", core.Internal, err, "cannot list images")
	}
	var out []Image
	for _, e := range entries {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if !strings.HasSuffix(e.Name(), ".json") {
			continue
		}
		if m, ok := s.read(filepath.Join(s.dir, "images", e.Name())); ok {
			out = append(out, m.Image)
		}
	}
	return out, nil
}

// GC removes images whose digest keep refuses, layers that no image names, and
// what interrupted work left. The caller answers for it that no sandbox or
// snapshot uses a layer of an image it does not keep.
func (s *Store) GC(ctx context.Context, keep func(Image) bool) (removed int64, err error) {
	lock, err := s.lock(ctx, "gc")
	if err != nil {
		return 0, err
	}
	defer lock.release()
	used := map[string]bool{}
	entries, err := os.ReadDir(filepath.Join(s.dir, "images"))
	if err != nil {
		return 0, core.E("image.gc", core.Internal, err, "cannot list images")
	}
	for _, e := range entries {
		path := filepath.Join(s.dir, "images", e.Name())
		if id, isLayer := strings.CutSuffix(e.Name(), ".layer"); isLayer {
			if !s.haveLayer(id) && olderThan(path, time.Hour) {
				_ = os.Remove(path)
			}
			continue
		}
		m, ok := s.read(path)
		if ok && keep(m.Image) {
			for _, id := range m.Layers {
				used[id] = true
			}
			continue
		}
		if ok || olderThan(path, time.Hour) {
			_ = os.Remove(path)
		}
	}
	for _, sub := range []string{"layers", "work"} {
		entries, err := os.ReadDir(filepath.Join(s.dir, sub))
		if err != nil {
			return removed, core.E("image.gc", core.Internal, err, "cannot list %s", sub)
		}
		for _, e := range entries {
			path := filepath.Join(s.dir, sub, e.Name())
			if ctx.Err() != nil {
				return removed, ctx.Err()
			}
			if sub == "layers" && used[e.Name()] || !s.abandoned(sub, path) {
				continue
			}
			removed += size(path)
			_ = os.RemoveAll(path)
		}
	}
	return removed, nil
}

// abandoned says whether nobody can still want a path that no image names.
// Layers are kept for an hour: between a layer and the manifest that names it
// lies the download of the others.
func (s *Store) abandoned(sub, path string) bool {
	if sub != "work" {
		return olderThan(path, time.Hour)
	}
	if !olderThan(path, time.Minute) { // it may be about to be locked
		return false
	}
	f, err := tryLock(strings.TrimSuffix(path, ".lock") + ".lock")
	if err != nil {
		return false
	}
	_ = f.Close()
	return true
}

func olderThan(path string, age time.Duration) bool {
	var st unix.Stat_t
	// The change time: a rename sets it, and unpacking an old archive does not
	// make it old.
	return unix.Lstat(path, &st) == nil && time.Since(time.Unix(st.Ctim.Unix())) > age
}

func size(path string) int64 {
	var n int64
	_ = filepath.WalkDir(path, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return nil //nolint:nilerr // an estimate for people
		}
		var st unix.Stat_t
		if unix.Lstat(p, &st) == nil {
			n += st.Blocks * 512
		}
		return nil
	})
	return n
}

// fileLock is held by an open file; it ends with the process.
type fileLock struct{ f *os.File }

func (l *fileLock) release() { _ = l.f.Close() }

var errLocked = errors.New("in use")

func tryLock(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		_ = f.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, errLocked
		}
		return nil, err
	}
	return f, nil
}

// lock waits until nobody else, in any process, works on name.
func (s *Store) lock(ctx context.Context, name string) (*fileLock, error) {
	path := filepath.Join(s.dir, "locks", name)
	ticker := time.NewTicker(50 * time.Millisecond)
	defer ticker.Stop()
	for {
		f, err := tryLock(path)
		if err == nil {
			return &fileLock{f}, nil
		}
		if !errors.Is(err, errLocked) {
			return nil, core.E("image.lock", core.Internal, err, "cannot lock %s", path)
		}
		select {
		case <-ctx.Done():
			return nil, core.E("image.lock", core.KindOf(ctx.Err()), ctx.Err(), "image %s is being made by another", name[:min(12, len(name))])
		case <-ticker.C:
		}
	}
}

// readOS reads os-release from layers, topmost first.
func readOS(layers []string) OS {
	for _, layer := range layers {
		root, err := os.OpenRoot(layer)
		if err != nil {
			continue
		}
		raw, err := readSmall(root, "usr/lib/os-release")
		if err != nil {
			raw, err = readSmall(root, "etc/os-release")
		}
		_ = root.Close()
		if err == nil {
			return parseOS(string(raw))
		}
	}
	return OS{}
}

func readSmall(root *os.Root, name string) ([]byte, error) {
	info, err := root.Lstat(name)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || info.Size() > 64<<10 {
		return nil, fs.ErrInvalid
	}
	return root.ReadFile(name)
}

func parseOS(text string) OS {
	fields := map[string]string{}
	for line := range strings.Lines(text) {
		key, value, ok := strings.Cut(strings.TrimSpace(line), "=")
		if ok {
			fields[key] = strings.Trim(value, `"'`)
		}
	}
	o := OS{ID: fields["ID"], Version: fields["VERSION_ID"], Codename: fields["VERSION_CODENAME"]}
	o.Family = o.ID
	like := append([]string{o.ID}, strings.Fields(fields["ID_LIKE"])...)
	for _, family := range []string{"debian", "alpine", "rhel", "suse", "arch"} {
		if slices.Contains(like, family) || family == "rhel" && slices.Contains(like, "fedora") {
			o.Family = family
			break
		}
	}
	return o
}
