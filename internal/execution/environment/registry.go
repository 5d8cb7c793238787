package environment

import (
	"context"
	"encoding/json"

	"drydock/internal/core"
	"drydock/internal/execution/sandbox"
	"drydock/internal/store"
)

// Sandboxes keeps handles in the store, so that a later process finds what an
// earlier one started.
type Sandboxes struct{ db *store.DB }

// NewSandboxes returns the registry over a store.
func NewSandboxes(db *store.DB) *Sandboxes { return &Sandboxes{db} }

// SaveSandbox implements Registry.
func (s *Sandboxes) SaveSandbox(ctx context.Context, h sandbox.Handle, state core.SandboxState, cause sandbox.Cause) error {
	raw, err := json.Marshal(h)
	if err != nil {
		return core.E("environment.sandbox", core.Internal, err, "handle of sandbox %s", h.ID)
	}
	err = s.db.CreateSandbox(ctx, store.Sandbox{
		ID: h.ID, Purpose: h.Purpose, Owner: h.Owner, State: state, Cause: string(cause), Handle: raw, Created: h.Created, Updated: h.Created,
	})
	if !core.Is(err, core.Conflict) {
		return err
	}
	_, err = s.db.UpdateSandbox(ctx, h.ID, func(row *store.Sandbox) error {
		row.State, row.Cause, row.Handle = state, string(cause), raw
		return nil
	})
	return err
}

// ForgetSandbox implements Registry.
func (s *Sandboxes) ForgetSandbox(ctx context.Context, id core.SandboxID) error {
	_, err := s.db.UpdateSandbox(ctx, id, func(row *store.Sandbox) error {
		row.State, row.Handle = core.SandboxGone, nil
		return nil
	})
	if core.Is(err, core.NotFound) {
		return nil
	}
	return err
}

// Find returns the newest sandbox of an owner that is not gone, with its
// handle, or NotFound.
func (s *Sandboxes) Find(ctx context.Context, owner string) (sandbox.Handle, store.Sandbox, error) {
	list, err := s.db.SandboxesOf(ctx, owner)
	if err != nil {
		return sandbox.Handle{}, store.Sandbox{}, err
	}
	for _, row := range list {
		if row.State == core.SandboxGone || row.State == core.SandboxFrozen {
			continue
		}
		var h sandbox.Handle
		if err := json.Unmarshal(row.Handle, &h); err != nil {
			return h, row, core.E("environment.sandbox", core.Internal, err, "handle of sandbox %s", row.ID)
		}
		return h, row, nil
	}
	return sandbox.Handle{}, store.Sandbox{}, core.E("environment.sandbox", core.NotFound, nil, "%s has no sandbox", owner)
}

// Recover goes through everything that an earlier process left: what belongs
// to nobody is destroyed, the rest adopted. Keep says whether an owner still
// wants its sandbox.
func Recover(ctx context.Context, db *store.DB, driver sandbox.Driver, keep func(purpose, owner string) bool) (adopted, removed int, err error) {
	known := map[core.SandboxID]bool{}
	rows, err := db.LiveSandboxes(ctx)
	if err != nil {
		return 0, 0, err
	}
	reg := NewSandboxes(db)
	for _, row := range rows {
		known[row.ID] = true
		var h sandbox.Handle
		wanted := json.Unmarshal(row.Handle, &h) == nil && h.Guest.IsValid() && row.State != core.SandboxCreating && keep(row.Purpose, row.Owner)
		if wanted {
			_, err := driver.Recover(ctx, h)
			if err == nil {
				adopted++
				continue
			}
			if !core.Is(err, core.NotFound) {
				return adopted, removed, err
			}
		}
		if err := driver.Destroy(ctx, row.ID); err != nil && !core.Is(err, core.NotFound) {
			return adopted, removed, err
		}
		if err := reg.ForgetSandbox(ctx, row.ID); err != nil {
			return adopted, removed, err
		}
		removed++
	}
	left, err := driver.List(ctx)
	if err != nil {
		return adopted, removed, err
	}
	for _, id := range left {
		if known[id] {
			continue
		}
		if err := driver.Destroy(ctx, id); err != nil {
			return adopted, removed, err
		}
		removed++
	}
	return adopted, removed, nil
}
