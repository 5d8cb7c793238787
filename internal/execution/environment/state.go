package environment

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"drydock/internal/core"
	"drydock/internal/store"
)

// Why the platform asks for a build.
const (
	WhyInterval    = "interval"    // the time of its recipe has passed
	WhyPush        = "push"        // the base branch has moved
	WhyRetry       = "retry"       // the last build failed
	WhyInterrupted = "interrupted" // the daemon ended while it was built
	WhyOld         = "old"         // somebody starts from a snapshot that is too old
)

// judge works out how an environment stands. It is the one place that does.
func judge(env core.Environment, row store.Freshness, snap *core.Snapshot, building core.BuildID, limit time.Duration, now time.Time) core.Freshness {
	f := core.Freshness{
		State: core.EnvironmentFresh, Checked: row.Checked, Head: row.Head, Build: building, Failures: row.Failures, Failure: row.Failure,
		Next: row.Next, NextWhy: row.Why, Pinned: row.Pinned, PinnedBy: row.PinnedBy, PinnedAt: row.PinnedAt, Refresh: row.Refresh, MaxAge: limit,
	}
	if row.MaxAge != 0 {
		f.MaxAge = max(row.MaxAge, 0)
	}
	if snap != nil {
		f.Made, f.Commit = snap.Created, snap.Commit
		if f.Checked.Before(f.Made) {
			f.Checked = f.Made // rows that are older than their columns
		}
		f.Old = f.MaxAge > 0 && now.Sub(f.Made) > f.MaxAge
	}
	stale := func(since time.Time, format string, args ...any) {
		f.State, f.StaleSince, f.Why = core.EnvironmentStale, since, fmt.Sprintf(format, args...)
	}
	switch {
	case env.Snapshot == "":
		stale(env.Created, "it has no good build yet")
	case f.Head != "" && f.Head != f.Commit && f.Pinned == "":
		stale(row.HeadSeen, "%s has moved on to %s", env.DefaultBranch, clip(f.Head, 12))
	case f.Refresh > 0 && now.Sub(f.Checked) > 2*f.Refresh && f.Pinned == "":
		stale(f.Checked.Add(2*f.Refresh), "no build has found it right for %s", now.Sub(f.Checked).Round(time.Minute))
	}
	switch {
	case building != "":
		f.State, f.Next, f.NextWhy = core.EnvironmentBuilding, time.Time{}, ""
		f.Why = "build " + string(building)
	case row.Failures > 0:
		f.State = core.EnvironmentFailing
		f.Why = fmt.Sprintf("%d builds in a row failed", row.Failures)
		if row.Failures == 1 {
			f.Why = "the last build failed"
		}
		if row.Failure != nil {
			f.Why += ": " + row.Failure.Message
		}
	case row.Pinned != "":
		f.State = core.EnvironmentPinned
		f.Why = fmt.Sprintf("%s went back to %s; until the branch moves on or somebody builds it", row.PinnedBy, row.Pinned)
	}
	return f
}

// withFreshness fills in how environments stand.
func (b *Builder) withFreshness(ctx context.Context, envs ...core.Environment) ([]core.Environment, error) {
	open, err := b.deps.DB.OpenBuilds(ctx)
	if err != nil {
		return nil, err
	}
	building := map[core.EnvironmentID]core.BuildID{}
	for _, build := range open { // oldest first: the one that runs wins
		if building[build.Environment] == "" {
			building[build.Environment] = build.ID
		}
	}
	for i, env := range envs {
		row, err := b.deps.DB.Freshness(ctx, env.ID)
		if core.Is(err, core.NotFound) {
			continue // it is just being removed
		}
		if err != nil {
			return nil, err
		}
		var snap *core.Snapshot
		if env.Snapshot != "" {
			found, err := b.deps.DB.Snapshot(ctx, env.Snapshot)
			if err != nil && !core.Is(err, core.NotFound) {
				return nil, err
			}
			if err == nil {
				snap = &found
			}
		}
		f := judge(env, row, snap, building[env.ID], b.opts.MaxSnapshotAge, time.Now().UTC())
		envs[i].Freshness = &f
	}
	return envs, nil
}

// maxBackOff bounds the time between two tries of what fails.
const maxBackOff = 6 * time.Hour

// backOff is how long to wait after so many failures in a row.
func backOff(interval time.Duration, failures int) time.Duration {
	limit := max(maxBackOff, interval)
	d := interval
	for range failures - 1 {
		if d *= 2; d >= limit {
			return limit
		}
	}
	return d
}

// jitter spreads a time by a tenth in both directions, so that what was once
// started together does not stay together.
func jitter(d time.Duration) time.Duration {
	return d*9/10 + time.Duration(rand.Int64N(int64(d/5)+1)) //nolint:gosec // nobody gains by guessing it
}

// ended is what a build leaves for the next one to be planned by.
type ended struct {
	build   core.Build
	state   core.BuildState
	failure *core.Failure
	ref     bool // of something else than the base branch
	counted bool // it ran and came to an end of its own
}

// replan writes the end of a build into the row of its environment.
func replan(row *store.Freshness, e ended, now time.Time) {
	if row.Why == WhyPush && !row.HeadSeen.Before(e.build.Created) && e.build.Commit != row.Head && e.build.Commit != "" {
		// The branch moved while it was built: what was planned for that stands.
		if e.state == core.BuildDone {
			row.Checked, row.Failures, row.Failure = now, 0, nil
		}
		return
	}
	wait, why := row.Refresh, WhyInterval
	switch {
	case !e.counted:
		wait, why = time.Minute, WhyInterrupted
	case e.state == core.BuildDone:
		row.Checked, row.Failures, row.Failure = now, 0, nil
	case e.state == core.BuildFailed && e.ref:
		// Somebody tried something else; it says nothing of the base branch.
	case e.state == core.BuildFailed:
		row.Failures++
		row.Failure = e.failure
		wait, why = backOff(row.Refresh, row.Failures), WhyRetry
	}
	if row.Refresh == 0 || row.Pinned != "" && why == WhyInterval {
		row.Next, row.Why = time.Time{}, ""
		return
	}
	row.Next, row.Why = now.Add(jitter(wait)), why
}

// Rollback makes an earlier good snapshot of an environment the one in use
// again, and keeps it so until the base branch moves on or somebody builds it.
func (b *Builder) Rollback(ctx context.Context, nameOrID string, to core.SnapshotID, by core.Author) (core.Environment, error) {
	const op = "environment.rollback"
	env, err := b.deps.DB.Environment(ctx, nameOrID)
	if err != nil {
		return env, err
	}
	snap, err := b.deps.DB.Snapshot(ctx, to)
	if err != nil {
		return env, err
	}
	hint := fmt.Sprintf("drydock env show %s lists its builds; those that are done have one", env.Name)
	switch {
	case snap.Environment != env.ID:
		return env, core.E(op, core.Invalid, nil, "snapshot %s is not of environment %s", to, env.Name).WithHint("%s", hint)
	case snap.Session != "" || snap.Build == "":
		return env, core.E(op, core.Invalid, nil, "snapshot %s is of a session, not of a build", to).WithHint("%s", hint)
	case snap.State != core.SnapshotReady:
		return env, core.E(op, core.Conflict, nil, "snapshot %s is %s", to, snap.State).WithHint("%s", hint)
	}
	// Nothing may remove it between the look and the use.
	_, release, err := b.deps.Snapshots.Acquire(ctx, to)
	if err != nil {
		return env, err
	}
	defer release()
	now := time.Now().UTC()
	err = b.deps.DB.Tx(ctx, func(tx *store.Tx) error {
		if env, err = tx.UpdateEnvironment(ctx, env.ID, func(e *core.Environment) error {
			e.Snapshot = to
			return nil
		}); err != nil {
			return err
		}
		_, err := tx.UpdateFreshness(ctx, env.ID, func(f *store.Freshness) error {
			f.Pinned, f.PinnedAt, f.PinnedBy = to, now, by.Handle
			f.Failures, f.Failure = 0, nil // a person has decided
			f.Next, f.Why = time.Time{}, ""
			return nil
		})
		return err
	})
	if err != nil {
		return env, err
	}
	b.deps.Log.Info("an environment went back to an earlier snapshot", "environment", env.Name, "snapshot", to, "by", by.Handle)
	return b.Get(ctx, string(env.ID))
}
