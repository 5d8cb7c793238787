package codechange

import (
	"fmt"
	"strings"

	"drydock/internal/core"
	"drydock/internal/execution/environment/recipe"
)

// Briefs are what the platform tells an agent beside the person's task. They
// state facts of this session; how to work stands in the agent's own prompt.

func implementBrief(s core.Session, r recipe.Recipe) string {
	var b strings.Builder
	fmt.Fprintf(&b, "The repository is in /workspace, on commit %.12s of %s.", s.BaseCommit, s.Base)
	if s.Head != "" {
		fmt.Fprintf(&b, " This session's own work so far (branch %s, commit %.12s) is checked out; build on it.", s.Branch, s.Head)
	}
	b.WriteString("\nDo not commit, push or open anything: when you finish, the platform runs the checks, commits under the author's name and delivers the change.\n")
	if len(r.Services) > 0 {
		b.WriteString("\nServices that are running:\n")
		for _, s := range r.Services {
			at := ""
			if s.Port > 0 {
				at = fmt.Sprintf(" on port %d", s.Port)
			}
			fmt.Fprintf(&b, "- %s%s (%s)\n", s.Name, at, oneLine(s.Run))
		}
	}
	if len(r.Checks) > 0 {
		b.WriteString("\nChecks (run from /workspace):\n")
		for _, c := range r.Checks {
			fmt.Fprintf(&b, "- %s: %s\n", c.Name, oneLine(c.Run))
		}
	}
	if len(r.Pages) > 0 {
		b.WriteString("\nPages that reviewers will see before and after:\n")
		for _, p := range r.Pages {
			fmt.Fprintf(&b, "- %s: %s\n", p.Name, p.URL)
		}
	}
	b.WriteString("\nThe work is judged in clean sandboxes: what was green must stay green, and at least one test must fail without your change and pass with it. Changing or removing existing expectations needs a person's consent, so do it only where the task asks for it.")
	return b.String()
}

func repairBrief(red string) string {
	return "The checks were run on your work and some are red. Mend the cause, not the test. If a failure has nothing to do with your work (it was red before), leave it and say so.\n\n" + red
}

func mendBrief(findings []Finding) string {
	var b strings.Builder
	b.WriteString("These must not be in the change. Take them out and keep the rest of your work:\n")
	for _, f := range findings {
		fmt.Fprintf(&b, "- %s\n", f)
	}
	return b.String()
}

func strengthenBrief(why string) string {
	return "Your work was run in clean sandboxes. It does not prove itself yet: " + why +
		"\nAdd or extend a test so that it fails on the code as it was before your change, by an assertion, and passes now. Keep the change itself as it is unless the test shows it to be wrong. If no such test is possible, finish and say why."
}

func reworkBrief(failures string) string {
	return "Your work was run in clean sandboxes and broke what was green before. Mend it.\n\n" + failures
}

func oneLine(s string) string {
	s = strings.Join(strings.Fields(s), " ")
	if len(s) > 300 {
		return s[:300] + " ..."
	}
	return s
}
