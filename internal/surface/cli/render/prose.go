package render

import (
	"regexp"
	"strings"
)

// structural begins a line whose break means something in Markdown.
var structural = regexp.MustCompile("^(\\s|[-*+] |\\d+[.)] |#|>|\\||```|---)")

// wrapped is how long a line is at least when the next one may belong to it:
// shorter ones were broken on purpose.
const wrapped = 50

// Reflow joins the lines of a paragraph of clean text, so that text broken at
// somebody else's width can be broken at ours.
func Reflow(text string) string {
	var out []string
	fenced, open := false, false
	for line := range strings.SplitSeq(text, "\n") {
		if strings.HasPrefix(strings.TrimSpace(line), "```") {
			fenced = !fenced
			out, open = append(out, line), false
			continue
		}
		plainLine := !fenced && strings.TrimSpace(line) != "" && !structural.MatchString(line)
		if open && plainLine {
			out[len(out)-1] = strings.TrimRight(out[len(out)-1], " ") + " " + line
		} else {
			out = append(out, line)
		}
		open = !fenced && strings.TrimSpace(line) != "" && !strings.HasPrefix(line, "#") && !strings.HasPrefix(line, "|") &&
			!strings.HasPrefix(line, ">") && Width(line) >= wrapped
	}
	return strings.Join(out, "\n")
}

var (
	tags    = regexp.MustCompile(`</?(details|p|br|sub|sup)\s*/?>`)
	summary = regexp.MustCompile(`<summary>(.*?)</summary>`)
)

// Markdown shows clean Markdown on a terminal: headings bold, quotes marked,
// tables left as they are, folding tags gone.
func Markdown(st Style, text string, width int) []string {
	text = summary.ReplaceAllString(tags.ReplaceAllString(text, ""), "$1:")
	var out []string
	for _, block := range splitLines(Reflow(joinQuotes(text))) {
		switch {
		case strings.HasPrefix(block, "|"):
			out = append(out, block)
		case strings.HasPrefix(block, "#"):
			out = append(out, st.Bold(strings.ReplaceAll(strings.TrimLeft(block, "# "), "**", "")))
		case strings.HasPrefix(block, ">"):
			for _, l := range Wrap(strings.TrimPrefix(strings.TrimPrefix(block, ">"), " "), width-2) {
				out = append(out, st.Dim(st.either("▏ ", "> ")+l))
			}
		case block == "":
			if len(out) > 0 && out[len(out)-1] != "" {
				out = append(out, "")
			}
		default:
			out = append(out, Wrap(block, width)...)
		}
	}
	for len(out) > 0 && out[len(out)-1] == "" {
		out = out[:len(out)-1]
	}
	return out
}

// joinQuotes reflows what stands in quotes.
func joinQuotes(text string) string {
	var out []string
	for line := range strings.SplitSeq(text, "\n") {
		if n := len(out); n > 0 && strings.HasPrefix(line, "> ") && strings.HasPrefix(out[n-1], "> ") && Width(out[n-1]) >= wrapped && !structural.MatchString(line[2:]) {
			out[n-1] += " " + line[2:]
			continue
		}
		out = append(out, line)
	}
	return strings.Join(out, "\n")
}
