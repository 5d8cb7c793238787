package workspace

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"drydock/internal/control/blueprint"
	"drydock/internal/core"
	"drydock/internal/execution/environment"
)

// use is who has done something in an open workspace, and when.
type use struct {
	last     time.Time
	attached int  // people with a terminal
	warned   bool // that its lifetime ends
}

// touch notes that something happened in a session's sandbox.
func (m *Manager) touch(id core.SessionID, change func(*use)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	u := m.uses[id]
	if u == nil {
		u = &use{}
		m.uses[id] = u
	}
	u.last = time.Now()
	if change != nil {
		change(u)
	}
}

// Attach keeps a session's sandbox from being suspended until done is called.
func (m *Manager) Attach(id core.SessionID) (done func()) {
	m.touch(id, func(u *use) { u.attached++ })
	return sync.OnceFunc(func() {
		m.touch(id, func(u *use) { u.attached-- })
		m.mu.Lock()
		defer m.mu.Unlock()
		if m.open[id] == nil && m.uses[id].attached <= 0 {
			delete(m.uses, id)
		}
	})
}

// Rest is called at the end of a run. The work is brought out; the sandbox
// stays for the idle time, for whoever looks into it or goes on at once.
func (m *Manager) Rest(ctx context.Context, id core.SessionID) error {
	m.mu.Lock()
	w := m.open[id]
	m.mu.Unlock()
	if w == nil || m.d.Idle <= 0 {
		return m.PutAway(ctx, id)
	}
	m.touch(id, nil)
	if _, err := w.Harvest(ctx); err != nil {
		return m.PutAway(ctx, id) // it is dead, or does not answer
	}
	return nil
}

// Wake opens the sandbox of a session that is suspended, without a run.
func (m *Manager) Wake(ctx context.Context, id core.SessionID) (*Workspace, error) {
	s, err := m.d.DB.Session(ctx, id)
	if err != nil {
		return nil, err
	}
	if s.State == core.SessionArchived || s.BaseCommit == "" {
		return m.Living(ctx, id)
	}
	if _, err := m.Open(ctx, blueprint.Job{Session: s}); err != nil {
		return nil, err
	}
	m.touch(id, nil)
	return m.Living(ctx, id)
}

// Tend suspends sandboxes of sessions in which nothing happens, and looks after
// the lifetime of the others, until ctx ends.
func (m *Manager) Tend(ctx context.Context) {
	tick := time.NewTicker(m.tick())
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		m.adoptIdle(ctx)
		for _, id := range m.openIDs() {
			if err := m.tendOne(ctx, id); err != nil && ctx.Err() == nil {
				m.d.Log.Warn("an idle session was not suspended", "session", id, "err", err)
			}
		}
	}
}

// tick is how often Tend looks.
func (m *Manager) tick() time.Duration {
	return min(max(m.d.Idle/10, 200*time.Millisecond), 15*time.Second)
}

func (m *Manager) openIDs() []core.SessionID {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := make([]core.SessionID, 0, len(m.open))
	for id := range m.open {
		out = append(out, id)
	}
	slices.Sort(out)
	return out
}

// resting says that no run works in the session's sandbox, or soon will.
func resting(s core.SessionState) bool {
	return s == core.SessionIdle || s == core.SessionFailed || s == core.SessionWaiting
}

func (m *Manager) tendOne(ctx context.Context, id core.SessionID) error {
	s, err := m.d.DB.Session(ctx, id)
	if err != nil {
		return err
	}
	m.mu.Lock()
	w, u := m.open[id], m.uses[id]
	var now use
	if u != nil {
		now = *u
	}
	m.mu.Unlock()
	switch {
	case w == nil:
		return nil
	case s.State == core.SessionArchived:
		return m.discard(ctx, id)
	case m.idle(s, now):
		_, err := m.putAway(ctx, id, true, func(s core.Session, u use) bool { return !m.idle(s, u) })
		return err
	}
	return m.outlive(ctx, s, w, now)
}

// idle says that nobody has done anything in a session for long.
func (m *Manager) idle(s core.Session, u use) bool {
	return unused(s, u) && time.Since(u.last) >= m.d.Idle
}

func unused(s core.Session, u use) bool { return resting(s.State) && u.attached <= 0 }

// outlive sees to it that the end of a sandbox's lifetime takes nothing away:
// an idle one is suspended before, of a working one a snapshot is taken while
// it goes on, and people are told.
func (m *Manager) outlive(ctx context.Context, s core.Session, w *Workspace, u use) error {
	end := w.machine.Deadline()
	if end.IsZero() || u.warned {
		return nil
	}
	life := end.Sub(w.machine.Handle().Created)
	// Early enough for whoever looks only so often.
	margin := max(min(life/10, 10*time.Minute), min(2*m.tick(), life/2))
	if time.Until(end) > margin {
		return nil
	}
	if unused(s, u) {
		_, err := m.putAway(ctx, s.ID, true, func(s core.Session, u use) bool { return !unused(s, u) })
		return err
	}
	m.touch(s.ID, func(u *use) { u.warned = true })
	message := fmt.Sprintf("the sandbox reaches its lifetime at %s", end.Format(time.RFC3339))
	if b, err := m.Branch(ctx, s.ID); err == nil {
		message += fmt.Sprintf("; it is kept as snapshot %s, and goes on in a new one", b.Snapshot)
	} else {
		message += "; its files are kept, and the work goes on in a new one"
	}
	return m.tell(ctx, blueprint.Job{Session: s}, core.EventWarning, core.WarningData{
		Code: "lifetime_ends", Message: message, Hint: "raise limits.lifetime in drydock.yaml for longer work",
	})
}

// Suspend makes files and memory of a session's sandbox its snapshot, and takes
// the sandbox away. It comes back where it was with the next prompt.
func (m *Manager) Suspend(ctx context.Context, id core.SessionID) error {
	_, err := m.putAway(ctx, id, true, nil)
	return err
}

// Crowded suspends the session that has been idle for longest, if there is one:
// somebody waits for its place.
func (m *Manager) Crowded(ctx context.Context) bool {
	var oldest core.SessionID
	var since time.Time
	for _, id := range m.openIDs() {
		s, err := m.d.DB.Session(ctx, id)
		if err == nil && s.State == core.SessionArchived { // nobody will go on with it
			if err := m.discard(ctx, id); err == nil {
				return true
			}
		}
		if err != nil || !resting(s.State) {
			continue
		}
		m.mu.Lock()
		u := m.uses[id]
		_, busy := m.busy[id] // whoever opens it may wait for a place too
		if !busy && u != nil && u.attached <= 0 && (oldest == "" || u.last.Before(since)) {
			oldest, since = id, u.last
		}
		m.mu.Unlock()
	}
	if oldest == "" {
		return false
	}
	done, err := m.putAway(ctx, oldest, true, func(s core.Session, u use) bool { return !unused(s, u) || u.last.After(since) })
	if err != nil {
		m.d.Log.Warn("an idle session was not suspended", "session", oldest, "err", err)
	}
	return done && err == nil
}

// adoptIdle finds sandboxes that an earlier process left to sessions which do
// not work now: nobody else would look after them.
func (m *Manager) adoptIdle(ctx context.Context) {
	if m.adopted { // Tend alone comes here
		return
	}
	live, err := m.d.DB.LiveSandboxes(ctx)
	if err != nil {
		m.d.Log.Warn("sandboxes of an earlier process were not looked for", "err", err)
		return
	}
	m.adopted = true
	for _, row := range live {
		if row.Purpose != environment.PurposeSession {
			continue
		}
		id := core.SessionID(row.Owner)
		s, err := m.d.DB.Session(ctx, id)
		if err != nil || !resting(s.State) {
			continue
		}
		// It may have been put away since: then nothing is to be started, least
		// of all by the loop that makes room for others.
		_, err = m.openOr(ctx, blueprint.Job{Session: s}, func(*opening, context.Context, *Workspace) error {
			return core.E("workspace.adopt", core.NotFound, nil, "session %s has no sandbox any more", id)
		})
		if core.Is(err, core.NotFound) {
			continue
		}
		if err != nil {
			m.d.Log.Warn("the sandbox of an idle session was not taken over", "session", id, "err", err)
		}
		m.touch(id, nil)
	}
}

// discard takes the sandbox of a session away that nobody will go on with.
func (m *Manager) discard(ctx context.Context, id core.SessionID) error {
	unlock, err := m.lock(ctx, id)
	if err != nil {
		return err
	}
	defer unlock()
	m.mu.Lock()
	w := m.open[id]
	m.mu.Unlock()
	m.forget(id)
	if w == nil {
		return nil
	}
	_, harvestErr := w.Harvest(ctx)
	return errors.Join(harvestErr, w.machine.Close(ctx))
}

// Drafted remembers the draft whose sandbox a session is to get.
func (m *Manager) Drafted(id core.SessionID, draft core.DraftID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.drafts[id] = draft
}

// draft takes it out again.
func (m *Manager) draft(id core.SessionID) core.DraftID {
	m.mu.Lock()
	defer m.mu.Unlock()
	d := m.drafts[id]
	delete(m.drafts, id)
	return d
}

// Branched is an instant of a session.
type Branched struct {
	Snapshot core.SnapshotID
	Paused   time.Duration // how long the session's sandbox stood still; 0 when it was suspended
}

// Branch takes a snapshot of a session as it is at this moment, memory included,
// and lets it go on. A session that is suspended has one already.
func (m *Manager) Branch(ctx context.Context, id core.SessionID) (b Branched, err error) {
	const op = "workspace.branch"
	unlock, err := m.lock(ctx, id)
	if err != nil {
		return b, err
	}
	defer unlock()
	s, err := m.d.DB.Session(ctx, id)
	if err != nil {
		return b, err
	}
	w, err := m.alive(ctx, s)
	if err != nil {
		return b, err
	}
	if w == nil {
		if b.Snapshot = s.Snapshot; b.Snapshot == "" {
			return b, core.E(op, core.Conflict, nil, "session %s has no sandbox and has never had one: there is nothing to fork", id).
				WithHint("wait until it has started, or start another one with `drydock run`")
		}
		return b, nil
	}
	if err := w.Ready(ctx); err != nil {
		return b, err
	}
	snap, err := w.machine.Freeze(ctx, draftOf(s), environment.FreezeOptions{Memory: true, Resume: true, Paused: func(d time.Duration) { b.Paused = d }})
	if err != nil {
		return b, w.machine.Explain(ctx, err)
	}
	b.Snapshot = snap.ID
	return b, m.tell(ctx, blueprint.Job{Session: s}, core.EventSandbox, core.SandboxData{
		Sandbox: w.machine.ID(), State: core.SandboxRunning, Snapshot: snap.ID, From: "running", Cause: "forked", Duration: b.Paused,
	})
}

// alive is the workspace of a session that has a sandbox, also one that has died
// or that nobody has opened since a restart; nil when it has none. The session's
// lock is held.
func (m *Manager) alive(ctx context.Context, s core.Session) (*Workspace, error) {
	if _, err := m.sandboxOf(ctx, s.ID); core.Is(err, core.NotFound) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	return m.opened(ctx, blueprint.Job{Session: s}, (*opening).launch)
}

// Start brings a forked session's sandbox up, so that it goes on from the
// instant it was forked at. It says how: from memory or files.
func (m *Manager) Start(ctx context.Context, id core.SessionID) (from string, err error) {
	w, err := m.Wake(ctx, id)
	if err != nil {
		return "", err
	}
	return w.machine.From(), nil
}
