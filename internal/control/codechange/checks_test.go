package codechange

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"drydock/internal/control/blueprint"
	"drydock/internal/core"
	"drydock/internal/execution/environment/recipe"
	"drydock/internal/gitcmd"
	"drydock/internal/gitcmd/mirror"
	"drydock/internal/testkit/need"
)

// bench is a workspace whose working tree is a commit of a mirror.
type bench struct {
	recipe recipe.Recipe
	mirror *mirror.Mirror
	wip    string // "" : nobody may ask for the working tree
	ran    []string
	err    error
}

func (b *bench) Mirror(context.Context, core.EnvironmentID) (*mirror.Mirror, error) {
	return b.mirror, nil
}
func (b *bench) Sync(context.Context, core.EnvironmentID) error              { return nil }
func (b *bench) Open(context.Context, blueprint.Job) (Workspace, error)      { return b, nil }
func (b *bench) PutAway(context.Context, core.SessionID) error               { return nil }
func (b *bench) Recipe() recipe.Recipe                                       { return b.recipe }
func (b *bench) Delta(core.SessionID, string)                                {}
func (b *bench) Emit(_ context.Context, _ blueprint.Job, _ core.Event) error { return nil }

func (b *bench) Harvest(context.Context) (string, error) {
	if b.wip == "" {
		return "", errors.New("the working tree was asked for")
	}
	return b.wip, nil
}

func (b *bench) Run(_ context.Context, cmd Command) (CommandResult, error) {
	b.ran = append(b.ran, cmd.Shell)
	return CommandResult{}, b.err
}

func (b *bench) RunCheck(context.Context, string, recipe.Check, []string) (CheckRun, error) {
	return CheckRun{}, b.err
}

// repository makes a mirror, and returns its commits: a file, a second one
// added to it, and the first one removed.
func repository(t *testing.T) (m *mirror.Mirror, base, added, removed string) {
	t.Helper()
	need.Program(t, "git")
	dir := t.TempDir()
	run := func(args ...string) string {
		cmd := exec.CommandContext(t.Context(), "git", args...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_AUTHOR_NAME=A", "GIT_AUTHOR_EMAIL=a@example.com", "GIT_COMMITTER_NAME=A", "GIT_COMMITTER_EMAIL=a@example.com")
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("git %v: %v: %s", args, err, out)
		}
		return strings.TrimSpace(string(out))
	}
	commit := func() string {
		run("add", "-A")
		run("commit", "-q", "-m", "change")
		return run("rev-parse", "HEAD")
	}
	write := func(name string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("text\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	run("init", "-q", "-b", "main")
	write("one.js")
	base = commit()
	run("checkout", "-q", "-b", "added")
	write("it's two.js")
	added = commit()
	run("checkout", "-q", "-b", "removed", "main")
	run("rm", "-q", "one.js")
	write("kept")
	commit()
	run("rm", "-q", "kept")
	run("commit", "-q", "-m", "change")
	removed = run("rev-parse", "HEAD")
	run("checkout", "-q", "main")
	git, err := gitcmd.New(gitcmd.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if m, err = mirror.Open(t.Context(), mirror.Options{Git: git, Dir: filepath.Join(t.TempDir(), "mirror"), Source: dir}); err != nil {
		t.Fatal(err)
	}
	if _, err := m.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	return m, base, added, removed
}

func TestAutofix(t *testing.T) {
	m, base, added, removed := repository(t)
	fixer := []recipe.Check{{Name: "test", Run: "npm test"}, {Name: "lint", Run: "eslint .", Fix: "eslint --fix {files}"}}
	for name, c := range map[string]struct {
		checks []recipe.Check
		wip    string
		detail string
		ran    []string
	}{
		"no check has a fixer": {checks: fixer[:1], detail: "nothing to run"}, // and the tree is left alone
		"no checks":            {detail: "nothing to run"},
		"nothing is edited":    {checks: fixer, wip: base, detail: "nothing to run"},
		"only removals":        {checks: fixer, wip: removed, detail: "nothing to run"},
		"what is edited is fixed": {
			checks: fixer, wip: added, detail: "1 fixers ran, 0 files changed by them", ran: []string{`eslint --fix './it'\''s two.js'`},
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := &bench{recipe: recipe.Recipe{Checks: c.checks}, mirror: m, wip: c.wip}
			v := &blueprint.Visit{Node: "autofix", Attempt: core.NewAttemptID(), Data: blueprint.Data{}}
			v.Data.Set(keyBase, base)
			out, err := Deps{Workspaces: b, Events: b}.autofix(t.Context(), v)
			if err != nil || out.Result != "ok" || out.Detail != c.detail {
				t.Errorf("outcome %+v, error %v, want %q", out, err, c.detail)
			}
			if !slices.Equal(b.ran, c.ran) {
				t.Errorf("it ran %q, want %q", b.ran, c.ran)
			}
		})
	}
}

// A fixer or a check whose sandbox died says which one it was, and keeps the
// kind of the error.
func TestDeathNamesTheCheck(t *testing.T) {
	m, base, added, _ := repository(t)
	b := &bench{
		recipe: recipe.Recipe{Checks: []recipe.Check{{Name: "lint", Run: "eslint .", Fix: "eslint --fix ."}}}, mirror: m, wip: added,
		err: core.E("test", core.Exhausted, nil, "out of memory"),
	}
	d := Deps{Workspaces: b, Events: b}
	for name, step := range map[string]func(context.Context, *blueprint.Visit) (blueprint.Outcome, error){"autofix": d.autofix, "check": d.check} {
		v := &blueprint.Visit{Node: name, Attempt: core.NewAttemptID(), Data: blueprint.Data{}}
		v.Data.Set(keyBase, base)
		if _, err := step(t.Context(), v); !core.Is(err, core.Exhausted) || !strings.Contains(err.Error(), "check lint") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
