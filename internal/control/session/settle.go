package session

import (
	"context"
	"errors"
	"time"

	"drydock/internal/core"
	"drydock/internal/store"
)

// verdict is what becomes of a run when its runner returned.
type verdict int

const (
	leave  verdict = iota // nothing is written; it is claimed again
	finish                // it ended
	park                  // it waits for a person
)

// judge decides what a returned runner means. cause is why its context ended,
// or nil; spent says that the session's budget is used up.
func judge(cause error, res result, spent bool) (v verdict, ending Ending, wait string) {
	ending = res.ending
	good := res.err == nil && (ending.RunState == core.RunDone || ending.RunState == core.RunHandedOver)
	budget := errors.Is(cause, ErrBudget) || errors.Is(res.err, ErrBudget) ||
		spent && (core.Is(res.err, core.Exhausted) || ending.RunState == core.RunWaiting)
	switch {
	case isLost(cause) || isLost(res.err):
		return leave, ending, ""
	case good: // it was quicker than whatever was asked of it
		return finish, ending, ""
	case errors.Is(cause, ErrStopped):
		return finish, Ending{RunState: core.RunStopped, Outcome: ending.Outcome, Change: ending.Change}, ""
	case errors.Is(cause, ErrShutdown):
		return leave, ending, ""
	case budget:
		return park, ending, waitBudget
	case res.err != nil:
		return finish, Ending{RunState: core.RunFailed, Outcome: ending.Outcome, Change: ending.Change, Failure: failureOf(res)}, ""
	case ending.RunState == core.RunWaiting:
		return park, ending, waitPerson
	case ending.RunState == core.RunFailed || ending.RunState == core.RunStopped:
		return finish, ending, ""
	}
	return finish, Ending{RunState: core.RunFailed, Failure: &core.Failure{
		Code: "bad_ending", Message: "the engine returned without saying how the run ended",
	}}, ""
}

func failureOf(res result) *core.Failure {
	if res.ending.Failure != nil {
		return res.ending.Failure
	}
	return &core.Failure{Code: core.KindOf(res.err).String(), Message: res.err.Error(), Hint: core.HintOf(res.err)}
}

// settle writes what became of a run. While the database is away it tries
// again as long as the lease is good; afterwards the run is claimed again.
func (s *Service) settle(r *running, res result) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.ctx), s.opts.Lease)
	defer cancel()
	cause := context.Cause(r.ctx)
	spent := core.Is(s.CheckBudget(ctx, r.job.Session.ID), core.Exhausted)
	v, ending, wait := judge(cause, res, spent)
	for pause := 50 * time.Millisecond; ; pause = min(2*pause, 5*time.Second) {
		err := s.db.Fenced(ctx, r.job.Fence, func(tx *store.Tx) error {
			switch v {
			case finish:
				return s.end(ctx, tx, r.job.Prompt, r.job.Fence, ending, platform)
			case park:
				return s.putAside(ctx, tx, r.job, ending, wait)
			}
			return s.letGo(ctx, tx, r.job)
		})
		switch {
		case err == nil || isLost(err):
			return
		case ctx.Err() != nil || !core.KindOf(err).Retryable():
			s.logger.Error("end of a run not stored, it will be claimed again", "op", "session.settle",
				"session", r.job.Session.ID, "run", r.job.Run.ID, "err", err)
			return
		}
		timer := time.NewTimer(pause)
		select {
		case <-ctx.Done():
			timer.Stop()
		case <-timer.C:
		}
	}
}

// letGo frees the session for whoever claims it next; the run stays as it is.
func (s *Service) letGo(ctx context.Context, tx *store.Tx, job Job) error {
	if err := tx.StopClock(ctx, job.Session.ID, time.Now()); err != nil {
		return err
	}
	return tx.Release(ctx, job.Fence)
}

// end finishes a run, its prompt and, unless more waits, its session.
func (s *Service) end(ctx context.Context, tx *store.Tx, p core.Prompt, fence store.Fence, ending Ending, actor string) error {
	at := time.Now().UTC()
	run, err := tx.UpdateRun(ctx, p.Run, func(r *core.Run) error {
		r.State, r.Outcome, r.Verdict, r.Failure, r.Finished = ending.RunState, ending.Outcome, ending.Verdict, ending.Failure, at
		return nil
	})
	if err != nil {
		return err
	}
	prompt, leftOver := core.PromptDone, core.AttemptState("")
	switch run.State {
	case core.RunHandedOver:
		prompt = core.PromptHandedOver
	case core.RunFailed:
		prompt, leftOver = core.PromptFailed, core.AttemptFailed
	case core.RunStopped:
		prompt, leftOver = core.PromptStopped, core.AttemptStopped
	}
	if leftOver != "" {
		if err := tx.CloseAttempts(ctx, run.ID, leftOver); err != nil {
			return err
		}
	}
	err = s.tell(ctx, tx, p.Session, run.ID, actor, core.EventRunFinished, core.RunData{
		Prompt: p.ID, Blueprint: run.Blueprint, State: run.State, Outcome: run.Outcome, Verdict: run.Verdict, Failure: run.Failure, Change: ending.Change,
	})
	if err != nil {
		return err
	}
	if _, err := s.setPrompt(ctx, tx, p.ID, actor, prompt, run.Outcome, func(p *core.Prompt) { p.Finished = at }); err != nil {
		return err
	}
	if err := tx.StopClock(ctx, p.Session, at); err != nil {
		return err
	}
	if err := s.next(ctx, tx, p.Session, run, ending.Change, actor); err != nil {
		return err
	}
	return tx.Release(ctx, fence)
}

// next says what a session does after a run.
func (s *Service) next(ctx context.Context, tx *store.Tx, id core.SessionID, run core.Run, change core.ChangeID, actor string) error {
	session, err := tx.Session(ctx, id)
	if err != nil {
		return err
	}
	queue, err := tx.QueuedPrompts(ctx, id)
	if err != nil {
		return err
	}
	var said string
	switch run.State {
	case core.RunHandedOver:
		said = because("handed over", run.Outcome)
	case core.RunFailed:
		said = "failed"
		if run.Failure != nil {
			said = because(said, run.Failure.Message)
		}
	case core.RunStopped:
		said = "stopped"
		if session.State == core.SessionStopping {
			said = session.Reason // who asked, and why
		}
	default:
		said = because("done", run.Outcome)
	}
	to, held := core.SessionIdle, session.Held && len(queue) > 0
	switch {
	case held:
		said += "; " + prompts(len(queue)) + " held until somebody resumes or adds one"
	case len(queue) > 0:
		to, said = core.SessionQueued, said+"; the next prompt "+waitsForRunner
	case run.State == core.RunFailed:
		to = core.SessionFailed
	}
	_, err = s.setSession(ctx, tx, id, actor, to, said, func(s *core.Session) {
		s.Held = held
		if change != "" {
			s.Change = change
		}
	})
	return err
}

// What a waiting session waits for.
const (
	waitBudget = "budget"
	waitPerson = "approval"
	waitOver   = "answered" // the answer came before the run was put aside
)

// putAside leaves a run waiting for a person: nobody works on it, nothing of
// it is lost.
func (s *Service) putAside(ctx context.Context, tx *store.Tx, job Job, ending Ending, wait string) error {
	id := job.Session.ID
	if err := tx.StopClock(ctx, id, time.Now()); err != nil {
		return err
	}
	session, err := tx.Session(ctx, id)
	if err != nil {
		return err
	}
	if session.State == core.SessionStopping { // a stop came just now, and wins
		return s.end(ctx, tx, job.Prompt, job.Fence, Ending{RunState: core.RunStopped, Outcome: ending.Outcome, Change: ending.Change}, platform)
	}
	_, err = tx.UpdateRun(ctx, job.Run.ID, func(r *core.Run) error {
		r.State = core.RunWaiting
		if ending.Outcome != "" {
			r.Outcome = ending.Outcome
		}
		return nil
	})
	if err != nil {
		return err
	}
	reason, answered := because("waits for a person", ending.Outcome), session.Wait == waitOver
	if wait == waitBudget {
		b := overBudget(session)
		if answered = b == nil; !answered {
			reason = "waits: the budget of " + b.Limit + " is spent (" + b.Spent + ")"
			if err := s.tell(ctx, tx, id, job.Run.ID, platform, core.EventBudget, *b); err != nil {
				return err
			}
		}
	}
	if session.State == core.SessionStarting { // it did not get as far as running
		if _, err := s.setSession(ctx, tx, id, platform, core.SessionRunning, session.Reason, nil); err != nil {
			return err
		}
	}
	if _, err := s.setSession(ctx, tx, id, platform, core.SessionWaiting, reason, func(s *core.Session) { s.Wait = wait }); err != nil {
		return err
	}
	if answered { // in the very moment before
		if _, err := s.setSession(ctx, tx, id, platform, core.SessionQueued, "goes on: what it waited for is there", nil); err != nil {
			return err
		}
	}
	return tx.Release(ctx, job.Fence)
}
