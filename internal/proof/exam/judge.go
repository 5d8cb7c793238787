package exam

import (
	"fmt"
	"slices"
	"strings"

	"drydock/internal/proof/check"
)

// Codes say which line of the verdict table decided.
const (
	CodeNothing      = "nothing_to_prove"
	CodeCannot       = "could_not_be_judged"
	CodeBroken       = "broken"
	CodeNoChecks     = "no_checks"
	CodeEvidence     = "evidence_invalid"
	CodeNewFlake     = "new_flake"
	CodeNoTestFails  = "no_test_fails_without_this_change"
	CodeUnconfirmed  = "not_acknowledged"
	CodeProven       = "proven"
	CodeNothingShown = "no_case_ran"
)

// summary is what the verdict table asks about.
type summary struct {
	required  map[string]bool
	rows      map[Class][]CaseRow // of required checks
	noticed   []CaseRow
	weak      []CaseRow
	behaviour bool
	tests     bool
	passed    int
}

func summarise(r *Result) summary {
	s := summary{required: map[string]bool{}, rows: map[Class][]CaseRow{}}
	for _, c := range r.Exam.Checks {
		s.required[c.Name] = !c.Optional
	}
	for _, row := range r.Cases {
		if !s.required[row.ID.Check] {
			continue
		}
		s.rows[row.Class] = append(s.rows[row.Class], row)
		if row.Noticed {
			s.noticed = append(s.noticed, row)
		} else if row.Weak && row.Class != ClassRedBoth && (row.Class == ClassNew || row.Class == ClassFixed || row.ID.Name == row.ID.Check) {
			s.weak = append(s.weak, row)
		}
		if slices.Contains(row.Cells[CellB], check.Pass) {
			s.passed++
		}
	}
	for _, f := range r.Files {
		switch f.Role {
		case RoleCode, RoleManifest, RoleLock, RoleScript, RoleVendor:
			s.behaviour = true
		case RoleTest, RoleTestData, RoleHarness:
			s.tests = true
		}
	}
	return s
}

// Judge sets verdict, code, reasons and "not shown" from the facts in r. The
// first line of the table that fits decides; docs/proof.md has the table.
func Judge(r *Result) {
	s := summarise(r)
	r.Tier = ""
	r.Verdict, r.Code, r.Reasons = decide(r, s)
	if r.Verdict == Broken || r.Verdict == Unproven {
		r.Reasons = withEdits(r)
	}
	r.NotShown = notShown(r, s)
}

// withEdits names edits to how checks run even where something else decided:
// an edit to the recipe before anything else.
func withEdits(r *Result) []string {
	var before, after []string
	for _, f := range r.Open() {
		told := slices.ContainsFunc(r.Reasons, func(s string) bool { return strings.Contains(s, f.Text) })
		switch {
		case told:
		case f.Code == FindRecipe:
			before = append(before, "recipe edited: "+f.Text)
		case f.Code == FindHarness || f.Code == FindScript:
			after = append(after, "also: "+f.Text)
		}
	}
	return slices.Concat(before, r.Reasons, cutReasons(after))
}

type rule func(*Result, summary) (Verdict, string, []string)

func decide(r *Result, s summary) (Verdict, string, []string) {
	for _, try := range []rule{nothing, cannot, broken, noChecks, evidence, newFlake, noTestFails, unconfirmed} {
		if v, code, reasons := try(r, s); v != "" {
			return v, code, reasons
		}
	}
	return Proven, CodeProven, shown(r, s)
}

func nothing(r *Result, _ summary) (Verdict, string, []string) {
	why := ""
	switch {
	case r.Exam.Head == "":
		why = "there is no commit"
	case r.Exam.Head == r.Exam.Base:
		why = "the branch has no commit of its own"
	case len(r.Files) == 0:
		why = "the branch's commits change no file"
	default:
		return "", "", nil
	}
	r.Tier = TierNothing
	return HandedOver, CodeNothing, []string{"nothing to prove: " + why}
}

// cannot judges the surroundings. Services that start on the base and not on
// the branch are the branch's fault.
func cannot(r *Result, s summary) (Verdict, string, []string) {
	at := func(cell Cell, tier string) bool {
		return slices.ContainsFunc(r.Faults, func(f RoomFault) bool { return f.Cell == cell && f.Tier == tier })
	}
	var reasons []string
	for _, f := range r.Faults {
		if f.Cell != CellA && f.Cell != CellB || f.Check != "" && !s.required[f.Check] {
			continue
		}
		if f.Tier == TierServices && f.Cell == CellB && !at(CellA, TierServices) {
			continue
		}
		if r.Tier == "" {
			r.Tier = f.Tier
		}
		where := "on the branch"
		if f.Cell == CellA {
			where = "on the base"
		}
		if text := fmt.Sprintf("could not be judged: check %s %s: %s", f.Check, where, f.Text); !slices.Contains(reasons, text) {
			reasons = append(reasons, text)
		}
	}
	if len(reasons) > 0 {
		return HandedOver, CodeCannot, reasons
	}
	for _, c := range r.Checks {
		if c.Optional || c.Cells[CellA].Passed > 0 || c.Cells[CellB].Passed > 0 || c.Cells[CellA].Failed == 0 || c.Cells[CellB].Failed == 0 {
			continue
		}
		if only := singleRow(r, c.Name); only != nil && only.Fault != check.FaultExit && only.Fault != check.FaultTimeout && only.ID.Name != nameRun {
			continue // a single honest case that is red before and after
		}
		if r.Tier == "" {
			r.Tier = TierEnvironment
		}
		reasons = append(reasons, fmt.Sprintf("could not be judged: nothing of check %s passes, neither on the base nor on the branch%s", c.Name, firstMessage(r, c.Name)))
	}
	if len(reasons) > 0 {
		return HandedOver, CodeCannot, reasons
	}
	return "", "", nil
}

func singleRow(r *Result, name string) *CaseRow {
	var found *CaseRow
	for i := range r.Cases {
		if r.Cases[i].ID.Check == name {
			if found != nil {
				return nil
			}
			found = &r.Cases[i]
		}
	}
	return found
}

func firstMessage(r *Result, name string) string {
	for _, row := range r.Cases {
		if row.ID.Check == name && row.Message != "" {
			return ": " + firstLine(row.Message)
		}
	}
	return ""
}

func firstLine(s string) string {
	for line := range strings.Lines(s) {
		if t := strings.TrimSpace(line); t != "" {
			return clip(t, 300)
		}
	}
	return ""
}

func broken(r *Result, s summary) (Verdict, string, []string) {
	var reasons []string
	for _, row := range s.rows[ClassBroken] {
		a, b := row.Cells[CellA], row.Cells[CellB]
		text := fmt.Sprintf("broken: %s is green on the base (%s) and red on the branch (%s)", name(row), greens(a), reds(b))
		if len(a) == 0 {
			text = fmt.Sprintf("broken: %s is a new case and red on the branch (%s)", name(row), reds(b))
		} else if len(b) == 0 {
			text = fmt.Sprintf("broken: %s is green on the base and does not run on the branch", name(row))
		}
		if m := firstLine(row.Message); m != "" {
			text += ": " + m
		}
		reasons = append(reasons, text)
	}
	for _, f := range r.Faults {
		if f.Cell == CellB && f.Tier == TierServices {
			reasons = appendNew(reasons, "broken: on the branch "+f.Text)
		}
	}
	for _, p := range r.Pictures {
		if p.Broken {
			reasons = append(reasons, fmt.Sprintf("broken: page %s loads on the base and not on the branch: %s", p.Page, p.Problem))
		}
	}
	if len(reasons) == 0 {
		return "", "", nil
	}
	return Broken, CodeBroken, cutReasons(reasons)
}

func noChecks(r *Result, _ summary) (Verdict, string, []string) {
	for _, c := range r.Exam.Checks {
		if !c.Optional {
			return "", "", nil
		}
	}
	return Unproven, CodeNoChecks, []string{"unproven: the base's recipe lists no check that must pass"}
}

func evidence(r *Result, s summary) (Verdict, string, []string) {
	var reasons []string
	for _, g := range r.Guards {
		if !g.hard() || !s.required[g.Check] {
			continue
		}
		text := fmt.Sprintf("unproven: check %s in cell %s: %s [%s]", g.Check, g.Cell, g.Text, g.Code)
		if g.Base {
			text += ", on the base too"
		}
		reasons = append(reasons, text)
	}
	if r.Coverage != nil && r.Coverage.Empty {
		reasons = append(reasons, "unproven: cases passed, yet the coverage profile shows that no line of the code ran ["+GuardCoverage+"]")
	}
	if len(reasons) == 0 {
		return "", "", nil
	}
	return Unproven, CodeEvidence, cutReasons(reasons)
}

func newFlake(_ *Result, s summary) (Verdict, string, []string) {
	var reasons []string
	for _, row := range s.rows[ClassNewFlake] {
		reasons = append(reasons, fmt.Sprintf("unproven: new flake: this change may have made it: %s was green %s and red %s on the branch, never red on the base (%s)",
			name(row), times(count(row.Cells[CellB], check.Pass)), times(countRed(row.Cells[CellB])), greens(row.Cells[CellA])))
	}
	if len(reasons) == 0 {
		return "", "", nil
	}
	return Unproven, CodeNewFlake, cutReasons(reasons)
}

func noTestFails(r *Result, s summary) (Verdict, string, []string) {
	unproven := func(more ...string) (Verdict, string, []string) {
		return Unproven, CodeNoTestFails, append([]string{"unproven: no test fails without this change"}, more...)
	}
	if s.passed == 0 && s.behaviour {
		return Unproven, CodeNothingShown, []string{"unproven: no case ran green"}
	}
	weak := ""
	if n := len(s.weak); n > 0 {
		weak = fmt.Sprintf("%s red on the old code only because %s there, or by a fault of the test itself: %s",
			plural(n, "case is", "cases are"), pick(n, "it does not build or run", "they do not build or run"), names(s.weak, 5))
	}
	passing := passingOnOld(s)
	for _, f := range r.Faults {
		if f.Cell == CellD {
			passing = "the new tests could not be run on the old code: " + f.Text
			break
		}
	}
	switch r.Exam.Kind {
	case KindRefactor:
		return "", "", nil
	case KindFix:
		if len(s.noticed) == 0 {
			return unproven(nonEmpty(weak, passing)...)
		}
	default:
		if s.behaviour && len(s.noticed) == 0 && len(s.weak) == 0 {
			return unproven(nonEmpty(passing)...)
		}
	}
	return "", "", nil
}

// passingOnOld names new cases that the old code passes as well.
func passingOnOld(s summary) string {
	var list []CaseRow
	for _, row := range s.rows[ClassNew] {
		if !row.Weak && !row.Noticed && slices.Contains(row.Cells[CellD], check.Pass) {
			list = append(list, row)
		}
	}
	if len(list) == 0 {
		return ""
	}
	return fmt.Sprintf("%s on the old code too: %s", plural(len(list), "new case passes", "new cases pass"), names(list, 5))
}

func unconfirmed(r *Result, _ summary) (Verdict, string, []string) {
	var reasons []string
	for _, f := range r.Open() {
		reasons = append(reasons, "unproven until a named person acknowledges it: "+f.Text)
	}
	if len(reasons) == 0 {
		return "", "", nil
	}
	return Unproven, CodeUnconfirmed, cutReasons(reasons)
}

// shown says what a proof rests on.
func shown(r *Result, s summary) []string {
	var out []string
	fixed := s.rows[ClassFixed]
	for i, row := range fixed {
		if row.Weak {
			continue
		}
		if i == 20 {
			out = append(out, fmt.Sprintf("fixed: %d more", len(fixed)-20))
			break
		}
		old := row.Cells[CellD]
		if len(old) == 0 {
			old = row.Cells[CellA]
		}
		out = append(out, fmt.Sprintf("fixed: %s (red on the base %s, green on the branch %s)", name(row), reds(old), greens(row.Cells[CellB])))
	}
	for _, row := range s.rows[ClassChanged] {
		if row.Noticed {
			out = append(out, fmt.Sprintf("acknowledged: %s expects something else now (red on the base, green on the branch)", name(row)))
		}
	}
	if n := len(s.rows[ClassNew]); n > 0 {
		out = append(out, plural(n, "new case is green", "new cases are green"))
	}
	if n := len(s.rows[ClassKept]); n > 0 {
		out = append(out, plural(n, "case kept", "cases kept"))
	}
	switch {
	case !s.behaviour && !s.tests:
		out = append([]string{fmt.Sprintf("nothing that runs was changed (%s)", plural(len(r.Files), "file", "files"))}, out...)
	case !s.behaviour:
		out = append([]string{"only tests were changed"}, out...)
	case r.Exam.Kind == KindRefactor:
		out = append([]string{"what was green stayed green"}, out...)
	}
	for _, a := range r.Acknowledged {
		out = append(out, fmt.Sprintf("acknowledged by %s: %s", a.By, plural(len(a.Findings), "finding", "findings")))
	}
	return out
}

// notShown says what the verdict does not speak of.
func notShown(r *Result, s summary) []string {
	var out []string
	if len(s.weak) > 0 && len(s.noticed) == 0 && r.Verdict == Proven {
		out = append(out, fmt.Sprintf("that the old code was wrong: %s what the old code does not have: %s",
			plural(len(s.weak), "new case needs", "new cases need"), names(s.weak, 5)))
	}
	if !s.behaviour && s.tests && r.Verdict == Proven {
		out = append(out, "that the changed tests can fail: the code they examine is the same")
	}
	if r.Coverage != nil && s.behaviour {
		out = append(out, r.Coverage.notShown()...)
	}
	add := func(class Class, one, many string) {
		if rows := s.rows[class]; len(rows) > 0 {
			out = append(out, plural(len(rows), one, many)+": "+names(rows, 10))
		}
	}
	add(ClassSkipBoth, "case is skipped", "cases are skipped")
	add(ClassRedBoth, "case is red before and after", "cases are red before and after")
	add(ClassOldFlake, "case is flaky on the base and does not count", "cases are flaky on the base and do not count")
	for _, c := range r.Checks {
		if c.Optional && (c.Cells[CellB].Failed > 0 || c.Classes[ClassBroken] > 0) {
			out = append(out, fmt.Sprintf("check %s is optional and red (%s)", c.Name, plural(c.Cells[CellB].Failed, "case", "cases")))
		}
	}
	for _, run := range r.Runs {
		if run.Cell == CellB && run.Try == 1 && run.Format == check.FormatExit && run.ExitCode == 0 {
			out = append(out, fmt.Sprintf("single cases of check %s: its exit code is all it tells", run.Check))
		}
	}
	var unseen []string
	for _, f := range r.Files {
		if f.Role == RoleCI || f.Role == RoleDoc {
			unseen = append(unseen, f.Path)
		}
	}
	if len(unseen) > 0 {
		out = append(out, fmt.Sprintf("%s no check runs: %s", plural(len(unseen), "changed file", "changed files"), list(unseen, 10)))
	}
	for _, p := range r.Pictures {
		if p.Problem != "" && !p.Broken {
			out = append(out, fmt.Sprintf("page %s: %s", p.Page, p.Problem))
		}
	}
	for _, f := range r.Findings {
		if f.Code == FindFast {
			out = append(out, f.Text)
		}
	}
	return append(out, r.Notes...)
}

func name(row CaseRow) string {
	if row.ID.Name == nameRun || row.ID.Name == row.ID.Check {
		return "check " + row.ID.Check
	}
	return row.ID.String()
}

func names(rows []CaseRow, n int) string {
	all := make([]string, len(rows))
	for i, r := range rows {
		all[i] = name(r)
	}
	return list(all, n)
}

func count(tries []check.Status, s check.Status) int {
	n := 0
	for _, t := range tries {
		if t == s {
			n++
		}
	}
	return n
}

func countRed(tries []check.Status) int {
	n := 0
	for _, t := range tries {
		if t.Red() {
			n++
		}
	}
	return n
}

func greens(tries []check.Status) string {
	return fmt.Sprintf("%d/%d", count(tries, check.Pass), len(tries))
}
func reds(tries []check.Status) string { return fmt.Sprintf("%d/%d", countRed(tries), len(tries)) }

func times(n int) string {
	if n == 1 {
		return "once"
	}
	return fmt.Sprintf("%d times", n)
}

func plural(n int, one, many string) string { return fmt.Sprintf("%d %s", n, pick(n, one, many)) }

func pick(n int, one, many string) string {
	if n == 1 {
		return one
	}
	return many
}

func nonEmpty(list ...string) []string {
	return slices.DeleteFunc(list, func(s string) bool { return s == "" })
}

func appendNew(list []string, s string) []string {
	if slices.Contains(list, s) {
		return list
	}
	return append(list, s)
}

func cutReasons(list []string) []string {
	const most = 30
	if len(list) <= most {
		return list
	}
	return append(list[:most:most], fmt.Sprintf("and %d more", len(list)-most))
}
