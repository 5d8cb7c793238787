package capacity

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"drydock/internal/core"
)

// Purpose of a sandbox. The words are those of package environment.
type Purpose = string

const (
	Session Purpose = "session"
	Proof   Purpose = "proof"
	Build   Purpose = "build"
	Warm    Purpose = "warm"
)

// Sandbox is a living one and the memory that it uses.
type Sandbox struct {
	ID      core.SandboxID
	Purpose Purpose
	Owner   string
	Memory  int64
}

// Deps of a Keeper.
type Deps struct {
	Host   func() (Host, error)
	Living func(ctx context.Context) ([]Sandbox, error)
	Log    *slog.Logger
}

// Options are the operator's; zero values are replaced by the defaults.
type Options struct {
	// MemoryReserve is never given out; default the larger of 1 GiB and a
	// twentieth, but no more than a quarter of the host.
	MemoryReserve int64
	// DiskReserve is how much must be free for anything new; default the larger
	// of 2 GiB and a twentieth, but no more than half of the disk.
	DiskReserve int64
	// FloorSession is reserved for a sandbox that works, and FloorIdle for one
	// that does not, if it uses less; default 256 MiB and 64 MiB.
	FloorSession, FloorIdle int64
	// PerProcessor bounds busy sandboxes; default 16.
	PerProcessor int
	Age          time.Duration // of a measurement that is used again; default 1 s
}

func (o Options) withDefaults() Options {
	def := func(v *int64, d int64) {
		if *v <= 0 {
			*v = d
		}
	}
	def(&o.FloorSession, 256<<20)
	def(&o.FloorIdle, 64<<20)
	if o.PerProcessor <= 0 {
		o.PerProcessor = 16
	}
	if o.Age <= 0 {
		o.Age = time.Second
	}
	return o
}

// Keeper decides what may start.
type Keeper struct {
	deps Deps
	opts Options

	looking sync.Mutex // one measurement at a time

	mu      sync.Mutex
	reclaim func(ctx context.Context, want int64) (freed int64)
	seen    measured
	granted map[core.SandboxID]*grant
	entered map[string]int // sessions that run, by identifier
	waiting []*waiter
	number  int64
	changed chan struct{} // closed when something was given back
	refused time.Time     // when a new session was last turned away
	told    string        // state that the log has
	opened  time.Time     // when it was first seen to be over
}

type measured struct {
	host   Host
	living []Sandbox
	at     time.Time
}

// grant is a sandbox that was let in and not given back.
type grant struct {
	Request
	number int64
}

type waiter struct {
	Request
	number int64
	rank   int
	since  time.Time
	lack   Shortage
}

// New makes a Keeper.
func New(deps Deps, opts Options) *Keeper {
	if deps.Log == nil {
		deps.Log = slog.New(slog.DiscardHandler)
	}
	return &Keeper{
		deps: deps, opts: opts.withDefaults(), granted: map[core.SandboxID]*grant{}, entered: map[string]int{}, changed: make(chan struct{}), told: "open",
	}
}

// SetReclaim says how warm sandboxes are given back: reclaim removes as many as
// make want bytes, or fewer, and returns what it freed.
func (k *Keeper) SetReclaim(reclaim func(ctx context.Context, want int64) (freed int64)) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.reclaim = reclaim
}

// look measures, unless that was done a moment ago.
func (k *Keeper) look(ctx context.Context) {
	k.looking.Lock()
	defer k.looking.Unlock()
	k.mu.Lock()
	fresh := !k.seen.at.IsZero() && time.Since(k.seen.at) < k.opts.Age
	k.mu.Unlock()
	if fresh {
		return
	}
	at := time.Now() // before: what changes meanwhile is looked at again sooner
	host, err := k.deps.Host()
	living, livingErr := k.deps.Living(ctx)
	if ctx.Err() != nil {
		return
	}
	if err != nil {
		k.deps.Log.WarnContext(ctx, "the host cannot be measured, and bounds nothing that is not known", "op", "capacity.look", "err", err)
	}
	if livingErr != nil {
		k.deps.Log.WarnContext(ctx, "living sandboxes are not known", "op", "capacity.look", "err", livingErr)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if livingErr != nil {
		living = k.seen.living // those of a moment ago
	}
	k.seen = measured{host, living, at}
	k.tell(ctx)
}

// settled is how long there must be room before the log says so.
const settled = 10 * time.Second

// tell writes into the log when the state changes.
func (k *Keeper) tell(ctx context.Context) {
	s := k.state()
	now := time.Now()
	switch {
	case s.Kind != "":
		k.opened = time.Time{}
	case k.opened.IsZero():
		k.opened = now
	}
	// Full is told at once, room when it lasts: the state moves with every session.
	if k.told == word(s) || s.Kind == "" && now.Sub(k.opened) < settled {
		return
	}
	k.told = word(s)
	if s.Kind == "" {
		k.deps.Log.InfoContext(ctx, "the host has room again")
		return
	}
	k.deps.Log.WarnContext(ctx, "the host is full: nothing new starts until there is room; what runs goes on", "lack", s.String(), "hint", s.hint())
}

// stale makes the next look measure.
func (k *Keeper) stale() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.seen.at = time.Time{}
}

// wake lets everybody who waits look again. It is called with the lock.
func (k *Keeper) wake() {
	close(k.changed)
	k.changed = make(chan struct{})
}

// Enter keeps room for a session that is about to run, until leave is called:
// for it and for the sandboxes it will start. lack says what is missing, and
// then nothing is kept. A resumed session needs room for its sandbox only.
func (k *Keeper) Enter(ctx context.Context, id core.SessionID, resumed bool) (leave func(), lack string) {
	k.look(ctx)
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.entered[string(id)] == 0 && !k.lives(string(id)) {
		if s := k.lacks(k.rankOf(resumed), k.floor(Session, true)); s.Kind != "" {
			if !resumed && s.Kind == "memory" {
				k.refused = time.Now()
			}
			return nil, s.String()
		}
	}
	k.entered[string(id)]++
	return sync.OnceFunc(func() {
		k.mu.Lock()
		defer k.mu.Unlock()
		if k.entered[string(id)]--; k.entered[string(id)] <= 0 {
			delete(k.entered, string(id))
		}
		k.wake()
	}), ""
}

// Lack says what a session that enters now would miss; "" is nothing.
func (k *Keeper) Lack(ctx context.Context, resumed bool) string {
	k.look(ctx)
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.lacks(k.rankOf(resumed), k.floor(Session, true)).String()
}

// Waits says what a sandbox of this owner waits for; "" is nothing.
func (k *Keeper) Waits(owner string) string {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, w := range k.waiting {
		if w.Owner == owner && w.lack.Kind != "" {
			return w.lack.String()
		}
	}
	return ""
}

func (k *Keeper) rankOf(resumed bool) int {
	if resumed {
		return rankRunning
	}
	return rankSession
}

// Room says whether a sandbox of this purpose could start now, and if not, why.
// It never waits. A Session here is a new one.
func (k *Keeper) Room(ctx context.Context, purpose Purpose) (ok bool, why string) {
	k.look(ctx)
	k.mu.Lock()
	defer k.mu.Unlock()
	rank := rank(purpose)
	if purpose == Session {
		rank = rankSession
	}
	s := k.lacks(rank, k.floor(purpose, true))
	return s.Kind == "", s.String()
}

// Request asks for room for one sandbox.
type Request struct {
	ID      core.SandboxID
	Purpose Purpose
	Owner   string
	Limits  core.Limits
}

// Admit waits until there is room for a sandbox, and keeps it until release.
// Among those who wait, what is more important comes first, then who came
// first. It fails only when ctx ends.
func (k *Keeper) Admit(ctx context.Context, req Request) (release func(), err error) {
	w := &waiter{Request: req, rank: rank(req.Purpose), since: time.Now()}
	k.mu.Lock()
	k.number++
	w.number = k.number
	k.waiting = append(k.waiting, w)
	slices.SortFunc(k.waiting, func(a, b *waiter) int {
		if a.rank != b.rank {
			return a.rank - b.rank
		}
		return int(a.number - b.number)
	})
	k.mu.Unlock()
	asked := false
	for {
		k.look(ctx)
		k.mu.Lock()
		w.lack = k.mayEnter(w)
		if w.lack.Kind == "" || w.lack.passes && (asked || k.reclaim == nil) {
			k.granted[req.ID] = &grant{req, w.number}
			k.dismiss(w)
			k.mu.Unlock()
			return sync.OnceFunc(func() { k.giveBack(req.ID) }), nil
		}
		lack, changed, reclaim := w.lack, k.changed, k.reclaim
		k.mu.Unlock()
		if reclaim != nil && lack.want > 0 && w.rank < rankWarm {
			asked = true
			if freed := reclaim(ctx, lack.want); freed > 0 || lack.passes {
				k.stale()
				continue
			}
		}
		timer := time.NewTimer(k.opts.Age)
		select {
		case <-changed:
		case <-timer.C:
		case <-ctx.Done():
		}
		timer.Stop()
		if ctx.Err() != nil {
			k.mu.Lock()
			defer k.mu.Unlock()
			k.dismiss(w)
			return nil, core.E("capacity.admit", core.KindOf(ctx.Err()), context.Cause(ctx), "a sandbox for a %s waited for %s", noun(req.Purpose), lack).
				WithHint("%s", lack.hint())
		}
	}
}

// dismiss takes a waiter out; others may be first now. With the lock.
func (k *Keeper) dismiss(w *waiter) {
	k.waiting = slices.DeleteFunc(k.waiting, func(o *waiter) bool { return o == w })
	k.wake()
}

// giveBack forgets a sandbox that is gone.
func (k *Keeper) giveBack(id core.SandboxID) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.granted, id)
	k.seen.living = slices.DeleteFunc(slices.Clone(k.seen.living), func(s Sandbox) bool { return s.ID == id })
	k.seen.at = time.Time{} // its memory is free now
	k.wake()
}
