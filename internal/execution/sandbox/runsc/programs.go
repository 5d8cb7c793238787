package runsc

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"drydock/internal/core"
	"drydock/internal/execution/sandbox"
)

// programs keeps copies of runsc and drydock-init under their digests: a memory
// image can only be restored by the very build that wrote it, and holds the
// code of the very drydock-init that was in it.
type programs struct {
	dir string

	mu    *sync.Mutex
	known map[fileID]string // digests of files that have been read
}

type fileID struct {
	dev, ino    uint64
	size, mtime int64
}

const (
	kindRunsc = "runsc"
	kindInit  = "drydock-init"
)

func newPrograms(dir string) programs {
	return programs{dir: dir, mu: &sync.Mutex{}, known: map[fileID]string{}}
}

func idOf(path string) (fileID, error) {
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		return fileID{}, &fs.PathError{Op: "stat", Path: path, Err: err}
	}
	return fileID{st.Dev, st.Ino, st.Size, st.Mtim.Nano()}, nil
}

// digest of a file's content.
func (p programs) digest(path string) (string, error) {
	id, err := idOf(path)
	if err != nil {
		return "", err
	}
	p.mu.Lock()
	defer p.mu.Unlock() // a second caller waits for the first instead of reading too
	if d := p.known[id]; d != "" {
		return d, nil
	}
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	p.known[id] = "sha256:" + hex.EncodeToString(h.Sum(nil))
	return p.known[id], nil
}

func (p programs) path(kind, digest string) string {
	return filepath.Join(p.dir, kind+"-"+strings.TrimPrefix(digest, "sha256:"))
}

// find returns the copy with a digest. A copy is made under another name first,
// so what has the right name is whole.
func (p programs) find(kind, digest string) (string, error) {
	hexa, ok := strings.CutPrefix(digest, "sha256:")
	if !ok || len(hexa) != 64 || strings.Trim(hexa, "0123456789abcdef") != "" {
		return "", core.E("runsc.program", core.Conflict, nil, "%q is no digest", digest)
	}
	path := p.path(kind, digest)
	if st, err := os.Stat(path); err != nil || !st.Mode().IsRegular() {
		return "", core.E("runsc.program", core.NotFound, nil, "the build of %s with digest %.19s is not kept here", kind, digest)
	}
	return path, nil
}

// keep copies a program into the directory, unless it is there.
func (p programs) keep(kind, path string) (digest, kept string, err error) {
	if digest, err = p.digest(path); err != nil {
		return "", "", err
	}
	if kept, err = p.find(kind, digest); err == nil {
		return digest, kept, nil
	}
	if err := os.MkdirAll(p.dir, 0o700); err != nil {
		return "", "", err
	}
	from, err := os.Open(path)
	if err != nil {
		return "", "", err
	}
	defer from.Close()
	to, err := os.CreateTemp(p.dir, ".new-*")
	if err != nil {
		return "", "", err
	}
	defer os.Remove(to.Name())
	h := sha256.New()
	_, err = io.Copy(io.MultiWriter(to, h), from)
	err = errors.Join(err, to.Chmod(0o755), to.Sync(), to.Close())
	if err == nil && digest != "sha256:"+hex.EncodeToString(h.Sum(nil)) {
		err = errors.New("it changed while it was copied")
	}
	if err != nil {
		return "", "", core.E("runsc.program", core.Unavailable, err, "keep a copy of %s", path)
	}
	kept = p.path(kind, digest)
	return digest, kept, os.Rename(to.Name(), kept)
}

// OpenProgram reads the kept copy of a program: "runsc" or "drydock-init" with
// a digest.
func (d *Driver) OpenProgram(kind, digest string) (io.ReadCloser, int64, error) {
	path, err := "", error(core.E("runsc.program", core.Invalid, nil, "there is no program %.50q", kind))
	switch kind {
	case kindRunsc:
		path, err = d.runscFor(digest)
	case kindInit:
		path, err = d.imageInit(digest)
	}
	if err != nil {
		return nil, 0, err
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, 0, core.E("runsc.program", core.Unavailable, err, "the build of %s with digest %.19s", kind, digest)
	}
	st, err := f.Stat()
	if err != nil {
		return nil, 0, errors.Join(core.E("runsc.program", core.Unavailable, err, "the build of %s with digest %.19s", kind, digest), f.Close())
	}
	return f, st.Size(), nil
}

// KeepProgram keeps a program that comes from elsewhere, if it has the digest.
// It will be run as root: whoever calls it trusts whoever named the digest.
func (d *Driver) KeepProgram(kind, digest string, content io.Reader) error {
	const op = "runsc.program"
	if kind != kindRunsc && kind != kindInit {
		return core.E(op, core.Invalid, nil, "there is no program %.50q", kind)
	}
	if _, err := d.programs.find(kind, digest); !core.Is(err, core.NotFound) {
		return err // kept already, or no digest
	}
	if err := os.MkdirAll(d.programs.dir, 0o700); err != nil {
		return core.E(op, core.Unavailable, err, "directory of programs")
	}
	to, err := os.CreateTemp(d.programs.dir, ".new-*")
	if err != nil {
		return core.E(op, core.Unavailable, err, "directory of programs")
	}
	defer os.Remove(to.Name())
	h := sha256.New()
	_, err = io.Copy(io.MultiWriter(to, h), content)
	if err = errors.Join(err, to.Chmod(0o755), to.Sync(), to.Close()); err != nil {
		return core.E(op, core.KindOf(err), err, "the build of %s with digest %.19s", kind, digest)
	}
	if got := "sha256:" + hex.EncodeToString(h.Sum(nil)); got != digest {
		return core.E(op, core.Invalid, nil, "the build of %s has the digest %.19s, not %.19s", kind, got, digest)
	}
	if err := os.Rename(to.Name(), d.programs.path(kind, digest)); err != nil {
		return core.E(op, core.Unavailable, err, "the build of %s", kind)
	}
	return nil
}

// program is a kept one.
type program struct{ digest, path string }

// initFor is the drydock-init to mount: for a memory image the one that is in
// it, else the newest, which so reaches old snapshots of files at once.
func (d *Driver) initFor(image *sandbox.Image) (program, error) {
	if image != nil {
		path, err := d.imageInit(image.Fit.Init)
		return program{image.Fit.Init, path}, err
	}
	digest, path, err := d.programs.keep(kindInit, d.opts.Init)
	return program{digest, path}, err
}

// imageInit is the drydock-init that is in a memory image. The image may come
// from another host with the same build, which nothing was started with here.
func (d *Driver) imageInit(digest string) (string, error) {
	path, err := d.programs.find(kindInit, digest)
	if core.Is(err, core.NotFound) {
		if now, digestErr := d.programs.digest(d.opts.Init); digestErr == nil && now == digest {
			_, path, err = d.programs.keep(kindInit, d.opts.Init)
		}
	}
	return path, err
}

// runscFor is the build that can restore an image.
func (d *Driver) runscFor(digest string) (string, error) {
	path, err := d.programs.find(kindRunsc, digest)
	if err == nil {
		return path, nil
	}
	if now, digestErr := d.programs.digest(d.opts.Runsc); digestErr == nil && now == digest {
		return d.opts.Runsc, nil
	}
	return "", err
}

// Prune removes copies of programs that neither a sandbox nor one of these
// memory images needs.
func (d *Driver) Prune(images []sandbox.Fit) error {
	const op = "runsc.prune"
	entries, err := os.ReadDir(d.programs.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return core.E(op, core.Internal, err, "kept programs")
	}
	needed := []string{}
	add := func(kind, digest string) { needed = append(needed, filepath.Base(d.programs.path(kind, digest))) }
	for _, f := range images {
		add(kindRunsc, f.Runtime)
		add(kindInit, f.Init)
	}
	for kind, path := range map[string]string{kindRunsc: d.opts.Runsc, kindInit: d.opts.Init} {
		if digest, err := d.programs.digest(path); err == nil {
			add(kind, digest)
		}
	}
	boxes, err := os.ReadDir(d.sandboxesDir())
	if err != nil {
		return core.E(op, core.Internal, err, "sandboxes")
	}
	for _, b := range boxes {
		rec, err := paths{filepath.Join(d.sandboxesDir(), b.Name())}.load()
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err // it may need any of them
		}
		add(kindInit, rec.Init)
		for _, f := range []*freezeIntent{rec.Freeze, rec.Resumed} {
			if f == nil {
				continue
			}
			for _, image := range []*sandbox.Image{f.Plan, f.Image} {
				if image != nil {
					add(kindRunsc, image.Fit.Runtime)
					add(kindInit, image.Fit.Init)
				}
			}
		}
	}
	for _, e := range entries {
		if !slices.Contains(needed, e.Name()) {
			if err := os.Remove(filepath.Join(d.programs.dir, e.Name())); err != nil {
				return core.E(op, core.Internal, err, "kept program")
			}
		}
	}
	return nil
}
