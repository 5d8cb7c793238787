package overlay

import (
	"context"
	"os"
	"path/filepath"
	"time"

	"drydock/internal/core"
	"drydock/internal/execution/sandbox"
	"drydock/internal/execution/snapshot"
	"drydock/internal/execution/tree"
)

// Import is a snapshot that comes from elsewhere. Its files are written to
// Upper, a memory image to Image (with Live the files that it goes with to
// LiveUpper); the directories do not exist yet. Until Imported they are
// rubbish, which the next start removes.
type Import struct {
	ID                      core.SnapshotID
	Upper, Image, LiveUpper string
}

const newDir = "new"

// BeginImport records a snapshot whose files are about to be brought. Abort
// gives it up.
func (s *Store) BeginImport(ctx context.Context, d snapshot.Draft) (Import, error) {
	p, err := s.Begin(ctx, d)
	if err != nil {
		return Import{}, err
	}
	work := filepath.Join(p.Into, newDir)
	if err := os.MkdirAll(work, 0o700); err != nil {
		return Import{}, core.E("snapshot.import", core.Unavailable, err, "directory of snapshot %s", p.ID)
	}
	return Import{p.ID, filepath.Join(work, "upper"), filepath.Join(work, imageDir), filepath.Join(work, "live-upper")}, nil
}

// Brought says what lies in the directories of an Import.
type Brought struct {
	Base     []snapshot.Layer // below it, topmost first
	Image    *sandbox.Image   // Dir is not looked at
	Live     bool
	Services []string
}

// Imported makes an import ready: its files first and at once, then the memory
// image, without which it is as good.
func (s *Store) Imported(ctx context.Context, im Import, b Brought) (core.Snapshot, error) {
	const op = "snapshot.import"
	m, err := s.read(s.draft(im.ID))
	if err != nil {
		return core.Snapshot{}, core.E(op, core.Internal, err, "manifest of snapshot %s", im.ID)
	}
	m.Layers = append(m.Layers[:1], b.Base...)
	if err := m.Check(); err != nil {
		return core.Snapshot{}, err
	}
	if err := s.write(s.draft(im.ID), m); err != nil {
		return core.Snapshot{}, core.E(op, core.Unavailable, err, "manifest of snapshot %s", im.ID)
	}
	frozen := sandbox.Frozen{Upper: s.upper(im.ID)}
	moves := [][2]string{}
	var live *sandbox.Frozen
	switch {
	case b.Image != nil && b.Live:
		live = &sandbox.Frozen{
			Upper: filepath.Join(s.live(im.ID), "upper"),
			Image: &sandbox.Image{Dir: filepath.Join(s.live(im.ID), imageDir), Token: b.Image.Token, Fit: b.Image.Fit},
		}
		if err := os.Mkdir(s.live(im.ID), 0o700); err != nil {
			return core.Snapshot{}, core.E(op, core.Unavailable, err, "running state of snapshot %s", im.ID)
		}
		moves = append(moves, [2]string{im.LiveUpper, live.Upper}, [2]string{im.Image, live.Image.Dir})
		s.mu.Lock()
		s.taking[im.ID] = time.Now() // nobody tidies it away until the manifest names it
		s.mu.Unlock()
		defer s.took(im.ID)
	case b.Image != nil:
		frozen.Image = &sandbox.Image{Dir: filepath.Join(s.into(im.ID), imageDir), Token: b.Image.Token, Fit: b.Image.Fit}
		moves = append(moves, [2]string{im.Image, frozen.Image.Dir})
	}
	// With the last of them in its place, a restart completes the snapshot.
	for _, m := range append(moves, [2]string{im.Upper, frozen.Upper}) {
		if err := os.Rename(m[0], m[1]); err != nil {
			return core.Snapshot{}, core.E(op, core.Unavailable, err, "files of snapshot %s", im.ID)
		}
	}
	if err := tree.Remove(filepath.Dir(im.Upper)); err != nil {
		return core.Snapshot{}, core.E(op, core.Internal, err, "snapshot %s", im.ID)
	}
	row, err := s.Commit(ctx, im.ID, frozen)
	if err != nil || live == nil {
		return row, err
	}
	err = s.CommitMemory(ctx, im.ID, *live, b.Services)
	row.Memory = err == nil
	return row, err
}
