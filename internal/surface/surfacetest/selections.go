package surfacetest

import (
	"context"
	"fmt"
	"slices"

	"drydock/internal/core"
	"drydock/internal/surface/api"
)

// selections are made of sessions of the world; what has a verdict of proven
// ranks first, and rules pick when somebody looks.
type selections struct{ w *World }

func (s selections) CreateSelection(ctx context.Context, req core.NewSelection) (api.SelectionDetail, error) {
	w := s.w
	w.mu.Lock()
	env, err := w.env(req.Environment)
	if err != nil {
		w.mu.Unlock()
		return api.SelectionDetail{}, err
	}
	rule := req.Rule
	if rule == "" {
		rule = core.PickPerson
	}
	sel := core.Selection{
		ID: core.SelectionID(w.id("sel_")), Environment: env.ID, Title: req.Prompt.Text, State: core.SelectionOpen, Owner: req.Prompt.Author, Rule: rule,
		Sessions: req.Sessions, Base: "main", BaseCommit: commitA, Snapshot: env.Snapshot, Budget: req.Budget, Created: w.now, Updated: w.now,
	}
	w.selections = append(w.selections, sel)
	w.mu.Unlock()
	for i := range req.Sessions {
		one := req.NewSession
		one.Prompt.ClientID = ""
		if len(req.Models) > 0 {
			one.Model = req.Models[i%len(req.Models)]
		}
		made, _, err := (sessions{w}).Create(ctx, one)
		if err != nil {
			return api.SelectionDetail{}, err
		}
		w.mu.Lock()
		ses, _ := w.session(made.ID)
		ses.Selection, ses.Seed = sel.ID, int64(i+1)
		w.mu.Unlock()
	}
	return s.GetSelection(ctx, sel.ID)
}

func (s selections) GetSelection(_ context.Context, id core.SelectionID) (api.SelectionDetail, error) {
	w := s.w
	w.mu.Lock()
	defer w.mu.Unlock()
	sel, err := find(w.selections, "selection", string(id), func(v core.Selection) bool { return v.ID == id })
	if err != nil {
		return api.SelectionDetail{}, err
	}
	list := w.compare(id)
	working := slices.ContainsFunc(list, func(c core.Candidate) bool { return !c.Ended })
	if !working && !sel.State.Decided() {
		sel.State, sel.Reason = core.SelectionWaiting, fmt.Sprintf("a person has to pick: %d sessions have ended", len(list))
		if best := list[0]; sel.Rule != core.PickPerson && best.Verdict == "proven" {
			sel.State, sel.Picked, sel.PickedBy, sel.Reason = core.SelectionPicked, best.Session, "platform", "picked by the rule "+string(sel.Rule)
		}
	}
	for i := range list {
		list[i].Picked = list[i].Session == sel.Picked
	}
	return api.SelectionDetail{Selection: *sel, Candidates: list}, nil
}

// compare ranks the sessions of a selection; the caller holds mu.
func (w *World) compare(id core.SelectionID) []core.Candidate {
	var out []core.Candidate
	for _, v := range w.sessions {
		if v.Selection != id {
			continue
		}
		c := core.Candidate{
			Session: v.ID, State: v.State, Ended: v.State == core.SessionIdle || v.State == core.SessionFailed || v.State == core.SessionArchived,
			Model: v.Model, Seed: v.Seed, Unseeded: v.Model == "odd", Cost: v.Cost, Usage: v.Usage, Active: v.Active, Change: v.Change,
		}
		for _, r := range w.runs {
			if r.Session == v.ID {
				c.Verdict = r.Verdict
				if r.Failure != nil {
					c.Reasons = []string{r.Failure.Message}
				}
			}
		}
		if ch, err := find(w.changes, "change", "", func(x core.Change) bool { return x.ID == v.Change }); err == nil {
			c.Number, c.Standing, c.Files, c.Added, c.Removed, c.Fixed, c.Kept = ch.Number, ch.State, 1, 1, 1, 1, 41
		}
		out = append(out, c)
	}
	slices.SortStableFunc(out, func(a, b core.Candidate) int {
		rank := map[bool]int{true: 0, false: 1}
		return rank[a.Verdict == "proven"] - rank[b.Verdict == "proven"]
	})
	for i := range out {
		out[i].Rank = i + 1
	}
	return out
}

func (s selections) ListSelections(_ context.Context, f core.SelectionFilter, p core.Page) ([]core.Selection, string, error) {
	s.w.mu.Lock()
	defer s.w.mu.Unlock()
	var all []core.Selection
	for _, v := range reversed(s.w.selections) {
		if f.State == "" || v.State == f.State {
			all = append(all, v)
		}
	}
	return page(all, p)
}

func (s selections) Pick(ctx context.Context, id core.SelectionID, session core.SessionID, by core.Author) (api.SelectionDetail, error) {
	s.w.mu.Lock()
	sel, err := find(s.w.selections, "selection", string(id), func(v core.Selection) bool { return v.ID == id })
	switch {
	case err != nil:
	case sel.Picked != "" && sel.Picked != session:
		err = core.E("selection.pick", core.Conflict, nil, "session %s was picked in selection %s already", sel.Picked, id)
	default:
		sel.State, sel.Picked, sel.PickedBy, sel.Reason = core.SelectionPicked, session, by.Handle, "picked by "+by.Name
	}
	s.w.mu.Unlock()
	if err != nil {
		return api.SelectionDetail{}, err
	}
	return s.GetSelection(ctx, id)
}
