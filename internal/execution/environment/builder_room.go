package environment

import (
	"context"
	"time"

	"drydock/internal/core"
)

// roomPoll is how often a queue that waits for room looks again.
const roomPoll = 2 * time.Second

// room says whether the host has room for a build. If not, every queued build
// is told why, once, and the queue is looked at again later.
// It is called with the lock.
func (b *Builder) room(ctx context.Context) bool {
	if b.deps.Room == nil {
		return true
	}
	ok, why := b.deps.Room(ctx)
	if ok {
		return true
	}
	for i, j := range b.queue {
		if j.told {
			continue
		}
		b.queue[i].told = true
		b.event(ctx, j.build.ID, core.EventWarning, core.WarningData{Code: "waits_for_room", Message: "the build waits for " + why, Hint: "it starts by itself when there is room; see `drydock capacity`"})
	}
	if b.waits {
		return false
	}
	b.waits = true
	b.wg.Go(func() {
		timer := time.NewTimer(roomPoll)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-b.ended:
		}
		b.mu.Lock()
		b.waits = false
		b.mu.Unlock()
		b.pump(ctx)
	})
	return false
}
