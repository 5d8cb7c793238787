package environment_test

import (
	"fmt"
	"strings"
	"testing"

	"drydock/internal/core"
	"drydock/internal/execution/environment"
	"drydock/internal/execution/guest"
	"drydock/internal/execution/snapshot"
)

// The daemon starts again while a command runs: it goes on, its output is whole
// to the byte, services are the same, and what waited in the pool is gone.
func TestRestartForReal(t *testing.T) {
	w, b, rec := liveWorld(t)
	pool, env, stop := w.pooled(environment.PoolOptions{Max: 1, Min: 1})
	defer stop()
	box := w.launch(environment.LaunchRequest{Snapshot: b.Snapshot, Recipe: &rec, Owner: "ses_aaaaaaaaaaaaaaaaa1", StartServices: true})
	w.shell(box, "redis-cli set kept yes >/dev/null")
	pids := w.shell(box, "pidof redis-server")
	const lines = 20000
	p, err := box.Guest().Start(t.Context(), guest.Command{Argv: []string{
		"python3", "-u", "-c", fmt.Sprintf("import time\nfor i in range(%d):\n  print('line', i)\n  if i %% 100 == 0: time.sleep(0.02)", lines),
	}})
	if err != nil {
		t.Fatal(err)
	}
	w.waits(pool, env.ID, 1)
	id := box.ID()
	w.dies()
	rows, err := w.db.LiveSandboxes(t.Context())
	if err != nil || len(rows) != 1 || rows[0].ID != id {
		t.Errorf("left: %+v, error %v", rows, err)
	}
	if box, err = w.launcher.Adopt(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	// Half of it is read, then the sandbox stands still for a fork, and the
	// daemon starts again once more.
	var want strings.Builder
	for i := range lines {
		fmt.Fprintln(&want, "line", i)
	}
	if _, err := box.Freeze(t.Context(), snapshot.Draft{}, environment.FreezeOptions{Memory: true, Resume: true}); err != nil {
		t.Fatal(err)
	}
	w.dies()
	if box, err = w.launcher.Adopt(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	var got strings.Builder
	if err := box.Follow(t.Context(), p.ID, guest.Stdout, &got); err != nil {
		t.Fatal(err)
	}
	if got.String() != want.String() {
		t.Errorf("the command printed %d bytes, want %d", got.Len(), want.Len())
	}
	if end, err := box.Guest().Wait(t.Context(), p.ID); err != nil || end.ExitCode != 0 {
		t.Errorf("the command ended as %+v, error %v", end, err)
	}
	if got := w.shell(box, "redis-cli get kept; pidof redis-server"); got != "yes\n"+pids {
		t.Errorf("services say %q; before they were %s", got, pids)
	}
	if s, err := box.Status(t.Context()); err != nil || s.State != core.SandboxRunning {
		t.Errorf("it is %+v, error %v", s, err)
	}
	if err := box.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.leftovers()
}
