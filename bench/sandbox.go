package main

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"time"

	specs "github.com/opencontainers/runtime-spec/specs-go"

	"drydock/internal/core"
	"drydock/internal/execution/environment"
	"drydock/internal/execution/guest"
	"drydock/internal/execution/sandbox"
	"drydock/internal/execution/snapshot"
)

// ownTarget is what Drydock itself may add to a start, in milliseconds.
const ownTarget = 30

// turns runs ours and theirs n times in turn, after one of each that does not
// count. Who is first changes, so that neither always finds a warm machine.
func turns(ctx context.Context, n int, ours, theirs func(count bool) error) error {
	for i := range n + 1 {
		first, second := ours, theirs
		if i%2 == 1 {
			first, second = theirs, ours
		}
		for _, do := range []func(bool) error{first, second} {
			if err := ctx.Err(); err != nil {
				return err
			}
			if err := do(i > 0); err != nil {
				return err
			}
		}
	}
	return nil
}

// starts are the measurements of ours and theirs.
type starts struct{ ours, oursEnd, raw, rawEnd series }

// pair measures starts and ends of sandboxes of the same layers.
func (w *base) pair(ctx context.Context, n int, layers []string, config specs.Spec, start func() (stop func() error, err error)) (starts, error) {
	var s starts
	ours := func(count bool) error {
		began := time.Now()
		stop, err := start()
		if err != nil {
			return err
		}
		took := time.Since(began)
		began = time.Now()
		if err := stop(); err != nil {
			return err
		}
		if count {
			s.ours.took(took)
			s.oursEnd.took(time.Since(began))
		} else {
			w.parts.reset()
		}
		return nil
	}
	theirs := func(count bool) error {
		x, err := w.raw.box(ctx)
		if err != nil {
			return err
		}
		began := time.Now()
		if err := w.raw.start(ctx, x, layers, config); err != nil {
			return err
		}
		took := time.Since(began)
		began = time.Now()
		if err := w.raw.stop(ctx, x); err != nil {
			return err
		}
		if count {
			s.raw.took(took)
			s.rawEnd.took(time.Since(began))
		}
		return w.raw.forget(ctx, x)
	}
	return s, turns(ctx, n, ours, theirs)
}

// written reads the configuration that the driver gave runsc.
func (w *base) written(id core.SandboxID) (specs.Spec, error) {
	var c specs.Spec
	data, err := os.ReadFile(filepath.Join(w.dir, "run", "sandboxes", string(id), "bundle", "config.json"))
	if err != nil {
		return c, err
	}
	return c, json.Unmarshal(data, &c)
}

func (w *base) create(ctx context.Context) (sandbox.Handle, error) {
	return w.driver.Create(ctx, sandbox.Spec{
		ID: core.NewSandboxID(), Purpose: "session", Layers: w.image.Layers, Token: "bench", Limits: limits, Network: policy(),
	})
}

func benchCreate(ctx context.Context, b *bench) error {
	w, err := b.sandboxes(ctx)
	if err != nil {
		return err
	}
	h, err := w.create(ctx)
	if err != nil {
		return err
	}
	config, err := w.written(h.ID)
	if err != nil {
		return err
	}
	if err := w.driver.Destroy(ctx, h.ID); err != nil {
		return err
	}
	s, err := w.pair(ctx, b.times(40, 5), w.image.Layers, config, func() (func() error, error) {
		h, err := w.create(ctx)
		return func() error { return w.driver.Destroy(ctx, h.ID) }, err
	})
	if err != nil {
		return err
	}
	b.starts("create", "until drydock-init answers", "network made and counted here, made before and not counted in the floor", s, w)
	b.add(against("create: destroy", "ms", s.oursEnd, s.rawEnd, "the floor leaves namespace and veth for later"))
	return nil
}

// starts adds the rows that every kind of start has.
func (b *bench) starts(kind, what, note string, s starts, w *base) {
	b.add(against(kind+": "+what, "ms", s.ours, s.raw, note))
	own := difference(kind+": Drydock's own part", "ms", s.ours, s.raw, "median of the differences, pair by pair")
	b.add(own.below(ownTarget, "value", own.Value))
	b.add(alone(kind+": part before runsc", "ms", w.parts.take("prepare"), "record, network and overlay side by side, bundle"))
	b.add(alone(kind+": part of runsc", "ms", w.parts.take("runsc"), ""))
	b.add(alone(kind+": part of drydock-init", "ms", w.parts.take("init"), "until it answers"))
}

func benchRestore(ctx context.Context, b *bench) error {
	w, err := b.sandboxes(ctx)
	if err != nil {
		return err
	}
	snap, err := w.snapshot(ctx)
	if err != nil {
		return err
	}
	req := environment.LaunchRequest{Snapshot: snap, Purpose: environment.PurposeSession, Owner: "bench", Limits: limits, Policy: policy()}
	req.Report = func(p core.Phase) { w.parts.note(p.Name, p.Duration) }
	m, err := w.launcher.Launch(ctx, req)
	if err != nil {
		return err
	}
	layers := m.Handle().Layers
	config, err := w.written(m.ID())
	if err != nil {
		return err
	}
	if err := m.Close(ctx); err != nil {
		return err
	}
	s, err := w.pair(ctx, b.times(40, 5), layers, config, func() (func() error, error) {
		m, err := w.launcher.Launch(ctx, req)
		if err != nil {
			return nil, err
		}
		return func() error { return m.Close(ctx) }, nil
	})
	if err != nil {
		return err
	}
	b.starts("restore", "a snapshot of files, set up", "through the launcher: rows in the database, set-up of the inside", s, w)
	b.add(alone("restore: part of the set-up", "ms", w.parts.take(environment.PhaseSetup), "host name, resolver, variables, settings of package managers"))
	return nil
}

// snapshot freezes a sandbox of the base image with some files more.
func (w *base) snapshot(ctx context.Context) (core.SnapshotID, error) {
	var layers []snapshot.Layer
	for _, dir := range w.image.Layers {
		layers = append(layers, snapshot.Layer{Base: w.image.Digest, Path: dir})
	}
	m, err := w.launcher.Launch(ctx, environment.LaunchRequest{
		Base: layers, Image: snapshot.Image{Env: w.image.Env}, Purpose: environment.PurposeBuild, Owner: "bench", Limits: limits, Policy: policy(),
	})
	if err != nil {
		return "", err
	}
	defer func() { _ = m.Close(context.WithoutCancel(ctx)) }()
	if _, err := m.Guest().Run(ctx, guest.Command{Argv: []string{"sh", "-c", "mkdir -p /workspace && cp -r /etc /workspace/"}}); err != nil {
		return "", err
	}
	row, err := m.Freeze(ctx, snapshot.Draft{}, environment.FreezeOptions{})
	return row.ID, err
}

func benchExec(ctx context.Context, b *bench) error {
	w, err := b.sandboxes(ctx)
	if err != nil {
		return err
	}
	h, err := w.create(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = w.driver.Destroy(context.WithoutCancel(ctx), h.ID) }()
	client := guest.NewTCPClient(h.Guest, h.Token)
	defer client.Close()
	var ours, floor series
	err = turns(ctx, b.times(100, 10), func(count bool) error {
		start := time.Now()
		_, err := client.Run(ctx, guest.Command{Argv: []string{"/usr/bin/true"}})
		if count {
			ours.took(time.Since(start))
		}
		return err
	}, func(count bool) error {
		start := time.Now()
		err := command(ctx, b.runsc, "--root="+filepath.Join(w.dir, "run", "runsc"), "exec", string(h.ID), "/usr/bin/true")
		if count {
			floor.took(time.Since(start))
		}
		return err
	})
	if err != nil {
		return err
	}
	r := against("exec: true, warm, through drydock-init", "ms", ours, floor, "the floor is runsc exec in the same sandbox")
	b.add(r.below(1, "ratio", *r.Ratio))
	return nil
}
