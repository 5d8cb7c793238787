package blob

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"drydock/internal/core"
)

// leftOver is how old a file aside must be before it is certain that nobody
// writes it any more.
const leftOver = 24 * time.Hour

func (s *Store) sweep() error {
	entries, err := os.ReadDir(s.aside())
	if err != nil {
		return core.E("blob.open", core.Unavailable, err, "list unfinished blobs in %s", s.aside())
	}
	for _, e := range entries {
		info, err := e.Info()
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil || time.Since(info.ModTime()) < leftOver {
			continue
		}
		if err := removeIfThere(filepath.Join(s.aside(), e.Name())); err != nil {
			return core.E("blob.open", core.Unavailable, err, "remove the unfinished blob %s", e.Name())
		}
	}
	return nil
}
