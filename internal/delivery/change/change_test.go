package change

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"drydock/internal/core"
	"drydock/internal/delivery/forge"
	"drydock/internal/delivery/forge/forgetest"
	"drydock/internal/delivery/forge/local"
	"drydock/internal/gitcmd"
	"drydock/internal/store"
)

var (
	ana = core.Author{Handle: "ana", Name: "Ana", Email: "ana@example.com"}
	bo  = core.Author{Handle: "bo", Name: "Bo", Email: "bo@example.com"}
)

// sessions remembers what it is told, and drops what it knows.
type sessions struct {
	mu      sync.Mutex
	down    bool
	refuse  bool
	keys    map[string]bool
	events  []core.Event
	prompts map[string]core.NewPrompt
}

func (s *sessions) Prompt(_ context.Context, _ core.SessionID, p core.NewPrompt) (core.PromptID, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.down:
		return "", core.E("test", core.Unavailable, nil, "away")
	case s.refuse:
		return "", core.E("test", core.Conflict, nil, "archived")
	}
	s.prompts[p.ClientID] = p
	return core.PromptID("prm_of_" + p.ClientID), nil
}

func (s *sessions) Record(_ context.Context, _ core.SessionID, key string, e core.Event) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.down {
		return core.E("test", core.Unavailable, nil, "away")
	}
	if !s.keys[key] {
		s.keys[key] = true
		s.events = append(s.events, e)
	}
	return nil
}

// said lists the events in short.
func (s *sessions) said() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []string
	for _, e := range s.events {
		var d struct {
			Action string
			Prompt string
			Body   string
		}
		_ = json.Unmarshal(e.Data, &d)
		switch {
		case d.Action != "":
			out = append(out, e.Actor+" "+d.Action)
		case d.Prompt != "":
			out = append(out, e.Actor+" prompts")
		default:
			out = append(out, e.Actor+" comments")
		}
	}
	return strings.Join(out, ", ")
}

// losing loses the first FinishEffect, as a kill would.
type losing struct {
	*store.DB
	lose string // kind
}

func (l *losing) FinishEffect(ctx context.Context, id string, state store.EffectState, response json.RawMessage) error {
	if e, err := l.Effect(ctx, id); err == nil && e.Kind == l.lose {
		l.lose = ""
		return core.E("test", core.Unavailable, nil, "killed here")
	}
	return l.DB.FinishEffect(ctx, id, state, response)
}

type world struct {
	*testing.T
	svc      *Service
	forge    *local.Forge
	sessions *sessions
	effects  *losing
	tree     *forgetest.Tree
	session  core.SessionID
	head     string
}

func newWorld(t *testing.T) *world {
	t.Helper()
	git, err := gitcmd.New(gitcmd.Options{})
	if err != nil {
		t.Fatal(err)
	}
	db, err := store.Open(t.Context(), store.Options{Path: filepath.Join(t.TempDir(), "db")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	f, err := local.New(local.Deps{Git: git, Records: db}, local.Options{Dir: filepath.Join(t.TempDir(), "forge")})
	if err != nil {
		t.Fatal(err)
	}
	w := &world{
		T: t, forge: f, sessions: &sessions{keys: map[string]bool{}, prompts: map[string]core.NewPrompt{}}, effects: &losing{DB: db},
		tree: forgetest.NewTree(t), session: core.NewSessionID(),
	}
	w.svc = New(Deps{Forge: f, Effects: w.effects, Sessions: w.sessions}, Options{})
	w.tree.Commit(bo, "start", map[string]string{"a.txt": "a\n"})
	if _, _, err := w.svc.EnsureRepository(t.Context(), forge.RepositorySpec{Name: "shop", Source: w.tree.Dir}); err != nil {
		t.Fatal(err)
	}
	w.tree.Git("checkout", "--quiet", "-b", "work")
	w.head = w.tree.Commit(ana, "fix", map[string]string{"a.txt": "b\n"})
	return w
}

func (w *world) request(key string) DeliverRequest {
	return DeliverRequest{
		Key: key, Session: w.session, Repository: "shop", Title: "Fix the cart\nmore", Body: "It was **wrong**.", Base: "main",
		Branch: "drydock/fix", Head: w.head, From: w.tree.Dir, Authors: []core.Author{ana}, Evidence: "evd_1",
		Verdict: "proven",
	}
}

func (w *world) deliver(key string) Delivered {
	w.Helper()
	d, err := w.svc.Deliver(w.Context(), w.request(key))
	if err != nil {
		w.Fatal(err)
	}
	return d
}

func (w *world) want(err error, kind core.Kind) {
	w.Helper()
	if !core.Is(err, kind) {
		w.Fatalf("got %v, want kind %s", err, kind)
	}
}

func TestDeliverOpensOnceThenUpdates(t *testing.T) {
	w := newWorld(t)
	first := w.deliver("run1")
	again := w.deliver("run1")
	if !first.Opened || !again.Opened || first.Change.ID != again.Change.ID || first.Change.Title != "Fix the cart" {
		t.Errorf("%+v\n%+v", first, again)
	}
	for _, part := range []string{"It was **wrong**.", "Evidence `evd_1` for commit", "@ana"} {
		if !strings.Contains(first.Change.Body, part) {
			t.Errorf("the body lacks %q:\n%s", part, first.Change.Body)
		}
	}
	r := w.request("run2")
	r.Expected, r.Title, r.Verdict, r.Authors = w.head, "Other", "unproven", []core.Author{bo}
	r.Head = w.tree.Commit(ana, "second", map[string]string{"b.txt": "b\n"})
	second, err := w.svc.Deliver(t.Context(), r)
	if err != nil || second.Opened || second.Change.ID != first.Change.ID || second.Change.Head != r.Head || second.Change.Title != "Fix the cart" ||
		second.Change.Verdict != "unproven" || len(second.Change.Authors) != 2 {
		t.Errorf("%+v, %v", second, err)
	}
	if err := w.svc.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := w.sessions.said(); got != "platform opened, platform updated" {
		t.Errorf("events: %s", got)
	}
}

func TestDeliverKilledAnywhereHappensOnce(t *testing.T) {
	for _, kind := range []string{"change.push", "change.open", "change.deliver"} {
		t.Run(kind, func(t *testing.T) {
			w := newWorld(t)
			w.effects.lose = kind
			if _, err := w.svc.Deliver(t.Context(), w.request("run1")); err == nil {
				t.Fatal("nothing was lost")
			}
			d := w.deliver("run1")
			list, _, err := w.svc.List(t.Context(), core.ChangeFilter{}, core.Page{})
			if err != nil || len(list) != 1 || !d.Opened || d.Change.Number != 1 {
				t.Errorf("%+v, %+v, %v", d, list, err)
			}
			if got := w.sessions.said(); got != "platform opened" {
				t.Errorf("events: %s", got)
			}
		})
	}
	t.Run("event", func(t *testing.T) {
		w := newWorld(t)
		w.sessions.down = true
		if _, err := w.svc.Deliver(t.Context(), w.request("run1")); err == nil {
			t.Fatal("nothing was lost")
		}
		w.sessions.down = false
		w.deliver("run1")
		if got := w.sessions.said(); got != "platform opened" {
			t.Errorf("events: %s", got)
		}
	})
}

func TestDeliverAfterAMergeNeedsANewBranch(t *testing.T) {
	w := newWorld(t)
	d := w.deliver("run1")
	if st, err := w.svc.Standing(t.Context(), w.session); err != nil || !st.Found || st.Merged {
		t.Errorf("%+v, %v", st, err)
	}
	_, err := w.svc.Merge(t.Context(), forge.MergeRequest{Change: d.Change.ID, By: bo})
	w.want(err, core.NeedsApproval)
	_, err = w.svc.Approve(t.Context(), forge.NewApproval{Change: d.Change.ID, By: ana})
	w.want(err, core.Denied)
	if _, err := w.svc.Approve(t.Context(), forge.NewApproval{Change: d.Change.ID, By: bo, Note: "good"}); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if m, err := w.svc.Merge(t.Context(), forge.MergeRequest{Change: d.Change.ID, By: bo}); err != nil || m.State != core.ChangeMerged {
			t.Fatalf("%+v, %v", m, err)
		}
	}
	if st, err := w.svc.Standing(t.Context(), w.session); err != nil || !st.Merged {
		t.Errorf("%+v, %v", st, err)
	}
	_, err = w.svc.Deliver(t.Context(), w.request("run2"))
	w.want(err, core.Conflict)
	if !strings.Contains(core.HintOf(err), "new branch") {
		t.Errorf("hint %q", core.HintOf(err))
	}
	if got := w.sessions.said(); got != "platform opened, bo approved, bo merged" {
		t.Errorf("events: %s", got)
	}
}

func TestMergeKilledBeforeItIsWrittenDown(t *testing.T) {
	w := newWorld(t)
	d := w.deliver("run1")
	if _, err := w.svc.Approve(t.Context(), forge.NewApproval{Change: d.Change.ID, By: bo}); err != nil {
		t.Fatal(err)
	}
	w.effects.lose = "change.merge"
	if _, err := w.svc.Merge(t.Context(), forge.MergeRequest{Change: d.Change.ID, By: bo}); err == nil {
		t.Fatal("nothing was lost")
	}
	for range 2 {
		if err := w.svc.Recover(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if got := w.sessions.said(); got != "platform opened, bo approved, bo merged" {
		t.Errorf("events: %s", got)
	}
}

func TestCommentsBecomeEventsOrPrompts(t *testing.T) {
	w := newWorld(t)
	d := w.deliver("run1")
	ctx := t.Context()
	if _, err := w.svc.Comment(ctx, forge.NewComment{Change: d.Change.ID, Author: bo, Body: "Looks good, @drydock did well"}); err != nil {
		t.Fatal(err)
	}
	w.sessions.down = true // the comment stands; it is handed on later
	cm, err := w.svc.Comment(ctx, forge.NewComment{Change: d.Change.ID, Author: bo, Body: "@drydock: add a test", Path: "a.txt", Line: 1})
	if err != nil {
		t.Fatal(err)
	}
	w.sessions.down = false
	for range 3 {
		if err := w.svc.Sync(ctx); err != nil {
			t.Fatal(err)
		}
	}
	// A new process does not know what this one has told.
	if err := New(Deps{Forge: w.forge, Effects: w.effects, Sessions: w.sessions}, Options{}).Sync(ctx); err != nil {
		t.Fatal(err)
	}
	if got := w.sessions.said(); got != "platform opened, bo comments, bo prompts" {
		t.Errorf("events: %s", got)
	}
	p := w.sessions.prompts["comment:"+string(cm.ID)]
	want := "Review comment by bo on change shop#1, at a.txt:1 of commit " + w.head + ":\n\nadd a test"
	if len(w.sessions.prompts) != 1 || p.Author != bo || p.Text != want || p.Source != "comment:"+string(cm.ID) {
		t.Errorf("%+v", w.sessions.prompts)
	}
	list, err := w.svc.Comments(ctx, d.Change.ID)
	if err != nil || len(list) != 2 || list[1].Prompt == "" {
		t.Errorf("%+v, %v", list, err)
	}
	w.sessions.refuse = true
	if _, err := w.svc.Comment(ctx, forge.NewComment{Change: d.Change.ID, Author: bo, Body: "@drydock again"}); err != nil {
		t.Fatal(err)
	}
	if got := w.sessions.said(); got != "platform opened, bo comments, bo prompts, bo comments" {
		t.Errorf("events: %s", got)
	}
}

func TestAPersonsPushIsToldAndGuarded(t *testing.T) {
	w := newWorld(t)
	d := w.deliver("run1")
	repo, err := w.svc.Repository(t.Context(), "shop")
	if err != nil {
		t.Fatal(err)
	}
	theirs := w.tree.Commit(bo, "by hand", map[string]string{"c.txt": "c\n"})
	cmd := exec.CommandContext(t.Context(), "git", "push", "--quiet", repo.Location, "HEAD:refs/heads/drydock/fix")
	cmd.Dir = w.tree.Dir
	cmd.Env = append(os.Environ(), "GIT_COMMITTER_NAME=bo", "GIT_COMMITTER_EMAIL=bo@example.com")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for range 2 {
		if err := w.svc.Sync(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if got := w.sessions.said(); got != "platform opened, bo pushed" {
		t.Errorf("events: %s", got)
	}
	if c, err := w.svc.Get(t.Context(), string(d.Change.ID)); err != nil || c.Head != theirs {
		t.Errorf("%+v, %v", c, err)
	}
	r := w.request("run2")
	r.Expected = w.head
	w.tree.Git("reset", "--quiet", "--hard", w.head)
	r.Head = w.tree.Commit(ana, "mine", map[string]string{"d.txt": "d\n"})
	_, err = w.svc.Deliver(t.Context(), r)
	w.want(err, core.Conflict)
	if at, _ := w.svc.Branch(t.Context(), "shop", "drydock/fix"); at != theirs {
		t.Errorf("their commit was pushed away: %s", at)
	}
}

func TestGet(t *testing.T) {
	w := newWorld(t)
	d := w.deliver("run1")
	for _, ref := range []string{string(d.Change.ID), "shop#1", "1", "#1"} {
		if c, err := w.svc.Get(t.Context(), ref); err != nil || c.ID != d.Change.ID {
			t.Errorf("%s: %+v, %v", ref, c, err)
		}
	}
	for ref, kind := range map[string]core.Kind{"shop#2": core.NotFound, "7": core.NotFound, "x": core.Invalid, "chg_x": core.Invalid, "": core.Invalid, "none#1": core.NotFound} {
		if _, err := w.svc.Get(t.Context(), ref); !core.Is(err, kind) {
			t.Errorf("%q: %v, want %s", ref, err, kind)
		}
	}
	if c, err := w.svc.Close(t.Context(), d.Change.ID, bo); err != nil || c.State != core.ChangeClosed {
		t.Errorf("%+v, %v", c, err)
	}
	if c, err := w.svc.Reopen(t.Context(), d.Change.ID, bo); err != nil || c.State != core.ChangeOpen {
		t.Errorf("%+v, %v", c, err)
	}
	if got := w.sessions.said(); got != "platform opened, bo closed, bo reopened" {
		t.Errorf("events: %s", got)
	}
}

func TestAddressed(t *testing.T) {
	cases := []struct {
		body, text string
		ok         bool
	}{
		{"@drydock fix it", "fix it", true},
		{"@Drydock, fix it", "fix it", true},
		{"Hi.\n@drydock fix it\nplease", "Hi.\nfix it\nplease", true},
		{"  @drydock", "", true},
		{"please @drydock fix it", "please @drydock fix it", false},
		{"> @drydock fix it", "> @drydock fix it", false},
		{"```\n@drydock fix it\n```", "```\n@drydock fix it\n```", false},
		{"```\ncode\n```\n@drydock explain", "```\ncode\n```\nexplain", true},
		{"    @drydock in code", "@drydock in code", false},
		{"@drydock-bot fix it", "@drydock-bot fix it", false},
		{"@drydocker", "@drydocker", false},
		{"", "", false},
	}
	for _, tc := range cases {
		if text, ok := Addressed("drydock", tc.body); text != tc.text || ok != tc.ok {
			t.Errorf("%q: got %q, %v; want %q, %v", tc.body, text, ok, tc.text, tc.ok)
		}
	}
}

func FuzzAddressed(f *testing.F) {
	f.Add("@drydock x")
	f.Add("~~~\n@drydock\n```\n@drydock")
	f.Fuzz(func(t *testing.T, body string) {
		if text, _ := Addressed("drydock", body); len(text) > len(body) {
			t.Errorf("%q grew to %q", body, text)
		}
	})
}
