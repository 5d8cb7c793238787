package exam

import (
	"slices"
	"time"

	"drydock/internal/proof/check"
)

// state of a case in one cell, over all tries.
type state uint8

const (
	none  state = iota // not seen
	green              // every try passed
	red                // every try was red
	mixed              // some passed, some were red
	skip               // seen, and never run
)

// try is one result of one case.
type try struct {
	status  check.Status
	fault   check.Fault
	message string
	file    string
	took    time.Duration
}

// row gathers one case from all cells.
type row struct {
	id     check.ID
	tries  map[Cell][]try
	group  bool
	ranIn  map[Cell]int // how often the check itself ran there
	format string
}

func (r *row) state(c Cell) state {
	var greens, reds, skips int
	for _, t := range r.tries[c] {
		switch {
		case t.status.Red():
			reds++
		case t.status == check.Pass:
			greens++
		default:
			skips++
		}
	}
	switch {
	case reds > 0 && greens > 0:
		return mixed
	case reds > 0:
		return red
	case greens > 0:
		return green
	case skips > 0:
		return skip
	}
	return none
}

func (r *row) last(c Cell) try {
	list := r.tries[c]
	for _, t := range slices.Backward(list) {
		if t.status.Red() {
			return t
		}
	}
	if len(list) > 0 {
		return list[len(list)-1]
	}
	return try{}
}

// fastest is the shortest time a case took in a cell, 0 if nobody told.
func (r *row) fastest(c Cell) time.Duration {
	var best time.Duration
	for i, t := range r.tries[c] {
		if i == 0 || t.took < best {
			best = t.took
		}
	}
	return best
}

// oldCell is the cell that tells what the old code does with the case as it
// is now: D where the case ran there, else A.
func (r *row) oldCell() Cell {
	if len(r.tries[CellD]) > 0 {
		return CellD
	}
	return CellA
}

// oldRed reports whether the old code fails the case.
func (r *row) oldRed() bool { return r.state(r.oldCell()) == red }

// oldRedStrong asks for more: by an assertion, or by a crash of the code
// under test, in every try.
func (r *row) oldRedStrong() bool {
	if !r.oldRed() {
		return false
	}
	for _, t := range r.tries[r.oldCell()] {
		if t.status != check.Fail && t.fault != check.FaultCrash {
			return false
		}
	}
	return true
}

// synthetic rows stand for a command or a package; they are reported only
// when it fails, so their absence where the command ran is green.
func synthetic(id check.ID) bool {
	return id.Name == nameRun || id.Name == "(package)" || id.Name == check.NameFile
}

// rows joins the reports of all runs by identity.
func (e *engine) rows() []*row {
	index := map[check.ID]*row{}
	var all []*row
	suites := map[Cell]map[string]bool{} // seen, by check and suite
	for _, cell := range []Cell{CellA, CellB, CellC, CellD} {
		suites[cell] = map[string]bool{}
		for _, c := range e.exam.Checks {
			for _, run := range e.runs[cell][c.Name] {
				for _, one := range run.Report.Cases {
					suites[cell][one.ID.Check+"\x00"+one.ID.Suite] = true
					r := index[one.ID]
					if r == nil {
						r = &row{id: one.ID, tries: map[Cell][]try{}, ranIn: map[Cell]int{}, format: run.Report.Format}
						index[one.ID] = r
						all = append(all, r)
					}
					r.group = r.group || one.Group
					r.tries[cell] = append(r.tries[cell], expand(one)...)
				}
			}
		}
	}
	for _, r := range all {
		for _, cell := range []Cell{CellA, CellB, CellC, CellD} {
			r.ranIn[cell] = len(e.runs[cell][r.id.Check])
			if !synthetic(r.id) || r.ranIn[cell] == 0 {
				continue
			}
			if r.id.Suite != "" && !suites[cell][r.id.Check+"\x00"+r.id.Suite] {
				continue
			}
			for len(r.tries[cell]) < r.ranIn[cell] {
				r.tries[cell] = append(r.tries[cell], try{status: check.Pass})
			}
		}
	}
	slices.SortFunc(all, func(a, b *row) int { return a.id.Compare(b.id) })
	return all
}

// expand makes tries of a case. A case that is red only because of a case
// below it says nothing itself.
func expand(c check.Case) []try {
	if c.Derived {
		return nil
	}
	one := try{status: c.Status, fault: c.Fault, message: c.Message, file: c.File, took: c.Duration}
	if !c.Mixed() {
		return []try{one}
	}
	out := make([]try, len(c.Tries))
	for i, s := range c.Tries {
		out[i] = one
		out[i].status = s
		if !s.Red() {
			out[i] = try{status: s}
		}
	}
	return out
}

// compare fills the case table.
func (e *engine) compare() {
	all := e.rows()
	deadSuites := map[string]string{} // packages that did not even build at B
	for _, r := range all {
		if synthetic(r.id) && r.state(CellB) == red {
			deadSuites[r.id.Check+"\x00"+r.id.Suite] = r.id.Name
		}
	}
	var rows []CaseRow
	for _, r := range all {
		if c, ok := e.classify(r, deadSuites); ok {
			rows = append(rows, c)
		}
	}
	e.result.Cases = e.moved(rows)
	e.sumUp()
}

// classify says what became of one case. ok is false for rows that say
// nothing.
func (e *engine) classify(r *row, deadSuites map[string]string) (CaseRow, bool) {
	out := CaseRow{ID: r.id, Cells: map[Cell][]check.Status{}}
	for cell, tries := range r.tries {
		for _, t := range tries {
			out.Cells[cell] = append(out.Cells[cell], t.status)
		}
	}
	a, b, c := r.state(CellA), r.state(CellB), r.state(CellC)
	explain := func(cell Cell) {
		t := r.last(cell)
		out.Fault, out.Message = t.fault, t.message
	}
	switch {
	case a == none && b == none && c == none:
		return out, false
	case a == mixed:
		out.Class = ClassOldFlake
		explain(CellA)
	case b == mixed:
		out.Class = ClassNewFlake
		explain(CellB)
	case b == red && a == red:
		out.Class = ClassRedBoth
		explain(CellB)
	case b == red:
		out.Class = ClassBroken
		explain(CellB)
		if a == none {
			out.Note = "a new case, red on the branch itself"
		}
	case b == none:
		return e.absent(r, out, deadSuites)
	case b == skip && (a == green || a == red):
		out.Class = ClassSkipped
	case b == skip:
		out.Class = ClassSkipBoth
	default:
		e.greenNow(r, &out)
		if out.Class == ClassKept && synthetic(r.id) {
			return out, false
		}
	}
	return out, true
}

// absent judges a case that the branch does not show.
func (e *engine) absent(r *row, out CaseRow, deadSuites map[string]string) (CaseRow, bool) {
	a, c := r.state(CellA), r.state(CellC)
	if r.ranIn[CellB] == 0 || len(r.tries[CellB]) > 0 {
		return out, false
	}
	for _, suite := range []string{r.id.Suite, ""} {
		if _, dead := deadSuites[r.id.Check+"\x00"+suite]; dead && a == green {
			out.Class, out.Note = ClassBroken, "it did not run: its package or the whole command failed"
			return out, !synthetic(r.id)
		}
	}
	switch {
	case a == none && c == red:
		out.Class = ClassChanged
		out.Fault, out.Message = r.last(CellC).fault, r.last(CellC).message
		out.Note = "the base's tests do not fit the new code"
		return out, true
	case a == none || synthetic(r.id):
		return out, false
	case e.blindB(r.id.Check):
		return out, false // the report is not to be believed; a guard says so
	}
	out.Class = ClassGone
	return out, true
}

// blindB reports whether the branch's report of a check is missing or empty.
func (e *engine) blindB(name string) bool {
	for _, run := range e.runs[CellB][name] {
		if !run.guarded(GuardMissing, GuardZero, GuardStale, GuardPartial) {
			return false
		}
	}
	return true
}

// greenNow judges a case that every try of the branch passed.
func (e *engine) greenNow(r *row, out *CaseRow) {
	a, c, d := r.state(CellA), r.state(CellC), r.state(CellD)
	enough := len(r.tries[CellB]) >= 3 && len(r.tries[r.oldCell()]) >= 2
	out.Noticed = r.oldRedStrong() && enough
	old := r.last(r.oldCell())
	switch {
	case c == red && (a == green || a == none && synthetic(r.id)) && len(r.tries[CellC]) >= 2:
		out.Class = ClassChanged
		out.Fault, out.Message = r.last(CellC).fault, r.last(CellC).message
		if synthetic(r.id) {
			out.Note = "the base's tests do not fit the new code"
		}
		return
	case r.oldRedStrong() && enough:
		out.Class, out.Fault, out.Message = ClassFixed, old.fault, old.message
		return
	case a == red:
		out.Class, out.Weak, out.Fault, out.Message = ClassFixed, true, old.fault, old.message
		if r.oldRedStrong() {
			out.Note = "seen too seldom to rule out luck"
		} else if d == mixed {
			out.Note = "flaky on the old code"
		}
		return
	case a == none, a == skip:
		out.Class = ClassNew
	default:
		out.Class = ClassKept
	}
	switch {
	case d == red:
		out.Weak, out.Fault, out.Message = true, old.fault, old.message
	case d == mixed:
		out.Note = "flaky on the old code: not accepted as fixed"
	case d == none && out.Class == ClassNew && r.ranIn[CellD] > 0:
		out.Weak = true
		out.Note = "it does not run on the old code"
	}
}

// moved joins a case that is gone with an equal one in another file.
func (e *engine) moved(rows []CaseRow) []CaseRow {
	type key struct{ check, class, name string }
	gone, fresh := map[key][]int{}, map[key][]int{}
	for i, r := range rows {
		k := key{r.ID.Check, r.ID.Class, r.ID.Name}
		switch {
		case r.Class == ClassGone && len(r.Cells[CellC]) > 0 && !slices.ContainsFunc(r.Cells[CellC], check.Status.Red):
			gone[k] = append(gone[k], i)
		case r.Class == ClassNew:
			fresh[k] = append(fresh[k], i)
		}
	}
	drop := map[int]bool{}
	for k, from := range gone {
		if to := fresh[k]; len(from) == 1 && len(to) == 1 {
			old := rows[from[0]]
			moved := &rows[to[0]]
			moved.Class, moved.Moved, moved.Weak, moved.Note = ClassKept, old.ID.String(), false, "moved"
			moved.Cells[CellA], moved.Cells[CellC] = old.Cells[CellA], old.Cells[CellC]
			drop[from[0]] = true
		}
	}
	out := []CaseRow{}
	for i, r := range rows {
		if !drop[i] {
			out = append(out, r)
		}
	}
	return out
}

// sumUp fills the check table.
func (e *engine) sumUp() {
	for _, c := range e.exam.Checks {
		line := CheckRow{Name: c.Name, Optional: c.Optional, Cells: map[Cell]check.Counts{}, Classes: map[Class]int{}}
		for _, cell := range []Cell{CellA, CellB, CellC, CellD} {
			if runs := e.runs[cell][c.Name]; len(runs) > 0 {
				line.Cells[cell] = runs[0].Record.Counts
			}
		}
		for _, r := range e.result.Cases {
			if r.ID.Check == c.Name {
				line.Classes[r.Class]++
			}
		}
		e.result.Checks = append(e.result.Checks, line)
	}
}

// blindC reports whether a guard leaves cell C without an answer. Old tests
// that do not build against the new code are one: a changed expectation.
func blindC(code string, run *checkRun) bool {
	return code == GuardPartial || code == GuardMissing && run.Record.ExitCode == 0
}

// guards turns what the branch's runs showed into guards, once per code.
func (e *engine) guards() {
	for _, c := range e.exam.Checks {
		atBase := map[string]bool{}
		for _, run := range e.runs[CellA][c.Name] {
			for _, g := range run.Record.Guards {
				atBase[g] = true
			}
		}
		for _, cell := range []Cell{CellB, CellC} {
			seen := map[string]bool{}
			for _, run := range e.runs[cell][c.Name] {
				for _, code := range run.Record.Guards {
					if seen[code] || cell == CellC && !blindC(code, run) {
						continue
					}
					seen[code] = true
					e.result.Guards = append(e.result.Guards, Guard{
						Code: code, Check: c.Name, Cell: cell, Text: guardText(code, run), Base: atBase[code],
					})
				}
			}
		}
		e.inventory(c)
	}
	for _, f := range e.result.Faults {
		if f.Cell == CellC {
			e.result.Guards = append(e.result.Guards, Guard{Code: GuardCell, Check: f.Check, Cell: CellC, Text: f.Text})
		}
	}
}
