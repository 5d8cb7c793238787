package environment

import (
	"context"
	"slices"
	"sync"

	"drydock/internal/core"
	"drydock/internal/execution/sandbox"
	"drydock/internal/store"
)

// Adopt finds a sandbox again that was launched before a restart. A dead or
// frozen one is adopted too: see Machine.Status. It is NotFound if nothing is
// left.
func (l *Launcher) Adopt(ctx context.Context, id core.SandboxID) (*Machine, error) {
	const op = "environment.adopt"
	if m, ok := l.Machine(id); ok {
		return m, nil
	}
	row, err := l.deps.Rows.Sandbox(ctx, id)
	if err != nil {
		return nil, err
	}
	doc, err := parseStored(row.Handle)
	if err != nil || row.State == core.SandboxGone {
		return nil, core.E(op, core.NotFound, err, "sandbox %s is gone", id)
	}
	s, err := l.deps.Driver.Recover(ctx, doc.Handle)
	if core.Is(err, core.NotFound) {
		l.record(ctx, id, core.SandboxGone, sandbox.CauseKilled)
	}
	if err != nil {
		return nil, err
	}
	m := &Machine{
		launcher: l, id: id, handle: doc.Handle, recorded: true, created: true,
		parent: doc.Parent, live: doc.Live, from: doc.From, hostname: doc.Name, limits: doc.Limits, base: doc.Base, image: doc.Image, policy: doc.Policy, recipe: doc.Recipe, leave: func() {},
	}
	m.connect()
	// It holds a place if one is free; it is not stopped for want of one.
	if places := l.places[doc.Purpose]; places != nil {
		select {
		case places <- struct{}{}:
			m.leave = sync.OnceFunc(func() { <-places })
		default:
		}
	}
	if err := m.catchUp(ctx, s); err != nil {
		m.leave()
		return nil, err
	}
	switch {
	case s.State != core.SandboxRunning:
		l.record(ctx, id, s.State, s.Cause)
	case row.State == core.SandboxCreating:
		l.record(ctx, id, core.SandboxRunning, sandbox.CauseNone)
	}
	l.remember(ctx, m)
	return m, nil
}

// Machine returns a sandbox that this process has launched or adopted.
func (l *Launcher) Machine(id core.SandboxID) (*Machine, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	m, ok := l.machines[id]
	return m, ok
}

// Recover is called once at the start of the daemon, before the first Launch:
// it removes every sandbox that keep does not want, and every trace of one
// that has no row. What keep wants is adopted later, by Adopt.
func (l *Launcher) Recover(ctx context.Context, keep func(store.Sandbox) bool) error {
	live, err := l.deps.Rows.LiveSandboxes(ctx)
	if err != nil {
		return err
	}
	var kept []core.SandboxID
	for _, row := range live {
		if row.State != core.SandboxCreating && keep(row) {
			kept = append(kept, row.ID)
			continue
		}
		if err := l.remove(ctx, row.ID); err != nil {
			return err
		}
	}
	left, err := l.deps.Driver.List(ctx)
	if err != nil {
		return err
	}
	for _, id := range left {
		if slices.Contains(kept, id) {
			continue
		}
		l.deps.Log.Info("removing a sandbox that belongs to nobody", "sandbox", id)
		if err := l.remove(ctx, id); err != nil {
			return err
		}
	}
	return nil
}

func (l *Launcher) remove(ctx context.Context, id core.SandboxID) error {
	if err := l.deps.Driver.Destroy(ctx, id); err != nil {
		return err
	}
	l.record(ctx, id, core.SandboxGone, sandbox.CauseStopped)
	return nil
}

// Destroy removes a sandbox whether or not it is known. A second call does
// nothing.
func (l *Launcher) Destroy(ctx context.Context, id core.SandboxID) error {
	if m, ok := l.Machine(id); ok {
		return m.Close(ctx)
	}
	return l.remove(ctx, id)
}
