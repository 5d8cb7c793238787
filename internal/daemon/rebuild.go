package daemon

import (
	"context"
	"time"

	"drydock/internal/core"
	"drydock/internal/execution/environment"
)

const rebuildPoll = 250 * time.Millisecond

// rebuild builds an environment whose snapshot is damaged, and waits for it. A
// session is waiting: it is told by the build's events, and by its own.
func (d *Daemon) rebuild(ctx context.Context, id core.EnvironmentID, why string) (core.SnapshotID, error) {
	const op = "daemon.rebuild"
	env, err := d.builder.Get(ctx, string(id))
	if err != nil {
		return "", err
	}
	d.log.Warn("an environment is built again, because its snapshot is damaged", "environment", env.Name, "snapshot", env.Snapshot, "error", why)
	build, err := d.builder.Build(ctx, environment.BuildRequest{Name: env.Name, By: core.Author{Handle: "platform", Name: "Drydock", Email: "drydock@localhost"}})
	if err != nil {
		return "", err
	}
	tick := time.NewTicker(rebuildPoll)
	defer tick.Stop()
	for {
		build, err = d.builder.GetBuild(ctx, build.ID)
		switch {
		case err != nil:
			return "", err
		case build.State == core.BuildDone:
			return build.Snapshot, nil
		case core.BuildTable.Final(build.State):
			message := "it was stopped"
			if build.Failure != nil {
				message = build.Failure.Message
			}
			return "", core.E(op, core.Unavailable, nil, "build %s of environment %s: %s", build.ID, env.Name, message).
				WithHint("see drydock env show %s", env.Name)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return "", core.E(op, core.KindOf(ctx.Err()), context.Cause(ctx), "build %s goes on", build.ID)
		}
	}
}
