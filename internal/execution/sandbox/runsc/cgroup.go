package runsc

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"drydock/internal/core"
)

// cgroups is the control group tree of one driver, under /drydock-INSTANCE.
// runsc makes the groups (named by the bundle) and sets the limits; this reads
// them, kills by them and removes them, which runsc does not do for a sandbox
// that died. Version 1 has one hierarchy per controller, version 2 one in all.
type cgroups struct {
	mount  string // normally /sys/fs/cgroup
	parent string // "/drydock-main"
	v2     bool
}

const cgroupMount = "/sys/fs/cgroup"

func newCgroups(mount, parent string) cgroups {
	var st unix.Statfs_t
	v2 := unix.Statfs(mount, &st) == nil && st.Type == unix.CGROUP2_SUPER_MAGIC
	return cgroups{mount: mount, parent: parent, v2: v2}
}

// path is what the bundle names.
func (c cgroups) path(id core.SandboxID) string { return c.parent + "/" + string(id) }

// hierarchies are the directories that may hold the tree.
func (c cgroups) hierarchies() []string {
	if c.v2 {
		return []string{c.mount}
	}
	entries, err := os.ReadDir(c.mount)
	if err != nil {
		return nil
	}
	var out []string
	for _, e := range entries {
		if e.IsDir() { // "cpu,cpuacct" and its links are one directory
			out = append(out, filepath.Join(c.mount, e.Name()))
		}
	}
	return out
}

// dir is the directory of a sandbox's group for a controller of version 1.
func (c cgroups) dir(controller string, id core.SandboxID) string {
	if c.v2 {
		return filepath.Join(c.mount, c.path(id))
	}
	return filepath.Join(c.mount, controller, c.path(id))
}

// list names every sandbox that has a group.
func (c cgroups) list() []core.SandboxID {
	var out []core.SandboxID
	for _, h := range c.hierarchies() {
		entries, err := os.ReadDir(filepath.Join(h, c.parent))
		if err != nil {
			continue
		}
		for _, e := range entries {
			if id, err := core.ParseID[core.SandboxID](idPrefix, e.Name()); err == nil {
				out = append(out, id)
			}
		}
	}
	return out
}

// kill ends every process in the group and waits until it is empty.
func (c cgroups) kill(ctx context.Context, id core.SandboxID) error {
	for {
		c.wake(id) // in version 1 what rests does not even end
		pids := c.pids(id)
		if len(pids) == 0 {
			return nil
		}
		if !c.v2 || os.WriteFile(filepath.Join(c.dir("", id), "cgroup.kill"), []byte("1"), 0) != nil {
			for _, pid := range pids {
				_ = unix.Kill(pid, unix.SIGKILL)
			}
		}
		if !pause(ctx) {
			return core.E("runsc.kill", core.Unavailable, ctx.Err(), "%d processes of sandbox %s do not end", len(pids), id)
		}
	}
}

// pids lists the processes of a group. In version 1 each hierarchy may hold
// others, if runsc died while it moved them.
func (c cgroups) pids(id core.SandboxID) []int {
	seen := map[int]bool{}
	var out []int
	for _, h := range c.hierarchies() {
		data, err := os.ReadFile(filepath.Join(h, c.path(id), "cgroup.procs"))
		if err != nil {
			continue
		}
		for word := range bytes.FieldsSeq(data) {
			if pid, err := strconv.Atoi(string(word)); err == nil && pid > 0 && !seen[pid] {
				seen[pid] = true
				out = append(out, pid)
			}
		}
	}
	return out
}

// remove takes the group of one sandbox away. It must be empty.
func (c cgroups) remove(ctx context.Context, id core.SandboxID) error {
	var errs []error
	for _, h := range c.hierarchies() {
		dir := filepath.Join(h, c.path(id))
		for try := 0; ; try++ {
			err := unix.Rmdir(dir)
			if err == nil || errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) {
				break
			}
			// Busy: the last process is still being taken apart.
			if !errors.Is(err, unix.EBUSY) || try == 100 || !pause(ctx) {
				errs = append(errs, &fs.PathError{Op: "rmdir", Path: dir, Err: err})
				break
			}
		}
	}
	return errors.Join(errs...)
}

// removeParent takes the driver's own group away if nothing is in it.
func (c cgroups) removeParent() {
	for _, h := range c.hierarchies() {
		_ = unix.Rmdir(filepath.Join(h, c.parent))
	}
}

// usage is memory in bytes and the number of tasks, zero where unknown.
func (c cgroups) usage(id core.SandboxID) (memory int64, tasks int) {
	if c.v2 {
		memory = readInt(filepath.Join(c.dir("", id), "memory.current"))
	} else {
		memory = readInt(filepath.Join(c.dir("memory", id), "memory.usage_in_bytes"))
	}
	return memory, int(readInt(filepath.Join(c.dir("pids", id), "pids.current")))
}

// oomKilled says whether the kernel killed something in the group because it
// was over its memory limit.
func (c cgroups) oomKilled(id core.SandboxID) bool {
	if c.v2 {
		return readKey(filepath.Join(c.dir("", id), "memory.events"), "oom_kill") > 0
	}
	if n := readKey(filepath.Join(c.dir("memory", id), "memory.oom_control"), "oom_kill"); n >= 0 {
		return n > 0
	}
	// Kernels before 4.13 count only how often the limit was hit.
	return readInt(filepath.Join(c.dir("memory", id), "memory.failcnt")) > 0
}

// swapLimited says whether a limit of memory and swap together can be set.
func (c cgroups) swapLimited() bool {
	if c.v2 {
		return true
	}
	return exists(filepath.Join(c.mount, "memory", "memory.memsw.limit_in_bytes"))
}

// pause lets the kernel do what it does without telling; false when ctx ended.
func pause(ctx context.Context) bool {
	timer := time.NewTimer(2 * time.Millisecond)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

func readInt(path string) int64 {
	data, err := os.ReadFile(path)
	if err != nil {
		return 0
	}
	n, err := strconv.ParseInt(strings.TrimSpace(string(data)), 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// readKey finds "key value" in a file of such lines; -1 if it is not there.
func readKey(path, key string) int64 {
	f, err := os.Open(path)
	if err != nil {
		return -1
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		name, value, ok := strings.Cut(lines.Text(), " ")
		if !ok || name != key {
			continue
		}
		if n, err := strconv.ParseInt(value, 10, 64); err == nil {
			return n
		}
	}
	return -1
}
