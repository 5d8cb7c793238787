package environment_test

import (
	"strings"
	"testing"

	"drydock/internal/core"
	"drydock/internal/execution/environment"
)

// On gVisor, as a user who is not root, with services that are up: a changed
// file does not run setup, a changed lock file does.
func TestIncrementalForReal(t *testing.T) {
	w := realWorld(t)
	w.commit(map[string]string{".gitignore": "deps/\n", "code.txt": "one\n", "package-lock.json": "1\n", "drydock.yaml": `base: debian:bookworm
packages: [git, redis-server, python3]
user: nobody
setup: |
  mkdir -p deps
  echo "ran with $(cat package-lock.json)" >>deps/log
services:
  cache: {run: redis-server --save '' --appendonly no --dir /tmp, ready: redis-cli ping, port: 6379}
warm: {run: "redis-cli set warmed yes; echo $(cat code.txt) >>deps/warm"}
limits: {memory: 1GiB, disk: 2GiB}
`})
	first := w.build(environment.BuildRequest{})
	if first.State != core.BuildDone {
		t.Fatalf("build ended as %+v, failure %+v\n%s", first, first.Failure, w.logOf(first.ID))
	}
	w.commit(map[string]string{"code.txt": "two\n"})
	second := w.built(environment.BuildRequest{})
	w.wantFrom(second, first.Snapshot, false, "no lock file changed")
	w.commit(map[string]string{"code.txt": "three\n", "package-lock.json": "2\n"})
	third := w.built(environment.BuildRequest{})
	w.wantFrom(third, second.Snapshot, true, "package-lock.json changed")
	for _, b := range []core.Build{first, second, third} {
		for _, p := range b.Phases {
			t.Logf("%s %-20s %6d ms  %s", b.ID, p.Name, p.Duration.Milliseconds(), p.Detail)
		}
	}
	rec := w.recipe()
	m := w.launch(environment.LaunchRequest{Snapshot: third.Snapshot, Recipe: &rec, StartServices: true})
	want := "three\nran with 1\nran with 2\none\ntwo\nthree\nPONG\nnobody\nnobody"
	got := w.as(m, "nobody", "cat code.txt deps/log deps/warm; redis-cli ping; git status --porcelain; touch mine; stat -c %U code.txt mine")
	if strings.TrimSpace(got) != want {
		t.Errorf("the sandbox says %q", got)
	}
	if err := m.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.leftovers()
}

// Without a warm-up, and with nothing to run for what changed, services start
// once, for the memory image. Where they do not come up with what changed, the
// build is tried once more from scratch, and then fails; the snapshot of before
// stays in use.
func TestQuickRebuildForReal(t *testing.T) {
	w := realWorld(t)
	w.commit(map[string]string{"code.txt": "good one\n", "drydock.yaml": `base: debian:bookworm
packages: [git, redis-server, python3]
setup: echo ran >>/root/setups
services:
  cache: {run: "grep -q good code.txt && exec redis-server --save '' --appendonly no --dir /tmp", ready: redis-cli ping, port: 6379}
limits: {memory: 1GiB, disk: 2GiB}
`})
	first := w.build(environment.BuildRequest{})
	w.commit(map[string]string{"code.txt": "good two\n"})
	second := w.built(environment.BuildRequest{})
	w.wantFrom(second, first.Snapshot, false, "no lock file changed")
	count := func(b core.Build, name string) (n int) {
		for _, p := range b.Phases {
			if p.Name == name {
				n++
			}
		}
		return n
	}
	if n := count(second, environment.PhaseServices); n != 1 {
		t.Errorf("services were started in %d phases, want 1: %q", n, phases(second))
	}
	rec := w.recipe()
	for _, files := range []bool{false, true} {
		m := w.launch(environment.LaunchRequest{
			Snapshot: second.Snapshot, Recipe: &rec, Limits: rec.Limits, StartServices: files, FilesOnly: files,
			Warn: func(d core.WarningData) { t.Error(d.Message) },
		})
		want := map[bool]string{false: environment.FromMemory, true: environment.FromFiles}[files]
		if got := w.shell(m, "cat code.txt /root/setups; redis-cli ping"); m.From() != want || got != "good two\nran\nPONG" {
			t.Errorf("from %s, want %s: it says %q", m.From(), want, got)
		}
		if err := m.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
	}

	w.commit(map[string]string{"code.txt": "bad\n"})
	third := w.build(environment.BuildRequest{})
	if third.State != core.BuildFailed || third.Failure == nil || third.Failure.Code != "service_failed" {
		t.Errorf("with a service that does not start: %s, %+v", third.State, third.Failure)
	}
	if p, ok := phaseOf(third, "setup"); !ok || count(third, "setup") != 2 {
		t.Errorf("it was not tried from scratch: %q %+v", phases(third), p)
	}
	env, err := w.db.Environment(t.Context(), "shop")
	if err != nil || env.Snapshot != second.Snapshot {
		t.Errorf("the environment uses %s, want %s (error %v)", env.Snapshot, second.Snapshot, err)
	}
	w.leftovers()
}
