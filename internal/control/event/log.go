// Package event is the append-only log of sessions and builds, and the way to
// follow it: what is there first, then what comes, without a gap and without a
// double.
//
// It does not interpret events; package outline does, in the same transaction.
// Deltas, pieces of text as they are generated,
// are the one exception to durability: they are never stored and may be lost.
//
// Invariants: an event that anybody was shown is in the store; the numbers of
// a subject count from 1 without a gap; every follower sees them in order,
// each once. A slow follower costs its own time only: it reads again from the
// store and never holds up a writer.
//
// A Log is used by many goroutines. Appends that arrive while another is being
// stored are stored together, by one of their callers or by a goroutine that
// lives while any wait; Close waits for it.
//
//	stored, err := log.Append(ctx, string(session), core.NewEvent(core.EventLog, data))
//	for e, err := range log.Follow(ctx, string(session), lastSeen) { ... }
package event

import (
	"context"
	"slices"
	"sync"
	"time"

	"drydock/internal/control/outline"
	"drydock/internal/core"
	"drydock/internal/store"
)

// MaxData bounds the data of one event. Longer things are blobs.
const MaxData = 1 << 20

// Options of a log; zero values are replaced by the defaults.
type Options struct {
	Poll  time.Duration // how often a follower looks for events of other processes; default 1 s
	Delta time.Duration // how long deltas are collected; default 100 ms
}

// Log appends and follows.
type Log struct {
	db   *store.DB
	opts Options

	queue   batcher
	leading sync.WaitGroup // of callers' appends that nobody else stores

	mu       sync.Mutex
	subjects map[string]*subject // those with followers
	watches  map[*Watch]struct{}
}

// New makes a log over a store.
func New(db *store.DB, opts Options) *Log {
	if opts.Poll <= 0 {
		opts.Poll = time.Second
	}
	if opts.Delta <= 0 {
		opts.Delta = 100 * time.Millisecond
	}
	return &Log{db: db, opts: opts, subjects: map[string]*subject{}, watches: map[*Watch]struct{}{}}
}

// Close waits until nothing that was handed to Append is under way. Followers
// end with their own contexts.
func (l *Log) Close() { l.leading.Wait() }

// Append stores events of a subject, all or none, and returns them with their
// numbers and times. They are durable when it returns. If ctx ends while they
// wait, they may still be stored.
func (l *Log) Append(ctx context.Context, subject string, events ...core.Event) ([]core.Event, error) {
	return l.append(ctx, nil, subject, events)
}

// AppendFenced is Append for the holder of a lease: if fence is no longer the
// newest claim, nothing is stored and the error is a Conflict.
func (l *Log) AppendFenced(ctx context.Context, fence store.Fence, subject string, events ...core.Event) ([]core.Event, error) {
	return l.append(ctx, &fence, subject, events)
}

func (l *Log) append(ctx context.Context, fence *store.Fence, subject string, events []core.Event) ([]core.Event, error) {
	if len(events) == 0 {
		return nil, nil
	}
	if err := check(subject, events); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, core.E("event.append", core.KindOf(err), context.Cause(ctx), "append to %s", subject)
	}
	e := &entry{subject: subject, events: events, fence: fence, done: make(chan struct{})}
	if l.queue.enter(e) {
		l.lead(ctx, e)
	}
	select {
	case <-e.done:
		return e.stored, e.err
	case <-ctx.Done():
		return nil, core.E("event.append", core.KindOf(ctx.Err()), context.Cause(ctx), "append to %s", subject)
	}
}

// AppendTx stores events in the caller's transaction, so that a state and the
// event that tells of it are one. Followers see them after the commit.
func (l *Log) AppendTx(ctx context.Context, tx *store.Tx, subject string, events ...core.Event) ([]core.Event, error) {
	if len(events) == 0 {
		return nil, nil
	}
	if err := check(subject, events); err != nil {
		return nil, err
	}
	stored, err := tx.AppendEvents(ctx, subject, events)
	if err != nil {
		return nil, err
	}
	if err := outline.Fold(ctx, tx, subject, stored); err != nil {
		return nil, err
	}
	tx.OnCommit(func() { l.publish(stored) })
	return stored, nil
}

// Read returns at most limit events after a number, oldest first.
func (l *Log) Read(ctx context.Context, subject string, after int64, limit int) ([]core.Event, error) {
	return l.db.Events(ctx, subject, after, core.Page{Limit: limit}.Size())
}

// ReadBefore returns at most limit events before a number, oldest first.
func (l *Log) ReadBefore(ctx context.Context, subject string, before int64, limit int) ([]core.Event, error) {
	list, err := l.db.EventsBefore(ctx, subject, before, core.Page{Limit: limit}.Size())
	slices.Reverse(list)
	return list, err
}

// One returns an event by its number.
func (l *Log) One(ctx context.Context, subject string, seq int64) (core.Event, error) {
	return l.db.Event(ctx, subject, seq)
}

// Last is the number of a subject's newest event, 0 if it has none.
func (l *Log) Last(ctx context.Context, subject string) (int64, error) {
	return l.db.LastEvent(ctx, subject)
}

func check(subject string, events []core.Event) error {
	if subject == "" {
		return core.E("event.append", core.Invalid, nil, "event of no subject")
	}
	for _, e := range events {
		switch {
		case e.Kind == "" || e.Kind == core.EventDelta:
			return core.E("event.append", core.Invalid, nil, "event of kind %q cannot be stored", e.Kind)
		case len(e.Data) == 0:
			return core.E("event.append", core.Invalid, nil, "%s event has no data", e.Kind)
		case len(e.Data) > MaxData:
			return core.E("event.append", core.Invalid, nil, "%s event has %d bytes of data, more than %d", e.Kind, len(e.Data), MaxData).
				WithHint("store long output as a blob and name its digest")
		}
	}
	return nil
}
