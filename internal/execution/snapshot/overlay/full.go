package overlay

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"drydock/internal/core"
)

// trouble is core.E for what could not be written. A full disk is said as such:
// what was frozen stays where it is, and the same call finishes once there is
// room.
func trouble(op string, kind core.Kind, err error, format string, args ...any) *core.Error {
	if !errors.Is(err, unix.ENOSPC) && !errors.Is(err, unix.EDQUOT) {
		return core.E(op, kind, err, format, args...)
	}
	return core.E(op, core.Exhausted, err, "the disk is full: %s", fmt.Sprintf(format, args...)).
		WithHint("nothing is lost: make room (`drydock snapshot gc`, or remove other files), then it can be done again")
}
