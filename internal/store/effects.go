package store

import (
	"context"
	"encoding/json"
	"time"

	"drydock/internal/core"
)

// EffectState of an outside effect.
type EffectState string

const (
	EffectIntended EffectState = "intended" // it may have happened: ask the world before trying again
	EffectDone     EffectState = "done"
	EffectFailed   EffectState = "failed" // it is known not to have happened
)

var effectStates = core.Table[EffectState]{
	EffectIntended: {EffectDone, EffectFailed},
	EffectFailed:   {EffectIntended},
}

// Effect is one thing done to the outside world: a push, a change opened, a
// comment. ID is a key made from what is done, so that doing it twice is one
// row.
type Effect struct {
	ID       string          `json:"id"`
	Kind     string          `json:"kind"`
	Subject  string          `json:"subject,omitempty"` // session it belongs to
	Request  json.RawMessage `json:"request"`
	State    EffectState     `json:"state"`
	Response json.RawMessage `json:"response,omitempty"`
	Created  time.Time       `json:"created"`
	Updated  time.Time       `json:"updated"`
}

var effectTable = table[Effect]{
	name: "effects", noun: "effect", columns: "id, kind, subject, request, state, response, created, updated",
	fields: func(e *Effect) []any {
		return []any{&e.ID, &e.Kind, &e.Subject, asDoc(&e.Request), &e.State, asDoc(&e.Response), stamp{&e.Created}, stamp{&e.Updated}}
	},
}

// IntendEffect records that e is about to be done. fresh is true if this call
// recorded it, or if it had failed before: the caller does it now. Otherwise
// the row of the earlier intent is returned: done has its response, intended
// means that somebody began and nobody knows how it ended.
func (w Writer) IntendEffect(ctx context.Context, e Effect) (stored Effect, fresh bool, err error) {
	err = w.in(ctx, func(c conn) error {
		old, err := Reader{c}.Effect(ctx, e.ID)
		switch {
		case core.Is(err, core.NotFound):
			e.State, e.Response, e.Created = EffectIntended, nil, now()
			e.Updated = e.Created
			stored, fresh = e, true
			return effectTable.insert(ctx, c, &e)
		case err != nil:
			return err
		case old.State != EffectFailed:
			stored = old
			return nil
		}
		fresh = true
		stored, err = effectTable.update(ctx, c, e.ID, func(v *Effect) error {
			v.State, v.Request, v.Response, v.Updated = EffectIntended, e.Request, nil, now()
			return nil
		})
		return err
	})
	return stored, fresh, err
}

// FinishEffect records how an intended effect ended: EffectDone or
// EffectFailed.
func (w Writer) FinishEffect(ctx context.Context, id string, state EffectState, response json.RawMessage) error {
	return w.in(ctx, func(c conn) error {
		_, err := effectTable.update(ctx, c, id, func(v *Effect) error {
			if err := move("effect", id, effectStates, v.State, state); err != nil {
				return err
			}
			v.State, v.Response, v.Updated = state, response, now()
			return nil
		})
		return err
	})
}

// Effect finds one.
func (r Reader) Effect(ctx context.Context, id string) (Effect, error) {
	return effectTable.get(ctx, r.q, id, "WHERE id = ?", id)
}

// OpenEffects lists those whose end nobody recorded, oldest first.
func (r Reader) OpenEffects(ctx context.Context) ([]Effect, error) {
	return effectTable.list(ctx, r.q, "WHERE state = ? ORDER BY created, id", EffectIntended)
}
