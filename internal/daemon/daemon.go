// Package daemon wires the parts together and runs them. It is the only place
// that names adapters: drivers, forges, agents, providers.
//
// It holds no logic of its own beyond joining what does not know each other:
// small adapters between a consumer's interface and somebody's type.
//
// Start brings a daemon up on a state directory and returns when it answers;
// Close takes it down and leaves running sandboxes alone, which the next Start
// adopts. One state directory has one daemon at a time; several daemons with
// different ones run side by side.
//
//	d, err := daemon.Start(ctx, daemon.Options{State: dir, Listen: "127.0.0.1:0", ...})
//	defer d.Close(ctx)
package daemon

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"drydock/internal/containment"
	"drydock/internal/containment/egress"
	"drydock/internal/control/access"
	"drydock/internal/control/blueprint"
	"drydock/internal/control/codechange"
	"drydock/internal/control/event"
	"drydock/internal/control/outline"
	"drydock/internal/control/proving"
	"drydock/internal/control/review"
	"drydock/internal/control/selection"
	"drydock/internal/control/session"
	"drydock/internal/control/workspace"
	"drydock/internal/core"
	"drydock/internal/delivery/change"
	"drydock/internal/delivery/forge/local"
	"drydock/internal/execution/capacity"
	"drydock/internal/execution/environment"
	"drydock/internal/execution/image"
	"drydock/internal/execution/retention"
	"drydock/internal/execution/sandbox"
	"drydock/internal/execution/snapshot"
	"drydock/internal/execution/snapshot/overlay"
	"drydock/internal/execution/snapshot/registry"
	"drydock/internal/gitcmd"
	"drydock/internal/harness/model"
	"drydock/internal/obs"
	"drydock/internal/proof/evidence"
	"drydock/internal/store"
	"drydock/internal/store/blob"
	"drydock/internal/surface/preview"
)

const shutdownTimeout = 60 * time.Second

// Options of a daemon.
type Options struct {
	State  string // directory; made when missing
	Listen string // address of the interface
	// PublicURL and PlainHTTP are about browsers; see server.Options.
	PublicURL string
	PlainHTTP bool
	// PreviewListen, PreviewURL and PreviewMode are about previews of apps; see
	// preview.Options. All may be empty.
	PreviewListen, PreviewURL, PreviewMode string
	Runsc                                  string // path of runsc
	Init                                   string // path of drydock-init
	Driver                                 string // "runsc" (default) or "fake", which isolates nothing and is for tests
	Version                                string
	Environ                                []string // of the process: certificates, proxies
	Log                                    *slog.Logger
	Redact                                 func(string) string // removes secrets from text that is kept; may be nil

	Operator  core.Author               // who the token of the state directory belongs to
	Providers map[string]model.Provider // by the name before the slash of a model
	Prices    *model.Table
	Model     string // default of new sessions
	Budget    core.Budget
	Limits    core.Limits // where a recipe says nothing

	MaxSessions  int // that run at once; default 4
	MaxSandboxes int // of all purposes at once; default twice as many and two
	MaxBuilds    int // environment builds at once; default 1
	// IdleAfter is how long the sandbox of a session that does nothing runs on
	// before it is suspended; negative: it is suspended when a run ends.
	// Default 5 minutes.
	IdleAfter time.Duration
	// WarmMax and WarmMin bound how many restored sandboxes of one environment
	// wait for somebody; WarmMax of 0: none.
	WarmMax, WarmMin int
	// MaxSnapshotAge is how old a snapshot may be that sessions start from in
	// silence; 0: any age.
	MaxSnapshotAge time.Duration
	PerUser        int // of MaxSessions, for one person; 0 is no bound
	PerEnv         int // and for one environment
	Capacity       capacity.Options
	Host           func() (capacity.Host, error) // default: this machine
	Retention      retention.Policy
	CollectEvery   time.Duration // between collections in the background
	StorageMax     int64         // of all snapshots; 0: no bound
	Reruns         int
	NoPictures     bool
	Turns          int // model calls in one attempt
	Ranges         []netip.Prefix
	Allow          []string // what every sandbox may reach besides its recipe's
	Connections    int      // of one sandbox at once
	Upstream       egress.Upstream
	Gate           codechange.Gate
	NoApproval     bool // merging needs nobody's approval
	Images         image.Options
}

// Daemon is a running one.
type Daemon struct {
	opts Options
	log  *slog.Logger
	lock *os.File

	db         *store.DB
	events     *event.Log
	network    *containment.Network
	driver     sandbox.Driver
	snapshots  *overlay.Store
	registry   *registry.Service
	launcher   *environment.Launcher
	builder    *environment.Builder
	pool       *environment.Pool
	crowd      chan struct{} // a session waits for memory
	refresher  *environment.Refresher
	sessions   *session.Service
	capacity   *capacity.Keeper
	collector  *retention.Collector
	ensured    ensured
	workspaces *workspace.Manager
	prover     *proving.Prover
	access     *access.Service
	engine     *blueprint.Engine
	forge      *local.Forge
	repos      *repositories
	changes    *change.Service
	selections *selection.Service
	review     *review.Service
	crier      *townCrier
	runtime    snapshot.Runtime
	git        *gitcmd.Git
	images     *image.Store
	blobs      *blob.Store
	key        evidence.Key
	denials    *denials
	metrics    *obs.Metrics

	previews        *preview.Service
	previewListener net.Listener // nil: there is none that all share

	listener net.Listener
	stop     context.CancelFunc
	wg       sync.WaitGroup
	failed   chan error
}

// dir makes a directory of the state.
func (d *Daemon) dir(name string) (string, error) {
	dir := filepath.Join(d.opts.State, name)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", core.E("daemon.start", core.Unavailable, err, "state directory %s", dir)
	}
	return dir, nil
}

// Start brings a daemon up.
func Start(ctx context.Context, opts Options) (_ *Daemon, err error) {
	state, err := filepath.Abs(opts.State)
	if err != nil || opts.State == "" {
		return nil, core.E("daemon.start", core.Invalid, err, "state directory %q", opts.State)
	}
	opts.State = state
	if opts.MaxSessions <= 0 {
		opts.MaxSessions = 4
	}
	if opts.MaxSandboxes < opts.MaxSessions+2 {
		opts.MaxSandboxes = 2*opts.MaxSessions + 2
	}
	if opts.IdleAfter == 0 {
		opts.IdleAfter = 5 * time.Minute
	}
	if opts.Retention == (retention.Policy{}) {
		opts.Retention = retention.Default()
	}
	if opts.Log == nil {
		opts.Log = slog.New(slog.DiscardHandler)
	}
	d := &Daemon{opts: opts, log: opts.Log, metrics: obs.NewMetrics(), failed: make(chan error, 1), crowd: make(chan struct{}, 1)}
	defer func() {
		if err != nil {
			clean, cancel := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
			defer cancel()
			_ = d.Close(clean)
		}
	}()
	for _, part := range []func(context.Context) error{
		d.lockState, d.openStore, d.openExecution, d.openDelivery, d.openControl, d.recover, d.serve,
	} {
		if err := part(ctx); err != nil {
			return nil, err
		}
	}
	return d, nil
}

// lockState refuses a second daemon on the same directory.
func (d *Daemon) lockState(context.Context) error {
	if _, err := d.dir("."); err != nil {
		return err
	}
	f, err := os.OpenFile(filepath.Join(d.opts.State, "daemon.lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return core.E("daemon.start", core.Unavailable, err, "lock of the state directory %s", d.opts.State)
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		_ = f.Close()
		return core.E("daemon.start", core.Conflict, nil, "another daemon runs on %s", d.opts.State).
			WithHint("stop it, or give this one a directory of its own with --state")
	}
	d.lock = f
	return nil
}

func (d *Daemon) openStore(ctx context.Context) error {
	var err error
	if d.db, err = store.Open(ctx, store.Options{Path: filepath.Join(d.opts.State, "drydock.db")}); err != nil {
		return err
	}
	if made, err := outline.Catchup(ctx, d.db); err != nil {
		return err
	} else if made > 0 {
		d.log.Info("made outlines of sessions from before there were any", "sessions", made)
	}
	d.events = event.New(d.db, event.Options{})
	dir, err := d.dir("blobs")
	if err != nil {
		return err
	}
	if d.blobs, err = blob.New(dir); err != nil {
		return err
	}
	keys, err := d.dir("keys")
	if err != nil {
		return err
	}
	if d.key, err = evidence.LoadKey(filepath.Join(keys, "evidence.pem")); err != nil {
		return err
	}
	// Whoever checks a bundle elsewhere needs the public half.
	if err := writeFile(filepath.Join(keys, "evidence.pub"), string(d.key.Public().PEM())); err != nil {
		return err
	}
	d.access = access.New(d.db)
	operator := d.opts.Operator
	if operator.Name == "" {
		operator.Name, operator.Email = "Operator", "operator@localhost"
	}
	return d.access.Bootstrap(ctx, filepath.Join(d.opts.State, "token"), operator)
}

// recover takes over what an earlier process left, before anything new starts.
func (d *Daemon) recover(ctx context.Context) error {
	// Sandboxes of nobody go first: what is written with the others is not ended
	// by the store alone.
	if err := d.launcher.Recover(ctx, d.workspaces.Keep(ctx)); err != nil {
		return err
	}
	if err := d.snapshots.Recover(ctx); err != nil {
		return err
	}
	if d.network != nil {
		living, err := d.driver.List(ctx)
		if err != nil {
			return err
		}
		if _, err := d.network.Recover(ctx, living); err != nil {
			return err
		}
	}
	return d.builder.Start(ctx)
}

// serve opens the interface and lets the runners go.
func (d *Daemon) serve(ctx context.Context) error {
	var lc net.ListenConfig
	var err error
	if d.listener, err = lc.Listen(ctx, "tcp", d.opts.Listen); err != nil {
		return core.E("daemon.start", core.Unavailable, err, "listen on %s", d.opts.Listen).
			WithHint("is another daemon there? give another address with --listen")
	}
	if err := d.openPreviews(ctx); err != nil {
		return err
	}
	handler, err := d.handler()
	if err != nil {
		return err
	}
	if err := writeFile(filepath.Join(d.opts.State, "api.addr"), d.URL()+"\n"); err != nil {
		return err
	}
	run, stop := context.WithCancel(context.WithoutCancel(ctx))
	d.stop = stop
	for _, loop := range []func(context.Context) error{
		func(ctx context.Context) error { return handler.Serve(ctx, d.listener) },
		func(ctx context.Context) error { return d.previews.Serve(ctx, d.previewListener) },
		d.sessions.Run,
		d.selections.Run,
		d.denials.run,
		func(ctx context.Context) error { d.workspaces.Tend(ctx); return nil },
		func(ctx context.Context) error { d.pool.Run(ctx); return nil },
		d.makeRoom,
		d.collector.Run,
		d.refresher.Run,
		func(ctx context.Context) error { d.changes.Watch(ctx); return nil },
	} {
		d.wg.Go(func() {
			if err := loop(run); err != nil && run.Err() == nil {
				select {
				case d.failed <- err:
				default:
				}
			}
		})
	}
	return nil
}

// URL is where the interface answers.
func (d *Daemon) URL() string {
	if d.listener == nil {
		return ""
	}
	return "http://" + d.listener.Addr().String()
}

// Failed delivers the error of a part that ended by itself.
func (d *Daemon) Failed() <-chan error { return d.failed }

// Close ends everything but sandboxes: runs stay where they are and go on with
// the next Start. It is safe after a failed Start.
func (d *Daemon) Close(ctx context.Context) error {
	if d.stop != nil {
		d.stop()
	}
	d.wg.Wait()
	if d.previewListener != nil {
		_ = d.previewListener.Close() // it is closed already, unless the start failed
	}
	if d.builder != nil {
		_ = d.builder.Close()
	}
	var errs []error
	if d.launcher != nil {
		errs = append(errs, d.launcher.Close())
	}
	if d.driver != nil {
		errs = append(errs, d.driver.Close())
	}
	if d.network != nil {
		errs = append(errs, d.network.Close())
	}
	if d.db != nil {
		errs = append(errs, d.db.Close())
	}
	if d.lock != nil {
		errs = append(errs, d.lock.Close())
	}
	return errors.Join(errs...)
}

// Teardown is Close, and then removes every sandbox and network of this
// instance: nothing of it is left on the host but its state directory.
func (d *Daemon) Teardown(ctx context.Context) error {
	if d.stop != nil {
		d.stop()
	}
	d.wg.Wait()
	errs := []error{d.builder.Close(), d.launcher.Close()}
	ids, err := d.driver.List(ctx)
	errs = append(errs, err)
	for _, id := range ids {
		errs = append(errs, d.driver.Destroy(ctx, id))
	}
	errs = append(errs, d.driver.Close())
	if d.network != nil {
		errs = append(errs, d.network.Teardown(ctx))
	}
	return errors.Join(append(errs, d.db.Close(), d.lock.Close())...)
}

func writeFile(path, text string) error {
	tmp := path + ".new"
	if err := os.WriteFile(tmp, []byte(text), 0o600); err != nil {
		return core.E("daemon.start", core.Unavailable, err, "write %s", path)
	}
	return os.Rename(tmp, path)
}
