package runsc

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"drydock/internal/core"
)

// leaving is what is left of a sandbox whose memory has been written and that
// goes on from it: it ends while its successor starts, since nobody waits for
// the end of it.
type leaving struct {
	processes []process
	watched   <-chan struct{} // closed when its watcher has ended
	root      *os.File        // of its root, which the kernel lets go of when this is closed
}

// moveOn moves the files of a sandbox whose memory has been written, and starts it
// again above them. It tells how long the sandbox did not answer; that is not
// known where another daemon has stopped it.
func (d *Driver) moveOn(ctx context.Context, b *box) (time.Duration, error) {
	f := b.record().Freeze
	old, err := d.leave(ctx, b)
	defer old.letGo()
	if err == nil {
		err = d.move(b, f.Into, f.frozen().Upper, true)
	}
	if err != nil {
		return 0, d.cannotGoOn(ctx, b, err)
	}
	if err := d.goOn(ctx, b, &old); err != nil {
		return 0, err
	}
	return b.pause(), nil
}

// leave ends the processes of a moving sandbox without waiting for them, and
// frees all that its successor takes over. Its memory is counted until it is
// gone: where both do not fit into the limit, leave waits after all.
func (d *Driver) leave(ctx context.Context, b *box) (leaving, error) {
	p, rec := d.paths(b.id), b.record()
	// A process that this file names from here on is the one that goes on.
	if err := os.Remove(p.pidFile()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return leaving{}, err
	}
	memory, _ := d.cgroups.usage(b.id)
	old := leaving{processes: []process{rec.Process}}
	for _, pid := range d.cgroups.pids(b.id) {
		if proc, err := identify(pid); err == nil {
			old.processes = append(old.processes, proc)
		}
	}
	b.mu.Lock()
	old.watched = b.watched
	b.mu.Unlock()
	// The last one to let go of an overlay waits for the disk.
	root, err := os.OpenFile(p.root(), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return old, err
	}
	old.root = root
	for {
		err := unix.Unmount(p.root(), unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW)
		if errors.Is(err, unix.EINVAL) {
			break // none is left
		}
		if err != nil {
			return old, &fs.PathError{Op: "unmount", Path: p.root(), Err: err}
		}
	}
	for _, proc := range old.processes {
		proc.signal(unix.SIGKILL)
	}
	if limit := rec.Limits.Memory; limit > 0 && 2*memory > limit {
		if err := old.end(ctx); err != nil {
			return old, err
		}
	}
	return old, d.removeRunscState(b.id)
}

// end waits until all of it is gone. A second call does nothing.
func (old *leaving) end(ctx context.Context) error {
	for _, proc := range old.processes {
		if err := proc.kill(ctx); err != nil {
			return err
		}
	}
	if old.watched != nil {
		select {
		case <-old.watched:
		case <-ctx.Done():
			return core.E("runsc.leave", core.KindOf(ctx.Err()), ctx.Err(), "waiting for the end of what ran before")
		}
	}
	old.letGo()
	return nil
}

func (old *leaving) letGo() {
	if old.root != nil {
		_ = old.root.Close()
		old.root = nil
	}
}
