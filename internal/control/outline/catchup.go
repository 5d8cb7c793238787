package outline

import (
	"context"

	"drydock/internal/core"
	"drydock/internal/store"
)

// chunk bounds what is read of a log at once.
const chunk = 256

// Catchup makes the outlines of sessions that have none: those that were made
// before there were outlines. Whoever took part in one counts as having read
// it. It is called before anything is appended, and again after it was
// interrupted, with nothing done twice.
func Catchup(ctx context.Context, db *store.DB) (made int, err error) {
	for {
		list, err := db.WithoutFacts(ctx, chunk)
		if err != nil || len(list) == 0 {
			return made, err
		}
		for _, s := range list {
			if err := db.Tx(ctx, func(tx *store.Tx) error { return catchUp(ctx, tx, s) }); err != nil {
				return made, err
			}
			made++
		}
	}
}

func catchUp(ctx context.Context, tx *store.Tx, s core.Session) error {
	if err := tx.PutFacts(ctx, store.Facts{Session: s.ID, StateAt: s.Created}); err != nil {
		return err
	}
	var after int64
	for {
		events, err := tx.Events(ctx, string(s.ID), after, chunk)
		if err != nil {
			return err
		}
		if len(events) == 0 {
			break
		}
		if err := Fold(ctx, tx, string(s.ID), events); err != nil {
			return err
		}
		after = events[len(events)-1].Seq
	}
	people, err := tx.Participants(ctx, s.ID)
	if err != nil {
		return err
	}
	for _, p := range append(people, s.Owner) {
		if err := tx.MarkRead(ctx, p.Handle, s.ID, after); err != nil {
			return err
		}
	}
	return nil
}
