package daemon

import (
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"drydock/internal/core"
	"drydock/internal/delivery/forge/local"
	"drydock/internal/gitcmd"
	"drydock/internal/store"
	"drydock/internal/testkit/need"
)

// Where a base branch stands follows both the source and the built-in forge,
// and is known while the source is away.
func TestHeadOfABaseBranch(t *testing.T) {
	need.Program(t, "git")
	dir := t.TempDir()
	db, err := store.Open(t.Context(), store.Options{Path: filepath.Join(dir, "db")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	git, err := gitcmd.New(gitcmd.Options{})
	if err != nil {
		t.Fatal(err)
	}
	f, err := local.New(local.Deps{Git: git, Records: db}, local.Options{Dir: filepath.Join(dir, "forge")})
	if err != nil {
		t.Fatal(err)
	}
	source := filepath.Join(dir, "shop")
	run := func(args ...string) string {
		t.Helper()
		out, err := git.Run(t.Context(), source, append([]string{"-c", "user.name=A", "-c", "user.email=a@example.com"}, args...)...)
		if err != nil {
			t.Fatal(err)
		}
		return string(out[:max(len(out)-1, 0)])
	}
	if err := os.Mkdir(source, 0o755); err != nil {
		t.Fatal(err)
	}
	run("init", "-q", "-b", "main")
	commit := func() string {
		t.Helper()
		run("commit", "-q", "--allow-empty", "-m", "x")
		return run("rev-parse", "HEAD")
	}
	first := commit()
	r := newRepositories(f, git, filepath.Join(dir, "mirrors"), slog.New(slog.DiscardHandler))
	env := core.Environment{ID: core.NewEnvironmentID(), Name: "shop", Source: source, Created: time.Now()}
	if head, err := r.Head(t.Context(), env); err != nil || head != "" {
		t.Errorf("before its first build: %q, error %v", head, err)
	}
	env.DefaultBranch = "main"
	if err := r.Refresh(t.Context(), env); err != nil {
		t.Fatal(err)
	}
	want := func(when, commit string) {
		t.Helper()
		if head, err := r.Head(t.Context(), env); err != nil || head != commit {
			t.Errorf("%s: %q, error %v, want %s", when, head, err, commit)
		}
	}
	want("at first", first)
	second := commit()
	want("after a push to the source", second)
	// Somebody pushes to the forge, which the source does not have.
	repo, err := f.Repository(t.Context(), "shop")
	if err != nil {
		t.Fatal(err)
	}
	third := commit()
	run("push", "-q", repo.Location, "HEAD:main")
	run("reset", "-q", "--hard", second)
	want("after a push to the forge", third)
	if err := os.Rename(source, source+".away"); err != nil {
		t.Fatal(err)
	}
	want("while the source is away", third)
}
