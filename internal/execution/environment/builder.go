package environment

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"drydock/internal/core"
	"drydock/internal/execution/snapshot"
	"drydock/internal/gitcmd/mirror"
	"drydock/internal/store"
)

// BaseRequest asks for a base image.
type BaseRequest struct {
	Base     string
	Packages []string
	Fresh    bool         // look for a newer one
	Since    time.Time    // or for a newer one than one that was made before this moment
	Progress func(string) // a line for people; may be nil
}

// BaseImage is what lies below everything else.
type BaseImage struct {
	Digest    string
	Layers    []string // directories, topmost first
	Image     snapshot.Image
	Installed bool   // the packages are in it
	Family    string // "debian", "alpine", "rhel", ...: how packages are installed otherwise
	Cached    bool   // nothing had to be made
}

// BuilderDeps are what a Builder uses of others.
type BuilderDeps struct {
	DB        *store.DB
	Launcher  *Launcher
	Snapshots Snapshots
	// Append stores events of a build; who follows it sees them.
	Append func(ctx context.Context, subject string, events ...core.Event) error
	// Mirror opens the mirror of an environment's repository.
	Mirror func(ctx context.Context, env core.Environment) (*mirror.Mirror, error)
	// Refresh brings what the mirror follows up to date with the environment's
	// source, where the two differ (a forge in between); it may be nil.
	Refresh func(ctx context.Context, env core.Environment) error
	// Base makes a base image, or finds it.
	Base func(ctx context.Context, req BaseRequest) (BaseImage, error)
	// Room says whether the host has room for a build, and if not, why; queued
	// builds wait. Nil: it has.
	Room func(ctx context.Context) (ok bool, why string)
	Log  *slog.Logger
}

// BuilderOptions are the operator's.
type BuilderOptions struct {
	Dir     string // for logs and requests of builds; absolute
	Workers int    // builds at once; default 2
	// SetupTimeout bounds a step without a timeout of its own; default 30 min.
	SetupTimeout time.Duration
	// MaxSnapshotAge is how old a snapshot may be that is used in silence, where
	// the recipe does not say; 0: any age.
	MaxSnapshotAge time.Duration
	// LogEvents bounds the output of one build in its events, in bytes; default
	// 2 MiB. The file has all of it, up to LogFile (default 256 MiB).
	LogEvents, LogFile int64
}

// BuildRequest asks for a build.
type BuildRequest struct {
	Source string      `json:"source"` // URL or absolute path; may be empty when Name exists
	Name   string      `json:"name"`   // default: last part of the source
	Ref    string      `json:"ref"`    // branch, tag or commit; default the default branch
	Fresh  bool        `json:"fresh"`  // even if nothing has changed, and with a fresh base image
	By     core.Author `json:"by"`
	Why    string      `json:"why,omitempty"` // what made the platform ask; "" for people
}

// Builder executes recipes.
type Builder struct {
	deps BuilderDeps
	opts BuilderOptions

	wg sync.WaitGroup

	naming sync.Mutex // one environment is made at a time

	mu      sync.Mutex
	closed  bool
	queue   []job
	running map[core.EnvironmentID]running
	waits   bool          // the queue is looked at again when the host may have room
	ended   chan struct{} // closed by Close
}

type job struct {
	build core.Build
	req   BuildRequest
	told  bool // that it waits for room
}

type running struct {
	build  core.BuildID
	cancel context.CancelCauseFunc
	done   chan struct{}
}

var (
	errStopped     = errors.New("somebody asked for it to stop")
	errInterrupted = errors.New("the daemon ended")
)

// NewBuilder makes one; Start recovers what an earlier process left.
func NewBuilder(deps BuilderDeps, opts BuilderOptions) (*Builder, error) {
	if !filepath.IsAbs(opts.Dir) {
		return nil, core.E("environment.builder", core.Invalid, nil, "directory of builds %q is not absolute", opts.Dir)
	}
	if err := os.MkdirAll(opts.Dir, 0o700); err != nil {
		return nil, core.E("environment.builder", core.Unavailable, err, "directory of builds")
	}
	if deps.Log == nil {
		deps.Log = slog.New(slog.DiscardHandler)
	}
	if opts.Workers <= 0 {
		opts.Workers = 2
	}
	if opts.SetupTimeout <= 0 {
		opts.SetupTimeout = 30 * time.Minute
	}
	if opts.LogEvents <= 0 {
		opts.LogEvents = 2 << 20
	}
	if opts.LogFile <= 0 {
		opts.LogFile = 256 << 20
	}
	return &Builder{deps: deps, opts: opts, running: map[core.EnvironmentID]running{}, ended: make(chan struct{})}, nil
}

// Start goes on with builds that an earlier process left queued, and ends
// those that it left running: their sandboxes are gone.
func (b *Builder) Start(ctx context.Context) error {
	open, err := b.deps.DB.OpenBuilds(ctx)
	if err != nil {
		return err
	}
	for _, build := range open {
		if build.State == core.BuildQueued {
			req, err := b.loadRequest(build.ID)
			if err == nil {
				b.enqueue(job{build: build, req: req})
				continue
			}
			b.deps.Log.Warn("the request of a queued build is lost", "build", build.ID, "error", err)
		}
		b.finish(ctx, build.ID, core.BuildFailed, "", interrupted())
	}
	b.pump(ctx)
	return nil
}

func interrupted() *core.Failure {
	return &core.Failure{Code: codeInterrupted, Message: "the daemon ended while it ran", Hint: "build again"}
}

const codeInterrupted = "interrupted"

// Close stops running builds, which are recorded as interrupted, and waits.
// Queued ones stay queued.
func (b *Builder) Close() error {
	b.mu.Lock()
	if !b.closed {
		close(b.ended)
	}
	b.closed = true
	for _, r := range b.running {
		r.cancel(errInterrupted)
	}
	b.mu.Unlock()
	b.wg.Wait()
	return nil
}

// Build asks for a build and returns it at once, queued. If one that asks for
// the same waits already, it is returned instead. A new environment is made
// when there is none.
func (b *Builder) Build(ctx context.Context, req BuildRequest) (core.Build, error) {
	b.naming.Lock()
	defer b.naming.Unlock()
	env, err := b.environment(ctx, &req)
	if err != nil {
		return core.Build{}, err
	}
	if build, ok := b.waiting(env.ID, req); ok {
		return build, nil
	}
	build := core.Build{ID: core.NewBuildID(), Environment: env.ID, State: core.BuildQueued, By: req.By.Handle, Why: req.Why, Created: time.Now().UTC()}
	if err := b.saveRequest(build.ID, req); err != nil {
		return core.Build{}, core.E("environment.build", core.Unavailable, err, "request of build %s", build.ID)
	}
	if err := b.deps.DB.CreateBuild(ctx, build); err != nil {
		return core.Build{}, errors.Join(err, b.dropRequest(build.ID))
	}
	b.eventBy(ctx, build.ID, req.By.Handle, core.EventBuildState, core.BuildData{State: core.BuildQueued})
	b.enqueue(job{build: build, req: req})
	b.pump(ctx)
	return build, nil
}

// Stop ends a build that is queued or running.
func (b *Builder) Stop(ctx context.Context, id core.BuildID) error {
	b.mu.Lock()
	b.queue = slices.DeleteFunc(b.queue, func(j job) bool { return j.build.ID == id })
	var done chan struct{}
	for _, r := range b.running {
		if r.build == id {
			r.cancel(errStopped)
			done = r.done
		}
	}
	b.mu.Unlock()
	if done == nil {
		build, err := b.deps.DB.Build(ctx, id)
		if err != nil || build.State != core.BuildQueued {
			return err
		}
		b.finish(ctx, id, core.BuildStopped, "", nil)
		return nil
	}
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return core.E("environment.stop", core.KindOf(ctx.Err()), ctx.Err(), "build %s is stopping", id)
	}
}

// waiting finds a queued build of the same request.
func (b *Builder) waiting(env core.EnvironmentID, req BuildRequest) (core.Build, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, j := range b.queue {
		if j.build.Environment == env && j.req.Ref == req.Ref && j.req.Fresh == req.Fresh {
			return j.build, true
		}
	}
	return core.Build{}, false
}

func (b *Builder) enqueue(j job) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.queue = append(b.queue, j)
}

// pump starts what can be started: in order, but never two of one environment.
func (b *Builder) pump(ctx context.Context) {
	ctx = context.WithoutCancel(ctx) // a build outlives the request that asked for it
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return
	}
	for len(b.running) < b.opts.Workers {
		i := slices.IndexFunc(b.queue, func(j job) bool {
			_, busy := b.running[j.build.Environment]
			return !busy
		})
		if i < 0 || !b.room(ctx) {
			return
		}
		j := b.queue[i]
		b.queue = slices.Delete(b.queue, i, i+1)
		runCtx, cancel := context.WithCancelCause(ctx)
		done := make(chan struct{})
		b.running[j.build.Environment] = running{build: j.build.ID, cancel: cancel, done: done}
		b.wg.Go(func() {
			b.run(runCtx, j)
			cancel(nil)
			b.mu.Lock()
			delete(b.running, j.build.Environment)
			b.mu.Unlock()
			close(done)
			b.pump(ctx)
		})
	}
}

// finish writes the end of a build: the row, the environment's new snapshot if
// there is one, when to build next, and the event, which tells what the row
// says. A snapshot that somebody went back to meanwhile stays in use.
func (b *Builder) finish(ctx context.Context, id core.BuildID, state core.BuildState, snap core.SnapshotID, failure *core.Failure) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), recordTimeout)
	defer cancel()
	other := b.isOther(id)
	err := b.deps.DB.Tx(ctx, func(tx *store.Tx) error {
		build, err := tx.UpdateBuild(ctx, id, func(build *core.Build) error {
			build.State, build.Snapshot, build.Failure, build.Finished = state, snap, failure, time.Now().UTC()
			return nil
		})
		if err != nil {
			return err
		}
		row, err := tx.UpdateFreshness(ctx, build.Environment, func(row *store.Freshness) error {
			if snap != "" && build.Created.After(row.PinnedAt) {
				row.Pinned, row.PinnedAt, row.PinnedBy = "", time.Time{}, ""
			}
			// What was cut off says nothing of the environment.
			ran := state == core.BuildDone || failure != nil && failure.Code != codeInterrupted
			replan(row, ended{build: build, state: state, failure: failure, ref: other, counted: ran || state == core.BuildStopped}, time.Now().UTC())
			return nil
		})
		if err != nil || snap == "" || row.Pinned != "" {
			return err
		}
		_, err = tx.UpdateEnvironment(ctx, build.Environment, func(e *core.Environment) error {
			e.Snapshot = snap
			return nil
		})
		return err
	})
	if err != nil {
		b.deps.Log.Error("cannot record the end of a build", "build", id, "state", state, "error", err)
		return
	}
	b.event(ctx, id, core.EventBuildState, core.BuildData{State: state, Snapshot: snap, Failure: failure})
	if err := b.dropRequest(id); err != nil {
		b.deps.Log.Warn("request of a finished build stays", "build", id, "error", err)
	}
}

// event appends one; a build goes on without its events.
func (b *Builder) event(ctx context.Context, id core.BuildID, kind core.EventKind, data any) {
	b.eventBy(ctx, id, "", kind, data)
}

func (b *Builder) eventBy(ctx context.Context, id core.BuildID, actor string, kind core.EventKind, data any) {
	e := core.NewEvent(kind, data)
	e.Actor = actor
	if err := b.deps.Append(ctx, string(id), e); err != nil && ctx.Err() == nil {
		b.deps.Log.Error("cannot store an event of a build", "build", id, "kind", kind, "error", err)
	}
}

func (b *Builder) requestFile(id core.BuildID) string {
	return filepath.Join(b.opts.Dir, string(id)+".request.json")
}

// saveRequest keeps what the row of a build has no place for.
func (b *Builder) saveRequest(id core.BuildID, req BuildRequest) error {
	data, err := json.Marshal(req)
	if err != nil {
		return err
	}
	return os.WriteFile(b.requestFile(id), data, 0o600)
}

func (b *Builder) loadRequest(id core.BuildID) (req BuildRequest, err error) {
	data, err := os.ReadFile(b.requestFile(id))
	if err != nil {
		return req, err
	}
	return req, json.Unmarshal(data, &req)
}

// isOther says whether a build is of something else than the base branch.
func (b *Builder) isOther(id core.BuildID) bool {
	req, err := b.loadRequest(id)
	return err == nil && req.Ref != ""
}

func (b *Builder) dropRequest(id core.BuildID) error {
	err := os.Remove(b.requestFile(id))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
