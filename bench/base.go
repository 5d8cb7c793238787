package main

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"drydock/internal/config"
	"drydock/internal/containment"
	"drydock/internal/containment/registries"
	"drydock/internal/core"
	"drydock/internal/execution/environment"
	"drydock/internal/execution/guest"
	"drydock/internal/execution/image"
	"drydock/internal/execution/retention"
	"drydock/internal/execution/sandbox"
	"drydock/internal/execution/sandbox/runsc"
	"drydock/internal/execution/snapshot"
	"drydock/internal/execution/snapshot/overlay"
	"drydock/internal/store"
)

// base is what sandboxes are made with: the real network, driver, database,
// snapshots and launcher, wired as the daemon does it.
type base struct {
	dir      string
	image    image.Image
	network  *containment.Network
	driver   *runsc.Driver
	db       *store.DB
	snaps    *overlay.Store
	launcher *environment.Launcher
	raw      *raw
	parts    *parts
}

// parts collects the durations that the driver logs of each start.
type parts struct {
	slog.Handler
	mu    sync.Mutex
	spent map[string]series
	order []string
}

func newParts() *parts { return &parts{Handler: slog.DiscardHandler, spent: map[string]series{}} }

// Enabled implements slog.Handler.
func (p *parts) Enabled(context.Context, slog.Level) bool { return true }

// Handle implements slog.Handler.
func (p *parts) Handle(_ context.Context, r slog.Record) error {
	r.Attrs(func(a slog.Attr) bool {
		if a.Value.Kind() == slog.KindDuration {
			p.note(a.Key, a.Value.Duration())
		}
		return true
	})
	return nil
}

func (p *parts) note(name string, d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s, known := p.spent[name]
	if !known {
		p.order = append(p.order, name)
	}
	s.took(d)
	p.spent[name] = s
}

// names are in the order in which they were first heard of.
func (p *parts) names() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.order)
}

func (p *parts) take(name string) series {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.spent[name]
}

func (p *parts) reset() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.spent, p.order = map[string]series{}, nil
}

func imageDir() (string, error) {
	cache, err := os.UserCacheDir()
	return filepath.Join(cache, "drydock", "test-images"), err
}

// baseSuite is the image of the sandboxes that are only started.
const baseSuite = "debian:bookworm"

// sandboxes opens what sandboxes are made with, once.
func (b *bench) sandboxes(ctx context.Context) (*base, error) {
	if b.base != nil {
		return b.base, nil
	}
	w := &base{dir: filepath.Join(b.dir, "s"), parts: newParts()}
	b.base = w // from here on close finds it
	dir, err := imageDir()
	if err != nil {
		return nil, err
	}
	images, err := image.New(image.Options{Dir: dir, Environ: config.Environ()})
	if err != nil {
		return nil, err
	}
	b.say("base image %s (made once, kept in %s)", baseSuite, dir)
	if w.image, err = images.Ensure(ctx, image.Request{Base: baseSuite}); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(w.dir, 0o700); err != nil {
		return nil, err
	}
	found := registries.Read(ctx, registries.Options{Environ: config.Environ()})
	if w.network, err = containment.Open(ctx, containment.Deps{Log: b.log}, containment.Options{
		StateDir: w.dir, Registries: containment.Endpoints(found),
	}); err != nil {
		return nil, err
	}
	if w.driver, err = runsc.New(runsc.Deps{Network: w.network, Log: slog.New(w.parts)}, runsc.Options{
		Runsc: b.runsc, Init: b.init, StateDir: filepath.Join(w.dir, "run"), Instance: w.network.Instance(),
	}); err != nil {
		return nil, err
	}
	if w.db, err = store.Open(ctx, store.Options{Path: filepath.Join(w.dir, "bench.db")}); err != nil {
		return nil, err
	}
	if w.snaps, err = overlay.New(overlay.Deps{
		Rows: w.db, Log: b.log, Uses: func(ctx context.Context) ([]snapshot.Use, error) {
			return retention.Uses(ctx, w.db, retention.Default(), time.Now())
		},
	}, overlay.Options{Dir: filepath.Join(w.dir, "layers")}); err != nil {
		return nil, err
	}
	w.launcher = environment.NewLauncher(environment.LauncherDeps{
		Driver: w.driver, Snapshots: w.snaps, Rows: w.db, Log: b.log,
		Settings: func(context.Context, *core.NetworkPolicy, sandbox.Handle) (environment.Settings, error) {
			out := environment.Settings{Env: found.Env}
			for _, f := range found.Files(registries.Target{Distribution: w.image.OS.ID, Suite: w.image.OS.Codename}) {
				out.Files = append(out.Files, guest.SetupFile{Path: f.Path, Mode: 0o644, Data: f.Data})
			}
			return out, nil
		},
	}, environment.LauncherOptions{})
	w.raw, err = newRaw(b.runsc, filepath.Join(b.dir, "r"))
	return w, err
}

// close removes every sandbox and the network.
func (w *base) close(ctx context.Context) error {
	var errs []error
	if w.launcher != nil {
		errs = append(errs, w.launcher.Close())
	}
	if w.driver != nil {
		ids, err := w.driver.List(ctx)
		errs = append(errs, err)
		for _, id := range ids {
			errs = append(errs, w.driver.Destroy(ctx, id))
		}
		errs = append(errs, w.driver.Close())
	}
	if w.raw != nil {
		errs = append(errs, w.raw.close(ctx))
	}
	if w.network != nil {
		errs = append(errs, w.network.Teardown(ctx))
	}
	if w.db != nil {
		errs = append(errs, w.db.Close())
	}
	return errors.Join(errs...)
}

// limits of every sandbox that is measured, ours and raw.
var limits = core.Limits{CPU: 2, Memory: 1 << 30, Pids: 2000}

func policy() *core.NetworkPolicy { return &core.NetworkPolicy{Allow: []string{"registries"}} }
