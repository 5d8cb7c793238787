package session

import (
	"context"
	"time"

	"drydock/internal/core"
	"drydock/internal/store"
)

// Call says for whom a model was asked.
type Call struct {
	Session core.SessionID
	Prompt  core.PromptID
	Run     core.RunID
	Attempt core.AttemptID
}

// Spend records one model call: its row, the session's sums and the event are
// one transaction. spent says that no further call may be made. It is not
// fenced, because the money is gone whoever asked.
func (s *Service) Spend(ctx context.Context, call Call, data core.ModelData) (spent bool, err error) {
	if call.Session == "" {
		return false, core.E("session.spend", core.Invalid, errNoSession, "model call to %s", data.Model)
	}
	err = s.db.Tx(ctx, func(tx *store.Tx) error {
		err := tx.AddModelCall(ctx, store.ModelCall{
			Session: call.Session, Prompt: call.Prompt, Run: call.Run, Attempt: call.Attempt, Provider: data.Provider, Model: data.Model,
			Scripted: data.Scripted, Outcome: data.Outcome, Usage: data.Usage, Cost: data.Cost, Retries: data.Retries,
			Duration: data.Duration, Created: time.Now().UTC(),
		})
		if err != nil {
			return err
		}
		blind := false // the first time that a budget cannot be held exactly
		session, err := tx.UpdateSession(ctx, call.Session, func(v *core.Session) error {
			blind = v.Budget.Money > 0 && data.Cost.Unknown && !v.Cost.Unknown
			v.Usage, v.Cost = v.Usage.Add(data.Usage), v.Cost.Add(data.Cost)
			return nil
		})
		if err != nil {
			return err
		}
		spent = overBudget(session) != nil
		e := core.NewEvent(core.EventModelCall, data)
		e.Run, e.Attempt, e.Actor = call.Run, call.Attempt, platform
		events := []core.Event{e}
		if blind {
			w := core.NewEvent(core.EventWarning, core.WarningData{
				Code: "cost_unknown", Message: "the price of model " + data.Model + " is not known: the money budget cannot count its calls",
				Hint: "add the model to the price table",
			})
			w.Run, w.Actor = call.Run, platform
			events = append(events, w)
		}
		_, err = s.log.AppendTx(ctx, tx, string(call.Session), events...)
		return err
	})
	return spent, err
}

// CheckBudget is of kind Exhausted if a session may make no further model
// call; ErrBudget is in its chain.
func (s *Service) CheckBudget(ctx context.Context, id core.SessionID) error {
	session, err := s.db.Session(ctx, id)
	if err != nil {
		return err
	}
	since, err := s.db.ActiveSince(ctx, id)
	if err != nil {
		return err
	}
	if now := time.Now(); !since.IsZero() && since.Before(now) && s.local(id) != nil {
		session.Active += now.Sub(since) // the part not yet counted
	}
	b := overBudget(session)
	if b == nil {
		return nil
	}
	return core.E("session.budget", core.Exhausted, ErrBudget, "session %s used %s of %s (%s)", id, b.Spent, b.Limit, b.What).
		WithHint("raise the budget of the session; it goes on by itself")
}

// overBudget says which bound a session has reached, or nil.
func overBudget(s core.Session) *core.BudgetData {
	switch {
	case s.Budget.Money > 0 && s.Cost.Known >= s.Budget.Money:
		return &core.BudgetData{What: "money", Spent: s.Cost.String(), Limit: s.Budget.Money.String()}
	case s.Budget.WallClock > 0 && s.Active >= s.Budget.WallClock:
		return &core.BudgetData{What: "wall_clock", Spent: s.Active.Round(time.Second).String(), Limit: s.Budget.WallClock.String()}
	}
	return nil
}

// RaiseBudget sets new bounds; zero is none. A run that waits for its budget
// goes on if they are wide enough.
func (s *Service) RaiseBudget(ctx context.Context, id core.SessionID, budget core.Budget, by core.Author) (session core.Session, err error) {
	if budget.Money < 0 || budget.WallClock < 0 {
		return session, core.E("session.budget", core.Invalid, nil, "budget %v, %v is negative", budget.Money, budget.WallClock)
	}
	err = s.db.Tx(ctx, func(tx *store.Tx) error {
		if session, err = tx.Session(ctx, id); err != nil {
			return err
		}
		if session.State == core.SessionArchived {
			return core.E("session.budget", core.Conflict, nil, "session %s is archived", id)
		}
		old := session.Budget
		if session, err = tx.UpdateSession(ctx, id, func(v *core.Session) error { v.Budget = budget; return nil }); err != nil {
			return err
		}
		if err := s.tellBudget(ctx, tx, session, old, by); err != nil {
			return err
		}
		if session.State != core.SessionWaiting || session.Wait != waitBudget || overBudget(session) != nil {
			return nil
		}
		session, err = s.setSession(ctx, tx, id, by.Handle, core.SessionQueued, "goes on: "+nameOf(by)+" raised the budget", nil)
		return err
	})
	if err == nil {
		s.wake()
	}
	return session, err
}

func (s *Service) tellBudget(ctx context.Context, tx *store.Tx, session core.Session, old core.Budget, by core.Author) error {
	limit := func(set bool, v string) string {
		if set {
			return v
		}
		return "none"
	}
	if b := session.Budget; b.Money != old.Money {
		err := s.tell(ctx, tx, session.ID, "", by.Handle, core.EventBudget,
			core.BudgetData{What: "money", Spent: session.Cost.String(), Limit: limit(b.Money > 0, b.Money.String())})
		if err != nil {
			return err
		}
	}
	if b := session.Budget; b.WallClock != old.WallClock {
		return s.tell(ctx, tx, session.ID, "", by.Handle, core.EventBudget,
			core.BudgetData{What: "wall_clock", Spent: session.Active.Round(time.Second).String(), Limit: limit(b.WallClock > 0, b.WallClock.String())})
	}
	return nil
}
