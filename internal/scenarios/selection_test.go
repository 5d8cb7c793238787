package scenarios

import (
	"strings"
	"testing"
	"time"

	"drydock/internal/core"
	"drydock/internal/surface/api"
	"drydock/internal/surface/client"
	"drydock/internal/testkit"
)

// bySeed is a script for one candidate of a selection.
func bySeed(seed int, script string) string {
	return strings.Replace(script, "when: {", "when: {seed: "+string(rune('0'+seed))+", ", 1)
}

const longWay = `      - calls: [{tool: write, input: {path: essay.sh, content: "# One.\n# Two.\n# Three.\n# Four.\n# Five.\n# Six.\n"}}]
`

const cannot = `  - name: cannot
    when: {prompt: {contains: greeting}}
    answers:
      - calls:
          - {tool: write, input: {path: attempt.txt, content: "so far\n"}}
          - {tool: finish, input: {verdict: cannot, summary: "The task needs a printer, and there is none."}}
`

// TestBestOf gives one task to three sessions: one proves a long change, one
// hands over, one proves a short change, which the rule picks. The daemon is
// restarted while they work.
func TestBestOf(t *testing.T) {
	d := testkit.Start(t, testkit.Options{MaxSessions: 3, Script: scripts(
		bySeed(1, strings.Replace(mendHello(longWay), "name: hello", "name: long", 1)), bySeed(2, cannot), bySeed(3, mendHello()),
	)})
	env := d.BuildEnvironment(t, tinyRepo(t, nil))
	ana := d.Client(t, "ana")
	ask := api.CreateSelection{Environment: env.Name, Prompt: "Mend the greeting", Sessions: 3, Rule: "smallest", ClientID: "once"}
	made, err := ana.CreateSelection(t.Context(), ask)
	if err != nil {
		t.Fatalf("%v (%s)", err, core.HintOf(err))
	}
	again, err := ana.CreateSelection(t.Context(), ask)
	if err != nil || again.Selection.ID != made.Selection.ID {
		t.Fatalf("a retry made %s beside %s: %v", again.Selection.ID, made.Selection.ID, err)
	}
	testkit.Follow(t, ana, made.Candidates[0].Session, func(e core.Event) bool { return e.Kind == core.EventRunStarted })
	d.Restart(t)
	got := awaitSelection(t, ana, made.Selection.ID, core.SelectionPicked)

	small, long, none := bySeedOf(t, got, 3), bySeedOf(t, got, 1), bySeedOf(t, got, 2)
	if got.Selection.Picked != small.Session || got.Selection.PickedBy != "platform" || !strings.Contains(got.Selection.Reason, "smallest of 2 proven") {
		t.Errorf("picked %+v, want %s by the platform", got.Selection, small.Session)
	}
	if small.Rank != 1 || long.Rank != 2 || none.Rank != 3 || !small.Picked || long.Picked {
		t.Errorf("ranks %+v", got.Candidates)
	}
	if small.Verdict != "proven" || small.Fixed == 0 || small.Added == 0 || small.Added >= long.Added || small.Usage.Calls == 0 || small.Active == 0 {
		t.Errorf("figures of the picked one: %+v, of the other: %+v", small, long)
	}
	if none.Verdict != "handed_over" || len(none.Reasons) == 0 || !strings.Contains(none.Reasons[0], "printer") {
		t.Errorf("the one that handed over: %+v", none)
	}
	picked, err := ana.Session(t.Context(), small.Session)
	if err != nil || picked.State != core.SessionIdle || picked.BaseCommit != got.Selection.BaseCommit {
		t.Errorf("picked session %+v %v", picked, err)
	}
	for _, c := range []core.Candidate{long, none} {
		s, err := ana.Session(t.Context(), c.Session)
		if err != nil || s.State != core.SessionArchived || s.BaseCommit != picked.BaseCommit || !strings.Contains(s.Reason, string(got.Selection.ID)) {
			t.Errorf("passed over: %+v %v", s, err)
		}
	}
	open, err := ana.Changes(t.Context(), client.ChangeQuery{State: "open"}, client.Page{})
	if err != nil || len(open.Items) != 1 || open.Items[0].ID != small.Change || open.Items[0].Candidate != "" {
		t.Errorf("open changes: %+v %v", open.Items, err)
	}
	closed, err := ana.Change(t.Context(), string(long.Change))
	if err != nil || closed.Change.State != core.ChangeClosed || len(closed.Comments) != 1 || !strings.Contains(closed.Comments[0].Body, string(small.Session)) {
		t.Errorf("the change that was not picked: %+v %v", closed, err)
	}
	if !strings.Contains(closed.Change.Body, "Candidate 1 of 3") {
		t.Errorf("its body does not say that it was a candidate:\n%s", closed.Change.Body)
	}
	if detail, err := ana.Change(t.Context(), string(small.Change)); err != nil || len(detail.Approvals) != 0 {
		t.Errorf("a pick is no approval: %+v %v", detail.Approvals, err)
	}
	if code, out := command(t, d, "selection", "show", "last"); code != 0 || !strings.Contains(out, string(small.Session)) {
		t.Errorf("exit code %d:\n%s", code, out)
	}
	if code, out := command(t, d, "run", "-e", env.Name, "--best-of", "2", "--pick", "cheapest", "--wait", "Do what no script knows"); code != 3 {
		t.Errorf("exit code %d where none is proven, want 3:\n%s", code, out)
	}
}

// TestCandidateIsMerged leaves the pick to people: somebody approves and merges
// one of two candidates, and the other one is put aside.
func TestCandidateIsMerged(t *testing.T) {
	d := testkit.Start(t, testkit.Options{Script: scripts(bySeed(1, strings.Replace(mendHello(longWay), "name: hello", "name: long", 1)), bySeed(2, mendHello()))})
	env := d.BuildEnvironment(t, tinyRepo(t, nil))
	ana, ben := d.Client(t, "ana"), d.Client(t, "ben")
	made, err := ana.CreateSelection(t.Context(), api.CreateSelection{Environment: env.Name, Prompt: "Mend the greeting", Sessions: 2})
	if err != nil {
		t.Fatal(err)
	}
	id := made.Selection.ID
	got := awaitSelection(t, ana, id, core.SelectionWaiting)
	open, err := ana.Changes(t.Context(), client.ChangeQuery{State: "open"}, client.Page{})
	if err != nil || len(open.Items) != 2 || open.Items[0].Candidate != id || open.Items[1].Candidate != id {
		t.Errorf("candidates %+v %v", open.Items, err)
	}
	if code, out := command(t, d, "change", "list"); code != 0 || strings.Count(out, "candidate") != 2 {
		t.Errorf("exit code %d:\n%s", code, out)
	}
	long := bySeedOf(t, got, 1) // not the one that ranks first
	if _, err := ben.MergeChange(t.Context(), string(long.Change), "", long.Head); err == nil {
		t.Error("a candidate is merged without an approval")
	}
	if now, err := ana.Selection(t.Context(), id); err != nil || now.Selection.State != core.SelectionWaiting {
		t.Errorf("a merge that was refused picked: %+v %v", now.Selection, err)
	}
	if _, err := ana.ApproveChange(t.Context(), string(long.Change), long.Head, ""); !core.Is(err, core.Denied) {
		t.Errorf("who asked approves: %v", err)
	}
	if _, err := ben.ApproveChange(t.Context(), string(long.Change), long.Head, "good"); err != nil {
		t.Fatal(err)
	}
	if _, err := ben.MergeChange(t.Context(), string(long.Change), "", long.Head); err != nil {
		t.Fatal(err)
	}
	if now, err := ana.Selection(t.Context(), id); err != nil || now.Selection.Picked != long.Session || now.Selection.PickedBy != "ben" {
		t.Errorf("a merge did not pick: %+v %v", now.Selection, err)
	}
	got = awaitSelection(t, ana, id, core.SelectionPicked)
	small := bySeedOf(t, got, 2)
	if small.Standing != core.ChangeClosed || small.State != core.SessionArchived {
		t.Errorf("the other one: %+v", small)
	}
	if _, err := ana.Pick(t.Context(), id, small.Session); !core.Is(err, core.Conflict) {
		t.Errorf("a second pick: %v", err)
	}
}

func bySeedOf(t *testing.T, d api.SelectionDetail, seed int64) core.Candidate {
	t.Helper()
	for _, c := range d.Candidates {
		if c.Seed == seed {
			return c
		}
	}
	t.Fatalf("no candidate %d: %+v", seed, d)
	return core.Candidate{}
}

// awaitSelection returns when a selection is in a state.
func awaitSelection(t *testing.T, c *client.Client, id core.SelectionID, state core.SelectionState) api.SelectionDetail {
	t.Helper()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(testkit.Patience); ; <-tick.C {
		got, err := c.Selection(t.Context(), id)
		if err == nil && got.Selection.State == state {
			return got
		}
		if time.Now().After(deadline) {
			t.Fatalf("selection is %+v, want it %s: %v\n%+v", got.Selection, state, err, got.Candidates)
		}
	}
}
