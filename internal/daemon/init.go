package daemon

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"strings"
	"time"

	"drydock/internal/core"
	"drydock/internal/execution/guest"
)

// CheckInit is nil when the drydock-init at a path was built with this
// program, so that the two understand each other.
func CheckInit(ctx context.Context, path string) error {
	const op = "daemon.init"
	ctx, cancel := context.WithTimeout(ctx, time.Minute) // a cold disk is slow
	defer cancel()
	cmd := exec.CommandContext(ctx, path, guest.MarkFlag)
	cmd.Env = []string{} // without a token an old one does nothing but complain
	cmd.WaitDelay = time.Second
	out, err := cmd.Output()
	if err == nil && strings.TrimSpace(string(out)) == guest.Mark() {
		return nil
	}
	if exit, ran := errors.AsType[*exec.ExitError](err); err != nil && (!ran || !exit.Exited()) {
		if _, statErr := os.Stat(path); errors.Is(statErr, fs.ErrNotExist) {
			return core.E(op, core.NotFound, statErr, "drydock-init").WithHint("run `make build`, which makes it, or name it in the configuration (init)")
		}
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return core.E(op, core.Unavailable, err, "%s could not be asked what it was built with", path).
			WithHint("it must be a program that this machine can run; try: %s %s", path, guest.MarkFlag)
	}
	self, selfErr := os.Executable()
	if selfErr != nil {
		self = "drydock"
	}
	return core.E(op, core.Conflict, err, "%s and %s were not built together", path, self).
		WithHint("run `make build`, which makes both, or name the drydock-init that belongs to this drydock in the configuration (init)")
}
