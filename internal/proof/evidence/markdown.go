package evidence

import (
	"fmt"
	"html"
	"strings"

	"drydock/internal/proof/check"
	"drydock/internal/proof/exam"
)

// MarkdownOptions say where links lead.
type MarkdownOptions struct {
	// Link gives the address of an artifact; nil or "" prints its name alone.
	Link func(exam.Artifact) string
	// Bundle is the address of the bundle itself.
	Bundle string
}

// maxMarkdown keeps a change's body readable and below what forges accept.
const maxMarkdown = 40 << 10

// Markdown is the summary for a change's body.
func Markdown(r exam.Result, o MarkdownOptions) string {
	var b strings.Builder
	fmt.Fprintf(&b, "### Evidence: %s\n\n", verdictLine(r))
	for _, reason := range r.Reasons {
		fmt.Fprintf(&b, "- %s\n", escape(reason))
	}
	openFindings(&b, r)
	checksTable(&b, r)
	casesList(&b, r)
	pictures(&b, r, o)
	if len(r.NotShown) > 0 {
		b.WriteString("\n**Not shown:**\n\n")
		for _, s := range r.NotShown {
			fmt.Fprintf(&b, "- %s\n", escape(s))
		}
	}
	fmt.Fprintf(&b, "\nBase %s, head %s", code(short(r.Exam.Base)), code(short(r.Exam.Head)))
	if r.Exam.Snapshot != "" {
		fmt.Fprintf(&b, ", snapshot %s", code(r.Exam.Snapshot))
	}
	b.WriteString(". Checks ran in clean rooms, with the base's recipe.")
	if o.Bundle != "" {
		fmt.Fprintf(&b, " [Bundle](%s)", o.Bundle)
	}
	b.WriteString("\n")
	out := b.String()
	if len(out) > maxMarkdown {
		out = strings.ToValidUTF8(out[:maxMarkdown], "") + "\n\n(cut; the bundle has the rest)\n"
	}
	return out
}

func verdictLine(r exam.Result) string {
	counts := map[exam.Class]int{}
	for _, row := range r.Cases {
		if row.Class == exam.ClassFixed && row.Weak {
			continue
		}
		counts[row.Class]++
	}
	line := "**" + strings.ReplaceAll(string(r.Verdict), "_", " ") + "**"
	var parts []string
	for _, c := range []struct {
		class exam.Class
		word  string
	}{
		{exam.ClassFixed, "fixed"},
		{exam.ClassKept, "kept"},
		{exam.ClassNew, "new"},
		{exam.ClassBroken, "broken"},
		{exam.ClassChanged, "changed expectations"},
		{exam.ClassGone, "gone"},
		{exam.ClassSkipped, "newly skipped"},
		{exam.ClassNewFlake, "new flakes"},
	} {
		if n := counts[c.class]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, c.word))
		}
	}
	if len(parts) > 0 {
		line += " (" + strings.Join(parts, ", ") + ")"
	}
	return line
}

func openFinding(f exam.Finding) string {
	text := "- [ ] `" + f.ID + "` " + escape(f.Text) + "\n"
	if f.Old != "" || f.New != "" {
		text += "\n" + fence(prefix("-", f.Old)+prefix("+", f.New)) + "\n"
	}
	return text
}

func openFindings(b *strings.Builder, r exam.Result) {
	list := r.Open()
	if len(list) == 0 {
		return
	}
	b.WriteString("\n**Somebody other than the prompt's author must say that this is meant:**\n\n")
	for i, f := range list {
		if i == 30 {
			fmt.Fprintf(b, "- and %d more\n", len(list)-i)
			break
		}
		b.WriteString(openFinding(f))
	}
}

func prefix(mark, text string) string {
	if text == "" {
		return ""
	}
	var b strings.Builder
	for line := range strings.Lines(text) {
		b.WriteString(mark + " " + strings.TrimRight(line, "\r\n") + "\n")
	}
	return b.String()
}

// fence makes a code block that its content cannot close.
func fence(text string) string {
	mark := "```"
	for strings.Contains(text, mark) {
		mark += "`"
	}
	return "  " + mark + "diff\n" + indent(text) + "  " + mark + "\n"
}

func indent(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		b.WriteString("  " + line)
	}
	return b.String()
}

func checksTable(b *strings.Builder, r exam.Result) {
	if len(r.Checks) == 0 {
		return
	}
	b.WriteString("\n| check | base (A) | branch (B) | branch, old tests (C) | base, new tests (D) |\n|---|---|---|---|---|\n")
	for _, c := range r.Checks {
		label := escape(c.Name)
		if c.Optional {
			label += " (optional)"
		}
		fmt.Fprintf(b, "| %s |", label)
		for _, cell := range []exam.Cell{exam.CellA, exam.CellB, exam.CellC, exam.CellD} {
			counts, ran := c.Cells[cell]
			fmt.Fprintf(b, " %s |", countsText(counts, ran))
		}
		b.WriteString("\n")
	}
}

func countsText(c check.Counts, ran bool) string {
	if !ran {
		return "not needed"
	}
	parts := []string{fmt.Sprintf("%d green", c.Passed)}
	if c.Failed > 0 {
		parts = append(parts, fmt.Sprintf("%d red", c.Failed))
	}
	if c.Skipped > 0 {
		parts = append(parts, fmt.Sprintf("%d skipped", c.Skipped))
	}
	return strings.Join(parts, ", ")
}

func casesList(b *strings.Builder, r exam.Result) {
	for _, kind := range []struct {
		class exam.Class
		title string
	}{{exam.ClassFixed, "Fixed"}, {exam.ClassBroken, "Broken"}, {exam.ClassChanged, "Changed expectations"}, {exam.ClassGone, "Gone"}, {exam.ClassSkipped, "Newly skipped"}} {
		n := 0
		for _, row := range r.Cases {
			if row.Class != kind.class || row.Class == exam.ClassFixed && row.Weak {
				continue
			}
			if n++; n == 1 {
				fmt.Fprintf(b, "\n%s:\n\n", kind.title)
			}
			if n > 20 {
				continue
			}
			fmt.Fprintf(b, "- %s", code(row.ID.String()))
			if m := strings.TrimSpace(row.Message); m != "" && row.Class != exam.ClassGone {
				first, _, _ := strings.Cut(m, "\n")
				fmt.Fprintf(b, ": %s", code(cutText(first, 200)))
			}
			b.WriteString("\n")
		}
		if n > 20 {
			fmt.Fprintf(b, "- and %d more\n", n-20)
		}
	}
}

func pictures(b *strings.Builder, r exam.Result, o MarkdownOptions) {
	if len(r.Pictures) == 0 {
		return
	}
	b.WriteString("\n| page | before | after | difference |\n|---|---|---|---|\n")
	for _, p := range r.Pictures {
		text := "no change"
		switch {
		case p.Problem != "":
			text = escape(p.Problem)
		case p.Resized != "":
			text = fmt.Sprintf("size %s, %.2f%% of the pixels", escape(p.Resized), p.Changed*100)
		case p.Changed > 0:
			text = fmt.Sprintf("%.2f%% of the pixels in %d places", p.Changed*100, len(p.Boxes))
		}
		if p.Noise > 0 {
			text += fmt.Sprintf(" (%.2f%% noise left out)", p.Noise*100)
		}
		for _, e := range p.NewErrors {
			text += "; new console error: " + code(cutText(e, 200))
		}
		for _, e := range p.NewFailures {
			text += "; new failed request: " + code(cutText(e, 200))
		}
		if p.Difference != nil {
			text = link(o, "difference", *p.Difference) + " " + text
		}
		fmt.Fprintf(b, "| %s | %s | %s | %s |\n", escape(p.Page), picture(o, p.Before, "before"), picture(o, p.After, "after"), text)
	}
}

func picture(o MarkdownOptions, a *exam.Artifact, word string) string {
	if a == nil {
		return "none"
	}
	return link(o, word, *a)
}

func link(o MarkdownOptions, word string, a exam.Artifact) string {
	if o.Link != nil {
		if to := o.Link(a); to != "" {
			return fmt.Sprintf("[%s](%s)", word, to)
		}
	}
	return word + " " + code(short(strings.TrimPrefix(a.Digest, "sha256:")))
}

// escape keeps text from a sandbox from becoming markup, a link, a mention or
// a table's border.
func escape(s string) string {
	s = html.EscapeString(strings.Join(strings.Fields(s), " "))
	return strings.NewReplacer("|", "\\|", "`", "\\`", "*", "\\*", "_", "\\_", "[", "\\[", "]", "\\]", "#", "\\#", "@", "@\u200b", "~", "\\~", "!", "\\!").Replace(s)
}

// code is a span of code that its content cannot close.
func code(s string) string {
	s = strings.ReplaceAll(strings.Join(strings.Fields(s), " "), "`", "'")
	return "`" + strings.ReplaceAll(s, "|", "\\|") + "`"
}

func cutText(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n], "") + "..."
}
