package session

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"drydock/internal/core"
	"drydock/internal/store"
)

// Start is where all sessions of a selection begin.
type Start struct {
	Base   string // branch
	Commit string // of it, fixed once for all of them
	// Seeded says whether a model takes a seed. nil: all do.
	Seeded func(model string) bool
}

// CreateSelection makes a selection with its sessions: same environment,
// commit, snapshot, prompt and author; models in turn, seeds from 1. All of it
// is one transaction. The same author with the same client id gets the
// selection made before.
func (s *Service) CreateSelection(ctx context.Context, req core.NewSelection, at Start) (sel core.Selection, err error) {
	if err := CheckSelection(&req); err != nil {
		return sel, err
	}
	env, err := s.db.Environment(ctx, req.Environment)
	if err != nil {
		return sel, err
	}
	err = s.db.Tx(ctx, func(tx *store.Tx) error {
		sel, err = EarlierSelection(ctx, tx.Reader, req)
		if err == nil || !core.Is(err, core.NotFound) {
			return err
		}
		if env, err = tx.Environment(ctx, string(env.ID)); err != nil { // its snapshot as it is now
			return err
		}
		if env.Snapshot == "" {
			return noBuild(env)
		}
		now := time.Now().UTC()
		sel = core.Selection{
			ID: core.NewSelectionID(), Environment: env.ID, State: core.SelectionOpen,
			Reason: fmt.Sprintf("%d sessions work on it", req.Sessions), Owner: req.Prompt.Author, Rule: req.Rule, Sessions: req.Sessions,
			Base: at.Base, BaseCommit: at.Commit, Snapshot: env.Snapshot, Budget: req.Budget, Created: now, Updated: now,
		}
		sel.Title = req.Title
		if sel.Title == "" {
			sel.Title = firstLine(req.Prompt.Text, 80)
		}
		if err := tx.CreateSelection(ctx, sel, req.Prompt.ClientID); err != nil {
			return err
		}
		for i := range req.Sessions {
			if err := s.candidate(ctx, tx, sel, env, req, at, i); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return core.Selection{}, err
	}
	s.wake()
	return sel, nil
}

// candidate makes one session of a selection.
func (s *Service) candidate(ctx context.Context, tx *store.Tx, sel core.Selection, env core.Environment, req core.NewSelection, at Start, i int) error {
	one := req.NewSession
	one.Base, one.Prompt.ClientID = at.Base, ""
	one.Budget.Money /= core.Money(req.Sessions)
	if len(req.Models) > 0 {
		one.Model = req.Models[i%len(req.Models)]
	}
	session := s.fresh(env, one)
	session.Selection, session.Seed = sel.ID, int64(i+1)
	session.BaseCommit, session.Snapshot = at.Commit, sel.Snapshot
	if err := tx.CreateSession(ctx, session, ""); err != nil {
		return err
	}
	err := s.tell(ctx, tx, session.ID, "", session.Owner.Handle, core.EventSessionCreated,
		core.StateData{To: string(session.State), Reason: session.Reason})
	if err != nil {
		return err
	}
	if at.Seeded != nil && !at.Seeded(session.Model) {
		err := s.tell(ctx, tx, session.ID, "", platform, core.EventWarning, core.WarningData{
			Code:    "seed_ignored",
			Message: fmt.Sprintf("model %q takes no seed: candidates of selection %s with this model differ by chance alone", session.Model, sel.ID),
			Hint:    "give several models to make them differ",
		})
		if err != nil {
			return err
		}
	}
	_, _, err = s.enqueue(ctx, tx, session.ID, one.Prompt)
	return err
}

// EarlierSelection finds what a client made before under the same identifier,
// or NotFound.
func EarlierSelection(ctx context.Context, r store.Reader, req core.NewSelection) (core.Selection, error) {
	if req.Prompt.ClientID == "" {
		return core.Selection{}, core.E("session.select", core.NotFound, nil, "a selection without a client id")
	}
	return r.SelectionByClientID(ctx, req.Prompt.Author.Handle, req.Prompt.ClientID)
}

// CheckSelection refuses what cannot be made and sets defaults.
func CheckSelection(req *core.NewSelection) error {
	const op = "session.select"
	if err := checkSession(&req.NewSession); err != nil {
		return err
	}
	if req.Rule == "" {
		req.Rule = core.PickPerson
	}
	switch {
	case req.Sessions < core.MinSelection || req.Sessions > core.MaxSelection:
		return core.E(op, core.Invalid, nil, "%d sessions to select from: it must be %d to %d", req.Sessions, core.MinSelection, core.MaxSelection)
	case !slices.Contains(core.SelectionRules, req.Rule):
		return core.E(op, core.Invalid, nil, "there is no rule %.40q", req.Rule).WithHint("one of: %s", rules())
	case len(req.Models) > req.Sessions:
		return core.E(op, core.Invalid, nil, "%d models for %d sessions: some would never be used", len(req.Models), req.Sessions)
	case req.Budget.Money > 0 && req.Budget.Money < core.Money(req.Sessions):
		return core.E(op, core.Invalid, nil, "a budget of %s cannot be divided over %d sessions", req.Budget.Money, req.Sessions)
	}
	for _, m := range req.Models {
		if strings.TrimSpace(m) == "" || len(m) > maxWord || strings.ContainsFunc(m, func(r rune) bool { return r < ' ' || r == utf8.RuneError }) {
			return core.E(op, core.Invalid, nil, "model %.40q is not a name", m)
		}
	}
	return nil
}

func rules() string {
	var out []string
	for _, r := range core.SelectionRules {
		out = append(out, string(r))
	}
	return strings.Join(out, ", ")
}
