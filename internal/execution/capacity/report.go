package capacity

import (
	"context"
	"time"
)

// Report is what the host has, what is promised, and who waits.
type Report struct {
	State string // "open", or "full: " and what is short
	Lack  string // of a new session; "" nothing
	Hint  string

	Host          Host
	MemoryUsed    int64 // by sandboxes, as measured
	MemoryKept    int64 // promised to them beyond that
	MemoryReserve int64
	MemoryFree    int64 // may be given out
	DiskReserve   int64
	PerProcessor  int
	Busy          int // sandboxes that work, or will

	Sandboxes map[Purpose]int
	Sessions  int // that run
	Waiting   []Waiting
}

// Waiting is a sandbox that waits for room.
type Waiting struct {
	Purpose Purpose
	Owner   string
	For     string
	Since   time.Time
}

// Report tells how things stand.
func (k *Keeper) Report(ctx context.Context) Report {
	k.look(ctx)
	k.mu.Lock()
	defer k.mu.Unlock()
	p, lack := k.promises(), k.state()
	r := Report{
		State: word(lack), Lack: lack.String(), Hint: lack.hint(),
		Host: k.seen.host, MemoryUsed: p.used, MemoryKept: p.outstanding, MemoryFree: max(k.free(p), 0), PerProcessor: k.opts.PerProcessor, Busy: p.busy,
		Sandboxes: map[Purpose]int{}, Sessions: len(k.entered),
	}
	r.MemoryReserve, r.DiskReserve = k.reserves()
	for _, s := range k.seen.living {
		r.Sandboxes[s.Purpose]++
	}
	for _, w := range k.waiting {
		if w.lack.Kind != "" {
			r.Waiting = append(r.Waiting, Waiting{w.Purpose, w.Owner, w.lack.String(), w.since})
		}
	}
	return r
}

// word is the state that a shortage makes.
func word(s Shortage) string {
	if s.Kind == "" {
		return "open"
	}
	return "full: " + s.Kind
}
