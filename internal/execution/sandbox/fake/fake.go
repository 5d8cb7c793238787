// Package fake is a sandbox driver for tests: drydock-init's supervisor in this
// process, on a directory that holds a copy of the layers. It needs no root
// and no runsc, and it fails on request.
//
// It isolates nothing: commands run on the host with the host's programs, in
// the directory that stands for /workspace, so tests use relative paths. It
// enforces no limits. What a killed daemon would leave behind lives in a World,
// which outlasts any number of drivers.
//
// All methods may be called from many goroutines.
//
//	world := fake.NewWorld(t.TempDir())
//	defer world.Close()
//	d := world.Driver(fake.Options{})
//	world.Faults.Set(fake.Create, fake.Fault{Err: errors.New("no space")})
package fake

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"time"

	"drydock/internal/core"
	"drydock/internal/execution/guest/supervisor"
	"drydock/internal/execution/sandbox"
)

const name = "fake"

// World is the host: what survives the death of a daemon.
type World struct {
	Faults Faults

	dir string
	wg  sync.WaitGroup

	mu    sync.Mutex
	boxes map[core.SandboxID]*box
}

// box is one sandbox in the world.
type box struct {
	spec   sandbox.Spec
	handle sandbox.Handle
	dir    string
	op     sync.Mutex // serialises what changes the sandbox
	ear    ear

	mu     sync.Mutex
	status sandbox.Status
	frozen string // Into
	image  *sandbox.Image
	moving chan struct{} // closed instead of done: the sandbox goes on afterwards
	stop   context.CancelFunc
	done   chan struct{} // closed when it no longer runs
}

// NewWorld makes an empty world in a directory.
func NewWorld(dir string) *World {
	return &World{dir: dir, boxes: map[core.SandboxID]*box{}}
}

// Close ends every sandbox and waits for it.
func (w *World) Close() {
	w.mu.Lock()
	for _, b := range w.boxes {
		b.end(sandbox.CauseStopped, "the world ended")
	}
	w.mu.Unlock()
	w.wg.Wait()
}

// Kill ends a sandbox from outside.
func (w *World) Kill(id core.SandboxID) { w.die(id, sandbox.CauseKilled, "killed by a test") }

// OutOfMemory ends a sandbox as if it had used all its memory.
func (w *World) OutOfMemory(id core.SandboxID) {
	w.die(id, sandbox.CauseMemory, "needed more than its memory limit")
}

func (w *World) die(id core.SandboxID, cause sandbox.Cause, detail string) {
	if b := w.box(id); b != nil {
		b.end(cause, detail)
		<-b.done
	}
}

// Running counts the sandboxes that are alive.
func (w *World) Running() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := 0
	for _, b := range w.boxes {
		if b.state().State == core.SandboxRunning {
			n++
		}
	}
	return n
}

// Root is the directory that stands for the root of a sandbox.
func (w *World) Root(id core.SandboxID) string { return filepath.Join(w.dir, string(id), "root") }

func (w *World) box(id core.SandboxID) *box {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.boxes[id]
}

func (b *box) state() sandbox.Status {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.status
}

// end is the end of a running sandbox; a second call changes nothing.
func (b *box) end(cause sandbox.Cause, detail string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.status.State == core.SandboxRunning && b.status.Cause == sandbox.CauseNone {
		b.status.Cause, b.status.Detail = cause, detail
	}
	b.ear.uncover() // it ends in order
	b.stop()
}

// Options of one driver.
type Options struct {
	Network sandbox.Network // optional; its Env and Resolver are handed on, its address is not used
	// Memory makes the driver take memory images and restore them. No process
	// goes on in them: who restores one finds the files alone.
	Memory bool
	Rest   bool // sandboxes can rest: nothing answers then, but processes go on
}

// Driver makes a driver in the world, as a daemon does when it starts. It
// knows nothing until it creates or recovers.
func (w *World) Driver(opts Options) *Driver {
	d := &Driver{world: w, opts: opts, known: map[core.SandboxID]bool{}, closed: make(chan struct{})}
	d.close = sync.OnceFunc(func() { close(d.closed) })
	return d
}

// Driver implements sandbox.Driver.
type Driver struct {
	world  *World
	opts   Options
	closed chan struct{} // by Close
	close  func()

	mu    sync.Mutex
	known map[core.SandboxID]bool
}

var _ sandbox.Driver = (*Driver)(nil)

// Name implements sandbox.Driver.
func (d *Driver) Name() string { return name }

// Capabilities implements sandbox.Driver.
func (d *Driver) Capabilities() sandbox.Capabilities {
	return sandbox.Capabilities{Memory: d.opts.Memory, Fork: d.opts.Memory, Rest: d.opts.Rest}
}

// Close implements sandbox.Driver.
func (d *Driver) Close() error {
	d.close()
	return nil
}

func (d *Driver) learn(id core.SandboxID, known bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if known {
		d.known[id] = true
	} else {
		delete(d.known, id)
	}
}

func (d *Driver) find(op string, id core.SandboxID) (*box, error) {
	d.mu.Lock()
	known := d.known[id]
	d.mu.Unlock()
	if b := d.world.box(id); known && b != nil {
		return b, nil
	}
	return nil, core.E(op, core.NotFound, nil, "sandbox %s is not known", id)
}

// Create implements sandbox.Driver.
func (d *Driver) Create(ctx context.Context, spec sandbox.Spec) (sandbox.Handle, error) {
	const op = "fake.create"
	if err := check(spec); err != nil {
		return sandbox.Handle{}, err
	}
	b := &box{
		spec: spec, dir: filepath.Join(d.world.dir, string(spec.ID)), done: make(chan struct{}), stop: func() {},
		status: sandbox.Status{State: core.SandboxCreating},
	}
	b.op.Lock()
	defer b.op.Unlock()
	d.world.mu.Lock()
	if d.world.boxes[spec.ID] != nil {
		d.world.mu.Unlock()
		return sandbox.Handle{}, core.E(op, core.Conflict, nil, "sandbox %s exists already", spec.ID)
	}
	d.world.boxes[spec.ID] = b
	d.world.mu.Unlock()
	d.learn(spec.ID, true)

	err := d.world.Faults.before(ctx, Create)
	if err == nil && spec.Image != nil {
		err = d.Fits(ctx, spec)
	}
	if err == nil {
		err = d.start(ctx, b, "127.0.0.1:0")
	}
	if err == nil {
		err = d.world.Faults.after(ctx, Create)
	}
	if errors.Is(err, ErrDaemonDies) {
		return sandbox.Handle{}, err // whoever comes next finds what is there
	}
	if err != nil {
		if cleanErr := d.destroy(context.WithoutCancel(ctx), b); cleanErr != nil {
			err = errors.Join(err, cleanErr)
		}
		return sandbox.Handle{}, core.E(op, core.KindOf(err), err, "sandbox %s did not start", spec.ID)
	}
	return b.handle, nil
}

func check(spec sandbox.Spec) error {
	const op = "fake.create"
	if _, err := core.ParseID[core.SandboxID]("sbx_", string(spec.ID)); err != nil {
		return core.E(op, core.Invalid, err, "")
	}
	if len(spec.Layers) == 0 || spec.Token == "" {
		return core.E(op, core.Invalid, nil, "sandbox %s has no layers or no token", spec.ID)
	}
	for _, layer := range spec.Layers {
		if st, err := os.Stat(layer); err != nil || !st.IsDir() {
			return core.E(op, core.NotFound, err, "layer %q of sandbox %s is not a directory", layer, spec.ID)
		}
	}
	return nil
}

// start copies the layers and serves the guest.
func (d *Driver) start(ctx context.Context, b *box, address string) error {
	root := d.world.Root(b.spec.ID)
	if err := compose(ctx, b.spec.Layers, root); err != nil {
		return err
	}
	h := sandbox.Handle{
		Driver: name, ID: b.spec.ID, Purpose: b.spec.Purpose, Owner: b.spec.Owner, Token: b.spec.Token, Created: time.Now().UTC(),
		Layers: b.spec.Layers,
	}
	if d.opts.Network != nil {
		attach := d.opts.Network.Attach
		if b.spec.Image != nil {
			attach = d.opts.Network.Hold
		}
		a, err := attach(ctx, b.spec.ID, b.spec.Network)
		if err != nil {
			return err
		}
		h.Env, h.Resolver = a.Env, a.Resolver
	}
	var lc net.ListenConfig
	ln, err := lc.Listen(ctx, "tcp4", address)
	if err != nil {
		return err
	}
	h.Guest, err = netip.ParseAddrPort(ln.Addr().String())
	if err != nil {
		return errors.Join(err, ln.Close())
	}
	sup, err := supervisor.New(supervisor.Options{
		Root: root, Token: b.spec.Token, Listen: earListener{ln, &b.ear}, Version: name,
		Env: append([]string{"PATH=" + os.Getenv("PATH")}, b.spec.Env...), //nolint:forbidigo // the host's programs
	})
	if err != nil {
		return errors.Join(err, ln.Close())
	}
	serve, stop := context.WithCancel(context.WithoutCancel(ctx))
	b.mu.Lock()
	b.handle, b.stop, b.status.State = h, stop, core.SandboxRunning
	b.mu.Unlock()
	d.world.wg.Go(func() {
		err := sup.Serve(serve)
		stop()
		_ = d.world.Faults.before(context.WithoutCancel(serve), Notice)
		b.ended(err)
	})
	return nil
}

// ended records that the supervisor has returned.
func (b *box) ended(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.moving != nil {
		close(b.moving)
		b.moving = nil
		return
	}
	if b.status.State == core.SandboxRunning {
		b.status.State = core.SandboxDead
		if b.status.Cause == sandbox.CauseNone {
			b.status.Cause = sandbox.CauseExited
			if err != nil {
				b.status.Detail = err.Error()
			}
		}
	}
	close(b.done)
}

// Recover implements sandbox.Driver.
func (d *Driver) Recover(ctx context.Context, h sandbox.Handle) (sandbox.Status, error) {
	const op = "fake.recover"
	if err := d.world.Faults.before(ctx, Recover); err != nil {
		return sandbox.Status{}, core.E(op, core.KindOf(err), err, "sandbox %s", h.ID)
	}
	b := d.world.box(h.ID)
	if b == nil {
		return sandbox.Status{}, core.E(op, core.NotFound, nil, "nothing of sandbox %s is left", h.ID)
	}
	b.op.Lock()
	defer b.op.Unlock()
	b.mu.Lock()
	if b.status.State == core.SandboxCreating { // its creator died on the way
		b.status.State, b.status.Cause, b.status.Detail = core.SandboxDead, sandbox.CauseKilled, "its creation was interrupted"
		close(b.done)
	}
	b.mu.Unlock()
	s := b.state()
	if s.State == core.SandboxRunning && d.opts.Network != nil {
		if _, err := d.opts.Network.Attach(ctx, h.ID, b.spec.Network); err != nil {
			return sandbox.Status{}, core.E(op, core.KindOf(err), err, "network of sandbox %s", h.ID)
		}
	}
	b.ear.uncover()
	d.learn(h.ID, true)
	return s, nil
}

// Status implements sandbox.Driver.
func (d *Driver) Status(ctx context.Context, id core.SandboxID) (sandbox.Status, error) {
	if err := d.world.Faults.before(ctx, Status); err != nil {
		return sandbox.Status{}, core.E("fake.status", core.KindOf(err), err, "sandbox %s", id)
	}
	b, err := d.find("fake.status", id)
	if err != nil {
		return sandbox.Status{}, err
	}
	return b.state(), nil
}

// Wait implements sandbox.Driver.
func (d *Driver) Wait(ctx context.Context, id core.SandboxID) (sandbox.Status, error) {
	const op = "fake.wait"
	b, err := d.find(op, id)
	if err != nil {
		return sandbox.Status{}, err
	}
	select {
	case <-b.done:
		return b.state(), nil
	case <-d.closed:
		return sandbox.Status{}, core.E(op, core.Canceled, nil, "the driver is closing; sandbox %s runs on", id)
	case <-ctx.Done():
		return sandbox.Status{}, core.E(op, core.KindOf(ctx.Err()), ctx.Err(), "waiting for sandbox %s", id)
	}
}

// Dial implements sandbox.Driver. Ports inside are ports of the host, but for
// the guest's own.
func (d *Driver) Dial(ctx context.Context, id core.SandboxID, port int) (net.Conn, error) {
	const op = "fake.dial"
	b, err := d.find(op, id)
	if err != nil {
		return nil, err
	}
	if err := d.world.Faults.before(ctx, Dial); err != nil {
		return nil, core.E(op, core.KindOf(err), err, "port %d of sandbox %s", port, id)
	}
	if port < 1 || port > 65535 {
		return nil, core.E(op, core.Invalid, nil, "port %d is not between 1 and 65535", port)
	}
	if s := b.state(); s.State != core.SandboxRunning {
		return nil, core.E(op, core.Conflict, nil, "sandbox %s is %s", id, s.State)
	}
	addr := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	if port == sandbox.GuestPort {
		addr = b.handle.Guest.String()
	}
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, core.E(op, core.Unavailable, err, "port %d of sandbox %s", port, id)
	}
	return conn, nil
}

// Freeze implements sandbox.Driver.
func (d *Driver) Freeze(ctx context.Context, id core.SandboxID, opts sandbox.FreezeOptions) (sandbox.Frozen, error) {
	const op = "fake.freeze"
	if opts.Memory && !d.opts.Memory {
		return sandbox.Frozen{}, core.E(op, core.Unavailable, nil, "this driver does not take memory images")
	}
	b, err := d.find(op, id)
	if err != nil {
		return sandbox.Frozen{}, err
	}
	b.op.Lock()
	defer b.op.Unlock()
	if err := d.world.Faults.before(ctx, Freeze); err != nil {
		return sandbox.Frozen{}, core.E(op, core.KindOf(err), err, "sandbox %s", id)
	}
	b.ear.uncover()
	frozen := sandbox.Frozen{Upper: filepath.Join(opts.Into, "upper")}
	switch s := b.state(); {
	case s.State == core.SandboxFrozen && b.frozen == opts.Into, opts.Resume && b.frozen == opts.Into:
		frozen.Image = b.image
		return frozen, nil
	case s.State == core.SandboxFrozen:
		return sandbox.Frozen{}, core.E(op, core.Conflict, nil, "sandbox %s is already frozen into %s", id, b.frozen)
	case s.State != core.SandboxRunning && s.State != core.SandboxDead:
		return sandbox.Frozen{}, core.E(op, core.Conflict, nil, "sandbox %s is %s and cannot be frozen", id, s.State)
	}
	if b.frozen != opts.Into {
		if _, err := os.Lstat(opts.Into); err == nil {
			return sandbox.Frozen{}, core.E(op, core.Conflict, nil, "%s exists already", opts.Into)
		}
	}
	if opts.Resume && b.state().State != core.SandboxRunning {
		return sandbox.Frozen{}, core.E(op, core.Conflict, nil, "sandbox %s has no memory to go on from", id)
	}
	memory := opts.Memory && b.state().State == core.SandboxRunning
	if opts.Resume {
		moved := make(chan struct{})
		b.mu.Lock()
		b.moving = moved
		b.stop()
		b.mu.Unlock()
		<-moved
	} else {
		b.end(sandbox.CauseStopped, "frozen")
		<-b.done
	}
	b.frozen = opts.Into
	b.mu.Lock()
	b.status.Frozen = opts.Into
	b.mu.Unlock()
	if err := d.move(b, opts.Into, frozen.Upper); err != nil {
		return sandbox.Frozen{}, core.E(op, core.Internal, err, "files of sandbox %s", id)
	}
	if memory {
		if frozen.Image, err = d.remember(b, opts.Into); err != nil {
			return sandbox.Frozen{}, core.E(op, core.Internal, err, "memory of sandbox %s", id)
		}
		b.image = frozen.Image
	}
	if opts.Resume {
		b.spec.Layers = append([]string{frozen.Upper}, b.spec.Layers...)
		address := b.handle.Guest.String()
		b.mu.Lock()
		b.status.Frozen, b.status.Resumed = "", opts.Into
		b.mu.Unlock()
		if err := d.start(ctx, b, address); err != nil {
			return sandbox.Frozen{}, core.E(op, core.Internal, err, "sandbox %s cannot go on", id)
		}
	} else {
		b.mu.Lock()
		b.status.State = core.SandboxFrozen
		b.mu.Unlock()
	}
	if err := d.world.Faults.after(ctx, Freeze); err != nil {
		return sandbox.Frozen{}, core.E(op, core.KindOf(err), err, "sandbox %s", id)
	}
	return frozen, nil
}

func (d *Driver) move(b *box, into, upper string) error {
	if err := os.Mkdir(into, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	root := d.world.Root(b.spec.ID)
	if err := markWhole(root); err != nil {
		return err
	}
	return os.Rename(root, upper)
}

// Destroy implements sandbox.Driver.
func (d *Driver) Destroy(ctx context.Context, id core.SandboxID) error {
	const op = "fake.destroy"
	if _, err := core.ParseID[core.SandboxID]("sbx_", string(id)); err != nil {
		return core.E(op, core.Invalid, err, "")
	}
	if err := d.world.Faults.before(ctx, Destroy); err != nil {
		return core.E(op, core.KindOf(err), err, "sandbox %s", id)
	}
	b := d.world.box(id)
	if b == nil {
		return nil
	}
	b.op.Lock()
	defer b.op.Unlock()
	if err := d.destroy(ctx, b); err != nil {
		return core.E(op, core.KindOf(err), err, "sandbox %s is not fully removed", id)
	}
	if err := d.world.Faults.after(ctx, Destroy); err != nil {
		return core.E(op, core.KindOf(err), err, "sandbox %s", id)
	}
	return nil
}

func (d *Driver) destroy(ctx context.Context, b *box) error {
	b.mu.Lock()
	gone := b.status.State == core.SandboxGone
	wasRunning := b.status.State == core.SandboxRunning
	b.mu.Unlock()
	if gone {
		return nil
	}
	if wasRunning {
		b.end(sandbox.CauseStopped, "destroyed")
		<-b.done
	}
	if d.opts.Network != nil {
		if err := d.opts.Network.Detach(ctx, b.spec.ID); err != nil {
			return err
		}
	}
	if err := os.RemoveAll(b.dir); err != nil {
		return err
	}
	b.mu.Lock()
	if b.status.State == core.SandboxCreating {
		close(b.done)
	}
	b.status.State = core.SandboxGone
	b.mu.Unlock()
	d.world.mu.Lock()
	delete(d.world.boxes, b.spec.ID)
	d.world.mu.Unlock()
	d.learn(b.spec.ID, false)
	return nil
}

// List implements sandbox.Driver.
func (d *Driver) List(ctx context.Context) ([]core.SandboxID, error) {
	if err := d.world.Faults.before(ctx, List); err != nil {
		return nil, core.E("fake.list", core.KindOf(err), err, "")
	}
	d.world.mu.Lock()
	defer d.world.mu.Unlock()
	return slices.Sorted(maps.Keys(d.world.boxes)), nil
}
