package event

import "strings"

// Watch tells which sessions got events, not which ones. It costs a writer next
// to nothing, however slow whoever looks is.
type Watch struct {
	log   *Log
	wake  chan struct{}       // holds at most one
	dirty map[string]struct{} // guarded by Log.mu
}

// Watch begins; Close it.
func (l *Log) Watch() *Watch {
	w := &Watch{log: l, wake: make(chan struct{}, 1), dirty: map[string]struct{}{}}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.watches[w] = struct{}{}
	return w
}

// Wake delivers when there is something to Take.
func (w *Watch) Wake() <-chan struct{} { return w.wake }

// Take returns the sessions that got events since it was called last.
func (w *Watch) Take() []string {
	w.log.mu.Lock()
	defer w.log.mu.Unlock()
	out := make([]string, 0, len(w.dirty))
	for id := range w.dirty {
		out = append(out, id)
	}
	clear(w.dirty)
	return out
}

// Close ends it.
func (w *Watch) Close() {
	w.log.mu.Lock()
	defer w.log.mu.Unlock()
	delete(w.log.watches, w)
}

// tellWatches is called with Log.mu held.
func (l *Log) tellWatches(subject string) {
	if !strings.HasPrefix(subject, "ses_") {
		return
	}
	for w := range l.watches {
		w.dirty[subject] = struct{}{}
		select {
		case w.wake <- struct{}{}:
		default:
		}
	}
}
