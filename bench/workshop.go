package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"drydock/examples"
	"drydock/internal/config"
	"drydock/internal/core"
	"drydock/internal/execution/environment"
	"drydock/internal/execution/environment/recipe"
	"drydock/internal/execution/image"
	"drydock/internal/execution/snapshot"
	"drydock/internal/gitcmd"
	"drydock/internal/gitcmd/mirror"
)

// workshop builds environments with the parts of base.
type workshop struct {
	*base
	git     *gitcmd.Git
	builder *environment.Builder
	images  *image.Store
	dir     string
	ended   chan struct{}                         // something became of a build
	mirrors map[core.EnvironmentID]*mirror.Mirror // used by one build at a time
}

func (b *bench) workshop(ctx context.Context) (*workshop, error) {
	w, err := b.sandboxes(ctx)
	if err != nil {
		return nil, err
	}
	s := &workshop{base: w, dir: filepath.Join(b.dir, "w"), ended: make(chan struct{}, 1), mirrors: map[core.EnvironmentID]*mirror.Mirror{}}
	if err := os.MkdirAll(filepath.Join(s.dir, "builds"), 0o700); err != nil {
		return nil, err
	}
	if s.git, err = gitcmd.New(gitcmd.Options{Environ: config.Environ(), Pass: gitcmd.HostVariables()}); err != nil {
		return nil, err
	}
	dir, err := imageDir()
	if err != nil {
		return nil, err
	}
	if s.images, err = image.New(image.Options{Dir: dir, Environ: config.Environ()}); err != nil {
		return nil, err
	}
	s.builder, err = environment.NewBuilder(environment.BuilderDeps{
		DB: w.db, Launcher: w.launcher, Snapshots: w.snaps, Log: b.log, Mirror: s.mirror, Base: s.image,
		Append: func(_ context.Context, _ string, events ...core.Event) error { s.hear(events); return nil },
	}, environment.BuilderOptions{Dir: filepath.Join(s.dir, "builds"), Workers: 1})
	if err != nil {
		return nil, err
	}
	return s, s.builder.Start(ctx)
}

func (s *workshop) hear(events []core.Event) {
	for _, e := range events {
		if e.Kind == core.EventBuildState {
			select {
			case s.ended <- struct{}{}:
			default:
			}
		}
	}
}

func (s *workshop) mirror(ctx context.Context, env core.Environment) (*mirror.Mirror, error) {
	if m := s.mirrors[env.ID]; m != nil {
		return m, nil
	}
	m, err := mirror.Open(ctx, mirror.Options{Git: s.git, Dir: filepath.Join(s.dir, string(env.ID)+".git"), Source: env.Source})
	s.mirrors[env.ID] = m
	return m, err
}

func (s *workshop) image(ctx context.Context, req environment.BaseRequest) (environment.BaseImage, error) {
	start := time.Now()
	img, err := s.images.Ensure(ctx, image.Request{Base: req.Base, Packages: req.Packages, Progress: req.Progress, Refresh: req.Fresh})
	return environment.BaseImage{
		Digest: img.Digest, Layers: img.Layers, Installed: true, Family: img.OS.ID, Cached: img.Created.Before(start),
		Image: snapshot.Image{Env: img.Env, User: img.User},
	}, err
}

// build carries out one build; a fresh one makes the base image too.
func (s *workshop) build(ctx context.Context, name, source string, fresh bool) (core.Build, error) {
	queued, err := s.builder.Build(ctx, environment.BuildRequest{Name: name, Source: source, Fresh: fresh, By: core.Author{Name: "Bench", Email: "bench@example.com"}})
	if err != nil {
		return queued, err
	}
	tick := time.NewTicker(50 * time.Millisecond) // an event may come before its row is written
	defer tick.Stop()
	for {
		got, err := s.db.Build(ctx, queued.ID)
		switch {
		case err != nil:
			return got, err
		case got.State == core.BuildDone:
			return got, nil
		case core.BuildTable.Final(got.State):
			return got, fmt.Errorf("build of %s: %s %+v", name, got.State, got.Failure)
		}
		select {
		case <-s.ended:
		case <-tick.C:
		case <-ctx.Done():
			return got, ctx.Err()
		}
	}
}

// recipe reads what an environment was built from.
func (s *workshop) recipe(ctx context.Context, b core.Build) (recipe.Recipe, error) {
	env, err := s.db.Environment(ctx, string(b.Environment))
	if err != nil {
		return recipe.Recipe{}, err
	}
	m, err := s.mirror(ctx, env)
	if err != nil {
		return recipe.Recipe{}, err
	}
	r, _, err := environment.ReadRecipe(ctx, m, b.Commit)
	return r, err
}

// chroot runs a script on layers without any isolation worth the name: an
// overlay mount, a mount, a network and a process namespace, and chroot. What
// the script started dies with it.
func (s *workshop) chroot(ctx context.Context, layers []string, fill func(root string) error, script string) (took time.Duration, err error) {
	took, _, err = s.chrooted(ctx, layers, fill, script)
	return took, err
}

// outside does a piece of work in a chroot, n times.
func (s *workshop) outside(ctx context.Context, layers []string, run string, n int) (series, error) {
	_, out, err := s.chrooted(ctx, layers, nil, timesOf(run, n))
	if err != nil {
		return nil, err
	}
	return readTimes(out)
}

// chrooted is chroot with what the script printed.
func (s *workshop) chrooted(ctx context.Context, layers []string, fill func(root string) error, script string) (took time.Duration, printed string, err error) {
	dir, err := os.MkdirTemp(s.dir, "chroot-")
	if err != nil {
		return 0, "", err
	}
	start := time.Now()
	root, upper, work := filepath.Join(dir, "root"), filepath.Join(dir, "upper"), filepath.Join(dir, "work")
	for _, d := range []string{root, upper, work} {
		if err := os.Mkdir(d, 0o755); err != nil {
			return 0, "", err
		}
	}
	if err := unix.Mount("overlay", root, "overlay", 0, fmt.Sprintf("lowerdir=%s,upperdir=%s,workdir=%s,redirect_dir=on", strings.Join(layers, ":"), upper, work)); err != nil {
		return 0, "", fmt.Errorf("overlay mount: %w", err)
	}
	defer func() {
		if unmountErr := unix.Unmount(root, 0); unmountErr != nil {
			err = errors.Join(err, unmountErr)
			return // what is below is still in use
		}
		err = errors.Join(err, os.RemoveAll(dir))
	}()
	if fill != nil {
		if err := fill(root); err != nil {
			return 0, "", err
		}
	}
	cmd := exec.CommandContext(ctx, "unshare", "--mount", "--net", "--pid", "--fork", "--kill-child", "sh", "-e", "-c",
		`ip link set lo up; mount --rbind /dev "$1/dev"; mount -t proc proc "$1/proc"; exec chroot "$1" bash -e -c "$2"`, "sh", root, script)
	cmd.Env = []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root", "LANG=C.UTF-8"}
	out, err := cmd.CombinedOutput()
	took = time.Since(start)
	if err != nil {
		return 0, "", fmt.Errorf("in a chroot: %w: %s", err, tail(string(out)))
	}
	return took, string(out), nil
}

func tail(s string) string {
	if len(s) > 2000 {
		s = s[len(s)-2000:]
	}
	return strings.TrimSpace(s)
}

// repository makes one of files; commits of the same files are equal.
func (s *workshop) repository(ctx context.Context, dir string, files map[string]string) error {
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			return err
		}
	}
	if _, err := os.Stat(filepath.Join(dir, ".git")); err != nil {
		if err := s.gitDo(ctx, dir, "init", "-q", "-b", "main", "."); err != nil {
			return err
		}
	}
	if err := s.gitDo(ctx, dir, "add", "-A"); err != nil {
		return err
	}
	return s.gitDo(ctx, dir, "commit", "-q", "--no-gpg-sign", "-m", "State of the files")
}

var who = []string{
	"GIT_AUTHOR_NAME=Bench", "GIT_AUTHOR_EMAIL=bench@example.com", "GIT_COMMITTER_NAME=Bench", "GIT_COMMITTER_EMAIL=bench@example.com",
}

func (s *workshop) gitDo(ctx context.Context, dir string, args ...string) error {
	_, err := s.git.Output(ctx, gitcmd.Call{Dir: dir, Env: who, Args: args})
	return err
}

const smallRecipe = `base: debian:bookworm
packages: [git, redis-server, python3]
setup: |
  mkdir deps
  python3 -c 'import zipfile, json, http.server' && echo made >deps/made
services:
  cache: {run: redis-server --save '' --appendonly no --dir /tmp, ready: redis-cli ping, port: 6379}
  web:   {run: exec python3 -m http.server 8000, ready: "http://127.0.0.1:8000/code.txt", port: 8000}
warm: {run: redis-cli set warmed yes}
`

// smallScript is the same by hand, in the checkout.
const smallScript = `
cd /workspace
mkdir deps
python3 -c 'import zipfile, json, http.server' && echo made >deps/made
redis-server --save '' --appendonly no --dir /tmp >/dev/null 2>&1 &
python3 -m http.server 8000 >/dev/null 2>&1 &
until redis-cli ping >/dev/null 2>&1; do sleep 0.02; done
until (exec 3<>/dev/tcp/127.0.0.1/8000) 2>/dev/null; do sleep 0.02; done
redis-cli set warmed yes >/dev/null
redis-cli shutdown nosave || true
kill %2
git status --porcelain >/dev/null
`

// benchBuild builds a small repository with services: cold means that its
// commit is new and the base image is there already.
func benchBuild(ctx context.Context, b *bench) error {
	s, err := b.workshop(ctx)
	if err != nil {
		return err
	}
	defer s.builder.Close()
	repo := filepath.Join(s.dir, "small")
	files := map[string]string{"drydock.yaml": smallRecipe, ".gitignore": "deps/\n", "code.txt": "0\n"}
	if err := s.repository(ctx, repo, files); err != nil {
		return err
	}
	if _, err := s.build(ctx, "small", repo, false); err != nil { // makes the base image
		return err
	}
	base, err := s.image(ctx, environment.BaseRequest{Base: "debian:bookworm", Packages: []string{"git", "redis-server", "python3"}})
	if err != nil {
		return err
	}
	var scratch, byHand, cached, asked, changed, locked series
	spent := newParts()
	n := 0
	// timed is one build; what it took is noted under a name.
	timed := func(name string, into *series, env string) error {
		start := time.Now()
		built, err := s.build(ctx, env, repo, false)
		if err != nil {
			return err
		}
		into.took(time.Since(start))
		for _, p := range built.Phases {
			spent.note(name+p.Name, p.Duration)
		}
		return nil
	}
	var none series
	err = turns(ctx, b.times(5, 2), func(count bool) error {
		n++
		to := func(s *series) *series {
			if count {
				return s
			}
			return &none
		}
		if err := s.repository(ctx, repo, map[string]string{"code.txt": fmt.Sprintln(n)}); err != nil {
			return err
		}
		if err := timed("changed ", to(&changed), "small"); err != nil {
			return err
		}
		if err := timed("cached ", to(&cached), "small"); err != nil {
			return err
		}
		if err := s.repository(ctx, repo, map[string]string{"package-lock.json": fmt.Sprintln(n)}); err != nil {
			return err
		}
		if err := timed("locked ", to(&locked), "small"); err != nil {
			return err
		}
		return timed("", to(&scratch), fmt.Sprint("small-", n)) // nothing to go on from
	}, func(count bool) error {
		took, err := s.chroot(ctx, base.Layers, func(root string) error {
			return s.gitDo(ctx, s.dir, "clone", "-q", "--no-hardlinks", repo, filepath.Join(root, "workspace"))
		}, smallScript)
		if err != nil || !count {
			return err
		}
		byHand.took(took)
		start := time.Now()
		err = s.gitDo(ctx, s.dir, "ls-remote", "-q", repo)
		asked.took(time.Since(start))
		return err
	})
	if err != nil {
		return err
	}
	b.rebuilds(scratch, byHand, changed, locked, cached, asked, spent)
	return nil
}

// rebuilds adds the rows of builds that had something to go on from, and of
// those that had not.
func (b *bench) rebuilds(scratch, byHand, changed, locked, cached, asked series, spent *parts) {
	b.add(against("build: from scratch, base image there", "ms", scratch, byHand, "the floor is clone, set-up, services and warm-up in a chroot of the same layers, nothing kept"))
	for _, name := range []string{environment.PhaseFetch, environment.PhaseSandbox, environment.PhaseSetup, environment.PhaseCheckout, environment.PhaseRecipeRun, environment.PhaseServices, environment.PhaseWarm, environment.PhaseStop, environment.PhaseSnapshot, environment.PhaseMemory} {
		b.add(alone("build: part "+name, "ms", spent.take(name), ""))
	}
	b.add(against("build: one changed file, against from scratch", "ms", changed, scratch, "set-up is left out; services, warm-up and memory image are not"))
	b.add(against("build: a changed lock file, against from scratch", "ms", locked, scratch, "set-up runs again"))
	b.add(against("build: nothing changed, against git ls-remote", "ms", cached, asked, "the floor is git ls-remote of the source"))
	for _, name := range []string{environment.PhaseFetch, environment.PhaseRecipe, environment.PhaseBase} {
		b.add(alone("build: nothing changed, part "+name, "ms", spent.take("cached "+name), ""))
	}
}

// shopScript starts the services of examples/shop by hand.
const shopScript = `
cd /workspace
pg_ctlcluster 15 main start --foreground >/dev/null 2>&1 &
redis-server --save "" --appendonly no >/dev/null 2>&1 &
until pg_isready -q; do sleep 0.02; done
until redis-cli ping >/dev/null 2>&1; do sleep 0.02; done
exec node server.js >/dev/null 2>&1 &
until (exec 3<>/dev/tcp/127.0.0.1/3000; printf 'GET /healthz HTTP/1.0\r\n\r\n' >&3; read -r line <&3; [[ $line == *" 200"* ]]) 2>/dev/null; do sleep 0.02; done
`

// shop builds examples/shop; a second call finds nothing changed.
func (s *workshop) shop(ctx context.Context) (core.Build, error) {
	repo := filepath.Join(s.dir, "shop")
	if _, err := os.Stat(repo); err != nil {
		if err := s.shopFiles(ctx, repo); err != nil {
			return core.Build{}, err
		}
	}
	return s.build(ctx, "shop", repo, false)
}

// shopFiles makes a repository of examples/shop.
func (s *workshop) shopFiles(ctx context.Context, repo string) error {
	files := map[string]string{}
	err := fs.WalkDir(examples.Shop, "shop", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := examples.Shop.ReadFile(path)
		files[strings.TrimPrefix(path, "shop/")] = string(data)
		return err
	})
	if err != nil {
		return err
	}
	return s.repository(ctx, repo, files)
}

// benchShop starts a database, a cache and a web server from a snapshot.
func benchShop(ctx context.Context, b *bench) error {
	s, err := b.workshop(ctx)
	if err != nil {
		return err
	}
	defer s.builder.Close()
	start := time.Now()
	built, err := s.shop(ctx)
	if err != nil {
		return err
	}
	var build series
	build.took(time.Since(start))
	rec, err := s.recipe(ctx, built)
	if err != nil {
		return err
	}
	layers, release, err := s.snaps.Acquire(ctx, built.Snapshot)
	if err != nil {
		return err
	}
	defer release()
	spent := newParts()
	var ours, floor series
	err = turns(ctx, b.times(7, 2), func(count bool) error {
		m, err := s.launcher.Launch(ctx, environment.LaunchRequest{
			Snapshot: built.Snapshot, Purpose: environment.PurposeSession, Owner: "bench", Recipe: &rec, Policy: &rec.Network, Limits: rec.Limits, FilesOnly: true,
		})
		if err != nil {
			return err
		}
		defer func() { _ = m.Close(context.WithoutCancel(ctx)) }()
		start := time.Now()
		states, err := m.StartServices(ctx)
		if err != nil || !count {
			return err
		}
		ours.took(time.Since(start))
		for _, st := range states {
			spent.note(st.Name, st.Since.Sub(start))
		}
		return nil
	}, func(count bool) error {
		took, err := s.chroot(ctx, layers, nil, shopScript)
		if count {
			floor.took(took)
		}
		return err
	})
	if err != nil {
		return err
	}
	b.add(alone("shop: build, once, base image perhaps too", "ms", build, strings.Join(phases(built), ", ")))
	b.add(against("shop: services ready", "ms", ours, floor, "the floor is the same services in a chroot of the same layers"))
	for _, name := range []string{"db", "cache", "web"} {
		b.add(alone("shop: part until "+name+" is ready", "ms", spent.take(name), ""))
	}
	return nil
}

func phases(b core.Build) []string {
	var out []string
	for _, p := range b.Phases {
		out = append(out, fmt.Sprintf("%s %d", p.Name, p.Duration.Milliseconds()))
	}
	return out
}
