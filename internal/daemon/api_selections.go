package daemon

import (
	"context"
	"time"

	"drydock/internal/control/selection"
	"drydock/internal/core"
	"drydock/internal/surface/api"
	"drydock/internal/surface/server"
)

// selections gives the interface tasks that several sessions have.
type selections struct{ s *selection.Service }

var _ server.Selections = selections{}

// CreateSelection implements server.Selections.
func (s selections) CreateSelection(ctx context.Context, req core.NewSelection) (api.SelectionDetail, error) {
	sel, err := s.s.Create(ctx, req)
	if err != nil {
		return api.SelectionDetail{}, err
	}
	return s.GetSelection(ctx, sel.ID)
}

// GetSelection implements server.Selections.
func (s selections) GetSelection(ctx context.Context, id core.SelectionID) (api.SelectionDetail, error) {
	sel, list, err := s.s.Compare(ctx, id)
	return api.SelectionDetail{Selection: sel, Candidates: list}, err
}

// ListSelections implements server.Selections.
func (s selections) ListSelections(ctx context.Context, f core.SelectionFilter, p core.Page) ([]core.Selection, string, error) {
	return s.s.List(ctx, f, p)
}

// Pick implements server.Selections.
func (s selections) Pick(ctx context.Context, id core.SelectionID, session core.SessionID, by core.Author) (api.SelectionDetail, error) {
	if _, err := s.s.Pick(ctx, id, session, by); err != nil {
		return api.SelectionDetail{}, err
	}
	return s.GetSelection(ctx, id)
}

// refreshTimeout bounds how long a source is waited for before the last known
// state of its repository has to do.
const refreshTimeout = 20 * time.Second

// startOfSelection fixes branch and commit for all sessions of a selection.
func (d *Daemon) startOfSelection(ctx context.Context, env core.Environment, base string) (branch, commit string, err error) {
	within, cancel := context.WithTimeout(ctx, refreshTimeout)
	defer cancel()
	if err := d.workspaces.Sync(within, env.ID); err != nil {
		d.log.Warn("the repository's source did not answer, a selection starts from the last known state", "environment", env.Name, "err", err)
	}
	m, err := d.workspaces.Mirror(ctx, env.ID)
	if err != nil {
		return "", "", err
	}
	if base == "" {
		base = env.DefaultBranch
	}
	if base == "" {
		if base, err = m.DefaultBranch(ctx); err != nil {
			return "", "", err
		}
	}
	commit, err = m.Resolve(ctx, base)
	return base, commit, err
}
