package runsc

import (
	"context"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"drydock/internal/core"
	"drydock/internal/execution/sandbox"
)

// Deps are what the driver uses of others.
type Deps struct {
	Network sandbox.Network
	Log     *slog.Logger
}

// Options say where things are.
type Options struct {
	Runsc    string // path of runsc
	Init     string // path of drydock-init
	StateDir string // of this driver alone; absolute
	Instance string // name of this driver among all on the host: small letters, digits, dash

	// DiskInterval is how often the disk limit is checked at most; default 2 s.
	DiskInterval time.Duration
	// StartTimeout bounds how long drydock-init may take to answer; default 30 s.
	StartTimeout time.Duration
}

const (
	name     = "runsc"
	idPrefix = "sbx_"

	// maxSocketDir leaves room for the name of runsc's control socket in the
	// 108 bytes a socket's path may have.
	maxSocketDir = 107 - len("/runsc-sbx_000000000000000000.sock")

	cleanupTimeout = 30 * time.Second
)

// Driver implements sandbox.Driver.
type Driver struct {
	deps      Deps
	opts      Options
	runscRoot string
	cgroups   cgroups

	// making is read-locked while runsc makes or removes things in places that
	// all sandboxes share, and locked to take such a place away.
	making sync.RWMutex

	watchers sync.WaitGroup
	closed   chan struct{} // by Close
	close    func()

	mu    sync.Mutex
	boxes map[core.SandboxID]*box

	programs programs
	features func() ([]string, error) // of this machine's processor
}

var _ sandbox.Driver = (*Driver)(nil)

// New checks the options and makes the state directory. It starts nothing and
// adopts nothing; see Recover and List.
func New(deps Deps, opts Options) (*Driver, error) {
	const op = "runsc.new"
	if deps.Network == nil {
		return nil, core.E(op, core.Internal, nil, "the runsc driver needs a network: without one no sandbox can be reached")
	}
	if deps.Log == nil {
		deps.Log = slog.New(slog.DiscardHandler)
	}
	for what, path := range map[string]*string{"runsc": &opts.Runsc, "drydock-init": &opts.Init} {
		abs, err := filepath.Abs(*path)
		if err != nil {
			return nil, core.E(op, core.Internal, err, "path of %s %q", what, *path)
		}
		if st, err := os.Stat(abs); err != nil || st.IsDir() {
			return nil, core.E(op, core.Unavailable, err, "%s is not at %q", what, abs).
				WithHint("build it with `make build`, or set its path in the configuration")
		}
		*path = abs
	}
	if opts.Instance == "" || len(opts.Instance) > 32 || strings.Trim(opts.Instance, "abcdefghijklmnopqrstuvwxyz0123456789-") != "" {
		return nil, core.E(op, core.Invalid, nil, "instance name %q must be 1 to 32 small letters, digits or dashes", opts.Instance)
	}
	if !filepath.IsAbs(opts.StateDir) {
		return nil, core.E(op, core.Invalid, nil, "state directory %q is not an absolute path", opts.StateDir)
	}
	if opts.DiskInterval <= 0 {
		opts.DiskInterval = 2 * time.Second
	}
	if opts.StartTimeout <= 0 {
		opts.StartTimeout = 30 * time.Second
	}
	opts.StateDir = filepath.Clean(opts.StateDir)
	d := &Driver{deps: deps, opts: opts, boxes: map[core.SandboxID]*box{}}
	d.cgroups = newCgroups(cgroupMount, "/drydock-"+opts.Instance)
	d.runscRoot = filepath.Join(opts.StateDir, "runsc")
	if len(d.runscRoot) > maxSocketDir {
		d.runscRoot = filepath.Join("/run/drydock", opts.Instance, "runsc")
	}
	// Snapshots hold set-uid files of foreign systems: nobody else may look in.
	for _, dir := range []string{opts.StateDir, d.sandboxesDir(), d.runscRoot} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return nil, core.E(op, core.Unavailable, err, "state directory %s", dir)
		}
	}
	d.programs = newPrograms(filepath.Join(opts.StateDir, "programs"))
	d.features = sync.OnceValues(d.readFeatures)
	d.closed = make(chan struct{})
	d.close = sync.OnceFunc(func() { close(d.closed) })
	return d, nil
}

// Name implements sandbox.Driver.
func (d *Driver) Name() string { return name }

// Capabilities implements sandbox.Driver.
func (d *Driver) Capabilities() sandbox.Capabilities {
	return sandbox.Capabilities{Memory: true, Fork: true, Limits: true, Rest: d.cgroups.canRest()}
}

// box is a sandbox that this process knows.
type box struct {
	id core.SandboxID
	op chan struct{} // holds one token; mutating calls take it

	mu      sync.Mutex
	rec     record
	disk    int64
	moving  bool          // its processes end now only to go on later
	stopped time.Time     // since when
	paused  time.Duration // from then until it answered again
	resting bool          // nothing in it runs
	gone    bool          // destroyed; the box is no longer in the map
	done    chan struct{} // closed when the sandbox is no longer running
	watched chan struct{} // closed when the watcher has ended
	renewed chan struct{} // its lifetime has begun anew
}

func newBox(id core.SandboxID) *box {
	b := &box{id: id, op: make(chan struct{}, 1), done: make(chan struct{}), renewed: make(chan struct{}, 1)}
	b.op <- struct{}{}
	return b
}

// ended is closed when the sandbox is no longer running.
func (b *box) ended() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.done
}

func (b *box) setMoving(moving bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.moving = moving
	if moving {
		b.stopped, b.paused = time.Now(), 0
	}
}

// setPaused is called when a sandbox that was moving answers.
func (b *box) setPaused() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.stopped.IsZero() { // else another daemon has stopped it
		b.paused = time.Since(b.stopped)
	}
}

// pause is how long it last did not answer.
func (b *box) pause() time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.paused
}

func (b *box) isMoving() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.moving
}

// lock takes the right to change the sandbox, or gives up with ctx.
func (b *box) lock(ctx context.Context) error {
	select {
	case <-b.op:
		return nil
	case <-ctx.Done():
		return core.E("runsc.lock", core.KindOf(ctx.Err()), ctx.Err(), "another operation on sandbox %s has not ended", b.id)
	}
}

func (b *box) unlock() { b.op <- struct{}{} }

// snapshot of the record.
func (b *box) record() record {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.rec
}

// set changes the record in memory and on disk.
func (b *box) set(p paths, durable bool, change func(*record)) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	change(&b.rec)
	return p.save(b.rec, durable)
}

// known returns the box of a sandbox.
func (d *Driver) known(op string, id core.SandboxID) (*box, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if b := d.boxes[id]; b != nil {
		return b, nil
	}
	return nil, core.E(op, core.NotFound, nil, "sandbox %s is not known", id)
}

// take returns the box of a sandbox, locked for the caller.
func (d *Driver) take(ctx context.Context, op string, id core.SandboxID) (*box, error) {
	b, err := d.known(op, id)
	if err != nil {
		return nil, err
	}
	if err := b.lock(ctx); err != nil {
		return nil, err
	}
	return b, nil
}

// takeRunning is take for what only a sandbox that runs can do.
func (d *Driver) takeRunning(ctx context.Context, op string, id core.SandboxID) (*box, error) {
	b, err := d.take(ctx, op, id)
	if err != nil {
		return nil, err
	}
	if s := b.record().State; s != core.SandboxRunning {
		b.unlock()
		return nil, core.E(op, core.Conflict, nil, "sandbox %s is %s", id, s)
	}
	return b, nil
}

// claim adds a box, locked for the caller, or returns the one there is.
func (d *Driver) claim(id core.SandboxID) (b *box, fresh bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if b := d.boxes[id]; b != nil {
		return b, false
	}
	b = newBox(id)
	<-b.op
	d.boxes[id] = b
	return b, true
}

func (d *Driver) forget(b *box) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.boxes[b.id] == b {
		delete(d.boxes, b.id)
	}
	b.mu.Lock()
	b.gone = true
	b.mu.Unlock()
}

// Status implements sandbox.Driver.
func (d *Driver) Status(_ context.Context, id core.SandboxID) (sandbox.Status, error) {
	b, err := d.known("runsc.status", id)
	if err != nil {
		return sandbox.Status{}, err
	}
	return d.status(b), nil
}

func (d *Driver) status(b *box) sandbox.Status {
	b.mu.Lock()
	s := sandbox.Status{State: b.rec.State, Disk: b.disk}
	if b.rec.Freeze != nil {
		s.Frozen = b.rec.Freeze.Into
	}
	if b.rec.Resumed != nil {
		s.Resumed = b.rec.Resumed.Into
	}
	if s.State != core.SandboxRunning && s.State != core.SandboxCreating {
		s.Cause, s.Detail = b.rec.Cause, b.rec.Detail
	}
	b.mu.Unlock()
	if s.State == core.SandboxRunning {
		s.Memory, s.Pids = d.cgroups.usage(b.id)
	}
	return s
}

// Wait implements sandbox.Driver.
func (d *Driver) Wait(ctx context.Context, id core.SandboxID) (sandbox.Status, error) {
	b, err := d.known("runsc.wait", id)
	if err != nil {
		return sandbox.Status{}, err
	}
	select {
	case <-b.ended():
		return d.status(b), nil
	case <-d.closed:
		return sandbox.Status{}, core.E("runsc.wait", core.Canceled, nil, "the driver is closing; sandbox %s runs on", id)
	case <-ctx.Done():
		return sandbox.Status{}, core.E("runsc.wait", core.KindOf(ctx.Err()), ctx.Err(), "waiting for sandbox %s", id)
	}
}

// Dial implements sandbox.Driver.
func (d *Driver) Dial(ctx context.Context, id core.SandboxID, port int) (net.Conn, error) {
	const op = "runsc.dial"
	b, err := d.known(op, id)
	if err != nil {
		return nil, err
	}
	if port < 1 || port > 65535 {
		return nil, core.E(op, core.Invalid, nil, "port %d is not between 1 and 65535", port)
	}
	r := b.record()
	if r.State != core.SandboxRunning {
		return nil, core.E(op, core.Conflict, nil, "sandbox %s is %s", id, r.State)
	}
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "tcp", net.JoinHostPort(r.Handle.Guest.Addr().String(), strconv.Itoa(port)))
	if err != nil {
		return nil, core.E(op, core.Unavailable, err, "port %d of sandbox %s", port, id).
			WithHint("the program must listen on 0.0.0.0, not on 127.0.0.1 only")
	}
	return conn, nil
}

// List implements sandbox.Driver.
func (d *Driver) List(ctx context.Context) ([]core.SandboxID, error) {
	const op = "runsc.list"
	found := map[core.SandboxID]bool{}
	add := func(s string) {
		if id, err := core.ParseID[core.SandboxID](idPrefix, s); err == nil {
			found[id] = true
		}
	}
	entries, err := os.ReadDir(d.sandboxesDir())
	if err != nil {
		return nil, core.E(op, core.Internal, err, "sandboxes of %s", d.opts.StateDir)
	}
	for _, e := range entries {
		add(e.Name())
	}
	files, err := os.ReadDir(d.runscRoot)
	if err != nil {
		return nil, core.E(op, core.Internal, err, "state of runsc in %s", d.runscRoot)
	}
	for _, e := range files {
		if i := strings.Index(e.Name(), idPrefix); i >= 0 && len(e.Name()) >= i+idLen {
			add(e.Name()[i : i+idLen])
		}
	}
	for _, id := range d.cgroups.list() {
		add(string(id))
	}
	ids, err := d.deps.Network.List(ctx)
	if err != nil {
		return nil, core.E(op, core.KindOf(err), err, "networks of sandboxes")
	}
	for _, id := range ids {
		add(string(id))
	}
	return sorted(found), nil
}

// Close implements sandbox.Driver.
func (d *Driver) Close() error {
	d.close()
	d.watchers.Wait()
	return nil
}
