package store

import (
	"context"
	"encoding/json"
	"time"

	"drydock/internal/core"
)

// Sandbox is the row of a sandbox. Handle is the driver's handle as JSON: all
// that is needed to find it again after a restart.
type Sandbox struct {
	ID      core.SandboxID    `json:"id"`
	Purpose string            `json:"purpose"` // "session", "build", "proof", "warm"
	Owner   string            `json:"owner"`   // identifier of the session or build
	State   core.SandboxState `json:"state"`
	Cause   string            `json:"cause,omitempty"`
	Handle  json.RawMessage   `json:"handle,omitempty"`
	Created time.Time         `json:"created"`
	Updated time.Time         `json:"updated"`
}

var sandboxTable = table[Sandbox]{
	name: "sandboxes", noun: "sandbox", columns: "id, purpose, owner, state, cause, handle, created, updated",
	fields: func(s *Sandbox) []any {
		return []any{&s.ID, &s.Purpose, &s.Owner, &s.State, &s.Cause, asDoc(&s.Handle), stamp{&s.Created}, stamp{&s.Updated}}
	},
	updated: func(s *Sandbox) *time.Time { return &s.Updated },
}

// CreateSandbox adds one.
func (w Writer) CreateSandbox(ctx context.Context, s Sandbox) error {
	return w.in(ctx, func(c conn) error { return sandboxTable.insert(ctx, c, &s) })
}

// Sandbox finds one.
func (r Reader) Sandbox(ctx context.Context, id core.SandboxID) (Sandbox, error) {
	return sandboxTable.get(ctx, r.q, id, "WHERE id = ?", id)
}

// LiveSandboxes lists all that are not gone, oldest first.
func (r Reader) LiveSandboxes(ctx context.Context) ([]Sandbox, error) {
	return sandboxTable.list(ctx, r.q, "WHERE state <> ? ORDER BY id", core.SandboxGone)
}

// SandboxesOf lists those of a session or build, newest first.
func (r Reader) SandboxesOf(ctx context.Context, owner string) ([]Sandbox, error) {
	return sandboxTable.list(ctx, r.q, "WHERE owner = ? ORDER BY id DESC", owner)
}

// UpdateSandbox changes one; its state moves along core.SandboxTable only.
func (w Writer) UpdateSandbox(ctx context.Context, id core.SandboxID, change func(*Sandbox) error) (Sandbox, error) {
	return moveAlong(ctx, w, sandboxTable, id, core.SandboxTable, func(s *Sandbox) core.SandboxState { return s.State }, change)
}
