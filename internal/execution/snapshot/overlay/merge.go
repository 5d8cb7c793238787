package overlay

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"drydock/internal/execution/tree"
)

const (
	xattrOverlay  = "trusted.overlay."
	xattrEscaped  = "trusted.overlay.overlay." // of an overlay inside: data to us
	xattrOpaque   = "trusted.overlay.opaque"
	xattrRedirect = "trusted.overlay.redirect"
)

// merger makes one layer of several adjacent ones: the directory that stands
// for all of them above the same layers below. It finds every name as overlayfs
// does (fs/overlayfs/namei.c: whiteouts, opaque directories, redirects), over
// the whole stack, so that it knows what of each is needed to hide or to find
// what is below.
//
// Files are hard links, directories are made anew with all that is known of the
// topmost one.
type merger struct {
	ctx   context.Context //nolint:containedctx // lives as long as one merge
	roots []*os.File      // all layers, topmost first
	count int             // of them that are merged: the first ones
	to    *os.File        // the new layer
}

// place is a directory in a layer; path is "" for its root.
type place struct {
	layer int
	path  string
}

// merge fills to, an empty directory. layers are all of a chain, topmost first,
// of which the first count become one.
func merge(ctx context.Context, layers []string, count int, to string) (err error) {
	m := &merger{ctx: ctx, count: count}
	defer func() {
		for _, f := range append(m.roots, m.to) {
			if f != nil {
				err = errors.Join(err, f.Close())
			}
		}
	}()
	var all []place
	for i, dir := range layers {
		f, err := openDir(unix.AT_FDCWD, dir, 0)
		if err != nil {
			return err
		}
		m.roots = append(m.roots, f)
		all = append(all, place{layer: i})
	}
	if m.to, err = openDir(unix.AT_FDCWD, to, 0); err != nil {
		return err
	}
	return m.fill(all, "", 0)
}

// below are paths that stay inside and follow no link.
const inside = unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS

func openDir(at int, path string, resolve uint64) (*os.File, error) {
	if path == "" {
		path = "."
	}
	fd, err := unix.Openat2(at, path, &unix.OpenHow{Flags: unix.O_RDONLY | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC, Resolve: resolve})
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	return os.NewFile(uintptr(fd), path), nil
}

func (m *merger) open(p place) (*os.File, error) {
	return openDir(int(m.roots[p.layer].Fd()), p.path, inside)
}

// split divides places into those that are merged and those below.
func (m *merger) split(all []place) (merged, below []place) {
	i := slices.IndexFunc(all, func(p place) bool { return p.layer >= m.count })
	if i < 0 {
		return all, nil
	}
	return all[:i], all[i:]
}

// fill makes what is in a directory, which is there in the new layer at path.
func (m *merger) fill(all []place, path string, depth int) error {
	if depth > tree.MaxDepth {
		return tree.ErrTooDeep
	}
	if err := m.ctx.Err(); err != nil {
		return err
	}
	merged, below := m.split(all)
	var names []string
	for _, p := range merged {
		dir, err := m.open(p)
		if err != nil {
			return err
		}
		list, err := dir.Readdirnames(-1)
		if err = errors.Join(err, dir.Close()); err != nil {
			return err
		}
		names = append(names, list...)
	}
	slices.Sort(names)
	into, err := openDir(int(m.to.Fd()), path, inside)
	if err != nil {
		return err
	}
	defer into.Close()
	var dirs []found
	for _, name := range slices.Compact(names) {
		f, err := m.find(all, name)
		if err != nil {
			return fmt.Errorf("%s: %w", filepath.Join("/", path, name), err)
		}
		switch f.kind {
		case nothing:
		case whiteout:
			// Only where there is something to hide.
			under, err := m.find(below, name)
			if err == nil && (under.kind == file || under.kind == directory) {
				err = unix.Mknodat(int(into.Fd()), name, unix.S_IFCHR, 0)
			}
			if err != nil {
				return fmt.Errorf("%s: %w", filepath.Join("/", path, name), err)
			}
		case file:
			if err := m.link(f.at, into, name); err != nil {
				return fmt.Errorf("%s: %w", filepath.Join("/", path, name), err)
			}
		case directory:
			if err := unix.Mkdirat(int(into.Fd()), name, 0o700); err != nil {
				return fmt.Errorf("%s: %w", filepath.Join("/", path, name), err)
			}
			f.name = name
			dirs = append(dirs, f)
		}
	}
	for _, d := range dirs {
		if err := m.fill(d.dirs, join(path, d.name), depth+1); err != nil {
			return err
		}
	}
	for _, d := range dirs {
		if err := m.dress(d, join(path, d.name), len(below) > 0); err != nil {
			return fmt.Errorf("%s: %w", filepath.Join("/", path, d.name), err)
		}
	}
	if depth == 0 {
		return m.dress(found{dirs: all}, "", false)
	}
	return nil
}

func join(dir, name string) string {
	if dir == "" {
		return name
	}
	return dir + "/" + name
}

// link gives a file of a layer its name in the new one.
func (m *merger) link(p place, into *os.File, name string) error {
	dir, base := filepath.Split(p.path)
	from, err := openDir(int(m.roots[p.layer].Fd()), strings.TrimSuffix(dir, "/"), inside)
	if err != nil {
		return err
	}
	return errors.Join(unix.Linkat(int(from.Fd()), base, int(into.Fd()), name, 0), from.Close())
}

// dress gives a directory of the new layer the owner, rights, times and
// attributes of the topmost it stands for, and what overlayfs must know to go
// on below it as it did before.
func (m *merger) dress(d found, path string, hides bool) error {
	from, err := m.open(d.dirs[0])
	if err != nil {
		return err
	}
	defer from.Close()
	to, err := openDir(int(m.to.Fd()), path, inside)
	if err != nil {
		return err
	}
	defer to.Close()
	var st unix.Stat_t
	if err := unix.Fstat(int(from.Fd()), &st); err != nil {
		return err
	}
	if err := errors.Join(unix.Fchown(int(to.Fd()), int(st.Uid), int(st.Gid)), unix.Fchmod(int(to.Fd()), st.Mode&0o7777)); err != nil {
		return err
	}
	attrs, err := listXattrs(from)
	if err != nil {
		return err
	}
	for _, name := range attrs {
		if name == sealName || strings.HasPrefix(name, xattrOverlay) && !strings.HasPrefix(name, xattrEscaped) {
			continue
		}
		value, err := getXattr(from, name)
		if err == nil {
			err = unix.Fsetxattr(int(to.Fd()), name, value, 0)
		}
		if err != nil {
			return fmt.Errorf("attribute %s: %w", name, err)
		}
	}
	_, below := m.split(d.dirs)
	switch {
	case len(below) == 0 && hides:
		err = unix.Fsetxattr(int(to.Fd()), xattrOpaque, []byte("y"), 0)
	case len(below) > 0 && d.on != d.name:
		err = unix.Fsetxattr(int(to.Fd()), xattrRedirect, []byte(d.on), 0)
	}
	if err != nil {
		return err
	}
	return unix.UtimesNanoAt(int(to.Fd()), ".", []unix.Timespec{st.Atim, st.Mtim}, 0)
}

func listXattrs(f *os.File) ([]string, error) {
	buf := make([]byte, 64<<10) // the most there can be
	n, err := unix.Flistxattr(int(f.Fd()), buf)
	if err != nil {
		if errors.Is(err, unix.ENOTSUP) {
			return nil, nil
		}
		return nil, err
	}
	var out []string
	for name := range bytes.SplitSeq(buf[:n], []byte{0}) {
		if len(name) > 0 {
			out = append(out, string(name))
		}
	}
	slices.Sort(out)
	return out, nil
}

func getXattr(f *os.File, name string) ([]byte, error) {
	buf := make([]byte, 512)
	n, err := unix.Fgetxattr(int(f.Fd()), name, buf)
	if errors.Is(err, unix.ERANGE) {
		buf = make([]byte, 64<<10) // the most there can be
		n, err = unix.Fgetxattr(int(f.Fd()), name, buf)
	}
	if err != nil {
		return nil, err
	}
	return buf[:n], nil
}
