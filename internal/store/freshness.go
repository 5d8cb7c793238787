package store

import (
	"context"
	"time"

	"drydock/internal/core"
)

// Freshness is what the platform knows of keeping an environment up to date.
// There is one row for each environment.
type Freshness struct {
	Environment core.EnvironmentID
	Refresh     time.Duration // between builds; 0: never by itself
	MaxAge      time.Duration // of the recipe; 0: the daemon's, negative: none
	Head        string        // of the base branch, as last seen
	HeadSeen    time.Time     // when it was first seen there
	Checked     time.Time     // when a build last found the snapshot right, or made it
	Failures    int           // builds that failed since
	Failure     *core.Failure // of the last of them
	Next        time.Time     // when to build next; zero: not planned
	Why         string        // why then
	Pinned      core.SnapshotID
	PinnedAt    time.Time
	PinnedBy    string
}

// defaultRefresh is that of a recipe that says nothing.
const defaultRefresh = 30 * time.Minute

var freshnessTable = table[Freshness]{
	name: "freshness", noun: "freshness of environment",
	columns: "environment, refresh, max_age, head, head_seen, checked, failures, failure, next_build, why, pinned, pinned_at, pinned_by",
	fields: func(f *Freshness) []any {
		return []any{
			&f.Environment, &f.Refresh, &f.MaxAge, &f.Head,
			stamp{&f.HeadSeen},
			stamp{&f.Checked},
			&f.Failures, asDoc(&f.Failure),
			stamp{&f.Next},
			&f.Why, &f.Pinned,
			stamp{&f.PinnedAt},
			&f.PinnedBy,
		}
	},
}

// Freshness finds the one of an environment.
func (r Reader) Freshness(ctx context.Context, env core.EnvironmentID) (Freshness, error) {
	return freshnessTable.get(ctx, r.q, env, "WHERE environment = ?", env)
}

// UpdateFreshness changes the one of an environment.
func (w Writer) UpdateFreshness(ctx context.Context, env core.EnvironmentID, change func(*Freshness) error) (Freshness, error) {
	return freshnessTable.change(ctx, w, env, change)
}
