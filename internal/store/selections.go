package store

import (
	"context"
	"time"

	"drydock/internal/core"
)

var selectionTable = table[core.Selection]{
	name: "selections", noun: "selection",
	columns: "id, environment, title, state, reason, owner, owner_name, owner_email, rule, sessions, base, base_commit, snapshot, " +
		"budget_wall, budget_money, picked, picked_by, created, updated",
	fields: func(s *core.Selection) []any {
		return []any{
			&s.ID, &s.Environment, &s.Title, &s.State, &s.Reason, &s.Owner.Handle, &s.Owner.Name, &s.Owner.Email, &s.Rule, &s.Sessions,
			&s.Base, &s.BaseCommit, &s.Snapshot, &s.Budget.WallClock, &s.Budget.Money, &s.Picked, &s.PickedBy,
			stamp{&s.Created},
			stamp{&s.Updated},
		}
	},
	updated: func(s *core.Selection) *time.Time { return &s.Updated },
}

// CreateSelection adds one; its environment must exist. clientID, unless
// empty, is unique among the owner's selections.
func (w Writer) CreateSelection(ctx context.Context, s core.Selection, clientID string) error {
	return w.in(ctx, func(c conn) error { return selectionTable.insert(ctx, c, &s, "client_id", clientID) })
}

// Selection finds one.
func (r Reader) Selection(ctx context.Context, id core.SelectionID) (core.Selection, error) {
	return selectionTable.get(ctx, r.q, id, "WHERE id = ?", id)
}

// SelectionByClientID finds the selection that an owner's client made under
// its own identifier.
func (r Reader) SelectionByClientID(ctx context.Context, owner, clientID string) (core.Selection, error) {
	return selectionTable.get(ctx, r.q, "with client id "+clientID, "WHERE owner = ? AND client_id = ? AND client_id <> ''", owner, clientID)
}

// Selections lists newest first.
func (r Reader) Selections(ctx context.Context, f core.SelectionFilter, p core.Page) ([]core.Selection, string, error) {
	var where conditions
	where.equal("environment", f.Environment)
	where.equal("state", f.State)
	where.equal("owner", f.Owner)
	return selectionTable.page(ctx, r.q, p, where.sql, where.args)
}

// LiveSelections lists those about which something is left to do, oldest first.
func (r Reader) LiveSelections(ctx context.Context) ([]core.Selection, error) {
	return selectionTable.list(ctx, r.q, "WHERE state IN (?, ?, ?) ORDER BY id", core.SelectionOpen, core.SelectionWaiting, core.SelectionPicking)
}

// SessionsOfSelection lists them in the order of their seeds.
func (r Reader) SessionsOfSelection(ctx context.Context, id core.SelectionID) ([]core.Session, error) {
	return sessionTable.list(ctx, r.q, "WHERE selection = ? AND selection <> '' ORDER BY seed, id", id)
}

// UpdateSelection changes one; its state moves along core.SelectionTable only.
func (w Writer) UpdateSelection(ctx context.Context, id core.SelectionID, change func(*core.Selection) error) (core.Selection, error) {
	return moveAlong(ctx, w, selectionTable, id, core.SelectionTable, func(s *core.Selection) core.SelectionState { return s.State }, change)
}
