package environment

import (
	"context"
	"time"

	"drydock/internal/core"
	"drydock/internal/gitcmd"
	"drydock/internal/store"
)

// Adoption is an environment for a snapshot that comes from elsewhere.
type Adoption struct {
	Name   string
	Source string // that somebody here named; "" takes Told
	Told   string // that came with the snapshot: never a path, which would be one of this host
	Commit string // of the snapshot; the repository must have it
}

// Adopt finds the environment, or makes it, and sees to it that its repository
// can be reached and has the commit.
func (b *Builder) Adopt(ctx context.Context, a Adoption) (core.Environment, error) {
	const op = "environment.adopt"
	env, err := b.adoptee(ctx, a)
	if err != nil {
		return env, err
	}
	if b.deps.Refresh != nil {
		if err := b.deps.Refresh(ctx, env); err != nil {
			return env, err
		}
	}
	m, err := b.deps.Mirror(ctx, env)
	if err != nil {
		return env, err
	}
	if _, err := m.Sync(ctx); err != nil {
		return env, err
	}
	branch, err := m.DefaultBranch(ctx)
	if err != nil {
		return env, err
	}
	if a.Commit != "" {
		if _, err := m.Resolve(ctx, a.Commit); err != nil {
			return env, core.E(op, core.Conflict, err, "repository %s does not have commit %s, which the snapshot was made at", gitcmd.Redact(env.Source), clip(a.Commit, 12)).
				WithHint("name the right repository with --source, or push the commit to it")
		}
	}
	return b.deps.DB.UpdateEnvironment(ctx, env.ID, func(e *core.Environment) error {
		e.DefaultBranch = branch
		return nil
	})
}

func (b *Builder) adoptee(ctx context.Context, a Adoption) (core.Environment, error) {
	const op = "environment.adopt"
	b.naming.Lock()
	defer b.naming.Unlock()
	req := BuildRequest{Name: a.Name, Source: a.Source}
	env, err := b.deps.DB.Environment(ctx, a.Name)
	switch {
	case err == nil && (a.Source == "" || env.Source == a.Source):
		return env, nil
	case err != nil && !core.Is(err, core.NotFound):
		return env, err
	case a.Source != "":
		return b.environment(ctx, &req)
	}
	told, err := gitcmd.ParseSource(a.Told)
	if err != nil || told.Local {
		return env, core.E(op, core.Invalid, nil, "there is no environment %s, and the snapshot does not say which repository it is of", a.Name).
			WithHint("name the repository with --source")
	}
	req.Source = told.URL
	return b.environment(ctx, &req)
}

// Use makes a snapshot the one that sessions of an environment start from.
func (b *Builder) Use(ctx context.Context, id core.EnvironmentID, snap core.SnapshotID) (env core.Environment, err error) {
	// Nothing may remove it between the look and the use.
	_, release, err := b.deps.Snapshots.Acquire(ctx, snap)
	if err != nil {
		return env, err
	}
	defer release()
	err = b.deps.DB.Tx(ctx, func(tx *store.Tx) error {
		if env, err = tx.UpdateEnvironment(ctx, id, func(e *core.Environment) error {
			e.Snapshot = snap
			return nil
		}); err != nil {
			return err
		}
		_, err := tx.UpdateFreshness(ctx, id, func(f *store.Freshness) error {
			f.Pinned, f.PinnedAt, f.PinnedBy = "", time.Time{}, ""
			f.Failures, f.Failure = 0, nil // a person has decided
			return nil
		})
		return err
	})
	return env, err
}
