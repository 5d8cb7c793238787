package store

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"drydock/internal/core"
)

var eventTable = table[core.Event]{
	name: "events", noun: "event", columns: "subject, seq, at, kind, run, node, attempt, actor, data",
	fields: func(e *core.Event) []any {
		return []any{&e.Subject, &e.Seq, stamp{&e.Time}, &e.Kind, &e.Run, &e.Node, &e.Attempt, &e.Actor, text{&e.Data}}
	},
}

// AppendEvents adds events to a subject's log and returns them with their
// numbers and times. Numbers follow the newest one without a gap, because
// transaction after transaction takes its turn.
//
// Package event is the way to append: it wakes those who follow.
func (w Writer) AppendEvents(ctx context.Context, subject string, events []core.Event) ([]core.Event, error) {
	out := slices.Clone(events)
	err := w.in(ctx, func(c conn) error {
		last, err := Reader{c}.LastEvent(ctx, subject)
		if err != nil {
			return err
		}
		at := now()
		for i := range out {
			out[i].Subject, out[i].Seq, out[i].Time = subject, last+int64(i)+1, at
			if err := eventTable.insert(ctx, c, &out[i]); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// LastEvent is the number of a subject's newest event, 0 if it has none.
func (r Reader) LastEvent(ctx context.Context, subject string) (seq int64, err error) {
	err = r.q.row(ctx, `SELECT COALESCE(MAX(seq), 0) FROM events WHERE subject = ?`, subject).Scan(&seq)
	return seq, r.q.d.explain(ctx, "store.event", err, "events of "+subject)
}

// Events lists a subject's events after a number, oldest first.
func (r Reader) Events(ctx context.Context, subject string, after int64, limit int) ([]core.Event, error) {
	return eventTable.list(ctx, r.q, "WHERE subject = ? AND seq > ? ORDER BY seq LIMIT ?", subject, after, limit)
}

// EventsBefore lists a subject's events before a number, newest first.
func (r Reader) EventsBefore(ctx context.Context, subject string, before int64, limit int) ([]core.Event, error) {
	return eventTable.list(ctx, r.q, "WHERE subject = ? AND seq < ? ORDER BY seq DESC LIMIT ?", subject, before, limit)
}

// Event finds one by its number.
func (r Reader) Event(ctx context.Context, subject string, seq int64) (core.Event, error) {
	return eventTable.get(ctx, r.q, fmt.Sprintf("%d of %s", seq, subject), "WHERE subject = ? AND seq = ?", subject, seq)
}

// EventsLike lists a subject's events before a number whose data has a text in
// it, in capital or small letters, newest first.
func (r Reader) EventsLike(ctx context.Context, subject, text string, before int64, limit int) ([]core.Event, error) {
	return eventTable.list(ctx, r.q, `WHERE subject = ? AND seq < ? AND LOWER(data) LIKE ? ESCAPE '\' ORDER BY seq DESC LIMIT ?`,
		subject, before, "%"+escapeLike(strings.ToLower(text))+"%", limit)
}

// LastEventOfKind finds the newest event of a kind, or NotFound.
func (r Reader) LastEventOfKind(ctx context.Context, subject string, kind core.EventKind) (core.Event, error) {
	return eventTable.get(ctx, r.q, string(kind)+" of "+subject, "WHERE subject = ? AND kind = ? ORDER BY seq DESC LIMIT 1", subject, kind)
}
