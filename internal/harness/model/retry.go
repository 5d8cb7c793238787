package model

import (
	"context"
	"math/rand/v2"
	"time"
)

// RetryPolicy bounds how often and how long a request is tried again.
type RetryPolicy struct {
	Max       int           // tries after the first
	Base      time.Duration // first wait, doubled each time
	Cap       time.Duration // longest wait of our own
	MaxAfter  time.Duration // longest wait that a provider may ask for; beyond it the call ends
	MaxEmpty  int           // tries after an empty answer
	TotalWait time.Duration // sum of all waits
}

func (p RetryPolicy) withDefaults() RetryPolicy {
	d := RetryPolicy{Max: 8, Base: time.Second, Cap: time.Minute, MaxAfter: 5 * time.Minute, MaxEmpty: 1, TotalWait: 15 * time.Minute}
	if p.Max != 0 {
		d.Max = max(p.Max, 0)
	}
	if p.Base > 0 {
		d.Base = p.Base
	}
	if p.Cap > 0 {
		d.Cap = p.Cap
	}
	if p.MaxAfter > 0 {
		d.MaxAfter = p.MaxAfter
	}
	if p.MaxEmpty != 0 {
		d.MaxEmpty = max(p.MaxEmpty, 0)
	}
	if p.TotalWait > 0 {
		d.TotalWait = p.TotalWait
	}
	return d
}

// next says how long to wait before try number n (from 1), and whether to try
// at all. Jitter takes up to a quarter off our own waits, and adds up to a
// tenth to a wait the provider asked for, so that many sessions do not return
// at the same instant.
func (p RetryPolicy) next(f *Fault, n int, waited time.Duration) (time.Duration, bool) {
	if !f.Again() || n > p.Max || f.Outcome == Empty && n > p.MaxEmpty {
		return 0, false
	}
	wait := p.Cap
	if shift := n - 1; shift < 16 && p.Base<<shift < p.Cap {
		wait = p.Base << shift
	}
	wait -= time.Duration(rand.Int64N(int64(wait)/4 + 1))
	if f.After > 0 {
		if f.After > p.MaxAfter {
			return 0, false
		}
		wait = f.After + time.Duration(rand.Int64N(int64(f.After)/10+1))
	}
	return wait, waited+wait <= p.TotalWait
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-t.C:
		return nil
	}
}
