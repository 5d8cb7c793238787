package overlay

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"drydock/internal/core"
	"drydock/internal/execution/snapshot"
	"drydock/internal/execution/tree"
)

// sealName marks the top of a layer with whose it is, so that two layers that
// changed places are noticed at no cost.
const sealName = "trusted.drydock.layer"

// recheckLeast is how long a layer that was found unchanged is believed. Large
// ones are believed longer, so that looking takes at most a hundredth of the
// time.
const (
	recheckLeast = time.Minute
	recheckShare = 100
)

// damage marks an error that says what is wrong with files of a snapshot.
type damage struct{ err error }

func (d *damage) Error() string { return d.err.Error() }
func (d *damage) Unwrap() error { return d.err }

// IsDamaged says whether an error means that files of a snapshot are missing,
// or are not what they were.
func IsDamaged(err error) bool {
	_, ok := errors.AsType[*damage](err)
	return ok
}

// checked remembers what was found in order.
type checked struct {
	mu     sync.Mutex
	layers map[string]time.Time // path: until when it is believed
	files  map[string]identity
}

// identity is what of a file changes whenever its content does.
type identity struct {
	dev, ino     uint64
	size         int64
	mtime, ctime unix.Timespec
}

func newChecked() checked {
	return checked{layers: map[string]time.Time{}, files: map[string]identity{}}
}

func sealText(l snapshot.Layer) string {
	if l.Live {
		return string(l.Snapshot) + "/live"
	}
	if l.Merged > 0 {
		return fmt.Sprintf("%s/merged-%d", l.Snapshot, l.Merged)
	}
	return string(l.Snapshot)
}

// seal measures a layer that was just frozen and marks it.
func (s *Store) seal(l *snapshot.Layer) error { return s.sealAt(s.path(*l), l) }

// sealAt is seal for a layer that is not in its place yet.
func (s *Store) sealAt(path string, l *snapshot.Layer) error {
	use, sum, err := tree.Fingerprint(path)
	if err != nil {
		return err
	}
	l.Bytes, l.Files, l.Sum = use.Bytes, use.Files, sum
	err = unix.Lsetxattr(path, sealName, []byte(sealText(*l)), 0)
	if errors.Is(err, unix.ENOTSUP) || errors.Is(err, unix.EPERM) {
		return nil // a file system without such attributes, or no rights: a test without root
	}
	return err
}

// checkLayer says what is wrong with a layer.
func (s *Store) checkLayer(path string, l snapshot.Layer) error {
	st, err := os.Lstat(path)
	if err != nil || !st.IsDir() {
		return fmt.Errorf("%s is missing", path)
	}
	if l.Snapshot == "" || l.Sum == "" {
		return nil // base images are checked by their own store
	}
	buf := make([]byte, 128)
	n, err := unix.Lgetxattr(path, sealName, buf)
	if err == nil && string(buf[:n]) != sealText(l) {
		return fmt.Errorf("%s is the layer of %q", path, buf[:n])
	}
	s.checked.mu.Lock()
	believed := time.Now().Before(s.checked.layers[path])
	s.checked.mu.Unlock()
	if believed {
		return nil
	}
	began := time.Now()
	_, sum, err := tree.Fingerprint(path)
	if err != nil {
		return err
	}
	if sum != l.Sum {
		return fmt.Errorf("%s was changed after it was frozen", path)
	}
	s.checked.mu.Lock()
	s.checked.layers[path] = time.Now().Add(max(recheckLeast, recheckShare*time.Since(began)))
	s.checked.mu.Unlock()
	return nil
}

// Finding is one part of a snapshot, and what is wrong with it.
type Finding struct {
	Name  string // for people: "layer 0, snp_...", "memory image, pages.img"
	Bytes int64
	Err   error
}

// Examine reads everything of a snapshot that can be checked again, whatever was
// found before. Nothing of it is removed meanwhile.
func (s *Store) Examine(ctx context.Context, id core.SnapshotID) ([]Finding, error) {
	s.mu.Lock()
	m, err := s.Get(ctx, id)
	if err != nil {
		s.mu.Unlock()
		return nil, err
	}
	layers := withLive(m)
	dirs := make([]string, len(layers))
	for i, l := range layers {
		dirs[i] = s.path(l)
	}
	release := s.pin(id, dirs, m.Memory != nil)
	s.mu.Unlock()
	defer release()
	var out []Finding
	for i, l := range layers {
		name := "base image " + l.Base
		if l.Snapshot != "" {
			name = sealText(l)
		}
		s.checked.mu.Lock()
		delete(s.checked.layers, dirs[i])
		s.checked.mu.Unlock()
		out = append(out, Finding{Name: fmt.Sprintf("layer %d, %s", i, name), Bytes: l.Bytes, Err: s.checkLayer(dirs[i], l)})
		if ctx.Err() != nil {
			return out, core.E("snapshot.verify", core.KindOf(ctx.Err()), ctx.Err(), "snapshot %s", id)
		}
	}
	if m.Memory == nil {
		return out, nil
	}
	for _, f := range m.Memory.Files {
		path := filepath.Join(s.imageDir(m), f.Name)
		s.checked.mu.Lock()
		delete(s.checked.files, path)
		s.checked.mu.Unlock()
		out = append(out, Finding{Name: "memory image, " + f.Name, Bytes: f.Bytes, Err: s.checkFile(path, f)})
	}
	return out, nil
}

func withLive(m snapshot.Manifest) []snapshot.Layer {
	if m.Memory != nil && m.Memory.Live != nil {
		return append([]snapshot.Layer{*m.Memory.Live}, m.Layers...)
	}
	return m.Layers
}

// Verify is Examine, with all that is wrong as one error.
func (s *Store) Verify(ctx context.Context, id core.SnapshotID) error {
	found, err := s.Examine(ctx, id)
	if err != nil {
		return err
	}
	var damage []error
	for _, f := range found {
		if f.Err != nil {
			damage = append(damage, fmt.Errorf("%s: %w", f.Name, f.Err))
		}
	}
	if len(damage) == 0 {
		return nil
	}
	return core.E("snapshot.verify", core.Unavailable, errors.Join(damage...), "snapshot %s is damaged", id).
		WithHint("build the environment again; a memory image is only a cache")
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// sumFile reads a regular file once; the sum finds damage, not malice.
func sumFile(f *os.File) (int64, string, error) {
	h := crc32.New(castagnoli)
	n, err := io.CopyBuffer(h, f, make([]byte, 1<<20))
	return n, "crc32c:" + hex.EncodeToString(h.Sum(nil)), err
}

func openRegular(path string) (*os.File, identity, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, identity{}, err
	}
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil || st.Mode&unix.S_IFMT != unix.S_IFREG {
		_ = f.Close()
		return nil, identity{}, &fs.PathError{Op: "open", Path: path, Err: errors.Join(err, errors.New("not a regular file"))}
	}
	return f, identity{st.Dev, st.Ino, st.Size, st.Mtim, st.Ctim}, nil
}

// checkImage says what is wrong with the files of a memory image.
func (s *Store) checkImage(m snapshot.Manifest) error {
	const op = "snapshot.image"
	dir := s.imageDir(m)
	for _, want := range m.Memory.Files {
		path := filepath.Join(dir, want.Name)
		if err := s.checkFile(path, want); err != nil {
			return core.E(op, core.Unavailable, err, "the memory image of snapshot %s is damaged", m.ID)
		}
	}
	return nil
}

func (s *Store) checkFile(path string, want snapshot.File) error {
	f, now, err := openRegular(path)
	if err != nil {
		return err
	}
	defer f.Close()
	if now.size != want.Bytes {
		return fmt.Errorf("%s has %d bytes, not %d", want.Name, now.size, want.Bytes)
	}
	s.checked.mu.Lock()
	before := s.checked.files[path]
	s.checked.mu.Unlock()
	if before == now {
		return nil
	}
	n, sum, err := sumFile(f)
	if err != nil {
		return err
	}
	if n != want.Bytes || sum != want.Sum {
		return fmt.Errorf("%s is not what was written (its sum is %s, not %s)", want.Name, sum, want.Sum)
	}
	s.checked.mu.Lock()
	s.checked.files[path] = now
	s.checked.mu.Unlock()
	return nil
}
