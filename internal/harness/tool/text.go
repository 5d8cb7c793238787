package tool

import (
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"
)

func oneLine(s string, n int) string {
	s = strings.Join(strings.Fields(s), " ")
	return clip(s, n)
}

// clip cuts a text to at most n bytes and a mark.
func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n], "") + "..."
}

var escapes = regexp.MustCompile(`\x1b(?:\[[0-9;?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])`)

// plain makes the output of a program readable: no terminal escapes, of lines
// drawn over each other only the last, no bytes that are not text.
func plain(b []byte) string {
	s := strings.ToValidUTF8(string(b), "\uFFFD")
	s = escapes.ReplaceAllString(s, "")
	s = strings.ReplaceAll(s, "\r\n", "\n")
	if strings.ContainsRune(s, '\r') {
		lines := strings.Split(s, "\n")
		for i, l := range lines {
			l = strings.TrimRight(l, "\r")
			if at := strings.LastIndexByte(l, '\r'); at >= 0 {
				l = l[at+1:]
			}
			lines[i] = l
		}
		s = strings.Join(lines, "\n")
	}
	return strings.Map(func(r rune) rune {
		if r < ' ' && r != '\n' && r != '\t' || r == 0x7f {
			return -1
		}
		return r
	}, s)
}

// headCut ends a head at the end of a line, tailCut starts a tail at the
// beginning of one, if that loses little.
func headCut(b []byte) []byte {
	if i := strings.LastIndexByte(string(b), '\n'); i > len(b)/2 {
		return b[:i+1]
	}
	for n := 0; n < 4 && len(b) > 0 && !utf8.Valid(b[max(0, len(b)-8):]); n++ {
		b = b[:len(b)-1]
	}
	return b
}

func tailCut(b []byte) []byte {
	if i := strings.IndexByte(string(b), '\n'); i >= 0 && i < len(b)/2 {
		return b[i+1:]
	}
	for n := 0; n < 4 && len(b) > 0 && !utf8.RuneStart(b[0]); n++ {
		b = b[1:]
	}
	return b
}

// bytesText writes a size for people.
func bytesText(n int64) string {
	switch {
	case n < 1<<10:
		return fmt.Sprintf("%d bytes", n)
	case n < 1<<20:
		return fmt.Sprintf("%.1f KiB", float64(n)/(1<<10))
	}
	return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
}

// numbered shows lines from first on with their numbers; long lines are cut.
func numbered(lines []string, first int) string {
	var b strings.Builder
	for i, l := range lines {
		if len(l) > 2000 {
			l = clip(l, 2000) + fmt.Sprintf(" [line of %d bytes cut]", len(l))
		}
		fmt.Fprintf(&b, "%6d\t%s\n", first+i, l)
	}
	return b.String()
}

// splitLines splits without a phantom line after the last newline.
func splitLines(s string) []string {
	if s == "" {
		return nil
	}
	return strings.Split(strings.TrimSuffix(s, "\n"), "\n")
}
