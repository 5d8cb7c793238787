package scenarios

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"drydock/internal/core"
	"drydock/internal/surface/api"
	"drydock/internal/testkit"
	"drydock/internal/testkit/docker"
)

// counts is a service whose state is nowhere but in its memory: who it is, and
// how far it has counted.
const counts = `base: debian:bookworm
setup: echo installed > /opt/installed
services:
  count:
    run: |
      id=$(cat /proc/sys/kernel/random/uuid); i=0
      while :; do i=$((i+1)); echo "at $id $i" > /var/tmp/at.new; mv /var/tmp/at.new /var/tmp/at; sleep 0.05; done
    ready: test -s /var/tmp/at
checks:
  test: {run: "echo 'ok 1 - fine'; echo 1..1", report: tap}
`

const asks = `
scripts:
  - name: ask
    answers:
      - calls: [{tool: run, input: {command: "cat /opt/installed /var/tmp/at"}}]
      - expect: [{tool: run, contains: [installed, "at "]}]
        say: That is how far it is.
`

// TestASnapshotTravels builds an environment on one daemon and runs sessions
// of it on another one: the service goes on counting where it stood.
func TestASnapshotTravels(t *testing.T) {
	registry := docker.Registry(t)
	a := testkit.Start(t, testkit.Options{Script: asks})
	repo := testkit.Repo(t, map[string]string{"drydock.yaml": counts})
	env := a.BuildEnvironment(t, repo)
	who, at := askCounter(t, a, env)

	ref := registry + "/team/shop:ready"
	began := time.Now()
	pushed, err := a.Client(t, "operator").PushSnapshot(t.Context(), env.Snapshot, api.PushSnapshot{Reference: ref}, nil)
	if err != nil || pushed.Memory == "" {
		t.Fatalf("pushed %+v: %v (%s)", pushed, err, core.HintOf(err))
	}
	t.Logf("pushed %d MiB in %s", pushed.Sent>>20, time.Since(began))

	b := testkit.Start(t, testkit.Options{Script: asks})
	ben := b.Client(t, "ben")
	_, err = ben.PullSnapshot(t.Context(), api.PullSnapshot{Reference: ref, Environment: "travelled"}, nil)
	if !core.Is(err, core.Invalid) || !strings.Contains(core.HintOf(err), "--source") {
		t.Errorf("a path of another host was taken for one of this: %v", err)
	}
	began = time.Now()
	pulled, err := ben.PullSnapshot(t.Context(), api.PullSnapshot{Reference: ref, Environment: "travelled", Source: repo}, nil)
	if err != nil {
		t.Fatalf("pull: %v (%s)", err, core.HintOf(err))
	}
	t.Logf("pulled %d MiB in %s", pulled.Fetched>>20, time.Since(began))
	if pulled.Environment == nil || pulled.Environment.Snapshot != pulled.Snapshot.ID || !pulled.Snapshot.Memory {
		t.Fatalf("pulled %+v", pulled)
	}
	there, further := askCounter(t, b, *pulled.Environment)
	if there != who {
		t.Errorf("the service was started anew: it is %s, was %s", there, who)
	}
	t.Logf("counted to %d there, to %d here", further, at)

	// A build goes on from what came from elsewhere.
	testkit.Git(t, repo, "commit", "-q", "--allow-empty", "-m", "More")
	next := testkit.Build(t, b.Client(t, "operator"), repo, "travelled")
	if next.Snapshot == pulled.Snapshot.ID {
		t.Error("nothing was built")
	}
	if snap, err := ben.Snapshot(t.Context(), next.Snapshot); err != nil {
		t.Error(err)
	} else {
		t.Logf("the build after it stands on %q", snap.Parent)
	}

	// Without the memory image the service starts from the files.
	c := testkit.Start(t, testkit.Options{Script: asks})
	cold, err := c.Client(t, "ben").PullSnapshot(t.Context(), api.PullSnapshot{Reference: ref, Environment: "cold", Source: repo, NoMemory: true}, nil)
	if err != nil || cold.Snapshot.Memory {
		t.Fatalf("pulled %+v: %v", cold, err)
	}
	if anew, _ := askCounter(t, c, *cold.Environment); anew == who {
		t.Error("without its memory it is the same")
	}
}

// askCounter asks the service who it is and how far it has counted.
func askCounter(t *testing.T, d *testkit.Daemon, env core.Environment) (who string, n int) {
	t.Helper()
	got := d.Run(t, env, "Look")
	for _, tool := range testkit.Of[core.ToolData](t, got.Events, core.EventToolFinished) {
		for line := range strings.Lines(tool.Output) {
			if f := strings.Fields(line); len(f) == 3 && f[0] == "at" {
				n, err := strconv.Atoi(f[2])
				if err != nil {
					t.Fatal(err)
				}
				return f[1], n
			}
		}
	}
	t.Fatalf("the service says nothing\n%s", testkit.Story(got.Events))
	return "", 0
}
