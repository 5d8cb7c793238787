package image

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"drydock/internal/core"
)

const (
	whiteoutPrefix = ".wh."
	whiteoutOpaque = ".wh..wh..opq"
	whiteoutMeta   = ".wh..wh."

	maxPath     = 4096
	maxDepth    = 200
	maxLinks    = 40
	maxReplaced = 5000
	maxFileSize = 256 << 30 // logical; holes are cheap to store and not to read
)

// report says what a layer needs from those below it to be right.
type report struct {
	// Implicit are directories that entries stand in without an entry of their
	// own: below, they may be symbolic links or have another owner or mode.
	Implicit []string `json:"implicit,omitempty"`
	// Links says that a hard link names a file that only a lower layer has.
	Links bool `json:"links,omitempty"`
}

// needs reports whether the layer has to be unpacked with sight of v.
func (r report) needs(v *view) bool {
	if r.Links {
		return true
	}
	for _, dir := range r.Implicit {
		f, ok := v.lookup(dir)
		if !ok {
			continue
		}
		st := f.stat()
		if !f.info.IsDir() || st == nil || st.Mode&0o7777 != 0o755 || st.Uid != 0 || st.Gid != 0 {
			return true
		}
	}
	return false
}

// unpacker writes one layer into a directory, in overlayfs form.
type unpacker struct {
	root   *os.Root
	dir    string
	lower  *view // nil on the first try
	limits Limits
	report report

	dirs     map[string]string    // directory as named -> as it is in the layer, links followed
	opaque   map[string]bool      // hides what is below
	times    map[string]time.Time // of directories, set at the end
	implicit map[string]bool
	count    int
	replaced int
	left     int64 // bytes that may still be written
}

// unpack writes the files of a tar stream below dir, which exists and is
// empty. Nothing is written outside dir whatever the stream says.
func unpack(ctx context.Context, r io.Reader, dir string, lower *view, limits Limits) (report, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return report{}, core.E("image.unpack", core.Internal, err, "cannot open %s", dir)
	}
	defer func() { _ = root.Close() }()
	u := &unpacker{
		root: root, dir: dir, lower: lower, limits: limits, left: limits.LayerBytes,
		dirs: map[string]string{".": "."}, opaque: map[string]bool{}, times: map[string]time.Time{}, implicit: map[string]bool{},
	}
	tr := tar.NewReader(r)
	for {
		if err := ctx.Err(); err != nil {
			return report{}, core.E("image.unpack", core.KindOf(err), err, "unpacking was interrupted")
		}
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return report{}, streamError(err)
		}
		if u.count++; u.count > limits.Entries {
			return report{}, core.E("image.unpack", core.Exhausted, nil, "a layer has more than %d entries", limits.Entries)
		}
		if err := u.entry(h, tr); err != nil {
			return report{}, err
		}
	}
	for name, when := range u.times {
		u.setTime(name, when)
	}
	u.report.Implicit = slices.Sorted(maps.Keys(u.implicit))
	return u.report, nil
}

// streamError keeps errors that say what they are; the rest is a damaged tar.
func streamError(err error) error {
	if _, ok := errors.AsType[*core.Error](err); ok {
		return err
	}
	return core.E("image.unpack", core.Invalid, err, "a layer is damaged")
}

func refuse(h *tar.Header, why string) error {
	name := h.Name
	if len(name) > 120 {
		name = name[:120] + "..."
	}
	return core.E("image.unpack", core.Invalid, nil, "entry %q of a layer is refused: it %s", name, why)
}

// cleanName makes an entry's name relative to the layer's root.
func cleanName(name string) (string, bool) {
	if len(name) > maxPath || strings.ContainsRune(name, 0) {
		return "", false
	}
	for part := range strings.SplitSeq(name, "/") {
		if part == ".." || len(part) > 255 {
			return "", false
		}
	}
	clean := path.Clean("/" + name)[1:]
	if clean == "" {
		clean = "."
	}
	return clean, strings.Count(clean, "/") < maxDepth
}

func (u *unpacker) entry(h *tar.Header, content io.Reader) error {
	switch h.Typeflag {
	case tar.TypeXGlobalHeader:
		return nil
	case tar.TypeReg, 0, tar.TypeCont, tar.TypeGNUSparse, tar.TypeDir, tar.TypeSymlink, tar.TypeLink, tar.TypeFifo, tar.TypeChar, tar.TypeBlock:
	default:
		return refuse(h, fmt.Sprintf("has the unknown type %q", h.Typeflag))
	}
	name, ok := cleanName(h.Name)
	if !ok {
		return refuse(h, "has a name that leads out of the layer, or is too long")
	}
	if name == "." {
		return nil // the root belongs to the machine
	}
	if h.Uid < 0 || h.Gid < 0 || int64(h.Uid) > 1<<32-2 || int64(h.Gid) > 1<<32-2 || h.Size < 0 {
		return refuse(h, "has an owner or size out of range")
	}
	parent, base := path.Split(name)
	parent, err := u.resolve(h, path.Clean("./"+parent))
	if err != nil {
		return err
	}
	if strings.HasPrefix(base, whiteoutPrefix) {
		return u.whiteout(h, parent, base)
	}
	return u.create(h, path.Join(parent, base), name, content)
}

// create makes one file. A later entry of one name replaces an earlier one,
// except that directories are kept.
func (u *unpacker) create(h *tar.Header, at, named string, content io.Reader) error {
	isDir := h.Typeflag == tar.TypeDir
	wasWhiteout := false
	if info, err := u.root.Lstat(at); err == nil {
		if isDir && info.IsDir() {
			delete(u.implicit, at) // named now
			return u.finishDir(h, at)
		}
		wasWhiteout = isWhiteout(info)
		if err := u.root.RemoveAll(at); err != nil {
			return u.failed(h, err)
		}
		if info.IsDir() || info.Mode()&fs.ModeSymlink != 0 {
			// Honest layers do this rarely; a hostile one must not keep us busy.
			if u.replaced++; u.replaced > maxReplaced {
				return refuse(h, "replaces one directory or link too many")
			}
			u.dropCache(at)
		}
	}
	switch h.Typeflag {
	case tar.TypeDir:
		if err := u.root.Mkdir(at, 0o700); err != nil {
			return u.failed(h, err)
		}
		if wasWhiteout { // removed below and made anew: nothing shows through
			if err := u.setOpaque(at); err != nil {
				return u.failed(h, err)
			}
		}
		u.dirs[named] = at
		return u.finishDir(h, at)
	case tar.TypeSymlink:
		if len(h.Linkname) > maxPath-1 || h.Linkname == "" || strings.ContainsRune(h.Linkname, 0) {
			return refuse(h, "is a symbolic link to nothing or to too long a name")
		}
		if err := u.root.Symlink(h.Linkname, at); err != nil {
			return u.failed(h, err)
		}
		if err := u.root.Lchown(at, h.Uid, h.Gid); err != nil {
			return u.failed(h, err)
		}
		u.setTime(at, h.ModTime)
		return nil
	case tar.TypeLink:
		return u.hardLink(h, at)
	case tar.TypeFifo:
		return u.fifo(h, at)
	case tar.TypeChar, tar.TypeBlock:
		// The sandbox has its own /dev; elsewhere a device is an attack.
		if strings.HasPrefix(at, "dev/") || u.limits.LeaveDevices {
			return nil
		}
		return refuse(h, "is a device")
	}
	return u.file(h, at, content)
}

func (u *unpacker) failed(h *tar.Header, err error) error {
	kind := core.Internal
	if errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) {
		kind = core.Exhausted
	}
	return core.E("image.unpack", kind, err, "cannot write entry %q of a layer", h.Name)
}

func (u *unpacker) file(h *tar.Header, at string, content io.Reader) error {
	if h.Size > maxFileSize {
		return core.E("image.unpack", core.Exhausted, nil, "entry %q of a layer claims %d bytes", h.Name, h.Size)
	}
	f, err := u.root.OpenFile(at, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return u.failed(h, err)
	}
	defer func() { _ = f.Close() }()
	if err := u.copySparse(f, content, h); err != nil {
		return err
	}
	return u.finishFile(h, f)
}

// copySparse writes content and leaves holes where it is zero.
func (u *unpacker) copySparse(f *os.File, content io.Reader, h *tar.Header) error {
	buf := make([]byte, min(64<<10, max(512, int(min(h.Size, 64<<10)))))
	zero := make([]byte, len(buf))
	var at int64
	for at < h.Size {
		n, err := io.ReadFull(content, buf[:min(int64(len(buf)), h.Size-at)])
		if n > 0 && !bytes.Equal(buf[:n], zero[:n]) {
			if u.left -= int64(n); u.left < 0 {
				return core.E("image.unpack", core.Exhausted, nil, "a layer unpacks to more than %d bytes", u.limits.LayerBytes)
			}
			if _, err := f.WriteAt(buf[:n], at); err != nil {
				return u.failed(h, err)
			}
		}
		at += int64(n)
		if err != nil {
			return streamError(err)
		}
	}
	if err := f.Truncate(h.Size); err != nil {
		return u.failed(h, err)
	}
	return nil
}

// finishFile sets owner, mode, attributes and time, in the order in which none
// undoes another.
func (u *unpacker) finishFile(h *tar.Header, f *os.File) error {
	fd := int(f.Fd())
	if err := unix.Fchown(fd, h.Uid, h.Gid); err != nil {
		return u.failed(h, err)
	}
	if err := unix.Fchmod(fd, uint32(h.Mode&0o7777)); err != nil {
		return u.failed(h, err)
	}
	for key, value := range h.PAXRecords {
		attr, ok := strings.CutPrefix(key, "SCHILY.xattr.")
		if !ok || !KeepAttr(attr) {
			continue
		}
		if err := unix.Fsetxattr(fd, attr, []byte(value), 0); err != nil && !errors.Is(err, unix.ENOTSUP) {
			return u.failed(h, err)
		}
	}
	if h.Typeflag == tar.TypeDir {
		return nil
	}
	// To the nanosecond: a memory image is restored only on the very files.
	ts := timespec(h.ModTime)
	_ = unix.UtimesNanoAt(unix.AT_FDCWD, "/proc/self/fd/"+strconv.Itoa(fd), []unix.Timespec{ts, ts}, 0)
	return nil
}

// KeepAttr says which extended attributes an image may set. Those of overlayfs
// would redirect into other layers.
func KeepAttr(attr string) bool {
	return attr == "security.capability" || attr == "system.posix_acl_access" || attr == "system.posix_acl_default" ||
		strings.HasPrefix(attr, "user.") && !strings.HasPrefix(attr, "user.overlay.")
}

func (u *unpacker) finishDir(h *tar.Header, at string) error {
	f, err := u.root.Open(at)
	if err != nil {
		return u.failed(h, err)
	}
	defer func() { _ = f.Close() }()
	u.times[at] = h.ModTime
	return u.finishFile(h, f)
}

func (u *unpacker) fifo(h *tar.Header, at string) error {
	parent, err := u.root.Open(path.Dir(at))
	if err != nil {
		return u.failed(h, err)
	}
	defer func() { _ = parent.Close() }()
	if err := unix.Mknodat(int(parent.Fd()), path.Base(at), unix.S_IFIFO|uint32(h.Mode&0o777), 0); err != nil {
		return u.failed(h, err)
	}
	if err := u.root.Lchown(at, h.Uid, h.Gid); err != nil {
		return u.failed(h, err)
	}
	u.setTime(at, h.ModTime)
	return nil
}

// timespec bounds a time to what every file system takes.
func timespec(t time.Time) unix.Timespec {
	s := t.Unix()
	if s < 0 || s > 1<<32-1 {
		return unix.Timespec{}
	}
	return unix.Timespec{Sec: s, Nsec: int64(t.Nanosecond())}
}

// setTime sets the time of a file or directory without following a link. Its
// loss harms nobody.
func (u *unpacker) setTime(at string, when time.Time) {
	dir, err := u.root.Open(path.Dir(at))
	if err != nil {
		return
	}
	defer func() { _ = dir.Close() }()
	ts := timespec(when)
	_ = unix.UtimesNanoAt(int(dir.Fd()), path.Base(at), []unix.Timespec{ts, ts}, unix.AT_SYMLINK_NOFOLLOW)
}
