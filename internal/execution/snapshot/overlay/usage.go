package overlay

import (
	"context"
	"time"

	"drydock/internal/core"
	"drydock/internal/execution/sandbox"
	"drydock/internal/execution/snapshot"
)

// Usage is what snapshots take of the disk.
type Usage struct {
	Bytes  int64 // of everything
	Memory int64 // of memory images
	Count  int
}

// Usage adds up what the manifests say; nothing is walked.
func (s *Store) Usage(ctx context.Context) (Usage, error) {
	rows, err := s.deps.Rows.SnapshotsInState(ctx, core.SnapshotReady)
	if err != nil {
		return Usage{}, err
	}
	var u Usage
	seen := map[string]bool{}
	add := func(l snapshot.Layer) {
		if dir := s.path(l); l.Snapshot != "" && !seen[dir] {
			seen[dir] = true
			u.Bytes += l.Bytes
		}
	}
	for _, row := range rows {
		m, err := s.read(s.manifest(row.ID))
		if err != nil {
			continue // a collection tells of it
		}
		u.Count++
		for _, l := range m.Layers {
			add(l)
		}
		if m.Memory != nil {
			u.Memory += m.Memory.Bytes
			u.Bytes += m.Memory.Bytes
			if m.Memory.Live != nil {
				add(*m.Memory.Live)
			}
		}
	}
	return u, nil
}

// Own is what a session has in the layers of a snapshot: those that were not
// there when its environment was built.
func (s *Store) Own(ctx context.Context, id core.SnapshotID, session core.SessionID) (int64, error) {
	m, err := s.Get(ctx, id)
	if err != nil {
		return 0, err
	}
	var sum int64
	for _, l := range m.Layers {
		if l.Snapshot == "" {
			break
		}
		row, err := s.deps.Rows.Snapshot(ctx, l.Snapshot)
		if err != nil {
			return 0, err
		}
		if row.Session != session {
			break
		}
		sum += l.Bytes
	}
	return sum, nil
}

// Fits hands what all memory images are bound to, those that are just being
// taken included, to use; none is taken or restored meanwhile.
func (s *Store) Fits(ctx context.Context, use func([]sandbox.Fit) error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, since := range s.taking {
		if time.Since(since) < takingAtMost {
			return nil // what the driver has just kept is in no manifest yet
		}
	}
	v, err := s.look(ctx)
	if err != nil {
		return err
	}
	if len(v.writing) > 0 {
		return nil
	}
	var fits []sandbox.Fit
	for _, m := range v.manifests {
		if m.Memory != nil {
			fits = append(fits, m.Memory.Fit)
		}
	}
	return use(fits)
}

// BasePaths are the directories of base images that a snapshot, or something
// that runs, stands on.
func (s *Store) BasePaths(ctx context.Context) (map[string]bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	v, err := s.look(ctx)
	if err != nil {
		return nil, err
	}
	out := map[string]bool{}
	for _, all := range []map[core.SnapshotID]snapshot.Manifest{v.manifests, v.writing} {
		for _, m := range all {
			for _, l := range m.Layers {
				if l.Snapshot == "" {
					out[l.Path] = true
				}
			}
		}
	}
	for _, u := range v.uses {
		for _, path := range u.Layers {
			out[path] = true
		}
	}
	return out, nil
}
