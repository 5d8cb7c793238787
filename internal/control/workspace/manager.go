package workspace

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"drydock/internal/control/blueprint"
	"drydock/internal/control/codechange"
	"drydock/internal/core"
	"drydock/internal/execution/environment"
	"drydock/internal/execution/environment/recipe"
	"drydock/internal/execution/sandbox"
	"drydock/internal/execution/snapshot"
	"drydock/internal/gitcmd/mirror"
	"drydock/internal/store"
)

// Log appends events of sessions.
type Log interface {
	Append(ctx context.Context, subject string, events ...core.Event) ([]core.Event, error)
}

// Deps are the parts a Manager speaks to.
type Deps struct {
	DB        *store.DB
	Launcher  *environment.Launcher
	Snapshots environment.Snapshots
	// Mirror opens the mirror of an environment's repository; Refresh brings
	// what it follows up to date with the source, and may be nil.
	Mirror  func(ctx context.Context, env core.Environment) (*mirror.Mirror, error)
	Refresh func(ctx context.Context, env core.Environment) error
	// Aged is what a session is told that starts from the snapshot of an
	// environment when that is too old; nil: it is not. It may be nil.
	Aged   func(ctx context.Context, env core.EnvironmentID) *core.WarningData
	Events Log
	Log    *slog.Logger
	// Rebuild builds an environment whose snapshot is damaged, and waits for it.
	// It may be nil.
	Rebuild func(ctx context.Context, env core.EnvironmentID, why string) (core.SnapshotID, error)
	// Idle is how long the sandbox of a session in which nothing happens runs
	// on; then it is suspended. 0: it is suspended at the end of each run.
	Idle time.Duration
}

// Manager opens and puts away workspaces.
type Manager struct {
	d Deps

	mu   sync.Mutex
	open map[core.SessionID]*Workspace
	busy map[core.SessionID]chan struct{} // one opening or putting away at a time
	uses map[core.SessionID]*use

	drafts map[core.SessionID]core.DraftID // sandboxes claimed before there was a session

	adopted bool // what an earlier process left has been looked for
}

// New returns a Manager.
func New(d Deps) *Manager {
	return &Manager{d: d, open: map[core.SessionID]*Workspace{}, busy: map[core.SessionID]chan struct{}{}, uses: map[core.SessionID]*use{}, drafts: map[core.SessionID]core.DraftID{}}
}

// lock waits until nobody else opens or closes the session's workspace.
func (m *Manager) lock(ctx context.Context, id core.SessionID) (unlock func(), err error) {
	for {
		m.mu.Lock()
		wait, taken := m.busy[id]
		if !taken {
			done := make(chan struct{})
			m.busy[id] = done
			m.mu.Unlock()
			return func() {
				m.mu.Lock()
				delete(m.busy, id)
				m.mu.Unlock()
				close(done)
			}, nil
		}
		m.mu.Unlock()
		select {
		case <-wait:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// Mirror implements codechange.Workspaces.
func (m *Manager) Mirror(ctx context.Context, env core.EnvironmentID) (*mirror.Mirror, error) {
	e, err := m.d.DB.Environment(ctx, string(env))
	if err != nil {
		return nil, err
	}
	return m.d.Mirror(ctx, e)
}

// Sync implements codechange.Workspaces.
func (m *Manager) Sync(ctx context.Context, env core.EnvironmentID) error {
	e, err := m.d.DB.Environment(ctx, string(env))
	if err != nil {
		return err
	}
	var refreshErr error
	if m.d.Refresh != nil {
		refreshErr = m.d.Refresh(ctx, e)
	}
	repo, err := m.d.Mirror(ctx, e)
	if err != nil {
		return err
	}
	if _, err := repo.Sync(ctx); err != nil {
		return err
	}
	return refreshErr
}

// sandboxOf finds the sandbox of a session that is not gone, or NotFound.
func (m *Manager) sandboxOf(ctx context.Context, id core.SessionID) (store.Sandbox, error) {
	rows, err := m.d.DB.SandboxesOf(ctx, string(id))
	if err != nil {
		return store.Sandbox{}, err
	}
	for _, row := range rows {
		if row.State != core.SandboxGone && row.Purpose == environment.PurposeSession {
			return row, nil
		}
	}
	return store.Sandbox{}, core.E("workspace.sandbox", core.NotFound, nil, "session %s has no sandbox", id)
}

// Open implements codechange.Workspaces.
func (m *Manager) Open(ctx context.Context, job blueprint.Job) (codechange.Workspace, error) {
	return m.openOr(ctx, job, (*opening).launch)
}

// openOr is Open, with what to do where no sandbox is there to go on with.
func (m *Manager) openOr(ctx context.Context, job blueprint.Job, otherwise func(*opening, context.Context, *Workspace) error) (codechange.Workspace, error) {
	unlock, err := m.lock(ctx, job.Session.ID)
	if err != nil {
		return nil, err
	}
	defer unlock()
	w, err := m.opened(ctx, job, otherwise)
	if err != nil {
		return nil, err
	}
	return w, nil
}

// opened is Open for who holds the session's lock.
func (m *Manager) opened(ctx context.Context, job blueprint.Job, otherwise func(*opening, context.Context, *Workspace) error) (*Workspace, error) {
	m.mu.Lock()
	w := m.open[job.Session.ID]
	m.mu.Unlock()
	if w != nil {
		status, err := w.machine.Status(ctx)
		if err == nil && status.State == core.SandboxRunning && !w.broken() {
			m.touch(job.Session.ID, nil) // before anybody who waits may look for idle ones
			return w, nil
		}
		m.forget(job.Session.ID)
		if w.broken() { // whoever waited for it was told why; this is another try
			if err := w.machine.Close(ctx); err != nil {
				return nil, err
			}
		}
	}
	s, err := m.d.DB.Session(ctx, job.Session.ID)
	if err != nil {
		return nil, err
	}
	o := &opening{m: m, job: job, s: s}
	w, err = o.open(ctx, otherwise)
	if err != nil {
		return nil, err
	}
	m.mu.Lock()
	m.open[s.ID] = w
	m.mu.Unlock()
	m.touch(s.ID, nil)
	return w, nil
}

func (m *Manager) forget(id core.SessionID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.open, id)
	if u := m.uses[id]; u != nil && u.attached > 0 { // people stay; it may come back for them
		m.uses[id] = &use{last: u.last, attached: u.attached}
		return
	}
	delete(m.uses, id)
}

// Living returns the open workspace of a session, also one that an earlier
// process left running, or Unavailable when the session has no sandbox now.
func (m *Manager) Living(ctx context.Context, id core.SessionID) (*Workspace, error) {
	m.mu.Lock()
	w := m.open[id]
	m.mu.Unlock()
	if w != nil {
		return w, nil
	}
	return nil, core.E("workspace.living", core.Unavailable, nil, "session %s has no running sandbox", id).
		WithHint("its files come back with the next prompt; `drydock session diff %s` shows its work", id)
}

// PutAway implements codechange.Workspaces: the working tree goes to the
// mirror, services end in order, the files become the session's snapshot and
// the sandbox goes away. A session without a sandbox is put away already.
func (m *Manager) PutAway(ctx context.Context, id core.SessionID) error {
	_, err := m.putAway(ctx, id, false, nil)
	return err
}

// putAway is PutAway or, with memory, Suspend. It does nothing, and says so,
// where unless is true at the moment from which on nobody else opens it.
func (m *Manager) putAway(ctx context.Context, id core.SessionID, memory bool, unless func(core.Session, use) bool) (done bool, err error) {
	unlock, err := m.lock(ctx, id)
	if err != nil {
		return false, err
	}
	defer unlock()
	s, err := m.d.DB.Session(ctx, id)
	if err != nil {
		return false, err
	}
	m.mu.Lock()
	w := m.open[id]
	var now use
	if u := m.uses[id]; u != nil {
		now = *u
	}
	m.mu.Unlock()
	if unless != nil && unless(s, now) {
		return false, nil
	}
	return true, m.puttingAway(ctx, s, w, memory)
}

// puttingAway is the work of putAway; w is nil where the sandbox is not open.
func (m *Manager) puttingAway(ctx context.Context, s core.Session, w *Workspace, memory bool) error {
	id := s.ID
	start := time.Now()
	var machine *environment.Machine
	if w != nil {
		w.giveUp()
		if w.broken() { // nobody could write yet: there is nothing to keep
			m.forget(id)
			return w.machine.Close(ctx)
		}
		machine = w.machine
		// The files are kept in any case; the mirror has the work as a commit too.
		if status, err := machine.Status(ctx); err == nil && status.State == core.SandboxRunning {
			if _, err := w.Harvest(ctx); err != nil {
				m.d.Log.Warn("the working tree was not brought out", "session", id, "err", err)
			}
		}
	} else {
		row, err := m.sandboxOf(ctx, id)
		if core.Is(err, core.NotFound) {
			return nil
		}
		if err != nil {
			return err
		}
		machine, err = m.d.Launcher.Adopt(ctx, row.ID)
		if core.Is(err, core.NotFound) {
			return nil
		}
		if err != nil {
			return err
		}
		status, err := machine.Status(ctx)
		if err != nil {
			return err
		}
		if halfMade(s, machine, status) {
			return machine.Close(ctx)
		}
	}
	snap, err := m.freeze(ctx, s, machine, memory)
	if status, statusErr := machine.Status(ctx); err == nil || statusErr != nil || status.State != core.SandboxRunning {
		m.forget(id)
	}
	if err != nil {
		return err
	}
	cause := "put away"
	if snap.Memory {
		cause = "suspended"
	}
	return m.tell(ctx, blueprint.Job{Session: s}, core.EventSandbox, core.SandboxData{
		Sandbox: machine.ID(), State: core.SandboxGone, Snapshot: snap.ID, Cause: cause, Duration: time.Since(start),
	})
}

func draftOf(s core.Session) snapshot.Draft {
	return snapshot.Draft{Environment: s.Environment, Session: s.ID, Commit: s.Head}
}

// freeze makes the files of a machine, living or dead, the session's snapshot.
func (m *Manager) freeze(ctx context.Context, s core.Session, machine *environment.Machine, memory bool) (core.Snapshot, error) {
	snap, err := machine.Freeze(ctx, draftOf(s), environment.FreezeOptions{Memory: memory, Warn: m.warn(ctx, blueprint.Job{Session: s})})
	if err != nil {
		return core.Snapshot{}, err
	}
	if _, err := m.d.DB.UpdateSession(ctx, s.ID, func(row *core.Session) error {
		row.Snapshot, row.Sandbox = snap.ID, ""
		return nil
	}); err != nil {
		return core.Snapshot{}, err
	}
	return snap, machine.Close(ctx)
}

// Kill ends a session's sandbox at once; its files are kept.
func (m *Manager) Kill(ctx context.Context, id core.SessionID) error { return m.PutAway(ctx, id) }

// Keep says whether a sandbox that an earlier process left still has an owner:
// those of sessions do, builds and rooms start anew.
func (m *Manager) Keep(ctx context.Context) func(row store.Sandbox) bool {
	return func(row store.Sandbox) bool {
		if row.Purpose != environment.PurposeSession {
			return false
		}
		s, err := m.d.DB.Session(ctx, core.SessionID(row.Owner))
		return err == nil && s.State != core.SessionArchived
	}
}

func (m *Manager) tell(ctx context.Context, job blueprint.Job, kind core.EventKind, data any) error {
	e := core.NewEvent(kind, data)
	e.Run, e.Actor = job.Run.ID, "platform"
	_, err := m.d.Events.Append(ctx, string(job.Session.ID), e)
	return err
}

// warn tells of fall-backs in the session's log.
func (m *Manager) warn(ctx context.Context, job blueprint.Job) func(core.WarningData) {
	return func(w core.WarningData) {
		if err := m.tell(ctx, job, core.EventWarning, w); err != nil {
			m.d.Log.Warn("a warning was not recorded", "session", job.Session.ID, "code", w.Code, "err", err)
		}
	}
}

// opening is one attempt to give a session its sandbox.
type opening struct {
	m   *Manager
	job blueprint.Job
	s   core.Session

	looked bool     // catching up found out what is new to git:
	fresh  []string // this
}

func (o *opening) tell(ctx context.Context, kind core.EventKind, data any) error {
	return o.m.tell(ctx, o.job, kind, data)
}

func (o *opening) phase(ctx context.Context) func(core.Phase) {
	return func(p core.Phase) {
		if err := o.tell(ctx, core.EventPhase, p); err != nil {
			o.m.d.Log.Warn("a phase was not recorded", "session", o.s.ID, "err", err)
		}
	}
}

func (o *opening) open(ctx context.Context, otherwise func(*opening, context.Context, *Workspace) error) (*Workspace, error) {
	repo, err := o.m.Mirror(ctx, o.s.Environment)
	if err != nil {
		return nil, err
	}
	rec, _, err := environment.ReadRecipe(ctx, repo, o.s.BaseCommit)
	if err != nil {
		return nil, err
	}
	w := &Workspace{m: o.m, session: o.s, repo: repo, recipe: rec}
	found, err := o.adopt(ctx, w)
	if err != nil || found {
		return w, err
	}
	return w, otherwise(o, ctx, w)
}

// adopt goes on with the sandbox that is there. A dead one is frozen, so that
// launch finds its files.
func (o *opening) adopt(ctx context.Context, w *Workspace) (bool, error) {
	row, err := o.m.sandboxOf(ctx, o.s.ID)
	if core.Is(err, core.NotFound) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	machine, err := o.m.d.Launcher.Adopt(ctx, row.ID)
	if core.Is(err, core.NotFound) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	status, err := machine.Status(ctx)
	if err != nil {
		return false, err
	}
	if halfMade(o.s, machine, status) {
		return false, machine.Close(ctx)
	}
	switch status.State {
	case core.SandboxRunning:
		w.machine = machine
		if w.place, err = machine.Place(ctx); err != nil {
			// Its catching up was cut off: nobody has worked in it.
			o.m.d.Log.Warn("a sandbox that had not caught up is given up", "session", o.s.ID, "sandbox", row.ID, "err", err)
			return false, machine.Close(ctx)
		}
		return true, o.tell(ctx, core.EventSandbox, core.SandboxData{Sandbox: row.ID, State: core.SandboxRunning, From: "running"})
	case core.SandboxFrozen:
		return false, o.frozen(ctx, machine) // putting it away was cut off
	}
	why := (&environment.DeadError{Sandbox: row.ID, Status: status}).Error()
	if err := o.tell(ctx, core.EventSandbox, core.SandboxData{Sandbox: row.ID, State: core.SandboxDead, Cause: string(status.Cause)}); err != nil {
		return false, err
	}
	if err := o.tell(ctx, core.EventWarning, core.WarningData{
		Code: "sandbox_died", Message: why + "; its files are kept, a new one goes on from them",
		Hint: "if this comes again, raise the limits in drydock.yaml",
	}); err != nil {
		return false, err
	}
	return false, o.frozen(ctx, machine)
}

// halfMade says that the start of a sandbox was cut off: nothing of the session
// is in it yet, and it may still take itself for the one its memory is of.
func halfMade(s core.Session, machine *environment.Machine, status sandbox.Status) bool {
	return s.Sandbox != machine.ID() && status.Frozen == "" && status.State != core.SandboxFrozen
}

// frozen makes the files of a sandbox that does not run what comes next.
func (o *opening) frozen(ctx context.Context, machine *environment.Machine) error {
	snap, err := o.m.freeze(ctx, o.s, machine, false)
	o.s.Snapshot = snap.ID
	return err
}

func (o *opening) environmentSnapshot(ctx context.Context) (core.SnapshotID, error) {
	env, err := o.m.d.DB.Environment(ctx, string(o.s.Environment))
	if err != nil {
		return "", err
	}
	if env.Snapshot == "" {
		return "", core.E("workspace.open", core.Unavailable, nil, "environment %s has no good build", env.Name).
			WithHint("build it: drydock env build %s", env.Source)
	}
	if o.m.d.Aged != nil {
		if w := o.m.d.Aged(ctx, env.ID); w != nil {
			return env.Snapshot, o.tell(ctx, core.EventWarning, *w)
		}
	}
	return env.Snapshot, nil
}

func names(list []recipe.Service) string {
	var out strings.Builder
	for i, s := range list {
		if i > 0 {
			out.WriteString(", ")
		}
		out.WriteString(s.Name)
	}
	return out.String()
}

// catchUp moves the working tree to where the session stands, and says whether
// files are others now than those the services were started from.
func (o *opening) catchUp(ctx context.Context, w *Workspace, manifest snapshot.Manifest, fresh bool) (moved bool, err error) {
	start := time.Now()
	place := o.place()
	branch := o.s.Branch
	if branch == "" {
		branch = "drydock/session"
	}
	m := w.machine
	if fresh {
		stands, err := o.stand(ctx, w, manifest.Commit, branch)
		if err != nil {
			return false, err
		}
		if !stands {
			if err := o.checkout(ctx, w, place, branch, true, manifest.Commit); err != nil {
				return false, err
			}
		}
		detail := fmt.Sprintf("%.12s", place)
		if stands {
			detail += ", as built"
		}
		if manifest.Commit != place {
			by, err := w.moved(ctx, manifest.Commit, place)
			if err != nil {
				return false, err
			}
			detail += ", " + by.Why
			if err := m.Sync(ctx, by.Steps); err != nil {
				return false, err
			}
		}
		o.phase(ctx)(core.Phase{Name: "catch up", Duration: time.Since(start), Detail: detail})
		return manifest.Commit != place, nil
	}
	before, err := m.Place(ctx)
	if err != nil {
		return false, err
	}
	w.place = before
	if before == place {
		return false, nil
	}
	return o.follow(ctx, w, before, place, branch)
}

// stand is checkout for a snapshot of the very commit that the session begins
// with, where its files are still those of it.
func (o *opening) stand(ctx context.Context, w *Workspace, commit, branch string) (bool, error) {
	if commit == "" || commit != o.place() {
		return false, nil
	}
	fresh, ok, err := w.machine.Stand(ctx, environment.Standing{Commit: commit, Branch: branch, Base: o.s.Base})
	if !ok || err != nil {
		return false, err
	}
	w.place = commit
	// Services that go on have made what they make; those that start now will.
	o.looked, o.fresh = w.machine.From() != environment.FromFiles || len(w.recipe.Services) == 0, fresh
	return true, nil
}

// follow moves a session's own working tree from before to place. Files that
// equal place already stay untouched; edits that nobody committed are carried
// over, or kept aside where they do not fit.
func (o *opening) follow(ctx context.Context, w *Workspace, before, place, branch string) (moved bool, err error) {
	start := time.Now()
	wip, err := w.Harvest(ctx)
	if err != nil {
		return false, err
	}
	trees := map[string]string{}
	for _, c := range []string{wip, before, place} {
		if trees[c], err = w.repo.Tree(ctx, c); err != nil {
			return false, err
		}
	}
	// What equals place already is untouched by a checkout of it.
	clean := trees[wip] == trees[place] || trees[wip] == trees[before]
	if err := o.checkout(ctx, w, place, branch, false, before); err != nil {
		return false, err
	}
	if !clean {
		fits, err := w.machine.CarryOver(ctx, before)
		if err != nil {
			return false, err
		}
		if !fits {
			if err := o.tell(ctx, core.EventWarning, core.WarningData{
				Code:    "edits_kept_aside",
				Message: fmt.Sprintf("edits that were not delivered do not fit onto %.12s; they are kept as commit %s", place, wip),
			}); err != nil {
				return false, err
			}
		}
	}
	o.phase(ctx)(core.Phase{Name: "catch up", Duration: time.Since(start), Detail: fmt.Sprintf("%.12s", place)})
	return trees[wip] != trees[place], nil
}

// checkout brings a commit in and remembers it as the place.
// With keep, what set-up left beside git stays.
func (o *opening) checkout(ctx context.Context, w *Workspace, place, branch string, keep bool, have ...string) error {
	if err := w.machine.CheckoutMirror(ctx, w.repo, environment.Checkout{Commit: place, Branch: branch, Base: o.s.Base, Have: have, KeepNew: keep}); err != nil {
		return err
	}
	w.place = place
	return w.machine.MarkPlace(ctx, place)
}
