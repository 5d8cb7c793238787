package testkit_test

import (
	"slices"
	"strings"
	"testing"

	"drydock/internal/core"
	"drydock/internal/testkit"
)

// TestASession runs the smallest session there is.
func TestASession(t *testing.T) {
	d := testkit.Start(t, testkit.Options{Script: `
scripts:
  - name: greet
    answers:
      - calls:
          - {tool: edit, input: {path: greet.sh, old: "Helo", new: "Hello"}}
          - {tool: run, input: {command: sh test/greet.sh}}
      - expect: [{tool: run, contains: "ok 1"}]
        calls:
          - tool: write
            input:
              path: test/case.sh
              content: |
                [ "$(sh greet.sh ana)" = "Hello, ana" ] && echo "ok 1 - spells hello" || echo "not ok 1 - spells hello"
                echo 1..1
          - {tool: finish, input: {verdict: done, summary: It says hello now.}}
`})
	repo := testkit.Repo(t, map[string]string{
		"greet.sh":      "echo \"Helo, $1\"\n",
		"test/greet.sh": "[ -n \"$(sh greet.sh ana)\" ] && echo 'ok 1 - says something' || echo 'not ok 1 - says something'\necho 1..1\n",
		"test/case.sh":  "echo 'ok 1 - spells hello # SKIP later'\necho 1..1\n",
		"drydock.yaml": "base: debian:bookworm\nchecks:\n  test: {run: sh test/greet.sh, report: tap}\n" +
			"  more: {run: sh test/case.sh, report: tap}\n",
	})
	got := d.Run(t, d.BuildEnvironment(t, repo), "Mend the greeting")
	if got.Run.State != core.RunDone || got.Run.Verdict != "proven" || got.Change.State != core.ChangeOpen {
		t.Fatalf("run %+v, change %+v\n%s", got.Run, got.Change, testkit.Story(got.Events))
	}
	if nodes := testkit.Of[core.NodeData](t, got.Events, core.EventNodeFinished); !slices.ContainsFunc(nodes, func(n core.NodeData) bool { return n.Node == "deliver" }) {
		t.Errorf("nodes: %+v", nodes)
	}
	// The base has not moved since the build: nothing is checked out again.
	if phases := testkit.Of[core.Phase](t, got.Events, core.EventPhase); !slices.ContainsFunc(phases, func(p core.Phase) bool {
		return p.Name == "catch up" && strings.HasSuffix(p.Detail, ", as built")
	}) {
		t.Errorf("phases: %+v", phases)
	}
	if len(testkit.Leftovers(d.State)) == 0 {
		t.Error("a running daemon is not seen on the host: what it leaves would not be seen either")
	}
	d.Restart(t)
	if s, err := d.Client(t, "ana").Session(t.Context(), got.Session.ID); err != nil || s.State != core.SessionIdle {
		t.Errorf("after a restart: %+v %v", s, err)
	}
}
