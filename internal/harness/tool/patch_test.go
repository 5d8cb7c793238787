package tool_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"drydock/internal/harness/tool"
	"drydock/internal/testkit/need"
)

const cartGo = "package cart\n\nfunc A() int {\n\treturn 1\n}\n\nfunc B() int {\n\treturn 1\n}\n\nfunc C() int {\n\treturn 1\n}\n"

func TestPatch(t *testing.T) {
	for name, tt := range map[string]struct{ patch, want string }{
		"unified": {
			"--- a/cart.go\n+++ b/cart.go\n@@ -7,3 +7,3 @@ func A() int {\n func B() int {\n-\treturn 1\n+\treturn 2\n }\n",
			strings.Replace(cartGo, "B() int {\n\treturn 1", "B() int {\n\treturn 2", 1),
		},
		"wrong numbers and counts": {
			"--- a/cart.go\n+++ b/cart.go\n@@ -99,1 +98,7 @@\n func B() int {\n-\treturn 1\n+\treturn 2\n",
			strings.Replace(cartGo, "B() int {\n\treturn 1", "B() int {\n\treturn 2", 1),
		},
		"the number decides between equal places": {
			"--- a/cart.go\n+++ b/cart.go\n@@ -12 +12 @@\n-\treturn 1\n+\treturn 3\n",
			strings.Replace(cartGo, "C() int {\n\treturn 1", "C() int {\n\treturn 3", 1),
		},
		"envelope with anchors": {
			"*** Begin Patch\n*** Update File: cart.go\n@@ func B() int {\n-\treturn 1\n+\treturn 2\n@@ func C() int {\n-\treturn 1\n+\treturn 3\n*** End Patch\n",
			strings.Replace(strings.Replace(cartGo, "B() int {\n\treturn 1", "B() int {\n\treturn 2", 1), "C() int {\n\treturn 1", "C() int {\n\treturn 3", 1),
		},
		"blank context lines without their space": {
			"```diff\n--- a/cart.go\n+++ b/cart.go\n@@\n }\n\n func B() int {\n-\treturn 1\n+\treturn 2\n }\n```\n",
			strings.Replace(cartGo, "B() int {\n\treturn 1", "B() int {\n\treturn 2", 1),
		},
		"insertion after a line": {
			"--- a/cart.go\n+++ b/cart.go\n@@ -1,0 +2 @@\n+// Package cart adds up.\n",
			strings.Replace(cartGo, "package cart\n", "package cart\n// Package cart adds up.\n", 1),
		},
		"trailing white space of the file stays": {
			"--- a/cart.go\n+++ b/cart.go\n@@\n package cart \n+// x\n",
			strings.Replace(cartGo, "package cart\n", "package cart\n// x\n", 1),
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, tool.Deps{}, tool.Options{})
			b.file("cart.go", cartGo)
			b.ok("patch", in{"patch": tt.patch}, "changed cart.go")
			b.has("cart.go", tt.want)
		})
	}
}

func TestPatchOfSeveralFilesIsAllOrNothing(t *testing.T) {
	b := newBench(t, tool.Deps{}, tool.Options{})
	b.file("cart.go", cartGo)
	b.file("old.txt", "bye\n")
	b.file("name.txt", "a\nb\n")
	patch := "*** Begin Patch\n*** Add File: new/x.txt\n+one\n+two\n*** Delete File: old.txt\n*** Update File: name.txt\n*** Move to: moved.txt\n@@\n a\n-b\n+c\n*** Update File: cart.go\n@@ func B() int {\n-\treturn WRONG\n+\treturn 2\n*** End Patch"
	b.fails("patch", in{"patch": patch}, "cart.go: the hunk does not fit", "nothing was changed")
	b.has("cart.go", cartGo)
	b.has("old.txt", "bye\n")
	b.has("name.txt", "a\nb\n")
	if _, err := os.Stat(filepath.Join(b.dir, "new")); err == nil {
		t.Error("new was made")
	}
	good := strings.Replace(patch, "WRONG", "1", 1)
	b.ok("patch", in{"patch": good}, "created new/x.txt (2 lines)", "removed old.txt", "removed name.txt", "created moved.txt", "changed cart.go")
	b.has("new/x.txt", "one\ntwo\n")
	b.has("moved.txt", "a\nc\n")
	for _, gone := range []string{"old.txt", "name.txt"} {
		if _, err := os.Stat(filepath.Join(b.dir, gone)); err == nil {
			t.Errorf("%s is still there", gone)
		}
	}
	b.fails("patch", in{"patch": good}, "nothing was changed")
}

func TestPatchThatWasAppliedBeforeTheRestart(t *testing.T) {
	b := newBench(t, tool.Deps{}, tool.Options{})
	b.file("cart.go", cartGo)
	patch := "--- /dev/null\n+++ b/n.txt\n@@\n+x\n--- a/cart.go\n+++ b/cart.go\n@@\n-package cart\n+package basket\n"
	b.ok("patch", in{"patch": patch})
	raw, _ := json.Marshal(in{"patch": patch})
	r, err := b.set.Do(t.Context(), tool.Call{Name: "patch", Input: raw, Again: true})
	if err != nil || r.Failed || !strings.Contains(r.Content[0].Text, "before the restart") {
		t.Fatalf("got %+v, %v", r, err)
	}
}

func TestPatchMistakes(t *testing.T) {
	for name, tt := range map[string]struct{ patch, want string }{
		"nothing":        {"", "no file was found"},
		"words":          {"please change cart.go", "no file was found"},
		"hunk first":     {"@@ -1 +1 @@\n-a\n+b\n", "before any file name"},
		"ambiguous":      {"--- a/cart.go\n+++ b/cart.go\n@@\n-\treturn 1\n+\treturn 2\n", "fits in 3 places (first at lines 4 and 8)"},
		"no such file":   {"--- a/nope.go\n+++ b/nope.go\n@@\n-a\n+b\n", "nope.go does not exist"},
		"exists":         {"*** Add File: cart.go\n+x\n", "exists already"},
		"no hunk":        {"--- a/cart.go\n+++ b/cart.go\n", "has no hunk"},
		"white space":    {"--- a/cart.go\n+++ b/cart.go\n@@\n func A() int {\n-    return 1\n+    return 2\n", "white space only"},
		"order":          {"--- a/cart.go\n+++ b/cart.go\n@@\n-func C() int {\n+func D() int {\n@@\n-func A() int {\n+func Z() int {\n", "hunk 2 does not fit"},
		"bad line":       {"--- a/cart.go\n+++ b/cart.go\n@@\n-package cart\n+package x\nreturn 1\n", "begins with none of"},
		"other content":  {"--- a/cart.go\n+++ /dev/null\n@@\n-package cart\n", "is not what the patch removes"},
		"missing path":   {"--- \n+++ \n@@\n-a\n", "a path is missing"},
		"unknown header": {"*** Rename File: x\n", `"Rename File" is not known`},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, tool.Deps{}, tool.Options{})
			b.file("cart.go", cartGo)
			b.fails("patch", in{"patch": tt.patch}, tt.want, "nothing was changed")
			b.has("cart.go", cartGo)
		})
	}
}

// What git writes between two trees applies to the first and gives the second.
func TestPatchTakesWhatGitWrites(t *testing.T) {
	need.Program(t, "git")
	before, after := t.TempDir(), newBench(t, tool.Deps{}, tool.Options{})
	write := func(dir, name, s string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(s), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	files := map[string][2]string{
		"a.go":   {cartGo, strings.ReplaceAll(cartGo, "return 1", "return 2")},
		"sql":    {"-- one\nselect 1;\n-- two\n", "select 1;\n++ odd\n-- two\n"},
		"no-nl":  {"x\ny", "x\nz"},
		"gone":   {"bye\n", ""},
		"added":  {"", "--- hello\n+++ world\n"},
		"spaces": {"  a  \n\n\nb\n", "  a\n\n\nb\nc\n"},
	}
	for name, v := range files {
		if v[0] != "" {
			write(before, name, v[0])
			write(after.dir, name, v[0])
		}
	}
	git := func(args ...string) string {
		t.Helper()
		cmd := exec.Command("git", append([]string{"-c", "user.name=a", "-c", "user.email=a@example.test", "-c", "core.autocrlf=false"}, args...)...)
		cmd.Dir = before
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
		return string(out)
	}
	git("init", "-q")
	git("add", ".")
	git("commit", "-qm", "before")
	for name, v := range files {
		if v[1] == "" {
			if err := os.Remove(filepath.Join(before, name)); err != nil {
				t.Fatal(err)
			}
		} else {
			write(before, name, v[1])
		}
	}
	git("add", "-A")
	after.ok("patch", in{"patch": git("diff", "--cached")})
	for name, v := range files {
		if v[1] != "" && name != "no-nl" {
			after.has(name, v[1])
		}
	}
	after.has("no-nl", "x\nz")
}

func FuzzPatch(f *testing.F) {
	f.Add("--- a/x\n+++ b/x\n@@ -1,2 +1,2 @@\n a\n-b\n+c\n", "a\nb\n")
	f.Add("*** Begin Patch\n*** Update File: x\n*** Move to: y\n@@ a\n-b\n+c\n*** Add File: z\n+q\n*** Delete File: x\n*** End Patch", "a\nb\n")
	f.Add("diff --git a/x b/x\nnew file mode 100644\nindex 1..2\n--- /dev/null\n+++ b/x\n@@ -0,0 +1 @@\n+a\n\\ No newline at end of file\n", "")
	f.Add("diff --git a/x b/y\nrename from x\nrename to y\n", "a\r\nb\r\n")
	f.Fuzz(func(t *testing.T, patch, content string) {
		box := newMapBox(map[string]string{"/w/x": content})
		set := tool.New(tool.Deps{Box: box}, tool.Options{Root: "/w"})
		raw, err := json.Marshal(map[string]string{"patch": patch})
		if err != nil {
			t.Skip()
		}
		set.Title("patch", raw)
		before := box.copy()
		r, err := set.Do(t.Context(), tool.Call{Name: "patch", Input: raw})
		if err != nil {
			t.Fatal(err)
		}
		if r.Failed && !box.equal(before) {
			t.Fatal("a patch that failed changed something")
		}
	})
}
