package environment_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"drydock/internal/core"
	"drydock/internal/execution/environment"
	"drydock/internal/execution/environment/recipe"
	"drydock/internal/execution/sandbox"
	"drydock/internal/execution/sandbox/fake"
	"drydock/internal/gitcmd/mirror"
)

// phaseOf finds a phase of a build.
func phaseOf(b core.Build, name string) (core.Phase, bool) {
	i := slices.IndexFunc(b.Phases, func(p core.Phase) bool { return p.Name == name })
	if i < 0 {
		return core.Phase{}, false
	}
	return b.Phases[i], true
}

// built builds what is at the head and fails the test unless it is done.
func (w *world) built(req environment.BuildRequest) core.Build {
	w.t.Helper()
	req.Name = "shop"
	b := w.build(req)
	if b.State != core.BuildDone {
		w.t.Fatalf("build ended as %+v, failure %+v\n%s", b, b.Failure, w.logOf(b.ID))
	}
	return b
}

// fromSnapshot says what a build went on from, and of setup whether it was
// left out and why.
func (w *world) wantFrom(b core.Build, before core.SnapshotID, setup bool, detail string) {
	w.t.Helper()
	from, ok := phaseOf(b, environment.PhaseFrom)
	if !ok || !from.Cached || !strings.HasPrefix(from.Detail, string(before)) {
		w.t.Errorf("it went on from %+v, want snapshot %s", from, before)
	}
	p, ok := phaseOf(b, "setup")
	if !ok || p.Cached == setup || !strings.Contains(p.Detail, detail) {
		w.t.Errorf("setup is %+v, want cached %v and %q; phases %q", p, !setup, detail, phases(b))
	}
}

func (w *world) wantScratch(b core.Build, why string) {
	w.t.Helper()
	from, ok := phaseOf(b, environment.PhaseFrom)
	if !ok || from.Cached || !strings.Contains(from.Detail, why) {
		w.t.Errorf("it went on from %+v, want the base image, %q", from, why)
	}
	if p, ok := phaseOf(b, "setup"); !ok || p.Cached {
		w.t.Errorf("setup is %+v", p)
	}
	layers, err := w.snaps.Layers(w.t.Context(), b.Snapshot)
	if err != nil || len(layers) != 2 {
		w.t.Errorf("%d layers, error %v", len(layers), err)
	}
}

const countingRecipe = `base: debian:bookworm
setup: |
  mkdir -p deps
  echo "ran" >>deps/runs
  cat scripts/install.sh package-lock.json 2>/dev/null >deps/lock || :
services:
  one: {run: sleep 1000, ready: "true"}
warm: {run: "echo warm >>deps/warm"}
`

func TestIncrementalBuild(t *testing.T) {
	w := newWorld(t)
	w.commit(map[string]string{"drydock.yaml": countingRecipe, ".gitignore": "deps/\n", "code.txt": "one\n", "package-lock.json": "{}\n", "gone.txt": "x\n"})
	first := w.build(environment.BuildRequest{})
	if _, ok := phaseOf(first, environment.PhaseFrom); ok || first.State != core.BuildDone {
		t.Fatalf("the first build has phases %q", phases(first))
	}

	w.run("rm", "-q", "gone.txt")
	commit := w.commit(map[string]string{"code.txt": "two\n"})
	second := w.built(environment.BuildRequest{})
	w.wantFrom(second, first.Snapshot, false, "no lock file changed")
	m := w.launch(environment.LaunchRequest{Snapshot: second.Snapshot})
	if got := w.shell(m, "cat code.txt deps/runs deps/warm; git rev-parse HEAD origin/main; git status --porcelain; ls"); got !=
		"two\nran\nwarm\nwarm\n"+commit+"\n"+commit+"\ncode.txt\ndeps\ndrydock.yaml\npackage-lock.json" {
		t.Errorf("the machine says %q", got)
	}
	if err := m.Close(t.Context()); err != nil {
		t.Fatal(err)
	}

	w.commit(map[string]string{"package-lock.json": "{\"new\": 1}\n"})
	third := w.built(environment.BuildRequest{})
	w.wantFrom(third, second.Snapshot, true, "package-lock.json changed")
	w.commit(map[string]string{"scripts/install.sh": "true\n"})
	fourth := w.built(environment.BuildRequest{})
	w.wantFrom(fourth, third.Snapshot, true, "scripts/install.sh, which setup uses, changed")
	m = w.launch(environment.LaunchRequest{Snapshot: fourth.Snapshot})
	if got := w.shell(m, "cat deps/runs deps/lock"); got != "ran\nran\nran\ntrue\n{\"new\": 1}" {
		t.Errorf("after two more runs of setup: %q", got)
	}
	if err := m.Close(t.Context()); err != nil {
		t.Fatal(err)
	}

	// What of the recipe no build depends on changes nothing; the rest begins anew.
	w.commit(map[string]string{"drydock.yaml": countingRecipe + "checks: {t: {run: \"true\"}}\n"})
	w.wantFrom(w.built(environment.BuildRequest{}), fourth.Snapshot, false, "")
	w.commit(map[string]string{"drydock.yaml": countingRecipe + "env: {A: b}\n"})
	w.wantScratch(w.built(environment.BuildRequest{}), "the recipe has changed")
	w.baseID = "sha256:newer"
	w.wantScratch(w.built(environment.BuildRequest{}), "it has changed")
	w.wantScratch(w.built(environment.BuildRequest{Fresh: true}), "asked for")
	w.leftovers()
}

func TestLayersDoNotPileUp(t *testing.T) {
	w := newWorld(t)
	w.commit(map[string]string{"drydock.yaml": "base: debian:bookworm\nsetup: \"true\"\n"})
	w.build(environment.BuildRequest{})
	for i := range 12 {
		w.commit(map[string]string{"code.txt": fmt.Sprintf("%d\n", i)})
		b := w.built(environment.BuildRequest{})
		if i == 11 {
			w.wantScratch(b, "12 layers")
		} else if from, _ := phaseOf(b, environment.PhaseFrom); !from.Cached {
			t.Errorf("build %d: %+v", i, from)
		}
	}
}

// age makes a snapshot as if it had been begun from scratch so long ago.
func (w *world) age(id core.SnapshotID, by time.Duration) {
	w.t.Helper()
	file := filepath.Join(w.dir, "layers", string(id)+".json")
	data, err := os.ReadFile(file)
	if err != nil {
		w.t.Fatal(err)
	}
	re := regexp.MustCompile(`"from-scratch": ?"[^"]*"`)
	if !re.Match(data) {
		w.t.Fatalf("no label in %s", data)
	}
	data = re.ReplaceAll(data, []byte(`"from-scratch":"`+time.Now().Add(-by).UTC().Format(time.RFC3339Nano)+`"`))
	if err := os.WriteFile(file, data, 0o600); err != nil {
		w.t.Fatal(err)
	}
}

func TestOnceADayFromScratch(t *testing.T) {
	w := newWorld(t)
	var since []time.Time
	w.newBase = func(ctx context.Context, req environment.BaseRequest) (environment.BaseImage, error) {
		since = append(since, req.Since)
		return environment.BaseImage{Digest: w.baseID, Layers: []string{w.base}, Installed: true}, nil
	}
	w.commit(map[string]string{"drydock.yaml": countingRecipe})
	first := w.build(environment.BuildRequest{})
	w.commit(map[string]string{"code.txt": "x\n"})
	second := w.built(environment.BuildRequest{})
	w.wantFrom(second, first.Snapshot, false, "")
	w.age(second.Snapshot, 25*time.Hour)
	// A person who asks for what is there already is not made to wait.
	if b := w.built(environment.BuildRequest{}); b.Snapshot != second.Snapshot {
		t.Errorf("asked for: phases %q", phases(b))
	}
	if !since[len(since)-1].IsZero() {
		t.Errorf("a base image made since %v was asked for", since)
	}
	b := w.built(environment.BuildRequest{Why: "interval"})
	w.wantScratch(b, "once a day")
	if since[len(since)-1].IsZero() {
		t.Error("the daily build asks for any base image")
	}
	if b := w.built(environment.BuildRequest{Why: "interval"}); !slices.Contains(phases(b), environment.PhaseUnchanged) {
		t.Errorf("the next one: phases %q", phases(b))
	}
}

func TestBrokenIncrementalBuildIsTriedFromScratch(t *testing.T) {
	w := newWorld(t)
	w.commit(map[string]string{"drydock.yaml": "base: debian:bookworm\nsetup: mkdir deps\n", ".gitignore": "deps/\n", "go.sum": "a\n"})
	w.build(environment.BuildRequest{})
	w.commit(map[string]string{"go.sum": "b\n"}) // mkdir fails: the directory is there
	b := w.built(environment.BuildRequest{})
	var from []string
	for _, p := range b.Phases {
		if p.Name == environment.PhaseFrom {
			from = append(from, p.Detail)
		}
	}
	if len(from) != 2 || !strings.Contains(from[1], "failed on top") {
		t.Errorf("it went on from %q", from)
	}
	if kinds, _ := w.eventsOf(b.ID); !slices.Contains(kinds, core.EventWarning) {
		t.Errorf("nothing is told: %v", kinds)
	}
	if layers, err := w.snaps.Layers(t.Context(), b.Snapshot); err != nil || len(layers) != 2 {
		t.Errorf("layers %v, error %v", layers, err)
	}
	w.leftovers()
}

// A quick build starts its services for the memory image only. One that ends
// before they came up has not shown that they do: its snapshot is not used.
func TestQuickBuildThatIsCutOff(t *testing.T) {
	for how, end := range map[string]func(*world, core.BuildID) core.BuildState{
		"stopped": func(w *world, id core.BuildID) core.BuildState {
			if err := w.builder.Stop(t.Context(), id); err != nil {
				t.Error(err)
			}
			return core.BuildStopped
		},
		"interrupted": func(w *world, _ core.BuildID) core.BuildState {
			w.stop()
			w.start()
			return core.BuildFailed
		},
	} {
		w := newWorldIn(t, t.TempDir())
		w.newDriver = func() sandbox.Driver { return w.host.Driver(fake.Options{Memory: true}) }
		w.start()
		t.Cleanup(w.stop)
		begun := filepath.Join(w.dir, "begun")
		w.commit(map[string]string{"works": "yes\n", "drydock.yaml": fmt.Sprintf(`base: debian:bookworm
services:
  one: {run: "touch %[1]s; sleep 1000", ready: test -e works -a -e %[1]s}
`, begun)})
		first := w.built(environment.BuildRequest{Source: w.repo})
		if err := os.Remove(begun); err != nil {
			t.Fatal(err)
		}
		w.run("rm", "-q", "works")
		w.commit(map[string]string{"other": "x\n"})
		b, err := w.builder.Build(t.Context(), environment.BuildRequest{Name: "shop"})
		if err != nil {
			t.Fatal(err)
		}
		for deadline := time.Now().Add(time.Minute); ; {
			if _, err := os.Stat(begun); err == nil {
				break
			}
			if time.Now().After(deadline) {
				t.Fatalf("%s: the service is not started\n%s", how, w.logOf(b.ID))
			}
			<-time.After(5 * time.Millisecond)
		}
		want := end(w, b.ID)
		b = w.wait(b.ID)
		if _, frozen := phaseOf(b, environment.PhaseSnapshot); !frozen {
			t.Fatalf("%s: not a quick build: phases %q", how, phases(b))
		}
		if b.State != want || b.Snapshot != "" || b.Failure == nil || b.Failure.Code != how {
			t.Errorf("%s: the build ended as %+v, failure %+v", how, b, b.Failure)
		}
		if env := w.env(); env.Snapshot != first.Snapshot {
			t.Errorf("%s: sessions begin from %s, not from %s, which works", how, env.Snapshot, first.Snapshot)
		}
		w.leftovers()
	}
}

func TestOnSyncInABuild(t *testing.T) {
	w := newWorld(t)
	w.commit(map[string]string{".gitignore": "deps/\n", "code.txt": "a\n", "drydock.yaml": `base: debian:bookworm
setup: mkdir -p deps; echo setup >>deps/log
services:
  db: {run: "touch deps/db; sleep 1000", ready: test -e deps/db}
  web: {run: "touch deps/web; sleep 1000", ready: test -e deps/web, after: [db]}
on_sync:
  - echo always >>deps/log
  - {run: "echo install >>deps/log", when: package-lock.json}
  - {run: "ls >>log; echo migrate >>log", dir: deps, when: ["db/**"], after: [db]}
`})
	first := w.build(environment.BuildRequest{})
	if first.State != core.BuildDone {
		t.Fatalf("%+v\n%s", first.Failure, w.logOf(first.ID))
	}
	logOf := func(b core.Build) string {
		m := w.launch(environment.LaunchRequest{Snapshot: b.Snapshot})
		defer func() { _ = m.Close(t.Context()) }()
		return strings.ReplaceAll(w.shell(m, "cat deps/log"), "\n", " ")
	}
	w.commit(map[string]string{"package-lock.json": "x\n"})
	b := w.built(environment.BuildRequest{})
	if got := logOf(b); got != "setup always install" {
		t.Errorf("after a lock file changed: %q", got)
	}
	if p, _ := phaseOf(b, environment.PhaseSync); p.Detail != "on_sync 1, on_sync 2" {
		t.Errorf("the phase says %+v", p)
	}
	w.commit(map[string]string{"db/1/up.sql": "x\n"})
	if got := logOf(w.built(environment.BuildRequest{})); got != "setup always install always db log web migrate" {
		t.Errorf("after a migration was added: %q", got)
	}
	w.commit(map[string]string{"drydock.yaml": "base: debian:bookworm\non_sync: exit 3\n"})
	w.built(environment.BuildRequest{})
	w.commit(map[string]string{"code.txt": "b\n"})
	again := w.built(environment.BuildRequest{}) // from scratch nothing has moved
	if kinds, _ := w.eventsOf(again.ID); !slices.Contains(kinds, core.EventWarning) {
		t.Errorf("a failing on_sync is not told: %v, phases %q", kinds, phases(again))
	}
}

func TestAfterMove(t *testing.T) {
	parse := func(text string) recipe.Recipe {
		r, err := recipe.Parse("x", []byte("base: debian:bookworm\n"+text))
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	setup, both := parse("setup: make deps\n"), parse("setup: make deps\non_sync: [{run: sync, when: \"db/**\"}]\n")
	for _, c := range []struct {
		rec   recipe.Recipe
		files []mirror.ChangedFile
		same  bool
		run   string
		why   string
	}{
		{setup, []mirror.ChangedFile{{Path: "a.js"}}, false, "", "no lock file changed"},
		{setup, []mirror.ChangedFile{{Path: "web/package.json"}}, false, "make deps", "web/package.json changed"},
		{setup, []mirror.ChangedFile{{Path: "old.txt", OldPath: "go.mod"}}, false, "make deps", "go.mod changed"},
		{setup, []mirror.ChangedFile{{Path: "tools/Makefile"}}, false, "make deps", "tools/Makefile, which setup uses, changed"},
		{setup, []mirror.ChangedFile{{Path: "drydock.yaml"}}, false, "make deps", "drydock.yaml changed"},
		{setup, []mirror.ChangedFile{{Path: "drydock.yaml"}}, true, "", "no lock file changed"},
		{both, []mirror.ChangedFile{{Path: "go.mod"}}, false, "", "nothing of on_sync is for what changed"},
		{both, []mirror.ChangedFile{{Path: "db/a/b.sql"}}, false, "sync", "on_sync 1"},
		{both, []mirror.ChangedFile{{Path: "db/a"}, {Path: "drydock.yaml"}}, false, "make deps, sync", "drydock.yaml changed; on_sync 1"},
		{parse(""), []mirror.ChangedFile{{Path: "go.mod"}}, false, "", "go.mod changed"},
	} {
		got := environment.AfterMove(c.rec, c.files, c.same)
		var run []string
		for _, s := range got.Steps {
			run = append(run, s.Run)
		}
		if strings.Join(run, ", ") != c.run || got.Why != c.why {
			t.Errorf("%+v: %q because %q, want %q because %q", c.files, run, got.Why, c.run, c.why)
		}
	}
}
