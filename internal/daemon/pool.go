package daemon

import (
	"context"

	"drydock/internal/core"
	"drydock/internal/execution/capacity"
	"drydock/internal/execution/environment"
	"drydock/internal/execution/environment/recipe"
	"drydock/internal/surface/api"
	"drydock/internal/surface/server"
)

// openPool joins the pool of warm sandboxes with what it is filled from.
func (d *Daemon) openPool() {
	d.pool = environment.NewPool(environment.PoolDeps{
		Launcher: d.launcher, Log: d.log,
		Environments: func(ctx context.Context) (all []core.Environment, err error) {
			for page := (core.Page{Limit: core.MaxPage}); ; {
				list, next, err := d.db.Environments(ctx, page)
				if err != nil {
					return nil, err
				}
				all = append(all, list...)
				if page.Cursor = next; next == "" {
					return all, nil
				}
			}
		},
		Recipe: func(ctx context.Context, env core.Environment) (recipe.Recipe, error) {
			m, err := d.snapshots.Get(ctx, env.Snapshot)
			if err != nil {
				return recipe.Recipe{}, err
			}
			repo, err := d.repos.Mirror(ctx, env)
			if err != nil {
				return recipe.Recipe{}, err
			}
			r, _, err := environment.ReadRecipe(ctx, repo, m.Commit)
			return r, err
		},
		Room: func(ctx context.Context) bool {
			ok, _ := d.capacity.Room(ctx, capacity.Warm)
			return ok
		},
	}, environment.PoolOptions{Max: d.opts.WarmMax, Min: d.opts.WarmMin})
	d.capacity.SetReclaim(func(ctx context.Context, want int64) int64 {
		n := int(want/warmBytes) + 1
		return int64(d.pool.Reclaim(ctx, n)) * warmBytes
	})
}

// warmBytes is about what an idle sandbox uses.
const warmBytes = 64 << 20

// drafts gives the interface sandboxes for prompts that are being written.
type drafts struct {
	pool    *environment.Pool
	builder *environment.Builder
}

var _ server.Drafts = drafts{}

// Draft implements server.Drafts.
func (d drafts) Draft(ctx context.Context, nameOrID string, _ core.Author) (api.Draft, error) {
	env, err := d.builder.Get(ctx, nameOrID)
	if err != nil {
		return api.Draft{}, err
	}
	if env.Snapshot == "" {
		return api.Draft{}, core.E("api.draft", core.Conflict, nil, "environment %s has no good build yet", env.Name).
			WithHint("build it with `drydock env build %s`", env.Source)
	}
	id, expires, warm := d.pool.Draft(env)
	return api.Draft{ID: id, Environment: env.ID, Warm: warm, Expires: expires}, nil
}

// ReturnDraft implements server.Drafts.
func (d drafts) ReturnDraft(_ context.Context, id core.DraftID, _ core.Author) error {
	return d.pool.Return(id)
}
