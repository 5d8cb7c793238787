package environment

import (
	"context"
	"errors"
	"fmt"
	"time"

	"drydock/internal/core"
	"drydock/internal/execution/environment/recipe"
	"drydock/internal/execution/snapshot"
)

const (
	// scratchEvery is how long snapshots are built upon each other: what setup
	// would install today is not what it installed then, and an error in what is
	// left out does not live longer.
	scratchEvery = 24 * time.Hour
	// maxOwnLayers bounds how many layers lie on each other above a base image. A
	// store that merges layers in the background makes this moot.
	maxOwnLayers = 12
)

// look reads the snapshot in use, and whether it is time for a new beginning.
func (w *work) look(ctx context.Context) {
	if w.env.Snapshot == "" {
		return
	}
	m, err := w.b.deps.Snapshots.Get(ctx, w.env.Snapshot)
	if err != nil {
		w.warn(ctx, "snapshot_missing", err.Error())
		return
	}
	w.before = &m
	age := time.Since(scratchTime(m))
	// Somebody who asks for a build of what is built already is not made to wait.
	w.daily = (age >= scratchEvery || age < -time.Hour) && (w.req.Why != "" || m.Commit != w.commit)
	if w.req.Why == WhyOld { // whatever bound it is that it is too old for
		w.daily = true
	}
}

// scratchTime is when the files of a snapshot were made from a base image.
func scratchTime(m snapshot.Manifest) time.Time {
	if at, err := time.Parse(time.RFC3339Nano, m.Labels[labelScratch]); err == nil {
		return at
	}
	return m.Created // older than the label: always from scratch
}

// baseSince is how old a base image may be; many environments that share one
// do not make it anew one after the other.
func (w *work) baseSince() time.Time {
	if !w.daily {
		return time.Time{}
	}
	return time.Now().Add(-scratchEvery / 2)
}

// plan decides what the build goes on from, and tells why.
func (w *work) plan(ctx context.Context) {
	w.scratch = time.Now()
	if w.env.Snapshot == "" {
		return
	}
	why := w.scratchWhy(ctx)
	if why != "" {
		w.report(ctx, core.Phase{Name: PhaseFrom, Detail: "base image: " + why})
		return
	}
	w.from, w.scratch = w.before, scratchTime(*w.before)
	w.report(ctx, core.Phase{Name: PhaseFrom, Cached: true, Detail: fmt.Sprintf("%s at %s", w.from.ID, clip(w.from.Commit, 12))})
}

// scratchWhy says why a build cannot go on from the snapshot in use; "" when it
// can.
func (w *work) scratchWhy(ctx context.Context) string {
	m := w.before
	switch {
	case w.req.Fresh:
		return "asked for"
	case m == nil:
		return "the snapshot cannot be read"
	case m.Labels[labelBase] != w.base.Digest:
		return "it has changed"
	case m.Labels[labelRecipe] != w.recipe.BuildDigest():
		return "the recipe has changed"
	case w.daily:
		return "once a day"
	case ownLayers(*m) >= maxOwnLayers:
		return fmt.Sprintf("%d layers lie on each other", maxOwnLayers)
	}
	changed, err := w.mirror.ChangedFiles(ctx, m.Commit, w.commit)
	if err != nil {
		return fmt.Sprintf("what changed since %s is not known", clip(m.Commit, 12))
	}
	w.moved = AfterMove(w.recipe, changed, true)
	return ""
}

func ownLayers(m snapshot.Manifest) int {
	n := 0
	for _, l := range m.Layers {
		if l.Snapshot != "" {
			n++
		}
	}
	return n
}

// prepare makes the machine that is to be frozen. What breaks on top of an
// earlier snapshot is tried once more from scratch: the fault may be in what
// was left out.
func (w *work) prepare(ctx context.Context) error {
	err := w.install(ctx)
	_, dead := errors.AsType[*DeadError](err)
	if err == nil || w.from == nil || dead || ctx.Err() != nil {
		return err
	}
	w.again(ctx, err)
	return w.install(ctx)
}

// again forgets the snapshot that something failed on top of.
func (w *work) again(ctx context.Context, err error) {
	w.warn(ctx, "incremental_failed", fmt.Sprintf("%s, on top of snapshot %s; once more from the base image", clip(err.Error(), 1000), w.from.ID))
	w.clear(ctx)
	w.from, w.scratch = nil, time.Now()
	w.report(ctx, core.Phase{Name: PhaseFrom, Detail: "base image: it failed on top of the snapshot before"})
}

// quick says whether only files changed that nothing has to be run for. The
// services are started once then, for the memory image, and not before. A
// warm-up may leave files that belong to the commit, and needs services.
func (w *work) quick() bool {
	return w.from != nil && len(w.moved.Steps) == 0 && len(w.recipe.Services) > 0 && w.recipe.Warm == nil && w.b.deps.Launcher.deps.Driver.Capabilities().Memory
}

// setup runs the recipe's setup or, on top of an earlier snapshot, what has to
// be run of it.
func (w *work) setup(ctx context.Context) error {
	if w.from == nil {
		for i, step := range w.recipe.Setup {
			name := PhaseRecipeRun
			if step.Name != "" && len(w.recipe.Setup) > 1 {
				name = fmt.Sprintf("%s: %s", PhaseRecipeRun, step.Name)
			} else if len(w.recipe.Setup) > 1 {
				name = fmt.Sprintf("%s %d", PhaseRecipeRun, i+1)
			}
			if err := w.phase(ctx, name, func(*core.Phase) error { return w.step(ctx, "setup_failed", step) }); err != nil {
				return err
			}
		}
		return nil
	}
	name, code := PhaseRecipeRun, "setup_failed"
	if len(w.recipe.OnSync) > 0 {
		name, code = PhaseSync, "on_sync_failed"
	}
	if len(w.moved.Steps) == 0 {
		if len(w.recipe.Setup)+len(w.recipe.OnSync) > 0 {
			w.report(ctx, core.Phase{Name: name, Cached: true, Detail: w.moved.Why})
		}
		return nil
	}
	return w.phase(ctx, name, func(p *core.Phase) error {
		p.Detail = w.moved.Why
		var stepErr error
		err := w.machine.sync(ctx, w.moved.Steps, func(ctx context.Context, step recipe.Step) error {
			stepErr = w.step(ctx, code, step)
			return stepErr
		})
		if err != nil && stepErr == nil {
			return w.serviceFailed(err)
		}
		return err
	})
}
