// Package machine starts machines of the fake driver for the tests of
// those who use them.
package machine

import (
	"context"
	"io"
	"path/filepath"
	"testing"

	"drydock/internal/execution/environment"
	"drydock/internal/execution/sandbox/fake"
	"drydock/internal/execution/sandbox/sandboxtest"
	"drydock/internal/execution/snapshot"
	"drydock/internal/store"
)

// Launch starts a sandbox on a base of its own. Everything ends with the
// test.
func Launch(t *testing.T, req environment.LaunchRequest) (*fake.World, *environment.Machine) {
	t.Helper()
	dir := t.TempDir()
	base := filepath.Join(dir, "base")
	sandboxtest.Root(t, base)
	world := fake.NewWorld(filepath.Join(dir, "sandboxes"))
	t.Cleanup(world.Close)
	db, err := store.Open(t.Context(), store.Options{Path: filepath.Join(dir, "db")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	driver := world.Driver(fake.Options{})
	launcher := environment.NewLauncher(environment.LauncherDeps{Driver: driver, Rows: db}, environment.LauncherOptions{})
	t.Cleanup(func() {
		for _, c := range []io.Closer{launcher, driver} {
			if err := c.Close(); err != nil {
				t.Error(err)
			}
		}
	})
	req.Base = []snapshot.Layer{{Path: base}}
	m, err := launcher.Launch(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = m.Close(context.Background()) })
	return world, m
}
