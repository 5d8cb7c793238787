package scenarios

import (
	"testing"
	"time"

	"drydock/internal/core"
	"drydock/internal/daemon"
	"drydock/internal/surface/api"
	"drydock/internal/testkit"
)

const counting = `      - calls: [{tool: run, input: {command: "echo remembered > notes.tmp; (n=0; while :; do n=$((n+1)); echo $n >/tmp/count.new; mv /tmp/count.new /tmp/count; sleep 0.1; done) >/dev/null 2>&1 & echo counting"}}]
`

// stillCounts looks for files of the parent, and for its process, which must still
// count.
const stillCounts = `      - calls: [{tool: run, input: {command: "cat notes.tmp hello.sh; a=$(cat /tmp/count); sleep 1; b=$(cat /tmp/count); [ $b -gt $a ] && echo still counting"}}]
      - expect: [{tool: run, contains: [remembered, "Hello, $1", still counting]}]
        say: Files and processes of the parent are here.
`

// TestForks takes one session into three: two forks go on with its files and
// its processes, each to a change of its own, and the parent goes on too.
func TestForks(t *testing.T) {
	d := testkit.Start(t, testkit.Options{
		Script: scripts(
			mendHello(counting),
			mend("bye", "farewell", "bye", "By, $1", "Bye, $1", stillCounts),
			mend("world", "nobody", "hello", "Hello, $1", "Hello, ${1:-world}", stillCounts),
		),
		MaxSessions: 4,
		Change:      func(o *daemon.Options) { o.IdleAfter = time.Hour },
	})
	env := d.BuildEnvironment(t, tinyRepo(t, nil))
	parent := d.Run(t, env, "Mend the greeting")
	proven(t, parent, "ana", 1)

	c := d.Client(t, "ben")
	got, err := c.Fork(t.Context(), parent.Session.ID, api.ForkSession{Count: 2, Prompt: "Mend the farewell"})
	if err != nil || len(got.Children) != 2 || got.Paused <= 0 {
		t.Fatalf("forked %+v, error %v", got, err)
	}
	t.Logf("the parent stood still for %s", got.Paused.Round(time.Millisecond))
	branches := map[string]bool{parent.Session.Branch: true}
	for _, child := range got.Children {
		if child.Error != "" || child.From != "memory" || child.Session.Owner.Handle != "ben" {
			t.Fatalf("a child is %+v", child)
		}
		prompts, err := c.Prompts(t.Context(), child.Session.ID)
		if err != nil || len(prompts) != 1 {
			t.Fatalf("prompts %+v, error %v", prompts, err)
		}
		done := testkit.Await(t, c, child.Session.ID, prompts[0].ID)
		if done.Run.Verdict != "proven" || done.Change.ID == "" || done.Change.ID == parent.Change.ID {
			t.Fatalf("a fork came to %+v\n%s", done.Run, testkit.Story(done.Events))
		}
		if branches[done.Session.Branch] {
			t.Errorf("branch %s has two sessions", done.Session.Branch)
		}
		branches[done.Session.Branch] = true
	}
	next := d.Prompt(t, "ana", parent.Session.ID, "Mend it for nobody")
	proven(t, next, "ana", 1)

	// A suspended session is forked from where it was put away.
	if _, err := c.Fork(t.Context(), "ses_000000000000000000", api.ForkSession{}); !core.Is(err, core.NotFound) {
		t.Errorf("fork of nothing: %v", err)
	}
}
