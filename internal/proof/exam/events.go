package exam

import (
	"fmt"
	"strings"

	"drydock/internal/core"
)

// Count is how many cases of required checks are of a class; fixed ones only
// if they prove something.
func (r *Result) Count(class Class) int {
	n := 0
	for _, row := range summarise(r).rows[class] {
		if class != ClassFixed || row.Noticed {
			n++
		}
	}
	return n
}

// VerdictData is the payload of the event that tells the verdict.
func (r *Result) VerdictData(id core.EvidenceID) core.VerdictData {
	return core.VerdictData{
		Verdict: string(r.Verdict), Reasons: r.Reasons, NotShown: r.NotShown, Evidence: id,
		Fixed: r.Count(ClassFixed), Kept: r.Count(ClassKept), Broken: r.Count(ClassBroken),
	}
}

// CheckData is the payload of the event that tells one run of a check.
func (r RunRecord) CheckData() core.CheckData {
	d := core.CheckData{
		Check: r.Check, Cell: string(r.Cell), Result: "passed", Passed: r.Counts.Passed, Failed: r.Counts.Failed,
		Skipped: r.Counts.Skipped, Duration: r.Duration,
	}
	var detail []string
	if r.Try > 1 {
		detail = append(detail, fmt.Sprintf("try %d", r.Try))
	}
	switch {
	case r.Died != "":
		d.Result = "died"
		detail = append(detail, r.Died)
	case r.TimedOut:
		d.Result = "timed_out"
	case r.Counts.Failed > 0 || r.ExitCode != 0:
		d.Result = "failed"
		detail = append(detail, fmt.Sprintf("exit %d", r.ExitCode))
	}
	if len(r.Guards) > 0 {
		detail = append(detail, strings.Join(r.Guards, ", "))
	}
	if r.Cached {
		detail = append(detail, "remembered")
	}
	d.Detail = strings.Join(detail, "; ")
	return d
}
