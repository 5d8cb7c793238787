package environment_test

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"drydock/internal/core"
	"drydock/internal/execution/environment"
	"drydock/internal/execution/image"
	"drydock/internal/execution/sandbox"
	"drydock/internal/execution/sandbox/runsc"
	"drydock/internal/execution/sandbox/sandboxtest"
	"drydock/internal/execution/snapshot"
	"drydock/internal/testkit/need"
)

const realRecipe = `base: debian:bookworm
packages: [git, redis-server, python3]
user: nobody
setup: |
  mkdir deps
  echo made >deps/made
  git status --porcelain >deps/status
  id -un >deps/who
services:
  cache: {run: redis-server --save '' --appendonly no --dir /tmp, ready: redis-cli ping, port: 6379}
  web:   {run: python3 -m http.server 8000, ready: "http://127.0.0.1:8000/code.txt", port: 8000, after: [cache]}
warm: {run: redis-cli set warmed yes; echo changed >code.txt; touch litter}
limits: {memory: 1GiB, disk: 2GiB}
`

// realWorld is a world on gVisor, with a Debian base made here. The image is
// kept between runs of the tests.
func realWorld(t *testing.T) *world {
	t.Helper()
	binary := need.Runsc(t)
	for _, p := range []string{"ip", "mmdebstrap"} {
		need.Program(t, p)
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	images, err := image.New(image.Options{Dir: filepath.Join(cache, "drydock", "test-images"), Environ: os.Environ()})
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "dd-exec-") //nolint:usetesting // a short path: runsc puts sockets below it //nolint:usetesting // those names are too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	network := sandboxtest.NewNetwork(t, "dde", 89)
	w := newWorldIn(t, dir)
	w.patience = 10 * time.Minute // a base is made
	w.newDriver = func() sandbox.Driver {
		d, err := runsc.New(runsc.Deps{Network: network}, runsc.Options{
			Runsc: binary, Init: need.Bin(t, "drydock-init"), StateDir: filepath.Join(dir, "run"),
			Instance: "e" + strings.ToLower(filepath.Base(dir)[len("dd-exec-"):]),
		})
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	w.newBase = func(ctx context.Context, req environment.BaseRequest) (environment.BaseImage, error) {
		start := time.Now()
		img, err := images.Ensure(ctx, image.Request{Base: req.Base, Packages: req.Packages, Progress: req.Progress})
		return environment.BaseImage{
			Digest: img.Digest, Layers: img.Layers, Image: snapshot.Image{Env: img.Env, User: img.User}, Installed: true,
			Family: img.OS.ID, Cached: img.Created.Before(start),
		}, err
	}
	w.start()
	t.Cleanup(w.stop)
	return w
}

func TestForReal(t *testing.T) {
	w := realWorld(t)
	w.commit(map[string]string{"drydock.yaml": realRecipe, ".gitignore": "deps/\n", "code.txt": "code\n"})
	b := w.build(environment.BuildRequest{})
	if b.State != core.BuildDone {
		t.Fatalf("build ended as %+v, failure %+v\n%s", b, b.Failure, w.logOf(b.ID))
	}
	for _, p := range b.Phases {
		t.Logf("%-20s %6d ms  %s", p.Name, p.Duration.Milliseconds(), p.Detail)
	}
	again := w.build(environment.BuildRequest{Name: "shop"})
	if again.Snapshot != b.Snapshot || !slices.Contains(phases(again), environment.PhaseUnchanged) {
		t.Errorf("unchanged: %+v", again)
	}
	rec := w.recipe()
	start := time.Now()
	m := w.launch(environment.LaunchRequest{
		Recipe: &rec, StartServices: true, Report: func(p core.Phase) { t.Logf("launch: %-20s %6d ms", p.Name, p.Duration.Milliseconds()) },
	})
	t.Logf("launched in %s", time.Since(start))
	start = time.Now()
	if fresh, ok, err := m.Stand(t.Context(), environment.Standing{Commit: w.run("rev-parse", "HEAD"), Branch: "drydock/work", Base: "main"}); !ok || err != nil || len(fresh) > 0 {
		t.Errorf("the workspace stands on its commit: %v, new %v, error %v", ok, fresh, err)
	}
	t.Logf("stands after %s", time.Since(start))
	if got := w.as(m, "nobody", "git symbolic-ref HEAD; find .git ! -user nobody"); got != "refs/heads/drydock/work" {
		t.Errorf("the user finds %q", got)
	}
	if got := w.as(m, "nobody", "cat deps/who deps/status code.txt; redis-cli ping; git status --porcelain; git log --format=%s; touch mine; stat -c %U .git/HEAD mine"); got != "nobody\ncode\nPONG\nchange\nnobody\nnobody" {
		t.Errorf("the sandbox says %q", got)
	}
	w.shell(m, "echo theirs >/etc/theirs; chmod 600 /etc/theirs")
	for _, name := range []string{"/workspace/new/dir/file", "/tmp/of/agent", "/etc/theirs"} {
		if err := m.Guest().WriteFileAs(t.Context(), m.User(), name, 0, strings.NewReader("x")); err != nil {
			t.Error(err)
		}
	}
	const theirs = "/workspace/new/dir /workspace/new/dir/file /tmp /tmp/of /tmp/of/agent /etc/theirs"
	if got := w.shell(m, "stat -c '%U %a' "+theirs); got != "nobody 755\nnobody 644\nroot 1777\nnobody 755\nnobody 644\nroot 600" {
		t.Errorf("what was written for the user belongs to %q", got)
	}
	w.shell(m, "rm -r /workspace/new")
	h, err := m.Harvest(t.Context())
	if err != nil || !h.Dirty || h.Bundle == nil {
		t.Fatalf("harvested %+v, error %v", h, err)
	}
	mir, err := w.mirror(t.Context(), w.repo)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := mir.FetchBundle(t.Context(), h.Bundle, environment.WipRef, "refs/drydock/x"); err != nil || got != h.Commit {
		t.Errorf("fetched %s, error %v", got, err)
	}
	if err := h.Bundle.Close(); err != nil {
		t.Error(err)
	}
	if got := w.as(m, "nobody", "git add mine; git -c user.name=a -c user.email=b commit -qm mine; git log -1 --format=%s"); got != "mine" {
		t.Errorf("after a harvest the user cannot commit: %q", got)
	}
	w.shell(m, "redis-cli set kept yes >/dev/null; echo work >work.txt")
	row, err := m.Freeze(t.Context(), snapshot.Draft{}, environment.FreezeOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	m = w.launch(environment.LaunchRequest{Snapshot: row.ID, Recipe: &rec, StartServices: true})
	start = time.Now()
	if got := w.as(m, "nobody", "cat work.txt; git log -1 --format=%s; git status --porcelain"); got != "work\nmine\n?? work.txt" {
		t.Errorf("the next sandbox says %q", got)
	}
	t.Logf("git status after a restore took %s", time.Since(start))
	if err := m.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.leftovers()
}

func TestBuildOutOfMemoryForReal(t *testing.T) {
	w := realWorld(t)
	w.commit(map[string]string{"drydock.yaml": `base: debian:bookworm
packages: [git, redis-server, python3]
setup: |
  echo before
  python3 -c 'x = bytearray(900 << 20); print(len(x))'
limits: {memory: 400MiB}
`})
	b := w.build(environment.BuildRequest{})
	if b.State != core.BuildFailed || b.Failure.Code != "out_of_memory" || !strings.Contains(b.Failure.Message, "400 MiB") {
		t.Errorf("build ended as %+v, failure %+v", b, b.Failure)
	}
	w.leftovers()
}
