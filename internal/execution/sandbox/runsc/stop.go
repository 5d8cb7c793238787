package runsc

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"drydock/internal/core"
	"drydock/internal/execution/sandbox"
	"drydock/internal/execution/tree"
)

// Destroy implements sandbox.Driver.
func (d *Driver) Destroy(ctx context.Context, id core.SandboxID) error {
	const op = "runsc.destroy"
	if _, err := core.ParseID[core.SandboxID](idPrefix, string(id)); err != nil {
		return core.E(op, core.Invalid, err, "")
	}
	b, fresh := d.claim(id)
	if !fresh {
		if err := b.lock(ctx); err != nil {
			return err
		}
	}
	defer b.unlock()
	b.mu.Lock()
	gone := b.gone
	b.mu.Unlock()
	if gone {
		return nil
	}
	if fresh { // left by an earlier process; without a record the rest still goes
		if rec, err := d.paths(id).load(); err == nil {
			b.mu.Lock()
			b.rec = rec
			b.mu.Unlock()
		}
	}
	if err := d.destroy(ctx, b); err != nil {
		if fresh {
			d.forget(b)
		}
		return core.E(op, core.KindOf(err), err, "sandbox %s is not fully removed", id).WithHint("destroy it again")
	}
	return nil
}

// destroy removes everything, in an order in which a second call can go on
// where the first one ended: the directory, which names it, goes last.
func (d *Driver) destroy(ctx context.Context, b *box) error {
	p := d.paths(b.id)
	if exists(p.record()) {
		d.note(b, sandbox.CauseStopped, "destroyed")
	}
	if err := d.stop(ctx, b); err != nil {
		return err
	}
	if err := d.deps.Network.Detach(ctx, b.id); err != nil {
		return err
	}
	if err := d.cgroups.remove(ctx, b.id); err != nil {
		return err
	}
	if err := tree.Remove(p.dir); err != nil {
		return err
	}
	b.mu.Lock()
	b.rec.State = core.SandboxGone
	closeOnce(b.done)
	b.mu.Unlock()
	d.forget(b)
	d.tidy(ctx)
	return nil
}

// stop ends all processes, waits for the watcher, and takes away what runsc
// and the root mount left. Files stay.
func (d *Driver) stop(ctx context.Context, b *box) error {
	if err := d.kill(ctx, b); err != nil {
		return err
	}
	rec := b.record()
	if rec.State != core.SandboxDead && rec.State != core.SandboxFrozen {
		for _, proc := range d.leftovers(b.id) {
			if err := proc.kill(ctx); err != nil {
				return err
			}
		}
		// They may have started others before they ended.
		if err := d.cgroups.kill(ctx, b.id); err != nil {
			return err
		}
	}
	if err := d.endWatch(ctx, b); err != nil {
		return err
	}
	if err := d.removeRunscState(b.id); err != nil {
		return err
	}
	p := d.paths(b.id)
	return unmount(ctx, p.root())
}

// endWatch waits until the watcher has recorded the end.
func (d *Driver) endWatch(ctx context.Context, b *box) error {
	b.mu.Lock()
	watched := b.watched
	b.mu.Unlock()
	if watched == nil {
		return nil
	}
	select {
	case <-watched:
		return nil
	case <-ctx.Done():
		return core.E("runsc.stop", core.KindOf(ctx.Err()), ctx.Err(), "waiting for the end of sandbox %s", b.id)
	}
}

// removeRunscState removes runsc's own files about a sandbox, all of which
// carry its name.
func (d *Driver) removeRunscState(id core.SandboxID) error {
	d.making.RLock()
	defer d.making.RUnlock()
	entries, err := os.ReadDir(d.runscRoot)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if strings.Contains(e.Name(), string(id)) {
			if err := os.RemoveAll(filepath.Join(d.runscRoot, e.Name())); err != nil {
				return err
			}
		}
	}
	return nil
}

// tidy takes away what all sandboxes share once none is left: the empty
// network namespace in which runsc puts its file servers, and the parent
// control group. The next sandbox makes them again.
func (d *Driver) tidy(ctx context.Context) {
	d.mu.Lock()
	rest := len(d.boxes)
	d.mu.Unlock()
	if rest > 0 || !d.making.TryLock() {
		return
	}
	defer d.making.Unlock()
	if entries, err := os.ReadDir(d.sandboxesDir()); err != nil || len(entries) > 0 {
		return
	}
	points, err := mountsBelow(d.runscRoot)
	if err != nil {
		return
	}
	for _, point := range points {
		if err := unmount(ctx, point); err == nil {
			_ = os.Remove(point)
		}
	}
	d.cgroups.removeParent()
}

// Freeze implements sandbox.Driver.
func (d *Driver) Freeze(ctx context.Context, id core.SandboxID, opts sandbox.FreezeOptions) (sandbox.Frozen, error) {
	const op = "runsc.freeze"
	if !filepath.IsAbs(opts.Into) || opts.Resume && !opts.Memory {
		return sandbox.Frozen{}, core.E(op, core.Invalid, nil, "freeze %+v: not an absolute path, or going on without memory", opts)
	}
	b, err := d.take(ctx, op, id)
	if err != nil {
		return sandbox.Frozen{}, err
	}
	defer b.unlock()
	d.wake(b)
	opts.Into = filepath.Clean(opts.Into)
	if done := b.record().Resumed; opts.Resume && done != nil && done.Into == opts.Into {
		return done.frozen(), nil
	}
	if err := d.intend(b, opts); err != nil {
		return sandbox.Frozen{}, err
	}
	rec := b.record()
	if rec.State == core.SandboxFrozen {
		return rec.Freeze.frozen(), nil
	}
	if opts.Memory {
		// From here on nobody may walk away: a sandbox would be left stopped, or
		// with a token that nobody knows.
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(context.WithoutCancel(ctx), freezeLimit)
		defer cancel()
	}
	if opts.Memory && rec.State == core.SandboxRunning {
		lost, err := d.takeMemory(ctx, b)
		if err != nil {
			return sandbox.Frozen{}, d.giveUp(b, core.E(op, core.KindOf(err), err, "memory of sandbox %s", id))
		}
		if lost != "" && opts.Resume {
			d.lies(ctx, b, "it died when its memory was written: "+lost)
			return sandbox.Frozen{}, d.giveUp(b, core.E(op, core.Unavailable, nil, "sandbox %s died when its memory was written: %s", id, lost).
				WithHint("its files are complete: freeze it without memory"))
		}
		if err := b.set(d.paths(id), false, func(r *record) { r.Freeze.Lost = lost }); err != nil {
			return sandbox.Frozen{}, core.E(op, core.Internal, err, "record of sandbox %s", id)
		}
	}
	frozen := b.record().Freeze.frozen()
	if opts.Resume {
		if frozen.Image == nil {
			return sandbox.Frozen{}, core.E(op, core.Conflict, nil, "sandbox %s is %s: it has no memory to go on from", id, rec.State)
		}
		frozen.Paused, err = d.moveOn(ctx, b)
		return frozen, err
	}
	d.note(b, sandbox.CauseStopped, "frozen")
	if b.isMoving() { // its watcher has looked away
		d.ended(ctx, b, nil)
	}
	if err := d.stop(ctx, b); err != nil {
		return sandbox.Frozen{}, core.E(op, core.KindOf(err), err, "sandbox %s", id)
	}
	if err := d.move(b, opts.Into, frozen.Upper, false); err != nil {
		return sandbox.Frozen{}, core.E(op, core.Internal, err, "files of sandbox %s", id)
	}
	return frozen, nil
}

// freezeLimit is how long a freeze with memory may take in all.
const freezeLimit = 15 * time.Minute

// giveUp takes back the intent of a freeze that has not touched the files.
func (d *Driver) giveUp(b *box, cause error) error {
	into := b.record().Freeze.Into
	if err := tree.Remove(into); err != nil {
		d.deps.Log.Warn("an empty place of a freeze stays", "sandbox", b.id, "dir", into, "error", err)
	}
	if err := b.set(d.paths(b.id), true, func(r *record) { r.Freeze = nil }); err != nil {
		return core.E("runsc.freeze", core.Internal, err, "record of sandbox %s", b.id)
	}
	return cause
}

// intend checks that the files can go to opts.Into, and records it.
func (d *Driver) intend(b *box, opts sandbox.FreezeOptions) error {
	const op = "runsc.freeze"
	into := opts.Into
	p := d.paths(b.id)
	rec := b.record()
	if rec.Freeze != nil {
		if rec.Freeze.Into == into {
			if rec.Freeze.Memory == opts.Memory && rec.Freeze.Resume == opts.Resume {
				return nil
			}
			if err := b.set(p, true, func(r *record) { r.Freeze.Memory, r.Freeze.Resume = opts.Memory, opts.Resume }); err != nil {
				return core.E(op, core.Internal, err, "record of sandbox %s", b.id)
			}
			return nil
		}
		if rec.State == core.SandboxFrozen || !exists(p.upper()) {
			return core.E(op, core.Conflict, nil, "sandbox %s is already frozen into %s", b.id, rec.Freeze.Into)
		}
	}
	if rec.State != core.SandboxRunning && rec.State != core.SandboxDead {
		return core.E(op, core.Conflict, nil, "sandbox %s is %s and cannot be frozen", b.id, rec.State)
	}
	if exists(into) {
		return core.E(op, core.Conflict, nil, "%s exists already", into)
	}
	var from, to unix.Stat_t
	if err := unix.Stat(p.dir, &from); err != nil {
		return core.E(op, core.Internal, err, "directory of sandbox %s", b.id)
	}
	if err := unix.Stat(filepath.Dir(into), &to); err != nil {
		return core.E(op, core.NotFound, err, "directory %s", filepath.Dir(into))
	}
	if from.Dev != to.Dev {
		return core.E(op, core.Invalid, nil, "%s is on another file system than sandbox %s", into, b.id).
			WithHint("keep snapshots and sandboxes under one state directory")
	}
	err := b.set(p, true, func(r *record) {
		r.Freeze = &freezeIntent{Into: into, Memory: opts.Memory, Resume: opts.Resume}
	})
	if err != nil {
		return core.E(op, core.Internal, err, "record of sandbox %s", b.id)
	}
	return nil
}

// move renames the upper directory to its place. Each step may have been done
// by an earlier, interrupted call. A sandbox that goes on does not wait for the
// disk: what is needed to find everything again is there already.
func (d *Driver) move(b *box, into, upper string, goesOn bool) error {
	p := d.paths(b.id)
	if err := os.Mkdir(into, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	if !exists(upper) {
		if err := os.Rename(p.upper(), upper); err != nil {
			return err
		}
	}
	if goesOn {
		return nil
	}
	if b.record().Freeze.Image == nil { // what came of an attempt to take one
		for _, dir := range []string{imageName, imageName + newSuffix} {
			if err := tree.Remove(filepath.Join(into, dir)); err != nil {
				return err
			}
		}
	}
	for _, dir := range []string{into, filepath.Dir(into), p.dir} {
		if err := syncDir(dir); err != nil {
			return err
		}
	}
	return b.set(p, true, func(r *record) { r.State = core.SandboxFrozen })
}

// Recover implements sandbox.Driver.
func (d *Driver) Recover(ctx context.Context, h sandbox.Handle) (sandbox.Status, error) {
	const op = "runsc.recover"
	if _, err := core.ParseID[core.SandboxID](idPrefix, string(h.ID)); err != nil {
		return sandbox.Status{}, core.E(op, core.Invalid, err, "")
	}
	b, fresh := d.claim(h.ID)
	if !fresh {
		return d.status(b), nil
	}
	defer b.unlock()
	if err := d.adopt(ctx, b); err != nil {
		d.forget(b)
		return sandbox.Status{}, err
	}
	return d.status(b), nil
}
