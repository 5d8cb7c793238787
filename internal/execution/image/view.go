package image

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// opaqueAttr marks a directory that hides those below it, for overlayfs.
const opaqueAttr = "trusted.overlay.opaque"

// view is the merged content of finished layers, topmost first, as overlayfs
// would show it.
type view struct {
	roots []*os.Root
	dirs  []string
}

func openView(layers []string) (*view, error) {
	v := &view{}
	for _, dir := range layers {
		root, err := os.OpenRoot(dir)
		if err != nil {
			v.close()
			return nil, err
		}
		v.roots = append(v.roots, root)
		v.dirs = append(v.dirs, dir)
	}
	return v, nil
}

func (v *view) close() {
	if v == nil {
		return
	}
	for _, r := range v.roots {
		_ = r.Close()
	}
}

// found is a file of a view.
type found struct {
	layer int
	path  string
	info  fs.FileInfo
}

func (f found) stat() *syscall.Stat_t {
	st, _ := f.info.Sys().(*syscall.Stat_t)
	return st
}

// lookup finds a clean path none of whose directories is a symbolic link in
// the view; a path through one is not found.
func (v *view) lookup(name string) (found, bool) {
	if v == nil {
		return found{}, false
	}
	parts := strings.Split(name, "/")
	for i, root := range v.roots {
		at := "."
		hidden := false // no lower layer shows through
		for j, part := range parts {
			at = path.Join(at, part)
			info, err := root.Lstat(at)
			if errors.Is(err, fs.ErrNotExist) {
				break
			}
			if err != nil || isWhiteout(info) {
				return found{}, false
			}
			if j == len(parts)-1 {
				return found{i, at, info}, true
			}
			if !info.IsDir() {
				return found{}, false
			}
			hidden = hidden || isOpaque(path.Join(v.dirs[i], at))
		}
		if hidden {
			return found{}, false
		}
	}
	return found{}, false
}

// isWhiteout recognises overlayfs' mark of a removed file.
func isWhiteout(info fs.FileInfo) bool {
	st, ok := info.Sys().(*syscall.Stat_t)
	return ok && st.Mode&syscall.S_IFMT == syscall.S_IFCHR && st.Rdev == 0
}

func isOpaque(dir string) bool {
	var b [1]byte
	n, err := unix.Lgetxattr(dir, opaqueAttr, b[:])
	return err == nil && n == 1 && b[0] == 'y'
}
