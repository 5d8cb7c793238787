package runsc

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"drydock/internal/core"
)

// restLimit is how long the kernel may take to stop every process of a group.
const restLimit = 2 * time.Second

// Rest implements sandbox.Driver.
func (d *Driver) Rest(ctx context.Context, id core.SandboxID) error {
	const op = "runsc.rest"
	b, err := d.takeRunning(ctx, op, id)
	if err != nil {
		return err
	}
	defer b.unlock()
	b.setResting(true)
	if err := d.cgroups.rest(ctx, id); err != nil {
		d.wake(b)
		return core.E(op, core.Unavailable, err, "sandbox %s does not rest", id)
	}
	return nil
}

// Wake implements sandbox.Driver.
func (d *Driver) Wake(ctx context.Context, id core.SandboxID) error {
	b, err := d.take(ctx, "runsc.wake", id)
	if err != nil {
		return err
	}
	defer b.unlock()
	d.wake(b)
	return nil
}

// wake is called by whoever has the box; an earlier daemon may have let it rest.
func (d *Driver) wake(b *box) {
	d.cgroups.wake(b.id)
	b.setResting(false)
}

func (b *box) setResting(resting bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.resting = resting
}

func (b *box) isResting() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.resting
}

// freezer is the name of the controller of version 1.
const freezer = "freezer"

func (c cgroups) canRest() bool { return c.v2 || exists(filepath.Join(c.mount, freezer)) }

// rest stops every process of a group. runsc does not use the controller of
// version 1: its group is made here and removed with the others.
func (c cgroups) rest(ctx context.Context, id core.SandboxID) error {
	ctx, cancel := context.WithTimeout(ctx, restLimit)
	defer cancel()
	dir := c.dir(freezer, id)
	if c.v2 {
		if err := os.WriteFile(filepath.Join(dir, "cgroup.freeze"), []byte("1"), 0); err != nil {
			return err
		}
	} else {
		if len(c.pids(id)) == 0 { // no group for one that has ended: nobody would remove it
			return unix.ESRCH
		}
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
		if err := c.gather(dir, id); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, "freezer.state"), []byte("FROZEN"), 0); err != nil {
			return err
		}
	}
	for !c.rests(dir) {
		if !pause(ctx) {
			return ctx.Err()
		}
	}
	return nil
}

// gather brings all processes into the group; those they start are in it then.
func (c cgroups) gather(dir string, id core.SandboxID) error {
	known := map[int]bool{}
	for moved := true; moved; {
		moved = false
		for _, pid := range c.pids(id) {
			if known[pid] {
				continue
			}
			known[pid], moved = true, true
			err := os.WriteFile(filepath.Join(dir, "cgroup.procs"), []byte(strconv.Itoa(pid)), 0)
			if err != nil && exists("/proc/"+strconv.Itoa(pid)) {
				return err
			}
		}
	}
	return nil
}

func (c cgroups) rests(dir string) bool {
	if c.v2 {
		return readKey(filepath.Join(dir, "cgroup.events"), "frozen") == 1
	}
	state, err := os.ReadFile(filepath.Join(dir, "freezer.state"))
	return err == nil && strings.TrimSpace(string(state)) == "FROZEN"
}

// wake is rest undone. A group that is gone, or never rested, needs nothing.
func (c cgroups) wake(id core.SandboxID) {
	name, value := "freezer.state", "THAWED"
	if c.v2 {
		name, value = "cgroup.freeze", "0"
	}
	if f, err := os.OpenFile(filepath.Join(c.dir(freezer, id), name), os.O_WRONLY, 0); err == nil {
		_, _ = f.WriteString(value)
		_ = f.Close()
	}
}
