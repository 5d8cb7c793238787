package fake

import (
	"context"
	"crypto/rand"
	"os"
	"path/filepath"
	"time"

	"drydock/internal/core"
	"drydock/internal/execution/sandbox"
)

// fit is what every image of this driver is bound to.
var fit = sandbox.Fit{Runtime: name, Init: name, Shape: name, Network: name}

// remember writes what stands for the memory of a sandbox.
func (d *Driver) remember(b *box, into string) (*sandbox.Image, error) {
	image := &sandbox.Image{Dir: filepath.Join(into, "image"), Token: rand.Text(), Fit: fit}
	if err := os.MkdirAll(image.Dir, 0o700); err != nil {
		return nil, err
	}
	return image, os.WriteFile(filepath.Join(image.Dir, "memory"), []byte("memory of "+b.spec.ID+"\n"), 0o600)
}

// Fits implements sandbox.Driver.
func (d *Driver) Fits(ctx context.Context, spec sandbox.Spec) error {
	const op = "fake.fits"
	if spec.Image == nil {
		return nil
	}
	if err := d.world.Faults.before(ctx, Fits); err != nil {
		return core.E(op, core.Conflict, err, "the memory image does not fit")
	}
	got := spec.Image.Fit
	if !d.opts.Memory || got.Runtime != fit.Runtime || got.Init != fit.Init || got.Shape != fit.Shape || got.Network != fit.Network {
		return core.E(op, core.Conflict, nil, "the memory image was made by another build of the runtime")
	}
	if _, err := os.Stat(filepath.Join(spec.Image.Dir, "memory")); err != nil {
		return core.E(op, core.NotFound, err, "the memory image %q is not there", spec.Image.Dir)
	}
	return nil
}

// Assign implements sandbox.Driver.
func (d *Driver) Assign(ctx context.Context, id core.SandboxID, to sandbox.Assignment) (sandbox.Handle, error) {
	const op = "fake.assign"
	b, err := d.find(op, id)
	if err != nil {
		return sandbox.Handle{}, err
	}
	b.op.Lock()
	defer b.op.Unlock()
	if err := d.world.Faults.before(ctx, Assign); err != nil {
		return sandbox.Handle{}, core.E(op, core.KindOf(err), err, "sandbox %s", id)
	}
	if s := b.state().State; s != core.SandboxRunning {
		return sandbox.Handle{}, core.E(op, core.Conflict, nil, "sandbox %s is %s", id, s)
	}
	h := b.handle
	if d.opts.Network != nil {
		a, err := d.opts.Network.Hold(ctx, id, to.Network)
		if err != nil {
			return sandbox.Handle{}, core.E(op, core.KindOf(err), err, "network of sandbox %s", id)
		}
		h.Env, h.Resolver = a.Env, a.Resolver
	}
	b.ear.uncover()
	h.Purpose, h.Owner, h.Created = to.Purpose, to.Owner, time.Now().UTC()
	b.mu.Lock()
	b.spec.Network, b.spec.Purpose, b.spec.Owner, b.handle = to.Network, to.Purpose, to.Owner, h
	b.mu.Unlock()
	return h, nil
}

// Open implements sandbox.Driver.
func (d *Driver) Open(ctx context.Context, id core.SandboxID) error {
	const op = "fake.open"
	b, err := d.find(op, id)
	if err != nil {
		return err
	}
	b.op.Lock()
	defer b.op.Unlock()
	if s := b.state().State; s != core.SandboxRunning {
		return core.E(op, core.Conflict, nil, "sandbox %s is %s", id, s)
	}
	if d.opts.Network == nil {
		return nil
	}
	if _, err := d.opts.Network.Attach(ctx, id, b.spec.Network); err != nil {
		return core.E(op, core.KindOf(err), err, "network of sandbox %s", id)
	}
	return nil
}

// Freezes implements sandbox.Driver.
func (d *Driver) Freezes(context.Context) ([]string, error) {
	d.world.mu.Lock()
	defer d.world.mu.Unlock()
	var out []string
	for _, b := range d.world.boxes {
		if s := b.state(); s.Frozen != "" || s.Resumed != "" {
			out = append(out, s.Frozen, s.Resumed)
		}
	}
	return out, nil
}
