package workspace

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"drydock/internal/core"
	"drydock/internal/execution/environment"
	"drydock/internal/execution/snapshot"
)

// catching is the way of a new sandbox to where its session stands. Reading
// works meanwhile; whoever writes, or runs something, waits for it.
type catching struct {
	done   chan struct{}
	cancel context.CancelFunc

	mu  sync.Mutex
	err error
}

// catchUpLimit bounds it: commands of on_sync and setup may run.
const catchUpLimit = 40 * time.Minute

// Ready returns when the working tree is that of the session and services run
// on it, or says why it will never be.
func (w *Workspace) Ready(ctx context.Context) error {
	if w.catching == nil {
		return nil
	}
	select {
	case <-w.catching.done:
		w.catching.mu.Lock()
		defer w.catching.mu.Unlock()
		return w.catching.err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// giveUp ends catching up: the sandbox is about to go away.
func (w *Workspace) giveUp() {
	if w.catching != nil {
		w.catching.cancel()
		<-w.catching.done
	}
}

// broken says that catching up has failed: the sandbox is of no use.
func (w *Workspace) broken() bool {
	if w.catching == nil {
		return false
	}
	select {
	case <-w.catching.done:
		w.catching.mu.Lock()
		defer w.catching.mu.Unlock()
		return w.catching.err != nil
	default:
		return false
	}
}

// start is what a sandbox is launched from.
type start struct {
	from     core.SnapshotID
	manifest snapshot.Manifest
	fresh    bool // from the environment, not from the session's own
}

// begin chooses it: the session's own snapshot, or the environment's. A session
// may have been made with the environment's to start from.
func (o *opening) begin(ctx context.Context) (s start, err error) {
	if s.from = o.s.Snapshot; s.from == "" {
		if s.from, err = o.environmentSnapshot(ctx); err != nil {
			return s, err
		}
		s.fresh = true
	}
	s.manifest, err = o.m.d.Snapshots.Get(ctx, s.from)
	s.fresh = s.fresh || err == nil && s.manifest.Session == ""
	return s, err
}

// machine launches the sandbox. Files that are damaged are told, and the next
// best is taken: the environment's snapshot for the session's, and a new build
// for that.
func (o *opening) machine(ctx context.Context, w *Workspace) (s start, m *environment.Machine, err error) {
	const op = "workspace.open"
	for try := 0; ; try++ {
		if s, err = o.begin(ctx); err == nil {
			m, err = o.m.d.Launcher.Launch(ctx, environment.LaunchRequest{
				Snapshot: s.from, Purpose: environment.PurposeSession, Owner: string(o.s.ID), Policy: &w.recipe.Network,
				Limits: w.recipe.Limits, Recipe: &w.recipe, Report: o.phase(ctx), Warn: o.m.warn(ctx, o.job),
				Environment: o.s.Environment, Draft: o.m.draft(o.s.ID),
			})
		}
		if err == nil || !environment.IsDamaged(err) || ctx.Err() != nil || try > 1 {
			return s, m, err
		}
		message := err.Error()
		if s.fresh {
			message += "; the environment is built again"
		} else {
			message += fmt.Sprintf("; the session goes on from its environment. What was brought out last is kept as commit %s", o.brought(ctx))
		}
		if tellErr := o.tell(ctx, core.EventWarning, core.WarningData{Code: "snapshot_damaged", Message: message}); tellErr != nil {
			return s, nil, errors.Join(err, tellErr)
		}
		switch {
		case !s.fresh:
			o.s.Snapshot = ""
		case o.m.d.Rebuild == nil:
			return s, nil, err
		default:
			if _, buildErr := o.m.d.Rebuild(ctx, o.s.Environment, err.Error()); buildErr != nil {
				return s, nil, core.E(op, core.KindOf(buildErr), buildErr, "snapshot %s is damaged, and the environment could not be built again", s.from)
			}
			o.s.Snapshot = "" // a session that was to start from it takes the new one
		}
	}
}

// brought is the last commit that came out of the session's sandbox.
func (o *opening) brought(ctx context.Context) string {
	repo, err := o.m.Mirror(ctx, o.s.Environment)
	if err == nil {
		if at, err := repo.ReadRef(ctx, wipRef(o.s.ID)); err == nil && at != "" {
			return at
		}
	}
	if o.s.Head != "" {
		return o.s.Head
	}
	return o.s.BaseCommit
}

// launch starts a sandbox from the newest snapshot and catches up: at once, or
// where there is something to catch up with, beside whoever reads already.
func (o *opening) launch(ctx context.Context, w *Workspace) error {
	begin := time.Now()
	s, machine, err := o.machine(ctx, w)
	if err != nil {
		return err
	}
	w.machine = machine
	if s.fresh && s.manifest.Commit != o.place() {
		o.arriveLater(ctx, w, s)
	} else if err := o.arrive(ctx, w, s); err != nil {
		return o.abandon(ctx, w, err)
	}
	return o.tell(ctx, core.EventSandbox, core.SandboxData{
		Sandbox: machine.ID(), State: core.SandboxRunning, Snapshot: s.from, From: machine.From(), Duration: time.Since(begin),
	})
}

// abandon removes a sandbox that does not come up.
func (o *opening) abandon(ctx context.Context, w *Workspace, err error) error {
	clean, cancel := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
	defer cancel()
	if closeErr := w.machine.Close(clean); closeErr != nil {
		o.m.d.Log.Warn("a sandbox that did not start could not be removed", "sandbox", w.machine.ID(), "err", closeErr)
	}
	return err
}

// arriveLater is arrive, while others read.
func (o *opening) arriveLater(ctx context.Context, w *Workspace, s start) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), catchUpLimit)
	c := &catching{done: make(chan struct{}), cancel: cancel}
	w.catching = c
	w.place = s.manifest.Commit
	go func() {
		defer close(c.done)
		defer cancel()
		err := o.arrive(ctx, w, s)
		c.mu.Lock()
		c.err = err
		c.mu.Unlock()
	}()
}

// arrive brings files and services to where the session stands. Then, and not
// before, the sandbox is the session's: see halfMade.
func (o *opening) arrive(ctx context.Context, w *Workspace, s start) error {
	moved, err := o.catchUp(ctx, w, s.manifest, s.fresh)
	if err != nil {
		return err
	}
	if len(w.recipe.Services) > 0 {
		begin := time.Now()
		// Services that run from the workspace have the code of before.
		if _, err := w.machine.Reload(ctx, moved); err != nil {
			return err
		}
		o.phase(ctx)(core.Phase{Name: environment.PhaseServices, Duration: time.Since(begin), Detail: names(w.recipe.Services)})
	}
	switch {
	case o.looked:
		err = w.machine.Ignore(ctx, o.fresh)
	case s.fresh:
		err = w.machine.IgnoreUntracked(ctx)
	}
	if err != nil {
		return err
	}
	_, err = o.m.d.DB.UpdateSession(ctx, o.s.ID, func(row *core.Session) error {
		row.Sandbox = w.machine.ID()
		return nil
	})
	return err
}

// place is the commit that the session stands on.
func (o *opening) place() string {
	if o.s.Head != "" {
		return o.s.Head
	}
	return o.s.BaseCommit
}
