package daemon

import (
	"context"
	"os"
	"path/filepath"
	"strings"

	"drydock/internal/containment"
	"drydock/internal/containment/egress"
	"drydock/internal/containment/registries"
	"drydock/internal/control/blueprint"
	"drydock/internal/control/codechange"
	"drydock/internal/control/proving"
	"drydock/internal/control/session"
	"drydock/internal/control/workspace"
	"drydock/internal/core"
	"drydock/internal/delivery/forge/local"
	"drydock/internal/execution/environment"
	"drydock/internal/execution/guest"
	"drydock/internal/execution/image"
	"drydock/internal/execution/sandbox"
	"drydock/internal/execution/sandbox/fake"
	"drydock/internal/execution/sandbox/runsc"
	"drydock/internal/execution/snapshot"
	"drydock/internal/execution/snapshot/overlay"
	"drydock/internal/gitcmd"
	"drydock/internal/harness/agent"
	"drydock/internal/harness/agent/builtin"
	"drydock/internal/harness/model"
	"drydock/internal/harness/tool"
	"drydock/internal/store"
)

// jail gives the driver the network of containment.
type jail struct{ n *containment.Network }

var _ sandbox.Network = jail{}

func (j jail) Attach(ctx context.Context, id core.SandboxID, policy *core.NetworkPolicy) (sandbox.Attachment, error) {
	a, err := j.n.Attach(ctx, id, policy)
	return sandbox.Attachment(a), err
}
func (j jail) Detach(ctx context.Context, id core.SandboxID) error { return j.n.Detach(ctx, id) }
func (j jail) List(ctx context.Context) ([]core.SandboxID, error)  { return j.n.List(ctx) }

// openExecution opens network, driver, snapshots and images.
func (d *Daemon) openExecution(ctx context.Context) error {
	found := registries.Read(ctx, registries.Options{Environ: d.opts.Environ})
	for _, note := range found.Notes {
		d.log.Warn("package manager settings", "note", note)
	}
	for _, name := range found.Dropped {
		d.log.Info("a secret in a package manager's settings stays on the host", "name", name)
	}
	d.denials = newDenials(d.db, d.events, d.log)
	var err error
	switch d.opts.Driver {
	case "", "runsc":
		var hosts []egress.Endpoint
		for _, e := range found.Hosts() {
			hosts = append(hosts, egress.Endpoint{Host: e.Host, Port: e.Port})
		}
		d.network, err = containment.Open(ctx, containment.Deps{Log: d.log, Decided: d.denials.decided}, containment.Options{
			StateDir: d.opts.State, Ranges: d.opts.Ranges, Registries: hosts, Upstream: upstream(d.opts.Environ),
		})
		if err != nil {
			return err
		}
		dir, err := d.dir("runsc")
		if err != nil {
			return err
		}
		d.driver, err = runsc.New(runsc.Deps{Network: jail{d.network}, Log: d.log}, runsc.Options{
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
	d.snapshots, err = overlay.New(overlay.Deps{Rows: d.db, Uses: d.uses, Log: d.log}, overlay.Options{Dir: dir})
	if err != nil {
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
	return d.openEnvironments(ctx, found)
}

// upstream is the proxy that the host itself has to use.
func upstream(environ []string) egress.Upstream {
	get := func(names ...string) string {
		for _, e := range environ {
			for _, name := range names {
				if v, ok := strings.CutPrefix(e, name+"="); ok && v != "" {
					return v
				}
			}
		}
		return ""
	}
	return egress.Upstream{HTTP: get("http_proxy"), HTTPS: get("https_proxy", "HTTPS_PROXY"), No: get("no_proxy", "NO_PROXY")}
}

// uses names what needs snapshots now.
func (d *Daemon) uses(ctx context.Context) ([]snapshot.Use, error) {
	var out []snapshot.Use
	page := core.Page{Limit: core.MaxPage}
	for {
		list, next, err := d.db.Environments(ctx, page)
		if err != nil {
			return nil, err
		}
		for _, e := range list {
			if e.Snapshot != "" {
				out = append(out, snapshot.Use{By: "environment " + e.Name, Snapshot: e.Snapshot})
			}
		}
		if next == "" {
			break
		}
		page.Cursor = next
	}
	page.Cursor = ""
	for {
		list, next, err := d.db.Sessions(ctx, core.SessionFilter{}, page)
		if err != nil {
			return nil, err
		}
		for _, s := range list {
			if s.Snapshot != "" {
				out = append(out, snapshot.Use{By: "session " + string(s.ID), Snapshot: s.Snapshot})
			}
		}
		if next == "" {
			break
		}
		page.Cursor = next
	}
	rows, err := d.db.LiveSandboxes(ctx)
	if err != nil {
		return nil, err
	}
	for _, row := range rows {
		if h, ok := handleOf(row); ok && h.Origin != "" {
			out = append(out, snapshot.Use{By: "sandbox " + string(row.ID), Snapshot: core.SnapshotID(h.Origin)})
		}
	}
	return out, nil
}

func (d *Daemon) openEnvironments(_ context.Context, found registries.Settings) error {
	settings := func(_ context.Context, os environment.Distribution) ([]string, []guest.SetupFile) {
		var files []guest.SetupFile
		for _, f := range found.Files(registries.Target{Distribution: os.ID, Suite: os.Codename}) {
			files = append(files, guest.SetupFile{Path: f.Path, Mode: 0o644, Data: f.Data})
		}
		return found.Env, files
	}
	d.launcher = environment.NewLauncher(environment.LauncherDeps{
		Driver: d.driver, Snapshots: d.snapshots, Registry: environment.NewSandboxes(d.db), Settings: settings, Log: d.log,
	})
	return nil
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
	d.repos = newRepositories(d.forge, d.git, dir)
	return nil
}

// openControl opens what remembers and decides.
func (d *Daemon) openControl(context.Context) error {
	logs, err := d.dir("builds")
	if err != nil {
		return err
	}
	version, err := fileDigest(d.opts.Init)
	if err != nil {
		return err
	}
	runtime, err := fileDigest(d.opts.Runsc)
	if err != nil {
		return err
	}
	d.builder = environment.NewBuilder(environment.BuilderDeps{
		DB: d.db, Events: d.events, Launcher: d.launcher, Snapshots: d.snapshots, Images: d.images, Repositories: d.repos, Log: d.log,
	}, environment.BuilderOptions{LogDir: logs, Limits: d.opts.Limits, InitVersion: version})
	d.workspaces = workspace.New(workspace.Deps{
		DB: d.db, Launcher: d.launcher, Sandboxes: environment.NewSandboxes(d.db), Snapshots: d.snapshots,
		Repositories: d.repos, Events: d.events, Log: d.log,
	}, workspace.Options{Limits: d.opts.Limits})
	d.prover, err = proving.New(proving.Deps{
		DB: d.db, Workspaces: d.workspaces, Git: d.git, Cache: cells{d.db}, Blobs: d.blobs, Key: d.key, Log: d.log,
	}, proving.Options{
		Scratch: filepath.Join(d.opts.State, "tmp", "rooms"), Bundles: filepath.Join(d.opts.State, "evidence"), Runtime: runtime,
		Reruns: d.opts.Reruns, Parallel: d.opts.MaxRooms,
	})
	if err != nil {
		return err
	}
	meter := &budget{}
	gateway, err := model.New(model.Deps{Providers: d.opts.Providers, Prices: d.opts.Prices, Budget: meter, Sink: meter, Log: d.log}, model.Options{})
	if err != nil {
		return err
	}
	record := codechange.NewRecord(d.db, d.events)
	deps := codechange.Deps{
		Sessions: record, Workspaces: d.workspaces, Memory: record, Prover: d.prover, Events: record, Gate: d.opts.Gate, Log: d.log,
		Deliverer: deliverer{forge: d.forge, repos: d.repos, db: d.db},
		Agent:     builtin.New(builtin.Deps{Model: gateway, Tools: d.tools, Log: d.log}, builtin.Options{}),
	}
	machines, err := blueprint.Builtin()
	if err != nil {
		return err
	}
	d.engine, err = blueprint.New(blueprint.Deps{
		Journal: blueprint.NewJournal(d.db, d.events), Steps: codechange.Steps(deps), Agents: codechange.Agents(deps), Log: d.log,
		Finish: func(ctx context.Context, job blueprint.Job, _ blueprint.Ending) error {
			return d.workspaces.PutAway(ctx, job.Session.ID)
		},
	}, blueprint.Options{}, machines)
	if err != nil {
		return err
	}
	d.sessions, err = session.New(session.Deps{
		Store: d.db, Log: d.events, Executor: &executor{engine: d.engine, workspaces: d.workspaces}, Logger: d.log,
	}, session.Options{Instance: d.opts.State, MaxRunning: d.opts.MaxSessions, Model: d.opts.Model, Budget: d.opts.Budget})
	meter.s = d.sessions
	return err
}

// tools are what the built-in agent has in the sandbox of its session.
func (d *Daemon) tools(ctx context.Context, task agent.Task) (builtin.Tools, error) {
	w, err := d.workspaces.Living(ctx, task.Session)
	if err != nil {
		return nil, err
	}
	return tool.New(tool.Deps{Box: box{machine: w.Machine(), user: w.Recipe().User}, Pictures: d.pictures(w)}, tool.Options{Root: w.Recipe().Workspace}), nil
}

func handleOf(row store.Sandbox) (sandbox.Handle, bool) {
	var h sandbox.Handle
	return h, jsonInto(row.Handle, &h)
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
