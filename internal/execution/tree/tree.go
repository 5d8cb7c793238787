// Package tree measures and removes directories that belong to a sandbox.
//
// What is in them is hostile, and may be changing while it is read: a tree is
// walked by descriptors, symbolic links are never followed, and neither a very
// deep nor a very wide tree exhausts the daemon. It does not read contents.
//
// Functions are safe for concurrent use.
//
//	use, err := tree.Measure(upper)
//	err = tree.Remove(dir)
package tree

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// MaxDepth is the deepest directory that is measured. Deeper ones are made
// only to hide something.
const MaxDepth = 400

// entryCost is charged for every file, so that a sea of empty ones counts.
const entryCost = 512

// ErrTooDeep is returned for a tree with deeper directories.
var ErrTooDeep = fmt.Errorf("directories are nested deeper than %d", MaxDepth)

// Use is what a tree takes.
type Use struct {
	Bytes int64 // on the disk, a little more for every file
	Files int   // entries of every kind
}

// Measure adds up a tree. What vanishes meanwhile is not counted.
func Measure(dir string) (Use, error) {
	use, _, err := measure(dir, false)
	return use, err
}

// Fingerprint is Measure with a sum over the name, kind, rights, owner, size
// and time of everything in the tree (no times of directories). It tells a tree
// that was changed by ordinary means from one that was not, without reading any
// content.
func Fingerprint(dir string) (Use, string, error) {
	use, sum, err := measure(dir, true)
	return use, "tree:" + hex.EncodeToString(sum), err
}

func measure(dir string, print bool) (Use, []byte, error) {
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return Use{}, nil, &fs.PathError{Op: "open", Path: dir, Err: err}
	}
	m := measurer{links: map[uint64]bool{}, print: print}
	err = m.walk(os.NewFile(uintptr(fd), dir), "", 0)
	return m.use, binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, m.sum[0]), m.sum[1]), err
}

type measurer struct {
	use   Use
	links map[uint64]bool // inodes with several names, counted once

	print bool
	sum   [2]uint64 // of a hash for each entry, so that their order does not matter
	buf   []byte
}

func (m *measurer) add(path string, st *unix.Stat_t) {
	size, sec, nsec := st.Size, st.Mtim.Sec, st.Mtim.Nsec
	if st.Mode&unix.S_IFMT == unix.S_IFDIR {
		size, sec, nsec = 0, 0, 0
	}
	m.buf = append(m.buf[:0], path...)
	m.buf = append(m.buf, 0)
	for _, v := range []uint64{uint64(st.Mode), uint64(st.Uid), uint64(st.Gid), uint64(size), uint64(sec), uint64(nsec), st.Rdev} {
		m.buf = binary.BigEndian.AppendUint64(m.buf, v)
	}
	h := sha256.Sum256(m.buf)
	m.sum[0] += binary.BigEndian.Uint64(h[:8])
	m.sum[1] += binary.BigEndian.Uint64(h[8:16])
}

// walk closes dir, whose path below the top is path.
func (m *measurer) walk(dir *os.File, path string, depth int) error {
	defer dir.Close()
	if depth > MaxDepth {
		return ErrTooDeep
	}
	for {
		names, err := dir.Readdirnames(1024)
		for _, name := range names {
			if err := m.entry(dir, path, name, depth); err != nil {
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

func (m *measurer) entry(dir *os.File, path, name string, depth int) error {
	var st unix.Stat_t
	if err := unix.Fstatat(int(dir.Fd()), name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return nil //nolint:nilerr // gone again
	}
	isDir := st.Mode&unix.S_IFMT == unix.S_IFDIR
	if m.print {
		path += "/" + name
		m.add(path, &st)
	}
	if st.Nlink > 1 && !isDir {
		if m.links[st.Ino] {
			return nil
		}
		m.links[st.Ino] = true
	}
	m.use.Files++
	m.use.Bytes += entryCost + st.Blocks*512
	if !isDir {
		return nil
	}
	fd, err := unix.Openat(int(dir.Fd()), name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil //nolint:nilerr // gone, or replaced by something else
	}
	return m.walk(os.NewFile(uintptr(fd), name), path, depth+1)
}

// Remove deletes a tree that nobody uses any more, however deep it is: a part
// that is too deep is moved up and deleted from there. None is fine.
func Remove(dir string) error {
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
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
