package review

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"slices"
	"strconv"
	"strings"

	"drydock/internal/core"
	"drydock/internal/proof/check"
	"drydock/internal/proof/exam"
)

// Bounds of the table of checks.
const (
	maxCases   = 500     // of one check in one answer
	maxLocated = 100     // cases of one check that are looked for in its log
	maxLog     = 8 << 20 // bytes of a log that is looked through
	maxMessage = 2000
)

// Classes of cases, as people read them.
const (
	classKept  = "kept"
	classStill = "still_skipped"
)

func classOf(c exam.Class) string {
	switch c {
	case exam.ClassRedBoth:
		return "still_red"
	case exam.ClassSkipped:
		return "skipped"
	case exam.ClassSkipBoth:
		return classStill
	case exam.ClassOldFlake, exam.ClassNewFlake:
		return "flaky"
	case exam.ClassChanged:
		return "changed"
	}
	return string(c)
}

// rank orders classes: what asks for attention first.
func rank(class string) int {
	return slices.Index([]string{"broken", "flaky", "changed", "gone", "skipped", "still_red", "fixed", "new", classStill, classKept}, class)
}

// checks is the table of checks. A case that was kept is only counted, unless
// all are asked for.
func (s *Service) checks(ctx context.Context, evidence core.EvidenceID, r *exam.Result, all bool) []core.PageCheck {
	byCheck := casesOf(r)
	out := []core.PageCheck{}
	for _, row := range r.Checks {
		c := core.PageCheck{Check: row.Name, Optional: row.Optional, Cells: cellsOf(r, row.Name), Counts: map[string]int{}, Cases: []core.PageCase{}}
		for _, one := range byCheck[row.Name] {
			c.Counts[one.Class]++
			if one.Class == classKept {
				c.Kept++
			}
			if (one.Class == classKept || one.Class == classStill) && !all {
				continue
			}
			if len(c.Cases) == maxCases {
				c.More++
				continue
			}
			c.Cases = append(c.Cases, one)
		}
		s.locate(ctx, evidence, c.Cells, c.Cases)
		out = append(out, c)
	}
	return out
}

// casesOf groups cases by their check, in the order in which they are read.
func casesOf(r *exam.Result) map[string][]core.PageCase {
	out := map[string][]core.PageCase{}
	for _, c := range r.Cases {
		sum := sha256.Sum256([]byte(c.ID.Check + "\x00" + c.ID.Suite + "\x00" + c.ID.Class + "\x00" + c.ID.Name))
		one := core.PageCase{
			ID: hex.EncodeToString(sum[:8]), Name: c.ID.Name, Suite: c.ID.Suite, Class: classOf(c.Class), Cells: map[string]string{}, Weak: c.Weak,
			Message: clip(c.Message, maxMessage), Note: c.Note,
		}
		if c.ID.Class != "" {
			one.Name = c.ID.Class + " > " + c.ID.Name
		}
		for cell, tries := range c.Cells {
			one.Cells[string(cell)] = colour(tries)
		}
		out[c.ID.Check] = append(out[c.ID.Check], one)
	}
	for _, list := range out {
		slices.SortStableFunc(list, func(a, b core.PageCase) int {
			return cmp.Or(cmp.Compare(rank(a.Class), rank(b.Class)), cmp.Compare(a.Suite, b.Suite), cmp.Compare(a.Name, b.Name))
		})
	}
	return out
}

func colour(tries []check.Status) string {
	red, green, skip := false, false, false
	for _, t := range tries {
		switch {
		case t.Red():
			red = true
		case t == check.Pass:
			green = true
		case t == check.Skip || t == check.Todo:
			skip = true
		}
	}
	switch {
	case red && green:
		return "mixed"
	case red:
		return "red"
	case green:
		return "green"
	case skip:
		return "skip"
	}
	return "-"
}

// cellsOf are the first runs of a check.
func cellsOf(r *exam.Result, name string) map[string]core.PageCell {
	out := map[string]core.PageCell{}
	for _, run := range r.Runs {
		if _, have := out[string(run.Cell)]; run.Check != name || run.Try > 1 || have {
			continue
		}
		cell := core.PageCell{
			Result: "green", Passed: run.Counts.Passed, Failed: run.Counts.Failed, Skipped: run.Counts.Skipped, Duration: run.Duration,
			ExitCode: run.ExitCode, Cached: run.Cached,
		}
		switch {
		case run.Died != "":
			cell.Result = "died"
		case run.TimedOut:
			cell.Result = "timed_out"
		case run.ExitCode != 0 || run.Counts.Failed > 0:
			cell.Result = "red"
		}
		for _, a := range run.Artifacts {
			if strings.HasSuffix(a.Name, "/log.txt") {
				cell.Log = &core.PageFile{Digest: a.Digest, Size: a.Size}
				break
			}
		}
		out[string(run.Cell)] = cell
	}
	return out
}

// locate finds the line of the log at which a red case speaks. A log that
// cannot be read has no lines; the page shows it all the same.
func (s *Service) locate(ctx context.Context, evidence core.EvidenceID, cells map[string]core.PageCell, cases []core.PageCase) {
	logs := map[string][]byte{}
	done := 0
	for i := range cases {
		c := &cases[i]
		cell := ""
		for _, name := range []string{"B", "C", "A", "D"} {
			if c.Cells[name] == "red" || c.Cells[name] == "mixed" {
				cell = name
				break
			}
		}
		log := cells[cell].Log
		if cell == "" || log == nil {
			continue
		}
		if done++; done > maxLocated {
			return
		}
		text, read := logs[log.Digest]
		if !read {
			text = s.log(ctx, evidence, log.Digest)
			logs[log.Digest] = text
		}
		if line := lineOf(text, c.Message, c.Name); line > 0 {
			c.At = &core.PageAt{Digest: log.Digest, Line: line}
		}
	}
}

func (s *Service) log(ctx context.Context, evidence core.EvidenceID, digest string) []byte {
	f, _, err := s.d.Proofs.File(ctx, evidence, digest)
	if err != nil {
		s.d.Log.Debug("log of a check cannot be read", "evidence", evidence, "digest", digest, "err", err)
		return nil
	}
	defer func() { _ = f.Close() }()
	text, err := io.ReadAll(io.LimitReader(f, maxLog))
	if err != nil {
		return nil
	}
	return text
}

// lineOf is where a log says what a case says, or names it; 0 is nowhere.
func lineOf(text []byte, message, name string) int {
	if i := strings.LastIndex(name, " > "); i >= 0 {
		name = name[i+3:]
	}
	for _, words := range []string{firstLine(message), name} {
		if len(words) < 3 {
			continue
		}
		if before, _, ok := bytes.Cut(text, []byte(words)); ok {
			return bytes.Count(before, []byte("\n")) + 1
		}
	}
	return 0
}

func firstLine(s string) string {
	for line := range strings.Lines(s) {
		if line = strings.TrimSpace(line); len(line) >= 8 {
			return line
		}
	}
	return ""
}

// Cases is one page of a check's cases, kept ones too. The cursor is a number
// of cases to pass over: evidence does not change.
func (s *Service) Cases(ctx context.Context, id core.ChangeID, name, class string, page core.Page) (core.PageCases, error) {
	const op = "review.cases"
	c, err := s.d.Changes.Get(ctx, string(id))
	if err != nil {
		return core.PageCases{}, err
	}
	r, err := s.result(ctx, c.Evidence)
	if err != nil {
		return core.PageCases{}, err
	}
	if r == nil {
		return core.PageCases{}, core.E(op, core.NotFound, nil, "change %s#%d has no evidence", c.Repository, c.Number)
	}
	if !slices.ContainsFunc(r.Checks, func(row exam.CheckRow) bool { return row.Name == name }) {
		return core.PageCases{}, core.E(op, core.NotFound, nil, "the evidence of change %s#%d has no check %q", c.Repository, c.Number, clip(name, 100))
	}
	skip := 0
	if page.Cursor != "" {
		evidence, at, _ := strings.Cut(page.Cursor, "+")
		n, ok := number(at)
		if !ok || evidence != string(c.Evidence) {
			return core.PageCases{}, core.E(op, core.Invalid, nil, "cursor is not one of these cases").WithHint("begin again without one: the evidence may be another by now")
		}
		skip = n
	}
	list := slices.DeleteFunc(casesOf(r)[name], func(one core.PageCase) bool { return class != "" && one.Class != class })
	if skip > len(list) {
		skip = len(list)
	}
	end := min(len(list), skip+page.Size())
	out := core.PageCases{Items: list[skip:end]}
	s.locate(ctx, c.Evidence, cellsOf(r, name), out.Items)
	if end < len(list) {
		out.Next = string(c.Evidence) + "+" + strconv.Itoa(end)
	}
	return out, nil
}
