package exam

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/bluekeyes/go-gitdiff/gitdiff"

	"drydock/internal/proof/check"
)

const maxFindings = 500

func (e *engine) find(f Finding) {
	if len(e.result.Findings) >= maxFindings {
		e.note("more than %d findings; the rest is not listed", maxFindings)
		if !f.NeedsAck {
			return
		}
	}
	h := sha256.New()
	fmt.Fprintf(h, "%s\x00%s\x00%d\x00%s", f.Code, f.Path, f.Line, f.Text)
	if f.Case != nil {
		fmt.Fprintf(h, "\x00%s\x00%s", f.Case.Check, f.Case.String())
	}
	f.ID = hex.EncodeToString(h.Sum(nil))[:12]
	e.result.Findings = append(e.result.Findings, f)
}

// findings lists what a person should look at, first what changes the meaning
// of the proof.
func (e *engine) findings(ctx context.Context) {
	e.recipeFindings()
	for _, f := range e.plan.harness {
		e.find(Finding{Code: FindHarness, Path: f.Path, NeedsAck: true,
			Text: fmt.Sprintf("%s was %s: it decides how tests run", f.Path, f.Status)})
	}
	for _, p := range e.plan.mixed {
		e.find(Finding{Code: FindHarness, Path: p, NeedsAck: true,
			Text: fmt.Sprintf("the scripts or the test configuration in %s were changed", p)})
	}
	for _, f := range e.plan.scripts {
		e.find(Finding{Code: FindScript, Path: f.Path, NeedsAck: true,
			Text: fmt.Sprintf("%s was %s: a check calls it", f.Path, f.Status)})
	}
	e.vendorFindings()
	e.fastFindings()
	hunks := e.testHunks(ctx)
	e.caseFindings(hunks)
	e.assertionCounts(ctx)
	e.addedLines(ctx)
	for _, f := range e.result.Files {
		if f.Role == RoleCI {
			e.find(Finding{Code: FindCI, Path: f.Path, Text: fmt.Sprintf("%s was %s: no check here runs it", f.Path, f.Status)})
		}
	}
}

// recipeFindings names edits to the recipe. The base's recipe was run, so they
// change nothing about this exam, but they would change the next one.
func (e *engine) recipeFindings() {
	for _, f := range e.result.Files {
		if f.Role != RoleRecipe {
			continue
		}
		var edits []string
		if f.Path == e.exam.RecipePath {
			edits = recipeEdits(e.exam, f.Status == "deleted")
		}
		text := fmt.Sprintf("%s was %s; the base's recipe was run", f.Path, f.Status)
		if len(edits) > 0 {
			text = fmt.Sprintf("%s was %s: %s; the base's recipe was run", f.Path, f.Status, strings.Join(edits, "; "))
		}
		e.find(Finding{Code: FindRecipe, Path: f.Path, Text: text, NeedsAck: len(edits) > 0 || e.exam.BranchChecks == nil && f.Status != "added"})
	}
}

var frameworkRE = regexp.MustCompile(`/(testify|gomega|ginkgo|go-cmp|gotest\.tools|quicktest|is|jest|vitest|chai|mocha|expect|sinon|pytest|nose|rspec|minitest|phpunit|junit|hamcrest|assertj)[/@.-]`)

// vendorFindings looks at committed code of others. It comes with a raised
// dependency; edited by itself, or where it is a test library, it is a way to
// make every test pass.
func (e *engine) vendorFindings() {
	raised := slices.ContainsFunc(e.result.Files, func(f FileChange) bool { return f.Role.dependencies() })
	n := 0
	for _, f := range e.result.Files {
		if f.Role != RoleVendor || raised && !frameworkRE.MatchString("/"+f.Path) {
			continue
		}
		if n++; n > 20 {
			return
		}
		e.find(Finding{Code: FindVendor, Path: f.Path, NeedsAck: true, Text: fmt.Sprintf("%s was %s: it is other people's code, and tests may rest on it", f.Path, f.Status)})
	}
}

// fastFindings names cases that now take next to no time.
func (e *engine) fastFindings() {
	byCheck := map[string][]string{}
	for _, r := range e.rows() {
		a, b := r.fastest(CellA), r.fastest(CellB)
		if r.state(CellA) == green && r.state(CellB) == green && a >= time.Second && b < a/100 {
			byCheck[r.id.Check] = append(byCheck[r.id.Check], r.id.String())
		}
	}
	for _, c := range e.exam.Checks {
		if names := byCheck[c.Name]; len(names) > 0 {
			e.find(Finding{Code: FindFast, Text: fmt.Sprintf("%s a hundred times faster than on the base: %s",
				plural(len(names), "case is", "cases are"), list(names, 10))})
		}
	}
}

func recipeEdits(ex Exam, deleted bool) []string {
	if deleted || ex.BranchChecks == nil {
		return nil
	}
	var out []string
	now := map[string]CheckSpec{}
	for _, c := range ex.BranchChecks {
		now[c.Name] = c
	}
	for _, c := range ex.Checks {
		n, ok := now[c.Name]
		delete(now, c.Name)
		switch {
		case !ok:
			out = append(out, fmt.Sprintf("check %s was removed", c.Name))
		case n.Run != c.Run:
			out = append(out, fmt.Sprintf("check %s runs %q instead of %q", c.Name, clip(n.Run, 200), clip(c.Run, 200)))
		case n != c:
			out = append(out, fmt.Sprintf("check %s has another report, directory, time limit or weight", c.Name))
		}
	}
	for _, c := range ex.BranchChecks {
		if _, added := now[c.Name]; added {
			out = append(out, fmt.Sprintf("check %s was added and did not run", c.Name))
		}
	}
	if ex.BranchSetup != ex.Setup && ex.BranchSetup != "" {
		out = append(out, "the setup command was changed")
	}
	return out
}

// hunk is a changed place of a test file.
type hunk struct {
	path     string
	old, new string
	line     int // in the new file
}

// testHunks reads what changed in files of the exam that were there before.
func (e *engine) testHunks(ctx context.Context) []hunk {
	var paths []string
	for _, f := range e.result.Files {
		if f.Role.tests() && f.Status != "added" {
			paths = append(paths, f.Path)
			if f.Old != "" {
				paths = append(paths, f.Old)
			}
		}
	}
	if len(paths) == 0 {
		return nil
	}
	var out []hunk
	for _, file := range e.patch(ctx, paths) {
		name := file.NewName
		if name == "" {
			name = file.OldName
		}
		for _, frag := range file.TextFragments {
			h := hunk{path: name, line: int(frag.NewPosition)}
			for _, l := range frag.Lines {
				switch l.Op {
				case gitdiff.OpDelete:
					h.old += l.Line
				case gitdiff.OpAdd:
					h.new += l.Line
				}
			}
			h.old, h.new = clip(strings.TrimRight(h.old, "\n"), 2000), clip(strings.TrimRight(h.new, "\n"), 2000)
			if len(out) < 2000 {
				out = append(out, h)
			}
		}
	}
	return out
}

func (e *engine) patch(ctx context.Context, paths []string) []*gitdiff.File {
	raw, err := e.deps.Repo.Patch(ctx, e.exam.Base, e.exam.Head, paths)
	if err != nil {
		e.note("the difference of %d files could not be read: %v", len(paths), err)
		return nil
	}
	files, _, err := gitdiff.Parse(bytes.NewReader(raw))
	if err != nil {
		e.note("the difference of %d files could not be read: %v", len(paths), err)
	}
	return files
}

// caseFindings turns classes of cases into what a person must say yes to.
func (e *engine) caseFindings(hunks []hunk) {
	byFile := map[string]string{}
	for _, r := range e.rows() {
		for _, cell := range []Cell{CellC, CellB, CellA} {
			if f := r.last(cell).file; f != "" && byFile[r.id.String()] == "" {
				byFile[r.id.String()] = f
			}
		}
	}
	type group struct{ code, check, suite string }
	lists := map[group][]string{}
	var order []group
	for _, r := range e.result.Cases {
		switch r.Class {
		case ClassChanged:
			id := r.ID
			f := Finding{Code: FindExpectation, Case: &id, NeedsAck: true, Text: "the base's version of this case is red on the branch: " + r.ID.String()}
			if r.Note != "" {
				f.Text += " (" + r.Note + ")"
			}
			if h, ok := pickHunk(hunks, r, byFile[r.ID.String()]); ok {
				f.Path, f.Line, f.Old, f.New = h.path, h.line, h.old, h.new
			}
			e.find(f)
		case ClassGone, ClassSkipped:
			code := FindGone
			if r.Class == ClassSkipped {
				code = FindSkipped
			} else if allSkips(r.Cells[CellA]) {
				continue // a case that never ran is no loss
			}
			g := group{code, r.ID.Check, r.ID.Suite}
			if _, ok := lists[g]; !ok {
				order = append(order, g)
			}
			lists[g] = append(lists[g], r.ID.String())
		}
	}
	for _, g := range order {
		names := lists[g]
		what := "gone"
		if g.code == FindSkipped {
			what = "no longer run"
		}
		e.find(Finding{Code: g.code, NeedsAck: true, Text: fmt.Sprintf("%s: %d in check %s: %s", what, len(names), g.check, list(names, 20))})
	}
}

func allSkips(tries []check.Status) bool {
	return !slices.ContainsFunc(tries, func(s check.Status) bool { return s.Red() || s == check.Pass })
}

func list(names []string, n int) string {
	if len(names) <= n {
		return strings.Join(names, ", ")
	}
	return strings.Join(names[:n], ", ") + fmt.Sprintf(" and %d more", len(names)-n)
}

// pickHunk finds the changed place that belongs to a case: in its file, best
// where the failure message points.
func pickHunk(hunks []hunk, r CaseRow, file string) (hunk, bool) {
	best, score := -1, -1
	for i, h := range hunks {
		s := 0
		if h.old != "" && h.new != "" {
			s += 2
		}
		if assertionRE.MatchString(h.old) {
			s += 2
		}
		if file != "" && (path.Base(file) == path.Base(h.path)) || strings.Contains(r.ID.Suite, path.Base(h.path)) {
			s += 4
		}
		for _, line := range strings.Split(h.old, "\n") {
			if t := strings.TrimSpace(line); len(t) > 8 && strings.Contains(r.Message, t) {
				s += 8
			}
		}
		if s > score {
			best, score = i, s
		}
	}
	if best < 0 {
		return hunk{}, false
	}
	return hunks[best], true
}

var assertionRE = regexp.MustCompile(`(?i)\bassert\w*[\s.(!]|\bexpect\w*\s*\(|\.should\b|\bshould\w*\s*\(|\brequire\.\w+\(|` +
	`\bt\.(error|errorf|fatal|fatalf|fail|failnow|is|equal|deepequal|ok|throws|same|match)\(|\bcmp\.diff\(|\bverify\s*\(|\bXCTAssert\w*\(|` +
	`\braises\(|\b(is|ok|is_deeply|like|cmp_ok)\s*\(|self\.assert\w+|\bcheck\.\w+\(`)

// assertionCounts finds test files in which fewer assertions are left.
func (e *engine) assertionCounts(ctx context.Context) {
	for _, f := range e.result.Files {
		if f.Role != RoleTest && f.Role != RoleHarness || f.Status == "added" || f.Status == "deleted" || !codeLike(f.Path) {
			continue
		}
		oldPath := f.Path
		if f.Old != "" {
			oldPath = f.Old
		}
		before, err := e.file(ctx, e.exam.Base, oldPath)
		after, err2 := e.file(ctx, e.exam.Head, f.Path)
		if err != nil || err2 != nil || before == nil || after == nil {
			continue
		}
		was, is := len(assertionRE.FindAll(before.Data, -1)), len(assertionRE.FindAll(after.Data, -1))
		if is < was {
			e.find(Finding{Code: FindFewer, Path: f.Path, NeedsAck: true,
				Text: fmt.Sprintf("%s has %d assertions where it had %d", f.Path, is, was)})
		}
	}
}

var (
	knowsRE = regexp.MustCompile(`\btesting\.Testing\(\)|PYTEST_CURRENT_TEST|JEST_WORKER_ID|VITEST(_WORKER_ID|_POOL_ID)?\b|NODE_TEST_CONTEXT|RSpec\.current_example|` +
		`sys\.modules\b.*\b(pytest|unittest)\b|NODE_ENV['"\])]*\s*===?\s*['"]test['"]|PHPUNIT_COMPOSER_INSTALL|flag\.Lookup\("test\.`)
	skipRE = regexp.MustCompile(`\bt\.Skip(f|Now)?\(|\b(it|test|describe|context|suite)\.(skip|only|todo|fixme)\b|\b(xit|xdescribe|xtest|fit|fdescribe)\s*\(|` +
		`@(pytest\.mark\.)?(skip|skipif|xfail)\b|@unittest\.(skip|expectedFailure)|@Disabled\b|@Ignore\b|#\[ignore|pytest\.skip\(|\bpending\b|markTestSkipped|\{\s*skip:\s*true`)
)

// addedLines scans what the branch adds for words that matter.
func (e *engine) addedLines(ctx context.Context) {
	role := map[string]Role{}
	var paths []string
	for _, f := range e.result.Files {
		if (f.Role == RoleCode || f.Role.tests()) && f.Status != "deleted" && codeLike(f.Path) {
			role[f.Path] = f.Role
			paths = append(paths, f.Path)
		}
	}
	if len(paths) == 0 {
		return
	}
	for _, file := range e.patch(ctx, paths) {
		for _, frag := range file.TextFragments {
			line := int(frag.NewPosition)
			for _, l := range frag.Lines {
				if l.Op != gitdiff.OpAdd {
					continue
				}
				text := clip(strings.TrimSpace(l.Line), 300)
				switch r := role[file.NewName]; {
				case r == RoleCode && knowsRE.MatchString(l.Line):
					e.find(Finding{Code: FindKnowsTests, Path: file.NewName, Line: line, New: text, NeedsAck: true,
						Text: fmt.Sprintf("%s:%d asks whether it runs in a test", file.NewName, line)})
				case r.tests() && skipRE.MatchString(l.Line):
					e.find(Finding{Code: FindSkipMark, Path: file.NewName, Line: line, New: text,
						Text: fmt.Sprintf("%s:%d can keep cases from running", file.NewName, line)})
				}
				line++
			}
		}
	}
}
