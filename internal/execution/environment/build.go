package environment

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"

	"drydock/internal/core"
	"drydock/internal/execution/environment/recipe"
	"drydock/internal/execution/guest"
	"drydock/internal/execution/image"
	"drydock/internal/execution/snapshot"
	"drydock/internal/gitcmd/mirror"
)

// buildRun is one execution of a recipe.
type buildRun struct {
	b      *Builder
	env    core.Environment
	build  core.Build
	req    BuildRequest
	log    *buildLog
	phases []core.Phase

	repo    *mirror.Mirror
	recipe  recipe.Recipe
	image   image.Image
	machine *Machine
}

func asFailure(err error, out **FailureError) bool { return errors.As(err, out) }

// phase runs a named part, timed and told.
func (r *buildRun) phase(ctx context.Context, name string, work func() (detail string, cached bool, err error)) error {
	start := time.Now()
	r.log.phase(name)
	detail, cached, err := work()
	p := core.Phase{Name: name, Duration: time.Since(start), Cached: cached, Detail: detail}
	if err != nil {
		p.Detail = "failed"
	}
	r.phases = append(r.phases, p)
	if _, saveErr := r.b.d.DB.UpdateBuild(context.WithoutCancel(ctx), r.build.ID, func(row *core.Build) error {
		row.Phases = r.phases
		return nil
	}); saveErr != nil && err == nil {
		err = saveErr
	}
	r.log.event(core.NewEvent(core.EventPhase, p))
	return err
}

func (r *buildRun) execute(ctx context.Context) (core.Snapshot, error) {
	if _, err := r.b.d.DB.UpdateBuild(ctx, r.build.ID, func(row *core.Build) error { row.State = core.BuildRunning; return nil }); err != nil {
		return core.Snapshot{}, err
	}
	r.log.event(core.NewEvent(core.EventBuildState, core.BuildData{State: core.BuildRunning}))
	commit, err := r.fetch(ctx)
	if err != nil {
		return core.Snapshot{}, err
	}
	if err := r.phase(ctx, "base", func() (string, bool, error) {
		start := time.Now()
		r.image, err = r.b.d.Images.Ensure(ctx, image.Request{Base: r.recipe.Base, Packages: r.basePackages(), Progress: r.log.line})
		return r.recipe.Base, time.Since(start) < time.Second, err
	}); err != nil {
		return core.Snapshot{}, err
	}
	key := r.key(commit)
	if snap, ok := r.unchanged(ctx, key); ok {
		r.log.line("nothing changed since snapshot " + string(snap.ID))
		return snap, nil
	}
	if err := r.start(ctx, commit); err != nil {
		return core.Snapshot{}, err
	}
	if err := r.prepare(ctx); err != nil {
		return core.Snapshot{}, err
	}
	var snap core.Snapshot
	err = r.phase(ctx, "snapshot", func() (string, bool, error) {
		if err := r.machine.Settle(ctx); err != nil {
			return "", false, err
		}
		if err := r.machine.Quiesce(ctx); err != nil {
			return "", false, err
		}
		base := make([]snapshot.Layer, 0, len(r.image.Layers))
		for _, dir := range r.image.Layers {
			base = append(base, snapshot.Layer{Base: r.image.Digest, Path: dir})
		}
		snap, err = r.machine.Freeze(ctx, snapshot.Draft{
			Base: base, Environment: r.env.ID, Build: r.build.ID, Commit: commit, Runtime: snapshot.Runtime{Init: r.b.opts.InitVersion},
			Labels: map[string]string{
				LabelKey: key, LabelRecipe: r.recipe.Digest(), LabelBase: r.image.Digest, LabelOS: r.image.OS.ID, LabelCodename: r.image.OS.Codename, LabelEnv: strings.Join(r.image.Env, "\n"),
			},
		})
		return fmt.Sprintf("%s, %d MiB above the base", snap.ID, snap.Bytes>>20), false, err
	})
	return snap, err
}

// fetch brings the mirror up to date and reads the recipe at the commit.
func (r *buildRun) fetch(ctx context.Context) (commit string, err error) {
	return commit, r.phase(ctx, "fetch", func() (string, bool, error) {
		if _, err := r.b.d.Repositories.Import(ctx, r.env.Name, r.env.Source); err != nil {
			return "", false, err
		}
		if r.repo, err = r.b.d.Repositories.Mirror(ctx, r.env); err != nil {
			return "", false, err
		}
		synced, err := r.repo.Sync(ctx)
		if err != nil {
			return "", false, err
		}
		ref := r.req.Ref
		if ref == "" {
			ref = synced.DefaultBranch
		}
		if ref == "" {
			return "", false, core.E("environment.build", core.Invalid, nil, "repository %s has no commit", r.env.Source)
		}
		if commit, err = r.repo.Resolve(ctx, ref); err != nil {
			return "", false, err
		}
		r.recipe, err = ReadRecipe(ctx, r.repo, commit)
		if err != nil {
			return "", false, err
		}
		for _, w := range r.recipe.Warnings {
			r.log.event(core.NewEvent(core.EventWarning, core.WarningData{Code: "recipe", Message: w}))
		}
		if _, err := r.b.d.DB.UpdateBuild(ctx, r.build.ID, func(row *core.Build) error { row.Commit = commit; return nil }); err != nil {
			return "", false, err
		}
		if r.env.DefaultBranch != synced.DefaultBranch {
			r.env, err = r.b.d.DB.UpdateEnvironment(ctx, r.env.ID, func(e *core.Environment) error {
				e.DefaultBranch = synced.DefaultBranch
				return nil
			})
		}
		return fmt.Sprintf("%s at %.12s", ref, commit), !synced.Changed, err
	})
}

// ReadRecipe reads the recipe of a commit from the mirror.
func ReadRecipe(ctx context.Context, repo *mirror.Mirror, commit string) (recipe.Recipe, error) {
	got, _, err := recipe.Detect(ctx, func(path string) ([]byte, error) {
		data, _, err := repo.ShowFile(ctx, commit, path, 1<<20)
		return data, err
	})
	return got, err
}

const debianBase = "debian:"

// basePackages are those that are part of the base image; other bases get
// theirs inside the sandbox.
func (r *buildRun) basePackages() []string {
	if strings.HasPrefix(r.recipe.Base, debianBase) {
		return r.recipe.Packages
	}
	return nil
}

// installPackages adds what an image from elsewhere lacks: git, always, since
// the work comes out through it, and the recipe's packages.
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
else
	echo "this image has no package manager that is known here; it needs: $*" >&2
	exit 1
fi
`

// key names everything that the result depends on.
func (r *buildRun) key(commit string) string {
	h := sha256.New()
	for _, part := range []string{"1", r.image.Digest, r.recipe.BuildDigest(), commit, r.b.opts.InitVersion} {
		fmt.Fprintf(h, "%d:%s\n", len(part), part)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// unchanged finds the environment's snapshot if it was made from the same key.
func (r *buildRun) unchanged(ctx context.Context, key string) (core.Snapshot, bool) {
	if r.req.Fresh || r.env.Snapshot == "" {
		return core.Snapshot{}, false
	}
	manifest, err := r.b.d.Snapshots.Get(ctx, r.env.Snapshot)
	if err != nil || manifest.Labels[LabelKey] != key {
		return core.Snapshot{}, false
	}
	snap, err := r.b.d.DB.Snapshot(ctx, r.env.Snapshot)
	return snap, err == nil
}

// start makes the sandbox and puts the commit into it.
func (r *buildRun) start(ctx context.Context, commit string) error {
	if err := r.phase(ctx, "sandbox", func() (string, bool, error) {
		limits := r.recipe.Limits
		policy := r.recipe.BuildNetwork
		var err error
		r.machine, err = r.b.d.Launcher.Launch(ctx, LaunchRequest{
			Layers: r.image.Layers, Purpose: "build", Owner: string(r.build.ID), OS: Distribution{r.image.OS.ID, r.image.OS.Codename},
			Env: append(append([]string{}, r.image.Env...), r.recipe.Environ()...), Policy: &policy, Limits: limits, Services: r.recipe.GuestServices(),
			SkipServices: true,
		})
		return "", false, err
	}); err != nil {
		return err
	}
	if !strings.HasPrefix(r.recipe.Base, debianBase) {
		if err := r.phase(ctx, "packages", func() (string, bool, error) {
			argv := append([]string{"/bin/sh", "-e", "-c", installPackages, "install"}, r.recipe.Packages...)
			return strings.Join(r.recipe.Packages, " "), false, r.exec(ctx, "packages_failed", argv, "/", "", 30*time.Minute)
		}); err != nil {
			return err
		}
	}
	return r.phase(ctx, "checkout", func() (string, bool, error) {
		branch := r.env.DefaultBranch
		if branch == "" {
			branch = "main"
		}
		return "", false, r.machine.PutRepository(ctx, r.repo, commit, branch, nil, false)
	})
}

// prepare runs set-up, services and warm-up.
func (r *buildRun) prepare(ctx context.Context) error {
	for i, s := range r.recipe.Setup {
		name := "setup"
		if len(r.recipe.Setup) > 1 {
			name = fmt.Sprintf("setup %d/%d", i+1, len(r.recipe.Setup))
		}
		if err := r.phase(ctx, name, func() (string, bool, error) { return s.Name, false, r.step(ctx, "setup_failed", s) }); err != nil {
			return err
		}
	}
	if len(r.recipe.Services) > 0 {
		if err := r.phase(ctx, "services", func() (string, bool, error) {
			return serviceNames(r.recipe.GuestServices()), false, r.machine.StartServices(ctx)
		}); err != nil {
			return err
		}
	}
	if r.recipe.Warm != nil {
		return r.phase(ctx, "warm", func() (string, bool, error) { return "", false, r.step(ctx, "warm_failed", *r.recipe.Warm) })
	}
	return nil
}

const defaultStepTimeout = 30 * time.Minute

func (r *buildRun) step(ctx context.Context, code string, s recipe.Step) error {
	timeout := s.Timeout
	if timeout == 0 {
		timeout = defaultStepTimeout
	}
	argv := s.Argv
	if len(argv) == 0 {
		argv = []string{"/bin/sh", "-e", "-c", s.Run}
	}
	return r.exec(ctx, code, argv, r.recipe.Path(s.Dir), r.recipe.User, timeout)
}

// exec runs a command of the recipe with its output going to the log. The
// error names the command, its exit code and the end of its output.
func (r *buildRun) exec(ctx context.Context, code string, argv []string, dir, user string, timeout time.Duration) error {
	shown := strings.Join(argv, " ")
	if len(argv) > 3 && argv[0] == "/bin/sh" {
		shown = argv[3]
	}
	if code == "packages_failed" {
		shown = "install " + strings.Join(argv[5:], " ")
	}
	g := r.machine.Guest()
	p, err := g.Start(ctx, guest.Command{Argv: argv, Dir: dir, User: user, Timeout: timeout, Merge: true})
	if err != nil {
		return r.machine.died(ctx, err)
	}
	out, err := g.Output(ctx, p.ID, guest.Stdout, 0, true)
	if err != nil {
		return r.machine.died(ctx, err)
	}
	tail := r.log.copy(out)
	_ = out.Close()
	p, err = g.Wait(ctx, p.ID)
	if err != nil {
		return r.machine.died(ctx, err)
	}
	if p.ExitCode == 0 {
		return nil
	}
	f := core.Failure{Code: code, Command: shown, Output: tail, Message: fmt.Sprintf("a command of the recipe ended with exit code %d", p.ExitCode)}
	if p.TimedOut {
		f.Message = fmt.Sprintf("a command of the recipe took longer than %s", timeout)
	}
	return &FailureError{f}
}

func (r *buildRun) cleanUp(ctx context.Context) {
	if r.machine == nil {
		return
	}
	if err := r.machine.Close(ctx); err != nil {
		r.b.d.Log.Warn("the sandbox of a build could not be removed", "build", r.build.ID, "sandbox", r.machine.ID(), "err", err)
	}
}
