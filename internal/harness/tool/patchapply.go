package tool

import (
	"fmt"
	"strings"
)

// applyHunks applies hunks in order, each after the one before it.
func applyHunks(content string, hunks []hunk) (string, error) {
	crlf := strings.Contains(content, "\r\n")
	if crlf {
		content = strings.ReplaceAll(content, "\r\n", "\n")
	}
	ends := content == "" || strings.HasSuffix(content, "\n")
	lines := splitLines(content)
	var out []string
	done := 0 // lines already copied
	for i, h := range hunks {
		at, err := h.place(lines, done, len(hunks) > 1, i)
		if err != nil {
			return "", err
		}
		out = append(out, lines[done:at]...)
		done = at
		for _, l := range h.lines {
			switch l.kind {
			case ' ':
				out = append(out, lines[done]) // the file's own white space stays
				done++
			case '-':
				done++
			case '+':
				out = append(out, l.text)
			}
		}
	}
	out = append(out, lines[done:]...)
	if len(out) == 0 {
		return "", nil
	}
	result := strings.Join(out, "\n")
	if ends {
		result += "\n"
	}
	if crlf {
		result = toCRLF(result)
	}
	return result, nil
}

func (h hunk) old() []string {
	var out []string
	for _, l := range h.lines {
		if l.kind != '+' {
			out = append(out, l.text)
		}
	}
	return out
}

// maxCompared bounds the lines compared for one hunk: files and patches come
// from outside.
const maxCompared = 1 << 26

func matches(have, want []string, same func(a, b string) bool, budget *int) bool {
	if len(want) > len(have) {
		return false
	}
	*budget--
	for i := range want {
		if i > 0 {
			*budget--
		}
		if !same(have[i], want[i]) {
			return false
		}
	}
	return true
}

// place finds where a hunk belongs, at or after line from.
func (h hunk) place(lines []string, from int, several bool, n int) (int, error) {
	what := "the hunk"
	if several {
		what = fmt.Sprintf("hunk %d", n+1)
	}
	start, anchored := from, false
	if h.anchor != "" {
		if i := findAnchor(lines, from, h.anchor); i >= 0 {
			start, anchored = i, true
		}
	}
	old := h.old()
	if len(old) == 0 {
		switch {
		case h.hint > 0 || len(lines) == 0:
			return min(max(h.hint, from), len(lines)), nil
		case anchored:
			return start + 1, nil
		}
		return len(lines), nil
	}
	budget := maxCompared
	for _, same := range []func(a, b string) bool{
		func(a, b string) bool { return a == b },
		func(a, b string) bool { return strings.TrimRight(a, " \t") == strings.TrimRight(b, " \t") },
	} {
		var found []int
		for i := start; i+len(old) <= len(lines); i++ {
			if matches(lines[i:], old, same, &budget) {
				found = append(found, i)
			}
			if budget < 0 {
				return 0, fmt.Errorf("%s cannot be placed in so large a file; change it with run", what)
			}
		}
		switch {
		case len(found) == 0:
			continue
		case len(found) == 1 || anchored:
			return found[0], nil
		case h.hint > 0:
			return nearest(found, h.hint-1), nil
		}
		return 0, fmt.Errorf("%s fits in %d places (first at lines %d and %d); give more lines around it", what, len(found), found[0]+1, found[1]+1)
	}
	hint := nearMiss(strings.Join(lines[from:], "\n"), strings.Join(old, "\n"))
	if from > 0 {
		hint += fmt.Sprintf(" (lines counted from %d, where the hunk before it ends)", from+1)
	}
	return 0, fmt.Errorf("%s does not fit.%s", what, hint)
}

func findAnchor(lines []string, from int, anchor string) int {
	for i := from; i < len(lines); i++ {
		if strings.Contains(lines[i], anchor) {
			return i
		}
	}
	return -1
}

func nearest(found []int, at int) int {
	best := found[0]
	for _, f := range found {
		if dist(f, at) < dist(best, at) {
			best = f
		}
	}
	return best
}

func dist(a, b int) int { return max(a-b, b-a) }
