package netjail

import (
	"sync"

	"drydock/internal/core"
)

// keyed is one lock for each sandbox, made when needed.
type keyed struct {
	mu    sync.Mutex
	locks map[core.SandboxID]*keyedLock
}

type keyedLock struct {
	mu    sync.Mutex
	users int
}

// lock waits for its turn and returns the unlock.
func (k *keyed) lock(id core.SandboxID) func() {
	k.mu.Lock()
	if k.locks == nil {
		k.locks = map[core.SandboxID]*keyedLock{}
	}
	l := k.locks[id]
	if l == nil {
		l = &keyedLock{}
		k.locks[id] = l
	}
	l.users++
	k.mu.Unlock()
	l.mu.Lock()
	return func() {
		l.mu.Unlock()
		k.mu.Lock()
		if l.users--; l.users == 0 {
			delete(k.locks, id)
		}
		k.mu.Unlock()
	}
}
