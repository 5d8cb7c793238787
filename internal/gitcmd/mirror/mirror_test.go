package mirror

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"drydock/internal/core"
	"drydock/internal/gitcmd"
	"drydock/internal/testkit/need"
)

type world struct {
	t      *testing.T
	git    *gitcmd.Git
	source string
	mirror *Mirror
}

func newWorld(t *testing.T, change func(*Options)) *world {
	t.Helper()
	need.Program(t, "git")
	git, err := gitcmd.New(gitcmd.Options{Environ: os.Environ(), Pass: gitcmd.HostVariables()})
	if err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, git: git, source: t.TempDir()}
	w.run("init", "-q", "-b", "trunk")
	opts := Options{Git: git, Dir: filepath.Join(t.TempDir(), "mirror.git"), Source: w.source}
	if change != nil {
		change(&opts)
	}
	if w.mirror, err = Open(t.Context(), opts); err != nil {
		t.Fatal(err)
	}
	return w
}

func (w *world) run(args ...string) string { return w.in(w.source, args...) }

func (w *world) in(dir string, args ...string) string {
	w.t.Helper()
	args = append([]string{"-c", "user.name=Ada", "-c", "user.email=ada@example.com"}, args...)
	out, err := w.git.Run(w.t.Context(), dir, args...)
	if err != nil {
		w.t.Fatalf("git %v: %v", args, err)
	}
	return strings.TrimSpace(string(out))
}

func (w *world) commit(files map[string]string) string {
	w.t.Helper()
	return w.commitIn(w.source, files)
}

func (w *world) commitIn(dir string, files map[string]string) string {
	w.t.Helper()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if text == "" {
			_ = os.Remove(path)
			continue
		}
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			w.t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			w.t.Fatal(err)
		}
	}
	w.in(dir, "add", "-A")
	w.in(dir, "commit", "-q", "--allow-empty", "-m", "change\n\nbody")
	return w.in(dir, "rev-parse", "HEAD")
}

func (w *world) sync() SyncResult {
	w.t.Helper()
	r, err := w.mirror.Sync(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	return r
}

func ok[T any](t *testing.T) func(T, error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func TestSyncFollowsTheSource(t *testing.T) {
	w := newWorld(t, nil)
	ctx := t.Context()
	if r := w.sync(); r.DefaultBranch != "" || r.Changed {
		t.Errorf("empty source: %+v", r)
	}
	if _, err := w.mirror.DefaultBranch(ctx); !core.Is(err, core.NotFound) {
		t.Errorf("default branch of nothing: %v", err)
	}
	first := w.commit(map[string]string{"a.txt": "a\n"})
	w.run("branch", "other")
	w.run("tag", "-a", "-m", "one", "v1")
	if diff := cmp.Diff(SyncResult{DefaultBranch: "trunk", Head: first, Changed: true}, w.sync()); diff != "" {
		t.Error(diff)
	}
	for _, name := range []string{"trunk", "other", "v1", "refs/heads/other", first, first[:10], "HEAD"} {
		if got := ok[string](t)(w.mirror.Resolve(ctx, name)); got != first {
			t.Errorf("Resolve(%q) = %s", name, got)
		}
	}
	if w.sync().Changed {
		t.Error("nothing moved, yet changed")
	}
	// Rewritten, removed, and Drydock's own refs kept.
	if err := w.mirror.UpdateRef(ctx, "refs/drydock/keep", first, ""); err != nil {
		t.Fatal(err)
	}
	w.run("branch", "-D", "other")
	w.run("commit", "-q", "--amend", "-m", "rewritten")
	second := w.run("rev-parse", "HEAD")
	if r := w.sync(); r.Head != second || !r.Changed {
		t.Errorf("after a rewrite: %+v", r)
	}
	if _, err := w.mirror.Resolve(ctx, "other"); !core.Is(err, core.NotFound) {
		t.Errorf("removed branch: %v", err)
	}
	if got := ok[string](t)(w.mirror.ReadRef(ctx, "refs/drydock/keep")); got != first {
		t.Errorf("own ref: %q", got)
	}
	for _, bad := range []string{"-x", "--all", "a b", "refs/heads/../x", "", "trunk^", "trunk:a.txt", ":/x", "deadbeef00"} {
		if got, err := w.mirror.Resolve(ctx, bad); err == nil {
			t.Errorf("Resolve(%q) = %s", bad, got)
		}
	}
}

func TestSyncFailures(t *testing.T) {
	w := newWorld(t, func(o *Options) { o.Source = "/nonexistent/repo.git" })
	if _, err := w.mirror.Sync(t.Context()); !core.Is(err, core.NotFound) || core.HintOf(err) == "" {
		t.Errorf("missing path: %v", err)
	}
	w = newWorld(t, func(o *Options) { o.Source = "http://127.0.0.1:1/repo.git" })
	if _, err := w.mirror.Sync(t.Context()); !core.Is(err, core.Unavailable) {
		t.Errorf("nobody answers: %v", err)
	}
	w = newWorld(t, nil)
	held, err := w.mirror.lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer held.release()
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := w.mirror.Sync(ctx); !core.Is(err, core.Unavailable) {
		t.Errorf("locked: %v", err)
	}
}

func TestSyncAfterAKilledGit(t *testing.T) {
	w := newWorld(t, nil)
	w.commit(map[string]string{"a": "a"})
	old := time.Now().Add(-time.Hour)
	for _, name := range []string{"packed-refs.lock", "HEAD.lock", "refs/heads/trunk.lock", "objects/pack/tmp_pack_x"} {
		path := filepath.Join(w.mirror.Dir(), name)
		_ = os.MkdirAll(filepath.Dir(path), 0o755)
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		_ = os.Chtimes(path, old, old)
	}
	w.sync()
}

func TestReading(t *testing.T) {
	w := newWorld(t, nil)
	ctx := t.Context()
	a := w.commit(map[string]string{"keep.txt": "1\n2\n3\n", "old name.txt": strings.Repeat("line\n", 50), "gone": "x\n", "bin": "\x00\x01", "dir/x": "x\n"})
	b := w.commit(map[string]string{"keep.txt": "1\ntwo\n3\n4\n", "old name.txt": "", "new\tname.txt": strings.Repeat("line\n", 50), "gone": "", "bin": "\x00\x02", "neu/ü.txt": "u\n"})
	w.run("update-index", "--chmod=+x", "dir/x")
	w.run("commit", "-q", "-m", "mode")
	c := w.run("rev-parse", "HEAD")
	w.sync()

	got := ok[[]ChangedFile](t)(w.mirror.ChangedFiles(ctx, a, c))
	want := []ChangedFile{
		{Path: "bin", Status: Modified, OldMode: "100644", NewMode: "100644", Binary: true},
		{Path: "dir/x", Status: Modified, OldMode: "100644", NewMode: "100755"},
		{Path: "gone", Status: Deleted, OldMode: "100644", NewMode: "000000", Removed: 1},
		{Path: "keep.txt", Status: Modified, OldMode: "100644", NewMode: "100644", Added: 2, Removed: 1},
		{Path: "neu/ü.txt", Status: Added, OldMode: "000000", NewMode: "100644", Added: 1},
		{Path: "new\tname.txt", OldPath: "old name.txt", Status: Renamed, OldMode: "100644", NewMode: "100644"},
	}
	byPath := func(x, y ChangedFile) int { return strings.Compare(x.Path, y.Path) }
	slices.SortFunc(got, byPath)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if all := ok[[]ChangedFile](t)(w.mirror.ChangedFiles(ctx, "", a)); len(all) != 5 {
		t.Errorf("from nothing: %v", all)
	}

	patch := ok[Patch](t)(w.mirror.Diff(ctx, a, c, DiffOptions{Paths: []string{"keep.txt"}}))
	if !strings.Contains(string(patch.Text), "-2\n+two\n") || strings.Contains(string(patch.Text), "gone") || patch.Truncated {
		t.Errorf("diff: %s", patch.Text)
	}
	patch = ok[Patch](t)(w.mirror.Diff(ctx, a, c, DiffOptions{Limit: 200}))
	if !patch.Truncated || len(patch.Text) > 200 || !bytes.HasSuffix(patch.Text, []byte("\n")) {
		t.Errorf("cut diff: %v %q", patch.Truncated, patch.Text)
	}

	data, file, err := w.mirror.ShowFile(ctx, c, "keep.txt", 100)
	if err != nil || string(data) != "1\ntwo\n3\n4\n" || file.Mode != "100644" {
		t.Errorf("file: %q %+v %v", data, file, err)
	}
	if _, _, err := w.mirror.ShowFile(ctx, c, "keep.txt", 3); !core.Is(err, core.Exhausted) {
		t.Errorf("large file: %v", err)
	}
	for _, missing := range []string{"nothing", "dir", "*.txt", "keep*"} {
		if _, _, err := w.mirror.ShowFile(ctx, c, missing, 100); !core.Is(err, core.NotFound) {
			t.Errorf("%s: %v", missing, err)
		}
	}
	if files := ok[[]File](t)(w.mirror.Files(ctx, c, []string{"dir", "neu/ü.txt"})); len(files) != 2 || files[0].Path != "dir/x" || files[0].Mode != "100755" {
		t.Errorf("files: %+v", files)
	}

	log := ok[[]Commit](t)(w.mirror.Log(ctx, LogOptions{From: c, Exclude: []string{a}}))
	if len(log) != 2 || log[0].ID != c || log[1].ID != b || log[1].Subject() != "change" || log[1].Message != "change\n\nbody\n" || log[1].Author.Email != "ada@example.com" {
		t.Errorf("log: %+v", log)
	}
	if base := ok[string](t)(w.mirror.MergeBase(ctx, a, c)); base != a {
		t.Errorf("merge base: %s", base)
	}
	if yes := ok[bool](t)(w.mirror.IsAncestor(ctx, a, c)); !yes {
		t.Error("a is an ancestor of c")
	}
	if yes := ok[bool](t)(w.mirror.IsAncestor(ctx, c, a)); yes {
		t.Error("c is no ancestor of a")
	}
}

func TestCommitTreeIsExact(t *testing.T) {
	w := newWorld(t, nil)
	ctx := t.Context()
	base := w.commit(map[string]string{"a": "a\n"})
	w.sync()
	zone := time.FixedZone("", 2*3600)
	spec := CommitSpec{
		Tree: ok[string](t)(w.mirror.Tree(ctx, base)), Parents: []string{base}, Message: "fix: it\n\n# kept\n\nDrydock-Run: run_1",
		Author:    Signature{"Grace Hopper", "grace@example.com", time.Unix(1700000000, 0).In(zone)},
		Committer: Signature{"Drydock", "drydock@example.com", time.Unix(1700000100, 0).UTC()},
	}
	id := ok[string](t)(w.mirror.CommitTree(ctx, spec))
	if again := ok[string](t)(w.mirror.CommitTree(ctx, spec)); again != id {
		t.Error("the same spec gave another commit")
	}
	raw := w.in(w.mirror.Dir(), "cat-file", "commit", id)
	for _, line := range []string{"parent " + base, "author Grace Hopper <grace@example.com> 1700000000 +0200", "committer Drydock <drydock@example.com> 1700000100 +0000", "# kept", "Drydock-Run: run_1"} {
		if !strings.Contains(raw, line) {
			t.Errorf("no %q in\n%s", line, raw)
		}
	}
	for _, name := range []string{"", "a\nb", "a <b>", "..."} {
		bad := spec
		bad.Author.Name = name
		if _, err := w.mirror.CommitTree(ctx, bad); !core.Is(err, core.Invalid) {
			t.Errorf("author %q: %v", name, err)
		}
	}
	bad := spec
	bad.Tree = strings.Repeat("a", 40)
	if _, err := w.mirror.CommitTree(ctx, bad); err == nil {
		t.Error("a commit of a missing tree was made")
	}
}

func TestComposeTree(t *testing.T) {
	w := newWorld(t, nil)
	ctx := t.Context()
	base := w.commit(map[string]string{"code": "old\n", "test/a": "a\n", "test/b": "b\n", "thing/x": "x\n"})
	w.commit(map[string]string{"code": "new\n", "test/a": "changed\n", "test/b": "", "test/c": "c\n", "thing/x": "", "thing": ""})
	branch := w.commit(map[string]string{"thing": "now a file\n"})
	w.sync()
	tree := ok[string](t)(w.mirror.ComposeTree(ctx, branch, base, []string{"test/a", "test/b", "test/c"}))
	listing := w.in(w.mirror.Dir(), "ls-tree", "-r", "--name-only", tree)
	if listing != "code\ntest/a\ntest/b\nthing" {
		t.Errorf("tree: %s", listing)
	}
	if got := w.in(w.mirror.Dir(), "cat-file", "blob", tree+":test/a"); got != "a" {
		t.Errorf("test/a: %q", got)
	}
	if got := w.in(w.mirror.Dir(), "cat-file", "blob", tree+":code"); got != "new" {
		t.Errorf("code: %q", got)
	}
	tree = ok[string](t)(w.mirror.ComposeTree(ctx, base, branch, []string{"thing", "thing/x"}))
	if got := w.in(w.mirror.Dir(), "cat-file", "blob", tree+":thing"); got != "now a file" {
		t.Errorf("thing: %q", got)
	}
}

func TestUpdateRefIsCompareAndSwap(t *testing.T) {
	w := newWorld(t, nil)
	ctx := t.Context()
	a, b := w.commit(nil), w.commit(map[string]string{"a": "a"})
	w.sync()
	const ref = "refs/drydock/x"
	steps := []struct {
		newCommit, old string
		kind           core.Kind
		fails          bool
	}{
		{a, "", 0, false},
		{a, "", 0, false}, // a retry
		{b, b, core.Conflict, true},
		{b, a, 0, false},
		{a, "", core.Conflict, true},
		{"", a, core.Conflict, true},
		{"", b, 0, false},
		{"", b, 0, false},
		{"-d", "", core.Invalid, true},
	}
	for i, s := range steps {
		err := w.mirror.UpdateRef(ctx, ref, s.newCommit, s.old)
		if (err != nil) != s.fails || s.fails && !core.Is(err, s.kind) {
			t.Errorf("step %d: %v", i, err)
		}
	}
}

func TestPush(t *testing.T) {
	w := newWorld(t, nil)
	ctx := t.Context()
	a, b := w.commit(nil), w.commit(map[string]string{"a": "a"})
	w.sync()
	target := t.TempDir()
	w.in(target, "init", "-q", "--bare")
	mark := filepath.Join(target, "mark")
	for _, hook := range []string{"pre-receive", "post-receive", "update"} {
		_ = os.MkdirAll(filepath.Join(target, "hooks"), 0o755)
		if err := os.WriteFile(filepath.Join(target, "hooks", hook), []byte("#!/bin/sh\ntouch "+mark+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	const ref = "refs/heads/drydock/work"
	for i, s := range []struct {
		commit, expected string
		fails            bool
	}{{a, "", false}, {a, "", false}, {b, b, false}, {b, a, false}, {a, "", true}, {a, b, false}, {"", b, true}, {"", a, false}} {
		if i == 2 { // expected does not fit, yet the world is not at b: refused
			s.fails = true
		}
		err := w.mirror.Push(ctx, target, ref, s.commit, s.expected)
		if (err != nil) != s.fails || s.fails && !core.Is(err, core.Conflict) {
			t.Errorf("step %d: %v", i, err)
		}
	}
	if _, err := os.Stat(mark); err == nil {
		t.Error("a hook of the target ran")
	}
	if now := ok[string](t)(w.mirror.RemoteRef(ctx, target, ref)); now != "" {
		t.Errorf("ref still at %s", now)
	}
	if err := w.mirror.Push(ctx, w.source, "refs/heads/trunk", a, b); gitcmd.ReasonOf(err) != gitcmd.CheckedOutBranch {
		t.Errorf("push to the checked-out branch: %v", err)
	}
}

func TestPacksAreMerged(t *testing.T) {
	w := newWorld(t, nil)
	first := w.commit(map[string]string{"a": "a"})
	w.sync()
	packs := filepath.Join(w.mirror.Dir(), "objects", "pack")
	for i := range packsBeforeRepack + 1 {
		c := ok[string](t)(w.mirror.CommitTree(t.Context(), CommitSpec{
			Tree: ok[string](t)(w.mirror.Tree(t.Context(), first)), Message: "m",
			Author:    Signature{"A", "a@example.com", time.Unix(int64(i+1), 0)},
			Committer: Signature{"A", "a@example.com", time.Unix(1, 0)},
		}))
		_, err := w.git.Output(t.Context(), gitcmd.Call{Dir: w.mirror.Dir(), Args: []string{"pack-objects", "-q", filepath.Join(packs, "pack")}, Stdin: strings.NewReader(c + "\n")})
		if err != nil {
			t.Fatal(err)
		}
	}
	w.sync()
	left, _ := filepath.Glob(filepath.Join(packs, "*.pack"))
	if len(left) > packsBeforeRepack/2 {
		t.Errorf("%d packs left", len(left))
	}
	if _, err := w.mirror.Resolve(t.Context(), first); err != nil {
		t.Error(err)
	}
}

func FuzzParsers(f *testing.F) {
	f.Add([]byte(":100644 100644 a b R100\x00old\x00new\x001\t2\t\x00old\x00new\x00"))
	f.Add([]byte(":000000 100644 a b A\x00x\x00-\t-\tx\x00"))
	f.Add([]byte("100644 blob abc      12\tx y\x00"))
	f.Add([]byte(strings.Repeat("x\x00", logCount)))
	f.Fuzz(func(_ *testing.T, data []byte) {
		_, _ = parseChanges(data)
		_, _ = parseTree(data)
		_, _ = parseLog(data)
		_ = parseSymref(data)
	})
}
