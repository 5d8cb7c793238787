package runsc_test

import (
	"os"
	"path/filepath"
	"testing"

	"drydock/internal/core"
	"drydock/internal/execution/guest"
	"drydock/internal/execution/sandbox"
)

// program copies one to a place of the test's own.
func program(t *testing.T, from, to string) string {
	t.Helper()
	data, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(to, data, 0o755); err != nil {
		t.Fatal(err)
	}
	return to
}

// upgraded puts another build of a program in its place, as an upgrade does,
// and returns its size.
func upgraded(t *testing.T, path string) int64 {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	data = append(data, 0, 0, 0, 0)
	if err := os.WriteFile(path+".new", data, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
	return int64(len(data))
}

// initOf is the size of the drydock-init that a sandbox has.
func initOf(t *testing.T, hd sandbox.Handle) int64 {
	t.Helper()
	c := guest.NewTCPClient(hd.Guest, hd.Token)
	defer c.Close()
	_, info, err := c.ReadFile(t.Context(), "/.drydock/init", 0, 1)
	if err != nil {
		t.Fatal(err)
	}
	return info.Size
}

// The daemon is upgraded while sandboxes run and memory images wait: new builds
// of runsc and drydock-init are at the configured paths. Old sandboxes go on and
// can be frozen with their memory; old images are restored; files get the new
// drydock-init.
func TestUpgrade(t *testing.T) {
	h := newHost(t)
	h.opts.Runsc = program(t, h.opts.Runsc, filepath.Join(h.dir, "runsc"))
	h.opts.Init = program(t, h.opts.Init, filepath.Join(h.dir, "drydock-init"))
	frozenDir := filepath.Join(h.opts.StateDir, "frozen")
	if err := os.MkdirAll(frozenDir, 0o700); err != nil {
		t.Fatal(err)
	}
	d := h.driver(t)
	old, n := imageOf(t, h, d, filepath.Join(frozenDir, "old"))
	hd := counting(t, h, d)
	before := initOf(t, hd)

	after := upgraded(t, h.opts.Init)
	upgraded(t, h.opts.Runsc)
	d = h.driver(t)
	if s, err := d.Recover(t.Context(), hd); err != nil || s.State != core.SandboxRunning {
		t.Fatalf("adopted as %+v, error %v", s, err)
	}
	// Once it goes on, it is run by the build that has its memory.
	for _, name := range []string{"one", "two"} {
		frozen, err := d.Freeze(t.Context(), hd.ID, sandbox.FreezeOptions{Into: filepath.Join(frozenDir, name), Memory: true, Resume: true})
		if err != nil || frozen.Image == nil || frozen.Image.Fit.Runtime != old.Image.Fit.Runtime || frozen.Image.Fit.Init != old.Image.Fit.Init {
			t.Fatalf("froze %+v, error %v", frozen, err)
		}
		goesOn(t, hd, count(frozen.Upper))
	}
	if got := initOf(t, hd); got != before {
		t.Errorf("a sandbox that went on has drydock-init of %d bytes, not %d", got, before)
	}
	create := func(image *sandbox.Image) sandbox.Handle {
		t.Helper()
		c, err := d.Create(t.Context(), sandbox.Spec{
			ID: core.NewSandboxID(), Layers: []string{old.Upper, h.base}, Token: longToken, Limits: core.Limits{Memory: 512 << 20}, Image: image,
		})
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	// What is kept for images stays as long as somebody names them.
	if err := d.Prune([]sandbox.Fit{old.Image.Fit}); err != nil {
		t.Fatal(err)
	}
	clone, files := create(old.Image), create(nil)
	goesOn(t, clone, n)
	if got := initOf(t, clone); got != before {
		t.Errorf("an old image has drydock-init of %d bytes, not %d", got, before)
	}
	if got := initOf(t, files); got != after {
		t.Errorf("files of before have drydock-init of %d bytes, not the new one of %d", got, after)
	}
	newer, err := d.Freeze(t.Context(), files.ID, sandbox.FreezeOptions{Into: filepath.Join(frozenDir, "newer"), Memory: true})
	if err != nil || newer.Image == nil || newer.Image.Fit.Runtime == old.Image.Fit.Runtime || newer.Image.Fit.Init == old.Image.Fit.Init {
		t.Errorf("a new sandbox is frozen as %+v, error %v", newer, err)
	}
	for _, id := range []core.SandboxID{hd.ID, clone.ID, files.ID} {
		if err := d.Destroy(t.Context(), id); err != nil {
			t.Error(err)
		}
	}
	// Without the build that has its memory an image does not fit, and says so.
	if err := d.Prune([]sandbox.Fit{newer.Image.Fit}); err != nil {
		t.Fatal(err)
	}
	spec := sandbox.Spec{ID: core.NewSandboxID(), Layers: []string{old.Upper, h.base}, Token: longToken, Limits: core.Limits{Memory: 512 << 20}, Image: old.Image}
	if err := d.Fits(t.Context(), spec); !core.Is(err, core.Conflict) {
		t.Errorf("an image of a build that is gone: %v", err)
	}
	if _, err := d.Create(t.Context(), spec); !core.Is(err, core.Conflict) {
		t.Errorf("an image of a build that is gone: %v", err)
	}
	if ids, err := d.List(t.Context()); err != nil || len(ids) > 0 {
		t.Errorf("left %v, error %v", ids, err)
	}
}
