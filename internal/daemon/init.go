package daemon

import (
	"context"
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
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, path, guest.MarkFlag)
	cmd.Env = []string{} // without a token an old one does nothing but complain
	cmd.WaitDelay = time.Second
	out, err := cmd.Output()
	if err != nil {
		if _, statErr := os.Stat(path); statErr != nil {
			return core.E(op, core.NotFound, statErr, "drydock-init").WithHint("run `make build`, which makes it, or name it in the configuration (init)")
		}
	}
	if err == nil && strings.TrimSpace(string(out)) == guest.Mark() {
		return nil
	}
	self, selfErr := os.Executable()
	if selfErr != nil {
		self = "drydock"
	}
	return core.E(op, core.Conflict, err, "%s and %s were not built together", path, self).
		WithHint("run `make build`, which makes both, or name the drydock-init that belongs to this drydock in the configuration (init)")
}
