package capacity

import (
	"bufio"
	"bytes"
	"io"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"drydock/internal/core"
)

// Host is what this machine has, as far as the daemon may use it.
type Host struct {
	Memory Amount
	Disk   Amount // of the file system of the state directory
	// Stored is what snapshots may take, and how much of it they do not. Free is
	// negative when they take more; a zero Total is no bound.
	Stored     Amount
	Processors int
	// Threads are what the kernel runs at most on the whole host, and how many of
	// them there are not yet. A sandbox is some ninety of them.
	Threads Amount
	// Own is a limit on the memory of the daemon's own control group, zero if
	// there is none. Sandboxes have groups of their own; their use counts too.
	Own Amount
}

// Amount is a total and how much of it nobody uses, in bytes where it is no
// count. A zero Total is not known.
type Amount struct{ Total, Free int64 }

// HostOf measures this machine. state is a directory on the disk that fills up.
func HostOf(state string) func() (Host, error) {
	return func() (Host, error) {
		h := Host{Processors: runtime.GOMAXPROCS(0)}
		info, err := readSome("/proc/meminfo")
		if err != nil {
			return h, core.E("capacity.host", core.Unavailable, err, "the memory of the host")
		}
		if h.Memory, err = parseMeminfo(info); err != nil {
			return h, err
		}
		own, _ := readSome("/proc/self/cgroup")
		whole, mine := groups("/sys/fs/cgroup", own)
		if whole.Total > 0 && whole.Total < h.Memory.Total { // a container: its limit holds for sandboxes too
			h.Memory = Amount{whole.Total, min(whole.Free, h.Memory.Free)}
		}
		if mine.Total < h.Memory.Total {
			h.Own = mine
		}
		var fs unix.Statfs_t
		if err := unix.Statfs(state, &fs); err != nil {
			return h, core.E("capacity.host", core.Unavailable, err, "the disk of the state directory %s", state)
		}
		size := fs.Frsize
		if size == 0 {
			size = fs.Bsize
		}
		h.Disk = Amount{bytesOf(fs.Blocks, size), bytesOf(fs.Bavail, size)}
		h.Threads = threads("/proc")
		return h, nil
	}
}

// threads reads how many the kernel allows, by its numbers for them and by
// itself, and how many there are. What cannot be read is not known.
func threads(proc string) Amount {
	most, known := readNumber(filepath.Join(proc, "sys/kernel/pid_max"))
	if n, ok := readNumber(filepath.Join(proc, "sys/kernel/threads-max")); ok && (!known || n < most) {
		most, known = n, true
	}
	load, err := readSome(filepath.Join(proc, "loadavg"))
	fields := strings.Fields(string(load))
	if !known || err != nil || len(fields) < 4 {
		return Amount{}
	}
	_, all, _ := strings.Cut(fields[3], "/") // running/existing
	n, err := strconv.ParseInt(all, 10, 64)
	if err != nil || n < 0 {
		return Amount{}
	}
	return Amount{most, max(most-n, 0)}
}

func bytesOf(blocks uint64, size int64) int64 {
	if size <= 0 || blocks > uint64(math.MaxInt64/size) {
		return math.MaxInt64
	}
	return int64(blocks) * size
}

// readSome reads a file of the kernel, which is small.
func readSome(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, 64<<10))
}

// parseMeminfo reads the total and what is available. Kernels before 3.14 do
// not say the latter; then free and cached memory stand for it.
func parseMeminfo(data []byte) (Amount, error) {
	found := map[string]int64{}
	lines := bufio.NewScanner(bytes.NewReader(data))
	for lines.Scan() {
		name, value, ok := strings.Cut(lines.Text(), ":")
		n, err := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(value), "kB")), 10, 64)
		if ok && err == nil && n >= 0 && n < math.MaxInt64/1024 {
			found[name] = n * 1024
		}
	}
	free, ok := found["MemAvailable"]
	if !ok {
		free = found["MemFree"] + found["Buffers"] + found["Cached"]
	}
	if found["MemTotal"] <= 0 {
		return Amount{}, core.E("capacity.host", core.Unavailable, nil, "/proc/meminfo has no MemTotal")
	}
	return Amount{found["MemTotal"], min(free, found["MemTotal"])}, nil
}

// groups reads limits of control groups: that of everything this process can
// see (in a container, the container's), and the tightest of those that the
// process itself is in, below it. self is the text of /proc/self/cgroup.
func groups(mount string, self []byte) (whole, mine Amount) {
	root, path := mount, ""
	for line := range strings.Lines(string(self)) {
		_, rest, _ := strings.Cut(strings.TrimSpace(line), ":")
		controllers, where, _ := strings.Cut(rest, ":")
		switch {
		case controllers == "memory": // version 1, which wins where both are mounted
			root, path = filepath.Join(mount, "memory"), where
		case controllers == "" && root == mount:
			path = where
		}
	}
	whole = groupAt(root)
	for path = filepath.Clean("/" + path); path != "/"; path = filepath.Dir(path) {
		if a := groupAt(filepath.Join(root, path)); a.Total > 0 && (mine.Total == 0 || a.Free < mine.Free) {
			mine = a
		}
	}
	return whole, mine
}

// groupAt reads one group; cache that can be dropped does not count as used.
func groupAt(dir string) Amount {
	for _, names := range [][3]string{
		{"memory.max", "memory.current", "inactive_file"},
		{"memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"},
	} {
		limit, ok := readNumber(filepath.Join(dir, names[0]))
		if !ok || limit >= 1<<60 { // "max", or what version 1 writes for it
			continue
		}
		used, _ := readNumber(filepath.Join(dir, names[1]))
		used -= readField(filepath.Join(dir, "memory.stat"), names[2])
		return Amount{limit, max(limit-max(used, 0), 0)}
	}
	return Amount{}
}

func readNumber(path string) (int64, bool) {
	data, err := readSome(path)
	if err != nil {
		return 0, false
	}
	n, err := strconv.ParseInt(strings.TrimSpace(string(data)), 10, 64)
	return n, err == nil && n > 0
}

func readField(path, name string) int64 {
	data, err := readSome(path)
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(data)) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		if n, err := strconv.ParseInt(value, 10, 64); key == name && err == nil {
			return n
		}
	}
	return 0
}
