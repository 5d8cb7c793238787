package selection

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"drydock/internal/core"
	"drydock/internal/delivery/forge"
	"drydock/internal/store"
)

// platform acts where a rule decides.
var platform = core.Author{Handle: "platform", Name: "Drydock"}

// Pick decides for one session. It is stored when it returns; the others are
// put aside after it. Picking the same one again changes nothing, another one
// is a Conflict. It approves nothing: anybody may pick, also who asked.
func (s *Service) Pick(ctx context.Context, id core.SelectionID, session core.SessionID, by core.Author) (core.Selection, error) {
	sel, err := s.decide(ctx, id, session, by, "picked by "+first(by.Name, by.Handle))
	s.kick()
	return sel, err
}

// Merged tells that a change was merged: if it is a candidate, it is picked.
func (s *Service) Merged(ctx context.Context, c core.Change, by core.Author) error {
	id, err := s.of(ctx, c)
	if err != nil || id == "" {
		return err
	}
	_, err = s.decide(ctx, id, c.Session, by, mergedBy(c, by.Handle))
	s.kick()
	if core.Is(err, core.Conflict) {
		return nil // it was decided otherwise before; a person has reopened this one
	}
	return err
}

func mergedBy(c core.Change, handle string) string {
	return fmt.Sprintf("picked: change #%d was merged by %s", c.Number, first(handle, platform.Handle))
}

// MayMerge refuses a change that is just being put aside.
func (s *Service) MayMerge(ctx context.Context, c core.Change) error {
	id, err := s.of(ctx, c)
	if err != nil || id == "" {
		return err
	}
	sel, err := s.d.Store.Selection(ctx, id)
	if err == nil && sel.State == core.SelectionPicking && sel.Picked != c.Session {
		return core.E("selection.merge", core.Conflict, nil, "change %s#%d is not the one that selection %s picked: that is session %s", c.Repository, c.Number, id, sel.Picked)
	}
	return err
}

// of is the selection that a change is a candidate of, or "".
func (s *Service) of(ctx context.Context, c core.Change) (core.SelectionID, error) {
	if c.Session == "" {
		return "", nil
	}
	v, err := s.d.Store.Session(ctx, c.Session)
	if core.Is(err, core.NotFound) {
		return "", nil
	}
	return v.Selection, err
}

// Undecided is what sessions are candidates of, where nobody has picked yet.
func (s *Service) Undecided(ctx context.Context) (map[core.SessionID]core.SelectionID, error) {
	live, err := s.d.Store.LiveSelections(ctx)
	if err != nil {
		return nil, err
	}
	out := map[core.SessionID]core.SelectionID{}
	for _, sel := range live {
		if sel.State.Decided() {
			continue
		}
		sessions, err := s.d.Store.SessionsOfSelection(ctx, sel.ID)
		if err != nil {
			return nil, err
		}
		for _, v := range sessions {
			out[v.ID] = sel.ID
		}
	}
	return out, nil
}

// decide stores a pick with the events that tell of it. Nothing outside has
// happened when it returns.
func (s *Service) decide(ctx context.Context, id core.SelectionID, picked core.SessionID, by core.Author, why string) (sel core.Selection, err error) {
	const op = "selection.pick"
	err = s.d.Store.Tx(ctx, func(tx *store.Tx) error {
		if sel, err = tx.Selection(ctx, id); err != nil {
			return err
		}
		if sel.State.Decided() {
			if sel.Picked == picked {
				return nil
			}
			return core.E(op, core.Conflict, nil, "session %s was picked in selection %s already, by %s", sel.Picked, id, sel.PickedBy).
				WithHint("branches of the others stay: `drydock change reopen` opens a change again")
		}
		sessions, err := tx.SessionsOfSelection(ctx, id)
		if err != nil {
			return err
		}
		found := false
		for _, v := range sessions {
			if v.ID == picked {
				found = true
				if v.State == core.SessionArchived {
					return core.E(op, core.Conflict, nil, "session %s is archived", picked)
				}
				continue
			}
			if c, err := tx.Change(ctx, v.Change); err == nil && c.State == core.ChangeMerged {
				return core.E(op, core.Conflict, nil, "change %s#%d of session %s is merged already: that is the pick", c.Repository, c.Number, v.ID)
			}
		}
		if !found {
			return core.E(op, core.NotFound, nil, "selection %s has no session %s", id, picked).WithHint("drydock selection show %s shows them", id)
		}
		sel, err = tx.UpdateSelection(ctx, id, func(v *core.Selection) error {
			v.State, v.Reason, v.Picked, v.PickedBy = core.SelectionPicking, why, picked, by.Handle
			return nil
		})
		if err != nil {
			return err
		}
		for _, v := range sessions {
			action := "passed_over"
			if v.ID == picked {
				action = "picked"
			}
			e := core.NewEvent(core.EventSelection, core.SelectionData{Selection: id, Action: action, Picked: picked, By: by.Handle, Reason: why})
			e.Actor = by.Handle
			if _, err := s.d.Log.AppendTx(ctx, tx, string(v.ID), e); err != nil {
				return err
			}
		}
		return nil
	})
	return sel, err
}

// Step does what is left to do about every selection, once.
func (s *Service) Step(ctx context.Context) {
	live, err := s.d.Store.LiveSelections(ctx)
	if err != nil {
		if ctx.Err() == nil {
			s.d.Logger.WarnContext(ctx, "selections not read", "op", "selection.step", "err", err)
		}
		return
	}
	for _, sel := range live {
		err := s.advance(ctx, sel)
		text := ""
		if err != nil {
			text = err.Error()
		}
		if text != "" && ctx.Err() == nil && s.told[sel.ID] != text {
			s.d.Logger.WarnContext(ctx, "selection does not go on; it is tried again", "op", "selection.step", "selection", sel.ID, "err", err)
		}
		s.told[sel.ID] = text
	}
}

func (s *Service) advance(ctx context.Context, sel core.Selection) error {
	list, err := s.candidates(ctx, sel)
	if err != nil {
		return err
	}
	if sel.State == core.SelectionPicking {
		return s.finish(ctx, sel, list)
	}
	for _, m := range list {
		if m.change.State == core.ChangeMerged {
			return s.pickMerged(ctx, sel, m)
		}
	}
	working, waiting, proven := 0, 0, 0
	for _, m := range list {
		if !m.Ended {
			working++
		}
		if m.State == core.SessionWaiting {
			waiting++
		}
		if m.proven() {
			proven++
		}
	}
	if i := slices.IndexFunc(list, member.proven); i >= 0 && sel.Rule != core.PickPerson && (working == 0 || sel.Rule == core.PickFirstProven) {
		if _, err := s.decide(ctx, sel.ID, list[i].Session, platform, because(sel.Rule, list[i], proven, len(list))); err != nil {
			return err
		}
		sel, err = s.d.Store.Selection(ctx, sel.ID)
		if err != nil {
			return err
		}
		return s.finish(ctx, sel, list)
	}
	return s.note(ctx, sel, working, waiting, proven, len(list))
}

// because says why a rule has picked one.
func because(rule core.SelectionRule, m member, proven, of int) string {
	what := map[core.SelectionRule]string{
		core.PickFirstProven: fmt.Sprintf("the first of %d sessions that was proven", of),
		core.PickSmallest:    fmt.Sprintf("the smallest of %d proven, of %d sessions: +%d -%d in %d files", proven, of, m.Added, m.Removed, m.Files),
		core.PickCheapest:    fmt.Sprintf("the cheapest of %d proven, of %d sessions: %s", proven, of, m.Cost),
		core.PickFastest:     fmt.Sprintf("the fastest of %d proven, of %d sessions: %s", proven, of, m.Active.Round(time.Second)),
	}[rule]
	return fmt.Sprintf("picked by the rule %s: %s", rule, what)
}

// pickMerged picks what was merged, once its session's log says by whom.
func (s *Service) pickMerged(ctx context.Context, sel core.Selection, m member) error {
	var data core.ChangeData
	if _, err := s.newest(ctx, m.session.ID, core.EventChange, &data); err != nil {
		return err
	}
	if data.Action != "merged" {
		return nil
	}
	by := core.Author{Handle: first(data.By, platform.Handle)}
	_, err := s.decide(ctx, sel.ID, m.Session, by, mergedBy(m.change, by.Handle))
	s.kick()
	return err
}

// note keeps state and reason of an undecided selection up to date.
func (s *Service) note(ctx context.Context, sel core.Selection, working, waiting, proven, of int) error {
	state, why := core.SelectionOpen, fmt.Sprintf("%d of %d sessions work on it", working, of)
	switch {
	case waiting > 0:
		why = fmt.Sprintf("%d of %d sessions have not ended; %d of them wait for a person", working, of, waiting)
	case working == 0 && proven == 0:
		state, why = core.SelectionWaiting, fmt.Sprintf("handed over: none of %d sessions is proven, a person has to look", of)
	case working == 0:
		state, why = core.SelectionWaiting, fmt.Sprintf("a person has to pick: %d of %d sessions are proven", proven, of)
	}
	if sel.State == state && sel.Reason == why {
		return nil
	}
	_, err := s.d.Store.UpdateSelection(ctx, sel.ID, func(v *core.Selection) error {
		if !v.State.Decided() { // somebody may have picked just now
			v.State, v.Reason = state, why
		}
		return nil
	})
	return err
}

// finish puts aside what was not picked.
func (s *Service) finish(ctx context.Context, sel core.Selection, list []member) error {
	by := platform
	if sel.PickedBy != platform.Handle {
		by = core.Author{Handle: sel.PickedBy}
		if who, err := s.d.Store.User(ctx, sel.PickedBy); err == nil {
			by = who
		}
	}
	winner := string(sel.Picked)
	for _, m := range list {
		if m.Session == sel.Picked && m.change.Number > 0 {
			winner = fmt.Sprintf("change #%d of session %s", m.change.Number, m.Session)
		}
	}
	done := true
	var errs []error
	for _, m := range list {
		if m.Session == sel.Picked {
			continue
		}
		ok, err := s.putAside(ctx, sel, m.Session, by, winner)
		done = done && ok
		errs = append(errs, err)
	}
	if err := errors.Join(errs...); err != nil || !done {
		return err
	}
	_, err := s.d.Store.UpdateSelection(ctx, sel.ID, func(v *core.Selection) error { v.State = core.SelectionPicked; return nil })
	return err
}

// putAside stops a session, closes its change and archives it. Each is looked
// for first. done is false where a run has not ended yet.
func (s *Service) putAside(ctx context.Context, sel core.Selection, id core.SessionID, by core.Author, winner string) (done bool, err error) {
	why := fmt.Sprintf("selection %s picked %s", sel.ID, winner)
	v, err := s.d.Store.Session(ctx, id)
	if err != nil {
		return false, err
	}
	if !ended(v.State) {
		if v.State == core.SessionStopping {
			return false, nil
		}
		if v, err = s.d.Sessions.Stop(ctx, id, by, why); core.Is(err, core.Conflict) {
			return false, nil // it has just ended by itself
		}
		if err != nil || !ended(v.State) {
			return false, err
		}
	}
	// A run that was stopped may have opened a change that its session does not
	// know of.
	open, _, err := s.d.Changes.List(ctx, core.ChangeFilter{Session: id, State: core.ChangeOpen}, core.Page{})
	if err != nil {
		return false, err
	}
	for _, c := range open {
		if err := s.closeChange(ctx, sel, c.ID, by, winner); err != nil {
			return false, err
		}
	}
	if v.State == core.SessionArchived {
		return true, nil
	}
	if _, err := s.d.Sessions.ArchiveFor(ctx, id, by, why); err != nil {
		if core.Is(err, core.Conflict) {
			return false, nil // a prompt came in between
		}
		return false, err
	}
	return true, nil
}

func (s *Service) closeChange(ctx context.Context, sel core.Selection, id core.ChangeID, by core.Author, winner string) error {
	c, err := s.d.Changes.Get(ctx, string(id))
	if err != nil || c.State != core.ChangeOpen {
		return err
	}
	_, err = s.d.Changes.Comment(ctx, forge.NewComment{
		Key: "selection:" + string(sel.ID) + ":" + string(id), Change: id, Author: by,
		Body: fmt.Sprintf("Not picked: selection `%s` picked %s (%s). This change is closed; its branch and its evidence stay.",
			sel.ID, winner, strings.TrimPrefix(sel.Reason, "picked ")),
	})
	if err != nil {
		return err
	}
	_, err = s.d.Changes.Close(ctx, id, by)
	if core.Is(err, core.Conflict) { // merged in this very moment
		if c, again := s.d.Changes.Get(ctx, string(id)); again == nil && c.State != core.ChangeOpen {
			return nil
		}
	}
	return err
}

func first(words ...string) string {
	for _, w := range words {
		if w != "" {
			return w
		}
	}
	return ""
}
