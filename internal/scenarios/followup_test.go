package scenarios

import (
	"slices"
	"strings"
	"testing"

	"drydock/internal/core"
	"drydock/internal/surface/api"
	"drydock/internal/testkit"
)

const kept = `      - calls: [{tool: run, input: {command: "echo remembered > notes.tmp"}}]
`

const remembers = `      - calls: [{tool: run, input: {command: "cat notes.tmp; cat hello.sh"}}]
      - expect: [{tool: run, contains: [remembered, "Hello, $1"]}]
        say: The files of the first prompt are here.
`

// TestFollowUp takes one session from its first prompt over two other people's
// follow-ups to a merge, and on to the change after it.
func TestFollowUp(t *testing.T) {
	d := testkit.Start(t, testkit.Options{Script: scripts(
		mendHello(kept),
		mend("bye", "farewell", "bye", "By, $1", "Bye, $1", remembers),
		mend("world", "nobody", "hello", "Hello, $1", "Hello, ${1:-world}"),
		mend("shout", "loud", "shout", "$1", "$1!"),
	)})
	env := d.BuildEnvironment(t, tinyRepo(t, nil))
	first := d.Run(t, env, "Mend the greeting")
	proven(t, first, "ana", 1)

	second := d.Prompt(t, "ben", first.Session.ID, "Mend the farewell")
	proven(t, second, "ben", 1)
	if second.Change.ID != first.Change.ID || second.Session.Branch != first.Session.Branch {
		t.Fatalf("a follow-up makes another change: %+v, first %+v", second.Change, first.Change)
	}

	ref := string(first.Change.ID)
	third := comment(t, d, ref, first.Session.ID, "carol", "@drydock please mend it for nobody, too", true)
	proven(t, third, "carol", 1)
	comment(t, d, ref, first.Session.ID, "dora", "I like this.", false)

	detail, err := d.Client(t, "dora").Change(t.Context(), ref)
	if err != nil {
		t.Fatal(err)
	}
	var authors []string
	for _, c := range detail.Commits {
		authors = append(authors, c.Author+" <"+c.Email+">")
		if !strings.Contains(c.Body, "Drydock-Run: run_") {
			t.Errorf("commit %s does not name its run: %q", c.ID, c.Body)
		}
	}
	slices.Sort(authors)
	if want := []string{"Ana <ana@example.com>", "Ben <ben@example.com>", "Carol <carol@example.com>"}; !slices.Equal(authors, want) {
		t.Errorf("commits by %v, want one by each of %v", authors, want)
	}
	review(t, d, ref, detail.Change.Head)

	next := d.Prompt(t, "ana", first.Session.ID, "Make it loud")
	proven(t, next, "ana", 2)
	if next.Session.Branch == first.Session.Branch || next.Change.ID == first.Change.ID {
		t.Errorf("after a merge the same change goes on: %+v", next.Change)
	}
	warned := testkit.Of[core.WarningData](t, next.Events, core.EventWarning)
	if !slices.ContainsFunc(warned, func(w core.WarningData) bool { return w.Code == "new_branch" && strings.Contains(w.Message, "#1") }) {
		t.Errorf("nobody was told of the new branch: %+v", warned)
	}
	if detail, err = d.Client(t, "ana").Change(t.Context(), string(next.Change.ID)); err != nil || len(detail.Commits) != 1 {
		t.Errorf("the new change has %d commits, want its own: %v", len(detail.Commits), err)
	}
}

// proven checks the end of one prompt, and that one commit of it is on the
// branch under its author's name.
func proven(t *testing.T, got testkit.Outcome, author string, change int64) {
	t.Helper()
	if got.Prompt.State != core.PromptDone || got.Run.Verdict != "proven" || got.Change.Number != change || got.Change.Verdict != "proven" {
		t.Fatalf("prompt %+v\nrun %+v\nchange %+v\n%s", got.Prompt, got.Run, got.Change, testkit.Story(got.Events))
	}
	if got.Change.Head != got.Session.Head {
		t.Errorf("change is at %s, session at %s", got.Change.Head, got.Session.Head)
	}
	var mine []core.CommitData
	for _, e := range got.Events {
		if e.Kind == core.EventCommit && e.Run == got.Run.ID {
			mine = append(mine, testkit.Data[core.CommitData](t, e))
		}
	}
	if len(mine) != 1 || mine[0].Author.Handle != author || mine[0].Commit != got.Session.Head {
		t.Errorf("commits of the run: %+v; session at %s", mine, got.Session.Head)
	}
}

// comment writes on a change and, when it speaks to the agent, waits for the
// prompt that it becomes.
func comment(t *testing.T, d *testkit.Daemon, ref string, id core.SessionID, handle, body string, prompts bool) testkit.Outcome {
	t.Helper()
	c := d.Client(t, handle)
	made, err := c.Comment(t.Context(), ref, api.CreateComment{Body: body})
	if err != nil {
		t.Fatal(err)
	}
	var told core.CommentData
	testkit.Follow(t, c, id, func(e core.Event) bool {
		if e.Kind != core.EventComment {
			return false
		}
		told = testkit.Data[core.CommentData](t, e)
		return told.Comment == made.ID
	})
	if (told.Prompt != "") != prompts || told.Author.Handle != handle {
		t.Fatalf("comment %q became %+v, want a prompt: %v", body, told, prompts)
	}
	if !prompts {
		return testkit.Outcome{}
	}
	return testkit.Await(t, c, id, told.Prompt)
}

// review merges a change with the approval of somebody who did not ask for it.
func review(t *testing.T, d *testkit.Daemon, ref, head string) {
	t.Helper()
	for _, handle := range []string{"ana", "ben", "carol"} {
		if _, err := d.Client(t, handle).ApproveChange(t.Context(), ref, head, ""); !core.Is(err, core.Denied) {
			t.Errorf("%s approves the change that came from their own prompt: %v", handle, err)
		}
	}
	if _, err := d.Client(t, "dora").MergeChange(t.Context(), ref, "", head); err == nil {
		t.Error("a change is merged without an approval")
	}
	if _, err := d.Client(t, "dora").ApproveChange(t.Context(), ref, head, "good"); err != nil {
		t.Fatal(err)
	}
	merged, err := d.Client(t, "dora").MergeChange(t.Context(), ref, "merge", head)
	if err != nil || merged.State != core.ChangeMerged {
		t.Fatalf("merge: %+v %v", merged, err)
	}
}
