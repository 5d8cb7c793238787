package image

import (
	"archive/tar"
	"errors"
	"io/fs"
	"maps"
	"path"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

func (u *unpacker) hardLink(h *tar.Header, at string) error {
	target, ok := cleanName(h.Linkname)
	if !ok || target == "." {
		return refuse(h, "is a hard link that leads out of the layer")
	}
	dir, base := path.Split(target)
	dir, err := u.follow(path.Clean("./" + dir))
	if err != nil {
		return refuse(h, "is a hard link through something that is not a directory")
	}
	target = path.Join(dir, base)
	info, err := u.root.Lstat(target)
	switch {
	case err == nil && !info.IsDir() && !isWhiteout(info):
		if err := u.root.Link(target, at); err != nil {
			return u.failed(h, err)
		}
		return nil
	case err == nil:
		return refuse(h, "is a hard link to a directory or to a removed file")
	}
	f, ok := u.lower.lookup(target)
	switch {
	case ok && f.info.Mode().IsRegular() && !u.hidden(target):
		return u.copyUp(h, f, target, at)
	case u.lower == nil:
		u.report.Links = true // decided when the layers below are there
		return nil
	}
	return refuse(h, "is a hard link to a file that is not there")
}

// copyUp brings a file of a lower layer into this one, as overlayfs does when
// it gets a second name.
func (u *unpacker) copyUp(h *tar.Header, f found, target, at string) error {
	st := f.stat()
	if st == nil {
		return refuse(h, "is a hard link to a file that cannot be read")
	}
	src, err := u.lower.roots[f.layer].Open(f.path)
	if err != nil {
		return u.failed(h, err)
	}
	defer func() { _ = src.Close() }()
	up := &tar.Header{Name: h.Name, Typeflag: tar.TypeReg, Size: f.info.Size(), Uid: int(st.Uid), Gid: int(st.Gid), Mode: int64(st.Mode & 0o7777), ModTime: f.info.ModTime()}
	var value [64]byte
	if n, err := unix.Fgetxattr(int(src.Fd()), "security.capability", value[:]); err == nil {
		up.PAXRecords = map[string]string{"SCHILY.xattr.security.capability": string(value[:n])}
	}
	dir, err := u.resolve(h, path.Dir(target))
	if err != nil {
		return err
	}
	target = path.Join(dir, path.Base(target))
	if err := u.file(up, target, src); err != nil {
		return err
	}
	if err := u.root.Link(target, at); err != nil {
		return u.failed(h, err)
	}
	return nil
}

func (u *unpacker) whiteout(h *tar.Header, parent, base string) error {
	if base == whiteoutOpaque {
		if parent == "." {
			return refuse(h, "hides everything below the root")
		}
		if err := u.setOpaque(parent); err != nil {
			return u.failed(h, err)
		}
		return nil
	}
	if strings.HasPrefix(base, whiteoutMeta) {
		return nil // book-keeping of another file system
	}
	name := strings.TrimPrefix(base, whiteoutPrefix)
	if name == "" || name == "." || name == ".." {
		return refuse(h, "removes nothing that has a name")
	}
	at := path.Join(parent, name)
	info, err := u.root.Lstat(at)
	if err == nil {
		// Removed below, and made anew by this same layer.
		if info.IsDir() {
			if err := u.setOpaque(at); err != nil {
				return u.failed(h, err)
			}
		}
		return nil
	}
	dir, err := u.root.Open(parent)
	if err != nil {
		return u.failed(h, err)
	}
	defer func() { _ = dir.Close() }()
	if err := unix.Mknodat(int(dir.Fd()), name, unix.S_IFCHR, 0); err != nil {
		return u.failed(h, err)
	}
	return nil
}

func (u *unpacker) setOpaque(at string) error {
	f, err := u.root.Open(at)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	u.opaque[at] = true
	return unix.Fsetxattr(int(f.Fd()), opaqueAttr, []byte("y"), 0)
}

// hidden says whether lower layers do not show at a path of this layer.
func (u *unpacker) hidden(at string) bool {
	for dir := at; dir != "."; dir = path.Dir(dir) {
		if u.opaque[dir] {
			return true
		}
	}
	return false
}

// resolve finds the directory that a name means, through symbolic links of
// this layer and of those below, and makes it in this layer.
func (u *unpacker) resolve(h *tar.Header, dir string) (string, error) {
	if at, ok := u.dirs[dir]; ok {
		return at, nil
	}
	at, err := u.walk(dir, true)
	if err != nil {
		if errors.Is(err, errNotDir) {
			return "", refuse(h, "stands below something that is not a directory")
		}
		return "", u.failed(h, err)
	}
	u.dirs[dir] = at
	return at, nil
}

// follow is resolve without making anything.
func (u *unpacker) follow(dir string) (string, error) {
	if at, ok := u.dirs[dir]; ok {
		return at, nil
	}
	return u.walk(dir, false)
}

var errNotDir = errors.New("not a directory")

func (u *unpacker) walk(dir string, make bool) (string, error) {
	at, links := ".", 0
	rest := strings.Split(dir, "/")
	for len(rest) > 0 {
		part := rest[0]
		rest = rest[1:]
		switch part {
		case "", ".":
			continue
		case "..": // of a link's target; the root is its own parent
			at = path.Dir(at)
			continue
		}
		next := path.Join(at, part)
		if strings.Count(next, "/") >= maxDepth {
			return "", errNotDir
		}
		target, isLink, err := u.step(next, make)
		if err != nil {
			return "", err
		}
		if !isLink {
			at = next
			continue
		}
		if links++; links > maxLinks || len(target)+len(dir) > maxPath {
			return "", errNotDir
		}
		if path.IsAbs(target) {
			at = "."
		}
		rest = append(strings.Split(target, "/"), rest...)
	}
	return at, nil
}

// step looks at one name on the way: a directory (made if it is not there and
// make says so), or a symbolic link, whose target it returns.
func (u *unpacker) step(at string, make bool) (target string, isLink bool, err error) {
	info, err := u.root.Lstat(at)
	removed := err == nil && isWhiteout(info)
	switch {
	case err == nil && info.IsDir():
		return "", false, nil
	case err == nil && info.Mode()&fs.ModeSymlink != 0:
		target, err = u.root.Readlink(at)
		return target, true, err
	case err == nil && !removed:
		return "", false, errNotDir
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return "", false, err
	}
	f, ok := found{}, false
	if !removed && !u.hidden(at) {
		f, ok = u.lower.lookup(at)
	}
	if ok && f.info.Mode()&fs.ModeSymlink != 0 {
		target, err = u.lower.roots[f.layer].Readlink(f.path)
		return target, true, err
	}
	if !make {
		return "", false, nil
	}
	if removed {
		if err := u.root.Remove(at); err != nil {
			return "", false, err
		}
	}
	if err := u.root.Mkdir(at, 0o755); err != nil {
		return "", false, err
	}
	if ok && f.info.IsDir() {
		return "", false, u.imitate(at, f)
	}
	// Mkdir's mode went through the umask.
	if err := u.root.Chmod(at, 0o755); err != nil {
		return "", false, err
	}
	if removed {
		return "", false, u.setOpaque(at)
	}
	u.times[at] = time.Unix(0, 0)
	u.implicit[at] = true
	return "", false, nil
}

// imitate gives a directory the owner, mode and time it has below.
func (u *unpacker) imitate(at string, f found) error {
	st := f.stat()
	dir, err := u.root.Open(at)
	if err != nil || st == nil {
		return errors.Join(err, errNotDir)
	}
	defer func() { _ = dir.Close() }()
	u.times[at] = f.info.ModTime()
	return errors.Join(unix.Fchown(int(dir.Fd()), int(st.Uid), int(st.Gid)), unix.Fchmod(int(dir.Fd()), st.Mode&0o7777))
}

// dropCache forgets what was known of directories, after one was replaced.
func (u *unpacker) dropCache(at string) {
	// A name may have led through the replaced one in ways its spelling does not
	// show, so every name is looked up again.
	u.dirs = map[string]string{".": "."}
	inside := func(p string) bool { return p == at || strings.HasPrefix(p, at+"/") }
	maps.DeleteFunc(u.implicit, func(name string, _ bool) bool { return inside(name) })
	for name := range u.times {
		if inside(name) {
			delete(u.times, name)
		}
	}
	for name := range u.opaque {
		if inside(name) {
			delete(u.opaque, name)
		}
	}
}
