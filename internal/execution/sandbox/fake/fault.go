package fake

import (
	"context"
	"errors"
	"sync"
)

// Op is an operation that can be made to fail.
type Op string

// The operations of a driver.
const (
	Create  Op = "create"
	Recover Op = "recover"
	Status  Op = "status"
	Dial    Op = "dial"
	Freeze  Op = "freeze"
	Destroy Op = "destroy"
	List    Op = "list"
	Fits    Op = "fits"
	Assign  Op = "assign"
	Rest    Op = "rest"
	Notice  Op = "notice" // of the end of a sandbox, by the driver: only a Hang has an effect
)

// ErrDaemonDies as the Err of a fault leaves things as they are at that
// moment, as if the daemon had been killed.
var ErrDaemonDies = errors.New("the daemon dies here")

// Fault says what happens instead of, or after, an operation.
type Fault struct {
	Err   error
	Hang  bool          // until ctx ends, or Until is closed
	Until chan struct{} // with Hang
	After bool          // the work is done first
	Times int           // how often; 0 means until it is cleared
}

// Faults holds at most one fault for each operation.
type Faults struct {
	mu    sync.Mutex
	next  map[Op]Fault
	count map[Op]int
}

// Set arms a fault.
func (f *Faults) Set(op Op, fault Fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.next == nil {
		f.next = map[Op]Fault{}
	}
	f.next[op] = fault
}

// Clear disarms all.
func (f *Faults) Clear() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.next = nil
}

// Count says how often an operation was asked for.
func (f *Faults) Count(op Op) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.count[op]
}

func (f *Faults) before(ctx context.Context, op Op) error {
	f.mu.Lock()
	if f.count == nil {
		f.count = map[Op]int{}
	}
	f.count[op]++
	f.mu.Unlock()
	return f.strike(ctx, op, false)
}

func (f *Faults) after(ctx context.Context, op Op) error { return f.strike(ctx, op, true) }

func (f *Faults) strike(ctx context.Context, op Op, after bool) error {
	f.mu.Lock()
	fault, ok := f.next[op]
	if !ok || fault.After != after {
		f.mu.Unlock()
		return ctx.Err()
	}
	if fault.Times > 0 {
		if fault.Times--; fault.Times == 0 {
			delete(f.next, op)
		} else {
			f.next[op] = fault
		}
	}
	f.mu.Unlock()
	if fault.Hang {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-fault.Until:
		}
	}
	return fault.Err
}
