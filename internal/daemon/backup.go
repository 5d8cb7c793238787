package daemon

import (
	"archive/tar"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"drydock/internal/core"
	"drydock/internal/surface/server"
)

// backup writes what cannot be made again: the database, the forge, mirrors
// (unfinished work of sessions is in them), blobs, evidence and keys. Images
// and snapshots are left out; they are built again.
type backup struct{ d *Daemon }

var _ server.Backup = backup{}

// Backup implements server.Backup. The database is a consistent copy; what
// refers to files was written after them, so that every row finds its file.
func (b backup) Backup(ctx context.Context, w io.Writer) error {
	state := b.d.opts.State
	dir, err := os.MkdirTemp(state, ".backup-")
	if err != nil {
		return core.E("daemon.backup", core.Unavailable, err, "directory for the copy of the database")
	}
	defer func() { _ = os.RemoveAll(dir) }()
	copied := filepath.Join(dir, "drydock.db")
	if err := b.d.db.Backup(ctx, copied); err != nil {
		return err
	}
	out := tar.NewWriter(w)
	if err := addFile(out, copied, "drydock.db"); err != nil {
		return err
	}
	for _, name := range []string{"keys", "token", "evidence", "blobs", "forge", "mirrors", "builds"} {
		if err := addTree(ctx, out, state, name); err != nil {
			return core.E("daemon.backup", core.Unavailable, err, "copy %s", filepath.Join(state, name))
		}
	}
	return out.Close()
}

func addTree(ctx context.Context, out *tar.Writer, state, name string) error {
	return filepath.WalkDir(filepath.Join(state, name), func(path string, e fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil // temporary files come and go
		case err != nil:
			return err
		case ctx.Err() != nil:
			return ctx.Err()
		case !e.Type().IsRegular():
			return nil
		}
		rel, err := filepath.Rel(state, path)
		if err != nil {
			return err
		}
		return addFile(out, path, rel)
	})
}

func addFile(out *tar.Writer, path, name string) error {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	head, err := tar.FileInfoHeader(info, "")
	if err != nil {
		return err
	}
	head.Name, head.Uname, head.Gname = filepath.ToSlash(name), "", ""
	if err := out.WriteHeader(head); err != nil {
		return err
	}
	// A file that grew meanwhile is cut at what the header says.
	_, err = io.CopyN(out, f, info.Size())
	return err
}
