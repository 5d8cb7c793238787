package review_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"drydock/internal/core"
	"drydock/internal/delivery/forge"
)

// numbered is a file with these many different lines.
func numbered(n int, change map[int]string) string {
	var b strings.Builder
	for i := 1; i <= n; i++ {
		if text, ok := change[i]; ok {
			if text != "" {
				b.WriteString(text + "\n")
			}
			continue
		}
		fmt.Fprintf(&b, "this is line %d\n", i)
	}
	return b.String()
}

func (w *world) draft(by core.Author, a core.Anchor, body, client string) core.Note {
	w.Helper()
	n, err := w.svc.Write(w.Context(), w.change.ID, by, a, body, client)
	if err != nil {
		w.Fatal(err)
	}
	return n
}

func (w *world) threads(by core.Author) []core.Thread {
	w.Helper()
	list, err := w.svc.Threads(w.Context(), w.change.ID, by)
	if err != nil {
		w.Fatal(err)
	}
	return list
}

func standing(t core.Thread) string {
	switch {
	case t.Lost:
		return t.State + " lost"
	case t.Now == nil:
		return t.State
	case t.Now.EndLine > 0:
		return fmt.Sprintf("%s %d-%d", t.State, t.Now.Line, t.Now.EndLine)
	}
	return fmt.Sprintf("%s %s%d", t.State, t.Now.Path, t.Now.Line)
}

// Comments stay with their lines through commits, renames and rebases; what is
// gone is told with what stood there.
func TestAnchorsFollowTheirLines(t *testing.T) {
	w := newWorld(t, map[string]string{"a.go": numbered(40, nil), "b.go": "package b\n"})
	w.tree.Commit(ana, "fix", map[string]string{"a.go": numbered(40, map[int]string{10: "changed by ana", 20: "", 30: "another one of ana"})})
	w.open()
	for i, a := range []core.Anchor{
		{Path: "a.go", Line: 10},
		{Path: "a.go", Line: 28, EndLine: 31},
		{Path: "a.go", Side: "old", Line: 20},
		{Path: "a.go"},
		{},
		{Path: "b.go", Line: 1},
		{Path: "a.go", Line: 35},
	} {
		n := w.draft(bo, a, fmt.Sprintf("remark %d", i), "")
		if n.Anchor.Head != w.change.Head || n.Anchor.Base != w.base {
			t.Errorf("anchor %+v", n.Anchor)
		}
	}
	list := w.threads(bo)
	if got, want := list[0].Anchor.Hunk, " this is line 7\n this is line 8\n this is line 9\n+changed by ana\n"; got != want {
		t.Errorf("hunk %q", got)
	}
	if got, want := list[2].Anchor.Hunk, " this is line 17\n this is line 18\n this is line 19\n-this is line 20\n"; got != want {
		t.Errorf("hunk of the old side %q", got)
	}
	show := func() []string {
		var out []string
		for _, t := range w.threads(bo) {
			out = append(out, standing(t))
		}
		return out
	}
	check := func(what string, want ...string) {
		t.Helper()
		if diff := cmp.Diff(want, show()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", what, diff)
		}
	}
	check("as written", "draft 10", "draft 28-31", "draft 20", "draft 0", "draft", "draft 1", "draft 35")

	// Two lines come in above, line 10 goes, line 35 is moved to the top.
	text := "new 1\nthis is line 36\nnew 2\n" + strings.Replace(numbered(40, map[int]string{10: "", 20: "", 30: "another one of ana"}), "this is line 36\n", "", 1)
	w.tree.Commit(ana, "more", map[string]string{"a.go": text})
	w.pushed()
	check("after a push", "draft lost", "draft 30-33", "draft 20", "draft 0", "draft", "draft 1", "draft 2")

	w.tree.Git("mv", "a.go", "c.go")
	w.tree.Commit(ana, "move", nil)
	w.pushed()
	check("after a rename", "draft lost", "draft 30-33", "draft 20", "draft c.go0", "draft", "draft 1", "draft c.go2")

	// The base moves, the branch is made anew on it, by force.
	w.baseMoves(map[string]string{"a.go": "top\n" + numbered(40, nil)})
	w.tree.Git("reset", "--quiet", "--hard", "main")
	w.tree.Commit(ana, "anew", map[string]string{"a.go": "top\n" + numbered(40, map[int]string{10: "changed by ana", 20: "", 30: "another one of ana"}), "b.go": ""})
	w.pushed()
	check("after a rebase", "draft 11", "draft 29-32", "draft 21", "draft 0", "draft", "draft lost", "draft 36")

	for _, bad := range []core.Anchor{
		{Path: "a.go", Line: 1000},
		{Path: "a.go", Line: 5, EndLine: 3},
		{Path: "../etc/passwd", Line: 1},
		{Path: "nothing.go", Line: 1},
		{Path: "a.go", Line: 1, Side: "left"},
		{Line: 3},
		{Path: "a.go", Line: 1, Head: "HEAD"},
	} {
		if _, err := w.svc.Write(t.Context(), w.change.ID, bo, bad, "x", ""); !core.Is(err, core.Invalid) && !core.Is(err, core.NotFound) {
			t.Errorf("%+v: %v", bad, err)
		}
	}
}

// Drafts of two people do not mix, and become one prompt, once.
func TestDraftsBecomeOnePrompt(t *testing.T) {
	w := newWorld(t, map[string]string{"a.go": numbered(10, nil)})
	w.tree.Commit(ana, "fix", map[string]string{"a.go": numbered(10, map[int]string{5: "five"})})
	w.open()
	first := w.draft(bo, core.Anchor{Path: "a.go", Line: 5}, "Why five?\n```\ncode\n```", "c1")
	if again := w.draft(bo, core.Anchor{Path: "a.go", Line: 6}, "again", "c1"); again.ID != first.ID || again.Body != first.Body {
		t.Errorf("the same client id made %+v", again)
	}
	second := w.draft(bo, core.Anchor{Path: "a.go", Line: 7, EndLine: 8}, "And these", "c2")
	w.draft(cy, core.Anchor{Path: "a.go", Line: 1}, "of cy", "c1")
	if got := len(w.threads(cy)); got != 1 {
		t.Errorf("cy sees %d threads", got)
	}
	_, err := w.svc.Rewrite(t.Context(), w.change.ID, first.ID, cy, "stolen")
	w.want(err, core.NotFound, "no draft")
	w.want(w.svc.Discard(t.Context(), w.change.ID, first.ID, cy), core.NotFound)
	if n, err := w.svc.Rewrite(t.Context(), w.change.ID, second.ID, bo, "And these?"); err != nil || n.Body != "And these?" {
		t.Errorf("%+v, %v", n, err)
	}

	send := core.Sending{To: "agent", Note: "Please look again.", ClientID: "send-1"}
	var group sync.WaitGroup
	results := make([]core.SentNotes, 4)
	for i := range results {
		group.Go(func() {
			got, err := w.svc.Send(t.Context(), w.change.ID, bo, send)
			if err != nil {
				t.Error(err)
			}
			results[i] = got
		})
	}
	group.Wait()
	for _, r := range results[1:] {
		if diff := cmp.Diff(results[0].Comments, r.Comments); diff != "" || r.Prompt == nil || r.Prompt.ID != results[0].Prompt.ID {
			t.Errorf("sent twice: %s", diff)
		}
	}
	prompts, err := w.db.Prompts(t.Context(), w.session)
	if err != nil || len(prompts) != 1 {
		t.Fatalf("%d prompts, %v", len(prompts), err)
	}
	p := prompts[0]
	for _, part := range []string{
		"Review by bo of change shop#1", "Please look again.", "1. a.go, line 5, commit ", "+five\n", "Why five?", "2. a.go, lines 7 to 8, commit ", "And these?",
		string(core.ThreadOf(results[0].Comments[1].ID)),
	} {
		if !strings.Contains(p.Text, part) {
			t.Errorf("the prompt lacks %q:\n%s", part, p.Text)
		}
	}
	if p.Author.Handle != "bo" || len(results[0].Comments) != 3 {
		t.Errorf("%+v", p)
	}
	// Whoever watches the forge finds nothing that was not told.
	if err := w.changes.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got, want := w.said(), "prompt.queued, session.state, comment, comment, comment"; got != want {
		t.Errorf("events: %s", got)
	}
	if prompts, _ := w.db.Prompts(t.Context(), w.session); len(prompts) != 1 {
		t.Errorf("%d prompts after a look at the forge", len(prompts))
	}
	list := w.threads(bo)
	if len(list) != 3 || list[1].State != core.ThreadSent || list[1].Prompt != p.ID || list[1].Anchor.Hunk == "" {
		t.Errorf("%+v", list)
	}
	if got := w.threads(cy); len(got) != 4 || got[3].State != core.ThreadDraft {
		t.Errorf("cy sees %+v", got)
	}
	_, err = w.svc.Send(t.Context(), w.change.ID, bo, core.Sending{To: "agent", ClientID: "send-2"})
	w.want(err, core.Conflict, "no drafts")
	for _, bad := range []core.Sending{{To: "all", ClientID: "x"}, {To: "people"}, {To: "people", ClientID: "x", Note: "\x00"}} {
		_, err := w.svc.Send(t.Context(), w.change.ID, cy, bad)
		w.want(err, core.Invalid)
	}
	if _, err := w.svc.Send(t.Context(), w.change.ID, cy, core.Sending{To: "people", ClientID: "x"}); err != nil {
		t.Fatal(err)
	}
	if prompts, _ := w.db.Prompts(t.Context(), w.session); len(prompts) != 1 {
		t.Errorf("words to people became a prompt")
	}
}

// When the prompt cannot be queued, the drafts are still there.
func TestSendIsAllOrNothing(t *testing.T) {
	w := newWorld(t, map[string]string{"a.go": "a\n"})
	w.tree.Commit(ana, "fix", map[string]string{"a.go": "b\n"})
	w.open()
	w.draft(bo, core.Anchor{Path: "a.go", Line: 1}, "why", "")
	if _, err := w.db.UpdateSession(t.Context(), w.session, func(s *core.Session) error { s.State = core.SessionArchived; return nil }); err != nil {
		t.Fatal(err)
	}
	before := w.said()
	_, err := w.svc.Send(t.Context(), w.change.ID, bo, core.Sending{To: "agent", ClientID: "1"})
	w.want(err, core.Conflict, "archived")
	comments, _ := w.db.Comments(t.Context(), w.change.ID)
	if notes, _ := w.svc.Notes(t.Context(), w.change.ID, bo); len(notes) != 1 || len(comments) != 0 || w.said() != before {
		t.Errorf("%d drafts, %d comments, %s", len(notes), len(comments), w.said())
	}
}

func TestThreadsAreAnsweredAndResolved(t *testing.T) {
	w := newWorld(t, map[string]string{"a.go": numbered(30, nil), "b.go": "b\n"})
	w.tree.Commit(ana, "fix", map[string]string{"a.go": numbered(30, map[int]string{5: "five", 20: "twenty"})})
	w.open()
	w.draft(bo, core.Anchor{Path: "a.go", Line: 5}, "why five", "")
	w.draft(bo, core.Anchor{Path: "a.go", Line: 20}, "why twenty", "")
	out, err := w.svc.Send(t.Context(), w.change.ID, bo, core.Sending{To: "agent", ClientID: "1"})
	if err != nil {
		t.Fatal(err)
	}
	thread := core.ThreadOf(out.Comments[0].ID)
	// A person's commit answers nothing.
	w.tree.Commit(ana, "by hand", map[string]string{"a.go": numbered(30, map[int]string{5: "FIVE", 20: "twenty"})})
	w.pushed()
	if got := w.threads(bo)[0]; got.State != core.ThreadSent || !got.Lost {
		t.Errorf("%+v", got)
	}
	w.tree.Git("reset", "--quiet", "--hard", "HEAD~1")
	w.agent("b only", map[string]string{"b.go": "B\n"})
	w.pushed()
	if got := w.threads(bo)[0]; got.State != core.ThreadSent || got.Lost {
		t.Errorf("another file: %+v", got)
	}
	commit := w.agent("five again", map[string]string{"a.go": numbered(30, map[int]string{5: "5", 20: "twenty"})})
	w.agent("and "+string(core.ThreadOf(out.Comments[1].ID)), map[string]string{"b.go": "BB\n"})
	w.pushed()
	list := w.threads(bo)
	if a := list[0].Answered; list[0].State != core.ThreadAnswered || a == nil || a.Commit != commit || !strings.Contains(a.Patch, "-five\n+5\n") || strings.Contains(a.Patch, "twenty") {
		t.Errorf("%+v %+v", list[0], a)
	}
	if a := list[1].Answered; list[1].State != core.ThreadAnswered || a == nil || a.Commit != w.change.Head {
		t.Errorf("named: %+v %+v", list[1], a)
	}

	for range 2 {
		got, err := w.svc.Resolve(t.Context(), thread, cy, true)
		if err != nil || got.State != core.ThreadResolved || got.ResolvedBy != "cy" {
			t.Errorf("%+v, %v", got, err)
		}
	}
	if n := strings.Count(w.said(), "thread_resolved"); n != 1 {
		t.Errorf("told %d times", n)
	}
	if got, err := w.svc.Resolve(t.Context(), thread, bo, false); err != nil || got.State != core.ThreadAnswered {
		t.Errorf("%+v, %v", got, err)
	}
	for range 2 {
		if _, err := w.svc.Reply(t.Context(), thread, cy, "Thanks", "r1"); err != nil {
			t.Fatal(err)
		}
	}
	if got := w.threads(bo)[0]; len(got.Comments) != 2 || got.Comments[1].Thread != thread {
		t.Errorf("%+v", got.Comments)
	}
	_, err = w.svc.Reply(t.Context(), core.ThreadOf(core.NewCommentID()), cy, "x", "")
	w.want(err, core.NotFound)

	// A comment that came another way is a thread as well.
	m, err := w.changes.Comment(t.Context(), forge.NewComment{Change: w.change.ID, Author: bo, Body: "by hand", Path: "a.go", Line: 3})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := w.svc.Resolve(t.Context(), core.ThreadOf(m.ID), bo, true); err != nil || got.State != core.ThreadResolved || got.Anchor.Line != 3 {
		t.Errorf("%+v, %v", got, err)
	}
}

// agent commits as the platform does.
func (w *world) agent(message string, files map[string]string) string {
	w.Helper()
	w.tree.Commit(ana, message, files)
	w.tree.Git("-c", "user.name=Drydock", "-c", "user.email=drydock@localhost", "rebase", "--quiet", "--force-rebase",
		"--exec", "GIT_COMMITTER_NAME=Drydock GIT_COMMITTER_EMAIL=drydock@localhost git commit --quiet --amend --no-edit", "HEAD~1")
	return w.tree.Head()
}

func TestViewedBelongsToTheContent(t *testing.T) {
	w := newWorld(t, map[string]string{"a.go": "a\n", "b.go": "b\n", "gone.go": "x\n"})
	w.tree.Commit(ana, "fix", map[string]string{"a.go": "aa\n", "b.go": "bb\n", "gone.go": ""})
	w.open()
	for _, f := range w.files("", "").Items {
		if err := w.svc.SetViewed(t.Context(), w.change.ID, bo, core.ViewedMark{Path: f.Path, Blob: f.NewBlob, Viewed: true}); err != nil {
			t.Fatal(err)
		}
	}
	w.tree.Commit(ana, "more", map[string]string{"a.go": "aaa\n"})
	w.pushed()
	for _, f := range w.files("", "").Items {
		if changed := f.Path == "a.go"; f.Viewed == changed || f.ChangedSinceViewed != changed {
			t.Errorf("%+v", f)
		}
	}
	if d, err := w.svc.Files(t.Context(), w.change.ID, cy, core.DiffRange{}); err != nil || d.Items[0].Viewed {
		t.Errorf("marks of another person: %+v, %v", d, err)
	}
	if err := w.svc.SetViewed(t.Context(), w.change.ID, bo, core.ViewedMark{Path: "b.go"}); err != nil {
		t.Fatal(err)
	}
	for _, f := range w.files("", "").Items {
		if f.Path == "b.go" && f.Viewed {
			t.Error("a mark that was taken away is there")
		}
	}
	w.want(w.svc.SetViewed(t.Context(), w.change.ID, bo, core.ViewedMark{Path: "b.go", Blob: "x", Viewed: true}), core.Invalid)
	w.want(w.svc.SetViewed(t.Context(), w.change.ID, bo, core.ViewedMark{Path: "../b.go", Viewed: true}), core.Invalid)
}

func TestHandBack(t *testing.T) {
	w := newWorld(t, map[string]string{"a.go": "a\n"})
	w.tree.Commit(ana, "fix", map[string]string{"a.go": "b\n"})
	w.open()
	w.draft(bo, core.Anchor{Path: "a.go", Line: 1}, "why b", "")
	if _, err := w.svc.Send(t.Context(), w.change.ID, bo, core.Sending{To: "people", ClientID: "1"}); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		p, err := w.svc.HandBack(t.Context(), w.change.ID, bo, "Not like this.", "h1")
		if err != nil || !strings.Contains(p.Text, "Not like this.") || !strings.Contains(p.Text, "why b") {
			t.Errorf("%+v, %v", p, err)
		}
	}
	if got := w.said(); strings.Count(got, "handed_back") != 1 || strings.Count(got, "prompt.queued") != 1 {
		t.Errorf("events: %s", got)
	}
	_, err := w.svc.HandBack(t.Context(), w.change.ID, bo, " ", "")
	w.want(err, core.Invalid)
	if _, err := w.changes.Close(t.Context(), w.change.ID, bo); err != nil {
		t.Fatal(err)
	}
	_, err = w.svc.HandBack(t.Context(), w.change.ID, bo, "again", "")
	w.want(err, core.Conflict, "closed")
}
