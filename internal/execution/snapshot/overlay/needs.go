package overlay

import (
	"context"
	"errors"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"drydock/internal/core"
	"drydock/internal/execution/snapshot"
)

// view is everything that bears on what may be removed, at one moment. It is
// made, and holds, while s.mu is held.
type view struct {
	s         *Store
	ready     []core.Snapshot // oldest first
	manifests map[core.SnapshotID]snapshot.Manifest
	writing   map[core.SnapshotID]snapshot.Manifest // no layers: not begun in full
	uses      []snapshot.Use
}

// look reads rows, manifests and uses; s.mu is held.
func (s *Store) look(ctx context.Context) (*view, error) {
	v := &view{s: s, manifests: map[core.SnapshotID]snapshot.Manifest{}, writing: map[core.SnapshotID]snapshot.Manifest{}}
	// Who uses what comes first: what is begun later stands on what is used now,
	// and what is being written is a row before it is a use.
	var err error
	if v.uses, err = s.deps.Uses(ctx); err != nil {
		return nil, err
	}
	writing, err := s.deps.Rows.SnapshotsInState(ctx, core.SnapshotWriting)
	if err != nil {
		return nil, err
	}
	if v.ready, err = s.deps.Rows.SnapshotsInState(ctx, core.SnapshotReady); err != nil {
		return nil, err
	}
	for _, row := range v.ready {
		if v.manifests[row.ID], err = s.read(s.manifest(row.ID)); err != nil {
			return nil, core.E("snapshot.gc", core.Internal, err, "manifest of snapshot %s", row.ID).
				WithHint("nothing is removed while it is not known what snapshot %s stands on", row.ID)
		}
	}
	for _, row := range writing {
		m, err := s.read(s.draft(row.ID))
		if errors.Is(err, fs.ErrNotExist) {
			m, err = s.read(s.manifest(row.ID))
		}
		if errors.Is(err, fs.ErrNotExist) {
			m, err = snapshot.Manifest{ID: row.ID, Parent: row.Parent}, nil
		}
		if err != nil {
			return nil, core.E("snapshot.gc", core.Internal, err, "manifest of snapshot %s", row.ID)
		}
		v.writing[row.ID] = m
	}
	return v, nil
}

// needs says who needs what: directories of layers, snapshots (for their own
// sake or for a directory of theirs), and memory images.
type needs struct {
	dirs   map[string][]string
	whole  map[core.SnapshotID]bool // for their own sake
	snaps  map[core.SnapshotID][]string
	images map[core.SnapshotID][]string
}

func note[K comparable](m map[K][]string, key K, by string) {
	if !slices.Contains(m[key], by) {
		m[key] = append(m[key], by)
	}
}

// needs of everybody but those whose use leave refuses; nil refuses none. What
// is younger than grace is needed too.
func (v *view) needs(grace time.Duration, leave func(snapshot.Use) bool) needs {
	n := needs{dirs: map[string][]string{}, whole: map[core.SnapshotID]bool{}, snaps: map[core.SnapshotID][]string{}, images: map[core.SnapshotID][]string{}}
	dir := func(path, by string) {
		note(n.dirs, path, by)
		if id := v.s.owner(path); id != "" {
			note(n.snaps, id, by)
		}
	}
	whole := func(id core.SnapshotID, by string) {
		n.whole[id] = true
		note(n.snaps, id, by)
		for _, l := range v.manifests[id].Layers {
			dir(v.s.path(l), by)
		}
	}
	image := func(id core.SnapshotID, by string) {
		if m := v.manifests[id].Memory; m != nil {
			note(n.images, id, by)
			if m.Live != nil {
				dir(v.s.path(*m.Live), by)
			}
		}
	}
	for _, u := range v.uses {
		if leave != nil && leave(u) {
			continue
		}
		if u.Snapshot != "" {
			whole(u.Snapshot, u.By)
			if u.Memory {
				image(u.Snapshot, u.By)
			}
		}
		for _, path := range u.Layers {
			dir(path, u.By)
		}
	}
	for id, m := range v.writing {
		by := "snapshot " + string(id) + ", which is being written"
		if m.Parent != "" {
			whole(m.Parent, by)
		}
		for _, l := range m.Layers {
			dir(v.s.path(l), by)
		}
	}
	for id, p := range v.s.pins {
		const by = "a sandbox that is starting"
		whole(id, by)
		for path := range p.dirs {
			dir(path, by)
		}
		if p.images > 0 {
			image(id, by)
		}
	}
	for _, row := range v.ready {
		const by = "it is new"
		if time.Since(row.Created) < grace {
			whole(row.ID, by)
		}
		if m := v.manifests[row.ID].Memory; m != nil && time.Since(m.Created) < grace {
			whole(row.ID, by)
			image(row.ID, by)
		}
	}
	return n
}

// owner is the snapshot in whose directory a layer lies, or "".
func (s *Store) owner(dir string) core.SnapshotID {
	rest, ok := strings.CutPrefix(dir, s.opts.Dir+string(filepath.Separator))
	if !ok {
		return ""
	}
	first, _, _ := strings.Cut(rest, string(filepath.Separator))
	id, err := core.ParseID[core.SnapshotID]("snp_", first)
	if err != nil {
		return ""
	}
	return id
}

// pinned is what must stay until it is among the uses.
type pinned struct {
	count  int
	images int // of count, those that restore the memory image
	dirs   map[string]int
}

// pin is called with s.mu held.
func (s *Store) pin(id core.SnapshotID, dirs []string, image bool) (release func()) {
	p := s.pins[id]
	if p == nil {
		p = &pinned{dirs: map[string]int{}}
		s.pins[id] = p
	}
	change := func(by int) {
		p.count += by
		if image {
			p.images += by
		}
		for _, dir := range dirs {
			if p.dirs[dir] += by; p.dirs[dir] == 0 {
				delete(p.dirs, dir)
			}
		}
	}
	change(1)
	once := false
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if once {
			return
		}
		once = true
		if change(-1); p.count == 0 {
			delete(s.pins, id)
		}
	}
}
