package evidence

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"drydock/internal/core"
	"drydock/internal/proof/check"
	"drydock/internal/proof/exam"
	"drydock/internal/store/blob"
)

type fixture struct {
	t     *testing.T
	blobs *blob.Store
	key   Key
	in    Input
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	blobs, err := blob.New(filepath.Join(t.TempDir(), "blobs"))
	if err != nil {
		t.Fatal(err)
	}
	key, err := LoadKey(filepath.Join(t.TempDir(), "keys", "evidence.pem"))
	if err != nil {
		t.Fatal(err)
	}
	f := &fixture{t: t, blobs: blobs, key: key}
	f.in = Input{ID: core.NewEvidenceID(), Result: f.result(), Blobs: blobs, Key: key}
	return f
}

func (f *fixture) keep(name, text string) exam.Artifact {
	f.t.Helper()
	a, err := Keeper{Blobs: f.blobs}.Put(f.t.Context(), name, "text/plain", strings.NewReader(text))
	if err != nil {
		f.t.Fatal(err)
	}
	return a
}

func (f *fixture) result() exam.Result {
	picture := f.keep("pages/home/after.png", "picture")
	row := func(name string, class exam.Class, a, b, d []check.Status) exam.CaseRow {
		cells := map[exam.Cell][]check.Status{exam.CellB: b}
		if a != nil {
			cells[exam.CellA] = a
		}
		if d != nil {
			cells[exam.CellD] = d
		}
		return exam.CaseRow{ID: check.ID{Check: "test", Suite: "shop", Name: name}, Class: class, Cells: cells, Noticed: class == exam.ClassFixed}
	}
	green := []check.Status{check.Pass}
	r := exam.Result{
		Exam: exam.Exam{
			Repository: "shop", Environment: "shop", Snapshot: "snp_1", Base: strings.Repeat("a", 40), Head: strings.Repeat("b", 40),
			Checks: []exam.CheckSpec{{Name: "test", Run: "go test -json ./...", Report: "gotest"}}, PromptAuthors: []string{"ada"},
		},
		BaseTree: strings.Repeat("1", 40), HeadTree: strings.Repeat("2", 40),
		Started: time.Unix(1000, 0).UTC(), Finished: time.Unix(1010, 0).UTC(),
		Files: []exam.FileChange{{Path: "price.go", Status: "modified", Role: exam.RoleCode}, {Path: "price_test.go", Status: "modified", Role: exam.RoleTest}},
		Runs: []exam.RunRecord{
			{Cell: exam.CellA, Try: 1, Check: "test", Command: "go test -json ./...", Format: "gotest", Artifacts: []exam.Artifact{f.keep("A/1/test/log.txt", "base log")}},
			{Cell: exam.CellB, Try: 1, Check: "test", Command: "go test -json ./...", Format: "gotest", Artifacts: []exam.Artifact{f.keep("B/1/test/log.txt", "branch log")}},
			{Cell: exam.CellD, Try: 1, Check: "test", Command: "go test -json ./...", Format: "gotest", ExitCode: 1, Artifacts: []exam.Artifact{f.keep("D/1/test/log.txt", "mixed log")}},
		},
		Checks: []exam.CheckRow{{Name: "test", Cells: map[exam.Cell]check.Counts{exam.CellA: {Passed: 1}, exam.CellB: {Passed: 2}, exam.CellD: {Passed: 1, Failed: 1}}}},
		Cases: []exam.CaseRow{
			row("TestHalf", exam.ClassKept, green, green, green),
			row("TestTotal", exam.ClassFixed, nil, []check.Status{check.Pass, check.Pass, check.Pass}, []check.Status{check.Fail, check.Fail}),
		},
		Pictures: []exam.Comparison{{Page: "home", After: &picture, NewErrors: []string{"TypeError: `x` | y"}}},
	}
	exam.Judge(&r)
	return r
}

func (f *fixture) write() string {
	f.t.Helper()
	dir := filepath.Join(f.t.TempDir(), "bundle")
	if _, err := Write(f.t.Context(), dir, f.in); err != nil {
		f.t.Fatal(err)
	}
	return dir
}

func (f *fixture) verify(path string) Report {
	f.t.Helper()
	report, err := Verify(f.t.Context(), path, []PublicKey{f.key.Public()})
	if err != nil {
		f.t.Fatal(err)
	}
	return report
}

func TestBundleIsGenuine(t *testing.T) {
	f := newFixture(t)
	if f.in.Result.Verdict != exam.Proven {
		t.Fatalf("the fixture is %s: %v", f.in.Result.Verdict, f.in.Result.Reasons)
	}
	dir := f.write()
	report := f.verify(dir)
	if !report.OK || report.Verdict != exam.Proven || report.Head != f.in.Result.Exam.Head || report.Artifacts != 4 || report.Statements != 3 {
		t.Errorf("report %+v", report)
	}
	var buf bytes.Buffer
	if _, err := WriteTar(t.Context(), &buf, f.in); err != nil {
		t.Fatal(err)
	}
	tarPath := filepath.Join(t.TempDir(), "bundle.tar")
	if err := os.WriteFile(tarPath, buf.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	if report := f.verify(tarPath); !report.OK {
		t.Errorf("the tar file: %s", report)
	}
	m, err := ReadManifest(t.Context(), tarPath)
	if err != nil || m.Result.Verdict != exam.Proven || m.ID != f.in.ID {
		t.Errorf("manifest %+v, %v", m.ID, err)
	}
}

func TestWriteTwiceIsTheSame(t *testing.T) {
	f := newFixture(t)
	var one, two bytes.Buffer
	for _, w := range []*bytes.Buffer{&one, &two} {
		if _, err := WriteTar(t.Context(), w, f.in); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(one.Bytes(), two.Bytes()) {
		t.Error("two bundles of one result differ")
	}
	if _, err := Write(t.Context(), f.write(), f.in); !core.Is(err, core.Conflict) {
		t.Errorf("writing over a bundle: %v", err)
	}
}

// Whatever is done to a bundle is named.
func TestTampering(t *testing.T) {
	artifact := func(dir, text string) string {
		return filepath.Join(dir, "artifacts", "sha256", strings.TrimPrefix(digestOf([]byte(text)), "sha256:"))
	}
	lines := func(t *testing.T, dir string, change func([]string) []string) {
		t.Helper()
		p := filepath.Join(dir, StatementsName)
		raw, err := os.ReadFile(p)
		if err != nil {
			t.Fatal(err)
		}
		list := change(strings.Split(strings.TrimSpace(string(raw)), "\n"))
		if err := os.WriteFile(p, []byte(strings.Join(list, "\n")+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	tests := map[string]struct {
		do   func(t *testing.T, dir string)
		want []string // "kind: what"
	}{
		"a line deleted and a picture altered": {func(t *testing.T, dir string) {
			lines(t, dir, func(l []string) []string { return l[1:] })
			must(t, os.WriteFile(artifact(dir, "picture"), []byte("pictura"), 0o600))
		}, []string{"missing: statement A/test", "altered: artifact pages/home/after.png"}},
		"an artifact removed": {func(t *testing.T, dir string) {
			must(t, os.Remove(artifact(dir, "branch log")))
		}, []string{"missing: artifact B/1/test/log.txt"}},
		"a file added": {func(t *testing.T, dir string) {
			must(t, os.WriteFile(filepath.Join(dir, "extra.txt"), []byte("x"), 0o600))
		}, []string{"extra: file extra.txt"}},
		"a link in place of a file": {func(t *testing.T, dir string) {
			must(t, os.Remove(artifact(dir, "branch log")))
			must(t, os.Symlink("/etc/hostname", artifact(dir, "branch log")))
		}, []string{"missing: artifact B/1/test/log.txt", "extra: entry artifacts/sha256/" + strings.TrimPrefix(digestOf([]byte("branch log")), "sha256:")}},
		"the manifest altered": {func(t *testing.T, dir string) {
			p := filepath.Join(dir, ManifestName)
			raw, err := os.ReadFile(p)
			must(t, err)
			must(t, os.WriteFile(p, bytes.Replace(raw, []byte("shop"), []byte("shap"), 1), 0o600))
		}, []string{"altered: manifest.json"}},
		"a line twice": {func(t *testing.T, dir string) {
			lines(t, dir, func(l []string) []string { return append(l, l[0]) })
		}, []string{"extra: line 5"}},
		"a line with another payload": {func(t *testing.T, dir string) {
			lines(t, dir, func(l []string) []string {
				at := strings.Index(l[0], `"payload":"`) + len(`"payload":"`) + 40
				l[0] = l[0][:at] + swap(l[0][at]) + l[0][at+1:]
				return l
			})
		}, []string{"missing: statement A/test", "altered: line 1"}},
		"the evidence statement deleted": {func(t *testing.T, dir string) {
			lines(t, dir, func(l []string) []string { return l[:len(l)-1] })
		}, []string{"missing: evidence statement"}},
		"everything signed by somebody else": {func(t *testing.T, dir string) {
			other, err := LoadKey(filepath.Join(t.TempDir(), "key"))
			must(t, err)
			g := newFixture(t)
			g.key, g.in.Key = other, other
			must(t, os.RemoveAll(dir))
			_, err = Write(t.Context(), dir, g.in)
			must(t, err)
		}, []string{"missing: evidence statement", "unsigned: line 1", "unsigned: line 2", "unsigned: line 3", "unsigned: line 4"}},
		"nonsense for a line": {func(t *testing.T, dir string) {
			lines(t, dir, func(l []string) []string { return append(l, "{}", "not json") })
		}, []string{"malformed: line 5", "malformed: line 6"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			dir := f.write()
			test.do(t, dir)
			report := f.verify(dir)
			var got []string
			for _, p := range report.Problems {
				got = append(got, p.Kind+": "+p.What)
			}
			if diff := cmp.Diff(test.want, got); diff != "" || report.OK {
				t.Errorf("ok %v, problems (-want +got):\n%s", report.OK, diff)
			}
		})
	}
}

// A statement of another bundle, signed by the same key, does not slip in.
func TestReplayedStatement(t *testing.T) {
	f := newFixture(t)
	dir := f.write()
	other := newFixture(t)
	other.in.Key, other.key = f.key, f.key
	other.in.Result.Exam.Head = strings.Repeat("c", 40)
	raw, err := os.ReadFile(filepath.Join(other.write(), StatementsName))
	must(t, err)
	p := filepath.Join(dir, StatementsName)
	mine, err := os.ReadFile(p)
	must(t, err)
	must(t, os.WriteFile(p, append(mine, raw...), 0o600))
	report := f.verify(dir)
	if report.OK || len(report.Problems) != 4 || report.Head != f.in.Result.Exam.Head {
		t.Errorf("%s", report)
	}
}

func swap(c byte) string {
	if c == 'A' {
		return "B"
	}
	return "A"
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestKeyFile(t *testing.T) {
	p := filepath.Join(t.TempDir(), "dir", "key.pem")
	one, err := LoadKey(p)
	must(t, err)
	two, err := LoadKey(p)
	must(t, err)
	if one.Public().ID() != two.Public().ID() {
		t.Error("the key changed between two loads")
	}
	info, err := os.Stat(p)
	must(t, err)
	if info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v", info.Mode())
	}
	keys, err := ParsePublicKeys(append(one.Public().PEM(), one.Public().PEM()...))
	if err != nil || len(keys) != 2 || keys[0].ID() != one.Public().ID() {
		t.Errorf("%d keys, %v", len(keys), err)
	}
	must(t, os.Chmod(p, 0o640))
	if _, err := LoadKey(p); !core.Is(err, core.Denied) {
		t.Errorf("a key that others can read: %v", err)
	}
}

func TestLogsAreCutAndRedacted(t *testing.T) {
	f := newFixture(t)
	keeper := Keeper{Blobs: f.blobs, Redact: func(b []byte) []byte { return bytes.ReplaceAll(b, []byte("hunter2"), []byte("*******")) }}
	long := "hunter2 first\n" + strings.Repeat("0123456789abcdef", (MaxLog+MaxLog/2)/16) + "\nhunter2 last\n"
	a, err := keeper.Put(t.Context(), "../x\n/log.txt", "text/plain", strings.NewReader(long))
	must(t, err)
	file, err := f.blobs.Open(a.Digest)
	must(t, err)
	defer func() { _ = file.Close() }()
	var got bytes.Buffer
	_, err = got.ReadFrom(file)
	must(t, err)
	text := got.String()
	if a.Whole != int64(len(long)) || a.Size > MaxLog+200 || strings.Contains(text, "hunter2") ||
		!strings.HasPrefix(text, "******* first") || !strings.HasSuffix(text, "******* last\n") || !strings.Contains(text, "bytes left out") {
		t.Errorf("kept %d of %d bytes; starts %.20q", a.Size, a.Whole, text)
	}
	if a.Name != "x_/log.txt" {
		t.Errorf("name %q", a.Name)
	}
	for _, size := range []int{0, 1, MaxLog/2 - 1, MaxLog / 2, MaxLog/2 + 1, MaxLog} {
		a, err := Keeper{Blobs: f.blobs}.Put(t.Context(), "n", "text/plain", strings.NewReader(strings.Repeat("x", size)))
		if err != nil || a.Size != int64(size) || a.Whole != int64(size) {
			t.Errorf("%d bytes: %+v, %v", size, a, err)
		}
	}
}

func TestRerun(t *testing.T) {
	f := newFixture(t)
	m, err := ReadManifest(t.Context(), f.write())
	must(t, err)
	answer := func(run func(context.Context, exam.Exam) (exam.Result, error)) RerunReport {
		t.Helper()
		r, err := Rerun(t.Context(), m, run)
		must(t, err)
		return r
	}
	same := answer(func(_ context.Context, ex exam.Exam) (exam.Result, error) {
		r := f.result()
		r.Exam = ex
		return r, nil
	})
	if same.Answer != Same || same.After != exam.Proven {
		t.Errorf("%+v", same)
	}
	differs := answer(func(context.Context, exam.Exam) (exam.Result, error) {
		r := f.result()
		r.Cases[0].Class = exam.ClassBroken
		r.Cases[0].Cells[exam.CellB] = []check.Status{check.Fail}
		r.Runs[1].ExitCode = 1
		return r, nil
	})
	want := []string{
		"the verdict was proven (proven) and is broken (broken)",
		"case shop: TestHalf was kept and is broken",
		"check test in cell B ended with 0 and now with 1",
	}
	if diff := cmp.Diff(want, differs.Differences); differs.Answer != Differs || diff != "" {
		t.Errorf("%s (-want +got):\n%s", differs.Answer, diff)
	}
	gone := answer(func(context.Context, exam.Exam) (exam.Result, error) {
		return exam.Result{}, core.E("snapshot.get", core.NotFound, nil, "snapshot snp_1 was collected")
	})
	if gone.Answer != Cannot || gone.Reason != "snapshot snp_1 was collected" {
		t.Errorf("%+v", gone)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Rerun(ctx, m, func(ctx context.Context, _ exam.Exam) (exam.Result, error) { return exam.Result{}, ctx.Err() }); !core.Is(err, core.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

func TestMarkdown(t *testing.T) {
	f := newFixture(t)
	r := f.in.Result
	r.Findings = []exam.Finding{{ID: "abc", Code: exam.FindExpectation, NeedsAck: true, Text: "old test is red <script>", Old: "want 3\n```", New: "want 4"}}
	exam.Judge(&r)
	got := Markdown(r, MarkdownOptions{Bundle: "/evidence/evd_1", Link: func(a exam.Artifact) string { return "/blobs/" + short(a.Digest[7:]) }})
	for _, want := range []string{
		"### Evidence: **unproven** (1 fixed, 1 kept)",
		"unproven until a named person acknowledges it: old test is red &lt;script&gt;",
		"- want 3", "+ want 4", "````diff",
		"| test | 1 green | 2 green | not needed | 1 green, 1 red |",
		"- `shop: TestTotal`",
		"[after](/blobs/", "new console error: `TypeError: 'x' \\| y`",
		"[Bundle](/evidence/evd_1)", "Base `aaaaaaaaaaaa`, head `bbbbbbbbbbbb`",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("missing %q in:\n%s", want, got)
		}
	}
}

func FuzzVerify(f *testing.F) {
	blobs, err := blob.New(filepath.Join(f.TempDir(), "blobs"))
	if err != nil {
		f.Fatal(err)
	}
	key, err := LoadKey(filepath.Join(f.TempDir(), "key"))
	if err != nil {
		f.Fatal(err)
	}
	r := exam.Result{Exam: exam.Exam{Base: "aaaaaaa", Head: "bbbbbbb"}}
	exam.Judge(&r)
	var buf bytes.Buffer
	if _, err := WriteTar(context.Background(), &buf, Input{Result: r, Blobs: blobs, Key: key}); err != nil {
		f.Fatal(err)
	}
	f.Add(buf.Bytes())
	f.Add(buf.Bytes()[:700])
	f.Add([]byte{})
	var odd bytes.Buffer
	tw := tar.NewWriter(&odd)
	_ = tw.WriteHeader(&tar.Header{Name: "../manifest.json", Size: 2, Typeflag: tar.TypeReg})
	_, _ = tw.Write([]byte("{}"))
	_ = tw.WriteHeader(&tar.Header{Name: StatementsName, Typeflag: tar.TypeSymlink, Linkname: "/etc/passwd"})
	_ = tw.Close()
	f.Add(odd.Bytes())
	genuine := buf.Bytes()
	f.Fuzz(func(t *testing.T, raw []byte) {
		h := &held{files: map[string]listed{}}
		if err := h.readTar(t.Context(), bytes.NewReader(raw)); err != nil {
			return
		}
		report := verify(h, []PublicKey{key.Public()})
		if report.OK && !bytes.Contains(raw, genuine[1024:1500]) && len(h.files) < 2 {
			t.Error("a bundle that nobody signed is genuine")
		}
	})
}

func FuzzEnvelope(f *testing.F) {
	key, err := LoadKey(filepath.Join(f.TempDir(), "key"))
	if err != nil {
		f.Fatal(err)
	}
	line, err := key.sign(statement{Type: StatementType})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(line)
	f.Add([]byte(`{"payloadType":"application/vnd.in-toto+json","payload":"e30=","signatures":[{"keyid":"","sig":""}]}`))
	want, _, err := openEnvelope(line, []PublicKey{key.Public()})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		got, _, err := openEnvelope(raw, []PublicKey{key.Public()})
		if err == nil && !bytes.Equal(got, want) {
			t.Errorf("accepted a payload that was never signed: %q", got)
		}
		if err != nil && !errors.Is(err, errNotEnvelope) && !errors.Is(err, errUnknownKey) && !errors.Is(err, errSignature) {
			t.Errorf("unnamed error %v", err)
		}
	})
}
