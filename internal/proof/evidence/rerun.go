package evidence

import (
	"context"
	"fmt"
	"slices"

	"drydock/internal/core"
	"drydock/internal/proof/check"
	"drydock/internal/proof/exam"
)

// Answers of a rerun.
const (
	Same    = "same"
	Differs = "differs"
	Cannot  = "cannot"
)

// RerunReport says whether an exam comes out the same again.
type RerunReport struct {
	Answer      string       `json:"answer"`
	Reason      string       `json:"reason,omitempty"`      // of "cannot"
	Differences []string     `json:"differences,omitempty"` // of "differs": where
	Before      exam.Verdict `json:"before"`
	After       exam.Verdict `json:"after,omitempty"`
	Result      *exam.Result `json:"-"` // of the new exam
}

// Rerun runs the exam of a manifest again and compares. Whoever runs it must
// use the snapshot that the exam names: one that is gone is "cannot", with the
// error's words, and never "differs".
func Rerun(ctx context.Context, m Manifest, run func(context.Context, exam.Exam) (exam.Result, error)) (RerunReport, error) {
	out := RerunReport{Before: m.Result.Verdict}
	again, err := run(ctx, m.Result.Exam)
	if err != nil {
		if ctx.Err() != nil {
			return out, core.E("evidence.rerun", core.KindOf(ctx.Err()), context.Cause(ctx), "the exam was not finished")
		}
		out.Answer, out.Reason = Cannot, err.Error()
		return out, nil
	}
	out.After, out.Result = again.Verdict, &again
	if again.Code == exam.CodeCannot && m.Result.Code != exam.CodeCannot {
		out.Answer, out.Reason = Cannot, firstOf(again.Reasons, "the surroundings do not work")
		return out, nil
	}
	again.Acknowledged = m.Result.Acknowledged
	exam.Judge(&again)
	out.After = again.Verdict
	out.Differences = differences(m.Result, again)
	out.Answer = Same
	if len(out.Differences) > 0 {
		out.Answer = Differs
	}
	return out, nil
}

func firstOf(list []string, other string) string {
	if len(list) > 0 {
		return list[0]
	}
	return other
}

// differences compares what matters: verdict, cases, exit codes, guards.
// Times, and cases that are flaky in either exam, do not.
func differences(before, after exam.Result) []string {
	var out []string
	add := func(format string, args ...any) {
		if len(out) < 200 {
			out = append(out, fmt.Sprintf(format, args...))
		}
	}
	if before.HeadTree != after.HeadTree || before.BaseTree != after.BaseTree {
		add("the trees differ: base %s and %s, head %s and %s", short(before.BaseTree), short(after.BaseTree), short(before.HeadTree), short(after.HeadTree))
	}
	if before.Verdict != after.Verdict || before.Code != after.Code {
		add("the verdict was %s (%s) and is %s (%s)", before.Verdict, before.Code, after.Verdict, after.Code)
	}
	rows := map[check.ID]exam.CaseRow{}
	for _, r := range before.Cases {
		rows[r.ID] = r
	}
	for _, r := range after.Cases {
		old, ok := rows[r.ID]
		delete(rows, r.ID)
		switch {
		case flaky(r), ok && flaky(old):
		case !ok:
			add("case %s is there now: %s", r.ID, r.Class)
		case old.Class != r.Class:
			add("case %s was %s and is %s", r.ID, old.Class, r.Class)
		}
	}
	for _, r := range before.Cases {
		if _, left := rows[r.ID]; left && !flaky(r) {
			add("case %s was %s and is not there", r.ID, r.Class)
		}
	}
	for _, run := range before.Runs {
		if run.Try != 1 {
			continue
		}
		i := slices.IndexFunc(after.Runs, func(o exam.RunRecord) bool {
			return o.Try == 1 && o.Cell == run.Cell && o.Check == run.Check
		})
		switch {
		case i < 0:
			add("check %s did not run in cell %s", run.Check, run.Cell)
		case after.Runs[i].ExitCode != run.ExitCode:
			add("check %s in cell %s ended with %d and now with %d", run.Check, run.Cell, run.ExitCode, after.Runs[i].ExitCode)
		case !slices.Equal(after.Runs[i].Guards, run.Guards):
			add("guards of check %s in cell %s were %v and are %v", run.Check, run.Cell, run.Guards, after.Runs[i].Guards)
		}
	}
	return out
}

func flaky(r exam.CaseRow) bool {
	return r.Class == exam.ClassOldFlake || r.Class == exam.ClassNewFlake
}
