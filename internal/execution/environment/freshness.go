package environment

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"drydock/internal/core"
	"drydock/internal/store"
)

// FreshnessRows are the rows that a Refresher plans by. Times are in them, so
// that a restart goes on with the plan instead of starting everything.
type FreshnessRows interface {
	Environments(ctx context.Context, p core.Page) ([]core.Environment, string, error)
	Environment(ctx context.Context, ref string) (core.Environment, error)
	OpenBuilds(ctx context.Context) ([]core.Build, error)
	Freshness(ctx context.Context, env core.EnvironmentID) (store.Freshness, error)
	UpdateFreshness(ctx context.Context, env core.EnvironmentID, change func(*store.Freshness) error) (store.Freshness, error)
}

// RefresherDeps are what a Refresher uses of others.
type RefresherDeps struct {
	Rows FreshnessRows
	// Build asks for a build, as Builder.Build does.
	Build func(ctx context.Context, req BuildRequest) (core.Build, error)
	// Head is where the base branch stands, asked at little cost; "" where that
	// is not known.
	Head func(ctx context.Context, env core.Environment) (string, error)
	// Allowed says why nothing may be built now (the host is full); nil allows.
	Allowed func(ctx context.Context) error
	Log     *slog.Logger
}

// Refresher keeps environments up to date: it asks for a build of each when its
// time has come, or its base branch has moved. That two builds of one
// environment never run at once is the Builder's doing; when to try again after
// a failure is written by it too.
type Refresher struct {
	deps RefresherDeps
	wake chan struct{}
	now  chan struct{} // places for questions to sources

	mu     sync.Mutex
	poll   map[core.EnvironmentID]time.Time // when to ask for the head next
	asking map[core.EnvironmentID]bool
	poked  map[core.EnvironmentID]bool // asked again while a question was under way
	full   bool                        // told that nothing may be built
	wg     sync.WaitGroup
}

// Bounds of polling, and of what follows a restart.
const (
	pollLeast   = time.Minute
	pollMost    = time.Hour
	pollShare   = 6 // of the interval
	pollTimeout = 2 * time.Minute
	pollPlaces  = 4
	lookEvery   = time.Minute      // at rows that somebody else may have changed
	spreadEvery = 30 * time.Second // between builds that all are due at a start
	askAgain    = 5 * time.Minute  // after a build could not be asked for
)

// NewRefresher makes one; Run works until its context ends.
func NewRefresher(deps RefresherDeps) *Refresher {
	if deps.Log == nil {
		deps.Log = slog.New(slog.DiscardHandler)
	}
	return &Refresher{
		deps: deps, wake: make(chan struct{}, 1), now: make(chan struct{}, pollPlaces),
		poll: map[core.EnvironmentID]time.Time{}, asking: map[core.EnvironmentID]bool{}, poked: map[core.EnvironmentID]bool{},
	}
}

// Run plans and asks until ctx ends.
func (r *Refresher) Run(ctx context.Context) error {
	defer r.wg.Wait()
	if err := r.spread(ctx); err != nil && ctx.Err() == nil {
		r.deps.Log.Error("builds that are due could not be spread", "error", err)
	}
	for {
		next, err := r.tick(ctx)
		if err != nil && ctx.Err() == nil {
			r.deps.Log.Error("environments could not be looked at", "error", err)
		}
		timer := time.NewTimer(max(time.Until(next), 0))
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil
		case <-timer.C:
		case <-r.wake:
			timer.Stop()
		}
	}
}

// Poke says that a branch of an environment's repository may have moved.
func (r *Refresher) Poke(env core.EnvironmentID) {
	r.mu.Lock()
	r.poll[env] = time.Time{}
	r.poked[env] = r.asking[env]
	r.mu.Unlock()
	r.nudge()
}

func (r *Refresher) nudge() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

func (r *Refresher) each(ctx context.Context, do func(core.Environment, store.Freshness) error) error {
	for cursor := ""; ; {
		envs, next, err := r.deps.Rows.Environments(ctx, core.Page{Limit: core.MaxPage, Cursor: cursor})
		if err != nil {
			return err
		}
		for _, env := range envs {
			row, err := r.deps.Rows.Freshness(ctx, env.ID)
			if err == nil {
				err = do(env, row)
			}
			if core.Is(err, core.NotFound) {
				continue // it is just being removed
			}
			if err != nil {
				return fmt.Errorf("environment %s: %w", env.Name, err)
			}
		}
		if cursor = next; cursor == "" {
			return nil
		}
	}
}

// spread gives builds that became due while no daemon ran times one after the
// other.
func (r *Refresher) spread(ctx context.Context) error {
	now, n := time.Now().UTC(), 0
	return r.each(ctx, func(env core.Environment, row store.Freshness) error {
		if row.Next.IsZero() || row.Next.After(now) {
			return nil
		}
		at := now.Add(time.Duration(n)*spreadEvery + fraction(spreadEvery))
		n++
		_, err := r.deps.Rows.UpdateFreshness(ctx, env.ID, func(f *store.Freshness) error {
			f.Next = at
			return nil
		})
		return err
	})
}

func fraction(d time.Duration) time.Duration {
	return time.Duration(rand.Int64N(int64(d) + 1)) //nolint:gosec // nobody gains by guessing it
}

// tick does what is due and returns when to look again.
func (r *Refresher) tick(ctx context.Context) (time.Time, error) {
	now := time.Now().UTC()
	next := now.Add(lookEvery)
	soon := func(t time.Time) {
		if t.Before(next) {
			next = t
		}
	}
	open, err := r.deps.Rows.OpenBuilds(ctx)
	if err != nil {
		return next, err
	}
	busy := map[core.EnvironmentID]bool{}
	for _, b := range open {
		busy[b.Environment] = true
	}
	seen := map[core.EnvironmentID]bool{}
	err = r.each(ctx, func(env core.Environment, row store.Freshness) error {
		seen[env.ID] = true
		soon(r.ask(ctx, env, row, now))
		if row.Refresh == 0 || busy[env.ID] {
			return nil // the end of a build plans the next one
		}
		if row.Next.IsZero() {
			if row.Pinned != "" {
				return nil
			}
			// Never planned: made by an earlier version. Anywhere in its interval.
			row, err = r.deps.Rows.UpdateFreshness(ctx, env.ID, func(f *store.Freshness) error {
				f.Next, f.Why = now.Add(fraction(f.Refresh)), WhyInterval
				return nil
			})
			if err != nil {
				return err
			}
		}
		if now.Before(row.Next) {
			soon(row.Next)
			return nil
		}
		return r.build(ctx, env, row)
	})
	r.forget(seen)
	return next, err
}

// forget drops what is kept of environments that are gone.
func (r *Refresher) forget(seen map[core.EnvironmentID]bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for id := range r.poll {
		if !seen[id] {
			delete(r.poll, id)
			delete(r.poked, id)
		}
	}
}

// build asks for one that is due.
func (r *Refresher) build(ctx context.Context, env core.Environment, row store.Freshness) error {
	if r.deps.Allowed != nil {
		err := r.deps.Allowed(ctx)
		if err != nil && !r.full {
			r.deps.Log.Info("environments wait to be built", "error", err)
		}
		if r.full = err != nil; r.full {
			return nil // it stays due
		}
	}
	b, err := r.deps.Build(ctx, BuildRequest{Name: env.Name, By: core.Platform(), Why: row.Why})
	if err == nil {
		r.deps.Log.Debug("an environment is built by itself", "environment", env.Name, "build", b.ID, "reason", row.Why)
		return nil
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	r.deps.Log.Error("a build could not be asked for", "environment", env.Name, "error", err)
	_, err = r.deps.Rows.UpdateFreshness(ctx, env.ID, func(f *store.Freshness) error {
		f.Next = time.Now().UTC().Add(jitter(askAgain))
		return nil
	})
	return err
}

// ask finds out where the base branch stands, if it is time to, and returns
// when it is.
func (r *Refresher) ask(ctx context.Context, env core.Environment, row store.Freshness, now time.Time) time.Time {
	never := now.Add(lookEvery)
	r.mu.Lock()
	defer r.mu.Unlock()
	at, known := r.poll[env.ID]
	every := min(max(row.Refresh/pollShare, pollLeast), pollMost)
	switch {
	case r.asking[env.ID]:
		return never
	case !known && row.Refresh == 0:
		return never // only where somebody says that something moved
	case !known:
		at = now.Add(fraction(every))
		r.poll[env.ID] = at
		return at
	case now.Before(at):
		return at
	}
	if row.Refresh == 0 {
		delete(r.poll, env.ID)
	} else {
		r.poll[env.ID] = now.Add(jitter(every))
	}
	r.asking[env.ID] = true
	r.wg.Go(func() {
		err := r.look(ctx, env)
		if err != nil && ctx.Err() == nil {
			r.deps.Log.Debug("the head of a base branch is not known", "environment", env.Name, "error", err)
		}
		r.mu.Lock()
		delete(r.asking, env.ID)
		if r.poked[env.ID] {
			delete(r.poked, env.ID)
			r.poll[env.ID] = time.Time{}
		}
		r.mu.Unlock()
		r.nudge()
	})
	return never
}

// look asks for the head of the base branch; one that is new is built at once.
func (r *Refresher) look(ctx context.Context, env core.Environment) error {
	select {
	case r.now <- struct{}{}:
		defer func() { <-r.now }()
	case <-ctx.Done():
		return ctx.Err()
	}
	ask, cancel := context.WithTimeout(ctx, pollTimeout)
	defer cancel()
	head, err := r.deps.Head(ask, env)
	if err != nil || head == "" {
		return err
	}
	_, err = r.deps.Rows.UpdateFreshness(ctx, env.ID, func(f *store.Freshness) error {
		if f.Head == head {
			return errSame
		}
		first := f.Head == ""
		now := time.Now().UTC()
		f.Head, f.HeadSeen = head, now
		if f.Refresh > 0 && !first { // the first one seen is no move
			f.Failures, f.Failure = 0, nil // what failed may be put right by it
			f.Next, f.Why = now, WhyPush
		}
		return nil
	})
	if errors.Is(err, errSame) {
		return nil
	}
	return err
}

// Wanted says that somebody starts from a snapshot that is too old. A build is
// asked for where one can be had: not where builds fail, which have times of
// their own, nor where a person has decided. It says whether one is to come.
func (r *Refresher) Wanted(ctx context.Context, id core.EnvironmentID) (bool, error) {
	coming := false
	now := time.Now().UTC()
	_, err := r.deps.Rows.UpdateFreshness(ctx, id, func(f *store.Freshness) error {
		coming = f.Refresh > 0 && f.Failures == 0 && f.Pinned == ""
		if !coming || !f.Next.IsZero() && !f.Next.After(now) {
			return errSame
		}
		f.Next, f.Why = now, WhyOld
		return nil
	})
	if errors.Is(err, errSame) {
		return coming, nil
	}
	r.nudge()
	return coming, err
}
