package event

import (
	"context"
	"iter"
	"slices"
	"strings"
	"time"

	"drydock/internal/core"
)

// subject is what followers of one subject share. Its fields are guarded by
// Log.mu.
type subject struct {
	followers map[*follower]struct{}
	last      int64        // newest number published here
	tail      []core.Event // newest events, without a gap, to spare followers the store
	bytes     int          // of data in tail
}

const (
	maxTail      = 1024
	maxTailBytes = 4 << 20
	maxDelta     = 64 << 10 // of text kept for one slow follower
	readSize     = 256
)

type follower struct {
	wake   chan struct{} // holds at most one
	deltas []delta       // guarded by Log.mu
	size   int
}

// delta is text that was generated when after was the subject's newest event.
type delta struct {
	after int64
	text  string
}

// Follow yields the subject's events after a number: first those in the store,
// then each new one, in order and once, until ctx ends or the caller stops.
// Between them it yields deltas, which have no number. An error is yielded
// last; the end of ctx is not an error.
func (l *Log) Follow(ctx context.Context, subject string, after int64) iter.Seq2[core.Event, error] {
	return func(yield func(core.Event, error) bool) {
		f := l.enter(subject) // before the first read, so that nothing falls between
		defer l.leave(subject, f)
		if err := l.learnLast(ctx, subject); err != nil {
			if ctx.Err() == nil {
				yield(core.Event{}, err)
			}
			return
		}
		var shown time.Time // when a delta was last yielded
		poll := time.NewTicker(l.opts.Poll)
		defer poll.Stop()
		for ask := true; ; { // ask the store, even if memory has nothing newer
			events, err := l.next(ctx, subject, after, ask)
			if err != nil {
				if ctx.Err() == nil {
					yield(core.Event{}, err)
				}
				return
			}
			for _, e := range events {
				// What was generated before this event is shown before it.
				if text := l.takeDeltas(f, e.Seq-1); text != "" && !yield(deltaEvent(subject, text), nil) {
					return
				}
				if ctx.Err() != nil || !yield(e, nil) {
					return
				}
				after = e.Seq
			}
			if len(events) > 0 {
				continue
			}
			ask = false
			var due <-chan time.Time
			if l.hasDelta(f, after) {
				wait := l.opts.Delta - time.Since(shown)
				if wait <= 0 {
					shown = time.Now()
					if !yield(deltaEvent(subject, l.takeDeltas(f, after)), nil) {
						return
					}
					continue
				}
				due = time.After(wait)
			}
			select {
			case <-ctx.Done():
				return
			case <-f.wake:
			case <-due:
			case <-poll.C:
				ask = true // another process may have written
			}
		}
	}
}

// learnLast finds out which event is the newest, so that deltas have a place.
func (l *Log) learnLast(ctx context.Context, subject string) error {
	last, err := l.db.LastEvent(ctx, subject)
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.subjects[subject]
	if last > s.last { // never back: publish may have been quicker
		s.last, s.tail, s.bytes = last, nil, 0
	}
	return nil
}

// next returns the events after a number, from memory where it can.
func (l *Log) next(ctx context.Context, subject string, after int64, ask bool) ([]core.Event, error) {
	if events, ok := l.fromTail(subject, after); ok && (len(events) > 0 || !ask) {
		return events, nil
	}
	return l.db.Events(ctx, subject, after, readSize)
}

// fromTail is not ok if memory cannot tell what follows after.
func (l *Log) fromTail(subject string, after int64) ([]core.Event, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.subjects[subject]
	switch {
	case s == nil:
		return nil, false
	case after >= s.last: // what is stored here is also published here
		return nil, true
	case len(s.tail) == 0 || after+1 < s.tail[0].Seq:
		return nil, false
	}
	rest := s.tail[after+1-s.tail[0].Seq:]
	return slices.Clone(rest[:min(len(rest), readSize)]), true
}

// Delta passes text to those who follow now. It never waits, and drops the
// oldest text of a follower that is far behind.
func (l *Log) Delta(subject, text string) {
	if text == "" {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.subjects[subject]
	if s == nil {
		return
	}
	for f := range s.followers {
		if n := len(f.deltas); n > 0 && f.deltas[n-1].after == s.last {
			f.deltas[n-1].text += text
		} else {
			f.deltas = append(f.deltas, delta{s.last, text})
		}
		f.size += len(text)
		for f.size > maxDelta && len(f.deltas) > 0 {
			f.size -= len(f.deltas[0].text)
			f.deltas = f.deltas[1:]
		}
		f.signal()
	}
}

// publish runs after a commit, in commit order.
func (l *Log) publish(events []core.Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.tellWatches(events[0].Subject)
	s := l.subjects[events[0].Subject]
	if s == nil {
		return
	}
	if s.last+1 != events[0].Seq { // another process wrote in between, or nothing was seen yet
		s.tail, s.bytes = nil, 0
	}
	for _, e := range events {
		s.bytes += len(e.Data)
	}
	s.tail = append(s.tail, events...)
	drop := max(0, len(s.tail)-maxTail)
	for i := range s.tail {
		if i >= drop && s.bytes <= maxTailBytes {
			break
		}
		s.bytes -= len(s.tail[i].Data)
		drop = max(drop, i+1)
	}
	s.tail = s.tail[drop:]
	s.last = events[len(events)-1].Seq
	for f := range s.followers {
		f.signal()
	}
}

func (f *follower) signal() {
	select {
	case f.wake <- struct{}{}:
	default:
	}
}

func (l *Log) enter(name string) *follower {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.subjects[name]
	if s == nil {
		s = &subject{followers: map[*follower]struct{}{}}
		l.subjects[name] = s
	}
	f := &follower{wake: make(chan struct{}, 1)}
	s.followers[f] = struct{}{}
	return f
}

func (l *Log) leave(name string, f *follower) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.subjects[name]
	delete(s.followers, f)
	if len(s.followers) == 0 {
		delete(l.subjects, name)
	}
}

// takeDeltas removes and joins the text that was generated when the newest
// event was at most the given one.
func (l *Log) takeDeltas(f *follower, upTo int64) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var text strings.Builder
	for len(f.deltas) > 0 && f.deltas[0].after <= upTo {
		text.WriteString(f.deltas[0].text)
		f.size -= len(f.deltas[0].text)
		f.deltas = f.deltas[1:]
	}
	return text.String()
}

func (l *Log) hasDelta(f *follower, upTo int64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(f.deltas) > 0 && f.deltas[0].after <= upTo
}

func deltaEvent(subject, text string) core.Event {
	e := core.NewEvent(core.EventDelta, core.TextData{Text: text})
	e.Subject, e.Time = subject, time.Now().UTC()
	return e
}
