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

	"drydock/internal/core"
	"drydock/internal/execution/tree"
)

// options that sandboxes' own mounts have: what is compared is what they see.
var overlayOptions = [...][2]string{{"redirect_dir", "on"}, {"metacopy", "off"}, {"index", "off"}}

// readOnly mounts layers, topmost first, without a place in any tree: the mount
// is gone when the descriptor is closed, also by a death.
func readOnly(layers []string) (*os.File, error) {
	const op = "snapshot.mount"
	fsfd, err := unix.Fsopen("overlay", unix.FSOPEN_CLOEXEC)
	if err != nil {
		return nil, core.E(op, core.Unavailable, err, "overlay file system")
	}
	defer func() { _ = unix.Close(fsfd) }()
	for _, layer := range layers {
		dir, err := os.OpenFile(layer, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err != nil {
			return nil, core.E(op, core.Unavailable, err, "layer")
		}
		// A descriptor is short, and nothing in it needs an escape.
		err = unix.FsconfigSetString(fsfd, "lowerdir+", fmt.Sprintf("/proc/self/fd/%d", dir.Fd()))
		if err = errors.Join(err, dir.Close()); err != nil {
			return nil, core.E(op, core.Unavailable, err, "layer %s (this needs Linux 6.5)", layer)
		}
	}
	for _, o := range overlayOptions {
		if err := unix.FsconfigSetString(fsfd, o[0], o[1]); err != nil {
			return nil, core.E(op, core.Unavailable, err, "overlay option %s", o[0])
		}
	}
	if err := unix.FsconfigCreate(fsfd); err != nil {
		return nil, core.E(op, core.Unavailable, err, "overlay of %d layers", len(layers))
	}
	fd, err := unix.Fsmount(fsfd, unix.FSMOUNT_CLOEXEC, unix.MOUNT_ATTR_RDONLY|unix.MOUNT_ATTR_NODEV|unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NOATIME)
	if err != nil {
		return nil, core.E(op, core.Unavailable, err, "overlay of %d layers", len(layers))
	}
	return os.NewFile(uintptr(fd), "overlay"), nil
}

// same compares what is seen through the layers of a chain with what is seen
// when the first count of them are replaced by merged: every entry of every
// directory that one of them has. Files must be the very same ones.
func same(ctx context.Context, layers []string, count int, merged string) error {
	before, err := readOnly(layers)
	if err != nil {
		return err
	}
	defer before.Close()
	after, err := readOnly(append([]string{merged}, layers[count:]...))
	if err != nil {
		return err
	}
	defer after.Close()
	own, err := openDir(unix.AT_FDCWD, merged, 0)
	if err != nil {
		return err
	}
	defer own.Close()
	return (&comparison{ctx, before, after, own}).dir("", 0)
}

type comparison struct {
	ctx                context.Context //nolint:containedctx // lives as long as one comparison
	before, after, own *os.File
}

func (c *comparison) dir(path string, depth int) error {
	if depth > tree.MaxDepth {
		return tree.ErrTooDeep
	}
	if err := c.ctx.Err(); err != nil {
		return err
	}
	names, err := c.entries(path)
	if err != nil {
		return fmt.Errorf("%s: %w", filepath.Join("/", path), err)
	}
	for _, name := range names { // with nothing open: as deep as it may be
		if err := c.dir(join(path, name), depth+1); err != nil {
			return err
		}
	}
	return nil
}

// entries compares one directory and returns those below it that the merged
// layer has.
func (c *comparison) entries(path string) (dirs []string, err error) {
	a, err := openDir(int(c.before.Fd()), path, inside)
	if err != nil {
		return nil, err
	}
	defer a.Close()
	b, err := openDir(int(c.after.Fd()), path, inside)
	if err != nil {
		return nil, err
	}
	defer b.Close()
	own, err := openDir(int(c.own.Fd()), path, inside)
	if err != nil {
		return nil, err
	}
	defer own.Close()
	if err := sameAttributes(a, b); err != nil {
		return nil, err
	}
	var lists [2][]string
	for i, f := range []*os.File{a, b} {
		if lists[i], err = f.Readdirnames(-1); err != nil {
			return nil, err
		}
		// The kernel may list a whiteout of a directory that hides nothing any
		// more; nobody can open it, and a merged layer has it no more.
		lists[i] = slices.DeleteFunc(lists[i], func(name string) bool {
			var st unix.Stat_t
			return errors.Is(unix.Fstatat(int(f.Fd()), name, &st, unix.AT_SYMLINK_NOFOLLOW), unix.ENOENT)
		})
		slices.Sort(lists[i])
	}
	if !slices.Equal(lists[0], lists[1]) {
		return nil, fmt.Errorf("it has other entries: %s", difference(lists[0], lists[1]))
	}
	for _, name := range lists[0] {
		var was, is, here unix.Stat_t
		if err := errors.Join(unix.Fstatat(int(a.Fd()), name, &was, unix.AT_SYMLINK_NOFOLLOW), unix.Fstatat(int(b.Fd()), name, &is, unix.AT_SYMLINK_NOFOLLOW)); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		if err := sameStat(was, is); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		if is.Mode&unix.S_IFMT != unix.S_IFDIR {
			continue
		}
		err := unix.Fstatat(int(own.Fd()), name, &here, unix.AT_SYMLINK_NOFOLLOW)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		if here.Mode&unix.S_IFMT == unix.S_IFDIR {
			dirs = append(dirs, name)
		}
	}
	return dirs, nil
}

func difference(a, b []string) string {
	for _, n := range a {
		if _, ok := slices.BinarySearch(b, n); !ok {
			return fmt.Sprintf("%q is missing", n)
		}
	}
	for _, n := range b {
		if _, ok := slices.BinarySearch(a, n); !ok {
			return fmt.Sprintf("%q is new", n)
		}
	}
	return "twice the same"
}

func sameStat(a, b unix.Stat_t) error {
	if a.Mode != b.Mode || a.Uid != b.Uid || a.Gid != b.Gid || a.Rdev != b.Rdev || a.Mtim != b.Mtim {
		return fmt.Errorf("it was mode %o of %d:%d at %v and is mode %o of %d:%d at %v", a.Mode, a.Uid, a.Gid, a.Mtim, b.Mode, b.Uid, b.Gid, b.Mtim)
	}
	if a.Mode&unix.S_IFMT == unix.S_IFDIR {
		return nil
	}
	if a.Size != b.Size || a.Ino != b.Ino {
		return fmt.Errorf("it is another file: inode %d with %d bytes, not %d with %d", b.Ino, b.Size, a.Ino, a.Size)
	}
	return nil
}

// sameAttributes compares those of directories; files are the very same.
func sameAttributes(a, b *os.File) error {
	was, err := listXattrs(a)
	if err != nil {
		return err
	}
	is, err := listXattrs(b)
	if err != nil {
		return err
	}
	// Where a directory was made is not a matter of what it is.
	ours := func(name string) bool { return name == sealName }
	was, is = slices.DeleteFunc(was, ours), slices.DeleteFunc(is, ours)
	if !slices.Equal(was, is) {
		return fmt.Errorf("it had the attributes %s and has %s", strings.Join(was, ", "), strings.Join(is, ", "))
	}
	for _, name := range was {
		x, errX := getXattr(a, name)
		y, errY := getXattr(b, name)
		if err := errors.Join(errX, errY); err != nil {
			return fmt.Errorf("attribute %s: %w", name, err)
		}
		if !bytes.Equal(x, y) {
			return fmt.Errorf("it has another attribute %s", name)
		}
	}
	return nil
}
