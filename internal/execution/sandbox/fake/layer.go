package fake

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// wholeMark in the root of a layer says that it holds everything, so that
// layers below it do not matter. That is how this driver keeps deletions.
const wholeMark = ".fake-whole"

func markWhole(root string) error {
	return os.WriteFile(filepath.Join(root, wholeMark), nil, 0o600)
}

// compose copies layers, topmost first in the list, over each other into root.
func compose(ctx context.Context, layers []string, root string) error {
	if err := os.MkdirAll(root, 0o755); err != nil {
		return err
	}
	lowest := len(layers) - 1
	for i, layer := range layers {
		if _, err := os.Lstat(filepath.Join(layer, wholeMark)); err == nil {
			lowest = i
			break
		}
	}
	for i := lowest; i >= 0; i-- {
		if err := copyTree(ctx, layers[i], root); err != nil {
			return err
		}
	}
	if err := os.Remove(filepath.Join(root, wholeMark)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

func copyTree(ctx context.Context, from, to string) error {
	return filepath.WalkDir(from, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		rel, err := filepath.Rel(from, path)
		if err != nil || rel == "." {
			return err
		}
		target := filepath.Join(to, rel)
		info, err := e.Info()
		if err != nil {
			return err
		}
		if e.IsDir() {
			if st, err := os.Lstat(target); err == nil && st.IsDir() {
				return os.Chmod(target, info.Mode().Perm())
			}
		}
		if err := os.RemoveAll(target); err != nil {
			return err
		}
		switch {
		case e.IsDir():
			return os.Mkdir(target, info.Mode().Perm()|0o700)
		case e.Type()&fs.ModeSymlink != 0:
			link, err := os.Readlink(path)
			if err != nil {
				return err
			}
			return os.Symlink(link, target)
		case e.Type().IsRegular():
			return copyFile(path, target, info)
		}
		return nil // devices, pipes and sockets stay behind
	})
}

func copyFile(from, to string, info fs.FileInfo) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, info.Mode().Perm()|0o200)
	if err != nil {
		return err
	}
	if _, err := io.Copy(out, in); err != nil {
		return errors.Join(err, out.Close())
	}
	if err := out.Close(); err != nil {
		return err
	}
	if err := os.Chmod(to, info.Mode().Perm()); err != nil {
		return err
	}
	return os.Chtimes(to, info.ModTime(), info.ModTime())
}
