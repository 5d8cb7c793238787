package environment

import (
	"context"
	"log/slog"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"time"

	"drydock/internal/core"
	"drydock/internal/execution/image"
	"drydock/internal/gitcmd/mirror"
	"drydock/internal/store"
)

// Images makes base images.
type Images interface {
	Ensure(ctx context.Context, req image.Request) (image.Image, error)
}

// Repositories finds the mirror of a source. Import gives the forge a chance
// to take the source in first; the URL it returns is what the mirror follows.
type Repositories interface {
	Import(ctx context.Context, name, source string) (url string, err error)
	Mirror(ctx context.Context, env core.Environment) (*mirror.Mirror, error)
}

// Log appends events of builds.
type Log interface {
	Append(ctx context.Context, subject string, events ...core.Event) ([]core.Event, error)
}

// BuilderDeps are the parts a Builder speaks to.
type BuilderDeps struct {
	DB           *store.DB
	Events       Log
	Launcher     *Launcher
	Snapshots    Snapshots
	Images       Images
	Repositories Repositories
	Log          *slog.Logger
}

// BuilderOptions bound a Builder.
type BuilderOptions struct {
	LogDir      string // full logs of builds
	Parallel    int    // builds at once; default 2
	Limits      core.Limits
	InitVersion string // of drydock-init, part of what a build depends on
}

// Builder turns recipes into snapshots.
type Builder struct {
	d    BuilderDeps
	opts BuilderOptions

	slots chan struct{}
	wg    sync.WaitGroup
	base  context.Context //nolint:containedctx // builds outlive the request that asked for them
	stop  context.CancelCauseFunc

	mu      sync.Mutex
	running map[core.EnvironmentID]core.BuildID
}

// errShutdown is the cause when the daemon ends while a build runs.
var errShutdown = core.E("environment.build", core.Canceled, nil, "the daemon shut down")

// NewBuilder returns a Builder. Close it.
func NewBuilder(d BuilderDeps, opts BuilderOptions) *Builder {
	if opts.Parallel <= 0 {
		opts.Parallel = 2
	}
	b := &Builder{d: d, opts: opts, slots: make(chan struct{}, opts.Parallel), running: map[core.EnvironmentID]core.BuildID{}}
	b.base, b.stop = context.WithCancelCause(context.Background())
	return b
}

// Close ends running builds and waits for them.
func (b *Builder) Close() {
	b.stop(errShutdown)
	b.wg.Wait()
}

// Recover ends builds that an earlier process left open: they are failed as
// interrupted, and the last good snapshot stays in use.
func (b *Builder) Recover(ctx context.Context) error {
	open, err := b.d.DB.OpenBuilds(ctx)
	if err != nil {
		return err
	}
	for _, build := range open {
		if err := b.finish(ctx, build.ID, core.BuildFailed, "", &core.Failure{
			Code: "interrupted", Message: "the daemon ended while this build ran", Hint: "build again: drydock env build",
		}, nil); err != nil {
			return err
		}
	}
	return nil
}

// BuildRequest asks for a build.
type BuildRequest struct {
	Source string // URL or path; may be empty when Name is known
	Name   string // default: last part of the source
	Ref    string // default: the default branch
	Fresh  bool   // build although nothing changed
	By     core.Author
}

var nameRE = regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,39}$`)

// Build records a build and returns at once; what happens are events of the
// build. While one runs for the environment, asking again returns that one.
func (b *Builder) Build(ctx context.Context, req BuildRequest) (core.Build, error) {
	env, err := b.environment(ctx, req)
	if err != nil {
		return core.Build{}, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if id, busy := b.running[env.ID]; busy {
		return b.d.DB.Build(ctx, id)
	}
	build := core.Build{ID: core.NewBuildID(), Environment: env.ID, State: core.BuildQueued, Created: time.Now().UTC()}
	if err := b.d.DB.CreateBuild(ctx, build); err != nil {
		return core.Build{}, err
	}
	b.running[env.ID] = build.ID
	b.wg.Go(func() {
		defer func() {
			b.mu.Lock()
			delete(b.running, env.ID)
			b.mu.Unlock()
		}()
		b.slots <- struct{}{}
		defer func() { <-b.slots }()
		b.run(b.base, env, build, req)
	})
	return build, nil
}

// environment finds or records what to build.
func (b *Builder) environment(ctx context.Context, req BuildRequest) (core.Environment, error) {
	if req.Source == "" {
		if req.Name == "" {
			return core.Environment{}, core.E("environment.build", core.Invalid, nil, "neither a source nor a name was given").
				WithHint("drydock env build PATH-OR-URL, or the name of an environment to build again")
		}
		return b.d.DB.Environment(ctx, req.Name)
	}
	name := req.Name
	if name == "" {
		name = nameOf(req.Source)
	}
	if !nameRE.MatchString(name) {
		return core.Environment{}, core.E("environment.build", core.Invalid, nil, "%q cannot name an environment: small letters, digits and dashes, at most 40", name).
			WithHint("give one with --name")
	}
	if known, err := b.d.DB.Environment(ctx, name); err == nil {
		if known.Source != req.Source {
			return core.Environment{}, core.E("environment.build", core.Conflict, nil, "environment %s is made from %s, not from %s", name, known.Source, req.Source).
				WithHint("give another name with --name, or remove the old one: drydock env rm %s", name)
		}
		return known, nil
	} else if !core.Is(err, core.NotFound) {
		return core.Environment{}, err
	}
	if _, err := b.d.Repositories.Import(ctx, name, req.Source); err != nil {
		return core.Environment{}, err
	}
	now := time.Now().UTC()
	env := core.Environment{ID: core.NewEnvironmentID(), Name: name, Source: req.Source, Created: now, Updated: now}
	return env, b.d.DB.CreateEnvironment(ctx, env)
}

func nameOf(source string) string {
	base := strings.TrimSuffix(path.Base(strings.TrimRight(filepath.ToSlash(source), "/")), ".git")
	if i := strings.LastIndexByte(base, ':'); i >= 0 {
		base = base[i+1:]
	}
	base = strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9':
			return r
		case r >= 'A' && r <= 'Z':
			return r + 'a' - 'A'
		}
		return '-'
	}, base)
	base = strings.Trim(base, "-")
	return base[:min(len(base), 40)]
}

// run executes a build to its end; whatever happens, the row gets one.
func (b *Builder) run(ctx context.Context, env core.Environment, build core.Build, req BuildRequest) {
	log, err := newBuildLog(ctx, b.d.Events, build.ID, filepath.Join(b.opts.LogDir, string(build.ID)+".log"))
	if err != nil {
		b.d.Log.Error("no log for a build", "build", build.ID, "err", err)
		return
	}
	defer log.close()
	r := &buildRun{b: b, env: env, build: build, req: req, log: log}
	snap, err := r.execute(ctx)
	clean, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancel()
	r.cleanUp(clean)
	state, failure := core.BuildDone, (*core.Failure)(nil)
	if err != nil {
		state, failure = core.BuildFailed, failureOf(err)
		if ctx.Err() != nil {
			failure = &core.Failure{Code: "interrupted", Message: "the daemon shut down while this build ran", Hint: "build again: drydock env build"}
		}
	}
	if err := b.finish(clean, build.ID, state, snap.ID, failure, r.phases); err != nil {
		b.d.Log.Error("the end of a build was not stored", "build", build.ID, "err", err)
	}
}

func failureOf(err error) *core.Failure {
	var f *FailureError
	if asFailure(err, &f) {
		out := f.Failure
		return &out
	}
	return &core.Failure{Code: core.KindOf(err).String(), Message: err.Error(), Hint: core.HintOf(err)}
}

// finish writes the end of a build, and on success moves the environment to
// its snapshot, with the event, in that order.
func (b *Builder) finish(ctx context.Context, id core.BuildID, state core.BuildState, snap core.SnapshotID, failure *core.Failure, phases []core.Phase) error {
	build, err := b.d.DB.UpdateBuild(ctx, id, func(row *core.Build) error {
		row.State, row.Snapshot, row.Failure, row.Finished = state, snap, failure, time.Now().UTC()
		if phases != nil {
			row.Phases = phases
		}
		return nil
	})
	if err != nil {
		return err
	}
	if state == core.BuildDone {
		if _, err := b.d.DB.UpdateEnvironment(ctx, build.Environment, func(e *core.Environment) error {
			e.Snapshot = snap
			return nil
		}); err != nil {
			return err
		}
	}
	_, err = b.d.Events.Append(ctx, string(id), core.NewEvent(core.EventBuildState, core.BuildData{State: state, Snapshot: snap, Failure: failure}))
	return err
}

// Get finds an environment by name or identifier.
func (b *Builder) Get(ctx context.Context, ref string) (core.Environment, error) {
	return b.d.DB.Environment(ctx, ref)
}

// Remove deletes an environment and its builds. Sessions that name it stop
// that; snapshots go with the next collection.
func (b *Builder) Remove(ctx context.Context, id core.EnvironmentID) error {
	b.mu.Lock()
	running, busy := b.running[id]
	b.mu.Unlock()
	if busy {
		return core.E("environment.remove", core.Conflict, nil, "build %s of this environment is running", running)
	}
	return b.d.DB.DeleteEnvironment(ctx, id)
}

// LogFile is the full log of a build.
func (b *Builder) LogFile(id core.BuildID) (string, error) {
	file := filepath.Join(b.opts.LogDir, string(id)+".log")
	if _, err := os.Stat(file); err != nil {
		return "", core.E("environment.log", core.NotFound, nil, "build %s has no log", id)
	}
	return file, nil
}
