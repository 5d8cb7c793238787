package cli

import (
	"testing"

	"drydock/internal/core"
)

func TestWhatAQueuedSessionWaitsFor(t *testing.T) {
	for _, c := range []struct {
		state        core.SessionState
		reason, want string
	}{
		{core.SessionQueued, "waits for a runner: place 3 of 7; 4 sessions run (limit 4)", "a runner: place 3 of 7; 4 sessions run (limit 4)"},
		{core.SessionQueued, "done: waits for review; the next prompt waits for memory: needs 256 MiB", "memory: needs 256 MiB"},
		{core.SessionQueued, "goes on, Ana answered", ""},
		{core.SessionIdle, "done: it waits for review", ""},
	} {
		if got := waitsFor(core.Session{State: c.state, Reason: c.reason}); got != c.want {
			t.Errorf("%s: %q, want %q", c.reason, got, c.want)
		}
	}
}
