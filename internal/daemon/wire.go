package daemon

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"drydock/internal/containment"
	"drydock/internal/containment/registries"
	"drydock/internal/control/blueprint"
	"drydock/internal/control/codechange"
	"drydock/internal/control/proving"
	"drydock/internal/control/review"
	"drydock/internal/control/selection"
	"drydock/internal/control/session"
	"drydock/internal/control/workspace"
	"drydock/internal/core"
	"drydock/internal/delivery/change"
	"drydock/internal/delivery/forge/local"
	"drydock/internal/execution/environment"
	"drydock/internal/execution/guest"
	"drydock/internal/execution/image"
	"drydock/internal/execution/sandbox"
	"drydock/internal/execution/sandbox/fake"
	"drydock/internal/execution/sandbox/runsc"
	"drydock/internal/execution/snapshot"
	"drydock/internal/execution/snapshot/overlay"
	"drydock/internal/execution/snapshot/registry"
	"drydock/internal/gitcmd"
	"drydock/internal/harness/agent"
	"drydock/internal/harness/agent/builtin"
	"drydock/internal/harness/model"
	"drydock/internal/harness/tool"
)

// openExecution opens network, driver, snapshots and images.
func (d *Daemon) openExecution(ctx context.Context) error {
	found := registries.Read(ctx, registries.Options{Environ: d.opts.Environ})
	for _, note := range found.Notes {
		d.log.Warn("package manager settings", "note", note)
	}
	for _, name := range found.Dropped {
		d.log.Info("a secret in a package manager's settings stays on the host", "name", name)
	}
	d.denials = newDenials(d.db, d.events, d.metrics, d.log)
	var err error
	switch d.opts.Driver {
	case "", "runsc":
		if err := CheckInit(ctx, d.opts.Init); err != nil {
			return err
		}
		d.network, err = containment.Open(ctx, containment.Deps{Log: d.log, Decided: d.denials.decided}, containment.Options{
			StateDir: d.opts.State, Ranges: d.opts.Ranges, Registries: containment.Endpoints(found), Upstream: d.opts.Upstream, MaxConns: d.opts.Connections, Allow: d.opts.Allow,
		})
		if err != nil {
			return err
		}
		dir, err := d.dir("runsc")
		if err != nil {
			return err
		}
		d.driver, err = runsc.New(runsc.Deps{Network: d.network, Log: d.log}, runsc.Options{
			Runsc: d.opts.Runsc, Init: d.opts.Init, StateDir: dir, Instance: d.network.Instance(),
		})
		if err != nil {
			return err
		}
	case "fake":
		dir, err := d.dir("fake")
		if err != nil {
			return err
		}
		d.driver = fake.NewWorld(dir).Driver(fake.Options{})
	default:
		return core.E("daemon.start", core.Invalid, nil, "there is no sandbox driver %q; drivers: runsc, fake", d.opts.Driver)
	}
	dir, err := d.dir("layers")
	if err != nil {
		return err
	}
	if d.snapshots, err = overlay.New(overlay.Deps{Rows: d.db, Uses: d.uses, Freezes: d.driver.Freezes, Log: d.log}, overlay.Options{Dir: dir}); err != nil {
		return err
	}
	if dir, err = d.dir("images"); err != nil {
		return err
	}
	opts := d.opts.Images
	if opts.Dir == "" {
		opts.Dir = dir
	}
	opts.Environ, opts.Log = d.opts.Environ, d.log
	if d.images, err = image.New(opts); err != nil {
		return err
	}
	if dir, err = d.dir("registry"); err != nil {
		return err
	}
	programs, _ := d.driver.(registry.Programs)
	d.registry, err = registry.New(registry.Deps{Snapshots: d.snapshots, Images: d.images, Programs: programs, Log: d.log}, registry.Options{Dir: dir})
	if err != nil {
		return err
	}
	d.openCollector()
	return d.openEnvironments(found)
}

// openEnvironments opens the launcher.
func (d *Daemon) openEnvironments(found registries.Settings) error {
	runtime, err := fileDigest(d.opts.Runsc)
	if err != nil {
		return err
	}
	version, err := fileDigest(d.opts.Init)
	if err != nil {
		return err
	}
	d.runtime = snapshot.Runtime{Driver: d.driver.Name(), Digest: runtime, Init: version}
	settings := func(_ context.Context, policy *core.NetworkPolicy, h sandbox.Handle) (environment.Settings, error) {
		if policy == nil {
			return environment.Settings{}, nil
		}
		out := environment.Settings{Env: found.Env}
		for _, f := range found.Files(registries.Target(d.distribution(h))) {
			out.Files = append(out.Files, guest.SetupFile{Path: f.Path, Mode: 0o644, Data: f.Data})
		}
		return out, nil
	}
	d.openCapacity()
	d.launcher = environment.NewLauncher(environment.LauncherDeps{
		Driver: d.driver, Snapshots: d.snapshots, Rows: d.db, Settings: settings, Admit: d.admit, Log: d.log,
		Crowded: func(ctx context.Context, purpose string) {
			if purpose == environment.PurposeSession {
				d.workspaces.Crowded(ctx)
			}
		},
	}, environment.LauncherOptions{
		Defaults: d.opts.Limits, Runtime: d.runtime,
		// Sessions hold one place each while they run; what is left is for the
		// rooms of their proofs. A build has one of its own.
		Places: map[string]int{
			environment.PurposeSession: d.opts.MaxSessions, environment.PurposeProof: d.opts.MaxSandboxes - d.opts.MaxSessions,
			environment.PurposeBuild: max(d.opts.MaxBuilds, 1),
		},
	})
	return nil
}

// distribution reads what a sandbox's base image says of itself: the lowest
// layer that has the file. The file is data of an image, and only chooses among
// settings.
func (d *Daemon) distribution(h sandbox.Handle) distribution {
	for _, v := range slices.Backward(h.Layers) {
		root, err := os.OpenRoot(v)
		if err != nil {
			continue
		}
		data, err := root.ReadFile("usr/lib/os-release")
		_ = root.Close()
		if err == nil {
			return parseRelease(string(data))
		}
	}
	return distribution{}
}

type distribution struct{ Distribution, Suite string }

func parseRelease(text string) distribution {
	var out distribution
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		switch value = strings.Trim(value, `"'`); name {
		case "ID":
			out.Distribution = value
		case "VERSION_CODENAME":
			out.Suite = value
		}
	}
	return out
}

// base makes base images for the builder.
func (d *Daemon) base(ctx context.Context, req environment.BaseRequest) (environment.BaseImage, error) {
	packages := req.Packages
	bootstrapped := strings.HasPrefix(req.Base, "debian:")
	if !bootstrapped {
		packages = nil
	}
	start := time.Now()
	d.ensured.mu.RLock()
	defer d.ensured.mu.RUnlock()
	img, err := d.images.Ensure(ctx, image.Request{Base: req.Base, Packages: packages, Progress: req.Progress, Refresh: req.Fresh && bootstrapped})
	if err == nil && bootstrapped && img.Created.Before(req.Since) {
		img, err = d.images.Ensure(ctx, image.Request{Base: req.Base, Packages: packages, Progress: req.Progress, Refresh: true})
	}
	if err != nil {
		return environment.BaseImage{}, err
	}
	d.ensured.note(img.Digest)
	return environment.BaseImage{
		Digest: img.Digest, Layers: img.Layers, Installed: bootstrapped, Family: img.OS.Family, Cached: img.Created.Before(start),
		Image: snapshot.Image{Env: img.Env, User: img.User},
	}, nil
}

// openDelivery opens git, the forge and what joins them.
func (d *Daemon) openDelivery(context.Context) error {
	var err error
	if d.git, err = gitcmd.New(gitcmd.Options{Environ: d.opts.Environ, Pass: gitcmd.HostVariables()}); err != nil {
		return err
	}
	dir, err := d.dir("forge")
	if err != nil {
		return err
	}
	d.forge, err = local.New(local.Deps{Git: d.git, Records: d.db, Log: d.log}, local.Options{
		Dir: dir, NoApproval: d.opts.NoApproval, Committer: core.Author{Handle: "drydock", Name: "Drydock", Email: "drydock@localhost"},
	})
	if err != nil {
		return err
	}
	if dir, err = d.dir("mirrors"); err != nil {
		return err
	}
	d.repos = newRepositories(d.forge, d.git, dir, d.log)
	d.crier = &townCrier{db: d.db, log: d.events}
	d.changes = change.New(change.Deps{Forge: d.forge, Effects: d.db, Sessions: d.crier, Log: d.log}, change.Options{Interval: 2 * time.Second})
	return nil
}

// openControl opens what remembers and decides.
func (d *Daemon) openControl(context.Context) error {
	logs, err := d.dir("builds")
	if err != nil {
		return err
	}
	d.builder, err = environment.NewBuilder(environment.BuilderDeps{
		DB: d.db, Launcher: d.launcher, Snapshots: d.snapshots, Mirror: d.repos.Mirror, Refresh: d.repos.Refresh, Base: d.base, Room: d.roomForBuild, Log: d.log,
		Append: func(ctx context.Context, subject string, events ...core.Event) error {
			_, err := d.events.Append(ctx, subject, events...)
			d.afterBuild(events)
			return err
		},
	}, environment.BuilderOptions{Dir: logs, Workers: d.opts.MaxBuilds, MaxSnapshotAge: d.opts.MaxSnapshotAge})
	if err != nil {
		return err
	}
	d.openRefresher()
	d.workspaces = workspace.New(workspace.Deps{
		DB: d.db, Launcher: d.launcher, Snapshots: d.snapshots, Mirror: d.repos.Mirror, Refresh: d.repos.Refresh, Aged: d.aged, Events: d.events, Log: d.log,
		Idle: d.opts.IdleAfter, Rebuild: d.rebuild,
	})
	d.openPool()
	d.prover, err = proving.New(proving.Deps{
		DB: d.db, Events: d.events, Workspaces: d.workspaces, Git: d.git, Cache: cells{d.db}, Blobs: d.blobs, Key: d.key, Photographer: d.photographer(), Redact: d.redact(), Log: d.log,
	}, proving.Options{
		Scratch: filepath.Join(d.opts.State, "tmp", "rooms"), Bundles: filepath.Join(d.opts.State, "evidence"), Runtime: d.runtime.Digest,
		Reruns: d.opts.Reruns, Parallel: 2,
	})
	if err != nil {
		return err
	}
	meter := &budget{metrics: d.metrics}
	gateway, err := model.New(model.Deps{Providers: d.opts.Providers, Prices: d.opts.Prices, Budget: meter, Sink: meter, Log: d.log}, model.Options{})
	if err != nil {
		return err
	}
	record := codechange.NewRecord(d.db, d.events)
	deps := codechange.Deps{
		Sessions: record, Workspaces: d.workspaces, Memory: record, Prover: d.prover, Events: record, Gate: d.opts.Gate, Log: d.log,
		Deliverer: deliverer{changes: d.changes, repos: d.repos, db: d.db},
		Agent:     builtin.New(builtin.Deps{Model: gateway, Tools: d.tools, Log: d.log}, builtin.Options{MaxTurns: d.opts.Turns}),
	}
	machines, err := blueprint.Builtin()
	if err != nil {
		return err
	}
	d.engine, err = blueprint.New(blueprint.Deps{
		Journal: blueprint.NewJournal(d.db, d.events), Steps: codechange.Steps(deps), Agents: codechange.Agents(deps), Log: d.log,
		Finish: func(ctx context.Context, job blueprint.Job, _ blueprint.Ending) error {
			return d.workspaces.Rest(ctx, job.Session.ID)
		},
	}, blueprint.Options{}, machines)
	if err != nil {
		return err
	}
	d.sessions, err = session.New(session.Deps{
		Store: d.db, Log: d.events, Drafted: d.workspaces.Drafted, Executor: &executor{engine: d.engine, workspaces: d.workspaces, metrics: d.metrics, log: d.log}, Capacity: elbow{d.capacity, d.crowd}, Logger: d.log,
	}, session.Options{Instance: d.opts.State, MaxRunning: d.opts.MaxSessions, PerUser: d.opts.PerUser, PerEnvironment: d.opts.PerEnv, Model: d.opts.Model, Budget: d.opts.Budget})
	if err != nil {
		return err
	}
	meter.s, d.crier.s = d.sessions, d.sessions
	d.selections = selection.New(selection.Deps{
		Store: d.db, Log: d.events, Sessions: d.sessions, Changes: d.changes, Start: d.startOfSelection, Seeded: gateway.Seeds, Known: gateway.Check, Logger: d.log,
	}, selection.Options{})
	d.review = review.New(review.Deps{
		Changes: d.changes, Git: d.git, Store: d.db, Events: d.events, Prompts: d.sessions, Proofs: d.prover, MayMerge: d.selections.MayMerge, Log: d.log,
	}, review.Options{Protected: d.opts.Gate.Protected})
	return nil
}

// tools are what the built-in agent has in the sandbox of its session.
func (d *Daemon) tools(ctx context.Context, task agent.Task) (builtin.Tools, error) {
	job := blueprint.Job{Session: core.Session{ID: task.Session}, Run: core.Run{ID: task.Run}}
	b := &box{open: func(ctx context.Context) (opened, error) {
		if _, err := d.workspaces.Open(ctx, job); err != nil {
			return nil, err
		}
		return d.workspaces.Living(ctx, task.Session)
	}}
	w, err := b.workspace(ctx)
	if err != nil {
		return nil, err
	}
	return tool.New(tool.Deps{Box: b, Pictures: camera{b, d.blobs}}, tool.Options{Root: w.Machine().Workspace()}), nil
}

func fileDigest(path string) (string, error) {
	if path == "" {
		return "", nil
	}
	f, err := os.Open(path)
	if err != nil {
		return "", core.E("daemon.start", core.NotFound, err, "program %s", path).
			WithHint("build it with `make build`, or name another in the configuration")
	}
	defer f.Close()
	return digestOf(f)
}
