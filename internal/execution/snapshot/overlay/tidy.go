package overlay

import (
	"context"
	"crypto/rand"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"drydock/internal/core"
	"drydock/internal/execution/snapshot"
	"drydock/internal/execution/tree"
)

// gonePrefix marks directories that are being deleted.
const gonePrefix = ".gone-"

// tidy removes directories of ready snapshots that no manifest, nobody who runs
// and nothing that is being written names: what a death between two steps, or a
// compaction, left. It counts them.
func (s *Store) tidy(ctx context.Context) (int, error) {
	gone, err := s.unnamed(ctx)
	for _, dir := range gone {
		s.deps.Log.Info("removing what no snapshot names", "dir", dir)
		if err := tree.Remove(dir); err != nil {
			return len(gone), core.E("snapshot.gc", core.Internal, err, "files of a snapshot")
		}
	}
	return len(gone), err
}

// unnamed moves such directories aside, so that they can be deleted while others
// go on.
func (s *Store) unnamed(ctx context.Context) (gone []string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	v, err := s.look(ctx)
	if err != nil {
		return nil, err
	}
	named := map[string]bool{} // and every directory above them
	name := func(path string) {
		for ; s.owner(path) != ""; path = filepath.Dir(path) {
			named[path] = true
		}
	}
	for path := range v.needs(0, nil).dirs {
		name(path)
	}
	for _, m := range v.manifests {
		for _, l := range m.Layers {
			name(s.path(l))
		}
		if m.Memory != nil {
			name(s.imageDir(m))
			if m.Memory.Live != nil {
				name(s.path(*m.Memory.Live))
			}
		}
	}
	for _, row := range v.ready {
		if err := s.agree(ctx, row, v.manifests[row.ID]); err != nil {
			return gone, err
		}
		dirs, err := s.unnamedOf(row.ID, named)
		if err != nil {
			return gone, core.E("snapshot.gc", core.Internal, err, "files of snapshot %s", row.ID)
		}
		for _, dir := range dirs {
			aside := dir
			if !strings.HasPrefix(filepath.Base(dir), gonePrefix) {
				aside = filepath.Join(s.into(row.ID), gonePrefix+rand.Text())
				if err := os.Rename(dir, aside); err != nil {
					return gone, core.E("snapshot.gc", core.Internal, err, "files of snapshot %s", row.ID)
				}
			}
			gone = append(gone, aside)
		}
	}
	return gone, nil
}

func (s *Store) unnamedOf(id core.SnapshotID, named map[string]bool) (dirs []string, err error) {
	entries, err := os.ReadDir(s.into(id))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		dir := filepath.Join(s.into(id), e.Name())
		switch {
		case e.Name() == liveDir && time.Since(s.taking[id]) < takingAtMost:
		case !named[dir]:
			dirs = append(dirs, dir)
		case e.Name() == liveDir: // its files may be of use when the image is not
			if image := filepath.Join(dir, imageDir); !named[image] && exists(image) {
				dirs = append(dirs, image)
			}
		}
	}
	return dirs, nil
}

// agree lets a row say of memory what the manifest says.
func (s *Store) agree(ctx context.Context, row core.Snapshot, m snapshot.Manifest) error {
	if row.Memory == (m.Memory != nil) {
		return nil
	}
	_, err := s.deps.Rows.UpdateSnapshot(ctx, row.ID, func(r *core.Snapshot) error {
		r.Memory = m.Memory != nil
		return nil
	})
	return err
}
