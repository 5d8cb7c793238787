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
