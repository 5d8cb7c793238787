package overlay

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"drydock/internal/core"
	"drydock/internal/execution/snapshot"
)

// Recover ends what an earlier process left half done. A begun snapshot whose
// files were already frozen is completed, since they may be the only copy of
// somebody's work; one without files is given up. Files of removed snapshots
// go.
func (s *Store) Recover(ctx context.Context) error {
	writing, err := s.deps.Rows.SnapshotsInState(ctx, core.SnapshotWriting)
	if err != nil {
		return err
	}
	for _, row := range writing {
		if exists(s.upper(row.ID)) {
			_, err := s.complete(ctx, row.ID, nil)
			if err == nil {
				s.deps.Log.Info("completed a snapshot that was interrupted", "snapshot", row.ID)
				continue
			}
			// Kept for a person to look at: it may be work that exists nowhere else.
			s.deps.Log.Error("cannot complete a snapshot that was interrupted", "snapshot", row.ID, "error", err)
			continue
		}
		if err := s.drop(ctx, row.ID); err != nil {
			return err
		}
	}
	return s.sweep(ctx)
}

// sweep removes files that belong to no row, or to one that says removed.
func (s *Store) sweep(ctx context.Context) error {
	const op = "snapshot.recover"
	entries, err := os.ReadDir(s.opts.Dir)
	if err != nil {
		return core.E(op, core.Internal, err, "directory of snapshots")
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), ".manifest-") {
			_ = os.Remove(filepath.Join(s.opts.Dir, e.Name()))
			continue
		}
		id, err := core.ParseID[core.SnapshotID]("snp_", strings.TrimSuffix(strings.TrimSuffix(e.Name(), ".new"), ".json"))
		if err != nil {
			continue // not ours
		}
		row, err := s.deps.Rows.Snapshot(ctx, id)
		switch {
		case core.Is(err, core.NotFound) && exists(s.manifest(id)):
			// Complete, but the database does not know it: restored from a backup?
			s.deps.Log.Warn("a snapshot has files but no row", "snapshot", id, "dir", s.into(id))
		case core.Is(err, core.NotFound), err == nil && row.State == core.SnapshotRemoved:
			if err := s.erase(id); err != nil {
				return err
			}
		case err != nil:
			return err
		}
	}
	return nil
}

// Remove removes one snapshot, unless something needs it.
func (s *Store) Remove(ctx context.Context, id core.SnapshotID) error {
	const op = "snapshot.remove"
	s.mu.Lock()
	row, err := s.deps.Rows.Snapshot(ctx, id)
	if err == nil && row.State == core.SnapshotWriting {
		err = core.E(op, core.Conflict, nil, "snapshot %s is being written", id)
	}
	if err == nil && row.State == core.SnapshotReady {
		var by []string
		if by, err = s.users(ctx, id); err == nil && len(by) > 0 {
			err = core.E(op, core.Conflict, nil, "snapshot %s is needed by %s", id, list(by))
		}
		if err == nil {
			_, err = s.deps.Rows.UpdateSnapshot(ctx, id, func(r *core.Snapshot) error {
				r.State = core.SnapshotRemoved
				return nil
			})
		}
	}
	s.mu.Unlock()
	if err != nil {
		return err
	}
	return s.erase(id)
}

func list(by []string) string {
	const most = 5
	if len(by) > most {
		return strings.Join(by[:most], ", ") + " and others"
	}
	return strings.Join(by, ", ")
}

// users names who needs a snapshot; s.mu is held.
func (s *Store) users(ctx context.Context, id core.SnapshotID) ([]string, error) {
	needed, err := s.needed(ctx)
	if err != nil {
		return nil, err
	}
	by := needed[id]
	// Children count even if nobody uses them: they would be broken.
	ready, err := s.deps.Rows.SnapshotsInState(ctx, core.SnapshotReady)
	if err != nil {
		return nil, err
	}
	for _, row := range ready {
		if row.ID == id {
			continue
		}
		m, err := s.read(s.manifest(row.ID))
		if err != nil {
			return nil, core.E("snapshot.remove", core.Internal, err, "manifest of snapshot %s", row.ID)
		}
		if contains(m.Layers, id) {
			by = append(by, "snapshot "+string(row.ID))
		}
	}
	return by, nil
}

// needed maps every snapshot whose files must stay to who says so; s.mu is held.
func (s *Store) needed(ctx context.Context) (map[core.SnapshotID][]string, error) {
	uses, err := s.deps.Uses(ctx)
	if err != nil {
		return nil, err
	}
	writing, err := s.deps.Rows.SnapshotsInState(ctx, core.SnapshotWriting)
	if err != nil {
		return nil, err
	}
	for _, row := range writing {
		uses = append(uses, snapshot.Use{By: "snapshot " + string(row.ID), Snapshot: row.Parent})
	}
	for id := range s.pins {
		uses = append(uses, snapshot.Use{By: "a sandbox that is starting", Snapshot: id})
	}
	needed := map[core.SnapshotID][]string{}
	add := func(id core.SnapshotID, by string) {
		if id != "" && !slices.Contains(needed[id], by) {
			needed[id] = append(needed[id], by)
		}
	}
	for _, u := range uses {
		add(u.Snapshot, u.By)
		if u.Snapshot != "" {
			m, err := s.read(s.manifest(u.Snapshot))
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				return nil, core.E("snapshot.gc", core.Internal, err, "manifest of snapshot %s", u.Snapshot)
			}
			for _, l := range m.Layers {
				add(l.Snapshot, u.By)
			}
		}
		for _, path := range u.Layers {
			add(s.FromPath(filepath.Dir(path)), u.By)
		}
	}
	return needed, nil
}

// Collected says what a collection did.
type Collected struct {
	Removed []core.SnapshotID
	Bytes   int64
}

// GC removes ready snapshots that nothing needs and that are older than grace,
// which covers the time between a snapshot and the row that refers to it. It
// may be interrupted anywhere: what is marked removed is erased next time. Dry
// only tells.
func (s *Store) GC(ctx context.Context, grace time.Duration, dry bool) (Collected, error) {
	var c Collected
	victims, err := s.choose(ctx, grace, dry)
	if err != nil {
		return c, err
	}
	for _, row := range victims {
		if !dry {
			if err := s.erase(row.ID); err != nil {
				return c, err
			}
		}
		c.Removed = append(c.Removed, row.ID)
		c.Bytes += row.Bytes
		if err := ctx.Err(); err != nil {
			return c, core.E("snapshot.gc", core.KindOf(err), err, "")
		}
	}
	if dry {
		return c, nil
	}
	return c, s.sweep(ctx)
}

// choose marks what can go. Nothing can be taken into use meanwhile.
func (s *Store) choose(ctx context.Context, grace time.Duration, dry bool) ([]core.Snapshot, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	needed, err := s.needed(ctx)
	if err != nil {
		return nil, err
	}
	ready, err := s.deps.Rows.SnapshotsInState(ctx, core.SnapshotReady)
	if err != nil {
		return nil, err
	}
	// A young snapshot keeps what is below it.
	for _, row := range ready {
		if time.Since(row.Created) >= grace {
			continue
		}
		m, err := s.read(s.manifest(row.ID))
		if err != nil {
			return nil, core.E("snapshot.gc", core.Internal, err, "manifest of snapshot %s", row.ID)
		}
		for _, l := range m.Layers {
			if l.Snapshot != "" {
				needed[l.Snapshot] = append(needed[l.Snapshot], "a new snapshot")
			}
		}
	}
	var victims []core.Snapshot
	for _, row := range ready {
		if len(needed[row.ID]) > 0 {
			continue
		}
		if dry {
			victims = append(victims, row)
			continue
		}
		if _, err := s.deps.Rows.UpdateSnapshot(ctx, row.ID, func(r *core.Snapshot) error {
			r.State = core.SnapshotRemoved
			return nil
		}); err != nil {
			return victims, err
		}
		victims = append(victims, row)
	}
	return victims, nil
}
