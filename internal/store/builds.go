package store

import (
	"context"

	"drydock/internal/core"
)

var buildTable = table[core.Build]{
	name: "builds", noun: "build",
	columns: "id, environment, commit_id, state, snapshot, failure, phases, asked_by, why, created, finished",
	fields: func(b *core.Build) []any {
		return []any{
			&b.ID, &b.Environment, &b.Commit, &b.State, &b.Snapshot, asDoc(&b.Failure), asDoc(&b.Phases),
			&b.By, &b.Why,
			stamp{&b.Created},
			stamp{&b.Finished},
		}
	},
}

// CreateBuild adds one; its environment must exist.
func (w Writer) CreateBuild(ctx context.Context, b core.Build) error {
	return w.in(ctx, func(c conn) error { return buildTable.insert(ctx, c, &b) })
}

// Build finds one.
func (r Reader) Build(ctx context.Context, id core.BuildID) (core.Build, error) {
	return buildTable.get(ctx, r.q, id, "WHERE id = ?", id)
}

// Builds lists those of an environment ("" for all), newest first.
func (r Reader) Builds(ctx context.Context, env core.EnvironmentID, p core.Page) ([]core.Build, string, error) {
	if env == "" {
		return buildTable.page(ctx, r.q, p, nil, nil)
	}
	return buildTable.page(ctx, r.q, p, []string{"environment = ?"}, []any{env})
}

// OpenBuilds lists those that are queued or running, oldest first.
func (r Reader) OpenBuilds(ctx context.Context) ([]core.Build, error) {
	return buildTable.list(ctx, r.q, "WHERE state IN (?, ?) ORDER BY id", core.BuildQueued, core.BuildRunning)
}

// UpdateBuild changes one; its state moves along core.BuildTable only.
func (w Writer) UpdateBuild(ctx context.Context, id core.BuildID, change func(*core.Build) error) (core.Build, error) {
	return moveAlong(ctx, w, buildTable, id, core.BuildTable, func(b *core.Build) core.BuildState { return b.State }, change)
}
