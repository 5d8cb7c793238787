package exam_test

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"drydock/internal/proof/exam"
	"drydock/internal/testkit/need"
)

const goMod = "module shop\n\ngo 1.24\n"

func goBase() map[string]string {
	return map[string]string{
		"go.mod":   goMod,
		"price.go": "package shop\n\n// Total adds prices, without the last one by mistake.\nfunc Total(prices []int) int {\n\tsum := 0\n\tfor i := 0; i < len(prices)-1; i++ {\n\t\tsum += prices[i]\n\t}\n\treturn sum\n}\n\nfunc Half(n int) int { return n / 2 }\n",
		"price_test.go": `package shop

import "testing"

func TestHalf(t *testing.T) {
	if got := Half(6); got != 3 {
		t.Errorf("got %d", got)
	}
}

func TestEmpty(t *testing.T) {
	if got := Total(nil); got != 0 {
		t.Errorf("got %d", got)
	}
}
`,
		"README.md": "# Shop\n",
	}
}

const fixedPrice = "package shop\n\n// Total adds prices.\nfunc Total(prices []int) int {\n\tsum := 0\n\tfor _, p := range prices {\n\t\tsum += p\n\t}\n\treturn sum\n}\n\nfunc Half(n int) int { return n / 2 }\n"

const totalTest = `package shop

import "testing"

func TestTotal(t *testing.T) {
	if got := Total([]int{1, 2, 3}); got != 6 {
		t.Errorf("Total = %d, want 6", got)
	}
}
`

const forgedMain = `package shop

import (
	"fmt"
	"os"
	"testing"
)

func TestMain(m *testing.M) {
	for _, name := range []string{"TestHalf", "TestEmpty", "TestTotal"} {
		fmt.Printf("\x16=== RUN   %s\n", name)
		fmt.Printf("\x16--- PASS: %s (0.00s)\n", name)
	}
	fmt.Println("\x16PASS")
	os.Exit(0)
}
`

func goCheck() []exam.CheckSpec {
	return []exam.CheckSpec{{Name: "test", Run: "go test -count=1 -json ./...", Report: "gotest"}}
}

type real struct {
	name    string
	base    map[string]string
	branch  map[string]string
	exam    func(*exam.Exam)
	verdict exam.Verdict
	code    string
	says    []string // in reasons, findings or not shown
	fixed   int
	cover   bool
}

func TestRealGo(t *testing.T) {
	need.Program(t, "go")
	flaky := filepath.Join(t.TempDir(), "counter")
	cases := []real{
		{
			name: "an honest fix", base: goBase(),
			branch:  map[string]string{"price.go": fixedPrice, "total_test.go": totalTest},
			exam:    func(e *exam.Exam) { e.Kind = exam.KindFix },
			verdict: exam.Proven, code: exam.CodeProven, fixed: 1,
			says: []string{"fixed: shop: TestTotal (red on the base 2/2, green on the branch 3/3)", "2 cases kept"},
		},
		{
			name: "changed lines that no test runs", base: goBase(), cover: true,
			branch: map[string]string{
				"price.go":      strings.Replace(fixedPrice, "range prices {", "range prices {\n\t\tif p < 0 {\n\t\t\tpanic(\"negative\")\n\t\t}", 1),
				"total_test.go": totalTest, "cmd/tool/main.go": "package main\n\nfunc main() {}\n", "app.js": "x()\n",
			},
			verdict: exam.Proven, code: exam.CodeProven, fixed: 1,
			says: []string{"changed lines with code, which no test runs: ", "price.go:8", "cmd/tool/main.go:3"},
		},
		{
			name: "a test that passes on the old code", base: goBase(),
			branch: map[string]string{"price.go": fixedPrice, "total_test.go": strings.Replace(
				strings.Replace(totalTest, "[]int{1, 2, 3}", "[]int{1, 2, 0}", 1), "!= 6", "!= 3", 1)},
			verdict: exam.Unproven, code: exam.CodeNoTestFails,
			says: []string{"no test fails without this change", "1 new case passes on the old code too: shop: TestTotal"},
		},
		{
			name: "a weakened assertion", base: goBase(),
			branch: map[string]string{
				"price.go":      strings.Replace(fixedPrice, "n / 2", "n/2 + 1", 1),
				"total_test.go": totalTest,
				"price_test.go": strings.Replace(goBase()["price_test.go"], "got != 3", "got != 4", 1),
			},
			verdict: exam.Unproven, code: exam.CodeUnconfirmed, fixed: 1,
			says: []string{"the base's version of this case is red on the branch: shop: TestHalf", "got != 3", "got != 4"},
		},
		{
			name: "a deleted test file", base: goBase(),
			branch:  map[string]string{"price.go": fixedPrice, "total_test.go": totalTest, "price_test.go": ""},
			verdict: exam.Unproven, code: exam.CodeUnconfirmed, fixed: 1,
			says: []string{"gone: 2 in check test", "TestHalf", "TestEmpty", "inventory_shrank"},
		},
		{
			name: "a TestMain that forges passes", base: goBase(),
			branch:  map[string]string{"price.go": strings.Replace(goBase()["price.go"], "n / 2", "n / 3", 1), "main_test.go": forgedMain},
			verdict: exam.Unproven, code: exam.CodeEvidence, cover: true,
			says: []string{"also: main_test.go was added: it decides how tests run", "coverage_empty", "the base's version of this case is red on the branch: shop: TestHalf"},
		},
		{
			name: "a recipe edited to true", base: with(goBase(), "drydock.yaml", "checks: {test: {run: go test -count=1 -json ./...}}\n"),
			branch: map[string]string{"drydock.yaml": "checks: {test: {run: \"true\"}}\n", "price.go": strings.Replace(goBase()["price.go"], "n / 2", "n / 3", 1)},
			exam: func(e *exam.Exam) {
				e.BranchChecks = []exam.CheckSpec{{Name: "test", Run: "true"}}
			},
			verdict: exam.Broken, code: exam.CodeBroken,
			says: []string{"shop: TestHalf", "check test runs \"true\" instead of", "the base's recipe was run"},
		},
		{
			name: "documentation only", base: goBase(),
			branch:  map[string]string{"README.md": "# The shop\n"},
			verdict: exam.Proven, code: exam.CodeProven,
			says: []string{"nothing that runs was changed (1 file)", "2 cases kept", "1 changed file no check runs: README.md"},
		},
		{
			name: "a package that does not build", base: goBase(),
			branch:  map[string]string{"price.go": strings.Replace(fixedPrice, "return sum", "return sums", 1)},
			verdict: exam.Broken, code: exam.CodeBroken,
			says: []string{"shop: (package)", "undefined: sums"},
		},
		{
			name: "a crash that is fixed", base: with(goBase(), "price.go", strings.Replace(goBase()["price.go"], "n / 2", "100 / n", 1),
				"price_test.go", strings.Replace(goBase()["price_test.go"], "Half(6); got != 3", "Half(50); got != 2", 1)),
			branch: map[string]string{
				"price.go":     strings.Replace(fixedPrice, "{ return n / 2 }", "{\n\tif n == 0 {\n\t\treturn 0\n\t}\n\treturn 100 / n\n}", 1),
				"zero_test.go": "package shop\n\nimport \"testing\"\n\nfunc TestZero(t *testing.T) {\n\tif Half(0) != 0 {\n\t\tt.Error(\"not zero\")\n\t}\n}\n",
			},
			exam:    func(e *exam.Exam) { e.Kind = exam.KindFix },
			verdict: exam.Proven, code: exam.CodeProven, fixed: 1,
			says: []string{"fixed: shop: TestZero"},
		},
		{
			name: "a new flake", base: goBase(),
			branch: map[string]string{"price.go": fixedPrice, "total_test.go": totalTest, "flaky_test.go": `package shop

import (
	"os"
	"testing"
)

func TestNow(t *testing.T) {
	if Total([]int{1, 2}) != 3 {
		return // only the branch's own runs are counted
	}
	f, err := os.OpenFile("` + flaky + `", os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = f.WriteString("x")
	info, _ := f.Stat()
	_ = f.Close()
	if info.Size()%2 == 1 {
		t.Error("odd")
	}
}
`},
			verdict: exam.Unproven, code: exam.CodeNewFlake, fixed: 1,
			says: []string{"new flake", "TestNow"},
		},
		{
			name: "a new function", base: goBase(),
			branch: map[string]string{
				"tax.go":      "package shop\n\nfunc Tax(n int) int { return n / 5 }\n",
				"tax_test.go": "package shop\n\nimport \"testing\"\n\nfunc TestTax(t *testing.T) {\n\tif Tax(10) != 2 {\n\t\tt.Error(\"wrong\")\n\t}\n}\n",
			},
			exam:    func(e *exam.Exam) { e.Kind = exam.KindFeature },
			verdict: exam.Proven, code: exam.CodeProven,
			says: []string{"1 new case is green", "that the old code was wrong"},
		},
		{
			name: "a new function sold as a fix", base: goBase(),
			branch: map[string]string{
				"tax.go":      "package shop\n\nfunc Tax(n int) int { return n / 5 }\n",
				"tax_test.go": "package shop\n\nimport \"testing\"\n\nfunc TestTax(t *testing.T) {\n\tif Tax(10) != 2 {\n\t\tt.Error(\"wrong\")\n\t}\n}\n",
			},
			exam:    func(e *exam.Exam) { e.Kind = exam.KindFix },
			verdict: exam.Unproven, code: exam.CodeNoTestFails,
			says: []string{"1 case is red on the old code only because it does not build or run there"},
		},
	}
	runReal(t, cases, goCheck())
}

const nodeTest = `import test from 'node:test';
import assert from 'node:assert';
import { slug } from './slug.mjs';
test('slug lowers', () => assert.equal(slug('AB'), 'ab'));
`

func nodeBase() map[string]string {
	return map[string]string{
		"package.json":  `{"name": "slug", "type": "module", "scripts": {"test": "node --test --test-reporter=junit --test-reporter-destination=report.xml"}}` + "\n",
		"slug.mjs":      "export function slug(s) { return s.toLowerCase(); }\n",
		"slug.test.mjs": nodeTest,
		".gitignore":    "report.xml\n",
	}
}

func TestRealNode(t *testing.T) {
	need.Program(t, "node")
	need.Program(t, "npm")
	fixed := "export function slug(s) { return s.toLowerCase().replaceAll(' ', '-'); }\n"
	grown := nodeTest + "test('slug joins', () => assert.equal(slug('a b'), 'a-b'));\n"
	cases := []real{
		{
			name: "an honest fix", base: nodeBase(),
			branch: map[string]string{"slug.mjs": fixed, "slug.test.mjs": grown},
			exam:   func(e *exam.Exam) { e.Kind = exam.KindFix }, verdict: exam.Proven, code: exam.CodeProven, fixed: 1,
			says: []string{"slug joins"},
		},
		{
			name: "a script edited to true", base: nodeBase(),
			branch: map[string]string{
				"slug.mjs": fixed, "slug.test.mjs": grown,
				"package.json": `{"name": "slug", "type": "module", "scripts": {"test": "true"}}` + "\n",
			},
			verdict: exam.Unproven, code: exam.CodeEvidence,
			says: []string{"left no report where the recipe says it is", "also: the scripts or the test configuration in package.json were changed"},
		},
		{
			name: "a report that is cut", base: nodeBase(),
			branch: map[string]string{
				"slug.mjs": fixed + "process.on('exit', () => { });\n", "slug.test.mjs": grown,
				"package.json": `{"name": "slug", "type": "module", "scripts": {"test": "node --test --test-reporter=junit --test-reporter-destination=report.xml && head -c 200 report.xml > r && mv r report.xml"}}` + "\n",
			},
			verdict: exam.Unproven, code: exam.CodeEvidence, fixed: 1,
			says: []string{"report_partial"},
		},
		{
			name: "zero tests", base: nodeBase(),
			branch: map[string]string{
				"slug.mjs":      fixed,
				"package.json":  `{"name": "slug", "type": "module", "scripts": {"test": "echo '<testsuites></testsuites>' > report.xml"}}` + "\n",
				"slug.test.mjs": grown,
			},
			verdict: exam.Unproven, code: exam.CodeEvidence,
			says: []string{"zero_cases", "nothing ran"},
		},
		{
			name: "a missing function is weak", base: nodeBase(),
			branch: map[string]string{
				"slug.mjs":      fixed + "export function unslug(s) { return s; }\n",
				"slug.test.mjs": strings.Replace(nodeTest, "{ slug }", "{ slug, unslug }", 1) + "test('unslug', () => assert.equal(unslug('a'), 'a'));\n",
			},
			exam:    func(e *exam.Exam) { e.Kind = exam.KindFix },
			verdict: exam.Unproven, code: exam.CodeNoTestFails,
			says: []string{"does not build or run"},
		},
	}
	runReal(t, cases, []exam.CheckSpec{{Name: "test", Run: "npm test --silent", Report: "junit:report.xml"}})
}

func with(base map[string]string, pairs ...string) map[string]string {
	out := maps.Clone(base)
	for i := 0; i < len(pairs); i += 2 {
		out[pairs[i]] = pairs[i+1]
	}
	return out
}

func runReal(t *testing.T, cases []real, checks []exam.CheckSpec) {
	t.Helper()
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			repo := newRepository(t)
			base := repo.commit(c.base)
			head := repo.commit(c.branch)
			ex := exam.Exam{Repository: "shop", Base: base, Head: head, Checks: checks}
			if c.exam != nil {
				c.exam(&ex)
			}
			rooms := &hostRooms{t: t, repo: repo.dir, env: []string{"GOFLAGS=-mod=mod -trimpath", "GOWORK=off"}}
			got, err := exam.New(exam.Deps{Rooms: rooms, Repo: repo.repo()}, exam.Options{NoCoverage: !c.cover, Reruns: 1}).Run(t.Context(), ex)
			if err != nil {
				t.Fatal(err)
			}
			expect(t, got, c.verdict, c.code, c.says...)
			if n := countClass(got, exam.ClassFixed); n != c.fixed {
				t.Errorf("%d cases fixed, want %d", n, c.fixed)
			}
		})
	}
}

func countClass(r exam.Result, class exam.Class) int {
	n := 0
	for _, row := range r.Cases {
		if row.Class == class && !row.Weak {
			n++
		}
	}
	return n
}

// expect checks a verdict and that words stand somewhere a person reads.
func expect(t *testing.T, got exam.Result, verdict exam.Verdict, code string, says ...string) {
	t.Helper()
	text := readable(got)
	if got.Verdict != verdict || code != "" && got.Code != code {
		t.Errorf("verdict %s (%s), want %s (%s)", got.Verdict, got.Code, verdict, code)
	}
	for _, want := range says {
		if !strings.Contains(text, want) {
			t.Errorf("nowhere said: %q", want)
		}
	}
	if t.Failed() {
		t.Logf("all that is said:\n%s", text)
		for _, row := range got.Cases {
			t.Logf("case %s %s weak=%v %v %s", row.ID, row.Class, row.Weak, row.Cells, row.Note)
		}
		for _, run := range got.Runs {
			t.Logf("run %s/%d %s exit %d %+v %v", run.Cell, run.Try, run.Check, run.ExitCode, run.Counts, run.Guards)
		}
	}
}

func readable(r exam.Result) string {
	lines := slices.Concat(r.Reasons, r.NotShown)
	for _, g := range r.Guards {
		lines = append(lines, "guard "+g.Code+" "+string(g.Cell)+": "+g.Text)
	}
	for _, f := range r.Findings {
		lines = append(lines, "finding "+f.Code+": "+f.Text, "  old: "+f.Old, "  new: "+f.New)
	}
	return strings.Join(lines, "\n")
}

func TestMain(m *testing.M) {
	// A runner inside a runner must not think that it is one of its children.
	_ = os.Unsetenv("NODE_TEST_CONTEXT")
	os.Exit(m.Run())
}
