package store

import (
	"context"
	"strings"
	"time"

	"drydock/internal/core"
)

var sessionTable = table[core.Session]{
	name: "sessions", noun: "session",
	columns: "id, environment, title, state, reason, owner, owner_name, owner_email, blueprint, agent, model, " +
		"base, base_commit, branch, head, budget_wall, budget_money, " +
		"usage_input, usage_cache_read, usage_cache_write, usage_output, usage_calls, cost_known, cost_unknown, " +
		"active, held, wait, sandbox, snapshot, change_id, selection, seed, created, updated",
	fields: func(s *core.Session) []any {
		return []any{
			&s.ID, &s.Environment, &s.Title, &s.State, &s.Reason, &s.Owner.Handle, &s.Owner.Name, &s.Owner.Email,
			&s.Blueprint, &s.Agent, &s.Model,
			&s.Base, &s.BaseCommit, &s.Branch, &s.Head, &s.Budget.WallClock, &s.Budget.Money,
			&s.Usage.Input, &s.Usage.CacheRead, &s.Usage.CacheWrite, &s.Usage.Output, &s.Usage.Calls, &s.Cost.Known, &s.Cost.Unknown,
			&s.Active, &s.Held, &s.Wait, &s.Sandbox, &s.Snapshot, &s.Change, &s.Selection, &s.Seed,
			stamp{&s.Created},
			stamp{&s.Updated},
		}
	},
	updated: func(s *core.Session) *time.Time { return &s.Updated },
}

// CreateSession adds one; its environment must exist. clientID, unless empty,
// is unique among the owner's sessions.
func (w Writer) CreateSession(ctx context.Context, s core.Session, clientID string) error {
	return w.in(ctx, func(c conn) error { return sessionTable.insert(ctx, c, &s, "client_id", clientID) })
}

// Session finds one.
func (r Reader) Session(ctx context.Context, id core.SessionID) (core.Session, error) {
	return sessionTable.get(ctx, r.q, id, "WHERE id = ?", id)
}

// SessionByClientID finds the session that an owner's client made under its
// own identifier.
func (r Reader) SessionByClientID(ctx context.Context, owner, clientID string) (core.Session, error) {
	return sessionTable.get(ctx, r.q, "with client id "+clientID, "WHERE owner = ? AND client_id = ? AND client_id <> ''", owner, clientID)
}

// Sessions lists newest first.
func (r Reader) Sessions(ctx context.Context, f core.SessionFilter, p core.Page) ([]core.Session, string, error) {
	var where conditions
	where.equal("environment", f.Environment)
	where.equal("state", f.State)
	where.equal("owner", f.Owner)
	if f.Text != "" {
		where.add(`LOWER(title) LIKE ? ESCAPE '\'`, "%"+escapeLike(strings.ToLower(f.Text))+"%")
	}
	if !f.Archived && f.State == "" {
		where.add("state <> ?", core.SessionArchived)
	}
	return sessionTable.page(ctx, r.q, p, where.sql, where.args)
}

// UpdateSession changes one; its state moves along core.SessionTable only.
func (w Writer) UpdateSession(ctx context.Context, id core.SessionID, change func(*core.Session) error) (core.Session, error) {
	return moveAlong(ctx, w, sessionTable, id, core.SessionTable, func(s *core.Session) core.SessionState { return s.State }, change)
}

// StartClock starts, or goes on with, counting the time that a session's run
// takes.
func (w Writer) StartClock(ctx context.Context, id core.SessionID, at time.Time) error {
	return w.clock(ctx, id, `UPDATE sessions SET active_since = ? WHERE id = ?`, nanos(at), id)
}

// TickClock adds the time since the last StartClock or TickClock to the
// session's Active, and goes on counting.
func (w Writer) TickClock(ctx context.Context, id core.SessionID, at time.Time) error {
	return w.clock(ctx, id, `UPDATE sessions SET active = active + (? - active_since), active_since = ?
		WHERE id = ? AND active_since > 0 AND active_since < ?`, nanos(at), nanos(at), id, nanos(at))
}

// StopClock is TickClock, and then stops counting.
func (w Writer) StopClock(ctx context.Context, id core.SessionID, at time.Time) error {
	return w.in(ctx, func(c conn) error {
		in := Writer{func(_ context.Context, fn func(conn) error) error { return fn(c) }}
		if err := in.TickClock(ctx, id, at); err != nil {
			return err
		}
		return in.clock(ctx, id, `UPDATE sessions SET active_since = 0 WHERE id = ?`, id)
	})
}

func (w Writer) clock(ctx context.Context, id core.SessionID, query string, args ...any) error {
	return w.in(ctx, func(c conn) error {
		_, err := c.exec(ctx, query, args...)
		return c.d.explain(ctx, "store.session", err, sessionTable.what(id))
	})
}

// ActiveSince is when a session's clock was last read, or zero if it stands.
func (r Reader) ActiveSince(ctx context.Context, id core.SessionID) (at time.Time, err error) {
	err = r.q.row(ctx, `SELECT active_since FROM sessions WHERE id = ?`, id).Scan(stamp{&at})
	return at, r.q.d.explain(ctx, "store.session", err, sessionTable.what(id))
}

// conditions collects parts of a WHERE.
type conditions struct {
	sql  []string
	args []any
}

func (w *conditions) add(sql string, args ...any) {
	w.sql, w.args = append(w.sql, sql), append(w.args, args...)
}

// equal narrows a column, unless value is empty.
func (w *conditions) equal(column string, value any) {
	if v := deref(value); v != "" {
		w.add(column+" = ?", v)
	}
}

func escapeLike(s string) string {
	return strings.NewReplacer(`\`, `\\`, `%`, `\%`, `_`, `\_`).Replace(s)
}
