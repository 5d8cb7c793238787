// Package forgetest is what every forge must pass.
//
// It makes a source repository with git, hands it to the forge, and acts as
// several people. It needs the git program and nothing else; each check runs on
// a fixture of its own.
//
//	forgetest.Run(t, func(t *testing.T) forgetest.Fixture { return forgetest.Fixture{Forge: f, Push: push} })
package forgetest

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"drydock/internal/core"
	"drydock/internal/delivery/forge"
)

// Fixture is a fresh forge, and a way to act beside it.
type Fixture struct {
	Forge forge.Forge
	// Push pushes HEAD of the work tree dir to a branch the way a person does.
	Push func(t *testing.T, repository, dir, branch string, as core.Author) error
}

// People of the checks.
var (
	ana = core.Author{Handle: "ana", Name: "Ana", Email: "ana@example.com"}
	bo  = core.Author{Handle: "bo", Name: "Bo", Email: "bo@example.com"}
)

// Tree is a repository with a work tree.
type Tree struct {
	t   testing.TB
	Dir string
}

// NewTree makes an empty one on branch main.
func NewTree(t testing.TB) *Tree {
	t.Helper()
	w := &Tree{t: t, Dir: t.TempDir()}
	w.Git("init", "--quiet", "--initial-branch=main")
	return w
}

// Git runs git in the tree.
func (w *Tree) Git(args ...string) string {
	w.t.Helper()
	out, err := w.try(args...)
	if err != nil {
		w.t.Fatalf("git %v: %v\n%s", args, err, out)
	}
	return out
}

func (w *Tree) try(args ...string) (string, error) {
	cmd := exec.CommandContext(context.Background(), "git", args...)
	cmd.Dir = w.Dir
	cmd.Env = append(cmd.Environ(), "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null",
		"GIT_AUTHOR_NAME=Author", "GIT_AUTHOR_EMAIL=author@example.com", "GIT_COMMITTER_NAME=Committer", "GIT_COMMITTER_EMAIL=committer@example.com")
	out, err := cmd.CombinedOutput()
	return strings.TrimSpace(string(out)), err
}

// Commit writes files ("" removes one) and commits them.
func (w *Tree) Commit(by core.Author, message string, files map[string]string) string {
	w.t.Helper()
	for path, content := range files {
		full := filepath.Join(w.Dir, path)
		if content == "" {
			_ = os.Remove(full)
			continue
		}
		if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
			w.t.Fatal(err)
		}
		if err := os.WriteFile(full, []byte(content), 0o644); err != nil {
			w.t.Fatal(err)
		}
	}
	w.Git("add", "--all")
	w.Git("commit", "--quiet", "--author", by.Name+" <"+by.Email+">", "-m", message)
	return w.Head()
}

// Head is the commit of HEAD.
func (w *Tree) Head() string { return w.Git("rev-parse", "HEAD") }

// stage is a fixture with a repository "shop" and a pushed branch "fix".
type stage struct {
	*testing.T
	f    Fixture
	tree *Tree // source and work tree in one
	base string
	head string
}

func newStage(t *testing.T, f Fixture) *stage {
	s := &stage{T: t, f: f, tree: NewTree(t)}
	s.base = s.tree.Commit(bo, "start", map[string]string{"a.txt": "one\ntwo\nthree\n", "b.txt": "b\n"})
	if _, _, err := f.Forge.EnsureRepository(t.Context(), forge.RepositorySpec{Name: "shop", Source: s.tree.Dir}); err != nil {
		t.Fatal(err)
	}
	s.tree.Git("checkout", "--quiet", "-b", "work")
	s.head = s.tree.Commit(ana, "fix a", map[string]string{"a.txt": "one\n2\nthree\n"})
	s.push("fix", "", s.head)
	return s
}

func (s *stage) push(branch, expected, commit string) {
	s.Helper()
	err := s.f.Forge.Push(s.Context(), forge.Push{Repository: "shop", Branch: branch, Commit: commit, Expected: expected, From: s.tree.Dir})
	if err != nil {
		s.Fatal(err)
	}
}

func (s *stage) open(key, branch string) core.Change {
	s.Helper()
	c, opened, err := s.f.Forge.OpenChange(s.Context(), forge.NewChange{
		Key: key, Repository: "shop", Title: "Fix a", Body: "**why**", Branch: branch, Authors: []core.Author{ana}, Session: core.NewSessionID(),
	})
	if err != nil || !opened {
		s.Fatalf("opened %v: %v", opened, err)
	}
	return c
}

func (s *stage) approve(c core.Change) {
	s.Helper()
	if _, err := s.f.Forge.Approve(s.Context(), forge.NewApproval{Change: c.ID, By: bo}); err != nil {
		s.Fatal(err)
	}
}

// moveBase adds a commit to main of the source and takes it in.
func (s *stage) moveBase(files map[string]string) string {
	s.Helper()
	s.tree.Git("checkout", "--quiet", "main")
	commit := s.tree.Commit(bo, "base moves", files)
	s.tree.Git("checkout", "--quiet", "work")
	if _, err := s.f.Forge.Refresh(s.Context(), "shop"); err != nil {
		s.Fatal(err)
	}
	return commit
}

func (s *stage) want(err error, kind core.Kind, words ...string) {
	s.Helper()
	if !core.Is(err, kind) {
		s.Fatalf("got %v, want an error of kind %s", err, kind)
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			s.Errorf("error %q does not name %q", err, w)
		}
	}
}

// Run runs the suite.
func Run(t *testing.T, fresh func(t *testing.T) Fixture) {
	checks := []struct {
		name string
		f    func(s *stage)
	}{
		{"repositories follow their source forward", testRefresh},
		{"push moves from where the caller says", testPush},
		{"open once per key", testOpen},
		{"commits and diff", testDiff},
		{"comments", testComments},
		{"approvals are bound to a commit", testApprovals},
		{"merge commit", testMergeCommit},
		{"squash", testSquash},
		{"rebase", testRebase},
		{"conflicts name the files", testConflict},
		{"close and reopen", testClose},
		{"people's pushes are noticed", testPoll},
		{"a merge by hand is noticed", testMergedByHand},
	}
	for _, c := range checks {
		t.Run(c.name, func(t *testing.T) { c.f(newStage(t, fresh(t))) })
	}
}

func testRefresh(s *stage) {
	ctx, f := s.Context(), s.f.Forge
	moved := s.moveBase(map[string]string{"b.txt": "b2\n"})
	if at, err := f.Branch(ctx, "shop", "main"); err != nil || at != moved {
		s.Errorf("main stands at %s, %v; want %s", at, err, moved)
	}
	// The source rewrites its history: named, never taken over.
	s.tree.Git("checkout", "--quiet", "main")
	s.tree.Git("commit", "--quiet", "--amend", "--no-edit", "--date=2001-01-01T00:00:00Z")
	rewritten := s.tree.Head()
	res, err := f.Refresh(ctx, "shop")
	if err != nil || len(res.Diverged) != 1 || res.Diverged[0] != (forge.BranchState{Branch: "main", Here: moved, Source: rewritten}) {
		s.Errorf("%+v, %v", res, err)
	}
	if at, _ := f.Branch(ctx, "shop", "main"); at != moved {
		s.Errorf("main was moved to %s", at)
	}
	_, _, err = f.EnsureRepository(ctx, forge.RepositorySpec{Name: "shop", Source: s.TempDir()})
	s.want(err, core.Conflict)
	_, _, err = f.EnsureRepository(ctx, forge.RepositorySpec{Name: "../shop"})
	s.want(err, core.Invalid)
	repo, err := f.Repository(ctx, "shop")
	if err != nil || repo.DefaultBranch != "main" {
		s.Errorf("%+v, %v", repo, err)
	}
}

func testPush(s *stage) {
	ctx, f := s.Context(), s.f.Forge
	s.push("fix", "", s.head) // again
	next := s.tree.Commit(ana, "more", map[string]string{"c.txt": "c\n"})
	s.want(f.Push(ctx, forge.Push{Repository: "shop", Branch: "fix", Commit: next, Expected: s.base, From: s.tree.Dir}), core.Conflict, s.head)
	s.want(f.Push(ctx, forge.Push{Repository: "shop", Branch: "fix", Commit: next, From: s.tree.Dir}), core.Conflict, s.head)
	s.push("fix", s.head, next)
	s.push("fix", next, s.head) // the platform may take back its own
	s.want(f.Push(ctx, forge.Push{Repository: "shop", Branch: "main", Commit: next, Expected: s.base, From: s.tree.Dir}), core.Denied)
	s.want(f.Push(ctx, forge.Push{Repository: "none", Branch: "fix", Commit: next, From: s.tree.Dir}), core.NotFound)
	s.want(f.Push(ctx, forge.Push{Repository: "shop", Branch: "-x", Commit: next, From: s.tree.Dir}), core.Invalid)
}

func testOpen(s *stage) {
	ctx, f := s.Context(), s.f.Forge
	c := s.open("key", "fix")
	if c.Number != 1 || c.Base != "main" || c.Head != s.head || c.BaseCommit != s.base || c.State != core.ChangeOpen {
		s.Errorf("%+v", c)
	}
	again, opened, err := f.OpenChange(ctx, forge.NewChange{Key: "key", Repository: "shop", Title: "other", Branch: "fix"})
	if err != nil || opened || again.ID != c.ID || again.Title != c.Title {
		s.Errorf("%+v, %v, %v", again, opened, err)
	}
	_, _, err = f.OpenChange(ctx, forge.NewChange{Key: "second", Repository: "shop", Title: "x", Branch: "fix"})
	s.want(err, core.Conflict, "#1")
	_, _, err = f.OpenChange(ctx, forge.NewChange{Key: "third", Repository: "shop", Title: "x", Branch: "none"})
	s.want(err, core.NotFound, "none")
	s.push("same", "", s.base)
	_, _, err = f.OpenChange(ctx, forge.NewChange{Key: "fourth", Repository: "shop", Title: "x", Branch: "same"})
	s.want(err, core.Conflict)
	title, body, verdict := "New title", "new body", "proven"
	u, err := f.UpdateChange(ctx, c.ID, forge.ChangeUpdate{Title: &title, Body: &body, Verdict: &verdict, Authors: []core.Author{bo, ana}})
	if err != nil || u.Title != title || u.Body != body || u.Verdict != verdict || len(u.Authors) != 2 || u.Head != s.head {
		s.Errorf("%+v, %v", u, err)
	}
	found, err := f.ChangeByNumber(ctx, "shop", 1)
	if err != nil || found.ID != c.ID {
		s.Errorf("%+v, %v", found, err)
	}
	_, err = f.ChangeByNumber(ctx, "shop", 9)
	s.want(err, core.NotFound, "shop#9")
	list, _, err := f.Changes(ctx, core.ChangeFilter{Session: c.Session}, core.Page{})
	if err != nil || len(list) != 1 {
		s.Errorf("%+v, %v", list, err)
	}
}

func testDiff(s *stage) {
	ctx, f := s.Context(), s.f.Forge
	second := s.tree.Commit(bo, "second\n\nwith a body", map[string]string{"dir/new.txt": "n\n", "b.txt": ""})
	s.push("fix", s.head, second)
	c := s.open("key", "fix")
	s.moveBase(map[string]string{"other.txt": "x\n"}) // not part of the change
	commits, err := f.Commits(ctx, c.ID)
	if err != nil || len(commits) != 2 || commits[0].ID != s.head || commits[0].Subject != "fix a" || commits[0].Author.Email != ana.Email || commits[1].ID != second {
		s.Fatalf("%+v, %v", commits, err)
	}
	d, err := f.Diff(ctx, c.ID, forge.DiffOptions{})
	if err != nil || d.Base != s.base || d.Head != second || d.Truncated {
		s.Fatalf("%+v, %v", d, err)
	}
	var files []string
	for _, x := range d.Files {
		files = append(files, x.Status+" "+x.Path)
	}
	if want := []string{"M a.txt", "D b.txt", "A dir/new.txt"}; !slices.Equal(files, want) {
		s.Errorf("files %v, want %v", files, want)
	}
	if !strings.Contains(d.Patch, "-two\n+2\n") || strings.Contains(d.Patch, "other.txt") {
		s.Errorf("patch\n%s", d.Patch)
	}
	d, err = f.Diff(ctx, c.ID, forge.DiffOptions{From: s.head, Paths: []string{"dir"}})
	if err != nil || len(d.Files) != 1 || d.Files[0].Path != "dir/new.txt" || strings.Contains(d.Patch, "b.txt") {
		s.Errorf("%+v, %v", d, err)
	}
	d, err = f.Diff(ctx, c.ID, forge.DiffOptions{Limit: 40})
	if err != nil || !d.Truncated || len(d.Patch) > 40 {
		s.Errorf("%+v, %v", d, err)
	}
}

func testComments(s *stage) {
	ctx, f := s.Context(), s.f.Forge
	c := s.open("key", "fix")
	for range 2 {
		cm, err := f.Comment(ctx, forge.NewComment{Key: "c1", Change: c.ID, Author: bo, Body: "why?", Path: "a.txt", Line: 2})
		if err != nil || cm.Head != s.head {
			s.Fatalf("%+v, %v", cm, err)
		}
		if err := f.LinkComment(ctx, cm.ID, "prm_first"); err != nil {
			s.Fatal(err)
		}
		_ = f.LinkComment(ctx, cm.ID, "prm_second")
	}
	list, err := f.Comments(ctx, c.ID)
	if err != nil || len(list) != 1 || list[0].Prompt != "prm_first" || list[0].Line != 2 {
		s.Fatalf("%+v, %v", list, err)
	}
	for _, bad := range []forge.NewComment{{Body: " "}, {Body: "x", Path: "../x"}, {Body: "x", Line: 3}, {Body: strings.Repeat("x", 1<<20)}} {
		bad.Change, bad.Author = c.ID, bo
		_, err := f.Comment(ctx, bad)
		s.want(err, core.Invalid)
	}
	found, err := f.Poll(ctx, time.Time{})
	if err != nil || len(found) != 1 || found[0].Kind != forge.Commented || found[0].Comment.Body != "why?" || found[0].By.Handle != "bo" {
		s.Errorf("%+v, %v", found, err)
	}
	if found, err := f.Poll(ctx, time.Now().Add(time.Minute)); err != nil || len(found) != 0 {
		s.Errorf("%+v, %v", found, err)
	}
}

func testApprovals(s *stage) {
	ctx, f := s.Context(), s.f.Forge
	c := s.open("key", "fix")
	_, err := f.Merge(ctx, forge.MergeRequest{Change: c.ID, By: bo})
	s.want(err, core.NeedsApproval)
	_, err = f.Approve(ctx, forge.NewApproval{Change: c.ID, By: ana})
	s.want(err, core.Denied, "ana")
	_, err = f.Approve(ctx, forge.NewApproval{Change: c.ID, By: core.Author{Handle: "ana2", Email: "ANA@example.com"}})
	s.want(err, core.Denied)
	_, err = f.Approve(ctx, forge.NewApproval{Change: c.ID, By: bo, Head: s.base})
	s.want(err, core.Conflict)
	s.approve(c)
	s.approve(c)
	if list, err := f.Approvals(ctx, c.ID); err != nil || len(list) != 1 || list[0].Head != s.head {
		s.Errorf("%+v, %v", list, err)
	}
	next := s.tree.Commit(ana, "more", map[string]string{"c.txt": "c\n"})
	s.push("fix", s.head, next)
	if list, err := f.Approvals(ctx, c.ID); err != nil || len(list) != 0 {
		s.Errorf("an approval of an older commit counts: %+v, %v", list, err)
	}
	_, err = f.Merge(ctx, forge.MergeRequest{Change: c.ID, By: ana})
	s.want(err, core.NeedsApproval)
	s.approve(c)
	// The approver's own prompt joins the change: no longer somebody else.
	if _, err := f.UpdateChange(ctx, c.ID, forge.ChangeUpdate{Authors: []core.Author{bo}}); err != nil {
		s.Fatal(err)
	}
	_, err = f.Merge(ctx, forge.MergeRequest{Change: c.ID, By: bo})
	s.want(err, core.NeedsApproval)
	other := core.Author{Handle: "cy"}
	if _, err := f.Approve(ctx, forge.NewApproval{Change: c.ID, By: other}); err != nil {
		s.Fatal(err)
	}
	_, err = f.Merge(ctx, forge.MergeRequest{Change: c.ID, By: ana, Head: s.head})
	s.want(err, core.Conflict)
	if _, err := f.Merge(ctx, forge.MergeRequest{Change: c.ID, By: ana, Head: next}); err != nil {
		s.Errorf("an author merges what another approved: %v", err)
	}
	_, err = f.Approve(ctx, forge.NewApproval{Change: c.ID, By: other})
	s.want(err, core.Conflict)
}

// merged merges and fetches the base into the tree.
func (s *stage) merged(c core.Change, method forge.Method) core.Change {
	s.Helper()
	m, err := s.f.Forge.Merge(s.Context(), forge.MergeRequest{Change: c.ID, By: bo, Method: method})
	if err != nil {
		s.Fatal(err)
	}
	repo, err := s.f.Forge.Repository(s.Context(), "shop")
	if err != nil {
		s.Fatal(err)
	}
	s.tree.Git("fetch", "--quiet", repo.Location, "main")
	if at := s.tree.Git("rev-parse", "FETCH_HEAD"); m.State != core.ChangeMerged || m.Merge != at {
		s.Fatalf("%s merged as %s, main stands at %s", m.State, m.Merge, at)
	}
	again, err := s.f.Forge.Merge(s.Context(), forge.MergeRequest{Change: c.ID, By: bo, Method: method})
	if err != nil || again.Merge != m.Merge {
		s.Errorf("a second merge: %+v, %v", again, err)
	}
	d, err := s.f.Forge.Diff(s.Context(), c.ID, forge.DiffOptions{})
	if err != nil || len(d.Files) != 1 || d.Files[0].Path != "a.txt" {
		s.Errorf("the diff of a merged change: %+v, %v", d, err)
	}
	return m
}

func testMergeCommit(s *stage) {
	c := s.open("key", "fix")
	moved := s.moveBase(map[string]string{"other.txt": "x\n"})
	s.approve(c)
	m := s.merged(c, forge.MergeCommit)
	if got := s.tree.Git("log", "-1", "--format=%P|%an|%cn", m.Merge); got != moved+" "+s.head+"|Bo|Drydock" {
		s.Errorf("got %s", got)
	}
	body := s.tree.Git("log", "-1", "--format=%B", m.Merge)
	if !strings.Contains(body, "Approved-by: Bo <bo@example.com>") || !strings.Contains(body, "#1") {
		s.Errorf("message\n%s", body)
	}
	if files := s.tree.Git("ls-tree", "-r", "--name-only", m.Merge); files != "a.txt\nb.txt\nother.txt" {
		s.Errorf("files %q", files)
	}
}

func testSquash(s *stage) {
	next := s.tree.Commit(core.Author{Name: "Cy", Email: "cy@example.com"}, "and again", map[string]string{"a.txt": "one\n2\n3\n"})
	s.push("fix", s.head, next)
	c := s.open("key", "fix")
	moved := s.moveBase(map[string]string{"other.txt": "x\n"})
	s.approve(c)
	m := s.merged(c, forge.Squash)
	if got := s.tree.Git("log", "-1", "--format=%P|%an|%s", m.Merge); got != moved+"|Ana|Fix a (#1)" {
		s.Errorf("got %s", got)
	}
	body := s.tree.Git("log", "-1", "--format=%B", m.Merge)
	if !strings.Contains(body, "* fix a\n* and again\n") || !strings.Contains(body, "Co-authored-by: Cy <cy@example.com>") {
		s.Errorf("message\n%s", body)
	}
}

func testRebase(s *stage) {
	next := s.tree.Commit(bo, "second", map[string]string{"a.txt": "one\n2\n3\n"})
	s.push("fix", s.head, next)
	c := s.open("key", "fix")
	moved := s.moveBase(map[string]string{"other.txt": "x\n"})
	if _, err := s.f.Forge.Approve(s.Context(), forge.NewApproval{Change: c.ID, By: core.Author{Handle: "cy"}}); err != nil {
		s.Fatal(err)
	}
	m := s.merged(c, forge.Rebase)
	got := s.tree.Git("log", "-3", "--format=%an|%s", m.Merge)
	if got != "Bo|second\nAna|fix a\nBo|base moves" || s.tree.Git("rev-parse", m.Merge+"~2") != moved {
		s.Errorf("got\n%s", got)
	}
	if content := s.tree.Git("show", m.Merge+":a.txt"); content != "one\n2\n3" {
		s.Errorf("content %q", content)
	}
}

func testConflict(s *stage) {
	c := s.open("key", "fix")
	s.moveBase(map[string]string{"a.txt": "one\nzwei\nthree\n"})
	s.approve(c)
	for _, method := range []forge.Method{forge.MergeCommit, forge.Squash, forge.Rebase} {
		_, err := s.f.Forge.Merge(s.Context(), forge.MergeRequest{Change: c.ID, By: bo, Method: method})
		s.want(err, core.Conflict, "a.txt")
	}
	_, err := s.f.Forge.Merge(s.Context(), forge.MergeRequest{Change: c.ID, By: bo, Method: "octopus"})
	s.want(err, core.Invalid)
	if now, err := s.f.Forge.Change(s.Context(), c.ID); err != nil || now.State != core.ChangeOpen {
		s.Errorf("%+v, %v", now, err)
	}
}

func testClose(s *stage) {
	ctx, f := s.Context(), s.f.Forge
	c := s.open("key", "fix")
	if closed, err := f.Close(ctx, c.ID, bo); err != nil || closed.State != core.ChangeClosed {
		s.Fatalf("%+v, %v", closed, err)
	}
	if at, err := f.Branch(ctx, "shop", "fix"); err != nil || at != s.head {
		s.Errorf("the branch stands at %q, %v", at, err)
	}
	_, err := f.Merge(ctx, forge.MergeRequest{Change: c.ID, By: bo})
	s.want(err, core.Conflict)
	second := s.open("key2", "fix")
	_, err = f.Reopen(ctx, c.ID, bo)
	s.want(err, core.Conflict, "#2")
	if _, err := f.Close(ctx, second.ID, bo); err != nil {
		s.Fatal(err)
	}
	if open, err := f.Reopen(ctx, c.ID, bo); err != nil || open.State != core.ChangeOpen {
		s.Errorf("%+v, %v", open, err)
	}
}

func testPoll(s *stage) {
	ctx, f := s.Context(), s.f.Forge
	c := s.open("key", "fix")
	ours := s.tree.Commit(ana, "ours", map[string]string{"c.txt": "c\n"})
	s.push("fix", s.head, ours)
	if found, err := f.Poll(ctx, time.Time{}); err != nil || len(found) != 0 {
		s.Fatalf("the platform's own push is told: %+v, %v", found, err)
	}
	theirs := s.tree.Commit(bo, "theirs", map[string]string{"d.txt": "d\n"})
	if err := s.f.Push(s.T, "shop", s.tree.Dir, "fix", bo); err != nil {
		s.Fatal(err)
	}
	found, err := f.Poll(ctx, time.Time{})
	if err != nil || len(found) != 1 || found[0].Kind != forge.Pushed || found[0].Head != theirs || found[0].By.Email != bo.Email {
		s.Fatalf("%+v, %v", found, err)
	}
	again, err := f.Poll(ctx, time.Now())
	if err != nil || len(again) != 1 || again[0].Key != found[0].Key {
		s.Errorf("not told again with the same key: %+v, %v", again, err)
	}
	if now, err := f.Change(ctx, c.ID); err != nil || now.Head != theirs {
		s.Errorf("%+v, %v", now, err)
	}
	_, err = f.Approve(ctx, forge.NewApproval{Change: c.ID, By: bo})
	s.want(err, core.Denied, "bo")
	if _, err := f.UpdateChange(ctx, c.ID, forge.ChangeUpdate{Head: &theirs}); err != nil {
		s.Fatal(err)
	}
	if found, err := f.Poll(ctx, time.Time{}); err != nil || len(found) != 0 {
		s.Errorf("told after it was acknowledged: %+v, %v", found, err)
	}
}

func testMergedByHand(s *stage) {
	ctx, f := s.Context(), s.f.Forge
	c := s.open("key", "fix")
	s.tree.Git("checkout", "--quiet", "main")
	s.tree.Git("merge", "--quiet", "--no-ff", "-m", "by hand", "work")
	tip := s.tree.Head()
	if err := s.f.Push(s.T, "shop", s.tree.Dir, "main", bo); err != nil {
		s.Fatal(err)
	}
	found, err := f.Poll(ctx, time.Time{})
	if err != nil || len(found) != 1 || found[0].Kind != forge.Merged || found[0].Change.Merge != tip {
		s.Fatalf("%+v, %v", found, err)
	}
	if now, err := f.Change(ctx, c.ID); err != nil || now.State != core.ChangeMerged {
		s.Errorf("%+v, %v", now, err)
	}
}
