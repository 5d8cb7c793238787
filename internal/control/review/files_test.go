package review_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"drydock/internal/control/review"
	"drydock/internal/core"
	"drydock/internal/proof/exam"
)

func TestFilesInReadingOrder(t *testing.T) {
	w := newWorld(t, map[string]string{"cart/total.go": "package cart\n\nvar a = 1\n", "cart/total_test.go": "package cart\n", "go.sum": "x\n", "deploy/prod.tf": "a\n", "README.md": "hi\n"})
	w.tree.Commit(ana, "fix", map[string]string{
		"cart/total.go": "package cart\n\nvar a = 2\n", "cart/total_test.go": "package cart\n\nvar t = 1\n", "go.sum": "y\n", "deploy/prod.tf": "b\n",
		"README.md": "ho\n", "cart/new.go": "// F is new.\npackage cart\n\nfunc F() {\n\tprintln(1)\n\tprintln(2)\n}\n",
	})
	w.open()
	w.proofs.results["evd_1"] = exam.Result{
		Exam:   exam.Exam{Head: w.change.Head},
		Files:  []exam.FileChange{{Path: "cart/total.go", Role: exam.RoleCode}},
		Checks: []exam.CheckRow{{Name: "test", Classes: map[exam.Class]int{exam.ClassNew: 1}}},
		Coverage: &exam.Coverage{
			Measured: true, Changed: 3, Covered: 1, Unrun: []string{"cart/new.go:3"},
			Files: []exam.FileCoverage{{Path: "cart/new.go", Changed: 2, Covered: 0}, {Path: "cart/total.go", Changed: 1, Covered: 1}},
		},
	}
	w.evidence("evd_1", "proven")
	d := w.files("", "")
	var got []string
	for _, f := range d.Items {
		got = append(got, fmt.Sprintf("%d %s %s %s/%s %s", f.N, d.Groups[f.Group].Mode, f.Path, f.Role, f.Status, f.Why))
	}
	want := []string{
		"1 first deploy/prod.tf protected/modified a protected path",
		"2 first cart/new.go source/added 2 of 2 changed lines are run by no test",
		"3 read cart/total_test.go test/modified ",
		"4 read cart/total.go source/modified ",
		"5 skim go.sum lock/modified ",
		"6 skim README.md docs/modified ",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if d.Count != 6 || d.Added != 13 || d.Removed != 4 || d.From != w.base || d.To != w.change.Head || d.Interdiff {
		t.Errorf("%+v", d)
	}

	// Evidence of another head says nothing about these lines.
	w.tree.Commit(ana, "more", map[string]string{"README.md": "more\n"})
	w.pushed()
	later := w.files("", "")
	if later.Items[3].Coverage != nil || later.Digest == d.Digest {
		t.Errorf("coverage of another commit: %+v", later.Items)
	}
	_, err := w.svc.Patches(t.Context(), w.change.ID, bo, core.PatchRequest{Digest: d.Digest})
	w.want(err, core.Conflict, "no longer those of")
}

func (w *world) evidence(id core.EvidenceID, verdict string) {
	w.Helper()
	c, err := w.db.UpdateChange(w.Context(), w.change.ID, func(c *core.Change) error {
		c.Evidence, c.Verdict = id, verdict
		return nil
	})
	if err != nil {
		w.Fatal(err)
	}
	w.change = c
}

// 327 files and 30,000 lines come in three answers, whole.
func TestManyFiles(t *testing.T) {
	w := newWorld(t, map[string]string{"README.md": "hi\n"})
	files := map[string]string{}
	for i := range 327 {
		files[fmt.Sprintf("pkg%d/file%d.go", i%40, i)] = strings.Repeat(fmt.Sprintf("line of file %d\n", i), 92)
	}
	w.tree.Commit(ana, "many", files)
	w.open()
	d := w.files("", "")
	if d.Count != 327 || len(d.Items) != 327 || d.Added != 327*92 {
		t.Fatalf("%d files, %d lines", d.Count, d.Added)
	}
	next, answers, lines := "", 0, 0
	for {
		p, err := w.svc.Patches(t.Context(), w.change.ID, bo, core.PatchRequest{Files: next, Digest: d.Digest})
		if err != nil {
			t.Fatal(err)
		}
		answers++
		for _, f := range p.Files {
			lines += strings.Count(f.Patch, "\n+")
		}
		if next = p.Next; next == "" {
			break
		}
	}
	if answers != 2 || lines != 327*92 {
		t.Errorf("%d answers, %d lines", answers, lines)
	}
	hits, err := w.svc.Search(t.Context(), w.change.ID, bo, core.DiffRange{}, "OF FILE 326")
	if err != nil || hits.Total != 92 || len(hits.Items) != 92 || d.Items[hits.Items[0].N-1].Path != "pkg6/file326.go" || hits.Items[91].Line != 92 {
		t.Errorf("%d hits, %v", hits.Total, err)
	}
}

func TestHostileFilesAreShown(t *testing.T) {
	long := strings.Repeat("x", 200<<10)
	w := newWorld(t, map[string]string{"q.sql": "select 1;\n-- drop\n", "crlf.txt": "a\r\nb\r\n", "mode.sh": "#!/bin/sh\n", "moved": strings.Repeat("text of the file\n", 10), "kind": "text\n"})
	odd := "a \"b\"\n\xffc\u202e.go"
	for name, text := range map[string]string{
		"q.sql": "select 1;\n", "crlf.txt": "a\r\nB\r\n", "long": long, "bin": "a\x00b", odd: "latin \xe9\n", "empty": "", "big": strings.Repeat("z\n", 400<<10),
	} {
		if err := os.WriteFile(filepath.Join(w.tree.Dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(filepath.Join(w.tree.Dir, "mode.sh"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(w.tree.Dir, "kind")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/etc/passwd", filepath.Join(w.tree.Dir, "kind")); err != nil {
		t.Fatal(err)
	}
	w.tree.Git("mv", "moved", "there")
	w.tree.Git("update-index", "--add", "--cacheinfo", "160000,"+w.base+",sub")
	w.tree.Git("add", "-A", "--", ":!sub")
	w.tree.Git("commit", "--quiet", "-m", "odd")
	w.open()
	d := w.files("", "")
	got := map[string]string{}
	for _, f := range d.Items {
		got[f.Path] = strings.TrimSpace(fmt.Sprintf("%s %s %s %s>%s", f.Status, f.Kind, f.OldPath, f.ModeOld, f.ModeNew))
		if strings.HasPrefix(f.Path, "a ") && string(f.Raw) != odd {
			t.Errorf("raw name %q", f.Raw)
		}
	}
	want := map[string]string{
		"q.sql": "modified text  >", "crlf.txt": "modified text  >", "long": "added text  >100644", "bin": "added binary  >100644", "empty": "added text  >100644",
		"big": "added text  >100644", "mode.sh": "mode text  100644>100755", "kind": "type symlink  100644>120000", "there": "renamed text moved >",
		"sub": "added submodule  >160000", strings.ToValidUTF8(odd, "\uFFFD"): "added text  >100644",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	p, err := w.svc.Patches(t.Context(), w.change.ID, bo, core.PatchRequest{Context: -1})
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range p.Files {
		one := d.Items[f.N-1]
		switch one.Path {
		case "q.sql":
			if !strings.HasSuffix(f.Patch, "\n--- drop\n") {
				t.Errorf("sql: %q", f.Patch)
			}
		case "crlf.txt":
			if !strings.HasSuffix(f.Patch, "\n-b\r\n+B\r\n") {
				t.Errorf("crlf: %q", f.Patch)
			}
		case "long":
			if f.Cut || len(f.Patch) < 200<<10 {
				t.Errorf("long line: %d bytes, cut %v", len(f.Patch), f.Cut)
			}
		case "big":
			if !f.Cut || len(f.Patch) > 512<<10 || f.Bytes < 1<<20 {
				t.Errorf("big: %d of %d bytes", len(f.Patch), f.Bytes)
			}
			whole, err := w.svc.Patches(t.Context(), w.change.ID, bo, core.PatchRequest{Files: fmt.Sprint(f.N), Whole: true})
			if err != nil || whole.Files[0].Cut || int64(len(whole.Files[0].Patch)) != f.Bytes {
				t.Errorf("whole: %v", err)
			}
		case strings.ToValidUTF8(odd, "\uFFFD"):
			if string(f.Raw) != "@@ -0,0 +1 @@\n+latin \xe9\n" || !strings.Contains(f.Patch, "latin \uFFFD") {
				t.Errorf("bytes: %q %q", f.Patch, f.Raw)
			}
		case "bin", "sub", "mode.sh", "there", "empty":
			if f.Patch != "" {
				t.Errorf("%s has a patch: %q", one.Path, f.Patch)
			}
		}
	}
	if len(p.Files) != len(d.Items) {
		t.Errorf("%d patches", len(p.Files))
	}
}

// What changed since somebody looked is what was changed, not what the base
// brought meanwhile.
func TestInterdiff(t *testing.T) {
	lines := []string{"1", "2", "3", "4", "5", "6", "7", "8", "9", ""}
	w := newWorld(t, map[string]string{"a.txt": strings.Join(lines, "\n"), "c.txt": "c\n"})
	mine := slices.Clone(lines)
	mine[8] = "nine"
	w.tree.Commit(ana, "fix", map[string]string{"a.txt": strings.Join(mine, "\n")})
	w.open()
	first := w.change.Head
	_, err := w.svc.Files(t.Context(), w.change.ID, bo, core.DiffRange{From: "seen"})
	w.want(err, core.NotFound, "not looked")
	if err := w.svc.SetSeen(t.Context(), w.change.ID, bo, first); err != nil {
		t.Fatal(err)
	}
	if d := w.files("seen", ""); d.Count != 0 || d.Interdiff {
		t.Errorf("nothing new is %+v", d)
	}
	theirs := slices.Clone(lines)
	theirs[0] = "one"
	w.baseMoves(map[string]string{"a.txt": strings.Join(theirs, "\n"), "b.txt": "of the base\n"})
	// The branch is rebased and amended, by force.
	w.tree.Git("reset", "--quiet", "--hard", "main")
	theirs[8] = "NINE"
	w.tree.Commit(ana, "fix", map[string]string{"a.txt": strings.Join(theirs, "\n")})
	second := w.pushed()
	d := w.files("seen", "")
	if !d.Interdiff || d.From != first || d.To != second || d.Count != 1 {
		t.Errorf("%+v", d)
	}
	got := w.patches("seen", "head", -1)
	if !strings.HasSuffix(got["a.txt"], "\n-nine\n+NINE\n") || len(got) != 1 {
		t.Errorf("%q", got)
	}
	// The same by the commit, and the other way round.
	if diff := cmp.Diff(got, w.patches(first, second, -1)); diff != "" {
		t.Errorf("by commit: %s", diff)
	}
	if got := w.patches(second, first, -1); !strings.HasSuffix(got["a.txt"], "\n-NINE\n+nine\n") || len(got) != 1 {
		t.Errorf("backwards: %q", got)
	}
	if got := w.patches("", "", -1); !strings.HasSuffix(got["a.txt"], "\n-9\n+NINE\n") || len(got) != 1 {
		t.Errorf("all: %q", got)
	}
	for _, bad := range []string{"main", "HEAD", "--output=x", "v1^{tree}", strings.Repeat("a", 40)} {
		if _, err := w.svc.Files(t.Context(), w.change.ID, bo, core.DiffRange{From: bad}); !core.Is(err, core.Invalid) && !core.Is(err, core.NotFound) {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

func TestRanges(t *testing.T) {
	for text, want := range map[string][]int{"1": {1}, "1,2,5-9": {1, 2, 5, 6, 7, 8, 9}, "": {1, 2, 3, 4, 5, 6, 7, 8, 9}, "9-9": {9}} {
		got, err := review.ParseRanges(text, 9)
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%q: %v, %v", text, got, err)
		}
	}
	for _, bad := range []string{"0", "-1", "1-", "a", "1,1", "2,1", "3-2", "10", "1,,2", " 1", "+1", "01", "1-99999999999", "1-10", ","} {
		if got, err := review.ParseRanges(bad, 9); !core.Is(err, core.Invalid) {
			t.Errorf("%q: %v, %v", bad, got, err)
		}
	}
	if got, err := review.ParseRanges("", 0); len(got) != 0 || err != nil {
		t.Errorf("nothing: %v, %v", got, err)
	}
}

func FuzzRanges(f *testing.F) {
	f.Add("1,2,5-9", 9)
	f.Fuzz(func(t *testing.T, text string, limit int) {
		limit = min(max(limit, 0), 3000)
		list, err := review.ParseRanges(text, limit)
		if err != nil {
			return
		}
		if !slices.IsSorted(list) || len(list) > limit {
			t.Fatalf("%q: %v", text, list)
		}
		if again, err := review.ParseRanges(review.FormatRanges(list), limit); len(list) > 0 && (err != nil || !slices.Equal(again, list)) {
			t.Fatalf("%v becomes %v, %v", list, again, err)
		}
	})
}
