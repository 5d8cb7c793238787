package runsc

import (
	"context"
	"fmt"
	"os"
	"time"

	"drydock/internal/core"
	"drydock/internal/execution/sandbox"
	"drydock/internal/execution/tree"
)

// watch starts the one goroutine that looks after a running sandbox: it
// enforces the disk and lifetime limits and notices the end. Preconditions: the
// record says running.
func (d *Driver) watch(ctx context.Context, b *box, proc process) {
	ctx = context.WithoutCancel(ctx)
	pidfd := proc.open()
	watched := make(chan struct{})
	b.mu.Lock()
	b.watched = watched
	b.mu.Unlock()
	d.watchers.Go(func() {
		defer close(watched)
		d.look(ctx, b, pidfd)
	})
}

// look returns when the sandbox has ended, or the driver closes.
func (d *Driver) look(ctx context.Context, b *box, pidfd *os.File) {
	if pidfd == nil {
		d.ended(ctx, b, nil)
		return
	}
	defer pidfd.Close()
	ended := make(chan bool, 1)
	go func() { ended <- waitExit(pidfd) }()
	rec := b.record()
	lifetime := after(rec.Limits.Lifetime, rec.Handle.Created)
	defer func() { lifetime.Stop() }()
	disk := time.NewTimer(d.opts.DiskInterval)
	defer disk.Stop()
	for {
		select {
		case really := <-ended:
			if really && !b.isMoving() {
				d.ended(ctx, b, pidfd)
			}
			return
		case <-b.renewed:
			lifetime.Stop()
			rec = b.record()
			lifetime = after(rec.Limits.Lifetime, rec.Handle.Created)
		case <-d.closed:
			_ = pidfd.SetReadDeadline(time.Unix(1, 0))
			<-ended
			return
		case <-lifetime.C:
			if b.isMoving() { // it ends, or goes on under another watcher
				lifetime.Reset(d.opts.DiskInterval)
				continue
			}
			d.end(ctx, b, sandbox.CauseLifetime, fmt.Sprintf("older than its limit of %s", rec.Limits.Lifetime))
		case <-disk.C:
			if b.isResting() {
				disk.Reset(d.opts.DiskInterval)
				continue
			}
			disk.Reset(d.checkDisk(ctx, b))
		}
	}
}

// after is a timer for the moment life past created; it never fires for zero.
func after(life time.Duration, created time.Time) *time.Timer {
	if life <= 0 {
		t := time.NewTimer(time.Hour)
		t.Stop()
		return t
	}
	return time.NewTimer(max(time.Until(created.Add(life)), 0))
}

// checkDisk measures what the sandbox has written and ends it when that is too
// much. It returns when to look again: a large tree is walked less often, so
// that measuring costs at most a few percent of one core.
func (d *Driver) checkDisk(ctx context.Context, b *box) time.Duration {
	start := time.Now()
	rec := b.record()
	limit := rec.Limits.Disk
	p := d.paths(b.id)
	use, err := tree.Measure(p.upper())
	used := use.Bytes + rec.Written
	if st, statErr := os.Stat(p.output()); statErr == nil {
		used += st.Size()
	}
	// gVisor runs what is inside in dozens of children that share its open
	// files: they are looked at once.
	used += measureDeleted(eldest(d.cgroups.pids(b.id)))
	b.mu.Lock()
	b.disk = used
	b.mu.Unlock()
	switch {
	case limit <= 0 || b.isMoving(): // what there is moves away
	case err != nil && exists(p.upper()):
		d.end(ctx, b, sandbox.CauseDisk, fmt.Sprintf("what it has written cannot be measured: %v", err))
	case used > limit:
		d.end(ctx, b, sandbox.CauseDisk, fmt.Sprintf("wrote %s, its limit is %s", size(used), size(limit)))
	}
	return max(d.opts.DiskInterval, 30*time.Since(start))
}

// end kills a sandbox for a reason, which is recorded first. The watcher then
// sees it end.
func (d *Driver) end(ctx context.Context, b *box, cause sandbox.Cause, detail string) {
	d.note(b, cause, detail)
	if err := d.kill(ctx, b); err != nil {
		d.deps.Log.Error("a sandbox over its limit does not end", "sandbox", b.id, "cause", cause, "error", err)
	}
}

// note records why the sandbox is about to end, unless that is known already.
func (d *Driver) note(b *box, cause sandbox.Cause, detail string) {
	err := b.set(d.paths(b.id), false, func(r *record) {
		if r.State == core.SandboxRunning && r.Cause == sandbox.CauseNone {
			r.Cause, r.Detail = cause, detail
		}
	})
	if err != nil {
		d.deps.Log.Error("cannot record why a sandbox ends", "sandbox", b.id, "cause", cause, "error", err)
	}
}

// kill ends every process of a sandbox and waits for that.
func (d *Driver) kill(ctx context.Context, b *box) error {
	ctx, cancel := context.WithTimeout(ctx, killTimeout)
	defer cancel()
	d.wake(b)
	if err := b.record().Process.kill(ctx); err != nil {
		return err
	}
	return d.cgroups.kill(ctx, b.id)
}

// ended finds out why the sandbox ended and records it.
func (d *Driver) ended(ctx context.Context, b *box, pidfd *os.File) {
	cause, detail := d.autopsy(b, pidfd)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), killTimeout)
	defer cancel()
	if err := d.cgroups.kill(ctx, b.id); err != nil {
		d.deps.Log.Error("helpers of a dead sandbox do not end", "sandbox", b.id, "error", err)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.moving = false
	if b.rec.State == core.SandboxRunning || b.rec.State == core.SandboxCreating {
		b.rec.State = core.SandboxDead
		if b.rec.Cause == sandbox.CauseNone {
			b.rec.Cause, b.rec.Detail = cause, detail
		}
		if err := d.paths(b.id).save(b.rec, false); err != nil {
			d.deps.Log.Error("cannot record the end of a sandbox", "sandbox", b.id, "error", err)
		}
		d.deps.Log.Info("sandbox ended", "sandbox", b.id, "cause", b.rec.Cause, "detail", b.rec.Detail)
	}
	closeOnce(b.done)
}

// autopsy is only asked where the driver did not end the sandbox itself.
func (d *Driver) autopsy(b *box, pidfd *os.File) (sandbox.Cause, string) {
	rec := b.record()
	if d.cgroups.oomKilled(b.id) {
		return sandbox.CauseMemory, fmt.Sprintf("needed more than its memory limit of %s", size(rec.Limits.Memory))
	}
	if pidfd == nil {
		return sandbox.CauseKilled, "ended while nobody watched"
	}
	status, ok := exitStatus(pidfd)
	switch {
	case !ok:
		return sandbox.CauseKilled, "ended from outside or by a fault of the runtime (this kernel does not say which)"
	case status.Signaled():
		return sandbox.CauseKilled, "the runtime was ended by signal " + status.Signal().String()
	case status.ExitStatus() == 0:
		return sandbox.CauseExited, "drydock-init ended by itself"
	}
	return sandbox.CauseKilled, fmt.Sprintf("the runtime failed with code %d", status.ExitStatus())
}

// closeOnce is called with the box locked.
func closeOnce(c chan struct{}) {
	select {
	case <-c:
	default:
		close(c)
	}
}

func size(n int64) string {
	switch {
	case n >= 1<<30:
		return fmt.Sprintf("%.1f GiB", float64(n)/(1<<30))
	case n >= 1<<20:
		return fmt.Sprintf("%.0f MiB", float64(n)/(1<<20))
	}
	return fmt.Sprintf("%d bytes", n)
}
