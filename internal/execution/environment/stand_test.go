package environment_test

import (
	"slices"
	"strings"
	"testing"

	"drydock/internal/execution/environment"
)

// stood is a sandbox of an environment whose base has not moved.
func stood(t *testing.T) (*world, *environment.Machine, string) {
	t.Helper()
	w := newWorld(t)
	files := goodRepo()
	files["lib/a.txt"] = "a\n"
	base := w.commit(files)
	w.build(environment.BuildRequest{})
	return w, w.launch(environment.LaunchRequest{}), base
}

func TestStand(t *testing.T) {
	w, m, base := stood(t)
	w.shell(m, "echo new >lib/new.txt; rm -f .git/refs/remotes/origin/main")
	before, err := m.Guest().Processes(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	fresh, ok, err := m.Stand(t.Context(), environment.Standing{Commit: base, Branch: "drydock/work", Base: "main"})
	if err != nil || !ok || !slices.Equal(fresh, []string{"lib/new.txt"}) {
		t.Fatalf("stands: %v, new %v, error %v", ok, fresh, err)
	}
	// Whoever waits for the sandbox waits for one process, not for two dozen.
	after, err := m.Guest().Processes(t.Context())
	if err != nil || len(after) != len(before)+1 {
		t.Errorf("%d processes were started, error %v", len(after)-len(before), err)
	}
	if got := w.shell(m, "git symbolic-ref HEAD; git rev-parse HEAD origin/main; git status --porcelain; git fsck 2>&1"); got != strings.Join(
		[]string{"refs/heads/drydock/work", base, base, "?? lib/new.txt"}, "\n") {
		t.Errorf("the workspace says %q", got)
	}
	if place, err := m.Place(t.Context()); err != nil || place != base {
		t.Errorf("the place is %q, error %v", place, err)
	}
	if got := w.shell(m, "git add lib; git -c user.name=a -c user.email=b commit -qm mine; git log --format=%s -2; git rev-parse HEAD~"); got != "mine\nchange\n"+base {
		t.Errorf("after a commit on the branch the workspace says %q", got)
	}
}

// Whatever scripts of a repository left is seen, and put right by a checkout.
func TestStandSeesWhatDiffers(t *testing.T) {
	w, m, base := stood(t)
	mir, err := w.mirror(t.Context(), w.repo)
	if err != nil {
		t.Fatal(err)
	}
	on := environment.Standing{Commit: base, Branch: "drydock/work", Base: "main"}
	for name, script := range map[string]string{
		"an edit":                          "echo edited >>code.txt",
		"an edit of the same size":         "echo CODE >code.txt",
		"a file that is gone":              "rm lib/a.txt",
		"a staged edit":                    "echo edited >>code.txt; git add code.txt; echo code >code.txt",
		"a staged file":                    "touch more; git add more; rm more",
		"another commit with other files":  "echo x >>code.txt; git -c user.name=a -c user.email=b commit -qam theirs",
		"a commit passed off for this one": "echo x >>code.txt; git -c user.name=a -c user.email=b commit -qam theirs; git replace " + base + " HEAD",
		"settings that look elsewhere":     "git config core.worktree /tmp; git config status.showUntrackedFiles no; echo edited >>code.txt",
		"a merge under way":                "git rev-parse HEAD >.git/MERGE_HEAD",
		"a lock":                           "touch .git/index.lock",
		"packed refs":                      "git pack-refs --all",
		"no index":                         "rm .git/index",
		"HEAD as a link":                   "git symbolic-ref HEAD refs/heads/drydock/work; ln -sf refs/heads/drydock/work .git/HEAD",
	} {
		w.shell(m, script)
		if fresh, ok, err := m.Stand(t.Context(), on); ok || err != nil {
			t.Fatalf("%s: stands: %v, new %v, error %v", name, ok, fresh, err)
		}
		w.shell(m, "git config --unset core.worktree || :; git replace -d "+base+" 2>/dev/null || :")
		if err := m.CheckoutMirror(t.Context(), mir, environment.Checkout{
			Commit: base, Branch: on.Branch, Base: on.Base, Have: []string{base}, KeepNew: true,
		}); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		w.shell(m, "rm -f .git/packed-refs .git/MERGE_HEAD; git update-ref refs/heads/drydock/work "+base)
		if got := w.shell(m, "git rev-parse HEAD; git status --porcelain; cat code.txt"); got != base+"\ncode" {
			t.Errorf("%s: after a checkout the workspace says %q", name, got)
		}
	}
	if _, ok, err := m.Stand(t.Context(), on); !ok || err != nil {
		t.Errorf("in the end it stands: %v, error %v", ok, err)
	}
	for _, wrong := range []environment.Standing{
		{Commit: "main", Branch: "x"}, {Commit: base, Branch: "../../HEAD"}, {Commit: base, Branch: "x", Base: "a..b"}, {Commit: strings.Repeat("1", 40), Branch: "y"},
	} {
		if _, ok, err := m.Stand(t.Context(), wrong); ok || err != nil {
			t.Errorf("%+v stands: %v, error %v", wrong, ok, err)
		}
	}
	if err := m.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func FuzzView(f *testing.F) {
	id := strings.Repeat("a", 40)
	f.Add("# branch.oid " + id + "\x00# branch.head main\x00? new\x00? \x00")
	f.Add("# branch.oid (initial)\x00# branch.head (detached)\x001 .M N... 100644 100644 100644 x x code.txt\x00")
	f.Fuzz(func(t *testing.T, out string) {
		commit, fresh, ok := environment.ParseView(out)
		if !ok {
			return
		}
		for _, name := range fresh {
			if name == "" || strings.Contains(name, "\x00") || !strings.Contains(out, "? "+name) {
				t.Errorf("%q is new in %q", name, out)
			}
		}
		if commit != "" && !strings.Contains(out, commit) {
			t.Errorf("%q gives commit %q", out, commit)
		}
	})
}
