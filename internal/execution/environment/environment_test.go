package environment_test

import (
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"drydock/internal/core"
	"drydock/internal/execution/environment"
	"drydock/internal/execution/environment/recipe"
	"drydock/internal/execution/guest"
	"drydock/internal/execution/retention"
	"drydock/internal/execution/sandbox"
	"drydock/internal/execution/sandbox/fake"
	"drydock/internal/execution/sandbox/sandboxtest"
	"drydock/internal/execution/snapshot"
	"drydock/internal/execution/snapshot/overlay"
	"drydock/internal/gitcmd"
	"drydock/internal/gitcmd/mirror"
	"drydock/internal/store"
	"drydock/internal/testkit/need"
)

// world is a whole execution layer on the fake driver; restart is what happens
// when the daemon is killed and comes back.
type world struct {
	t        *testing.T
	dir      string
	repo     string
	base     string
	host     *fake.World
	db       *store.DB
	git      *gitcmd.Git
	driver   sandbox.Driver
	snaps    *overlay.Store
	launcher *environment.Launcher
	builder  *environment.Builder
	places   map[string]int

	mu       sync.Mutex
	events   []core.Event
	baseID   string        // digest of the base image
	patience time.Duration // with a build

	room  func(context.Context) (bool, string) // of the host, for builds
	admit func(context.Context, environment.AdmitRequest) (func(), error)

	newDriver func() sandbox.Driver // instead of the fake
	newBase   func(context.Context, environment.BaseRequest) (environment.BaseImage, error)
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := newWorldIn(t, t.TempDir())
	w.start()
	t.Cleanup(w.stop)
	return w
}

// newWorldIn is a world that has not started yet.
func newWorldIn(t *testing.T, dir string) *world {
	t.Helper()
	need.Program(t, "git")
	w := &world{t: t, dir: dir, baseID: "sha256:base", patience: time.Minute}
	w.repo, w.base = filepath.Join(w.dir, "shop.git"), filepath.Join(w.dir, "base")
	sandboxtest.Root(t, w.base)
	// What the small root holds for drivers is in the way of a checkout.
	if err := os.RemoveAll(filepath.Join(w.base, "workspace")); err != nil {
		t.Fatal(err)
	}
	w.host = fake.NewWorld(filepath.Join(w.dir, "sandboxes"))
	t.Cleanup(w.host.Close)
	var err error
	if w.git, err = gitcmd.New(gitcmd.Options{}); err != nil {
		t.Fatal(err)
	}
	if w.db, err = store.Open(t.Context(), store.Options{Path: filepath.Join(w.dir, "db")}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.db.Close() })
	return w
}

func (w *world) start() {
	w.t.Helper()
	var err error
	w.driver = w.host.Driver(fake.Options{})
	if w.newDriver != nil {
		w.driver = w.newDriver()
	}
	w.snaps, err = overlay.New(overlay.Deps{
		Rows: w.db, Uses: func(ctx context.Context) ([]snapshot.Use, error) {
			return retention.Uses(ctx, w.db, retention.Policy{Builds: 1}, time.Now())
		},
		Freezes: w.driver.Freezes,
	}, overlay.Options{Dir: filepath.Join(w.dir, "layers"), NoSync: true})
	if err != nil {
		w.t.Fatal(err)
	}
	w.launcher = environment.NewLauncher(environment.LauncherDeps{Driver: w.driver, Snapshots: w.snaps, Rows: w.db, Admit: w.admit},
		environment.LauncherOptions{Places: w.places})
	w.builder, err = environment.NewBuilder(environment.BuilderDeps{
		DB: w.db, Launcher: w.launcher, Snapshots: w.snaps, Room: w.room,
		Append: func(ctx context.Context, subject string, events ...core.Event) error {
			stored, err := w.db.AppendEvents(ctx, subject, events)
			w.mu.Lock()
			w.events = append(w.events, stored...)
			w.mu.Unlock()
			return err
		},
		Mirror: func(ctx context.Context, env core.Environment) (*mirror.Mirror, error) {
			return w.mirror(ctx, env.Source)
		},
		Base: func(ctx context.Context, req environment.BaseRequest) (environment.BaseImage, error) {
			if w.newBase != nil {
				return w.newBase(ctx, req)
			}
			if req.Base != "debian:bookworm" {
				return environment.BaseImage{}, core.E("test", core.NotFound, nil, "no image %q", req.Base)
			}
			return environment.BaseImage{
				Digest: w.baseID, Layers: []string{w.base}, Image: snapshot.Image{Env: []string{"FROM_IMAGE=yes"}}, Installed: true, Family: "debian",
			}, nil
		},
	}, environment.BuilderOptions{Dir: filepath.Join(w.dir, "builds")})
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) mirror(ctx context.Context, source string) (*mirror.Mirror, error) {
	return mirror.Open(ctx, mirror.Options{Git: w.git, Dir: filepath.Join(w.dir, "mirrors", filepath.Base(source)), Source: source})
}

// stop is the orderly end of the daemon.
func (w *world) stop() {
	for _, c := range []io.Closer{w.builder, w.launcher, w.driver} {
		if err := c.Close(); err != nil {
			w.t.Error(err)
		}
	}
}

// run runs git in the repository.
func (w *world) run(args ...string) string {
	w.t.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir = w.repo
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_AUTHOR_NAME=A", "GIT_AUTHOR_EMAIL=a@example.com",
		"GIT_COMMITTER_NAME=A", "GIT_COMMITTER_EMAIL=a@example.com")
	out, err := cmd.CombinedOutput()
	if err != nil {
		w.t.Fatalf("git %v: %v\n%s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

// commit writes files into the repository and returns the commit.
func (w *world) commit(files map[string]string) string {
	w.t.Helper()
	if _, err := os.Stat(w.repo); err != nil {
		if err := os.Mkdir(w.repo, 0o755); err != nil {
			w.t.Fatal(err)
		}
		w.run("init", "-q", "-b", "main")
	}
	for name, text := range files {
		path := filepath.Join(w.repo, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			w.t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			w.t.Fatal(err)
		}
	}
	w.run("add", "-A")
	w.run("commit", "-q", "-m", "change")
	return w.run("rev-parse", "HEAD")
}

const goodRecipe = `base: debian:bookworm
env: {COLOUR: blue}
setup: |
  mkdir -p deps
  echo "$FROM_IMAGE $COLOUR" >deps/made
  echo setting up
services:
  one: {run: sleep 1000, ready: "true"}
  two: {run: sleep 1000, ready: "true", after: [one]}
warm: {run: "echo warm >deps/warm; echo litter >litter; echo changed >code.txt"}
`

func goodRepo() map[string]string {
	return map[string]string{"drydock.yaml": goodRecipe, ".gitignore": "deps/\n", "code.txt": "code\n"}
}

// build builds and waits for the end.
func (w *world) build(req environment.BuildRequest) core.Build {
	w.t.Helper()
	if req.Source == "" && req.Name == "" {
		req.Source = w.repo
	}
	b, err := w.builder.Build(w.t.Context(), req)
	if err != nil {
		w.t.Fatal(err)
	}
	if b.State != core.BuildQueued {
		w.t.Errorf("a new build is %s", b.State)
	}
	return w.wait(b.ID)
}

func (w *world) wait(id core.BuildID) core.Build {
	w.t.Helper()
	return w.until(id, func(b core.Build) bool { return core.BuildTable.Final(b.State) })
}

func (w *world) until(id core.BuildID, ok func(core.Build) bool) core.Build {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), w.patience)
	defer cancel()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		b, err := w.db.Build(ctx, id)
		if err != nil {
			w.t.Fatal(err)
		}
		if ok(b) {
			return b
		}
		<-tick.C
	}
}

func (w *world) env() core.Environment {
	w.t.Helper()
	env, err := w.builder.Get(w.t.Context(), "shop")
	if err != nil {
		w.t.Fatal(err)
	}
	return env
}

func phases(b core.Build) []string {
	var out []string
	for _, p := range b.Phases {
		out = append(out, p.Name)
	}
	return out
}

func (w *world) logOf(id core.BuildID) string {
	w.t.Helper()
	r, err := w.builder.OpenLog(w.t.Context(), id)
	if err != nil {
		w.t.Fatal(err)
	}
	defer r.Close()
	data, err := io.ReadAll(r)
	if err != nil {
		w.t.Fatal(err)
	}
	return string(data)
}

// eventsOf returns the kinds of a build's events and all output in them.
func (w *world) eventsOf(id core.BuildID) (kinds []core.EventKind, text string) {
	w.t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, e := range w.events {
		if e.Subject != string(id) {
			continue
		}
		kinds = append(kinds, e.Kind)
		if e.Kind == core.EventLog {
			text += string(e.Data)
		}
	}
	return kinds, text
}

// leftovers checks that no sandbox is left.
func (w *world) leftovers() {
	w.t.Helper()
	if ids, err := w.driver.List(w.t.Context()); err != nil || len(ids) > 0 {
		w.t.Errorf("sandboxes left: %v, error %v", ids, err)
	}
	if rows, err := w.db.LiveSandboxes(w.t.Context()); err != nil || len(rows) > 0 {
		w.t.Errorf("rows of sandboxes left: %v, error %v", rows, err)
	}
}

func TestBuild(t *testing.T) {
	w := newWorld(t)
	commit := w.commit(goodRepo())
	b := w.build(environment.BuildRequest{})
	if b.State != core.BuildDone || b.Commit != commit || b.Snapshot == "" || b.Failure != nil {
		t.Fatalf("build ended as %+v (%+v)\n%s", b, b.Failure, w.logOf(b.ID))
	}
	want := []string{
		"fetch repository", "read recipe", "base image", "start sandbox", "set up sandbox", "check out", "setup", "services ready",
		"warm up", "stop services", "snapshot",
	}
	if got := phases(b); !slices.Equal(got, want) {
		t.Errorf("phases %q, want %q", got, want)
	}
	env := w.env()
	if env.Snapshot != b.Snapshot || env.DefaultBranch != "main" || env.Source != w.repo {
		t.Errorf("environment is %+v", env)
	}
	layers, err := w.snaps.Layers(t.Context(), b.Snapshot)
	if err != nil || len(layers) != 2 {
		t.Fatalf("layers %v, error %v", layers, err)
	}
	for name, want := range map[string]string{
		"deps/made": "yes blue\n", "deps/warm": "warm\n", "code.txt": "code\n", "litter": "litter\n",
	} {
		data, _ := os.ReadFile(filepath.Join(layers[0], "workspace", name))
		if string(data) != want {
			t.Errorf("%s holds %q, want %q", name, data, want)
		}
	}
	kinds, text := w.eventsOf(b.ID)
	if !strings.Contains(text, "setting up") || !strings.Contains(w.logOf(b.ID), "setting up") {
		t.Errorf("output is missing in events %q or log %q", text, w.logOf(b.ID))
	}
	for _, kind := range []core.EventKind{core.EventBuildState, core.EventPhase, core.EventLog, core.EventService} {
		if !slices.Contains(kinds, kind) {
			t.Errorf("no event %s among %v", kind, kinds)
		}
	}
	w.leftovers()
}

func TestUnchangedBuildIsNotRepeated(t *testing.T) {
	w := newWorld(t)
	w.commit(goodRepo())
	first := w.build(environment.BuildRequest{})
	again := w.build(environment.BuildRequest{Name: "shop"})
	if again.State != core.BuildDone || again.Snapshot != first.Snapshot || !slices.Contains(phases(again), "nothing changed") {
		t.Errorf("unchanged: %+v", again)
	}
	if fresh := w.build(environment.BuildRequest{Name: "shop", Fresh: true}); fresh.State != core.BuildDone || fresh.Snapshot == first.Snapshot {
		t.Errorf("fresh: %+v", fresh)
	}
	w.baseID = "sha256:newer"
	if other := w.build(environment.BuildRequest{Name: "shop"}); other.State != core.BuildDone || slices.Contains(phases(other), "nothing changed") {
		t.Errorf("with another base image: %+v", other)
	}
	w.commit(map[string]string{"code.txt": "more\n"})
	next := w.build(environment.BuildRequest{Source: w.repo})
	if next.State != core.BuildDone || slices.Contains(phases(next), "nothing changed") {
		t.Errorf("with another commit: %+v", next)
	}
	builds, _, err := w.builder.Builds(t.Context(), w.env().ID, core.Page{})
	if err != nil || len(builds) != 5 {
		t.Errorf("%d builds, error %v", len(builds), err)
	}
}

func TestFailedBuildKeepsTheLastGoodOne(t *testing.T) {
	w := newWorld(t)
	w.commit(goodRepo())
	good := w.build(environment.BuildRequest{})
	for name, c := range map[string]struct {
		recipe  string
		code    string
		command string
		output  string
		message string
	}{
		"setup fails": {
			recipe: "base: debian:bookworm\nsetup: |\n  echo going on\n  echo it broke >&2; exit 7\n  echo never\n",
			code:   "setup_failed", command: "exit 7", output: "it broke", message: "exit code 7",
		},
		"recipe is broken": {recipe: "base: [\n", code: "recipe_invalid", message: "drydock.yaml"},
		"no such image":    {recipe: "base: debian:nowhere\n", code: "base_failed", message: "no image"},
		"service dies": {
			recipe: "base: debian:bookworm\nservices:\n  db: {run: \"echo no disk; exit 3\", ready: \"false\", restart: \"no\"}\n",
			code:   "service_failed", command: "echo no disk; exit 3", output: "no disk", message: "service db",
		},
		"warm-up hangs": {
			recipe: "base: debian:bookworm\nwarm: {run: sleep 1000, timeout: 1s}\n",
			code:   "warm_failed", command: "sleep 1000", message: "after 1s",
		},
	} {
		w.commit(map[string]string{"drydock.yaml": c.recipe})
		b := w.build(environment.BuildRequest{Name: "shop"})
		if b.State != core.BuildFailed || b.Failure == nil || b.Snapshot != "" {
			t.Errorf("%s: %+v", name, b)
			continue
		}
		f := *b.Failure
		if f.Code != c.code || !strings.Contains(f.Command, c.command) || !strings.Contains(f.Output, c.output) || !strings.Contains(f.Message, c.message) {
			t.Errorf("%s: failure is %+v", name, f)
		}
		if strings.Contains(w.logOf(b.ID), "never") && strings.Contains(f.Output, "never") {
			t.Errorf("%s: setup went on after a failed command", name)
		}
		if env := w.env(); env.Snapshot != good.Snapshot {
			t.Errorf("%s: the environment now uses %q", name, env.Snapshot)
		}
	}
	w.leftovers()
}

func TestSandboxDiesDuringBuild(t *testing.T) {
	w := newWorld(t)
	w.commit(map[string]string{"drydock.yaml": "base: debian:bookworm\nsetup: sleep 1000\n"})
	b, err := w.builder.Build(t.Context(), environment.BuildRequest{Source: w.repo})
	if err != nil {
		t.Fatal(err)
	}
	w.until(b.ID, func(b core.Build) bool { return slices.Contains(phases(b), "check out") })
	ids, err := w.driver.List(t.Context())
	if err != nil || len(ids) != 1 {
		t.Fatal(ids, err)
	}
	w.host.OutOfMemory(ids[0])
	b = w.wait(b.ID)
	if b.State != core.BuildFailed || b.Failure.Code != "out_of_memory" || !strings.Contains(b.Failure.Hint, "limits.memory") {
		t.Errorf("build ended as %+v, failure %+v", b, b.Failure)
	}
	w.leftovers()
}

func TestOneBuildOfAnEnvironmentAtATime(t *testing.T) {
	w := newWorld(t)
	gate := filepath.Join(w.dir, "gate")
	w.commit(map[string]string{"drydock.yaml": "base: debian:bookworm\nsetup: while [ ! -e " + gate + " ]; do sleep 0.05; done\n"})
	first, err := w.builder.Build(t.Context(), environment.BuildRequest{Source: w.repo})
	if err != nil {
		t.Fatal(err)
	}
	w.until(first.ID, func(b core.Build) bool { return b.State == core.BuildRunning })
	second, err := w.builder.Build(t.Context(), environment.BuildRequest{Source: w.repo, Fresh: true})
	if err != nil || second.State != core.BuildQueued {
		t.Fatalf("%+v, error %v", second, err)
	}
	same, err := w.builder.Build(t.Context(), environment.BuildRequest{Name: "shop", Fresh: true})
	if err != nil || same.ID != second.ID {
		t.Errorf("asking twice gives %+v, error %v", same, err)
	}
	if b, _ := w.db.Build(t.Context(), second.ID); b.State != core.BuildQueued || w.host.Running() > 1 {
		t.Errorf("the second build is %s, %d sandboxes run", b.State, w.host.Running())
	}
	if err := os.WriteFile(gate, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if a, b := w.wait(first.ID), w.wait(second.ID); a.State != core.BuildDone || b.State != core.BuildDone || a.Snapshot == b.Snapshot {
		t.Errorf("they ended as %+v and %+v", a, b)
	}
	w.leftovers()
}

func TestBuildsAndRestart(t *testing.T) {
	w := newWorld(t)
	w.commit(map[string]string{"drydock.yaml": "base: debian:bookworm\nsetup: sleep 1000\n"})
	runs, err := w.builder.Build(t.Context(), environment.BuildRequest{Source: w.repo})
	if err != nil {
		t.Fatal(err)
	}
	w.until(runs.ID, func(b core.Build) bool { return slices.Contains(phases(b), "check out") })
	waits, err := w.builder.Build(t.Context(), environment.BuildRequest{Source: w.repo, Fresh: true})
	if err != nil {
		t.Fatal(err)
	}
	stopped, err := w.builder.Build(t.Context(), environment.BuildRequest{Source: w.repo, Ref: "main"})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.builder.Stop(t.Context(), stopped.ID); err != nil {
		t.Fatal(err)
	}
	if b := w.wait(stopped.ID); b.State != core.BuildStopped {
		t.Errorf("a stopped build is %+v", b)
	}
	w.stop()
	if b := w.wait(runs.ID); b.State != core.BuildFailed || b.Failure.Code != "interrupted" {
		t.Errorf("the interrupted build is %+v, failure %+v", b, b.Failure)
	}
	w.commit(map[string]string{"drydock.yaml": "base: debian:bookworm\n"})
	w.start()
	if err := w.launcher.Recover(t.Context(), func(store.Sandbox) bool { return false }); err != nil {
		t.Fatal(err)
	}
	if err := w.builder.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if b := w.wait(waits.ID); b.State != core.BuildDone {
		t.Errorf("the queued build ended as %+v, failure %+v", b, b.Failure)
	}
	w.leftovers()
	// Killed, not closed: the row says running and nobody does.
	killed := core.Build{ID: core.NewBuildID(), Environment: w.env().ID, State: core.BuildRunning, Created: time.Now()}
	if err := w.db.CreateBuild(t.Context(), killed); err != nil {
		t.Fatal(err)
	}
	w.stop()
	w.start()
	if err := w.builder.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if b := w.wait(killed.ID); b.State != core.BuildFailed || b.Failure.Code != "interrupted" {
		t.Errorf("the killed build is %+v", b)
	}
}

func TestEnvironments(t *testing.T) {
	w := newWorld(t)
	w.commit(goodRepo())
	if _, err := w.builder.Build(t.Context(), environment.BuildRequest{}); !core.Is(err, core.Invalid) {
		t.Errorf("a build of nothing: %v", err)
	}
	if _, err := w.builder.Build(t.Context(), environment.BuildRequest{Name: "nowhere"}); !core.Is(err, core.NotFound) {
		t.Errorf("a build of an unknown environment: %v", err)
	}
	if _, err := w.builder.Build(t.Context(), environment.BuildRequest{Source: w.repo, Name: "no good"}); !core.Is(err, core.Invalid) {
		t.Errorf("a bad name: %v", err)
	}
	b := w.build(environment.BuildRequest{})
	if _, err := w.builder.Build(t.Context(), environment.BuildRequest{Source: "/other/shop", Name: "shop"}); !core.Is(err, core.Conflict) {
		t.Errorf("another repository under the same name: %v", err)
	}
	text, err := w.builder.Recipe(t.Context(), w.env().ID)
	if err != nil || text.File != "drydock.yaml" || text.Text != goodRecipe || text.Commit != b.Commit {
		t.Errorf("recipe %+v, error %v", text, err)
	}
	if err := w.snaps.Remove(t.Context(), b.Snapshot); !core.Is(err, core.Conflict) || !strings.Contains(err.Error(), "environment shop") {
		t.Errorf("removing the snapshot: %v", err)
	}
	if err := w.builder.Remove(t.Context(), w.env().ID, core.Author{Handle: "a"}); err != nil {
		t.Fatal(err)
	}
	if c, err := w.snaps.GC(t.Context(), overlay.Request{}); err != nil || len(c.Removed) != 1 {
		t.Errorf("collected %+v, error %v", c, err)
	}
	for source, want := range map[string]string{
		"https://example.com/team/shop.git": "shop", "git@example.com:team/My.Shop": "My-Shop", "/srv/git/x/": "x",
		"https://example.com/a/b?x=y": "b", "/": "", "git@example.com:shop.git": "shop",
	} {
		if got := environment.DefaultName(source); got != want {
			t.Errorf("name of %s is %q, want %q", source, got, want)
		}
	}
}

func (w *world) launch(req environment.LaunchRequest) *environment.Machine {
	w.t.Helper()
	if req.Purpose == "" {
		req.Purpose = environment.PurposeSession
	}
	if req.Owner == "" {
		req.Owner = "ses_test"
	}
	if req.Snapshot == "" {
		req.Snapshot = w.env().Snapshot
	}
	m, err := w.launcher.Launch(w.t.Context(), req)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { _ = m.Close(context.Background()) })
	return m
}

func (w *world) shell(m *environment.Machine, script string) string {
	w.t.Helper()
	res, err := m.Guest().Run(w.t.Context(), guest.Command{Argv: []string{"sh", "-ec", script}})
	if err != nil || res.ExitCode != 0 {
		w.t.Fatalf("%q: %d, %v: %s%s", script, res.ExitCode, err, res.Stdout, res.Stderr)
	}
	return strings.TrimSpace(string(res.Stdout))
}

// as runs a script as a user.
func (w *world) as(m *environment.Machine, user, script string) string {
	w.t.Helper()
	res, err := m.Guest().Run(w.t.Context(), guest.Command{Argv: []string{"sh", "-ec", script}, User: user, Merge: true})
	if err != nil || res.ExitCode != 0 {
		w.t.Fatalf("%q: %d, %v: %s", script, res.ExitCode, err, res.Stdout)
	}
	return strings.TrimSpace(string(res.Stdout))
}

// recipe is the one of the repository's head.
func (w *world) recipe() recipe.Recipe {
	w.t.Helper()
	mir, err := w.mirror(w.t.Context(), w.repo)
	if err != nil {
		w.t.Fatal(err)
	}
	r, _, err := environment.ReadRecipe(w.t.Context(), mir, w.run("rev-parse", "HEAD"))
	if err != nil {
		w.t.Fatal(err)
	}
	return r
}

func TestHarvestThereAndBack(t *testing.T) {
	w := newWorld(t)
	base := w.commit(goodRepo())
	w.build(environment.BuildRequest{})
	m := w.launch(environment.LaunchRequest{})
	mir, err := w.mirror(t.Context(), w.repo)
	if err != nil {
		t.Fatal(err)
	}
	next := w.commit(map[string]string{"code.txt": "newer\n", "lib/a.txt": "a\n"})
	if _, err := mir.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	err = m.CheckoutMirror(t.Context(), mir, environment.Checkout{Commit: next, Branch: "drydock/work", Base: "main", Have: []string{base}})
	if err != nil {
		t.Fatal(err)
	}
	if head, err := m.Head(t.Context()); err != nil || head != next {
		t.Errorf("HEAD is %s, error %v", head, err)
	}
	if got := w.shell(m, "cat code.txt deps/made; git rev-parse origin/main; git status --porcelain"); got != "newer\nyes blue\n"+next {
		t.Errorf("the workspace says %q", got)
	}

	h, err := m.Harvest(t.Context(), next)
	if err != nil || h.Dirty || h.Commit != next || h.Bundle != nil || h.Branch != "drydock/work" {
		t.Errorf("nothing to harvest: %+v, error %v", h, err)
	}
	w.shell(m, "echo mine >mine.txt; echo secret >deps/x; git rm -q lib/a.txt; echo edited >>code.txt; git add code.txt; echo more >>code.txt")
	h, err = m.Harvest(t.Context(), next, strings.Repeat("0", 40))
	if err != nil || !h.Dirty || h.Head != next || h.Bundle == nil {
		t.Fatalf("harvested %+v, error %v", h, err)
	}
	got, err := mir.FetchBundle(t.Context(), h.Bundle, environment.WipRef, "refs/drydock/sessions/x")
	if err != nil || got != h.Commit {
		t.Fatalf("fetched %s, error %v", got, err)
	}
	if err := h.Bundle.Close(); err != nil {
		t.Error(err)
	}
	files, err := mir.Files(t.Context(), got, nil)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, f := range files {
		names = append(names, f.Path)
	}
	slices.Sort(names)
	if want := []string{".gitignore", "code.txt", "drydock.yaml", "mine.txt"}; !slices.Equal(names, want) {
		t.Errorf("harvested files %v, want %v", names, want)
	}
	// The index is as it was: one edit staged, one not, the new file unknown.
	if got := w.shell(m, "git status --porcelain; ls .git/drydock"); got != "MM code.txt\nD  lib/a.txt\n?? mine.txt" {
		t.Errorf("after the harvest the status is %q", got)
	}
	err = m.CheckoutBundle(t.Context(), nil, base, "drydock/work")
	if err != nil || w.shell(m, "cat code.txt; ls") != "code\ncode.txt\ndeps\ndrydock.yaml\nlitter" {
		t.Errorf("back at the base: %v, %s", err, w.shell(m, "ls -la"))
	}
	if err := m.CheckoutBundle(t.Context(), nil, strings.Repeat("1", 40), "x"); err == nil {
		t.Error("a commit that is not there was checked out")
	}
	if err := m.CheckoutBundle(t.Context(), nil, "main; rm -rf /", "x"); !core.Is(err, core.Invalid) {
		t.Errorf("nonsense as commit: %v", err)
	}
}

// An edit can follow the checkout within the second that file times are
// compared by, and leave a file's size alone.
func TestHarvestSeesAnEditOfTheSameSizeAndSecond(t *testing.T) {
	w := newWorld(t)
	base := w.commit(goodRepo())
	w.build(environment.BuildRequest{})
	m := w.launch(environment.LaunchRequest{})
	w.shell(m, "touch -d @1700000000 code.txt; git update-index --refresh; echo edoc >code.txt; touch -d @1700000000 code.txt .git/index")
	h, err := m.Harvest(t.Context(), base)
	if err != nil || !h.Dirty || h.Bundle == nil {
		t.Fatalf("harvested %+v, error %v", h, err)
	}
	if err := h.Bundle.Close(); err != nil {
		t.Error(err)
	}
	if got := w.shell(m, "git show refs/drydock/wip:code.txt"); got != "edoc" {
		t.Errorf("harvested code.txt as %q", got)
	}
}

func TestHarvestLosesNothingInSilence(t *testing.T) {
	w := newWorld(t)
	base := w.commit(goodRepo())
	w.build(environment.BuildRequest{})
	m := w.launch(environment.LaunchRequest{})
	w.shell(m, "git init -q inner; echo mine >mine.txt")
	h, err := m.Harvest(t.Context(), base)
	if err != nil || h.Bundle == nil {
		t.Fatalf("beside a repository without a commit: %+v, error %v", h, err)
	}
	if err := h.Bundle.Close(); err != nil {
		t.Error(err)
	}
	if got := w.shell(m, "git show refs/drydock/wip:mine.txt"); got != "mine" {
		t.Errorf("harvested mine.txt as %q", got)
	}
	// The object of the new content has no place, as on a full disk.
	w.shell(m, "echo lost >lost.txt; d=.git/objects/$(git hash-object lost.txt | cut -c1-2); rm -rf $d; : >$d")
	if h, err := m.Harvest(t.Context(), base); err == nil || !strings.Contains(err.Error(), "lost.txt") {
		t.Errorf("a file that git cannot store: %+v, error %v", h, err)
	}
}

func TestFreezeAndGoOn(t *testing.T) {
	w := newWorld(t)
	w.commit(goodRepo())
	b := w.build(environment.BuildRequest{})
	m := w.launch(environment.LaunchRequest{})
	w.shell(m, "echo work >work.txt")
	row, err := m.Freeze(t.Context(), snapshot.Draft{Session: "ses_1"}, environment.FreezeOptions{})
	if err != nil || row.Parent != b.Snapshot || row.State != core.SnapshotReady {
		t.Fatalf("frozen as %+v, error %v", row, err)
	}
	if again, err := m.Freeze(t.Context(), snapshot.Draft{Session: "ses_1"}, environment.FreezeOptions{}); err != nil || again.ID != row.ID {
		t.Errorf("freezing again gives %+v, error %v", again, err)
	}
	if err := m.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	m = w.launch(environment.LaunchRequest{Snapshot: row.ID})
	if got := w.shell(m, "cat work.txt code.txt; echo $FROM_IMAGE"); got != "work\ncode\nyes" {
		t.Errorf("the next sandbox says %q", got)
	}
	if err := m.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.leftovers()
}

func TestAdoptAfterARestart(t *testing.T) {
	w := newWorld(t)
	w.commit(goodRepo())
	b := w.build(environment.BuildRequest{})
	lives := w.launch(environment.LaunchRequest{})
	dies := w.launch(environment.LaunchRequest{})
	orphan := w.launch(environment.LaunchRequest{Purpose: environment.PurposeProof, Owner: "run_x"})
	w.shell(lives, "echo alive >a")
	w.shell(dies, "echo dead >a")
	w.stop()
	w.host.Kill(dies.ID())
	w.start()
	keep := func(s store.Sandbox) bool { return s.Purpose == environment.PurposeSession }
	if err := w.launcher.Recover(t.Context(), keep); err != nil {
		t.Fatal(err)
	}
	if _, err := w.launcher.Adopt(t.Context(), orphan.ID()); !core.Is(err, core.NotFound) {
		t.Errorf("adopting what was removed: %v", err)
	}
	m, err := w.launcher.Adopt(t.Context(), lives.ID())
	if err != nil {
		t.Fatal(err)
	}
	if got := w.shell(m, "cat a"); got != "alive" {
		t.Errorf("it says %q", got)
	}
	if m.Parent() != b.Snapshot {
		t.Errorf("it was started from %q", m.Parent())
	}
	if again, err := w.launcher.Adopt(t.Context(), lives.ID()); err != nil || again != m {
		t.Errorf("adopting twice: %v", err)
	}
	gone, err := w.launcher.Adopt(t.Context(), dies.ID())
	if err != nil {
		t.Fatal(err)
	}
	if s, err := gone.Status(t.Context()); err != nil || s.State != core.SandboxDead {
		t.Errorf("the dead one is %+v, error %v", s, err)
	}
	row, err := gone.Freeze(t.Context(), snapshot.Draft{}, environment.FreezeOptions{})
	if err != nil || row.Parent != b.Snapshot {
		t.Fatalf("frozen as %+v, error %v", row, err)
	}
	layers, err := w.snaps.Layers(t.Context(), row.ID)
	if err != nil {
		t.Fatal(err)
	}
	if data, err := os.ReadFile(filepath.Join(layers[0], "workspace/a")); err != nil || string(data) != "dead\n" {
		t.Errorf("its file says %q, error %v", data, err)
	}
	for _, id := range []core.SandboxID{lives.ID(), dies.ID(), orphan.ID()} {
		if err := w.launcher.Destroy(t.Context(), id); err != nil {
			t.Error(err)
		}
	}
	w.leftovers()
}

func TestPlaces(t *testing.T) {
	w := newWorld(t)
	w.stop()
	w.places = map[string]int{environment.PurposeSession: 1}
	w.start()
	w.commit(goodRepo())
	w.build(environment.BuildRequest{})
	first := w.launch(environment.LaunchRequest{})
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err := w.launcher.Launch(ctx, environment.LaunchRequest{Snapshot: w.env().Snapshot, Purpose: environment.PurposeSession})
	if !core.Is(err, core.Unavailable) || !strings.Contains(err.Error(), "places") {
		t.Errorf("a second sandbox: %v", err)
	}
	proof := w.launch(environment.LaunchRequest{Purpose: environment.PurposeProof})
	if err := proof.Close(t.Context()); err != nil {
		t.Error(err)
	}
	var waited []string
	done := make(chan error, 1)
	go func() {
		m, err := w.launcher.Launch(t.Context(), environment.LaunchRequest{
			Snapshot: w.env().Snapshot, Purpose: environment.PurposeSession, Report: func(p core.Phase) { waited = append(waited, p.Name) },
		})
		if err == nil {
			err = m.Close(t.Context())
		}
		done <- err
	}()
	if err := first.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
	w.leftovers()
}

func TestFailedLaunchLeavesNothing(t *testing.T) {
	w := newWorld(t)
	w.commit(goodRepo())
	w.build(environment.BuildRequest{})
	for _, after := range []bool{false, true} {
		w.host.Faults.Set(fake.Create, fake.Fault{Err: os.ErrDeadlineExceeded, After: after, Times: 1})
		_, err := w.launcher.Launch(t.Context(), environment.LaunchRequest{Snapshot: w.env().Snapshot, Purpose: environment.PurposeSession})
		if err == nil {
			t.Error("a broken launch succeeds")
		}
		w.leftovers()
	}
	_, err := w.launcher.Launch(t.Context(), environment.LaunchRequest{Snapshot: core.NewSnapshotID(), Purpose: environment.PurposeSession})
	if !core.Is(err, core.NotFound) {
		t.Errorf("a snapshot that is not there: %v", err)
	}
	w.leftovers()
}
