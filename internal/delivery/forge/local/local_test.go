package local

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"drydock/internal/core"
	"drydock/internal/delivery/forge"
	"drydock/internal/delivery/forge/forgetest"
	"drydock/internal/gitcmd"
	"drydock/internal/store"
)

func newForge(t *testing.T, opts Options) (*Forge, *store.DB) {
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
	opts.Dir = filepath.Join(t.TempDir(), "forge")
	f, err := New(Deps{Git: git, Records: db}, opts)
	if err != nil {
		t.Fatal(err)
	}
	return f, db
}

// person runs git the way somebody at a desk does.
func person(dir string, as core.Author, args ...string) (string, error) {
	cmd := exec.CommandContext(context.Background(), "git", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null", "GIT_TERMINAL_PROMPT=0",
		"GIT_COMMITTER_NAME="+as.Name, "GIT_COMMITTER_EMAIL="+as.Email)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func TestContractByPath(t *testing.T) {
	forgetest.Run(t, func(t *testing.T) forgetest.Fixture {
		f, _ := newForge(t, Options{})
		return forgetest.Fixture{Forge: f, Push: func(t *testing.T, repository, dir, branch string, as core.Author) error {
			out, err := person(dir, as, "push", f.path(repository), "HEAD:refs/heads/"+branch)
			if err != nil {
				t.Logf("%s", out)
			}
			return err
		}}
	})
}

// people known to the server of serveGit, by token.
var people = map[string]core.Author{
	"token-of-bo":  {Handle: "bo", Name: "Bo", Email: "bo@example.com"},
	"token-of-ana": {Handle: "ana", Name: "Ana", Email: "ana@example.com"},
}

func serveGit(t *testing.T, f *Forge, onPush func(string)) string {
	t.Helper()
	h, err := f.Handler(func(_ context.Context, _, secret string) (core.Author, error) {
		if who, ok := people[secret]; ok {
			return who, nil
		}
		return core.Author{}, core.E("test", core.Unauthorized, nil, "nobody has this token")
	}, HTTPOptions{Prefix: "/git", OnPush: onPush})
	if err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewServer(h)
	t.Cleanup(srv.Close)
	return srv.URL
}

func withToken(base, token, repository string) string {
	u, _ := url.Parse(base)
	u.User = url.UserPassword("anybody", token)
	u.Path = "/git/" + repository + ".git"
	return u.String()
}

func TestContractOverHTTP(t *testing.T) {
	forgetest.Run(t, func(t *testing.T) forgetest.Fixture {
		f, _ := newForge(t, Options{})
		base := serveGit(t, f, nil)
		return forgetest.Fixture{Forge: f, Push: func(t *testing.T, repository, dir, branch string, as core.Author) error {
			out, err := person(dir, core.Author{Name: "x", Email: "x@example.com"}, "push", withToken(base, "token-of-"+as.Handle, repository), "HEAD:refs/heads/"+branch)
			if err != nil {
				t.Logf("%s", out)
			}
			return err
		}}
	})
}

func TestGitOverHTTP(t *testing.T) {
	f, _ := newForge(t, Options{})
	pushed := make(chan string, 10)
	base := serveGit(t, f, func(name string) { pushed <- name })
	bo := people["token-of-bo"]
	tree := forgetest.NewTree(t)
	first := tree.Commit(bo, "start", map[string]string{"a.txt": "a\n"})
	if _, _, err := f.EnsureRepository(t.Context(), forge.RepositorySpec{Name: "shop", Source: tree.Dir}); err != nil {
		t.Fatal(err)
	}
	remote := withToken(base, "token-of-bo", "shop")
	clone := filepath.Join(t.TempDir(), "clone")
	if out, err := person(t.TempDir(), bo, "clone", "--quiet", remote, clone); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if out, _ := person(clone, bo, "ls-remote", "origin"); strings.Contains(out, "refs/drydock") || !strings.Contains(out, first+"\trefs/heads/main") {
		t.Errorf("refs\n%s", out)
	}
	// A push of several megabytes comes in chunks.
	big := strings.Repeat("x", 1<<20)
	files := map[string]string{}
	for i := range 4 {
		files["big"+string(rune('a'+i))] = randomText(big, i)
	}
	second := tree.Commit(bo, "big", files)
	if out, err := person(tree.Dir, bo, "push", remote, "HEAD:refs/heads/main", "HEAD:refs/heads/topic"); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	select {
	case name := <-pushed:
		if name != "shop" {
			t.Errorf("told of %q", name)
		}
	case <-time.After(10 * time.Second):
		t.Error("the push was not told")
	}
	if at, _ := f.Branch(t.Context(), "shop", "main"); at != second {
		t.Errorf("main at %s, want %s", at, second)
	}
	refused := map[string][]string{
		"force on the base":    {"push", "--force", remote, first + ":refs/heads/main"},
		"removal of the base":  {"push", remote, ":refs/heads/main"},
		"a ref of Drydock's":   {"push", remote, "HEAD:refs/drydock/platform/x"},
		"another kind of ref":  {"push", remote, "HEAD:refs/notes/x"},
		"a stranger":           {"push", withToken(base, "wrong", "shop"), "HEAD:refs/heads/y"},
		"an unknown repo":      {"push", withToken(base, "token-of-bo", "none"), "HEAD:refs/heads/y"},
		"a way out of the dir": {"ls-remote", withToken(base, "token-of-bo", "../x")},
	}
	for name, args := range refused {
		if out, err := person(tree.Dir, bo, args...); err == nil {
			t.Errorf("%s was let through: %s", name, out)
		}
	}
	if out, err := person(tree.Dir, bo, "push", "--force", remote, first+":refs/heads/topic"); err != nil {
		t.Errorf("force on another branch: %v\n%s", err, out)
	}
	for _, path := range []string{"/git/shop.git/HEAD", "/git/shop.git/config", "/git/shop.git/objects/info/packs", "/git/http/gitconfig", "/git/"} {
		req, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, base+path, nil)
		req.Header.Set("Authorization", "Bearer token-of-bo")
		resp, err := http.DefaultTransport.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != http.StatusNotFound {
			t.Errorf("%s answers %d", path, resp.StatusCode)
		}
	}
}

func randomText(s string, seed int) string {
	b := []byte(s)
	x := uint32(seed + 1)
	for i := range b {
		x = x*1664525 + 1013904223
		b[i] = byte('!' + x>>24%90)
	}
	return string(b)
}

// opened is a forge with one approved change.
func opened(t *testing.T, opts Options) (*Forge, *store.DB, *forgetest.Tree, core.Change) {
	t.Helper()
	f, db := newForge(t, opts)
	tree := forgetest.NewTree(t)
	ana, bo := people["token-of-ana"], people["token-of-bo"]
	tree.Commit(bo, "start", map[string]string{"a.txt": "a\n"})
	if _, _, err := f.EnsureRepository(t.Context(), forge.RepositorySpec{Name: "shop", Source: tree.Dir}); err != nil {
		t.Fatal(err)
	}
	head := tree.Commit(ana, "fix", map[string]string{"a.txt": "b\n"})
	if err := f.Push(t.Context(), forge.Push{Repository: "shop", Branch: "fix", Commit: head, From: tree.Dir}); err != nil {
		t.Fatal(err)
	}
	c, _, err := f.OpenChange(t.Context(), forge.NewChange{Key: "k", Repository: "shop", Title: "Fix", Branch: "fix", Authors: []core.Author{ana}})
	if err != nil {
		t.Fatal(err)
	}
	return f, db, tree, c
}

// dying loses the write that says that a change is merged, once.
type dying struct {
	Records
	die bool
}

func (d *dying) UpdateChange(ctx context.Context, id core.ChangeID, change func(*core.Change) error) (core.Change, error) {
	if d.die {
		d.die = false
		return core.Change{}, core.E("test", core.Unavailable, nil, "the daemon dies here")
	}
	return d.Records.UpdateChange(ctx, id, change)
}

func TestMergeCutShortIsFinishedLater(t *testing.T) {
	f, db, _, c := opened(t, Options{NoApproval: true})
	f.records = &dying{Records: db, die: true}
	if _, err := f.Merge(t.Context(), forge.MergeRequest{Change: c.ID, By: people["token-of-bo"]}); err == nil {
		t.Fatal("the write was not lost")
	}
	recorded, err := db.Change(t.Context(), c.ID)
	if err != nil || recorded.State != core.ChangeOpen {
		t.Fatalf("%+v, %v", recorded, err)
	}
	found, err := f.Poll(t.Context(), time.Now())
	if err != nil || len(found) != 1 || found[0].Kind != forge.Merged {
		t.Fatalf("%+v, %v", found, err)
	}
	tip, _ := f.Branch(t.Context(), "shop", "main")
	again, err := f.Merge(t.Context(), forge.MergeRequest{Change: c.ID, By: people["token-of-bo"]})
	if err != nil || again.Merge != tip || again.State != core.ChangeMerged {
		t.Errorf("%+v, %v; main at %s", again, err, tip)
	}
}

func TestChangeOutlivesItsBranch(t *testing.T) {
	f, _, _, c := opened(t, Options{NoApproval: true})
	if out, err := person(f.path("shop"), people["token-of-bo"], "update-ref", "-d", "refs/heads/fix"); err != nil {
		t.Fatal(out)
	}
	d, err := f.Diff(t.Context(), c.ID, forge.DiffOptions{})
	if err != nil || len(d.Files) != 1 {
		t.Errorf("%+v, %v", d, err)
	}
	if _, err := f.Merge(t.Context(), forge.MergeRequest{Change: c.ID, By: people["token-of-bo"]}); err != nil {
		t.Error(err)
	}
}

func TestHooksOfARepositoryDoNotRun(t *testing.T) {
	f, _, tree, _ := opened(t, Options{})
	hooks := filepath.Join(f.path("shop"), "hooks")
	mark := filepath.Join(t.TempDir(), "ran")
	if err := os.MkdirAll(hooks, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"pre-receive", "update", "post-receive", "reference-transaction", "post-update"} {
		if err := os.WriteFile(filepath.Join(hooks, name), []byte("#!/bin/sh\ntouch "+mark+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	next := tree.Commit(people["token-of-ana"], "next", map[string]string{"n.txt": "n\n"})
	if err := f.Push(t.Context(), forge.Push{Repository: "shop", Branch: "other", Commit: next, From: tree.Dir}); err != nil {
		t.Fatal(err)
	}
	base := serveGit(t, f, nil)
	if out, err := person(tree.Dir, people["token-of-bo"], "push", withToken(base, "token-of-bo", "shop"), "HEAD:refs/heads/third"); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if _, err := os.Stat(mark); err == nil {
		t.Error("a hook of the repository ran")
	}
}
