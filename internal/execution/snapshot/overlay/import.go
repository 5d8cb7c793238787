package overlay

import (
	"context"
	"os"
	"path/filepath"

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
	own := b.Image != nil && !b.Live
	if own {
		frozen.Image = &sandbox.Image{Dir: filepath.Join(s.into(im.ID), imageDir), Token: b.Image.Token, Fit: b.Image.Fit}
		if err := os.Rename(im.Image, frozen.Image.Dir); err != nil {
			return core.Snapshot{}, core.E(op, core.Unavailable, err, "memory image of snapshot %s", im.ID)
		}
	}
	// From here on a restart completes it.
	if err := os.Rename(im.Upper, frozen.Upper); err != nil {
		return core.Snapshot{}, core.E(op, core.Unavailable, err, "files of snapshot %s", im.ID)
	}
	row, err := s.Commit(ctx, im.ID, frozen)
	if err != nil {
		return row, err
	}
	_, release, err := s.Acquire(ctx, im.ID)
	if err != nil {
		return row, err
	}
	defer release()
	if b.Image != nil && b.Live {
		if err := s.liveImported(ctx, im, b); err != nil {
			return row, err
		}
		row.Memory = true
	}
	if err := tree.Remove(filepath.Dir(im.Upper)); err != nil {
		return row, core.E(op, core.Internal, err, "snapshot %s", im.ID)
	}
	return row, nil
}

func (s *Store) liveImported(ctx context.Context, im Import, b Brought) error {
	const op = "snapshot.import"
	into := s.live(im.ID)
	frozen := sandbox.Frozen{
		Upper: filepath.Join(into, "upper"),
		Image: &sandbox.Image{Dir: filepath.Join(into, imageDir), Token: b.Image.Token, Fit: b.Image.Fit},
	}
	if err := os.Mkdir(into, 0o700); err != nil {
		return core.E(op, core.Unavailable, err, "running state of snapshot %s", im.ID)
	}
	for from, to := range map[string]string{im.LiveUpper: frozen.Upper, im.Image: frozen.Image.Dir} {
		if err := os.Rename(from, to); err != nil {
			return core.E(op, core.Unavailable, err, "running state of snapshot %s", im.ID)
		}
	}
	return s.CommitMemory(ctx, im.ID, frozen, b.Services)
}
