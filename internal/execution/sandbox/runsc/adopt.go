package runsc

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"drydock/internal/core"
	"drydock/internal/execution/sandbox"
)

// adopt makes a box of what an earlier process left, and ends what that process
// was in the middle of: the sandbox runs and answers to its token, or is dead
// and its files are complete.
func (d *Driver) adopt(ctx context.Context, b *box) error {
	const op = "runsc.recover"
	p := d.paths(b.id)
	rec, err := p.load()
	if errors.Is(err, fs.ErrNotExist) {
		return core.E(op, core.NotFound, nil, "nothing of sandbox %s is left", b.id)
	}
	if err != nil {
		return err
	}
	if rec.Instance != d.opts.Instance {
		return core.E(op, core.Conflict, nil, "sandbox %s belongs to instance %q", b.id, rec.Instance)
	}
	if f := rec.Freeze; f != nil && f.Image == nil && f.Plan != nil && exists(f.Plan.Dir) {
		f.Image = f.Plan
	}
	lives := rec.State == core.SandboxCreating || rec.State == core.SandboxRunning
	creating, holding := rec.State == core.SandboxCreating, rec.Freeze != nil && rec.Freeze.Token != ""
	if lives && (creating || holding) {
		d.waitForTools(ctx, b.id)
	}
	if creating { // the daemon died in the middle
		rec.Process, _ = d.restarted(b.id)
	}
	b.mu.Lock()
	b.rec = rec
	if !lives {
		closeOnce(b.done)
	}
	b.mu.Unlock()
	if !lives {
		return nil
	}
	if rec.State == core.SandboxRunning && holding && rec.Freeze.Resume && rec.Freeze.Image != nil {
		return d.adoptMoving(ctx, b)
	}
	if !rec.Process.alive() {
		d.ended(ctx, b, nil)
		return nil
	}
	if err := d.takeOver(ctx, b, rec.Process); err != nil {
		return err
	}
	switch {
	case rec.Freeze != nil: // it died before it stopped the sandbox
		if holding && d.letGo(ctx, b) != nil {
			return nil // it is dead now, and its status says why
		}
		return d.giveUp(b, nil)
	case creating:
		tokens := []string{rec.Handle.Token}
		if rec.Woke != "" {
			tokens = append(tokens, rec.Woke)
		}
		if err := d.answer(ctx, b, tokens...); err != nil {
			d.end(ctx, b, sandbox.CauseKilled, "its start was cut off: "+err.Error())
			d.ended(ctx, b, nil)
		}
	}
	return nil
}

// Freezes implements sandbox.Driver.
func (d *Driver) Freezes(context.Context) ([]string, error) {
	const op = "runsc.freezes"
	entries, err := os.ReadDir(d.sandboxesDir())
	if err != nil {
		return nil, core.E(op, core.Internal, err, "sandboxes of %s", d.opts.StateDir)
	}
	var out []string
	for _, e := range entries {
		rec, err := paths{filepath.Join(d.sandboxesDir(), e.Name())}.load()
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil { // it cannot be adopted either
			d.deps.Log.Error("it is not known where the files of a sandbox are", "sandbox", e.Name(), "error", err)
			continue
		}
		for _, f := range []*freezeIntent{rec.Freeze, rec.Resumed} {
			if f != nil {
				out = append(out, f.Into)
			}
		}
	}
	return out, nil
}

// takeOver watches a process that an earlier daemon started. The policy is told
// again: whoever enforces it may have been restarted too.
func (d *Driver) takeOver(ctx context.Context, b *box, proc process) error {
	d.wake(b)
	rec := b.record()
	attach := d.deps.Network.Attach
	if rec.Shut {
		attach = d.deps.Network.Hold
	}
	net, err := attach(ctx, b.id, rec.Policy)
	if err != nil {
		return core.E("runsc.recover", core.KindOf(err), err, "network of sandbox %s", b.id)
	}
	err = b.set(d.paths(b.id), false, func(r *record) {
		r.State, r.Process = core.SandboxRunning, proc
		r.Handle.Env, r.Handle.Resolver = net.Env, net.Resolver
	})
	if err != nil {
		return core.E("runsc.recover", core.Internal, err, "record of sandbox %s", b.id)
	}
	d.watch(ctx, b, proc)
	return nil
}

// adoptMoving goes on where a daemon died while a sandbox was stopped for a
// snapshot. What has run since it was started again is never undone.
func (d *Driver) adoptMoving(ctx context.Context, b *box) error {
	p, f := d.paths(b.id), *b.record().Freeze
	if exists(f.frozen().Upper) { // what ran before ends, and the pid file is not its own
		now, alive := d.restarted(b.id)
		used, err := hasFiles(p.upper())
		if alive || used || err != nil {
			return d.adoptWoken(ctx, b, now, alive)
		}
	}
	b.setMoving(true)
	if err := d.stop(ctx, b); err != nil {
		return err
	}
	if err := d.move(b, f.Into, f.frozen().Upper, true); err != nil {
		return err
	}
	if err := d.goOn(ctx, b, new(leaving)); err != nil {
		d.deps.Log.Error("a sandbox does not go on after a snapshot", "sandbox", b.id, "error", err)
	}
	return nil
}

// restarted is the process that the pid file names, if it is one of this
// sandbox: the number may be another's by now.
func (d *Driver) restarted(id core.SandboxID) (process, bool) {
	proc, err := d.paths(id).process()
	return proc, err == nil && slices.Contains(d.leftovers(id), proc)
}

// adoptWoken takes over a sandbox that was started again before the daemon died.
func (d *Driver) adoptWoken(ctx context.Context, b *box, now process, alive bool) error {
	var silent error
	if alive {
		if err := d.takeOver(ctx, b, now); err != nil {
			return err
		}
		rec := b.record()
		silent = d.answer(ctx, b, rec.Freeze.Token, rec.Handle.Token)
	}
	if err := d.wentOn(b); err != nil {
		return core.E("runsc.recover", core.Internal, err, "record of sandbox %s", b.id)
	}
	if silent != nil {
		d.end(ctx, b, sandbox.CauseKilled, "it was stopped for a snapshot and does not answer since: "+silent.Error())
	}
	if silent != nil || !alive {
		d.ended(ctx, b, nil)
	}
	return nil
}

func hasFiles(dir string) (bool, error) {
	f, err := os.Open(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer f.Close()
	names, err := f.Readdirnames(1)
	return len(names) > 0, ignoreEOF(err)
}

// toolLimit is how long a command of runsc that outlived its daemon is waited
// for.
const toolLimit = time.Minute

// waitForTools returns when no command of an earlier daemon works on a sandbox
// any more: they go on when the daemon is killed.
func (d *Driver) waitForTools(ctx context.Context, id core.SandboxID) {
	ctx, cancel := context.WithTimeout(ctx, toolLimit)
	defer cancel()
	for {
		tools := slices.DeleteFunc(d.leftovers(id), func(p process) bool { return !p.isTool() })
		if len(tools) == 0 {
			return
		}
		if !pause(ctx) {
			for _, t := range tools {
				d.deps.Log.Warn("a command of an earlier process does not end", "sandbox", id, "pid", t.Pid)
				_ = t.kill(context.WithoutCancel(ctx))
			}
			return
		}
	}
}
