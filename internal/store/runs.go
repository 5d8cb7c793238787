package store

import (
	"context"

	"drydock/internal/core"
)

var runTable = table[core.Run]{
	name: "runs", noun: "run",
	columns: "id, session, prompt, blueprint, state, node, data, outcome, verdict, failure, created, finished",
	fields: func(r *core.Run) []any {
		return []any{
			&r.ID, &r.Session, &r.Prompt, &r.Blueprint, &r.State, &r.Node, asDoc(&r.Data), &r.Outcome, &r.Verdict,
			asDoc(&r.Failure),
			stamp{&r.Created},
			stamp{&r.Finished},
		}
	},
}

// CreateRun adds one; its session and prompt must exist.
func (w Writer) CreateRun(ctx context.Context, r core.Run) error {
	return w.in(ctx, func(c conn) error { return runTable.insert(ctx, c, &r) })
}

// Run finds one.
func (r Reader) Run(ctx context.Context, id core.RunID) (core.Run, error) {
	return runTable.get(ctx, r.q, id, "WHERE id = ?", id)
}

// Runs lists a session's runs, oldest first.
func (r Reader) Runs(ctx context.Context, session core.SessionID) ([]core.Run, error) {
	return runTable.list(ctx, r.q, "WHERE session = ? ORDER BY created, id", session)
}

// UpdateRun changes one; its state moves along core.RunTable only.
func (w Writer) UpdateRun(ctx context.Context, id core.RunID, change func(*core.Run) error) (core.Run, error) {
	return moveAlong(ctx, w, runTable, id, core.RunTable, func(r *core.Run) core.RunState { return r.State }, change)
}
