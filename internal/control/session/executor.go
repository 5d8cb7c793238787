package session

import (
	"context"
	"errors"

	"drydock/internal/control/event"
	"drydock/internal/core"
	"drydock/internal/store"
)

// Executor does the work of one prompt.
type Executor interface {
	// Execute carries a run to its end. With Resumed set an earlier process
	// began it and may have been killed at any moment: what it did must be
	// found, not done again.
	//
	// When ctx ends, its cause is ErrStopped, ErrBudget, ErrShutdown or
	// ErrLeaseLost; Execute returns at the next safe point, with any error.
	// With Ending.RunState waiting the run is put aside until Wake (a person
	// is asked) or RaiseBudget (the error of CheckBudget may be returned
	// instead, wrapped); it is then executed again with Resumed set.
	Execute(ctx context.Context, job Job) (Ending, error)

	// Kill ends whatever still works for a session: its sandbox. It is called
	// after a stop, when Execute did not return in time or its process is
	// dead, and may be called twice or for nothing. Files stay.
	Kill(ctx context.Context, session core.SessionID) error
}

// Job is one claim of one run.
type Job struct {
	Session core.Session
	Prompt  core.Prompt
	Run     core.Run
	Resumed bool
	Fence   store.Fence
	Journal *Journal
}

// Ending says how a run ended. RunState is done, handed over, failed, stopped,
// or waiting for a person.
type Ending struct {
	RunState core.RunState
	Outcome  string // one line for people
	Verdict  string
	Failure  *core.Failure
	Change   core.ChangeID
}

// Causes of the end of a job's context. Read with context.Cause and errors.Is.
var (
	ErrStopped   error = core.E("session.run", core.Canceled, nil, "somebody asked for a stop")
	ErrBudget    error = core.E("session.run", core.Canceled, nil, "the budget is spent")
	ErrShutdown  error = core.E("session.run", core.Canceled, nil, "the daemon is shutting down")
	ErrLeaseLost error = core.E("session.run", core.Canceled, nil, "another runner has the session")
)

// Journal is how an Executor writes: every write checks the job's fence, so
// that a runner which lost its session without knowing changes nothing.
type Journal struct {
	db      *store.DB
	log     *event.Log
	session core.SessionID
	run     core.RunID
	fence   store.Fence
}

// NewJournal makes the journal of a claim.
func NewJournal(db *store.DB, log *event.Log, session core.SessionID, run core.RunID, fence store.Fence) *Journal {
	return &Journal{db, log, session, run, fence}
}

// Tx is one transaction of the holder of the session.
func (j *Journal) Tx(ctx context.Context, fn func(tx *store.Tx) error) error {
	return j.db.Fenced(ctx, j.fence, fn)
}

// Append stores events of the session; they name the run unless they say
// otherwise.
func (j *Journal) Append(ctx context.Context, events ...core.Event) error {
	_, err := j.log.AppendFenced(ctx, j.fence, string(j.session), j.ofRun(events)...)
	return err
}

// AppendTx is Append within a transaction of Tx.
func (j *Journal) AppendTx(ctx context.Context, tx *store.Tx, events ...core.Event) error {
	_, err := j.log.AppendTx(ctx, tx, string(j.session), j.ofRun(events)...)
	return err
}

// Delta passes on text as it is generated; it may be lost.
func (j *Journal) Delta(text string) { j.log.Delta(string(j.session), text) }

// Started says that the sandbox is ready: the session goes from starting to
// running. A second call changes only the reason.
func (j *Journal) Started(ctx context.Context, reason string) error {
	return j.Tx(ctx, func(tx *store.Tx) error {
		session, err := tx.Session(ctx, j.session)
		if err != nil || (session.State != core.SessionStarting && session.State != core.SessionRunning) {
			return err // a stop is on its way: nothing to say
		}
		_, err = setSession(ctx, tx, j.log, j.session, platform, core.SessionRunning, reason, nil)
		return err
	})
}

// UpdateRun changes the run's row: its node and data. Its state belongs to this
// package.
func (j *Journal) UpdateRun(ctx context.Context, change func(*core.Run) error) (run core.Run, err error) {
	err = j.Tx(ctx, func(tx *store.Tx) error {
		run, err = tx.UpdateRun(ctx, j.run, func(r *core.Run) error {
			state := r.State
			err := change(r)
			r.State = state
			return err
		})
		return err
	})
	return run, err
}

// UpdateSession changes the session's row: branch, head, sandbox, snapshot,
// change. Its state belongs to this package.
func (j *Journal) UpdateSession(ctx context.Context, change func(*core.Session) error) (session core.Session, err error) {
	err = j.Tx(ctx, func(tx *store.Tx) error {
		session, err = tx.UpdateSession(ctx, j.session, func(s *core.Session) error {
			state, reason, held, wait := s.State, s.Reason, s.Held, s.Wait
			if err := change(s); err != nil {
				return err
			}
			s.State, s.Reason, s.Held, s.Wait = state, reason, held, wait
			return nil
		})
		return err
	})
	return session, err
}

func (j *Journal) ofRun(events []core.Event) []core.Event {
	out := make([]core.Event, 0, len(events))
	for _, e := range events {
		if e.Run == "" {
			e.Run = j.run
		}
		out = append(out, e)
	}
	return out
}

func isLost(err error) bool {
	return errors.Is(err, ErrLeaseLost) || errors.Is(err, store.ErrLeaseLost)
}
