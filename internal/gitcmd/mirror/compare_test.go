package mirror

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func (w *world) write(name, text string) {
	w.t.Helper()
	path := filepath.Join(w.source, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		w.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) save() string {
	w.t.Helper()
	w.run("add", "-A")
	w.run("commit", "-q", "--allow-empty", "-m", "change")
	return w.run("rev-parse", "HEAD")
}

func (w *world) fetched() *Scratch {
	w.t.Helper()
	if _, err := w.mirror.Sync(w.t.Context()); err != nil {
		w.t.Fatal(err)
	}
	s, err := w.mirror.Scratch()
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(s.Close)
	return s
}

// patches is every patch between two commits by path.
func (w *world) patches(s *Scratch, a, b string, opts PatchOptions) map[string]FilePatch {
	w.t.Helper()
	files, err := w.mirror.Compare(w.t.Context(), s, a, b)
	if err != nil {
		w.t.Fatal(err)
	}
	var pairs []Pair
	for _, f := range files {
		pairs = append(pairs, Pair{f.OldBlob, f.NewBlob})
	}
	out := map[string]FilePatch{}
	err = s.Patches(w.t.Context(), pairs, opts, func(i int, p FilePatch) (bool, error) {
		out[files[i].Path] = p
		return true, nil
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return out
}

// Names, contents and attributes that are made to mislead do not.
func TestCompareOfHostileFiles(t *testing.T) {
	w := newWorld(t, nil)
	long := strings.Repeat("x", 200<<10)
	body := strings.Repeat("a line of the file\n", 20)
	w.write("q.sql", "select 1;\n-- drop it\n-- a/q.sql\n++ b\n")
	w.write("moved from", body)
	w.write("source.txt", body)
	w.write("crlf", "one\r\ntwo\r\n")
	w.write("end", "last")
	w.write("bin", "a\x00b")
	w.write("long", long)
	w.write("mode.sh", "#!/bin/sh\n")
	w.write("hidden.go", "package a\n")
	odd := "sp ace/\"quo\tte\"\n\xff\u202e.go"
	w.write(odd, "old\n")
	base := w.save()
	w.write(".gitattributes", "* -diff\n*.go binary\n")
	w.write("q.sql", "select 1;\n-- a/q.sql\n")
	w.run("mv", "moved from", "moved to")
	w.write("copy.txt", body+"more\n")
	w.write("source.txt", body+"changed\n")
	w.write("crlf", "one\r\nTWO\r\n")
	w.write("end", "last\n")
	w.write("bin", "a\x00c")
	w.write("long", long+"y")
	w.write("hidden.go", "package b\n")
	w.write(odd, "new\n")
	if err := os.Chmod(filepath.Join(w.source, "mode.sh"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("../../etc/passwd", filepath.Join(w.source, "link")); err != nil {
		t.Fatal(err)
	}
	w.run("update-index", "--add", "--cacheinfo", "160000,"+base+",sub")
	w.run("add", "-A", "--", ":!sub")
	w.run("commit", "-q", "-m", "change")
	headCommit := w.run("rev-parse", "HEAD")
	s := w.fetched()

	files, err := w.mirror.Compare(t.Context(), nil, base, headCommit)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, f := range files {
		kind := ""
		if f.Binary {
			kind = " binary"
		}
		got = append(got, fmt.Sprintf("%s %q %q %s-%s%s", f.Status, f.OldPath, f.Path, f.OldMode, f.NewMode, kind))
	}
	want := []string{
		`A "" ".gitattributes" 000000-100644`,
		`M "" "bin" 100644-100644 binary`,
		`C "moved from" "copy.txt" 100644-100644`,
		`M "" "crlf" 100644-100644`,
		`M "" "end" 100644-100644`,
		`M "" "hidden.go" 100644-100644`,
		`A "" "link" 000000-120000`,
		`M "" "long" 100644-100644`,
		`M "" "mode.sh" 100644-100755`,
		`R "moved from" "moved to" 100644-100644`,
		`M "" "q.sql" 100644-100644`,
		`M "" "source.txt" 100644-100644`,
		`M "" "sp ace/\"quo\tte\"\n\xff\u202e.go" 100644-100644`,
		`A "" "sub" 000000-160000`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}

	// The submodule has no text.
	pairs, names := []Pair{}, []string{}
	for _, f := range files {
		if f.NewMode != modeSubmodule {
			pairs, names = append(pairs, Pair{f.OldBlob, f.NewBlob}), append(names, f.Path)
		}
	}
	text := map[string]string{}
	if err := s.Patches(t.Context(), pairs, PatchOptions{Context: -1}, func(i int, p FilePatch) (bool, error) {
		text[names[i]] = string(p.Text)
		return true, nil
	}); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"q.sql":      "@@ -2 +1,0 @@ select 1;\n--- drop it\n@@ -4 +2,0 @@ select 1;\n-++ b\n",
		"crlf":       "@@ -2 +2 @@ one\r\n-two\r\n+TWO\r\n",
		"end":        "@@ -1 +1 @@\n-last\n\\ No newline at end of file\n+last\n",
		"hidden.go":  "@@ -1 +1 @@\n-package a\n+package b\n",
		"link":       "@@ -0,0 +1 @@\n+../../etc/passwd\n\\ No newline at end of file\n",
		"source.txt": "@@ -20,0 +21 @@ a line of the file\n+changed\n",
		odd:          "@@ -1 +1 @@\n-old\n+new\n",
		"moved to":   "",
		"mode.sh":    "",
		"bin":        "",
	} {
		got := text[name]
		if name == "crlf" {
			got = strings.Replace(got, "@@ one\n", "@@ one\r\n", 1) // what stands behind a hunk's counts is git's business
		}
		if got != want {
			t.Errorf("%q: got %q, want %q", name, got, want)
		}
	}
	if len(text["long"]) < 400<<10 {
		t.Errorf("the long line has %d bytes in the patch", len(text["long"]))
	}
	if left, _ := os.ReadDir(filepath.Join(w.mirror.Dir(), "objects", "pack")); len(left) == 0 {
		t.Error("no pack")
	}
}

func TestPatchesAreCutAfterALine(t *testing.T) {
	w := newWorld(t, nil)
	w.write("a", "1\n")
	base := w.save()
	w.write("a", strings.Repeat("0123456789\n", 1000))
	w.write("b", strings.Repeat("y", 5000)+"\n")
	headCommit := w.save()
	s := w.fetched()
	got := w.patches(s, base, headCommit, PatchOptions{Limit: 1000})
	a := got["a"]
	if !a.Cut || len(a.Text) > 1000 || len(a.Text) < 980 || !bytes.HasSuffix(a.Text, []byte("\n+0123456789\n")) || a.Size < 11_000 {
		t.Errorf("a: cut %v, %d of %d bytes: %q", a.Cut, len(a.Text), a.Size, a.Text)
	}
	if b := got["b"]; !b.Cut || string(b.Text) != "@@ -0,0 +1 @@\n" || b.Size < 5000 {
		t.Errorf("b: %+v", b)
	}
}

// A change that was brought onto a newer base differs from what it was by what
// was changed in it, and not by what the base brought.
func TestReplay(t *testing.T) {
	w := newWorld(t, nil)
	w.write("a", "1\n2\n3\n4\n5\n6\n7\n8\n9\n")
	w.write("c", "same\n")
	w.write("gone", "x\n")
	oldBase := w.save()
	w.write("a", "1\n2\n3\n4\n5\n6\n7\n8\nnine\n")
	w.write("c", "ours\n")
	w.write("gone", "y\n")
	oldHead := w.save()
	w.run("checkout", "-q", "-b", "later", oldBase)
	w.write("a", "one\n2\n3\n4\n5\n6\n7\n8\n9\n")
	w.write("b", "from the base\n")
	w.write("c", "theirs\n")
	w.run("rm", "-q", "gone")
	newBase := w.save()
	w.write("a", "one\n2\n3\n4\n5\n6\n7\n8\nNINE\n")
	w.write("c", "both\n")
	newHead := w.save()
	s := w.fetched()
	re, err := s.Replay(t.Context(), oldBase, oldHead, newBase)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"c", "gone"}, re.Conflicts); diff != "" {
		t.Errorf("conflicts: %s", diff)
	}
	got := map[string]string{}
	for name, p := range w.patches(s, re.Tree, newHead, PatchOptions{Context: -1}) {
		got[name] = string(p.Text)
	}
	want := map[string]string{
		"a":    "@@ -9 +9 @@ one\n-nine\n+NINE\n",
		"c":    "@@ -1 +1 @@\n-ours\n+both\n",
		"gone": "@@ -1 +0,0 @@\n-y\n",
	}
	got["a"] = strings.Replace(got["a"], "@@ 8\n", "@@ one\n", 1)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if _, err := w.mirror.Compare(t.Context(), nil, re.Tree, newHead); err == nil {
		t.Error("the tree of a scratch is in the repository")
	}
}

func FuzzSplit(f *testing.F) {
	f.Add([]byte("diff --git a/00000000 b/00000000\nindex 1..2 100644\n--- a/00000000\n+++ b/00000000\n@@ -1,2 +1 @@ f\n--- x\n a\n\\ No newline at end of file\n"), 3)
	f.Add([]byte("diff --git a/00000000 b/00000000\nBinary files differ\ndiff --git a/00000001 b/00000001\n@@ -0,0 +1 @@\n+a\n"), 1)
	f.Fuzz(func(t *testing.T, data []byte, step int) {
		read := func(step int) (out string) {
			s := newSplitter(64, 4, func(i int, p FilePatch) (bool, error) {
				if len(p.Text) > 64 || p.Size < int64(len(p.Text)) || p.Cut == (p.Size == int64(len(p.Text))) {
					t.Fatalf("patch %d: %d bytes of %d, cut %v", i, len(p.Text), p.Size, p.Cut)
				}
				out += fmt.Sprintf("%d %q %v\n", i, p.Text, p.Cut)
				return true, nil
			})
			for rest := data; len(rest) > 0; {
				n := min(step, len(rest))
				if _, err := s.Write(rest[:n]); err != nil {
					return out + "refused"
				}
				rest = rest[n:]
			}
			if s.end() != nil {
				out += "refused"
			}
			return out
		}
		if step < 1 {
			step = 1
		}
		if a, b := read(len(data)+1), read(step); a != b {
			t.Fatalf("in one piece:\n%s\nin pieces of %d:\n%s", a, step, b)
		}
	})
}
