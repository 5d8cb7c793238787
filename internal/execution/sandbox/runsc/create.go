package runsc

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"drydock/internal/core"
	"drydock/internal/execution/guest"
	"drydock/internal/execution/sandbox"
)

const idLen = len(idPrefix) + 18

func sorted(set map[core.SandboxID]bool) []core.SandboxID { return slices.Sorted(maps.Keys(set)) }

// Create implements sandbox.Driver.
func (d *Driver) Create(ctx context.Context, spec sandbox.Spec) (sandbox.Handle, error) {
	const op = "runsc.create"
	if err := d.check(&spec); err != nil {
		return sandbox.Handle{}, err
	}
	if err := d.Fits(ctx, spec); err != nil {
		return sandbox.Handle{}, err
	}
	b, fresh := d.claim(spec.ID)
	if !fresh {
		return sandbox.Handle{}, core.E(op, core.Conflict, nil, "sandbox %s exists already", spec.ID)
	}
	defer b.unlock()
	p := d.paths(spec.ID)
	if err := os.Mkdir(p.dir, 0o700); err != nil {
		d.forget(b)
		if errors.Is(err, fs.ErrExist) {
			return sandbox.Handle{}, core.E(op, core.Conflict, nil, "files of a sandbox %s exist already", spec.ID).
				WithHint("recover or destroy it first")
		}
		return sandbox.Handle{}, core.E(op, core.Unavailable, err, "directory of sandbox %s", spec.ID)
	}
	h, err := d.create(ctx, b, p, spec)
	if err != nil {
		clean, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupTimeout)
		defer cancel()
		if cleanErr := d.destroy(clean, b); cleanErr != nil {
			d.deps.Log.Error("a sandbox that did not start is not fully removed", "sandbox", spec.ID, "error", cleanErr)
		}
		if ctx.Err() != nil {
			return sandbox.Handle{}, core.E(op, core.KindOf(ctx.Err()), err, "sandbox %s was not started", spec.ID)
		}
		return sandbox.Handle{}, core.E(op, core.KindOf(err), err, "sandbox %s did not start", spec.ID)
	}
	return h, nil
}

func (d *Driver) check(spec *sandbox.Spec) error {
	const op = "runsc.create"
	if _, err := core.ParseID[core.SandboxID](idPrefix, string(spec.ID)); err != nil {
		return core.E(op, core.Invalid, err, "")
	}
	if len(spec.Layers) == 0 {
		return core.E(op, core.Invalid, nil, "sandbox %s has no layers to start from", spec.ID)
	}
	for _, layer := range spec.Layers {
		if st, err := os.Stat(layer); err != nil || !st.IsDir() || !filepath.IsAbs(layer) {
			return core.E(op, core.NotFound, err, "layer %q of sandbox %s is not a directory", layer, spec.ID)
		}
	}
	if spec.Token == "" {
		return core.E(op, core.Invalid, nil, "sandbox %s has no token for drydock-init", spec.ID)
	}
	if spec.Hostname == "" {
		spec.Hostname = "drydock"
	}
	if !validHostname(spec.Hostname) {
		return core.E(op, core.Invalid, nil, "host name %q is not one", spec.Hostname)
	}
	return nil
}

// create does the work of Create; whatever it leaves on error, destroy removes.
func (d *Driver) create(ctx context.Context, b *box, p paths, spec sandbox.Spec) (sandbox.Handle, error) {
	start := time.Now()
	h := sandbox.Handle{
		Driver: name, ID: spec.ID, Purpose: spec.Purpose, Owner: spec.Owner, Token: spec.Token, Created: start.UTC(),
		Layers: spec.Layers,
	}
	err := b.set(p, false, func(r *record) {
		*r = record{
			Version: recordVersion, Instance: d.opts.Instance, Handle: h, State: core.SandboxCreating,
			Limits: spec.Limits, Policy: spec.Network, Hostname: spec.Hostname, Env: spec.Env, Written: spec.Written,
		}
		if spec.Image != nil {
			r.Woke, r.Shut = spec.Image.Token, true
		}
	})
	if err != nil {
		return h, err
	}
	init, err := d.initFor(spec.Image)
	if err != nil {
		return h, err
	}
	for _, dir := range []string{p.upper(), p.work(), p.root(), p.bundle()} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			return h, err
		}
	}
	var net core.Attachment
	both, bothCtx := errgroup.WithContext(ctx)
	both.Go(func() (err error) {
		if spec.Image != nil { // what wakes up in it must not reach anything before it is told who it is
			net, err = d.deps.Network.Hold(bothCtx, spec.ID, spec.Network)
		} else {
			net, err = d.deps.Network.Attach(bothCtx, spec.ID, spec.Network)
		}
		return err
	})
	both.Go(func() error { return mountOverlay(spec.Layers, p.upper(), p.work(), p.root()) })
	if err := both.Wait(); err != nil {
		return h, err
	}
	if err := d.prepareRoot(p, spec, net); err != nil {
		return h, err
	}
	if err := d.bundle(spec, net, init.path); err != nil {
		return h, err
	}
	h.Guest = netip.AddrPortFrom(net.Address, sandbox.GuestPort)
	h.Env, h.Resolver = net.Env, net.Resolver
	prepared := time.Now()

	if err := b.set(p, false, func(r *record) { r.Handle, r.Init = h, init.digest }); err != nil {
		return h, err
	}
	ran, err := d.boot(ctx, b, p, spec.Image)
	if err != nil {
		return h, err
	}
	d.deps.Log.Debug("sandbox started", "sandbox", spec.ID, "purpose", spec.Purpose, "prepare", prepared.Sub(start),
		"runsc", ran.Sub(prepared), "init", time.Since(ran))
	return h, nil
}

// runsc is a command of the tool with the flags that all commands share. Some
// of them are read again by other commands from the state of the sandbox.
func (d *Driver) runsc(ctx context.Context, program string, args ...string) *exec.Cmd {
	flags := []string{"--root=" + d.runscRoot, "--log-format=json"}
	cmd := exec.CommandContext(ctx, program, append(flags, args...)...)
	cmd.Env = []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
	cmd.Dir = "/"
	return cmd
}

// boot starts the sandbox of a record, from its files or from a memory image,
// and returns when drydock-init answers to the token of the record.
func (d *Driver) boot(ctx context.Context, b *box, p paths, image *sandbox.Image) (ran time.Time, err error) {
	h := b.record().Handle
	if err := d.run(ctx, p, h.ID, image); err != nil {
		return ran, err
	}
	proc, err := p.process()
	if err != nil {
		return ran, d.deathNote(p, h.ID, fmt.Errorf("the sandbox ended at once: %w", err))
	}
	err = b.set(p, false, func(r *record) { r.Process, r.State = proc, core.SandboxRunning })
	if err != nil {
		return ran, err
	}
	d.watch(ctx, b, proc)
	ran = time.Now()
	if image != nil {
		return ran, d.answer(ctx, b, image.Token, h.Token)
	}
	return ran, d.answer(ctx, b, h.Token)
}

const networkMode = "sandbox"

// run starts the sandbox and returns when PID 1 has been started.
func (d *Driver) run(ctx context.Context, p paths, id core.SandboxID, image *sandbox.Image) error {
	// A file, not a pipe: the sandbox keeps these streams.
	out, err := os.OpenFile(p.output(), os.O_WRONLY|os.O_CREATE|os.O_TRUNC|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer out.Close()
	d.making.RLock()
	defer d.making.RUnlock()
	args := append([]string{"--log=" + p.log()}, StartFlags()...)
	program := d.opts.Runsc
	if image == nil {
		args = append(args, "run")
	} else {
		args = append(args, "restore", "--image-path="+image.Dir)
		if program, err = d.runscFor(image.Fit.Runtime); err != nil {
			return err
		}
	}
	args = append(args, "--bundle="+p.bundle(), "--detach", "--pid-file="+p.pidFile(), string(id))
	cmd := d.runsc(ctx, program, args...)
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return d.deathNote(p, id, fmt.Errorf("runsc: %w", err))
	}
	return nil
}

func (p paths) process() (process, error) {
	data, err := os.ReadFile(p.pidFile())
	if err != nil {
		return process{}, err
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(data)))
	if err != nil {
		return process{}, err
	}
	return identify(pid)
}

// deathNote explains a failed start by what was written meanwhile.
func (d *Driver) deathNote(p paths, id core.SandboxID, err error) error {
	if d.cgroups.oomKilled(id) {
		return core.E("runsc.create", core.Exhausted, err, "its memory limit is too small to start at all").
			WithHint("raise limits.memory; gVisor itself needs about 100 MiB")
	}
	said := tail(p.output(), 2000)
	if said == "" {
		said = tail(p.log(), 2000)
	}
	if said == "" {
		return core.E("runsc.create", core.Internal, err, "")
	}
	return core.E("runsc.create", core.Internal, fmt.Errorf("%w: %s", err, said), "")
}

// answer waits until drydock-init answers to one of these tokens, and makes it
// demand the one of the record. A connection that is not accepted at once is
// dropped for a new one: the kernel would repeat its first packet only after a
// second.
func (d *Driver) answer(ctx context.Context, b *box, tokens ...string) error {
	ctx, cancel := context.WithTimeout(ctx, d.opts.StartTimeout)
	defer cancel()
	h := b.record().Handle
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		err := d.ask(ctx, h, tokens[0])
		if err == nil {
			return nil
		}
		if k := core.KindOf(err); k == core.Conflict || k == core.Invalid {
			return err // it answers, but not to us
		}
		if !guest.Silent(err) && len(tokens) > 1 {
			tokens = append(tokens[1:], tokens[0])
		}
		if !b.record().Process.alive() { // the watcher of one that is moving looks away
			return d.deathNote(d.paths(h.ID), h.ID, fmt.Errorf("the sandbox ended at once%s", d.cause(ctx, b)))
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return core.E("runsc.create", core.Unavailable, err, "drydock-init does not answer at %s", h.Guest)
		}
	}
}

// cause is what the watcher of a sandbox that has ended finds out about it.
func (d *Driver) cause(ctx context.Context, b *box) string {
	if b.isMoving() {
		return ""
	}
	select {
	case <-b.ended():
	case <-ctx.Done():
	}
	s := d.status(b)
	return ": " + string(s.Cause) + ", " + s.Detail
}

// ask asks once, and makes the guest demand the handle's token. Whether it did
// although its answer came too late shows the next time.
func (d *Driver) ask(ctx context.Context, h sandbox.Handle, token string) error {
	client := guest.NewTCPClient(h.Guest, token)
	defer client.Close()
	ctx, cancel := context.WithTimeout(ctx, pollTimeout)
	defer cancel()
	if token == h.Token {
		_, err := client.Health(ctx)
		return err
	}
	_, err := client.Rotate(ctx, h.Token)
	return err
}

const (
	pollEvery   = 2 * time.Millisecond
	pollTimeout = 100 * time.Millisecond
)
