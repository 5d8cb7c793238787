package overlay

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"time"

	"drydock/internal/core"
	"drydock/internal/execution/sandbox"
	"drydock/internal/execution/snapshot"
	"drydock/internal/execution/tree"
)

const (
	liveDir  = "live"
	imageDir = "image"
)

func (s *Store) live(id core.SnapshotID) string { return filepath.Join(s.into(id), liveDir) }

// imageDir is where the files of a manifest's memory image are.
func (s *Store) imageDir(m snapshot.Manifest) string {
	if m.Memory.Live != nil {
		return filepath.Join(s.live(m.ID), imageDir)
	}
	return filepath.Join(s.into(m.ID), imageDir)
}

// describe reads what a driver has written.
func describe(image sandbox.Image) (*snapshot.Memory, error) {
	entries, err := os.ReadDir(image.Dir)
	if err != nil {
		return nil, err
	}
	m := &snapshot.Memory{Fit: image.Fit, Token: image.Token, Created: time.Now().UTC()}
	for _, e := range entries {
		f, at, err := openRegular(filepath.Join(image.Dir, e.Name()))
		if err != nil {
			return nil, err
		}
		_, sum, err := sumFile(f)
		if err = errors.Join(err, f.Close()); err != nil {
			return nil, err
		}
		m.Files = append(m.Files, snapshot.File{Name: e.Name(), Bytes: at.size, Sum: sum})
		m.Bytes += at.size
	}
	return m, nil
}

// BeginMemory says where the running state of a sandbox that was started from
// the files of a ready snapshot is to be frozen. What an earlier attempt left
// there is removed; it is a Conflict when the snapshot has a memory image that
// something else was built on.
func (s *Store) BeginMemory(ctx context.Context, id core.SnapshotID) (Pending, error) {
	const op = "snapshot.memory"
	m, err := s.Get(ctx, id)
	if err != nil {
		return Pending{}, err
	}
	if m.Memory != nil && m.Memory.Live == nil {
		return Pending{}, core.E(op, core.Conflict, nil, "snapshot %s has a memory image of its own", id)
	}
	s.mu.Lock()
	s.taking[id] = time.Now()
	s.mu.Unlock()
	if err := s.dropLive(ctx, id); err != nil {
		s.took(id)
		return Pending{}, err
	}
	return Pending{ID: id, Into: s.live(id)}, nil
}

// took ends what BeginMemory began.
func (s *Store) took(id core.SnapshotID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.taking, id)
}

// takingAtMost is how long a running state that nothing became of is left
// alone.
const takingAtMost = time.Hour

// dropLive takes an image with its files away, the manifest's word first.
func (s *Store) dropLive(ctx context.Context, id core.SnapshotID) error {
	const op = "snapshot.memory"
	s.mu.Lock()
	err := s.forgetLive(ctx, id)
	s.mu.Unlock()
	if err != nil {
		return err
	}
	if err := tree.Remove(s.live(id)); err != nil {
		return core.E(op, core.Internal, err, "running state of snapshot %s", id)
	}
	return nil
}

// forgetLive is called with s.mu held, so that nobody restores meanwhile.
func (s *Store) forgetLive(ctx context.Context, id core.SnapshotID) error {
	m, err := s.Get(ctx, id)
	if err != nil {
		return err
	}
	used, err := s.liveUsed(ctx, id)
	if err != nil {
		return err
	}
	if used {
		return core.E("snapshot.memory", core.Conflict, nil, "something that runs, or another snapshot, stands on the running state of snapshot %s", id)
	}
	if m.Memory == nil || m.Memory.Live == nil {
		return nil
	}
	return s.setMemory(ctx, id, nil)
}

// liveUsed says whether the files of a snapshot's running state are below
// something; s.mu is held.
func (s *Store) liveUsed(ctx context.Context, id core.SnapshotID) (bool, error) {
	dir := s.path(snapshot.Layer{Snapshot: id, Live: true})
	if p := s.pins[id]; p != nil && (p.images > 0 || p.dirs[dir] > 0) {
		return true, nil
	}
	v, err := s.look(ctx)
	if err != nil {
		return false, err
	}
	for _, u := range v.uses {
		if slices.Contains(u.Layers, dir) {
			return true, nil
		}
	}
	on := func(m snapshot.Manifest) bool {
		return slices.ContainsFunc(m.Layers, func(l snapshot.Layer) bool { return s.path(l) == dir })
	}
	for _, all := range []map[core.SnapshotID]snapshot.Manifest{v.manifests, v.writing} {
		for _, m := range all {
			if on(m) {
				return true, nil
			}
		}
	}
	return false, nil
}

// CommitMemory makes what was frozen after BeginMemory the memory image of the
// snapshot: absent until the end, complete then.
func (s *Store) CommitMemory(ctx context.Context, id core.SnapshotID, frozen sandbox.Frozen, services []string) error {
	const op = "snapshot.memory"
	live := snapshot.Layer{Snapshot: id, Live: true}
	if frozen.Upper != s.path(live) || frozen.Image == nil {
		return core.E(op, core.Internal, nil, "running state of snapshot %s is in %q, not in %q", id, frozen.Upper, s.path(live))
	}
	mem, err := describe(*frozen.Image)
	if err == nil {
		err = s.seal(&live)
	}
	if err == nil {
		err = s.sync()
	}
	if err != nil {
		return trouble(op, core.Internal, err, "running state of snapshot %s", id)
	}
	mem.Live, mem.Services = &live, services
	if err := s.setMemory(ctx, id, mem); err != nil {
		return err
	}
	s.took(id)
	return nil
}

// setMemory replaces the memory image of a manifest.
func (s *Store) setMemory(ctx context.Context, id core.SnapshotID, mem *snapshot.Memory) error {
	s.rewriting.Lock()
	defer s.rewriting.Unlock()
	m, err := s.Get(ctx, id)
	if err != nil {
		return err
	}
	m.Memory = mem
	if err := m.Check(); err != nil {
		return err
	}
	if err := s.write(s.manifest(id), m); err != nil {
		return trouble("snapshot.memory", core.Unavailable, err, "manifest of snapshot %s", id)
	}
	_, err = s.deps.Rows.UpdateSnapshot(ctx, id, func(r *core.Snapshot) error {
		r.Memory = mem != nil
		return nil
	})
	return err
}

// DropMemory takes the memory image of a snapshot away; its files stay, also
// those of the running state while something stands on them. It is a Conflict
// while a sandbox is being restored from it.
func (s *Store) DropMemory(ctx context.Context, id core.SnapshotID) error {
	s.mu.Lock()
	dirs, err := s.forgetMemory(ctx, id)
	s.mu.Unlock()
	if err != nil {
		return err
	}
	return s.removeAll(id, dirs)
}

// forgetMemory is the manifest's part of DropMemory; s.mu is held. It returns
// what nothing names any more.
func (s *Store) forgetMemory(ctx context.Context, id core.SnapshotID) (dirs []string, err error) {
	m, err := s.Get(ctx, id)
	if err != nil || m.Memory == nil {
		return nil, err
	}
	if p := s.pins[id]; p != nil && p.images > 0 {
		return nil, core.E("snapshot.memory", core.Conflict, nil, "a sandbox is being restored from the memory image of snapshot %s", id)
	}
	dirs = []string{s.imageDir(m)}
	if m.Memory.Live != nil {
		used, err := s.liveUsed(ctx, id)
		if err != nil {
			return nil, err
		}
		if !used {
			dirs = []string{s.live(id)}
		}
	}
	return dirs, s.setMemory(ctx, id, nil)
}

func (s *Store) removeAll(id core.SnapshotID, dirs []string) error {
	for _, dir := range dirs {
		if err := tree.Remove(dir); err != nil {
			return core.E("snapshot.remove", core.Internal, err, "files of snapshot %s", id)
		}
	}
	return nil
}

// Restorable is what a sandbox is restored from.
type Restorable struct {
	Layers   []string // topmost first, the files of the running state included
	Image    sandbox.Image
	Live     bool // see snapshot.Draft
	Services []string
}

// AcquireMemory is Acquire for the memory image of a snapshot, which is checked
// as a whole. It is NotFound when there is none, and Unavailable when it, or
// something that it needs, is damaged.
func (s *Store) AcquireMemory(ctx context.Context, id core.SnapshotID) (r Restorable, release func(), err error) {
	const op = "snapshot.image"
	s.mu.Lock()
	defer s.mu.Unlock()
	m, err := s.Get(ctx, id)
	if err != nil {
		return r, nil, err
	}
	if m.Memory == nil {
		return r, nil, core.E(op, core.NotFound, nil, "snapshot %s has no memory image", id)
	}
	layers := m.Layers
	if r.Live = m.Memory.Live != nil; r.Live {
		layers = append([]snapshot.Layer{*m.Memory.Live}, layers...)
	}
	if err := s.checkImage(m); err != nil {
		return r, nil, err
	}
	if r.Layers, err = s.paths(id, layers); err != nil {
		return r, nil, err
	}
	r.Image = sandbox.Image{Dir: s.imageDir(m), Token: m.Memory.Token, Fit: m.Memory.Fit}
	r.Services = m.Memory.Services
	return r, s.pin(id, r.Layers, true), nil
}
