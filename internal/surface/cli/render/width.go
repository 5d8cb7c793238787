package render

import (
	"strings"
	"unicode"

	"golang.org/x/text/width"
)

// Width is how many columns clean text takes.
func Width(s string) int {
	n := 0
	for _, r := range s {
		n += runeWidth(r)
	}
	return n
}

func runeWidth(r rune) int {
	switch {
	case r < 0x20 || r == 0x7f:
		return 0
	case r < 0x300:
		return 1
	case unicode.In(r, unicode.Mn, unicode.Me, unicode.Cf):
		return 0
	}
	switch width.LookupRune(r).Kind() {
	case width.EastAsianWide, width.EastAsianFullwidth:
		return 2
	}
	return 1
}

// Cut shortens clean text to n columns, with an ellipsis.
func Cut(s string, n int) string {
	if Width(s) <= n {
		return s
	}
	if n <= 0 {
		return ""
	}
	used := 0
	for i, r := range s {
		w := runeWidth(r)
		if used+w > n-1 {
			return strings.TrimRight(s[:i], " ") + "…"
		}
		used += w
	}
	return s
}

// Pad fills clean text with spaces up to n columns.
func Pad(s string, n int) string {
	if w := Width(s); w < n {
		return s + strings.Repeat(" ", n-w)
	}
	return s
}

// Wrap breaks clean text into lines of at most n columns. Line breaks of the
// text stay, as does the indentation of each line; lines of a fenced block
// are not filled.
func Wrap(s string, n int) []string {
	n = max(n, 20)
	var out []string
	fenced := false
	for line := range strings.SplitSeq(strings.TrimRight(s, "\n \t"), "\n") {
		line = strings.ReplaceAll(strings.TrimRight(line, " \t"), "\t", "    ")
		if strings.HasPrefix(strings.TrimSpace(line), "```") {
			fenced = !fenced
			out = append(out, line)
			continue
		}
		if fenced || Width(line) <= n {
			out = append(out, line)
			continue
		}
		out = append(out, wrapLine(line, n)...)
	}
	return out
}

func wrapLine(line string, n int) []string {
	indent := line[:len(line)-len(strings.TrimLeft(line, " "))]
	if len(indent) > n/2 {
		indent = indent[:n/2]
	}
	hang := indent
	rest := strings.TrimLeft(line, " ")
	if strings.HasPrefix(rest, "- ") || strings.HasPrefix(rest, "* ") {
		hang += "  "
	}
	var out []string
	cur, used := indent, Width(indent)
	empty := true
	for word := range strings.FieldsSeq(line) {
		w := Width(word)
		if !empty && used+1+w > n {
			out = append(out, cur)
			cur, used, empty = hang, Width(hang), true
		}
		for w > n-used && empty { // a word longer than a line
			start := head(word, n-used)
			out = append(out, cur+start)
			word = word[len(start):]
			w -= Width(start)
			cur, used = hang, Width(hang)
		}
		if !empty {
			cur += " "
			used++
		}
		cur += word
		used += w
		empty = false
	}
	if !empty {
		out = append(out, cur)
	}
	return out
}

// head is the longest start of s that fits n columns, at least one rune.
func head(s string, n int) string {
	used := 0
	for i, r := range s {
		used += runeWidth(r)
		if used > n && i > 0 {
			return s[:i]
		}
	}
	return s
}
