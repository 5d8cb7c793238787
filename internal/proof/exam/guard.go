package exam

import (
	"fmt"
	"strings"
)

// guardText explains a guard in a sentence.
func guardText(code string, run *checkRun) string {
	r := run.Record
	detail := ""
	if len(r.Faults) > 0 {
		detail = ": " + strings.Join(r.Faults[:min(3, len(r.Faults))], "; ")
	}
	switch code {
	case GuardExit:
		return fmt.Sprintf("the command ended with %d although none of its %d cases is red", r.ExitCode, r.Counts.Passed+r.Counts.Skipped)
	case GuardZero:
		return "nothing ran: the report has no case in it" + detail
	case GuardStale:
		return "a report was older than the run" + detail
	case GuardPartial:
		return fmt.Sprintf("the report is cut off or damaged; %d cases could be read%s", len(run.Report.Cases), detail)
	case GuardMissing:
		return fmt.Sprintf("the command ended with %d and left no report where the recipe says it is%s", r.ExitCode, detail)
	}
	return code + detail
}

// inventory compares how many cases there are. It decides nothing: the cases
// themselves are listed as gone or skipped, and those need a person.
func (e *engine) inventory(c CheckSpec) {
	a, b := e.runs[CellA][c.Name], e.runs[CellB][c.Name]
	if len(a) == 0 || len(b) == 0 || e.blindB(c.Name) {
		return
	}
	before, now := a[0].Record.Counts, b[0].Record.Counts
	all := func(r *checkRun) int {
		return r.Record.Counts.Passed + r.Record.Counts.Failed + r.Record.Counts.Skipped
	}
	if all(b[0]) < all(a[0]) {
		e.result.Guards = append(e.result.Guards, Guard{
			Code: GuardInventory, Check: c.Name, Cell: CellB,
			Text: fmt.Sprintf("%d cases on the base, %d on the branch", all(a[0]), all(b[0])),
		})
	}
	if now.Skipped > before.Skipped {
		e.result.Guards = append(e.result.Guards, Guard{
			Code: GuardSkips, Check: c.Name, Cell: CellB,
			Text: fmt.Sprintf("%d cases skipped on the base, %d on the branch", before.Skipped, now.Skipped),
		})
	}
}

// hard guards make a report worthless; the others only point at findings.
func (g Guard) hard() bool { return g.Code != GuardInventory && g.Code != GuardSkips }
