package event

import (
	"context"
	"errors"
	"sync"
	"time"

	"drydock/internal/core"
	"drydock/internal/store"
)

// A transaction costs far more than an event in it, so appends that wait for
// one are stored by the next one together. Nobody owns the work for long: the
// first to come leads, stores what has gathered, and hands on to the next.

// maxBatch bounds one transaction, so that state changes get their turn.
const maxBatch = 512

// storeTimeout bounds one transaction. It does not end with the leader's
// context, because others' events are in it.
const storeTimeout = 30 * time.Second

type entry struct {
	subject string
	events  []core.Event
	fence   *store.Fence

	// written by the leader before done is closed
	stored []core.Event
	err    error
	done   chan struct{}
}

type batcher struct {
	mu      sync.Mutex
	waiting []*entry
	led     bool
}

// enter queues e and says whether the caller must lead.
func (b *batcher) enter(e *entry) (lead bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.waiting = append(b.waiting, e)
	lead = !b.led
	b.led = true
	return lead
}

// next takes what waits, or ends the lead when nothing does.
func (b *batcher) next() []*entry {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := min(len(b.waiting), maxBatch)
	if n == 0 {
		b.led, b.waiting = false, nil
		return nil
	}
	batch := b.waiting[:n:n]
	b.waiting = b.waiting[n:]
	return batch
}

// lead stores batches until the leader's own entry is stored, then lets a
// goroutine finish what came meanwhile, so that no caller waits for others.
func (l *Log) lead(ctx context.Context, own *entry) {
	ctx = context.WithoutCancel(ctx)
	for {
		batch := l.queue.next()
		if batch == nil {
			return
		}
		l.store(ctx, batch)
		select {
		case <-own.done:
			if l.queue.empty() {
				continue // ends the lead
			}
			l.leading.Go(func() { l.rest(ctx) })
			return
		default:
		}
	}
}

// rest ends when nothing waits. Close waits for it.
func (l *Log) rest(ctx context.Context) {
	for batch := l.queue.next(); batch != nil; batch = l.queue.next() {
		l.store(ctx, batch)
	}
}

func (b *batcher) empty() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.waiting) == 0
}

func (l *Log) store(ctx context.Context, batch []*entry) {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	err := l.db.Tx(ctx, func(tx *store.Tx) error {
		for _, e := range batch {
			e.stored, e.err = nil, nil
			if e.fence != nil {
				if e.err = tx.CheckFence(ctx, *e.fence); errors.Is(e.err, store.ErrLeaseLost) {
					continue // this one is refused, the others are not
				}
			}
			if e.err == nil {
				e.stored, e.err = l.AppendTx(ctx, tx, e.subject, e.events...)
			}
			if e.err != nil {
				return e.err
			}
		}
		return nil
	})
	for _, e := range batch {
		if err != nil {
			e.stored, e.err = nil, err
		}
		close(e.done)
	}
}
