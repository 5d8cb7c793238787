package gitcmd

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"drydock/internal/core"
	"drydock/internal/testkit/need"
)

func newGit(t testing.TB, opts Options) *Git {
	t.Helper()
	need.Program(t, "git")
	opts.Environ = append(os.Environ(), opts.Environ...)
	opts.Pass = append(HostVariables(), opts.Pass...)
	g, err := New(opts)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func run(t testing.TB, g *Git, dir string, args ...string) string {
	t.Helper()
	out, err := g.Run(t.Context(), dir, args...)
	if err != nil {
		t.Fatalf("git %v: %v", args, err)
	}
	return strings.TrimSpace(string(out))
}

func write(t testing.TB, path, text string, mode os.FileMode) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
}

// hostile makes a repository whose configuration and hooks all write a mark.
func hostile(t *testing.T, g *Git) (dir, mark string) {
	dir, mark = t.TempDir(), filepath.Join(t.TempDir(), "mark")
	run(t, g, dir, "init", "-q")
	script := "#!/bin/sh\ntouch " + mark + "\n"
	evil := filepath.Join(t.TempDir(), "evil")
	write(t, evil, script, 0o755)
	for _, hook := range []string{"pre-commit", "post-commit", "post-checkout", "pre-push", "post-receive", "pre-receive", "update", "reference-transaction", "post-index-change"} {
		write(t, filepath.Join(dir, ".git", "hooks", hook), script, 0o755)
	}
	config := "[core]\n\tfsmonitor = " + evil + "\n\tsshCommand = " + evil + "\n\taskPass = " + evil + "\n\tpager = " + evil +
		"\n\thooksPath = " + filepath.Join(dir, ".git", "hooks") + "\n\tgitProxy = " + evil + "\n[credential]\n\thelper = " + evil +
		"\n[protocol \"ext\"]\n\tallow = always\n[gpg]\n\tprogram = " + evil + "\n[commit]\n\tgpgSign = true\n"
	f, err := os.OpenFile(filepath.Join(dir, ".git", "config"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = f.WriteString(config)
	_ = f.Close()
	return dir, mark
}

func TestRepositoryDecidesNothing(t *testing.T) {
	g := newGit(t, Options{})
	dir, mark := hostile(t, g)
	write(t, filepath.Join(dir, "a.txt"), "a\n", 0o644)
	run(t, g, dir, "add", "a.txt")
	run(t, g, dir, "status", "--porcelain")
	run(t, g, dir, "-c", "user.name=A", "-c", "user.email=a@example.com", "commit", "-q", "-m", "x")
	run(t, g, dir, "log", "-p")
	ctx := t.Context()
	for _, url := range []string{"ext::sh -c 'touch " + mark + "'", "ssh://git@127.0.0.1:1/x", "http://127.0.0.1:1/x", "git://127.0.0.1:1/x"} {
		if _, err := g.Run(ctx, dir, "ls-remote", url); err == nil {
			t.Errorf("ls-remote %s succeeded", url)
		}
	}
	// A push into a path runs receive-pack there, which must not run its hooks.
	target, targetMark := hostile(t, g)
	run(t, g, dir, "push", "-q", "--receive-pack=git -c core.hooksPath=/dev/null receive-pack", target, "HEAD:refs/heads/new")
	// A fetch from a path runs upload-pack there.
	run(t, g, dir, "fetch", "-q", target, "refs/heads/new")
	for _, m := range []string{mark, targetMark} {
		if _, err := os.Stat(m); err == nil {
			t.Error("a program named by a repository ran")
		}
	}
}

func TestEnvironmentIsExplicit(t *testing.T) {
	t.Setenv("GIT_DIR", "/somewhere/else")
	t.Setenv("GIT_CONFIG_PARAMETERS", "'alias.x=!true'")
	g := newGit(t, Options{Environ: []string{"KEPT=yes", "DROPPED=yes"}, Pass: []string{"KEPT"}})
	env := strings.Join(g.env, "\n") + "\n"
	for name, want := range map[string]bool{"KEPT=yes": true, "DROPPED": false, "GIT_DIR=": false, "GIT_CONFIG_PARAMETERS": false, "PATH=": true} {
		if strings.Contains(env, name) != want {
			t.Errorf("environment holds %s: %v, want %v", name, !want, want)
		}
	}
}

func TestForeignOwner(t *testing.T) {
	need.Root(t)
	g := newGit(t, Options{})
	dir := filepath.Join(t.TempDir(), "repo")
	run(t, g, ".", "init", "-q", "--bare", dir)
	if out, err := exec.Command("chown", "-R", "65534:65534", dir).CombinedOutput(); err != nil {
		t.Fatalf("chown: %s", out)
	}
	run(t, g, dir, "for-each-ref")
	run(t, g, t.TempDir(), "ls-remote", dir)
}

func TestFailuresAreTyped(t *testing.T) {
	g := newGit(t, Options{})
	dir := t.TempDir()
	run(t, g, dir, "init", "-q")
	for _, c := range []struct {
		name   string
		args   []string
		reason Reason
		kind   core.Kind
	}{
		{"no repository", []string{"ls-remote", filepath.Join(dir, "nothing")}, RemoteNotFound, core.NotFound},
		{"no ref", []string{"rev-parse", "--verify", "nothing"}, RefMissing, core.NotFound},
		{"no remote ref", []string{"fetch", dir, "refs/heads/nothing"}, RefMissing, core.NotFound},
		{"nobody answers", []string{"ls-remote", "http://127.0.0.1:1/x.git"}, Unreachable, core.Unavailable},
		{"transport", []string{"ls-remote", "ext::true"}, ProtocolRefused, core.Denied},
	} {
		_, err := g.Run(t.Context(), dir, c.args...)
		if ReasonOf(err) != c.reason || core.KindOf(err) != c.kind {
			t.Errorf("%s: reason %q kind %v: %v", c.name, ReasonOf(err), core.KindOf(err), err)
		}
		if core.HintOf(err) == "" {
			t.Errorf("%s: no hint", c.name)
		}
	}
	if _, err := g.Run(t.Context(), t.TempDir(), "status"); ReasonOf(err) != NotRepository {
		t.Errorf("status outside: %v", err)
	}
}

func TestNoPasswordInErrors(t *testing.T) {
	g := newGit(t, Options{})
	_, err := g.Run(t.Context(), t.TempDir(), "ls-remote", "http://user:hunter2@127.0.0.1:1/x.git")
	if err == nil || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("error: %v", err)
	}
	if got := Redact("https://tok@example.com/a ssh://git:x@example.com/b a@b"); got != "https://***@example.com/a ssh://***@example.com/b a@b" {
		t.Errorf("redacted: %s", got)
	}
}

func TestBounds(t *testing.T) {
	g := newGit(t, Options{Output: 100, Stderr: 50})
	dir := t.TempDir()
	run(t, g, dir, "init", "-q")
	out, err := g.Output(t.Context(), Call{Dir: dir, Args: []string{"hash-object", "--stdin"}, Stdin: strings.NewReader("x")})
	if err != nil || len(out) != 41 {
		t.Errorf("small output: %q %v", out, err)
	}
	write(t, filepath.Join(dir, "big"), strings.Repeat("x", 1000), 0o644)
	id := run(t, g, dir, "hash-object", "-w", "big")
	if _, err := g.Run(t.Context(), dir, "cat-file", "blob", id); !core.Is(err, core.Exhausted) {
		t.Errorf("large output: %v", err)
	}
	var all bytes.Buffer
	if err := g.Stream(t.Context(), Call{Dir: dir, Args: []string{"cat-file", "blob", id}, Stdout: &all}); err != nil || all.Len() != 1000 {
		t.Errorf("stream: %d bytes, %v", all.Len(), err)
	}
	_, err = g.Run(t.Context(), dir, strings.Repeat("y", 200))
	if f, ok := FailureOf(err); !ok || len(f.Stderr) > 50 {
		t.Errorf("stderr not bounded: %v", err)
	}
}

func TestCancelEndsTheWholeGroup(t *testing.T) {
	g := newGit(t, Options{Grace: 200 * time.Millisecond})
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	start := time.Now()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _, _ = r.Close(), w.Close() }()
	err = g.Stream(ctx, Call{Dir: t.TempDir(), Args: []string{"hash-object", "--stdin"}, Stdin: r})
	if !core.Is(err, core.Unavailable) || time.Since(start) > 5*time.Second {
		t.Errorf("after %v: %v", time.Since(start), err)
	}
}

func TestMissingProgram(t *testing.T) {
	if _, err := New(Options{Program: "no-such-git"}); !core.Is(err, core.Unavailable) || core.HintOf(err) == "" {
		t.Errorf("error: %v", err)
	}
}

func TestNames(t *testing.T) {
	for _, ok := range []string{"refs/heads/main", "refs/heads/a/b-c.d", "refs/drydock/ses_1/x", "refs/heads/ü"} {
		if err := CheckRef(ok); err != nil {
			t.Errorf("CheckRef(%q): %v", ok, err)
		}
	}
	for _, bad := range []string{
		"", "main", "refs/heads/-x/..", "refs/heads/a..b", "refs/heads/a b", "refs/heads/a~1", "refs/heads/.a", "refs/heads/a.lock",
		"refs/heads/a//b", "refs/heads/a/", "refs/heads/a.", "refs/heads/a\n", "refs/heads/*", "refs/heads/a@{1}", "refs/" + strings.Repeat("a", 300),
	} {
		if CheckRef(bad) == nil {
			t.Errorf("CheckRef(%q) accepted", bad)
		}
	}
	if CheckBranch("-x") == nil {
		t.Error("branch with a dash in front accepted")
	}
	for _, bad := range []string{"", "/a", "a//b", "../a", "a/../b", "a/.git/config", ".GIT/x", "a\x00b"} {
		if CheckPath(bad) == nil {
			t.Errorf("CheckPath(%q) accepted", bad)
		}
	}
	for in, want := range map[string]Source{
		"/srv/a.git/":             {"/srv/a.git", true},
		"file:///srv/a.git":       {"/srv/a.git", true},
		"https://example.com/a":   {"https://example.com/a", false},
		"git@example.com:a/b.git": {"git@example.com:a/b.git", false},
	} {
		if got, err := ParseSource(in); err != nil || got != want {
			t.Errorf("ParseSource(%q) = %v, %v", in, got, err)
		}
	}
	for _, bad := range []string{"", "a/b", "--upload-pack=x", "ext::sh -c x", "https://", "ssh://-oProxyCommand=x/y", "ssh://-x@host/y", "ftp://example.com/x", "a\nb", "host::x"} {
		if s, err := ParseSource(bad); err == nil {
			t.Errorf("ParseSource(%q) accepted: %v", bad, s)
		}
	}
}

func FuzzNames(f *testing.F) {
	for _, s := range []string{"refs/heads/main", "-x", "a..b", "https://u:p@example.com/x", "git@h:p", "a/../b"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if CheckBranch(s) == nil && (strings.HasPrefix(s, "-") || strings.ContainsAny(s, " \n\x00:^~?*[\\") || strings.Contains(s, "..")) {
			t.Errorf("accepted ref %q", s)
		}
		if src, err := ParseSource(s); err == nil && (strings.HasPrefix(src.URL, "-") || strings.Contains(src.URL, "::") && !strings.Contains(src.URL, "://") && !src.Local) {
			t.Errorf("accepted source %q", s)
		}
		_ = CheckPath(s)
		_ = Redact(s)
	})
}
