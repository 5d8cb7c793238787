package retention

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"time"

	"drydock/internal/core"
	"drydock/internal/execution/snapshot/overlay"
)

// Snapshots is what a Collector asks of the store of snapshots.
type Snapshots interface {
	GC(ctx context.Context, req overlay.Request) (overlay.Collected, error)
	Usage(ctx context.Context) (overlay.Usage, error)
}

// Step is one more thing to collect. It is told how much room is missing, and
// says how much it freed, or would free.
type Step struct {
	Name string
	Do   func(ctx context.Context, dry bool, want int64) (freed int64, err error)
	// Seldom: not with every collection, but once in Options.Seldom, when room
	// is missing, and when a person asks.
	Seldom bool
}

// Deps are what a Collector uses of others.
type Deps struct {
	Snapshots Snapshots
	// Before lets go of what is too old. It may be nil.
	Before func(ctx context.Context) error
	After  []Step
	// Disk is the room of the file system.
	Disk func() (free, total int64, err error)
	Log  *slog.Logger
}

// Options of a Collector; zero fields take their default.
type Options struct {
	Grace    time.Duration // of what is new; default 10 minutes
	Interval time.Duration // between collections; default 10 minutes
	Look     time.Duration // between looks at the disk; default 1 minute
	Seldom   time.Duration // default 6 hours
	Reserve  int64         // of the disk, kept free; 0: the larger of 2 GiB and a twentieth, at most half
	Max      int64         // of all snapshots; 0: no bound
}

// Grace covers the time between a snapshot and the row that refers to it.
const Grace = 10 * time.Minute

// Collector collects in the background and on request.
type Collector struct {
	deps Deps
	opts Options
	kick chan struct{}

	turn   chan struct{} // holds one token: one collection at a time
	seldom time.Time     // when the seldom steps were last done; of whoever has the token
}

// New makes one.
func New(deps Deps, opts Options) *Collector {
	for _, d := range []struct {
		field *time.Duration
		value time.Duration
	}{{&opts.Grace, Grace}, {&opts.Interval, 10 * time.Minute}, {&opts.Look, time.Minute}, {&opts.Seldom, 6 * time.Hour}} {
		if *d.field <= 0 {
			*d.field = d.value
		}
	}
	if deps.Log == nil {
		deps.Log = slog.New(slog.DiscardHandler)
	}
	return &Collector{deps: deps, opts: opts, kick: make(chan struct{}, 1), turn: make(chan struct{}, 1)}
}

// Kick asks for a collection soon: something has become superfluous.
func (c *Collector) Kick() {
	select {
	case c.kick <- struct{}{}:
	default:
	}
}

// Run collects until ctx ends: at an interval, when kicked, and when the disk
// or the bound of all snapshots is short.
func (c *Collector) Run(ctx context.Context) error {
	next := time.NewTimer(c.pause())
	defer next.Stop()
	look := time.NewTicker(c.opts.Look)
	defer look.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-next.C:
		case <-c.kick:
		case <-look.C:
			if c.Short(ctx) <= 0 {
				continue
			}
		}
		got, err := c.Collect(ctx, false)
		switch {
		case ctx.Err() != nil:
			return nil //nolint:nilerr // asked to end
		case err != nil:
			c.deps.Log.Error("the collection of snapshots did not end", "error", err)
		case got.Freed > 0:
			c.deps.Log.Info("collected", "snapshots", len(got.Removed), "images", len(got.Images), "bytes", got.Freed)
		}
		next.Reset(c.pause())
	}
}

// pause is the interval, a little shorter or longer, so that daemons on one
// disk do not walk in step.
func (c *Collector) pause() time.Duration {
	return time.Duration(float64(c.opts.Interval) * (0.9 + 0.2*rand.Float64())) //nolint:gosec // not a secret
}

// Reserve is how much of a disk is kept free.
func (c *Collector) reserve(total int64) int64 {
	if c.opts.Reserve > 0 {
		return min(c.opts.Reserve, total/2)
	}
	return min(max(2<<30, total/20), total/2)
}

// Short is how much room is missing: on the disk, or below the bound of all
// snapshots. It is not positive when there is enough.
func (c *Collector) Short(ctx context.Context) int64 {
	var short int64
	if c.deps.Disk != nil {
		if free, total, err := c.deps.Disk(); err == nil {
			short = c.reserve(total) - free
		}
	}
	if c.opts.Max > 0 {
		if u, err := c.deps.Snapshots.Usage(ctx); err == nil {
			short = max(short, u.Bytes-c.opts.Max)
		}
	}
	return short
}

// Result of a collection.
type Result struct {
	overlay.Collected
	Freed int64            // by everything
	Steps map[string]int64 // what the other steps freed
}

// Collect collects once. A second caller waits for the first.
func (c *Collector) Collect(ctx context.Context, dry bool) (Result, error) {
	return c.collect(ctx, dry, 0, dry)
}

// CollectAll is Collect with the steps that are seldom done.
func (c *Collector) CollectAll(ctx context.Context, dry bool) (Result, error) {
	return c.collect(ctx, dry, 0, true)
}

// Reclaim frees as much as it can of what somebody wants, and says how much.
func (c *Collector) Reclaim(ctx context.Context, want int64) int64 {
	got, err := c.collect(ctx, false, want, true)
	if err != nil {
		c.deps.Log.Error("room could not be made", "want", want, "error", err)
	}
	return got.Freed
}

func (c *Collector) collect(ctx context.Context, dry bool, want int64, all bool) (Result, error) {
	out := Result{Steps: map[string]int64{}}
	select {
	case c.turn <- struct{}{}:
		defer func() { <-c.turn }()
	case <-ctx.Done():
		return out, core.E("retention.collect", core.KindOf(ctx.Err()), ctx.Err(), "another collection is at work")
	}
	if c.deps.Before != nil && !dry {
		if err := c.deps.Before(ctx); err != nil {
			return out, err
		}
	}
	want = max(want, c.Short(ctx), 0)
	var errs []error
	var err error
	if out.Collected, err = c.deps.Snapshots.GC(ctx, overlay.Request{Grace: c.opts.Grace, Dry: dry, Want: want}); err != nil {
		errs = append(errs, err)
	}
	out.Freed = out.Bytes
	seldom := all || want > 0 || time.Since(c.seldom) >= c.opts.Seldom
	if seldom && !dry {
		c.seldom = time.Now()
	}
	for _, step := range c.deps.After {
		if step.Seldom && !seldom {
			continue
		}
		// One that fails does not keep the others from what they free.
		freed, err := step.Do(ctx, dry, max(want-out.Freed, 0))
		if err != nil {
			errs = append(errs, core.E("retention.collect", core.KindOf(err), err, "collection of %s", step.Name))
		}
		if freed > 0 {
			out.Steps[step.Name] = freed
			out.Freed += freed
		}
	}
	return out, errors.Join(errs...)
}
