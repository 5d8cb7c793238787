package store

import (
	"context"

	"drydock/internal/core"
)

var attemptTable = table[core.Attempt]{
	name: "attempts", noun: "attempt",
	columns: "id, run, node, number, state, result, detail, started, finished",
	fields: func(a *core.Attempt) []any {
		return []any{
			&a.ID, &a.Run, &a.Node, &a.Number, &a.State, &a.Result, asDoc(&a.Detail), stamp{&a.Started}, stamp{&a.Finished},
		}
	},
}

// CreateAttempt adds one and numbers it: the first of a node of a run is 1.
func (w Writer) CreateAttempt(ctx context.Context, a core.Attempt) (core.Attempt, error) {
	err := w.in(ctx, func(c conn) error {
		err := c.row(ctx, `SELECT COALESCE(MAX(number), 0) + 1 FROM attempts WHERE run = ? AND node = ?`, a.Run, a.Node).Scan(&a.Number)
		if err != nil {
			return c.d.explain(ctx, "store.attempt", err, attemptTable.what(a.ID))
		}
		return attemptTable.insert(ctx, c, &a)
	})
	return a, err
}

// Attempt finds one.
func (r Reader) Attempt(ctx context.Context, id core.AttemptID) (core.Attempt, error) {
	return attemptTable.get(ctx, r.q, id, "WHERE id = ?", id)
}

// Attempts lists those of a run, oldest first.
func (r Reader) Attempts(ctx context.Context, run core.RunID) ([]core.Attempt, error) {
	return attemptTable.list(ctx, r.q, "WHERE run = ? ORDER BY started, id", run)
}

// UpdateAttempt changes one; its state moves along core.AttemptTable only.
func (w Writer) UpdateAttempt(ctx context.Context, id core.AttemptID, change func(*core.Attempt) error) (core.Attempt, error) {
	return moveAlong(ctx, w, attemptTable, id, core.AttemptTable, func(a *core.Attempt) core.AttemptState { return a.State }, change)
}

// CloseAttempts ends every running attempt of a run in the given state, which
// must be a final one.
func (w Writer) CloseAttempts(ctx context.Context, run core.RunID, state core.AttemptState) error {
	if !core.AttemptTable.Final(state) {
		return core.E("store.attempt", core.Invalid, nil, "attempts of run %s cannot end as %s", run, state)
	}
	return w.in(ctx, func(c conn) error {
		if err := move("attempt of run", run, core.AttemptTable, core.AttemptRunning, state); err != nil {
			return err
		}
		_, err := c.exec(ctx, `UPDATE attempts SET state = ?, finished = ? WHERE run = ? AND state = ?`, state, nanos(now()), run, core.AttemptRunning)
		return c.d.explain(ctx, "store.attempt", err, "attempts of run "+string(run))
	})
}
