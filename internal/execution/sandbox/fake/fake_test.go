package fake_test

import (
	"context"
	"errors"
	"path/filepath"
	"testing"
	"time"

	"drydock/internal/core"
	"drydock/internal/execution/sandbox"
	"drydock/internal/execution/sandbox/fake"
	"drydock/internal/execution/sandbox/sandboxtest"
)

func TestContract(t *testing.T) {
	base := filepath.Join(t.TempDir(), "base")
	sandboxtest.Root(t, base)
	sandboxtest.Run(t, func(t *testing.T) *sandboxtest.Rig {
		world := fake.NewWorld(t.TempDir())
		t.Cleanup(world.Close)
		return &sandboxtest.Rig{
			Driver: world.Driver(fake.Options{}), Base: base, Dir: t.TempDir(),
			Reopen: func(*testing.T) sandbox.Driver { return world.Driver(fake.Options{}) },
			Kill:   func(_ *testing.T, id core.SandboxID) { world.Kill(id) },
		}
	})
}

func TestContractWithMemoryAndRest(t *testing.T) {
	base := filepath.Join(t.TempDir(), "base")
	sandboxtest.Root(t, base)
	sandboxtest.Run(t, func(t *testing.T) *sandboxtest.Rig {
		world := fake.NewWorld(t.TempDir())
		t.Cleanup(world.Close)
		return &sandboxtest.Rig{
			Driver: world.Driver(fake.Options{Memory: true, Rest: true}), Base: base, Dir: t.TempDir(), Forgets: true,
			Reopen: func(*testing.T) sandbox.Driver { return world.Driver(fake.Options{Memory: true, Rest: true}) },
			Kill:   func(_ *testing.T, id core.SandboxID) { world.Kill(id) },
		}
	})
}

func newWorld(t *testing.T) (*fake.World, *fake.Driver, sandbox.Spec) {
	t.Helper()
	base := filepath.Join(t.TempDir(), "base")
	sandboxtest.Root(t, base)
	world := fake.NewWorld(t.TempDir())
	t.Cleanup(world.Close)
	return world, world.Driver(fake.Options{}), sandbox.Spec{ID: core.NewSandboxID(), Layers: []string{base}, Token: "t"}
}

func TestFaults(t *testing.T) {
	world, d, spec := newWorld(t)
	full := errors.New("no space")
	world.Faults.Set(fake.Create, fake.Fault{Err: full, After: true, Times: 1})
	if _, err := d.Create(t.Context(), spec); !errors.Is(err, full) {
		t.Fatalf("error %v", err)
	}
	if ids, _ := d.List(t.Context()); len(ids) > 0 {
		t.Errorf("a failed create leaves %v", ids)
	}

	world.Faults.Set(fake.Create, fake.Fault{Hang: true, Times: 1})
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := d.Create(ctx, spec); !core.Is(err, core.Unavailable) {
		t.Errorf("a hanging create ends with %v", err)
	}

	world.Faults.Set(fake.Create, fake.Fault{Err: fake.ErrDaemonDies, After: true, Times: 1})
	if _, err := d.Create(t.Context(), spec); !errors.Is(err, fake.ErrDaemonDies) {
		t.Errorf("error %v", err)
	}
	next := world.Driver(fake.Options{})
	if s, err := next.Recover(t.Context(), sandbox.Handle{ID: spec.ID}); err != nil || s.State != core.SandboxRunning {
		t.Errorf("the next daemon finds %+v, error %v", s, err)
	}
	world.OutOfMemory(spec.ID)
	if s, err := next.Wait(t.Context(), spec.ID); err != nil || s.Cause != sandbox.CauseMemory {
		t.Errorf("out of memory is %+v, error %v", s, err)
	}
	if got := world.Faults.Count(fake.Create); got != 3 {
		t.Errorf("%d creates were counted", got)
	}
}
