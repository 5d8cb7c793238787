package runsc

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"drydock/internal/core"
	"drydock/internal/execution/guest"
	"drydock/internal/execution/sandbox"
	"drydock/internal/execution/tree"
)

const (
	imageName  = "image"
	newSuffix  = ".new" // of an image that is being written
	holdLimit  = 10 * time.Second
	imageSpare = 64 << 20 // free disk that a memory image must leave, besides its own size
)

// readFeatures asks runsc what the processor can do.
func (d *Driver) readFeatures() ([]string, error) {
	out, err := d.runsc(context.Background(), d.opts.Runsc, "cpu-features").Output()
	if err != nil {
		return nil, core.E("runsc.features", core.Unavailable, err, "features of the processor")
	}
	list := strings.Split(strings.TrimSpace(string(out)), ",")
	slices.Sort(list)
	return slices.Compact(list), nil
}

// Fits implements sandbox.Driver.
func (d *Driver) Fits(_ context.Context, spec sandbox.Spec) error {
	const op = "runsc.fits"
	if spec.Image == nil {
		return nil
	}
	fit := spec.Image.Fit
	if st, err := os.Stat(spec.Image.Dir); err != nil || !st.IsDir() {
		return core.E(op, core.NotFound, err, "the memory image %q is not there", spec.Image.Dir)
	}
	if fit.Network != networkMode {
		return core.E(op, core.Conflict, nil, "the memory image has network mode %q, this host uses %q", fit.Network, networkMode)
	}
	if _, err := d.runscFor(fit.Runtime); err != nil {
		return core.E(op, core.Conflict, err, "the memory image was made by another build of runsc")
	}
	if _, err := d.imageInit(fit.Init); err != nil {
		return core.E(op, core.Conflict, err, "the memory image holds another drydock-init")
	}
	if fit.Shape != d.shape(spec) {
		return core.E(op, core.Conflict, nil, "the memory image was made under other limits, or by a daemon that starts sandboxes differently")
	}
	have, err := d.features()
	if err != nil {
		return err
	}
	var missing []string
	for _, f := range fit.CPU {
		if _, ok := slices.BinarySearch(have, f); !ok {
			missing = append(missing, f)
		}
	}
	if len(missing) > 0 {
		return core.E(op, core.Conflict, nil, "this processor lacks %s, which the memory image needs", strings.Join(missing, ", "))
	}
	return nil
}

// runningProgram is the build of runsc that a living sandbox is run by: the file
// at the configured path may have been replaced meanwhile.
func (d *Driver) runningProgram(p process) string {
	exe := "/proc/" + strconv.Itoa(p.Pid) + "/exe"
	mine, err := idOf(d.opts.Runsc)
	if theirs, exeErr := idOf(exe); err == nil && exeErr == nil && mine == theirs {
		return d.opts.Runsc
	}
	return exe
}

// takeMemory stops a running sandbox and writes its memory into an image, which
// it records. Lost says why there is none: the sandbox has died of it, its files
// are complete. With err it runs on as it did.
func (d *Driver) takeMemory(ctx context.Context, b *box) (lost string, err error) {
	const op = "runsc.freeze"
	p, rec := d.paths(b.id), b.record()
	into := rec.Freeze.Into
	if err := d.roomFor(b, filepath.Dir(into)); err != nil {
		return "", err
	}
	program := d.runningProgram(rec.Process)
	digest, _, err := d.programs.keep(kindRunsc, program)
	if err != nil {
		return "", err
	}
	features, err := d.features()
	if err != nil {
		return "", err
	}
	image := sandbox.Image{
		Dir: filepath.Join(into, imageName), Token: rand.Text(),
		Fit: sandbox.Fit{Runtime: digest, Init: rec.Init, Network: networkMode, CPU: features, Shape: d.shape(rec.spec())},
	}
	writing := image.Dir + newSuffix
	if err := tree.Remove(writing); err != nil { // of an attempt that was cut off
		return "", err
	}
	if err := os.MkdirAll(writing, 0o700); err != nil {
		return "", err
	}
	if err := b.set(p, true, func(r *record) { r.Freeze.Token, r.Freeze.Plan = image.Token, &image }); err != nil {
		return "", core.E(op, core.Internal, err, "record of sandbox %s", b.id)
	}
	if err := d.hold(ctx, rec.Handle, image.Token); err != nil {
		return d.notTaken(ctx, b, core.E(op, core.Unavailable, err, "drydock-init does not answer"))
	}
	b.setMoving(true)
	cmd := d.runsc(ctx, program, "--log="+p.log(), "checkpoint", "--image-path="+writing, string(b.id))
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Run(); err != nil {
		_ = tree.Remove(writing) // first of all: it may have filled the disk
		return d.notTaken(ctx, b, core.E(op, core.Unavailable, err, "runsc checkpoint: %s", why(said.String())))
	}
	if !rec.Freeze.Resume { // it ends by itself, and leave sees to it
		if err := rec.Process.kill(ctx); err != nil {
			return err.Error(), nil
		}
	}
	if err := os.Rename(writing, image.Dir); err != nil {
		return err.Error(), nil
	}
	if err := b.set(p, false, func(r *record) { r.Freeze.Image = &image }); err != nil {
		d.deps.Log.Warn("a complete memory image is not recorded", "sandbox", b.id, "error", err) // its name says it too
	}
	return "", nil
}

// why shortens what runsc says, which may name each of thousands of pages.
func why(said string) string {
	const most = 400
	if strings.Contains(said, unix.ENOSPC.Error()) {
		return "the disk is full: " + unix.ENOSPC.Error()
	}
	if said = strings.TrimSpace(said); len(said) > most {
		said = said[:most/2] + " ... " + said[len(said)-most/2:]
	}
	return strings.ToValidUTF8(said, "?")
}

// hold makes drydock-init demand another token.
func (d *Driver) hold(ctx context.Context, h sandbox.Handle, token string) error {
	ctx, cancel := context.WithTimeout(ctx, holdLimit)
	defer cancel()
	client := guest.NewTCPClient(h.Guest, h.Token)
	defer client.Close()
	return client.Hold(ctx, token)
}

// notTaken says what became of a sandbox of which no image could be taken.
func (d *Driver) notTaken(ctx context.Context, b *box, cause error) (lost string, err error) {
	if err := d.letGo(ctx, b); err != nil {
		return fmt.Sprintf("%v; %v", cause, err), nil
	}
	return "", cause
}

// letGo lets a sandbox that could not be stopped go on under its own token. One
// that does not answer is ended, and that is an error: its memory may be half
// written, and nobody could ever speak with it again.
func (d *Driver) letGo(ctx context.Context, b *box) error {
	b.setMoving(false)
	rec := b.record()
	if !rec.Process.alive() {
		d.ended(ctx, b, nil) // its watcher may have looked away
		return core.E("runsc.freeze", core.Unavailable, nil, "sandbox %s has died", b.id)
	}
	err := d.answer(ctx, b, rec.Handle.Token, rec.Freeze.Token)
	if err == nil {
		return nil
	}
	if !rec.Process.alive() {
		err = core.E("runsc.freeze", core.Unavailable, nil, "it has died")
	}
	d.end(ctx, b, sandbox.CauseKilled, "it did not go on after its memory could not be written: "+err.Error())
	d.ended(ctx, b, nil)
	return core.E("runsc.freeze", core.Unavailable, err, "sandbox %s did not go on", b.id)
}

// roomFor refuses a memory image for which the disk is too small: a checkpoint
// that fails in the middle takes the sandbox with it.
func (d *Driver) roomFor(b *box, dir string) error {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return core.E("runsc.freeze", core.Internal, err, "free space of %s", dir)
	}
	free := int64(st.Bavail) * st.Bsize
	memory, _ := d.cgroups.usage(b.id)
	if free < memory+imageSpare {
		return core.E("runsc.freeze", core.Exhausted, nil, "the memory of sandbox %s (up to %s) does not fit on the disk of %s (%s are free)",
			b.id, size(memory), dir, size(free)).WithHint("free some space: drydock snapshot gc")
	}
	return nil
}

// spec is what a recorded sandbox was, or is to be, started with.
func (r record) spec() sandbox.Spec {
	return sandbox.Spec{
		ID: r.Handle.ID, Purpose: r.Handle.Purpose, Owner: r.Handle.Owner, Layers: r.Handle.Layers, Hostname: r.Hostname, Env: r.Env,
		Limits: r.Limits, Network: r.Policy, Token: r.Handle.Token,
	}
}

// resume brings a sandbox back whose files and memory have been moved away,
// above a new upper directory. Nothing of it is mounted, and no pid file is left.
func (d *Driver) resume(ctx context.Context, b *box) error {
	p, rec := d.paths(b.id), b.record()
	f := *rec.Freeze
	layers := append([]string{f.frozen().Upper}, rec.Handle.Layers...)
	for _, dir := range []string{p.upper(), p.work()} {
		if err := tree.Remove(dir); err != nil {
			return err
		}
		if err := os.Mkdir(dir, 0o755); err != nil {
			return err
		}
	}
	if err := mountOverlay(layers, p.upper(), p.work(), p.root()); err != nil {
		return err
	}
	if err := d.deps.Network.Renew(ctx, b.id); err != nil {
		return err
	}
	// The bundle, namespace, host name and the files in /etc are as they were.
	_, err := d.boot(ctx, b, p, f.Image)
	return err
}

// wentOn records that a sandbox stands on what was frozen of it, which goes on
// counting towards its limit. A second call records it again.
func (d *Driver) wentOn(b *box) error {
	b.setMoving(false)
	var written int64
	if f := b.record().Freeze; f != nil {
		use, err := tree.Measure(f.frozen().Upper)
		if err != nil {
			d.deps.Log.Warn("what a sandbox had written before a snapshot is not counted any more", "sandbox", b.id, "error", err)
		}
		written = use.Bytes
	}
	return b.set(d.paths(b.id), false, func(r *record) {
		if r.Freeze == nil {
			return
		}
		f := *r.Freeze
		r.Handle.Layers, r.Freeze, r.Resumed = append([]string{f.frozen().Upper}, r.Handle.Layers...), nil, &f
		r.Written += written
	})
}

// goOn is resume, with what must be true when it fails: the sandbox is dead and
// its files are where the freeze has put them. old is what ends meanwhile.
func (d *Driver) goOn(ctx context.Context, b *box, old *leaving) error {
	err := d.resume(ctx, b)
	if err == nil {
		b.setPaused()
	}
	if endErr := old.end(ctx); err == nil {
		err = endErr
	}
	if err == nil {
		err = d.wentOn(b)
	}
	if err == nil {
		if !b.record().Process.alive() { // its watcher may have looked away
			d.ended(ctx, b, nil)
		}
		return nil
	}
	used, usedErr := hasFiles(d.paths(b.id).upper())
	if used {
		// It did go on, and has written: nothing of that is undone.
		if err := d.wentOn(b); err != nil {
			d.deps.Log.Error("cannot record what a sandbox stands on", "sandbox", b.id, "error", err)
		}
		d.lies(ctx, b, "it went on after a snapshot, and ended: "+err.Error())
		return core.E("runsc.freeze", core.Unavailable, err, "sandbox %s ended right after it went on", b.id)
	}
	// The image is whole. What got in the way may have been outside: once more.
	if usedErr == nil && ctx.Err() == nil {
		d.deps.Log.Warn("a sandbox did not go on after a snapshot, and is started again", "sandbox", b.id, "error", err)
		if d.stop(ctx, b) == nil && d.resume(ctx, b) == nil {
			b.setPaused()
			return d.wentOn(b)
		}
	}
	return d.cannotGoOn(ctx, b, err)
}

// cannotGoOn makes a sandbox that was stopped a dead one.
func (d *Driver) cannotGoOn(ctx context.Context, b *box, cause error) error {
	d.lies(ctx, b, "it was stopped for a snapshot and could not go on: "+cause.Error())
	return core.E("runsc.freeze", core.Unavailable, cause, "sandbox %s was stopped for a snapshot and could not go on", b.id).
		WithHint("its files are complete: freeze it into the same place, without memory")
}

// lies ends what is left of a sandbox and records it as dead.
func (d *Driver) lies(ctx context.Context, b *box, why string) {
	clean, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupTimeout)
	defer cancel()
	d.note(b, sandbox.CauseKilled, why)
	b.setMoving(false)
	if err := d.stop(clean, b); err != nil {
		d.deps.Log.Error("a sandbox that could not go on is not fully stopped", "sandbox", b.id, "error", err)
	}
	d.ended(clean, b, nil)
}

// Assign implements sandbox.Driver.
func (d *Driver) Assign(ctx context.Context, id core.SandboxID, to sandbox.Assignment) (sandbox.Handle, error) {
	const op = "runsc.assign"
	b, err := d.takeRunning(ctx, op, id)
	if err != nil {
		return sandbox.Handle{}, err
	}
	defer b.unlock()
	net, err := d.deps.Network.Hold(ctx, id, to.Network)
	if err != nil {
		return sandbox.Handle{}, core.E(op, core.KindOf(err), err, "network of sandbox %s", id)
	}
	d.wake(b)
	err = b.set(d.paths(id), false, func(r *record) {
		r.Policy, r.Shut = to.Network, true
		r.Handle.Purpose, r.Handle.Owner, r.Handle.Created = to.Purpose, to.Owner, time.Now().UTC()
		r.Handle.Env, r.Handle.Resolver = net.Env, net.Resolver
	})
	if err != nil {
		return sandbox.Handle{}, core.E(op, core.Internal, err, "record of sandbox %s", id)
	}
	select {
	case b.renewed <- struct{}{}:
	default:
	}
	return b.record().Handle, nil
}

// Open implements sandbox.Driver.
func (d *Driver) Open(ctx context.Context, id core.SandboxID) error {
	const op = "runsc.open"
	b, err := d.takeRunning(ctx, op, id)
	if err != nil {
		return err
	}
	defer b.unlock()
	rec := b.record()
	if _, err := d.deps.Network.Attach(ctx, id, rec.Policy); err != nil {
		return core.E(op, core.KindOf(err), err, "network of sandbox %s", id)
	}
	if !rec.Shut {
		return nil
	}
	if err := b.set(d.paths(id), false, func(r *record) { r.Shut = false }); err != nil {
		return core.E(op, core.Internal, err, "record of sandbox %s", id)
	}
	return nil
}
