package session

import (
	"context"
	"errors"
	"runtime/debug"
	"sync"
	"time"

	"drydock/internal/core"
	"drydock/internal/store"
)

// running is a claim that this process works on.
type running struct {
	job     Job
	ctx     context.Context //nolint:containedctx // the life of the claim, which no caller's context is
	cancel  context.CancelCauseFunc
	renewed time.Time // when the lease was last extended; guarded by Service.mu
}

// Run claims and executes prompts until ctx ends, and then waits for its
// runners: their runs stay as they are and go on at the next start. It is
// called once.
func (s *Service) Run(ctx context.Context) error {
	if err := s.Recover(ctx); err != nil {
		return err
	}
	var workers, loops sync.WaitGroup
	loops.Go(func() {
		every(ctx, s.opts.Heartbeat, nil, func() { s.tend(ctx) })
	})
	loops.Go(func() {
		every(ctx, s.opts.Poll, s.wakeup, func() { s.fill(ctx, &workers) })
	})
	loops.Wait()
	for _, r := range s.current() {
		r.cancel(ErrShutdown)
	}
	done := make(chan struct{})
	go func() { workers.Wait(); close(done) }()
	late := time.NewTimer(s.opts.ShutdownGrace)
	defer late.Stop()
	for {
		beat := time.NewTimer(s.opts.Heartbeat)
		select {
		case <-done:
			beat.Stop()
			return nil
		case <-beat.C: // runners that are slow to end keep their sessions
			s.tend(context.WithoutCancel(ctx))
		case <-late.C:
			beat.Stop()
			return core.E("session.run", core.Unavailable, nil, "%d runners did not end within %v", len(s.current()), s.opts.ShutdownGrace)
		}
	}
}

// every calls fn at once, then whenever wake is sent or the time is over.
func every(ctx context.Context, d time.Duration, wake <-chan struct{}, fn func()) {
	tick := time.NewTicker(d)
	defer tick.Stop()
	for ctx.Err() == nil {
		fn()
		select {
		case <-ctx.Done():
		case <-wake:
		case <-tick.C:
		}
	}
}

func (s *Service) current() []*running {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]*running, 0, len(s.jobs))
	for _, r := range s.jobs {
		out = append(out, r)
	}
	return out
}

func (s *Service) busy() []core.SessionID {
	var out []core.SessionID
	for _, r := range s.current() {
		out = append(out, r.job.Session.ID)
	}
	return out
}

func (s *Service) local(id core.SessionID) *running {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.jobs[id]
}

// fill claims, in turn, until nothing is left that may run, or enough runs.
func (s *Service) fill(ctx context.Context, workers *sync.WaitGroup) {
	for again := true; again && ctx.Err() == nil; {
		if len(s.busy()) >= s.opts.MaxRunning {
			return
		}
		list, err := s.turns(ctx)
		if err != nil && ctx.Err() == nil {
			s.logger.WarnContext(ctx, "queue not read", "op", "session.claim", "err", err)
		}
		again = err == nil && s.take(ctx, list, workers)
	}
}

// take claims the first that can be claimed. One that cannot does not hold up
// the others; but where the host has no room for the first, those behind it do
// not slip past.
func (s *Service) take(ctx context.Context, list []turn, workers *sync.WaitGroup) bool {
	for _, t := range list {
		if t.bound != "" {
			return false // and so is everything behind it
		}
		leave := func() {}
		if s.capacity != nil {
			var lack string
			if leave, lack = s.capacity.Enter(ctx, t.Session, t.resumed()); lack != "" {
				if t.resumed() {
					continue // the sandbox of another one may be there already
				}
				return false
			}
		}
		work, err := s.claim(ctx, t.ID)
		if work != nil {
			workers.Go(func() {
				work()
				leave()
				s.wake() // there may be room now
			})
			return true
		}
		leave()
		if err != nil && ctx.Err() == nil {
			s.logger.WarnContext(ctx, "prompt not claimed", "op", "session.claim", "prompt", t.ID, "session", t.Session, "err", err)
		}
	}
	return false
}

// claim takes a prompt, if it is still claimable, and returns what is to be
// done with it.
func (s *Service) claim(ctx context.Context, id core.PromptID) (work func(), err error) {
	err = s.db.Tx(ctx, func(tx *store.Tx) error {
		work = nil
		p, err := tx.ClaimablePrompt(ctx, id, s.opts.Instance, time.Now())
		if core.Is(err, core.NotFound) || (err == nil && s.local(p.Session) != nil) {
			return nil // somebody was quicker
		}
		if err != nil {
			return err
		}
		fence, err := tx.Claim(ctx, store.LeaseOfSession(p.Session), s.opts.Instance, time.Now(), s.opts.Lease)
		if err != nil {
			return err
		}
		over, err := s.overAlready(ctx, tx, p, fence)
		if over || err != nil {
			work = func() { s.kill(ctx, p.Session); s.wake() }
			return err
		}
		job, err := s.begin(ctx, tx, p, fence)
		if err != nil {
			return err
		}
		job.Journal = NewJournal(s.db, s.log, p.Session, job.Run.ID, fence)
		r := &running{job: job, renewed: time.Now()}
		r.ctx, r.cancel = context.WithCancelCause(context.WithoutCancel(ctx))
		tx.OnCommit(func() { // before any other transaction can see the claim
			s.mu.Lock()
			defer s.mu.Unlock()
			s.jobs[p.Session] = r
		})
		work = func() { s.work(r) }
		return nil
	})
	if err != nil {
		return nil, err
	}
	return work, nil
}

// overAlready finishes a claimed prompt that must not be executed: a stop was
// asked for and its runner is dead, or its run ended and nobody could say so.
func (s *Service) overAlready(ctx context.Context, tx *store.Tx, p core.Prompt, fence store.Fence) (bool, error) {
	if p.State != core.PromptRunning {
		return false, nil
	}
	session, err := tx.Session(ctx, p.Session)
	if err != nil {
		return false, err
	}
	run, err := tx.Run(ctx, p.Run)
	switch {
	case err != nil:
		return false, err
	case core.RunTable.Final(run.State):
		return true, s.end(ctx, tx, p, fence, Ending{
			RunState: run.State, Outcome: run.Outcome, Verdict: run.Verdict, Failure: run.Failure, Change: session.Change,
		}, platform)
	case session.State == core.SessionStopping:
		return true, s.endStopped(ctx, tx, p, fence)
	}
	return false, nil
}

// begin marks a claimed prompt as running, with a new run or the one it has.
func (s *Service) begin(ctx context.Context, tx *store.Tx, p core.Prompt, fence store.Fence) (job Job, err error) {
	job.Fence, job.Resumed = fence, p.State == core.PromptRunning
	id, at := p.Session, time.Now().UTC()
	session, err := tx.Session(ctx, id)
	if err != nil {
		return job, err
	}
	reason := "works on the prompt of " + nameOf(p.Author)
	if job.Resumed {
		job.Prompt = p
		old, err := tx.Run(ctx, p.Run)
		if err != nil {
			return job, err
		}
		job.Run, err = tx.UpdateRun(ctx, p.Run, func(r *core.Run) error { r.State = core.RunRunning; return nil })
		if err != nil {
			return job, err
		}
		reason = "goes on with the prompt of " + nameOf(p.Author)
		if old.State == core.RunRunning { // nobody put it aside: its runner died
			reason += " after an interruption"
			err := s.tell(ctx, tx, id, p.Run, platform, core.EventWarning, core.WarningData{
				Code: "run_resumed", Message: "the run was interrupted" + atNode(old.Node) + " and goes on where it stood",
			})
			if err != nil {
				return job, err
			}
		}
	} else {
		job.Run = core.Run{
			ID: core.NewRunID(), Session: id, Prompt: p.ID, Blueprint: session.Blueprint, State: core.RunRunning, Created: at,
		}
		if err := tx.CreateRun(ctx, job.Run); err != nil {
			return job, err
		}
		job.Prompt, err = s.setPrompt(ctx, tx, p.ID, platform, core.PromptRunning, "", func(p *core.Prompt) { p.Run, p.Started = job.Run.ID, at })
		if err != nil {
			return job, err
		}
		err := s.tell(ctx, tx, id, job.Run.ID, platform, core.EventRunStarted,
			core.RunData{Prompt: p.ID, Blueprint: job.Run.Blueprint, State: core.RunRunning})
		if err != nil {
			return job, err
		}
	}
	if err := tx.StartClock(ctx, id, at); err != nil {
		return job, err
	}
	job.Session, err = s.setSession(ctx, tx, id, platform, core.SessionStarting, reason, nil)
	return job, err
}

func atNode(node string) string {
	if node == "" {
		return ""
	}
	return " at " + node
}

// result is what came out of Execute.
type result struct {
	ending Ending
	err    error
}

// work carries one claim from its beginning to the end that is written for it.
func (s *Service) work(r *running) {
	defer r.cancel(nil)
	results := make(chan result, 1)
	var executing sync.WaitGroup
	if err := s.CheckBudget(r.ctx, r.job.Session.ID); core.Is(err, core.Exhausted) {
		results <- result{err: err} // it waits for money without starting a sandbox
	} else {
		executing.Go(func() { results <- s.execute(r) })
	}
	res, returned := s.await(r, results)
	s.settle(r, res)
	if !returned { // its slot and its sandbox are in use until it is really over
		s.logger.Error("run does not end", "op", "session.run", "session", r.job.Session.ID, "run", r.job.Run.ID)
	}
	executing.Wait()
	s.mu.Lock()
	delete(s.jobs, r.job.Session.ID)
	s.mu.Unlock()
	s.wake()
}

// execute calls the executor and turns a panic into a failure.
func (s *Service) execute(r *running) (res result) {
	defer func() {
		if p := recover(); p != nil {
			s.logger.Error("executor panicked", "op", "session.run", "session", r.job.Session.ID, "run", r.job.Run.ID, "panic", p, "stack", string(debug.Stack()))
			res = result{err: core.E("session.run", core.Internal, nil, "the engine panicked: %v", p)}
		}
	}()
	ending, err := s.executor.Execute(r.ctx, r.job)
	return result{ending, err}
}

// await waits for the result. After a stop it climbs the ladder: the context
// is cancelled already; then the sandbox is killed; then the run is given up.
func (s *Service) await(r *running, results <-chan result) (res result, returned bool) {
	select {
	case res := <-results:
		return res, true
	case <-r.ctx.Done():
	}
	if !errors.Is(context.Cause(r.ctx), ErrStopped) {
		return <-results, true // nothing may be killed: work goes on elsewhere, or later
	}
	for _, step := range []struct {
		wait time.Duration
		then func()
	}{
		{s.opts.StopGrace, func() { s.kill(context.WithoutCancel(r.ctx), r.job.Session.ID) }},
		{s.opts.KillGrace, func() {}},
	} {
		timer := time.NewTimer(step.wait)
		select {
		case res := <-results:
			timer.Stop()
			return res, true
		case <-timer.C:
			step.then()
		}
	}
	return result{err: ErrStopped}, false
}

// kill ends a session's sandbox. It has its own time, because a stop must get
// through whatever else ended.
func (s *Service) kill(ctx context.Context, id core.SessionID) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.opts.KillGrace)
	defer cancel()
	if err := s.executor.Kill(ctx, id); err != nil {
		s.logger.WarnContext(ctx, "sandbox not killed", "op", "session.stop", "session", id, "err", err)
	}
}

// tend extends the leases of this process, counts time, and notices stops that
// were asked for elsewhere and leases that are gone.
func (s *Service) tend(ctx context.Context) {
	jobs := s.current()
	if len(jobs) == 0 {
		return
	}
	at := time.Now()
	ends := map[*running]error{}
	err := s.db.Tx(ctx, func(tx *store.Tx) error {
		clear(ends)
		for _, r := range jobs {
			err := tx.Extend(ctx, r.job.Fence, at, s.opts.Lease)
			if errors.Is(err, store.ErrLeaseLost) {
				ends[r] = ErrLeaseLost
				continue
			}
			if err != nil {
				return err
			}
			if err := tx.TickClock(ctx, r.job.Session.ID, at); err != nil {
				return err
			}
			session, err := tx.Session(ctx, r.job.Session.ID)
			if err != nil {
				return err
			}
			over := session.Active - session.Budget.WallClock
			switch {
			case session.State == core.SessionStopping:
				ends[r] = ErrStopped
			case session.Budget.WallClock > 0 && over > s.opts.BudgetGrace:
				ends[r] = ErrBudget
			}
		}
		return nil
	})
	for _, r := range jobs {
		s.mu.Lock()
		if err == nil {
			r.renewed = at
		}
		expired := time.Since(r.renewed) >= s.opts.Lease-s.opts.Heartbeat
		s.mu.Unlock()
		switch {
		case err == nil && ends[r] != nil:
			r.cancel(ends[r])
		case err != nil && expired: // nobody knows who has it now
			r.cancel(ErrLeaseLost)
		}
	}
	if err != nil && ctx.Err() == nil {
		s.logger.WarnContext(ctx, "leases not extended", "op", "session.tend", "jobs", len(jobs), "err", err)
	}
}
