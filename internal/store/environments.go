package store

import (
	"context"
	"time"

	"drydock/internal/core"
)

var environmentTable = table[core.Environment]{
	name: "environments", noun: "environment",
	columns: "id, name, source, default_branch, snapshot, created, updated",
	fields: func(e *core.Environment) []any {
		return []any{&e.ID, &e.Name, &e.Source, &e.DefaultBranch, &e.Snapshot, stamp{&e.Created}, stamp{&e.Updated}}
	},
	updated: func(e *core.Environment) *time.Time { return &e.Updated },
}

// CreateEnvironment adds one, with its freshness; a second of the same name is a Conflict.
func (w Writer) CreateEnvironment(ctx context.Context, e core.Environment) error {
	return w.in(ctx, func(c conn) error {
		if _, err := environmentTable.get(ctx, c, e.Name, "WHERE name = ?", e.Name); err == nil {
			return core.E("store.environment", core.Conflict, nil, "environment %s exists already", e.Name)
		}
		if err := environmentTable.insert(ctx, c, &e); err != nil {
			return err
		}
		return freshnessTable.insert(ctx, c, &Freshness{Environment: e.ID, Refresh: defaultRefresh})
	})
}

// Environment finds one by its identifier or its name.
func (r Reader) Environment(ctx context.Context, ref string) (core.Environment, error) {
	return environmentTable.get(ctx, r.q, ref, "WHERE id = ? OR name = ?", ref, ref)
}

// Environments lists newest first.
func (r Reader) Environments(ctx context.Context, p core.Page) ([]core.Environment, string, error) {
	return environmentTable.page(ctx, r.q, p, nil, nil)
}

// UpdateEnvironment changes one as change says.
func (w Writer) UpdateEnvironment(ctx context.Context, id core.EnvironmentID, change func(*core.Environment) error) (core.Environment, error) {
	return environmentTable.change(ctx, w, id, change)
}

// DeleteEnvironment removes one and its builds. While sessions of it exist it
// is a Conflict.
func (w Writer) DeleteEnvironment(ctx context.Context, id core.EnvironmentID) error {
	return w.in(ctx, func(c conn) error {
		var sessions int
		if err := c.row(ctx, `SELECT COUNT(*) FROM sessions WHERE environment = ?`, id).Scan(&sessions); err != nil {
			return c.d.explain(ctx, "store.environment", err, environmentTable.what(id))
		}
		if sessions > 0 {
			return core.E("store.environment", core.Conflict, nil, "environment %s has %d sessions", id, sessions).
				WithHint("archive is not enough: the history of a session names its environment")
		}
		n, err := c.exec(ctx, `DELETE FROM environments WHERE id = ?`, id)
		if err == nil && n == 0 {
			return core.E("store.environment", core.NotFound, nil, "environment %s does not exist", id)
		}
		return c.d.explain(ctx, "store.environment", err, environmentTable.what(id))
	})
}
