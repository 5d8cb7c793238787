package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"drydock/internal/core"
	"drydock/internal/execution/capacity"
	"drydock/internal/execution/environment"
)

const (
	weighed = 20               // clones whose memory is the floor
	mostOf  = int64(2) << 30   // memory that a quick run pretends to have
	settle  = 10 * time.Second // until what ended is free, and what began has settled
	apiece  = 40 * time.Second // for one more clone on a host full of them
	idle    = capacity.Session // of one that nobody works with
)

// benchDensity restores clones, which rest as those of the warm pool do, until
// the first is refused; then all of them have to answer.
func benchDensity(ctx context.Context, b *bench) (err error) {
	l, err := b.live(ctx)
	if err != nil {
		return err
	}
	floor, err := b.weigh(ctx, l)
	if err != nil {
		return err
	}
	host, free, err := b.roomOf(l)
	if err != nil {
		return err
	}
	c := &crowd{b: b, live: l}
	defer func() { err = errors.Join(err, c.disperse(ctx)) }()
	refused, err := c.fill(ctx, capacity.New(capacity.Deps{Host: host, Living: c.living, Log: b.log}, capacity.Options{}))
	if err != nil {
		return err
	}
	answered, err := c.ask(ctx)
	if err != nil {
		return err
	}
	n, most := float64(len(c.machines)), float64(free)/(1<<20)/floor
	met, target := round(n/most) >= 0.9, "value / floor >= 0.9"
	b.add(row{
		Name: "density: live clones before the first is refused, all answering", Value: n, Unit: "clones", Floor: new(round(most)), Ratio: new(round(most / n)), N: 1,
		Note:   fmt.Sprintf("the floor is the available memory by that of a raw clone, %.0f MiB; refused: %s", floor, refused),
		Target: &target, Met: &met,
	})
	b.add(alone("density: one of them wakes and answers on three ports", "ms", answered, ""))
	return nil
}

// roomOf measures the host, and what of its memory is free before the first
// clone. In a quick run it looks as if others used most of it.
func (b *bench) roomOf(l *live) (host func() (capacity.Host, error), free int64, err error) {
	measure := capacity.HostOf(l.workshop.dir)
	before, err := measure()
	if err != nil || !b.opts.quick {
		return measure, before.Memory.Free, err
	}
	taken := before.Memory.Free - mostOf
	return func() (capacity.Host, error) {
		h, err := measure()
		h.Memory.Free -= taken
		h.Memory.Total = mostOf
		return h, err
	}, mostOf, nil
}

// crowd is the clones that live at once.
type crowd struct {
	b     *bench
	live  *live
	awake []newcomer // oldest first

	mu       sync.Mutex // of what the keeper looks at
	machines []*environment.Machine
}

// newcomer does not rest yet.
type newcomer struct {
	id    core.SandboxID
	since time.Time
}

// living is what the keeper counts.
func (c *crowd) living(ctx context.Context) ([]capacity.Sandbox, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var out []capacity.Sandbox
	for _, m := range c.machines {
		s, err := m.Status(ctx)
		if err != nil {
			return nil, err
		}
		out = append(out, capacity.Sandbox{ID: m.ID(), Purpose: idle, Owner: string(m.ID()), Memory: s.Memory})
	}
	return out, nil
}

// fill adds clones until the keeper refuses one, and says why it did.
func (c *crowd) fill(ctx context.Context, keeper *capacity.Keeper) (refused string, err error) {
	began := time.Now()
	for {
		if ok, why := keeper.Room(ctx, idle); !ok {
			return why, nil
		}
		err := c.add(ctx)
		if err == nil {
			err = c.calm(ctx)
		}
		if err != nil {
			return "", fmt.Errorf("clone %d: %w", len(c.machines), err)
		}
		if n := len(c.machines); n%50 == 0 {
			c.b.say("%d clones live after %s", n, time.Since(began).Round(time.Second))
		}
	}
}

func (c *crowd) add(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, apiece)
	defer cancel()
	m, err := c.live.restore(ctx, false)
	if m != nil {
		c.mu.Lock()
		c.machines = append(c.machines, m)
		c.mu.Unlock()
		c.awake = append(c.awake, newcomer{m.ID(), time.Now()})
	}
	return err
}

// calm brings those to rest that have settled.
func (c *crowd) calm(ctx context.Context) error {
	for len(c.awake) > 0 && time.Since(c.awake[0].since) > settle/2 {
		if err := c.live.driver.Rest(ctx, c.awake[0].id); err != nil {
			return err
		}
		c.awake = c.awake[1:]
	}
	return nil
}

// ask wakes one after the other and tells how long each takes to answer.
func (c *crowd) ask(ctx context.Context) (answered series, err error) {
	driver := c.live.driver
	for i, m := range c.machines {
		began := time.Now()
		if err := errors.Join(driver.Wake(ctx, m.ID()), reachAll(ctx, m.Guest()), driver.Rest(ctx, m.ID())); err != nil {
			return nil, fmt.Errorf("clone %d of %d does not answer: %w", i+1, len(c.machines), err)
		}
		answered.took(time.Since(began))
	}
	return answered, nil
}

func (c *crowd) disperse(ctx context.Context) (err error) {
	clean := context.WithoutCancel(ctx)
	for _, m := range c.machines {
		err = errors.Join(err, m.Close(clean))
	}
	return err
}

// weigh restores clones without Drydock and tells how much of the host's memory
// each of them takes, in MiB.
func (b *bench) weigh(ctx context.Context, l *live) (mib float64, err error) {
	if err := wait(ctx, settle); err != nil {
		return 0, err
	}
	measure := capacity.HostOf(l.workshop.dir)
	before, err := measure()
	if err != nil {
		return 0, err
	}
	var boxes []*rawBox
	defer func() {
		for _, x := range boxes {
			err = errors.Join(err, l.raw.stop(ctx, x), l.raw.forget(ctx, x))
		}
	}()
	for range weighed {
		x, err := l.raw.box(ctx)
		if err != nil {
			return 0, err
		}
		boxes = append(boxes, x)
		if err := l.raw.restore(ctx, x, l.layers, l.config, l.image); err != nil {
			return 0, err
		}
	}
	if err := wait(ctx, settle); err != nil {
		return 0, err
	}
	after, err := measure()
	return float64(before.Memory.Free-after.Memory.Free) / (1 << 20) / weighed, err
}

func wait(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
