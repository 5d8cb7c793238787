package scenarios

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"drydock/internal/core"
	"drydock/internal/daemon"
	"drydock/internal/surface/client"
	"drydock/internal/testkit"
)

const seesSync = `      - calls: [{tool: run, input: {command: "cat log.tmp"}}]
      - expect: [{tool: run, contains: ["set up\nsynced\n"]}]
        say: What follows a moved tree was done.
`

// TestFreshness takes an environment over a push to its source, a session that
// starts from a snapshot of an earlier commit, and a merge.
func TestFreshness(t *testing.T) {
	d := testkit.Start(t, testkit.Options{Script: scripts(mendHello(seesSync), mend("bye", "farewell", "bye", "By, $1", "Bye, $1"))})
	repo := tinyRepo(t, func(files map[string]string) {
		files["drydock.yaml"] += "setup: echo set up >>log.tmp\non_sync:\n  - {run: echo synced >>log.tmp, when: \"*.md\"}\n"
	})
	env := d.BuildEnvironment(t, repo)
	f := env.Freshness
	if f == nil || f.State != core.EnvironmentFresh || f.NextWhy != "interval" || f.Refresh != 30*time.Minute || time.Until(f.Next) > 33*time.Minute {
		t.Fatalf("a new environment stands as %+v", f)
	}
	// The source moves, and nobody says so.
	if err := os.WriteFile(filepath.Join(repo, "READ.md"), []byte("read\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	testkit.Git(t, repo, "add", "-A")
	testkit.Git(t, repo, "commit", "-q", "-m", "More")
	got := d.Run(t, env, "Mend the greeting")
	proven(t, got, "ana", 1)
	for _, w := range testkit.Of[core.WarningData](t, got.Events, core.EventWarning) {
		if w.Code == "snapshot_old" {
			t.Errorf("a new snapshot is called old: %+v", w)
		}
	}

	// A merge on the built-in forge is built at once, from the snapshot before.
	dora, ref := d.Client(t, "dora"), string(got.Change.ID)
	if _, err := dora.ApproveChange(t.Context(), ref, got.Change.Head, "good"); err != nil {
		t.Fatal(err)
	}
	if _, err := dora.MergeChange(t.Context(), ref, "merge", got.Change.Head); err != nil {
		t.Fatal(err)
	}
	build := platformBuild(t, d, env)
	if build.Why != "push" || build.State != core.BuildDone {
		t.Fatalf("after the merge: %+v, failure %+v", build, build.Failure)
	}
	i := slices.IndexFunc(build.Phases, func(p core.Phase) bool { return p.Name == "go on from" })
	if i < 0 || !build.Phases[i].Cached || !strings.HasPrefix(build.Phases[i].Detail, string(env.Snapshot)) {
		t.Errorf("it was not built from snapshot %s: %+v", env.Snapshot, build.Phases)
	}
	now, err := d.Client(t, "ana").Environment(t.Context(), env.Name)
	if err != nil {
		t.Fatal(err)
	}
	if f := now.Freshness; now.Snapshot != build.Snapshot || f.State != core.EnvironmentFresh || f.Commit != f.Head || f.Commit != build.Commit {
		t.Errorf("then it stands as %+v %+v", now, f)
	}
	old, err := d.Client(t, "ana").RollbackEnvironment(t.Context(), env.Name, env.Snapshot)
	if err != nil || old.Snapshot != env.Snapshot || old.Freshness.State != core.EnvironmentPinned {
		t.Errorf("rolled back: %+v %+v, error %v", old, old.Freshness, err)
	}
	proven(t, d.Run(t, old, "Mend the farewell"), "ana", 2)
}

// platformBuild waits for the end of a build that the platform asked for.
func platformBuild(t *testing.T, d *testkit.Daemon, env core.Environment) core.Build {
	t.Helper()
	deadline, tick := time.After(testkit.Patience), time.NewTicker(200*time.Millisecond)
	defer tick.Stop()
	for {
		builds, err := d.Client(t, "ana").Builds(t.Context(), env.Name, client.Page{})
		if err != nil {
			t.Fatal(err)
		}
		for _, b := range builds.Items {
			if b.By == "platform" && core.BuildTable.Final(b.State) {
				return b
			}
		}
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("nothing was built: %+v", builds.Items)
		}
	}
}

// A session that starts from a snapshot that is too old is told of it.
func TestOldSnapshotIsTold(t *testing.T) {
	d := testkit.Start(t, testkit.Options{
		Script: scripts(mend("bye", "farewell", "bye", "By, $1", "Bye, $1")),
		Change: func(o *daemon.Options) { o.MaxSnapshotAge = time.Nanosecond },
	})
	env := d.BuildEnvironment(t, tinyRepo(t, func(files map[string]string) { files["drydock.yaml"] += "refresh: never\n" }))
	if !env.Freshness.Old {
		t.Errorf("it stands as %+v", env.Freshness)
	}
	got := d.Run(t, env, "Mend the farewell")
	proven(t, got, "ana", 1)
	warned := testkit.Of[core.WarningData](t, got.Events, core.EventWarning)
	if !slices.ContainsFunc(warned, func(w core.WarningData) bool {
		return w.Code == "snapshot_old" && strings.Contains(w.Message, "old") && strings.Contains(w.Hint, "drydock env build")
	}) {
		t.Errorf("nobody was told: %+v", warned)
	}
}
