package session

import (
	"context"
	"errors"
	"time"

	"drydock/internal/core"
	"drydock/internal/store"
)

// Stop ends what a session does now, and holds its queue: later prompts stay
// queued until somebody adds a prompt or resumes. It is a change of state in
// the store and needs no living runner:
//
//   - nothing runs: the queue is held, the session is idle at once;
//   - a run waits, or its runner is dead: it is stopped at once;
//   - a runner is alive, here or in another daemon: the session is stopping.
//     The runner's context ends with ErrStopped, after StopGrace its sandbox is
//     killed, after KillGrace the run is stopped without it.
//
// Stopping a session that is stopping or held already changes nothing.
func (s *Service) Stop(ctx context.Context, id core.SessionID, by core.Author, reason string) (session core.Session, err error) {
	said := because("stopped by "+nameOf(by), firstLine(reason, 300))
	dead := false
	err = s.db.Tx(ctx, func(tx *store.Tx) error {
		session, dead, err = s.stopTx(ctx, tx, id, by, said)
		return err
	})
	if err != nil {
		return core.Session{}, err
	}
	s.stopped(ctx, session, dead)
	return session, nil
}

// stopTx is Stop in the caller's transaction. dead says that nobody is left
// who would end what the run has outside.
func (s *Service) stopTx(ctx context.Context, tx *store.Tx, id core.SessionID, by core.Author, said string) (session core.Session, dead bool, err error) {
	if session, err = tx.Session(ctx, id); err != nil {
		return session, false, err
	}
	switch session.State {
	case core.SessionStopping:
		return session, false, nil
	case core.SessionIdle, core.SessionFailed, core.SessionArchived:
		if session.Held {
			return session, false, nil
		}
		return session, false, core.E("session.stop", core.Conflict, nil, "session %s is %s: there is nothing to stop", id, session.State)
	}
	prompt, err := tx.RunningPrompt(ctx, id)
	if core.Is(err, core.NotFound) {
		session, err = s.hold(ctx, tx, id, by, said)
		return session, false, err
	}
	if err != nil {
		return session, false, err
	}
	session, err = s.setSession(ctx, tx, id, by.Handle, core.SessionStopping, said, func(s *core.Session) { s.Held = true })
	if err != nil {
		return session, false, err
	}
	free, err := tx.LeaseFree(ctx, store.LeaseOfSession(id), s.opts.Instance, time.Now())
	if err != nil || !free || s.local(id) != nil {
		return session, false, err
	}
	fence, err := tx.Seize(ctx, store.LeaseOfSession(id), s.opts.Instance, time.Now(), s.opts.Lease)
	if err != nil {
		return session, false, err
	}
	if err := s.endStopped(ctx, tx, prompt, fence); err != nil {
		return session, false, err
	}
	session, err = tx.Session(ctx, id)
	return session, true, err
}

// stopped tells the runner of a session that a stop was stored.
func (s *Service) stopped(ctx context.Context, session core.Session, dead bool) {
	if dead {
		s.kill(ctx, session.ID) // nobody else will
	} else if r := s.local(session.ID); r != nil && session.State == core.SessionStopping {
		r.cancel(ErrStopped)
	}
	s.wake()
}

// Now makes a queued prompt the next one and stops what runs, if anything
// does; the queue goes on by itself when that has ended. All of it is stored,
// or nothing.
func (s *Service) Now(ctx context.Context, id core.PromptID, by core.Author) (session core.Session, err error) {
	dead := false
	err = s.queued(ctx, id, "put first", func(tx *store.Tx, p core.Prompt) error {
		if p, err = tx.MovePrompt(ctx, id, 1); err != nil {
			return err
		}
		err := s.tell(ctx, tx, p.Session, "", by.Handle, core.EventPromptState,
			core.PromptData{Prompt: id, Author: p.Author, State: p.State, Reason: "to be done now, " + nameOf(by) + " said so"})
		if err != nil {
			return err
		}
		if session, err = tx.Session(ctx, p.Session); err != nil {
			return err
		}
		if _, err := tx.RunningPrompt(ctx, p.Session); err == nil {
			if session, dead, err = s.stopTx(ctx, tx, p.Session, by, "stopped by "+nameOf(by)+", for another prompt"); err != nil {
				return err
			}
		} else if !core.Is(err, core.NotFound) {
			return err
		}
		if err := s.goOn(ctx, tx, session, by, ""); err != nil {
			return err
		}
		session, err = tx.Session(ctx, p.Session)
		return err
	})
	if err != nil {
		return core.Session{}, err
	}
	s.stopped(ctx, session, dead)
	return session, nil
}

// hold keeps the queue of a session that runs nothing.
func (s *Service) hold(ctx context.Context, tx *store.Tx, id core.SessionID, by core.Author, said string) (core.Session, error) {
	queue, err := tx.QueuedPrompts(ctx, id)
	if err != nil {
		return core.Session{}, err
	}
	if len(queue) > 0 {
		said += "; " + prompts(len(queue)) + " held until somebody resumes or adds one"
	}
	return s.setSession(ctx, tx, id, by.Handle, core.SessionIdle, said, func(s *core.Session) { s.Held = len(queue) > 0 })
}

// endStopped stops a run that has no runner.
func (s *Service) endStopped(ctx context.Context, tx *store.Tx, p core.Prompt, fence store.Fence) error {
	return s.end(ctx, tx, p, fence, Ending{RunState: core.RunStopped}, platform)
}

// Recover makes good what an earlier life of this daemon left behind. Run
// calls it before anything else; it may be called again at any time.
//
// Nothing else is needed at a start, because every claim looks for the rest:
//
//   - A prompt that was queued is queued.
//   - A prompt that was running is claimable as soon as its lease is free: at
//     once if this instance held it, else when it expires. It is executed again
//     with Resumed set, or, if a stop was asked for, stopped.
//   - A run that waits for a person waits.
//   - Leases of other living daemons are not touched.
//
// What Recover itself does is to void the leases of its own earlier life, so
// that a runner which is not quite dead writes nothing more.
func (s *Service) Recover(ctx context.Context) error {
	return s.db.Tx(ctx, func(tx *store.Tx) error {
		leases, err := tx.LeasesOf(ctx, s.opts.Instance)
		if err != nil {
			return err
		}
		mine := map[string]bool{}
		for _, r := range s.current() {
			mine[r.job.Fence.Lease] = true
		}
		for _, f := range leases {
			if mine[f.Lease] {
				continue
			}
			if _, err := tx.Seize(ctx, f.Lease, s.opts.Instance, time.Time{}, 0); err != nil {
				return err
			}
		}
		return nil
	})
}

// Wake lets a run go on that was put aside for a person: the question has an
// answer. A run that is about to be put aside goes on as soon as it is. A
// session that waits for something else, or runs nothing, is a Conflict.
func (s *Service) Wake(ctx context.Context, id core.SessionID, by core.Author, reason string) (session core.Session, err error) {
	err = s.db.Tx(ctx, func(tx *store.Tx) error {
		if session, err = tx.Session(ctx, id); err != nil {
			return err
		}
		switch {
		case session.State == core.SessionWaiting && session.Wait == waitPerson:
			session, err = s.setSession(ctx, tx, id, by.Handle, core.SessionQueued, because("goes on, "+nameOf(by)+" answered", reason), nil)
			return err
		case session.State == core.SessionStarting || session.State == core.SessionRunning:
			session, err = tx.UpdateSession(ctx, id, func(s *core.Session) error { s.Wait = waitOver; return nil })
			return err
		}
		return core.E("session.wake", core.Conflict, nil, "session %s does not wait for an answer: it is %s", id, session.State)
	})
	if err == nil {
		s.wake()
	}
	return session, err
}

var errNoSession = errors.New("call belongs to no session")
