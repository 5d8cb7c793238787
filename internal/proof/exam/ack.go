package exam

import (
	"slices"
	"strings"

	"drydock/internal/core"
)

// Open lists the findings that still need a person's word.
func (r *Result) Open() []Finding {
	var out []Finding
	for _, f := range r.Findings {
		if f.NeedsAck && !r.acknowledged(f.ID) {
			out = append(out, f)
		}
	}
	return out
}

func (r *Result) acknowledged(id string) bool {
	return slices.ContainsFunc(r.Acknowledged, func(a Acknowledgement) bool {
		return a.Head == r.Exam.Head && slices.Contains(a.Findings, id)
	})
}

// Acknowledge enters a person's word and judges again. An author of a prompt
// that the change came from cannot speak for it, a word for another head is
// void, and findings are named one by one.
func (r *Result) Acknowledge(a Acknowledgement) error {
	const op = "exam.acknowledge"
	switch {
	case strings.TrimSpace(a.By) == "":
		return core.E(op, core.Unauthorized, nil, "an acknowledgement needs a name")
	case slices.ContainsFunc(r.Exam.PromptAuthors, func(p string) bool { return strings.EqualFold(p, a.By) }):
		return core.E(op, core.Denied, nil, "%s wrote a prompt of this change and cannot acknowledge its findings", a.By).
			WithHint("ask somebody else to look at them")
	case a.Head != r.Exam.Head:
		return core.E(op, core.Conflict, nil, "the acknowledgement is for commit %s and the evidence for %s", a.Head, r.Exam.Head).
			WithHint("look at the newest evidence")
	case len(a.Findings) == 0:
		return core.E(op, core.Invalid, nil, "the acknowledgement names no finding")
	}
	for _, id := range a.Findings {
		if !slices.ContainsFunc(r.Findings, func(f Finding) bool { return f.ID == id }) {
			return core.E(op, core.NotFound, nil, "finding %q is not in this evidence", clip(id, 40))
		}
	}
	r.Acknowledged = append(r.Acknowledged, a)
	Judge(r)
	return nil
}
