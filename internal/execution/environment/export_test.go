package environment

import (
	"testing"
	"time"

	"drydock/internal/core"
	"drydock/internal/store"
)

// Judge is judge.
var Judge = judge

// Replan is what the end of a build of the base branch writes.
func Replan(row *store.Freshness, b core.Build, state core.BuildState, failure *core.Failure) {
	replan(row, ended{build: b, state: state, failure: failure, counted: true}, time.Now().UTC())
}

// Finished plays the good end of a build that was asked for at a moment.
func (b *Builder) Finished(t *testing.T, env core.EnvironmentID, snap core.SnapshotID, asked time.Time) {
	t.Helper()
	build := core.Build{ID: core.NewBuildID(), Environment: env, State: core.BuildRunning, Created: asked}
	if err := b.deps.DB.CreateBuild(t.Context(), build); err != nil {
		t.Fatal(err)
	}
	b.finish(t.Context(), build.ID, core.BuildDone, snap, nil)
}

// ParseView is parseView.
func ParseView(out string) (commit string, fresh []string, ok bool) {
	v, ok := parseView(out)
	return v.commit, v.fresh, ok
}
