package supervisor

import (
	"bufio"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// Bounds of one look at who holds a file.
const (
	maxHeldFiles = 200_000
	maxMaps      = 16 << 20
)

type fileID struct{ dev, ino uint64 }

// lookAround looks for processes that hold one of the files already: what they
// read through a mapping raises no event. It looks at those that ours accepts,
// and one that cannot be looked at is a doubt as well.
func (w *openWatch) lookAround(ours func(pid int) bool) {
	ids := map[fileID]int{}
	for i, f := range w.files {
		ids[fileID{f.before.dev, f.before.ino}] = i
		if f.before.mode&syscall.S_IFMT != syscall.S_IFLNK {
			continue
		}
		var st syscall.Stat_t
		if syscall.Stat(f.real, &st) == nil {
			ids[fileID{uint64(st.Dev), st.Ino}] = i
		}
	}
	procs, err := os.ReadDir("/proc")
	if err != nil {
		w.doubt("processes cannot be listed: %v", err)
		return
	}
	left := maxHeldFiles
	for _, e := range procs {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || !ours(pid) {
			continue
		}
		dir := filepath.Join("/proc", e.Name())
		for _, look := range []func(string, map[fileID]int, *int) (int, error){descriptors, mappings} {
			i, err := look(dir, ids, &left)
			switch {
			case i >= 0:
				w.doubt("%s was open in process %s before", w.files[i].given, e.Name())
			case err == nil, errors.Is(err, fs.ErrNotExist), errors.Is(err, unix.ESRCH): // it has ended
			default:
				w.doubt("what process %s has open cannot be seen: %v", e.Name(), err)
			}
		}
	}
}

// ours tells which processes could hold a file of the sandbox: all, or outside
// of a sandbox those in a session that was started here.
func (s *Supervisor) ours() func(pid int) bool {
	if s.opts.Init {
		return func(int) bool { return true }
	}
	sessions := map[int]bool{}
	for _, p := range s.reg.list() {
		sessions[p.snapshot().Pid] = true
	}
	return func(pid int) bool { return pid == os.Getpid() || sessions[sessionOf(pid)] }
}

var errTooMany = errors.New("too many open files and mappings")

// descriptors returns the place of a file that a process has open, or -1.
func descriptors(dir string, ids map[fileID]int, left *int) (int, error) {
	d, err := os.Open(filepath.Join(dir, "fd"))
	if err != nil {
		return -1, err
	}
	defer d.Close()
	names, err := d.Readdirnames(*left + 1)
	if err != nil && !errors.Is(err, io.EOF) {
		return -1, err
	}
	if *left -= len(names); *left < 0 {
		return -1, errTooMany
	}
	for _, name := range names {
		var st syscall.Stat_t
		err := syscall.Stat(filepath.Join(dir, "fd", name), &st)
		switch {
		case err == nil:
			if i, ok := ids[fileID{uint64(st.Dev), st.Ino}]; ok {
				return i, nil
			}
		case !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, unix.ESRCH):
			return -1, err
		}
	}
	return -1, nil
}

// mappings returns the place of a file that a process has mapped, or -1.
func mappings(dir string, ids map[fileID]int, left *int) (int, error) {
	f, err := os.Open(filepath.Join(dir, "maps"))
	if err != nil {
		return -1, err
	}
	defer f.Close()
	limited := &io.LimitedReader{R: f, N: maxMaps}
	lines := bufio.NewScanner(limited)
	lines.Buffer(nil, 64<<10)
	for lines.Scan() {
		if *left--; *left < 0 {
			return -1, errTooMany
		}
		if id, ok := mapped(lines.Text()); ok {
			if i, ok := ids[id]; ok {
				return i, nil
			}
		}
	}
	if err := lines.Err(); err != nil {
		return -1, err
	}
	if limited.N <= 0 {
		return -1, errTooMany
	}
	return -1, nil
}

// mapped reads a line of /proc/PID/maps: range, rights, offset, major:minor,
// inode, name.
func mapped(line string) (fileID, bool) {
	fields := strings.Fields(line)
	if len(fields) < 5 {
		return fileID{}, false
	}
	major, minor, ok := strings.Cut(fields[3], ":")
	a, err1 := strconv.ParseUint(major, 16, 32)
	b, err2 := strconv.ParseUint(minor, 16, 32)
	ino, err3 := strconv.ParseUint(fields[4], 10, 64)
	if !ok || err1 != nil || err2 != nil || err3 != nil || ino == 0 {
		return fileID{}, false
	}
	return fileID{unix.Mkdev(uint32(a), uint32(b)), ino}, true
}
