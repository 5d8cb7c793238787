package environment

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"drydock/internal/core"
	"drydock/internal/execution/environment/recipe"
	"drydock/internal/execution/guest"
	"drydock/internal/execution/sandbox"
	"drydock/internal/execution/snapshot"
	"drydock/internal/execution/snapshot/overlay"
	"drydock/internal/store"
)

// How a sandbox came to be.
const (
	FromFiles  = "files"
	FromMemory = "memory"
	FromWarm   = "warm" // a memory image that was restored before anybody asked
)

// Codes of warnings about fall-backs.
const (
	WarnMemoryUnfit = "memory_not_restored"
	WarnMemoryLost  = "memory_not_taken"
	WarnService     = "service_restarted"
)

// restore starts a sandbox from the memory image of its snapshot. It says false
// where there is none, and, with a warning, where it cannot be used.
func (l *Launcher) restore(ctx context.Context, m *Machine, req LaunchRequest) (bool, error) {
	if req.FilesOnly || req.Snapshot == "" || !l.deps.Driver.Capabilities().Memory {
		return false, nil
	}
	manifest, err := l.deps.Snapshots.Get(ctx, req.Snapshot)
	if err != nil || manifest.Memory == nil {
		return false, err
	}
	unfit := func(err error) (bool, error) {
		if ctx.Err() != nil {
			return false, err
		}
		req.Warn(core.WarningData{
			Code:    WarnMemoryUnfit,
			Message: fmt.Sprintf("the memory image of snapshot %s is not used, services start from the files: %v", req.Snapshot, err),
			Hint:    core.HintOf(err),
		})
		l.deps.Log.Warn("a memory image is not used", "snapshot", req.Snapshot, "sandbox", req.ID, "error", err)
		return false, nil
	}
	src, release, err := l.deps.Snapshots.AcquireMemory(ctx, req.Snapshot)
	if err != nil {
		return unfit(err)
	}
	defer release()
	spec := l.spec(req, src.Layers, &src.Image)
	if spec.Written, err = l.written(ctx, req); err != nil {
		return false, err
	}
	if err := l.deps.Driver.Fits(ctx, spec); err != nil {
		return unfit(err)
	}
	m.parent, m.image, m.live, m.from = req.Snapshot, manifest.Image, src.Live, FromMemory
	if err := l.create(ctx, m, spec); err != nil {
		if m.created {
			return false, err
		}
		return unfit(err)
	}
	return true, nil
}

// claim takes a sandbox out of the warm pool, if one fits, and gives it to who
// asks. One that turns out to be of no use is closed, and another way is gone.
func (l *Launcher) claim(ctx context.Context, m *Machine, req LaunchRequest) (bool, error) {
	l.mu.Lock()
	pool := l.pool
	l.mu.Unlock()
	if pool == nil || req.FilesOnly || req.Snapshot == "" || req.Purpose != PurposeSession {
		return false, nil
	}
	warm := pool.take(req, m.limits)
	if warm == nil {
		return false, nil
	}
	err := l.assign(ctx, m, warm, req)
	if err == nil {
		return true, nil
	}
	l.deps.Log.Warn("a warm sandbox could not be taken", "sandbox", warm.id, "error", err)
	pool.close(context.WithoutCancel(ctx), []*Machine{warm})
	return false, ctx.Err()
}

// assign makes a warm sandbox the request's own. The machine takes over its
// identifier: nobody has seen the one the request was given.
func (l *Launcher) assign(ctx context.Context, m, warm *Machine, req LaunchRequest) error {
	h, err := l.deps.Driver.Assign(ctx, warm.id, sandbox.Assignment{Purpose: req.Purpose, Owner: req.Owner, Network: req.Policy})
	if err != nil {
		return err
	}
	next := &Machine{
		launcher: l, id: warm.id, handle: h, recipe: m.recipe, policy: m.policy, limits: m.limits, hostname: warm.hostname,
		parent: warm.parent, live: warm.live, image: warm.image, from: FromWarm, recorded: true, created: true,
		conns: warm.conns, guest: warm.guest, leave: func() {},
	}
	doc, err := next.document()
	if err != nil {
		return err
	}
	both, bothCtx := errgroup.WithContext(ctx)
	both.Go(func() error {
		_, err := l.deps.Rows.UpdateSandbox(bothCtx, warm.id, func(s *store.Sandbox) error {
			s.Purpose, s.Owner, s.Handle = req.Purpose, req.Owner, doc
			return nil
		})
		return err
	})
	both.Go(func() error { return next.setUp(bothCtx, req.Env) })
	if err := both.Wait(); err != nil {
		return err
	}
	// What listens in it was asked after its restore, and again since.
	if err := l.deps.Driver.Open(ctx, warm.id); err != nil {
		return err
	}
	warm.leave()
	leave := m.leave
	m.adoptFrom(next)
	m.leave = leave
	l.mu.Lock()
	l.machines[m.id] = m
	l.mu.Unlock()
	return nil
}

// adoptFrom makes m, which nobody works with yet, the machine of other's
// sandbox.
func (m *Machine) adoptFrom(other *Machine) {
	m.id, m.handle, m.guest, m.conns = other.id, other.handle, other.guest, other.conns
	m.parent, m.live, m.image, m.from, m.hostname = other.parent, other.live, other.image, other.from, other.hostname
	m.recorded, m.created = true, true
}

// settle tells a new sandbox who it is. One that was restored learns it before
// its network opens; then whatever listened in it is asked whether it still
// does.
func (l *Launcher) settle(ctx context.Context, m *Machine, req LaunchRequest) error {
	if err := m.setUp(ctx, req.Env); err != nil {
		return err
	}
	if m.from == FromFiles {
		return nil
	}
	if err := l.deps.Driver.Open(ctx, m.id); err != nil {
		return err
	}
	found, err := m.guest.Probe(ctx)
	if err != nil {
		return err
	}
	for _, name := range found.Restarted {
		req.Warn(core.WarningData{
			Code:    WarnService,
			Message: fmt.Sprintf("service %s did not answer after the restore and was started again (silent: %v)", name, found.Silent),
		})
	}
	return nil
}

// machineID is the same for every sandbox of one session, and for no other.
func machineID(id core.SandboxID, purpose, owner string) string {
	of := string(id)
	if purpose == PurposeSession {
		of = owner
	}
	sum := sha256.Sum256([]byte("machine-id\x00" + of))
	return hex.EncodeToString(sum[:16])
}

// Deadline is when the sandbox reaches its lifetime and is ended; zero: never.
func (m *Machine) Deadline() time.Time {
	if m.limits.Lifetime <= 0 {
		return time.Time{}
	}
	return m.handle.Created.Add(m.limits.Lifetime)
}

// Reload starts services again that run from the workspace, after its files
// have changed under them, and returns when all are ready. Where the services
// were just started from these very files there is nothing to do.
func (m *Machine) Reload(ctx context.Context, changed bool) ([]guest.ServiceStatus, error) {
	if changed && m.from != FromFiles {
		if _, err := m.guest.RestartServices(ctx, m.Workspace()); err != nil {
			return nil, m.Explain(ctx, err)
		}
	}
	return m.StartServices(ctx)
}

// FreezeOptions say how a sandbox becomes a snapshot.
type FreezeOptions struct {
	Memory bool // the processes too, as they run; else they are ended in order first
	Resume bool // with Memory: the sandbox goes on
	// Warn hears why there is no memory image although one was asked for.
	Warn func(core.WarningData)
	// Paused hears how long a sandbox that goes on stood still.
	Paused func(time.Duration)
}

// Freeze makes the files, and on request the memory, of a sandbox a snapshot.
// What draft leaves open is filled in. Afterwards only Close is allowed, unless
// opts.Resume is set. If it is interrupted, also by the death of the daemon, it
// can be called again on the adopted machine and finishes the same snapshot.
func (m *Machine) Freeze(ctx context.Context, draft snapshot.Draft, opts FreezeOptions) (core.Snapshot, error) {
	l := m.launcher
	s, err := m.Status(ctx)
	if err != nil {
		return core.Snapshot{}, err
	}
	if err := m.catchUp(ctx, s); err != nil {
		return core.Snapshot{}, err
	}
	if s.Frozen != "" {
		if id := l.deps.Snapshots.FromPath(s.Frozen); id != "" {
			draft.ID = id
		}
	}
	if draft.Parent == "" {
		draft.Parent = m.parent
	}
	draft.Base, draft.Image, draft.Live = m.base, m.image, m.live
	if draft.Runtime == (snapshot.Runtime{}) {
		draft.Runtime = l.opts.Runtime
	}
	opts.Memory = opts.Memory && l.deps.Driver.Capabilities().Memory && s.State == core.SandboxRunning
	if !opts.Memory && s.State == core.SandboxRunning {
		m.quiesce(ctx)
	}
	p, err := l.deps.Snapshots.Begin(ctx, draft)
	if core.Is(err, core.Conflict) && draft.ID != "" && s.State != core.SandboxFrozen {
		// What was begun was given up at a restart, before any file was moved.
		draft.ID = ""
		p, err = l.deps.Snapshots.Begin(ctx, draft)
	}
	if err != nil {
		return core.Snapshot{}, err
	}
	frozen, err := m.stop(ctx, sandbox.FreezeOptions{Into: p.Into, Memory: opts.Memory, Resume: opts.Resume}, opts.Warn)
	// The files have moved, perhaps: whoever walks away now leaves a sandbox that
	// stands on a snapshot of which nobody knows.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), commitTimeout)
	defer cancel()
	if err != nil {
		if opts.Resume {
			m.withdraw(ctx, p)
		}
		return core.Snapshot{}, err
	}
	if opts.Resume {
		m.above(ctx, p.ID, frozen)
		if opts.Paused != nil {
			opts.Paused(frozen.Paused)
		}
	}
	row, err := l.deps.Snapshots.Commit(ctx, p.ID, frozen)
	if err != nil {
		return core.Snapshot{}, err
	}
	if !opts.Resume {
		l.record(ctx, m.id, core.SandboxFrozen, sandbox.CauseStopped)
	}
	return row, nil
}

// commitTimeout bounds how long a snapshot may take to be committed; its files
// are read once.
const commitTimeout = 10 * time.Minute

// catchUp commits the snapshot that the sandbox went on from, and stands on, if
// whoever took it did not live to do so.
func (m *Machine) catchUp(ctx context.Context, s sandbox.Status) error {
	l := m.launcher
	id := l.deps.Snapshots.FromPath(s.Resumed)
	if id == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), commitTimeout)
	defer cancel()
	frozen, err := l.deps.Driver.Freeze(ctx, m.id, sandbox.FreezeOptions{Into: s.Resumed, Memory: true, Resume: true}) // it only says what was
	if err != nil {
		return err
	}
	if _, err := l.deps.Snapshots.Commit(ctx, id, frozen); err != nil {
		return core.E("environment.freeze", core.KindOf(err), err, "sandbox %s stands on snapshot %s, which is not complete", m.id, id)
	}
	if m.parent != id {
		m.above(ctx, id, frozen)
	}
	return nil
}

// stop calls the driver. Memory that cannot be had is left out.
func (m *Machine) stop(ctx context.Context, opts sandbox.FreezeOptions, warn func(core.WarningData)) (sandbox.Frozen, error) {
	driver := m.launcher.deps.Driver
	if warn == nil {
		warn = func(core.WarningData) {}
	}
	if opts.Resume { // calls under way are asked again when it goes on
		defer m.conns.hold()()
	}
	frozen, err := driver.Freeze(ctx, m.id, opts)
	if err != nil && opts.Memory && !opts.Resume && ctx.Err() == nil {
		// Memory is a cache; the files are not.
		s, statusErr := m.Status(ctx)
		if statusErr != nil || s.State != core.SandboxRunning && s.State != core.SandboxDead {
			return frozen, err
		}
		warn(core.WarningData{Code: WarnMemoryLost, Message: "no memory image: " + err.Error(), Hint: core.HintOf(err)})
		if s.State == core.SandboxRunning {
			m.quiesce(ctx)
		}
		return driver.Freeze(ctx, m.id, sandbox.FreezeOptions{Into: opts.Into})
	}
	if err == nil && frozen.Lost != "" {
		warn(core.WarningData{Code: WarnMemoryLost, Message: "no memory image: " + frozen.Lost})
	}
	return frozen, err
}

// withdraw gives up a snapshot that could not be taken, unless the sandbox died
// on the way and its files are in the snapshot's place.
func (m *Machine) withdraw(ctx context.Context, p overlay.Pending) {
	l := m.launcher
	s, err := m.Status(ctx)
	if err != nil || s.Frozen == p.Into {
		return
	}
	if s.Resumed == p.Into { // it did go on, and ended then
		err = m.catchUp(ctx, s)
	} else {
		err = l.deps.Snapshots.Abort(ctx, p.ID)
	}
	if err != nil {
		l.deps.Log.Warn("a snapshot that could not be taken is left over", "snapshot", p.ID, "error", err)
	}
}

// above records that the sandbox now stands on the snapshot just taken of it.
func (m *Machine) above(ctx context.Context, id core.SnapshotID, frozen sandbox.Frozen) {
	m.handle.Layers = append([]string{frozen.Upper}, m.handle.Layers...)
	m.parent, m.live, m.base = id, false, nil
	doc, err := m.document()
	if err == nil {
		_, err = m.launcher.deps.Rows.UpdateSandbox(context.WithoutCancel(ctx), m.id, func(s *store.Sandbox) error {
			s.Handle = doc
			return nil
		})
	}
	if err != nil {
		m.launcher.deps.Log.Error("cannot record what a sandbox stands on", "sandbox", m.id, "error", err)
	}
}

// MemoryRequest says of what a memory image is to be taken.
type MemoryRequest struct {
	Snapshot core.SnapshotID
	Recipe   *recipe.Recipe
	Owner    string
	Report   func(core.Phase)
	// Up brings up what is to run in the image; nil: the services are started.
	Up func(context.Context, *Machine) error
}

// PhaseMemory is reported by TakeMemory.
const PhaseMemory = "memory image"

// IsDamaged says whether an error of Launch means that files of the snapshot are
// missing or are not what they were: another try would end in the same way.
func IsDamaged(err error) bool { return overlay.IsDamaged(err) }

// MemoryUnfit says why a snapshot whose recipe has services cannot be restored
// with them running; nil when it can, or when this driver never does.
func (l *Launcher) MemoryUnfit(ctx context.Context, id core.SnapshotID, r *recipe.Recipe) error {
	if !l.deps.Driver.Capabilities().Memory || len(r.Services) == 0 {
		return nil
	}
	src, release, err := l.deps.Snapshots.AcquireMemory(ctx, id)
	if err != nil {
		return err
	}
	defer release()
	req := LaunchRequest{ID: core.NewSandboxID(), Purpose: PurposeSession, Limits: r.Limits}
	return l.deps.Driver.Fits(ctx, l.spec(req, src.Layers, &src.Image))
}

// TakeMemory starts the services of a snapshot from its files, waits until they
// are ready, and adds what they are then as its memory image. The files of the
// snapshot stay as they are: ended in order, and known to work.
func (l *Launcher) TakeMemory(ctx context.Context, req MemoryRequest) error {
	if !l.deps.Driver.Capabilities().Memory || len(req.Recipe.Services) == 0 {
		return nil
	}
	if req.Report == nil {
		req.Report = func(core.Phase) {}
	}
	begin := time.Now()
	p, err := l.deps.Snapshots.BeginMemory(ctx, req.Snapshot)
	if err != nil {
		return err
	}
	m, err := l.Launch(ctx, LaunchRequest{
		Snapshot: req.Snapshot, Purpose: PurposeBuild, Owner: req.Owner, Policy: &req.Recipe.Network, Limits: req.Recipe.Limits,
		Recipe: req.Recipe, StartServices: req.Up == nil, FilesOnly: true,
	})
	if err != nil {
		return err
	}
	if req.Up != nil {
		err = req.Up(ctx, m)
	}
	if err == nil {
		err = l.takeMemory(ctx, m, p, req)
	}
	clean, cancel := context.WithTimeout(context.WithoutCancel(ctx), destroyTimeout)
	defer cancel()
	if closeErr := m.Close(clean); closeErr != nil {
		l.deps.Log.Error("a sandbox whose memory was taken is not removed", "sandbox", m.id, "error", closeErr)
	}
	if err != nil {
		return err
	}
	manifest, err := l.deps.Snapshots.Get(ctx, req.Snapshot)
	if err != nil {
		return err
	}
	req.Report(core.Phase{Name: PhaseMemory, Duration: time.Since(begin), Detail: fmt.Sprintf("%d MiB", manifest.Memory.Bytes>>20)})
	return nil
}

func (l *Launcher) takeMemory(ctx context.Context, m *Machine, p overlay.Pending, req MemoryRequest) error {
	frozen, err := l.deps.Driver.Freeze(ctx, m.id, sandbox.FreezeOptions{Into: p.Into, Memory: true})
	if err != nil {
		return err
	}
	if frozen.Image == nil {
		return core.E("environment.memory", core.Unavailable, nil, "%s", frozen.Lost)
	}
	return l.deps.Snapshots.CommitMemory(ctx, req.Snapshot, frozen, serviceNames(*req.Recipe))
}
