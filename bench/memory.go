package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	specs "github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"

	"drydock/internal/core"
	"drydock/internal/execution/environment"
	"drydock/internal/execution/environment/recipe"
	"drydock/internal/execution/guest"
	"drydock/internal/execution/sandbox"
	"drydock/internal/execution/sandbox/runsc"
	"drydock/internal/execution/snapshot"
)

// shopPorts are where the services of examples/shop answer.
var shopPorts = []int{5432, 6379, 3000}

// live is the environment whose services run in its memory image.
type live struct {
	*workshop
	snap   core.SnapshotID
	recipe recipe.Recipe
	image  sandbox.Image
	layers []string
	config specs.Spec // that the driver wrote for a restored sandbox
	build  core.Build
}

// live builds it, once for all groups that need it.
func (b *bench) live(ctx context.Context) (*live, error) {
	if b.shop != nil {
		return b.shop, nil
	}
	s, err := b.workshop(ctx)
	if err != nil {
		return nil, err
	}
	built, err := s.shop(ctx)
	if err != nil {
		return nil, err
	}
	l := &live{workshop: s, snap: built.Snapshot, build: built}
	if l.recipe, err = s.recipe(ctx, built); err != nil {
		return nil, err
	}
	src, release, err := s.snaps.AcquireMemory(ctx, l.snap)
	if err != nil {
		return nil, err
	}
	release()
	l.image, l.layers = src.Image, src.Layers
	m, err := l.restore(ctx, false)
	if err != nil {
		return nil, err
	}
	if l.config, err = s.written(m.ID()); err != nil {
		return nil, err
	}
	b.shop = l
	return l, m.Close(ctx)
}

// restore launches a sandbox and waits until the services answer.
func (l *live) restore(ctx context.Context, files bool) (*environment.Machine, error) {
	m, err := l.launcher.Launch(ctx, environment.LaunchRequest{
		Snapshot: l.snap, Purpose: environment.PurposeSession, Owner: "bench", Recipe: &l.recipe, Policy: &l.recipe.Network,
		Limits: l.recipe.Limits, StartServices: files, FilesOnly: files, Report: func(p core.Phase) { l.parts.note(p.Name, p.Duration) },
		Warn: func(w core.WarningData) { err := errors.New(w.Message); l.parts.note("fallback: "+err.Error(), 0) },
	})
	if err != nil {
		return nil, err
	}
	if want := map[bool]string{true: environment.FromFiles, false: environment.FromMemory}[files]; m.From() != want {
		return nil, errors.Join(fmt.Errorf("the sandbox was started from %s, not from %s: %v", m.From(), want, l.parts.names()), m.Close(ctx))
	}
	return m, reachAll(ctx, m.Guest())
}

func reachAll(ctx context.Context, g *guest.Client) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for _, port := range shopPorts {
		for {
			err := g.Reach(ctx, port)
			if err == nil {
				break
			}
			select { // listeners are put back one after the other
			case <-tick.C:
			case <-ctx.Done():
				return err
			}
		}
	}
	return nil
}

// stand does what a session does first where the base has not moved.
func (l *live) stand(ctx context.Context, m *environment.Machine) (took time.Duration, err error) {
	began := time.Now()
	_, ok, err := m.Stand(ctx, environment.Standing{Commit: l.build.Commit, Branch: "drydock/bench", Base: "main"})
	if err == nil && !ok {
		err = errors.New("the workspace does not stand on its commit")
	}
	return time.Since(began), err
}

// rawRestore is what is measured: an overlay mount, runsc restore, and the same
// questions.
func (r *raw) restore(ctx context.Context, x *rawBox, layers []string, config specs.Spec, image sandbox.Image) error {
	if err := r.lay(x, layers, config); err != nil {
		return err
	}
	if err := r.runsced(ctx, x, "restore", "--image-path="+image.Dir); err != nil {
		return err
	}
	x.token = image.Token
	if err := answers(ctx, x.guest, x.token); err != nil {
		return err
	}
	g := guest.NewTCPClient(x.guest, x.token)
	defer g.Close()
	return reachAll(ctx, g)
}

func benchMemory(ctx context.Context, b *bench) error {
	l, err := b.live(ctx)
	if err != nil {
		return err
	}
	var ours, raws, files, ownMem, rawMem, stands series
	l.parts.reset()
	err = turns(ctx, b.times(20, 3), func(count bool) error {
		began := time.Now()
		m, err := l.restore(ctx, false)
		if err != nil {
			return err
		}
		if count {
			ours.took(time.Since(began))
		} else {
			l.parts.reset()
		}
		s, err := m.Status(ctx)
		if count {
			ownMem = append(ownMem, float64(s.Memory)/(1<<20))
		}
		took, standErr := l.stand(ctx, m)
		if count {
			stands.took(took)
		}
		return errors.Join(err, standErr, m.Close(ctx))
	}, func(count bool) error {
		x, err := l.raw.box(ctx)
		if err != nil {
			return err
		}
		began := time.Now()
		if err := l.raw.restore(ctx, x, l.layers, l.config, l.image); err != nil {
			return err
		}
		if count {
			raws.took(time.Since(began))
			rawMem = append(rawMem, groupMemory(l.raw.name+"/"+x.id))
		}
		return errors.Join(l.raw.stop(ctx, x), l.raw.forget(ctx, x))
	})
	if err != nil {
		return err
	}
	parts := map[string]series{}
	for _, name := range l.parts.names() {
		parts[name] = l.parts.take(name)
	}
	r := against("memory: Postgres, Redis and a web server answer, from a memory image", "ms", ours, raws, "the floor is runsc restore of the same image and the same questions")
	b.add(r.below(1.3, "ratio", *r.Ratio))
	for _, name := range []string{"prepare", "runsc", "init", environment.PhaseRestore, environment.PhaseSetup} {
		b.add(alone("memory: part "+name, "ms", parts[name], ""))
	}
	b.add(alone("memory: catching up at the snapshot's commit, after it", "ms", stands, standNote))
	more := difference("memory: of one idle clone, above raw", "MiB", ownMem, rawMem, "of its control group: gVisor, file server and all that runs in it")
	b.add(more.below(5, "value", more.Value))

	for range b.times(5, 1) {
		began := time.Now()
		m, err := l.restore(ctx, true)
		if err != nil {
			return err
		}
		files.took(time.Since(began))
		if err := m.Close(ctx); err != nil {
			return err
		}
	}
	r = against("memory: the same, against starting the services from files", "ms", ours, files, "the floor is the same snapshot without its memory image")
	b.add(r.below(0.1, "ratio", *r.Ratio))
	var scratch series
	for _, p := range l.build.Phases {
		if p.Name != environment.PhaseBase && p.Name != environment.PhaseMemory && p.Name != environment.PhaseSnapshot {
			scratch = append(scratch, float64(p.Duration.Microseconds())/1000)
		}
	}
	total := series{sum(scratch)}
	r = against("memory: the same, against clone, install, services and warm-up", "ms", ours, total, "the floor is the build of the environment, once, without its base image")
	b.add(r.below(0.01, "ratio", *r.Ratio))
	return nil
}

const standNote = "the branch is made, and git asked once what it sees"

func sum(s series) (out float64) {
	for _, v := range s {
		out += v
	}
	return out
}

// groupMemory reads what a control group uses, in MiB.
func groupMemory(group string) float64 {
	for _, path := range []string{"/sys/fs/cgroup/memory/" + group + "/memory.usage_in_bytes", "/sys/fs/cgroup/" + group + "/memory.current"} {
		data, err := os.ReadFile(path)
		if err != nil {
			continue
		}
		var n float64
		if _, err := fmt.Sscan(strings.TrimSpace(string(data)), &n); err == nil {
			return n / (1 << 20)
		}
	}
	return 0
}

// benchFork measures how long a sandbox stands still while it is forked.
func benchFork(ctx context.Context, b *bench) error {
	l, err := b.live(ctx)
	if err != nil {
		return err
	}
	m, err := l.restore(ctx, false)
	if err != nil {
		return err
	}
	defer func() { _ = m.Close(context.WithoutCancel(ctx)) }()
	var paused, raws series
	var snaps []core.SnapshotID
	n := 0
	err = turns(ctx, b.times(10, 2), func(count bool) error {
		row, err := m.Freeze(ctx, snapshot.Draft{}, environment.FreezeOptions{Memory: true, Resume: true, Paused: func(d time.Duration) {
			if count {
				paused.took(d)
			}
		}})
		snaps = append(snaps, row.ID)
		return errors.Join(err, reachAll(ctx, m.Guest()))
	}, func(count bool) error {
		x, err := l.raw.box(ctx)
		if err != nil {
			return err
		}
		if err := l.raw.restore(ctx, x, l.layers, l.config, l.image); err != nil {
			return err
		}
		n++
		image := sandbox.Image{Dir: filepath.Join(l.raw.dir, fmt.Sprint("image-", n)), Token: x.token}
		began := time.Now()
		if err := command(ctx, l.raw.runsc, "--root="+filepath.Join(l.raw.dir, "runsc"), "checkpoint", "--image-path="+image.Dir, x.id); err != nil {
			return err
		}
		took := time.Since(began)
		// A namespace cannot be used again as it is: another one, and not counted.
		y, err := l.raw.box(ctx)
		if err != nil {
			return err
		}
		upper := filepath.Join(x.dir, "upper")
		began = time.Now()
		if err := l.raw.restore(ctx, y, append([]string{upper}, l.layers...), l.config, image); err != nil {
			return err
		}
		if count {
			raws.took(took + time.Since(began))
		}
		return errors.Join(l.raw.stop(ctx, y), l.raw.forget(ctx, y), l.raw.stop(ctx, x), l.raw.forget(ctx, x), os.RemoveAll(image.Dir))
	})
	if err != nil {
		return err
	}
	r := against("fork: the parent stands still", "ms", paused, raws, "the floor is runsc checkpoint and restore of the same sandbox")
	b.add(r.below(1.3, "ratio", *r.Ratio))
	still := alone("fork: the parent stands still, in all", "ms", paused, "")
	b.add(still.below(500, "value", still.Value))
	return nil
}

const together = 20

// benchClones restores many sandboxes at once.
func benchClones(ctx context.Context, b *bench) error {
	l, err := b.live(ctx)
	if err != nil {
		return err
	}
	var ours, raws series
	err = turns(ctx, b.times(3, 1), func(count bool) error {
		machines, errs := make([]*environment.Machine, together), make([]error, together)
		began := time.Now()
		all(func(i int) { machines[i], errs[i] = l.restore(ctx, false) })
		if count {
			ours.took(time.Since(began))
		}
		all(func(i int) {
			if machines[i] != nil {
				errs[i] = errors.Join(errs[i], machines[i].Close(ctx))
			}
		})
		return errors.Join(errs...)
	}, func(count bool) error {
		boxes, errs := make([]*rawBox, together), make([]error, together)
		for i := range boxes {
			var err error
			if boxes[i], err = l.raw.box(ctx); err != nil {
				return err
			}
		}
		began := time.Now()
		all(func(i int) { errs[i] = l.raw.restore(ctx, boxes[i], l.layers, l.config, l.image) })
		if count {
			raws.took(time.Since(began))
		}
		all(func(i int) { errs[i] = errors.Join(errs[i], l.raw.stop(ctx, boxes[i])) })
		for i := range boxes {
			errs[i] = errors.Join(errs[i], l.raw.forget(ctx, boxes[i]))
		}
		return errors.Join(errs...)
	})
	if err != nil {
		return err
	}
	r := against(fmt.Sprintf("clones: %d at once, all answering", together), "ms", ours, raws, "the floor is as many times runsc restore at once")
	b.add(r.below(1.2, "ratio", *r.Ratio))
	return nil
}

func all(do func(i int)) {
	var wg sync.WaitGroup
	for i := range together {
		wg.Go(func() { do(i) })
	}
	wg.Wait()
}

// benchWarm takes sandboxes out of a pool: until the first command is answered,
// against the same command in a sandbox that is there.
func benchWarm(ctx context.Context, b *bench) error {
	l, err := b.live(ctx)
	if err != nil {
		return err
	}
	pool := environment.NewPool(environment.PoolDeps{
		Launcher: l.launcher, Log: b.log,
		Environments: func(ctx context.Context) ([]core.Environment, error) {
			env, err := l.db.Environment(ctx, string(l.build.Environment))
			return []core.Environment{env}, err
		},
		Recipe: func(context.Context, core.Environment) (recipe.Recipe, error) { return l.recipe, nil },
	}, environment.PoolOptions{Max: 1, Min: 1})
	run, stop := context.WithCancel(ctx)
	var running sync.WaitGroup
	running.Go(func() { pool.Run(run) })
	defer running.Wait()
	defer stop()
	idle, err := l.restore(ctx, false)
	if err != nil {
		return err
	}
	defer func() { _ = idle.Close(context.WithoutCancel(ctx)) }()
	truth := guest.Command{Argv: []string{"/usr/bin/true"}}
	var ours, floor, stands series
	err = turns(ctx, b.times(20, 3), func(count bool) error {
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		for pool.Counts()[l.build.Environment] == 0 {
			select {
			case <-tick.C:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		began := time.Now()
		m, err := l.launcher.Launch(ctx, environment.LaunchRequest{
			Snapshot: l.snap, Purpose: environment.PurposeSession, Owner: "bench", Recipe: &l.recipe, Policy: &l.recipe.Network, Limits: l.recipe.Limits,
			Report: func(p core.Phase) { l.parts.note(p.Name, p.Duration) },
		})
		if err != nil {
			return err
		}
		if _, err := m.Guest().Run(ctx, truth); err != nil {
			return errors.Join(err, m.Close(ctx))
		}
		if count {
			ours.took(time.Since(began))
		}
		if m.From() != environment.FromWarm {
			err = fmt.Errorf("the sandbox was started from %s", m.From())
		}
		took, standErr := l.stand(ctx, m)
		if count {
			stands.took(took)
		}
		return errors.Join(err, standErr, m.Close(ctx))
	}, func(count bool) error {
		began := time.Now()
		_, err := idle.Guest().Run(ctx, truth)
		if count {
			floor.took(time.Since(began))
		}
		return err
	})
	if err != nil {
		return err
	}
	b.add(alone("warm: part "+environment.PhaseClaim, "ms", l.parts.take(environment.PhaseClaim), ""))
	stood := alone("warm: catching up at the snapshot's commit", "ms", stands, standNote)
	b.add(stood.below(60, "value", stood.Value))
	r := difference("warm: until the first command is answered, above an idle sandbox", "ms", ours, floor, "the sandbox gets identity, policy and network")
	b.add(r.below(20, "value", r.Value))
	return nil
}

// lay makes the files of a box.
func (r *raw) lay(x *rawBox, layers []string, config specs.Spec) error {
	root, upper, work := filepath.Join(x.dir, "root"), filepath.Join(x.dir, "upper"), filepath.Join(x.dir, "work")
	for _, dir := range []string{x.dir, root, upper, work} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			return err
		}
	}
	err := unix.Mount("overlay", root, "overlay", unix.MS_NODEV|unix.MS_NOSUID,
		fmt.Sprintf("lowerdir=%s,upperdir=%s,workdir=%s,redirect_dir=on,metacopy=off,index=off", strings.Join(layers, ":"), upper, work))
	if err != nil {
		return fmt.Errorf("overlay mount: %w", err)
	}
	x.mounted = true
	if err := os.MkdirAll(filepath.Join(root, ".drydock"), 0o755); err != nil {
		return err
	}
	return r.writeConfig(x, config)
}

// runsced starts or restores a box.
func (r *raw) runsced(ctx context.Context, x *rawBox, verb ...string) error {
	out, err := os.Create(filepath.Join(x.dir, "output"))
	if err != nil {
		return err
	}
	defer out.Close()
	x.started = true
	args := slices.Concat([]string{
		"--root=" + filepath.Join(r.dir, "runsc"), "--log-format=json", "--log=" + filepath.Join(x.dir, "log"),
	}, runsc.StartFlags(), x.flags, verb)
	args = append(args, "--bundle="+x.dir, "--detach", "--pid-file="+filepath.Join(x.dir, "pid"), x.id)
	cmd := exec.CommandContext(ctx, r.runsc, args...)
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Run(); err != nil {
		said, _ := os.ReadFile(out.Name())
		return fmt.Errorf("runsc %s: %w: %s", verb[0], err, said)
	}
	return nil
}
