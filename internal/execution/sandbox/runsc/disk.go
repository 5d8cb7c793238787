package runsc

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// The tree below an upper directory belongs to the sandbox, which may be
// changing it right now and with ill intent: it is walked by descriptors,
// symbolic links are never followed, and its depth is bounded.

// maxDepth is the deepest directory that is measured. Deeper ones are made
// only to hide something.
const maxDepth = 400

// entryCost is charged for every file, so that a sea of empty ones counts.
const entryCost = 512

var errTooDeep = fmt.Errorf("directories are nested deeper than %d", maxDepth)

// measure adds up the disk space of a tree.
func measure(dir string) (int64, error) {
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return 0, &fs.PathError{Op: "open", Path: dir, Err: err}
	}
	m := measurer{links: map[uint64]bool{}}
	err = m.walk(os.NewFile(uintptr(fd), dir), 0)
	return m.total, err
}

type measurer struct {
	total int64
	links map[uint64]bool // inodes with several names, counted once
}

// walk closes dir.
func (m *measurer) walk(dir *os.File, depth int) error {
	defer dir.Close()
	if depth > maxDepth {
		return errTooDeep
	}
	for {
		names, err := dir.Readdirnames(1024)
		for _, name := range names {
			if err := m.entry(dir, name, depth); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) || len(names) == 0 {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func (m *measurer) entry(dir *os.File, name string, depth int) error {
	var st unix.Stat_t
	if err := unix.Fstatat(int(dir.Fd()), name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return nil //nolint:nilerr // gone again
	}
	isDir := st.Mode&unix.S_IFMT == unix.S_IFDIR
	if st.Nlink > 1 && !isDir {
		if m.links[st.Ino] {
			return nil
		}
		m.links[st.Ino] = true
	}
	m.total += entryCost + st.Blocks*512
	if !isDir {
		return nil
	}
	fd, err := unix.Openat(int(dir.Fd()), name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil //nolint:nilerr // gone, or replaced by something else
	}
	return m.walk(os.NewFile(uintptr(fd), name), depth+1)
}

// measureDeleted adds up files that have no name any more but are still open
// in a process.
func measureDeleted(pids []int) int64 {
	var total int64
	seen := map[[2]uint64]bool{}
	for _, pid := range pids {
		dir := filepath.Join("/proc", strconv.Itoa(pid), "fd")
		f, err := os.Open(dir)
		if err != nil {
			continue
		}
		names, _ := f.Readdirnames(-1)
		f.Close()
		for _, name := range names {
			path := filepath.Join(dir, name)
			target, err := os.Readlink(path)
			if err != nil || !strings.HasPrefix(target, "/") || strings.HasPrefix(target, "/memfd:") || !strings.HasSuffix(target, " (deleted)") {
				continue
			}
			var st unix.Stat_t
			if unix.Stat(path, &st) != nil || st.Mode&unix.S_IFMT != unix.S_IFREG || st.Nlink > 0 {
				continue
			}
			if key := [2]uint64{st.Dev, st.Ino}; !seen[key] {
				seen[key] = true
				total += st.Blocks * 512
			}
		}
	}
	return total
}

// removeTree deletes a dead sandbox's directory, however deep a tree it made:
// a part that is too deep is moved up and deleted from there.
func removeTree(dir string) error {
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return os.RemoveAll(dir)
	}
	top := os.NewFile(uintptr(fd), dir)
	defer top.Close()
	r := remover{top: top}
	if err := r.empty(top, 0); err != nil {
		return &fs.PathError{Op: "remove", Path: dir, Err: err}
	}
	return os.Remove(dir)
}

type remover struct {
	top   *os.File
	moved int
}

const removeDepth = 100

// empty reads the directory again and again until nothing is left, and so
// also finds what was moved to the top meanwhile.
func (r *remover) empty(dir *os.File, depth int) error {
	for {
		if _, err := dir.Seek(0, io.SeekStart); err != nil {
			return err
		}
		names, err := dir.Readdirnames(1024)
		if len(names) == 0 {
			if err == nil || errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
		for _, name := range names {
			if err := r.remove(dir, name, depth); err != nil {
				return err
			}
		}
	}
}

func (r *remover) remove(dir *os.File, name string, depth int) error {
	err := unix.Unlinkat(int(dir.Fd()), name, 0)
	if err == nil || errors.Is(err, unix.ENOENT) {
		return nil
	}
	if !errors.Is(err, unix.EISDIR) && !errors.Is(err, unix.EPERM) {
		return err
	}
	if depth >= removeDepth {
		r.moved++
		return unix.Renameat(int(dir.Fd()), name, int(r.top.Fd()), ".moved-"+strconv.Itoa(r.moved))
	}
	fd, err := unix.Openat(int(dir.Fd()), name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	sub := os.NewFile(uintptr(fd), name)
	err = r.empty(sub, depth+1)
	sub.Close()
	if err != nil {
		return err
	}
	return unix.Unlinkat(int(dir.Fd()), name, unix.AT_REMOVEDIR)
}
