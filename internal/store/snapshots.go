package store

import (
	"context"

	"drydock/internal/core"
)

var snapshotTable = table[core.Snapshot]{
	name: "snapshots", noun: "snapshot",
	columns: "id, parent, environment, session, build, commit_id, state, bytes, memory, created",
	fields: func(s *core.Snapshot) []any {
		return []any{
			&s.ID, &s.Parent, &s.Environment, &s.Session, &s.Build, &s.Commit, &s.State, &s.Bytes, &s.Memory, stamp{&s.Created},
		}
	},
}

// SnapshotFilter narrows a list; zero fields do not.
type SnapshotFilter struct {
	Environment core.EnvironmentID
	Session     core.SessionID
	State       core.SnapshotState
}

// CreateSnapshot adds one.
func (w Writer) CreateSnapshot(ctx context.Context, s core.Snapshot) error {
	return w.in(ctx, func(c conn) error { return snapshotTable.insert(ctx, c, &s) })
}

// Snapshot finds one, also a removed one.
func (r Reader) Snapshot(ctx context.Context, id core.SnapshotID) (core.Snapshot, error) {
	return snapshotTable.get(ctx, r.q, id, "WHERE id = ?", id)
}

// Snapshots lists newest first.
func (r Reader) Snapshots(ctx context.Context, f SnapshotFilter, p core.Page) ([]core.Snapshot, string, error) {
	var where conditions
	where.equal("environment", f.Environment)
	where.equal("session", f.Session)
	where.equal("state", f.State)
	return snapshotTable.page(ctx, r.q, p, where.sql, where.args)
}

// SnapshotsInState lists all in a state, oldest first; for recovery and
// collection.
func (r Reader) SnapshotsInState(ctx context.Context, state core.SnapshotState) ([]core.Snapshot, error) {
	return snapshotTable.list(ctx, r.q, "WHERE state = ? ORDER BY id", state)
}

// UpdateSnapshot changes one; its state moves along core.SnapshotTable only.
func (w Writer) UpdateSnapshot(ctx context.Context, id core.SnapshotID, change func(*core.Snapshot) error) (core.Snapshot, error) {
	return moveAlong(ctx, w, snapshotTable, id, core.SnapshotTable, func(s *core.Snapshot) core.SnapshotState { return s.State }, change)
}
