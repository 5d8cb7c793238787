package server

import (
	"context"
	"net/http"

	"drydock/internal/core"
	"drydock/internal/surface/api"
)

func (s *Server) environmentRoutes() {
	const tag = "environments"
	envs := s.deps.Environments
	have := envs != nil
	register(s, route{id: "list-environments", method: "GET", path: "/environments", tag: tag, have: have, summary: "List environments by name"},
		func(ctx context.Context, _ core.Author, in *PageIn) (*out[api.List[core.Environment]], error) {
			items, next, err := envs.List(ctx, in.page())
			return listOf(items, next), err
		})
	register(s, route{id: "get-environment", method: "GET", path: "/environments/{id}", tag: tag, have: have, summary: "One environment, by name or identifier"},
		func(ctx context.Context, _ core.Author, in *IDIn) (*out[core.Environment], error) {
			v, err := envs.Get(ctx, in.ID)
			return ok(v), err
		})
	register(s, route{id: "remove-environment", method: "DELETE", path: "/environments/{id}", tag: tag, status: 204, have: have, slow: true, summary: "Remove an environment with its builds and snapshots"},
		func(ctx context.Context, by core.Author, in *IDIn) (*none, error) {
			env, err := envs.Get(ctx, in.ID)
			if err != nil {
				return nil, err
			}
			return nil, envs.Remove(ctx, env.ID, by)
		})
	register(s, route{id: "rollback-environment", method: "POST", path: "/environments/{id}/rollback", tag: tag, have: have, summary: "Use an earlier good snapshot again, until the base branch moves on or somebody builds the environment"},
		func(ctx context.Context, by core.Author, in *struct {
			IDIn
			Body api.Rollback
		},
		) (*out[core.Environment], error) {
			to, err := core.ParseID[core.SnapshotID]("snp_", in.Body.Snapshot)
			if err != nil {
				return nil, err
			}
			v, err := envs.Rollback(ctx, in.ID, to, by)
			return ok(v), err
		})
	register(s, route{id: "get-recipe", method: "GET", path: "/environments/{id}/recipe", tag: tag, have: have, summary: "The file the environment was last built from"},
		func(ctx context.Context, _ core.Author, in *IDIn) (*out[api.Recipe], error) {
			env, err := envs.Get(ctx, in.ID)
			if err != nil {
				return nil, err
			}
			v, err := envs.Recipe(ctx, env.ID)
			return ok(v), err
		})
	register(s, route{id: "list-builds", method: "GET", path: "/environments/{id}/builds", tag: tag, have: have, summary: "Builds of an environment, newest first"},
		func(ctx context.Context, _ core.Author, in *struct {
			IDIn
			PageIn
		},
		) (*out[api.List[core.Build]], error) {
			env, err := envs.Get(ctx, in.ID)
			if err != nil {
				return nil, err
			}
			items, next, err := envs.Builds(ctx, env.ID, in.page())
			return listOf(items, next), err
		})
	register(s, route{id: "create-build", method: "POST", path: "/builds", tag: tag, status: http.StatusAccepted, have: have, summary: "Build an environment; progress are the events of the build"},
		func(ctx context.Context, by core.Author, in *struct{ Body api.CreateBuild }) (*out[core.Build], error) {
			b := in.Body
			if b.Source == "" && b.Name == "" {
				return nil, core.E("server.build", core.Invalid, nil, "neither source nor name is given")
			}
			v, err := envs.Build(ctx, BuildRequest{Source: b.Source, Name: b.Name, Ref: b.Ref, Fresh: b.Fresh, By: by})
			return ok(v), err
		})
	register(s, route{id: "get-build", method: "GET", path: "/builds/{id}", tag: tag, have: have, summary: "One build"},
		func(ctx context.Context, _ core.Author, in *IDIn) (*out[core.Build], error) {
			id, err := core.ParseID[core.BuildID]("bld_", in.ID)
			if err != nil {
				return nil, err
			}
			v, err := envs.GetBuild(ctx, id)
			return ok(v), err
		})
}

func (s *Server) snapshotRoutes() {
	const tag = "snapshots"
	snaps := s.deps.Snapshots
	have := snaps != nil
	register(s, route{id: "list-snapshots", method: "GET", path: "/snapshots", tag: tag, have: have, summary: "List snapshots, newest first"},
		func(ctx context.Context, _ core.Author, in *PageIn) (*out[api.List[core.Snapshot]], error) {
			items, next, err := snaps.List(ctx, in.page())
			return listOf(items, next), err
		})
	register(s, route{id: "get-snapshot", method: "GET", path: "/snapshots/{id}", tag: tag, have: have, summary: "One snapshot, what it is made of and who needs it"},
		func(ctx context.Context, _ core.Author, in *IDIn) (*out[api.SnapshotDetail], error) {
			id, err := core.ParseID[core.SnapshotID]("snp_", in.ID)
			if err != nil {
				return nil, err
			}
			v, err := snaps.Get(ctx, id)
			return ok(v), err
		})
	register(s, route{id: "remove-snapshot", method: "DELETE", path: "/snapshots/{id}", tag: tag, status: 204, have: have, slow: true, summary: "Remove a snapshot that nothing needs"},
		func(ctx context.Context, by core.Author, in *IDIn) (*none, error) {
			id, err := core.ParseID[core.SnapshotID]("snp_", in.ID)
			if err != nil {
				return nil, err
			}
			return nil, snaps.Remove(ctx, id, by)
		})
	register(s, route{id: "verify-snapshot", method: "POST", path: "/snapshots/{id}/verify", tag: tag, have: have, slow: true, summary: "Read everything of a snapshot that can be checked, and say what is damaged"},
		func(ctx context.Context, _ core.Author, in *IDIn) (*out[api.Verification], error) {
			id, err := core.ParseID[core.SnapshotID]("snp_", in.ID)
			if err != nil {
				return nil, err
			}
			v, err := snaps.Verify(ctx, id)
			return ok(v), err
		})
	register(s, route{id: "collect-snapshots", method: "POST", path: "/snapshots/collect", tag: tag, have: have, slow: true, summary: "Remove every snapshot and memory image that nothing needs, and say why the others stay"},
		func(ctx context.Context, _ core.Author, in *struct {
			DryRun bool `query:"dry_run" doc:"only tell"`
		},
		) (*out[api.Collected], error) {
			v, err := snaps.Collect(ctx, in.DryRun)
			if v.Removed == nil {
				v.Removed = []core.SnapshotID{}
			}
			if v.Images == nil {
				v.Images = []core.SnapshotID{}
			}
			if v.Kept == nil {
				v.Kept = []api.Kept{}
			}
			v.DryRun = in.DryRun
			return ok(v), err
		})
	s.transferRoutes()
	register(s, route{id: "list-sandboxes", method: "GET", path: "/sandboxes", tag: "sandboxes", have: s.deps.Sandboxes != nil, summary: "Sandboxes there are now"},
		func(ctx context.Context, _ core.Author, _ *none) (*out[api.List[api.Sandbox]], error) {
			items, err := s.deps.Sandboxes.List(ctx)
			return listOf(items, ""), err
		})
	register(s, route{id: "capacity", method: "GET", path: "/capacity", tag: "sandboxes", have: s.deps.Capacity != nil, summary: "What the host has room for, and who waits"},
		func(ctx context.Context, _ core.Author, _ *none) (*out[api.Capacity], error) {
			v, err := s.deps.Capacity.Capacity(ctx)
			return ok(v), err
		})
}
