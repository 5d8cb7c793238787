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
func benchDensity(ctx context.Context, b *bench) error {
	l, err := b.live(ctx)
	if err != nil {
		return err
	}
	floor, err := b.weigh(ctx, l)
	if err != nil {
		return err
	}
	measure := capacity.HostOf(l.workshop.dir)
	before, err := measure()
	if err != nil {
		return err
	}
	host := measure
	if b.opts.quick { // as if the rest were in use by others
		taken := before.Memory.Free - mostOf
		host = func() (capacity.Host, error) {
			h, err := measure()
			h.Memory.Free -= taken
			h.Memory.Total = mostOf
			return h, err
		}
		before.Memory.Free = mostOf
	}
	var mu sync.Mutex
	var living []*environment.Machine
	keeper := capacity.New(capacity.Deps{Host: host, Living: func(ctx context.Context) ([]capacity.Sandbox, error) {
		mu.Lock()
		defer mu.Unlock()
		var out []capacity.Sandbox
		for _, m := range living {
			s, err := m.Status(ctx)
			if err != nil {
				return nil, err
			}
			out = append(out, capacity.Sandbox{ID: m.ID(), Purpose: idle, Owner: string(m.ID()), Memory: s.Memory})
		}
		return out, nil
	}, Log: b.log}, capacity.Options{})
	defer func() {
		clean := context.WithoutCancel(ctx)
		for _, m := range living {
			err = errors.Join(err, m.Close(clean))
		}
	}()
	began, refused := time.Now(), ""
	type fresh struct {
		id    core.SandboxID
		since time.Time
	}
	var awake []fresh
	for refused == "" {
		ok, why := keeper.Room(ctx, idle)
		if !ok {
			refused = why
			break
		}
		one, cancel := context.WithTimeout(ctx, apiece)
		m, err := l.restore(one, false)
		cancel()
		if m != nil {
			mu.Lock()
			living = append(living, m)
			mu.Unlock()
			awake = append(awake, fresh{m.ID(), time.Now()})
		}
		for len(awake) > 0 && err == nil && time.Since(awake[0].since) > settle/2 {
			err = l.driver.Rest(ctx, awake[0].id)
			awake = awake[1:]
		}
		if err != nil {
			return fmt.Errorf("clone %d: %w", len(living), err)
		}
		if len(living)%50 == 0 {
			b.say("%d clones live after %s", len(living), time.Since(began).Round(time.Second))
		}
	}
	var answered series
	for i, m := range living {
		began := time.Now()
		err := errors.Join(l.driver.Wake(ctx, m.ID()), reachAll(ctx, m.Guest()), l.driver.Rest(ctx, m.ID()))
		if err != nil {
			return fmt.Errorf("clone %d of %d does not answer: %w", i+1, len(living), err)
		}
		answered.took(time.Since(began))
	}
	n, most := float64(len(living)), float64(before.Memory.Free)/(1<<20)/floor
	share := round(n / most)
	r := row{
		Name: "density: live clones before the first is refused, all answering", Value: n, Unit: "clones", Floor: new(round(most)), Ratio: new(round(most / n)), N: 1,
		Note: fmt.Sprintf("the floor is the available memory by that of a raw clone, %.0f MiB; refused: %s", floor, refused),
	}
	met := share >= 0.9
	target := "value / floor >= 0.9"
	r.Target, r.Met = &target, &met
	b.add(r)
	b.add(alone("density: one of them wakes and answers on three ports", "ms", answered, ""))
	return nil
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
