package daemon

import (
	"context"
	"strings"

	"drydock/internal/control/session"
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
		freed := int64(d.pool.Reclaim(ctx, int(want/warmBytes)+1)) * warmBytes
		if freed == 0 && d.workspaces.Crowded(ctx) {
			freed = warmBytes
		}
		return freed
	})
}

// elbow is the room of the host for sessions: where memory is short, somebody
// who does nothing makes room for who waits.
type elbow struct {
	*capacity.Keeper
	crowd chan<- struct{}
}

var _ session.Capacity = elbow{}

// Enter implements session.Capacity.
func (e elbow) Enter(ctx context.Context, id core.SessionID, resumed bool) (leave func(), lack string) {
	leave, lack = e.Keeper.Enter(ctx, id, resumed)
	if strings.HasPrefix(lack, "memory") {
		select {
		case e.crowd <- struct{}{}:
		default:
		}
	}
	return leave, lack
}

// makeRoom gives warm sandboxes back, and suspends idle sessions, for those that
// wait to begin.
func (d *Daemon) makeRoom(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-d.crowd:
		}
		if d.pool.Reclaim(ctx, 1) == 0 {
			d.workspaces.Crowded(ctx)
		}
	}
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
