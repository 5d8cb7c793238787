package store

import (
	"context"
	"time"

	"drydock/internal/core"
)

// Fence proves that its holder is the newest one of a lease. Token grows by
// one with each claim, so that what an earlier holder still sends is refused.
// It is plain data.
type Fence struct {
	Lease string `json:"lease"`
	Owner string `json:"owner"`
	Token int64  `json:"token"`
}

type lease struct {
	Fence
	expires time.Time
}

var leaseTable = table[lease]{
	name: "leases", noun: "lease", columns: "name, owner, fence, expires",
	fields: func(l *lease) []any { return []any{&l.Lease, &l.Owner, &l.Token, stamp{&l.expires}} },
}

// Claim takes a lease that nobody holds, that has expired, or that owner
// itself left behind in an earlier life. Held by another it is a Conflict.
func (w Writer) Claim(ctx context.Context, name, owner string, at time.Time, ttl time.Duration) (f Fence, err error) {
	err = w.in(ctx, func(c conn) error {
		l, err := leaseTable.get(ctx, c, name, "WHERE name = ?"+c.d.lockRow, name)
		if core.Is(err, core.NotFound) {
			f = Fence{name, owner, 1}
			return leaseTable.insert(ctx, c, &lease{f, at.Add(ttl)})
		}
		if err != nil {
			return err
		}
		if l.Owner != owner && l.expires.After(at) {
			return core.E("store.lease", core.Conflict, nil, "lease %s is held by %s", name, l.Owner)
		}
		f = Fence{name, owner, l.Token + 1}
		_, err = leaseTable.update(ctx, c, name, func(l *lease) error {
			l.Owner, l.Token, l.expires = owner, f.Token, at.Add(ttl)
			return nil
		})
		return err
	})
	return f, err
}

// Seize takes a lease whoever holds it: the holder's fence is void at once.
// With a zero ttl the lease is free afterwards.
func (w Writer) Seize(ctx context.Context, name, owner string, at time.Time, ttl time.Duration) (f Fence, err error) {
	err = w.in(ctx, func(c conn) error {
		_, err := c.exec(ctx, `INSERT INTO leases (name, owner, fence, expires) VALUES (?, ?, 1, ?)
			ON CONFLICT (name) DO UPDATE SET owner = excluded.owner, fence = leases.fence + 1, expires = excluded.expires`,
			name, owner, nanos(at.Add(ttl)))
		if err != nil {
			return c.d.explain(ctx, "store.lease", err, leaseTable.what(name))
		}
		l, err := leaseTable.get(ctx, c, name, "WHERE name = ?", name)
		f = l.Fence
		return err
	})
	return f, err
}

// Extend keeps a lease for another ttl. A lease that is no longer f's is a
// Conflict.
func (w Writer) Extend(ctx context.Context, f Fence, at time.Time, ttl time.Duration) error {
	return w.expire(ctx, f, at.Add(ttl))
}

// Release gives a lease back. Its number goes on counting.
func (w Writer) Release(ctx context.Context, f Fence) error { return w.expire(ctx, f, time.Time{}) }

func (w Writer) expire(ctx context.Context, f Fence, at time.Time) error {
	return w.in(ctx, func(c conn) error {
		n, err := c.exec(ctx, `UPDATE leases SET expires = ? WHERE name = ? AND owner = ? AND fence = ?`, nanos(at), f.Lease, f.Owner, f.Token)
		if err == nil && n == 0 {
			return lost(f)
		}
		return c.d.explain(ctx, "store.lease", err, leaseTable.what(f.Lease))
	})
}

// CheckFence is a Conflict unless f is the newest claim of its lease. Called
// in the transaction whose writes it protects.
func (r Reader) CheckFence(ctx context.Context, f Fence) error {
	l, err := leaseTable.get(ctx, r.q, f.Lease, "WHERE name = ?", f.Lease)
	if err != nil && !core.Is(err, core.NotFound) {
		return err
	}
	if l.Fence != f {
		return lost(f)
	}
	return nil
}

// LeaseFree says whether nobody but owner holds a lease now.
func (r Reader) LeaseFree(ctx context.Context, name, owner string, at time.Time) (bool, error) {
	l, err := leaseTable.get(ctx, r.q, name, "WHERE name = ?", name)
	if core.Is(err, core.NotFound) {
		return true, nil
	}
	return err == nil && (l.Owner == owner || !l.expires.After(at)), err
}

func lost(f Fence) error {
	return core.E("store.lease", core.Conflict, ErrLeaseLost, "lease %s number %d of %s", f.Lease, f.Token, f.Owner)
}

// ErrLeaseLost is in the chain of every refusal because of a fence.
var ErrLeaseLost = leaseLost{}

type leaseLost struct{}

func (leaseLost) Error() string { return "lease is held by a newer claim" }

// Fenced is Tx for the holder of a lease: if f is no longer the newest claim,
// nothing is written.
func (db *DB) Fenced(ctx context.Context, f Fence, fn func(*Tx) error) error {
	return db.Tx(ctx, func(tx *Tx) error {
		if err := tx.CheckFence(ctx, f); err != nil {
			return err
		}
		return fn(tx)
	})
}

// LeasesOf lists the leases whose last claim was owner's and that were not
// given back.
func (r Reader) LeasesOf(ctx context.Context, owner string) ([]Fence, error) {
	list, err := leaseTable.list(ctx, r.q, "WHERE owner = ? AND expires > 0", owner)
	out := make([]Fence, 0, len(list))
	for _, l := range list {
		out = append(out, l.Fence)
	}
	return out, err
}
