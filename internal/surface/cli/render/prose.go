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
// tables in columns, escapes and folding tags gone.
func Markdown(st Style, text string, width int) []string {
	text = summary.ReplaceAllString(tags.ReplaceAllString(text, ""), "$1:")
	var out []string
	var table [][]string
	fenced := false
	for _, block := range append(splitLines(Reflow(joinQuotes(text))), "") {
		if strings.HasPrefix(block, "|") {
			table = append(table, cells(block))
			continue
		}
		out = append(out, columns(st, table, width)...)
		table = nil
		if strings.HasPrefix(strings.TrimSpace(block), "```") {
			fenced = !fenced
		}
		switch {
		case fenced:
			out = append(out, block)
		case strings.HasPrefix(block, "#"):
			out = append(out, st.Bold(unescape(strings.ReplaceAll(strings.TrimLeft(block, "# "), "**", ""))))
		case strings.HasPrefix(block, ">"):
			for _, l := range Wrap(unescape(strings.TrimPrefix(strings.TrimPrefix(block, ">"), " ")), width-2) {
				out = append(out, st.Dim(st.either("▏ ", "> ")+l))
			}
		case block == "":
			if len(out) > 0 && out[len(out)-1] != "" {
				out = append(out, "")
			}
		default:
			out = append(out, Wrap(unescape(block), width)...)
		}
	}
	for len(out) > 0 && out[len(out)-1] == "" {
		out = out[:len(out)-1]
	}
	return out
}

var (
	escaped = regexp.MustCompile("`[^`]*`|\\\\[!-/:-@\\[-`{-~]|&(?:lt|gt|amp|quot|#39);")
	rule    = regexp.MustCompile(`^:?-+:?$`)
	named   = map[string]string{"&lt;": "<", "&gt;": ">", "&amp;": "&", "&quot;": `"`, "&#39;": "'"}
)

// unescape shows what Markdown would show: escapes mean nothing to a reader.
// Code is left as it is.
func unescape(text string) string {
	return escaped.ReplaceAllStringFunc(text, func(s string) string {
		switch s[0] {
		case '\\':
			return s[1:]
		case '&':
			return named[s]
		}
		return s
	})
}

// cells splits a row of a table.
func cells(line string) []string {
	line = strings.ReplaceAll(strings.Trim(strings.TrimSpace(line), "|"), `\|`, "\x00")
	var out []string
	for cell := range strings.SplitSeq(line, "|") {
		out = append(out, unescape(strings.ReplaceAll(strings.TrimSpace(cell), "\x00", "|")))
	}
	return out
}

// columns prints a table; the last column is cut where the rows are too long.
func columns(st Style, rows [][]string, width int) []string {
	if len(rows) == 0 {
		return nil
	}
	t := Table{Head: rows[0], Flex: len(rows[0]) - 1, Width: width, Style: st}
	for _, row := range rows[1:] {
		if rule.MatchString(row[0]) {
			continue
		}
		row = append(row, make([]string, max(0, len(t.Head)-len(row)))...)
		t.Row(row[:len(t.Head)]...)
	}
	var b strings.Builder
	_ = t.Write(&b) // to memory
	return strings.Split(strings.TrimRight(b.String(), "\n"), "\n")
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
