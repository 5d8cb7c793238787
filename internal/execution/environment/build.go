package environment

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"drydock/internal/core"
	"drydock/internal/execution/environment/recipe"
	"drydock/internal/execution/guest"
	"drydock/internal/execution/snapshot"
	"drydock/internal/gitcmd/mirror"
	"drydock/internal/store"
)

// Names of a build's phases, besides those of Launch.
const (
	PhaseFetch     = "fetch repository"
	PhaseRecipe    = "read recipe"
	PhaseUnchanged = "nothing changed"
	PhaseFrom      = "go on from"
	PhaseBase      = "base image"
	PhaseCheckout  = "check out"
	PhasePackages  = "packages"
	PhaseRecipeRun = "setup"
	PhaseSync      = "on_sync"
	PhaseWarm      = "warm up"
	PhaseStop      = "stop services"
	PhaseSnapshot  = "snapshot"
)

// Labels of a build's snapshot, by which an unchanged one is found.
const (
	labelBase   = "base"
	labelRecipe = "recipe"
	labelFile   = "recipe-file"
	// labelScratch is when the files below were last made from a base image.
	labelScratch = "from-scratch"
)

// buildError is a failure as people see it.
type buildError struct {
	core.Failure
	err error
}

func (e *buildError) Error() string { return e.Code + ": " + e.Message }
func (e *buildError) Unwrap() error { return e.err }

func failed(code string, err error) error {
	if err == nil {
		return nil
	}
	if _, ok := errors.AsType[*buildError](err); ok {
		return err
	}
	return &buildError{core.Failure{Code: code, Message: clip(err.Error(), 2000), Hint: core.HintOf(err)}, err}
}

// work is one build under way.
type work struct {
	b      *Builder
	id     core.BuildID
	req    BuildRequest
	env    core.Environment
	log    *buildLog
	phases []core.Phase

	mirror  *mirror.Mirror
	commit  string
	branch  string
	recipe  recipe.Recipe
	source  recipe.Source
	base    BaseImage
	machine *Machine

	before  *snapshot.Manifest // the snapshot in use, where it can be read
	daily   bool               // it is time to begin from scratch, with a fresh base
	from    *snapshot.Manifest // the snapshot that this build goes on from; nil: from scratch
	scratch time.Time          // when the files below were made from a base image
	moved   Moved
}

// run carries one build to its end, which it records.
func (b *Builder) run(ctx context.Context, j job) {
	id := j.build.ID
	_, err := b.deps.DB.UpdateBuild(ctx, id, func(build *core.Build) error {
		build.State = core.BuildRunning
		return nil
	})
	if err != nil {
		b.deps.Log.Error("a build cannot be started", "build", id, "error", err)
		return
	}
	b.event(ctx, id, core.EventBuildState, core.BuildData{State: core.BuildRunning})
	log, err := openBuildLog(b.logFile(id), b.opts.LogFile, b.opts.LogEvents, func(phase, text string) {
		b.event(context.WithoutCancel(ctx), id, core.EventLog, core.LogData{Phase: phase, Text: text})
	})
	if err != nil {
		b.finish(ctx, id, core.BuildFailed, "", &core.Failure{Code: "log_failed", Message: err.Error()})
		return
	}
	w := &work{b: b, id: id, req: j.req, log: log}
	snap, err := w.do(ctx)
	w.clear(ctx)
	log.close()
	switch cause := context.Cause(ctx); {
	case err == nil:
		b.finish(ctx, id, core.BuildDone, snap, nil)
	case errors.Is(cause, errStopped):
		b.finish(ctx, id, core.BuildStopped, "", &core.Failure{Code: "stopped", Message: "somebody asked for it to stop"})
	case ctx.Err() != nil:
		b.finish(ctx, id, core.BuildFailed, "", interrupted())
	default:
		b.finish(ctx, id, core.BuildFailed, "", w.failure(err))
	}
}

// clear removes the sandbox, if there is one.
func (w *work) clear(ctx context.Context) {
	if w.machine == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), destroyTimeout)
	defer cancel()
	if err := w.machine.Close(ctx); err != nil {
		w.b.deps.Log.Error("the sandbox of a build is not removed", "build", w.id, "sandbox", w.machine.ID(), "error", err)
	}
	w.machine = nil
}

// failure turns an error into what people see, and death by a limit into that.
func (w *work) failure(err error) *core.Failure {
	f := core.Failure{Code: "internal", Message: clip(err.Error(), 2000), Hint: core.HintOf(err)}
	if be, ok := errors.AsType[*buildError](err); ok {
		f = be.Failure
	}
	if dead, ok := errors.AsType[*DeadError](err); ok {
		f.Message = dead.Error()
		if code := dead.Reason(); code != "" {
			f.Code = code
			f.Hint = deathHint(dead.Status.Cause)
		}
	}
	if w.env.Snapshot != "" {
		f.Message += fmt.Sprintf(" (the snapshot of before, %s, stays in use)", w.env.Snapshot)
	}
	return &f
}

// phase times a part of the build and tells of it, also of one that failed.
func (w *work) phase(ctx context.Context, name string, do func(*core.Phase) error) error {
	p := core.Phase{Name: name}
	w.log.phase(name)
	start := time.Now()
	err := do(&p)
	w.log.flush()
	p.Duration = time.Since(start)
	if err != nil && p.Detail == "" {
		p.Detail = "failed"
	}
	w.report(ctx, p)
	return err
}

func (w *work) report(ctx context.Context, p core.Phase) {
	w.phases = append(w.phases, p)
	w.b.event(ctx, w.id, core.EventPhase, p)
	phases := w.phases
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), recordTimeout)
	defer cancel()
	if _, err := w.b.deps.DB.UpdateBuild(ctx, w.id, func(build *core.Build) error {
		build.Phases, build.Commit = phases, w.commit
		return nil
	}); err != nil {
		w.b.deps.Log.Error("cannot record a phase of a build", "build", w.id, "phase", p.Name, "error", err)
	}
}

func (w *work) warn(ctx context.Context, code, message string) {
	w.b.event(ctx, w.id, core.EventWarning, core.WarningData{Code: code, Message: message})
}

// do is the build. It returns the snapshot to use from now on.
func (w *work) do(ctx context.Context) (core.SnapshotID, error) {
	if err := w.fetch(ctx); err != nil {
		return "", err
	}
	w.look(ctx)
	if err := w.phase(ctx, PhaseBase, func(p *core.Phase) error { return w.baseImage(ctx, p) }); err != nil {
		return "", failed("base_failed", err)
	}
	if snap := w.unchanged(ctx); snap != "" {
		w.report(ctx, core.Phase{Name: PhaseUnchanged, Cached: true, Detail: string(snap)})
		why := w.b.deps.Launcher.MemoryUnfit(ctx, snap, &w.recipe)
		if why == nil {
			return snap, nil
		}
		w.log.line("the memory image is made again: " + why.Error())
		if err := w.remember(ctx, snap, nil); !core.Is(err, core.Conflict) {
			w.forgone(ctx, err)
			return snap, nil
		}
		// Sessions stand on the files of the old one: a new snapshot gets a new one.
	}
	w.plan(ctx)
	return w.make(ctx)
}

// make prepares a machine and takes the snapshot.
func (w *work) make(ctx context.Context) (core.SnapshotID, error) {
	if err := w.prepare(ctx); err != nil {
		return "", err
	}
	snap, err := w.freeze(ctx)
	if err != nil {
		return "", err
	}
	if !w.quick() {
		w.forgone(ctx, w.remember(ctx, snap, nil))
		return snap, nil
	}
	// Whether the services come up with what changed shows only now.
	proven := false
	err = w.remember(ctx, snap, func(ctx context.Context, m *Machine) error {
		w.machine = m
		defer func() { w.machine = nil }() // whoever made it closes it
		err := w.up(ctx)
		proven = err == nil
		return err
	})
	if err != nil && !proven {
		if ctx.Err() != nil {
			return "", err // stopped: nobody knows whether it works
		}
		w.again(ctx, err)
		return w.make(ctx)
	}
	w.forgone(ctx, err)
	return snap, nil
}

// forgone tells that services will start from the files.
func (w *work) forgone(ctx context.Context, err error) {
	if err != nil && ctx.Err() == nil {
		w.warn(ctx, WarnMemoryLost, "services will start from the files: "+err.Error())
	}
}

// remember adds the running services to the snapshot. Without them it is as
// good, only slower: the build does not fail for it.
func (w *work) remember(ctx context.Context, snap core.SnapshotID, up func(context.Context, *Machine) error) error {
	if w.machine != nil { // it holds the place of this build
		if err := w.machine.Close(ctx); err != nil {
			return err
		}
		w.machine = nil
	}
	w.log.phase(PhaseMemory)
	return w.b.deps.Launcher.TakeMemory(ctx, MemoryRequest{
		Snapshot: snap, Recipe: &w.recipe, Owner: string(w.id), Report: func(p core.Phase) { w.report(ctx, p) }, Up: up,
	})
}

// fetch brings the mirror up to date, fixes the commit and reads the recipe.
func (w *work) fetch(ctx context.Context) error {
	db := w.b.deps.DB
	build, err := db.Build(ctx, w.id)
	if err != nil {
		return err
	}
	if w.env, err = db.Environment(ctx, string(build.Environment)); err != nil {
		return err
	}
	err = w.phase(ctx, PhaseFetch, func(p *core.Phase) error {
		if w.b.deps.Refresh != nil {
			if err = w.b.deps.Refresh(ctx, w.env); err != nil {
				return err
			}
		}
		if w.mirror, err = w.b.deps.Mirror(ctx, w.env); err != nil {
			return err
		}
		if _, err = w.mirror.Sync(ctx); err != nil {
			return err
		}
		if w.branch, err = w.mirror.DefaultBranch(ctx); err != nil {
			return err
		}
		ref := w.branch
		if w.req.Ref != "" {
			ref = w.req.Ref
		}
		if w.commit, err = w.mirror.Resolve(ctx, ref); err != nil {
			return err
		}
		p.Detail = ref + " at " + clip(w.commit, 12)
		return nil
	})
	if err != nil {
		return failed("fetch_failed", err)
	}
	if err := w.seen(ctx); err != nil {
		return err
	}
	if w.env, err = db.UpdateEnvironment(ctx, w.env.ID, func(e *core.Environment) error {
		e.DefaultBranch = w.branch
		return nil
	}); err != nil {
		return err
	}
	err = w.phase(ctx, PhaseRecipe, func(p *core.Phase) error {
		w.recipe, w.source, err = ReadRecipe(ctx, w.mirror, w.commit)
		p.Detail = w.source.File
		return err
	})
	if err != nil {
		return failed("recipe_invalid", err)
	}
	if _, err := db.UpdateFreshness(ctx, w.env.ID, func(row *store.Freshness) error {
		row.Refresh, row.MaxAge = w.recipe.Refresh, w.recipe.MaxAge
		return nil
	}); err != nil {
		return err
	}
	for _, warning := range w.recipe.Warnings {
		w.warn(ctx, "recipe", warning)
	}
	return nil
}

// seen remembers where the base branch stands.
func (w *work) seen(ctx context.Context) error {
	head, err := w.mirror.Resolve(ctx, "refs/heads/"+w.branch)
	if err != nil {
		return failed("fetch_failed", err)
	}
	_, err = w.b.deps.DB.UpdateFreshness(ctx, w.env.ID, func(row *store.Freshness) error {
		if row.Head != head {
			row.Head, row.HeadSeen = head, time.Now().UTC()
		}
		return nil
	})
	return err
}

func (w *work) baseImage(ctx context.Context, p *core.Phase) error {
	var err error
	w.base, err = w.b.deps.Base(ctx, BaseRequest{
		Base: w.recipe.Base, Packages: w.recipe.Packages, Fresh: w.req.Fresh, Since: w.baseSince(),
		Progress: func(line string) { w.log.line(line) },
	})
	p.Cached, p.Detail = w.base.Cached, w.recipe.Base
	return err
}

// unchanged finds the snapshot that this build would make again.
func (w *work) unchanged(ctx context.Context) core.SnapshotID {
	m := w.before
	if w.req.Fresh || w.daily || m == nil || m.Commit != w.commit || m.Labels[labelBase] != w.base.Digest || m.Labels[labelRecipe] != w.recipe.BuildDigest() {
		return ""
	}
	_, release, err := w.b.deps.Snapshots.Acquire(ctx, w.env.Snapshot)
	if err != nil {
		w.warn(ctx, "snapshot_missing", err.Error())
		return ""
	}
	release()
	return w.env.Snapshot
}

func (w *work) launch(ctx context.Context) error {
	var layers []snapshot.Layer
	for _, dir := range w.base.Layers {
		layers = append(layers, snapshot.Layer{Base: w.base.Digest, Path: dir})
	}
	w.log.phase(PhaseSandbox)
	req := LaunchRequest{
		Base: layers, Image: w.base.Image, Purpose: PurposeBuild, Owner: string(w.id), Policy: &w.recipe.BuildNetwork,
		Limits: w.recipe.Limits, Recipe: &w.recipe, Report: func(p core.Phase) { w.report(ctx, p) },
	}
	if w.from != nil {
		// The services are to find the tree as it is after the checkout.
		req.Snapshot, req.Base, req.Image, req.FilesOnly = w.from.ID, nil, snapshot.Image{}, true
	}
	var err error
	w.machine, err = w.b.deps.Launcher.Launch(ctx, req)
	return err
}

func (w *work) checkout(ctx context.Context) error {
	c := Checkout{Commit: w.commit, Branch: w.branch, Base: w.branch}
	if w.from != nil {
		// What setup left beside git is as good as what it installed.
		c.Have, c.KeepNew = []string{w.from.Commit}, true
	}
	return w.machine.CheckoutMirror(ctx, w.mirror, c)
}

// install starts a sandbox and runs everything that the recipe asks for.
func (w *work) install(ctx context.Context) error {
	if err := w.launch(ctx); err != nil {
		return failed("start_failed", err)
	}
	if !w.base.Installed && w.from == nil {
		if err := w.phase(ctx, PhasePackages, func(p *core.Phase) error {
			p.Detail = strings.Join(w.recipe.Packages, " ")
			return w.command(ctx, "packages_failed", guest.Command{
				Argv: append([]string{"sh", "-e", "-c", installPackages, "install"}, w.recipe.Packages...), Dir: "/",
				Timeout: w.b.opts.SetupTimeout, Merge: true,
			}, "install git "+strings.Join(w.recipe.Packages, " "))
		}); err != nil {
			return err
		}
	}
	if err := w.phase(ctx, PhaseCheckout, func(*core.Phase) error { return w.checkout(ctx) }); err != nil {
		return failed("checkout_failed", w.machine.Explain(ctx, err))
	}
	if err := w.setup(ctx); err != nil {
		return err
	}
	if w.quick() {
		return nil
	}
	return w.up(ctx)
}

// up starts the services and warms them up.
func (w *work) up(ctx context.Context) error {
	if len(w.recipe.Services) > 0 {
		if err := w.phase(ctx, PhaseServices, func(p *core.Phase) error { return w.services(ctx, p) }); err != nil {
			return err
		}
	}
	if w.recipe.Warm != nil {
		step := *w.recipe.Warm
		if err := w.phase(ctx, PhaseWarm, func(*core.Phase) error { return w.step(ctx, "warm_failed", step) }); err != nil {
			return err
		}
	}
	return nil
}

// installPackages adds what an image from elsewhere lacks: git, always, since
// the work comes out through it, and the recipe's packages, which are $@.
const installPackages = `
command -v git >/dev/null 2>&1 || set -- git "$@"
[ $# -gt 0 ] || exit 0
if command -v apt-get >/dev/null 2>&1; then
	export DEBIAN_FRONTEND=noninteractive
	apt-get -o APT::Sandbox::User=root update -q
	apt-get -o APT::Sandbox::User=root install -y -q --no-install-recommends "$@"
elif command -v apk >/dev/null 2>&1; then apk add --no-cache "$@"
elif command -v microdnf >/dev/null 2>&1; then microdnf install -y "$@"
elif command -v dnf >/dev/null 2>&1; then dnf install -y "$@"
elif command -v yum >/dev/null 2>&1; then yum install -y "$@"
elif command -v zypper >/dev/null 2>&1; then zypper --non-interactive install "$@"
elif command -v pacman >/dev/null 2>&1; then pacman -Sy --noconfirm "$@"
else
	echo "this image has no package manager that is known here; it needs: $*" >&2
	exit 1
fi
`

func (w *work) services(ctx context.Context, p *core.Phase) error {
	states, err := w.machine.StartServices(ctx)
	for _, s := range states {
		w.b.event(ctx, w.id, core.EventService, core.ServiceData{Service: s.Name, State: s.State, Detail: clip(s.Detail, 500)})
	}
	p.Detail = strings.Join(serviceNames(w.recipe), ", ")
	return w.serviceFailed(err)
}

// serviceFailed tells how a service broke that was to become ready.
func (w *work) serviceFailed(err error) error {
	svc, ok := errors.AsType[*ServiceError](err)
	if !ok {
		return failed("service_failed", err)
	}
	f := core.Failure{Code: "service_failed", Message: svc.Error(), Output: svc.Output}
	for _, s := range w.recipe.Services {
		if s.Name == svc.Service {
			f.Command = s.Run
			f.Hint = "its readiness is checked by: " + s.Ready
		}
	}
	w.log.text(svc.Output + "\n")
	return &buildError{f, err}
}

func (w *work) step(ctx context.Context, code string, step recipe.Step) error {
	shown := strings.Join(step.Argv, " ")
	if step.Run != "" {
		shown = step.Run
	}
	return w.command(ctx, code, w.machine.stepCommand(step, w.b.opts.SetupTimeout), shown)
}

// command runs a command to its end; all it prints goes to the log. The error
// names the command, how it ended, and the end of its output.
func (w *work) command(ctx context.Context, code string, cmd guest.Command, shown string) error {
	end, tail, err := w.machine.Stream(ctx, cmd, w.log)
	if err != nil {
		return failed(code, w.machine.Explain(ctx, err))
	}
	if end.ExitCode == 0 {
		return nil
	}
	f := core.Failure{Code: code, Command: shown, Output: tail}
	switch {
	case end.TimedOut:
		f.Message = fmt.Sprintf("the command was ended after %s", cmd.Timeout)
		f.Hint = "give it a longer timeout, or find out what it waits for"
	case end.Signal != "":
		f.Message = "the command was ended by signal " + end.Signal
		return &buildError{f, w.machine.Dying(ctx, end)}
	default:
		f.Message = fmt.Sprintf("the command ended with exit code %d", end.ExitCode)
	}
	return &buildError{Failure: f}
}

// freeze leaves a clean checkout, ends everything and takes the snapshot.
func (w *work) freeze(ctx context.Context) (core.SnapshotID, error) {
	err := w.phase(ctx, PhaseStop, func(*core.Phase) error {
		if err := w.machine.StopServices(ctx); err != nil {
			return err
		}
		return w.machine.settle(ctx)
	})
	if err != nil {
		return "", failed("snapshot_failed", w.machine.Explain(ctx, err))
	}
	var snap core.Snapshot
	err = w.phase(ctx, PhaseSnapshot, func(p *core.Phase) (err error) {
		snap, err = w.machine.Freeze(ctx, snapshot.Draft{
			Environment: w.env.ID, Build: w.id, Commit: w.commit,
			Labels: map[string]string{
				labelBase: w.base.Digest, labelRecipe: w.recipe.BuildDigest(), labelFile: w.source.File,
				labelScratch: w.scratch.UTC().Format(time.RFC3339Nano),
			},
		}, FreezeOptions{})
		p.Detail = string(snap.ID)
		return err
	})
	return snap.ID, failed("snapshot_failed", err)
}
