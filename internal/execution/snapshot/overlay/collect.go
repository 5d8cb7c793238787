package overlay

import (
	"context"
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
// go, and directories that no manifest names.
func (s *Store) Recover(ctx context.Context) error {
	writing, err := s.deps.Rows.SnapshotsInState(ctx, core.SnapshotWriting)
	if err != nil {
		return err
	}
	var freezes []string
	if s.deps.Freezes != nil {
		if freezes, err = s.deps.Freezes(ctx); err != nil {
			return err
		}
	}
	for _, row := range writing {
		if slices.Contains(freezes, s.into(row.ID)) {
			continue // whoever adopts the sandbox goes on with it, memory and all
		}
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
	if err := s.sweep(ctx); err != nil {
		return err
	}
	_, err = s.tidy(ctx)
	return err
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

// Remove removes one snapshot, unless something needs it. What only could be
// gone back to is no such need.
func (s *Store) Remove(ctx context.Context, id core.SnapshotID) error {
	const op = "snapshot.remove"
	s.mu.Lock()
	row, err := s.deps.Rows.Snapshot(ctx, id)
	if err == nil && row.State == core.SnapshotWriting {
		err = core.E(op, core.Conflict, nil, "snapshot %s is being written", id)
	}
	if err == nil && row.State == core.SnapshotReady {
		var by []string
		if by, err = s.holders(ctx, id); err == nil && len(by) > 0 {
			err = core.E(op, core.Conflict, nil, "snapshot %s is needed by %s", id, list(by))
		}
		if err == nil {
			err = s.giveUp(ctx, id)
		}
	}
	s.mu.Unlock()
	if err != nil {
		return err
	}
	return s.erase(id)
}

// giveUp marks a snapshot removed.
func (s *Store) giveUp(ctx context.Context, id core.SnapshotID) error {
	_, err := s.deps.Rows.UpdateSnapshot(ctx, id, func(r *core.Snapshot) error {
		r.State = core.SnapshotRemoved
		return nil
	})
	return err
}

func list(by []string) string {
	const most = 5
	if len(by) > most {
		return strings.Join(by[:most], ", ") + " and others"
	}
	return strings.Join(by, ", ")
}

// holders names who keeps a snapshot from being removed; s.mu is held.
func (s *Store) holders(ctx context.Context, id core.SnapshotID) ([]string, error) {
	v, err := s.look(ctx)
	if err != nil {
		return nil, err
	}
	by := v.needs(0, func(u snapshot.Use) bool { return u.Spare }).snaps[id]
	// Children count even if nobody uses them: they would be broken.
	for _, row := range v.ready {
		if row.ID != id && contains(v.manifests[row.ID].Layers, id) {
			by = append(by, "snapshot "+string(row.ID))
		}
	}
	return by, nil
}

// Users names everybody for whom a snapshot, and its memory image, are kept.
func (s *Store) Users(ctx context.Context, id core.SnapshotID) (files, memory []string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	v, err := s.look(ctx)
	if err != nil {
		return nil, nil, err
	}
	n := v.needs(0, nil)
	files = n.snaps[id]
	for _, row := range v.ready {
		if by := "snapshot " + string(row.ID); row.ID != id && contains(v.manifests[row.ID].Layers, id) && !slices.Contains(files, by) {
			files = append(files, by)
		}
	}
	return files, n.images[id], nil
}

// Request says how much a collection removes.
type Request struct {
	// Grace covers the time between a snapshot and the row that refers to it.
	Grace time.Duration
	Dry   bool // only tell
	// Want is how much room is missing. While it is, memory images go too, those
	// first that were of no use for longest, and then what is only spare.
	Want int64
}

// Collected says what a collection did.
type Collected struct {
	Removed []core.SnapshotID
	Images  []core.SnapshotID // whose memory images were dropped
	Layers  int               // directories that nothing named any more
	Bytes   int64
	Kept    []Kept
}

// Kept is a snapshot that stays, and why.
type Kept struct {
	ID     core.SnapshotID
	Bytes  int64 // of its directory
	By     []string
	Memory []string // who needs its memory image
}

// GC removes what nothing needs: ready snapshots, memory images, directories
// that a compaction left. It may be interrupted anywhere: what is marked
// removed is erased next time.
func (s *Store) GC(ctx context.Context, req Request) (Collected, error) {
	const op = "snapshot.gc"
	select {
	case s.collecting <- struct{}{}:
		defer func() { <-s.collecting }()
	case <-ctx.Done():
		return Collected{}, core.E(op, core.KindOf(ctx.Err()), ctx.Err(), "another collection is at work")
	}
	c, todo, err := s.choose(ctx, req)
	if err != nil || req.Dry {
		return c, err
	}
	for _, do := range todo {
		if err := do(); err != nil {
			return c, err
		}
		if err := ctx.Err(); err != nil {
			return c, core.E(op, core.KindOf(err), err, "")
		}
	}
	if err := s.sweep(ctx); err != nil {
		return c, err
	}
	n, err := s.tidy(ctx)
	c.Layers += n
	return c, err
}

// choose marks what can go, and returns how its files go. Nothing can be taken
// into use meanwhile.
func (s *Store) choose(ctx context.Context, req Request) (c Collected, todo []func() error, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	v, err := s.look(ctx)
	if err != nil {
		return c, nil, err
	}
	p := v.plan(req)
	for _, row := range v.ready {
		m := v.manifests[row.ID]
		switch {
		case p.keeps[row.ID] == nil:
			if !req.Dry {
				if err := s.giveUp(ctx, row.ID); err != nil {
					return c, todo, err
				}
			}
			c.Removed = append(c.Removed, row.ID)
			c.Bytes += s.bytesOf(m)
			todo = append(todo, func() error { return s.erase(row.ID) })
			continue
		case m.Memory != nil && len(p.needs.images[row.ID]) == 0:
			c.Images = append(c.Images, row.ID)
			c.Bytes += m.Memory.Bytes
			if !req.Dry {
				dirs, err := s.forgetMemory(ctx, row.ID)
				if err != nil {
					return c, todo, err
				}
				todo = append(todo, func() error { return s.removeAll(row.ID, dirs) })
			}
		}
		c.Kept = append(c.Kept, Kept{ID: row.ID, Bytes: s.bytesOf(m), By: p.keeps[row.ID], Memory: p.needs.images[row.ID]})
	}
	return c, todo, nil
}

// plan is what a collection keeps.
type plan struct {
	needs needs
	keeps map[core.SnapshotID][]string
}

// plan gives up spare things until enough room would be free.
func (v *view) plan(req Request) plan {
	var noImage, noSpare time.Time // uses that ended before are given up
	leave := func(u snapshot.Use) bool { return u.Spare && !u.Last.IsZero() && u.Last.Before(noSpare) }
	decide := func() plan {
		uses := v.uses
		v.uses = slices.Clone(uses)
		for i, u := range v.uses {
			if u.Memory && !u.Last.IsZero() && u.Last.Before(noImage) {
				v.uses[i].Memory = false
			}
		}
		p := plan{needs: v.needs(req.Grace, leave), keeps: map[core.SnapshotID][]string{}}
		v.uses = uses
		for _, row := range v.ready {
			if by := p.needs.snaps[row.ID]; len(by) > 0 {
				p.keeps[row.ID] = by
			}
		}
		return p
	}
	p := decide()
	for _, image := range []bool{true, false} {
		var ages []time.Time
		for _, u := range v.uses {
			if (image && u.Memory || !image && u.Spare) && !u.Last.IsZero() {
				ages = append(ages, u.Last)
			}
		}
		slices.SortFunc(ages, time.Time.Compare)
		for _, age := range ages {
			if v.freed(p) >= req.Want {
				return p
			}
			if image {
				noImage = age.Add(1)
			} else {
				noSpare = age.Add(1)
			}
			p = decide()
		}
	}
	return p
}

// freed is what a plan frees.
func (v *view) freed(p plan) int64 {
	var sum int64
	for _, row := range v.ready {
		m := v.manifests[row.ID]
		switch {
		case p.keeps[row.ID] == nil:
			sum += v.s.bytesOf(m)
		case m.Memory != nil && len(p.needs.images[row.ID]) == 0:
			sum += m.Memory.Bytes
		}
	}
	return sum
}

// bytesOf is what the directory of a snapshot takes.
func (s *Store) bytesOf(m snapshot.Manifest) int64 {
	sum := m.Layers[0].Bytes
	if m.Memory != nil {
		sum += m.Memory.Bytes
		if m.Memory.Live != nil {
			sum += m.Memory.Live.Bytes
		}
	}
	return sum
}
