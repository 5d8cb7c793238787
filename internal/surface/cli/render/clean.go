package render

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Clean makes text from outside safe to print: terminal escape sequences go
// with everything they carry, as do control characters, characters that
// reorder or hide text, and bytes that are not UTF-8. Newlines and tabs stay.
// A carriage return within a line starts the line again, as a terminal would
// show it; that is how progress bars are read.
func Clean(s string) string {
	if plain(s) {
		return s
	}
	out := make([]byte, 0, len(s))
	lineStart := 0 // in out, of the line being written
	pendingCR := false
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		if pendingCR && r != '\n' && r != '\r' && r != 0x1b {
			out = out[:lineStart]
			pendingCR = false
		}
		switch {
		case r == 0x1b:
			i += n + escapeLen(s[i+n:])
			continue
		case r == 0x9b || r == 0x90 || r == 0x9d || r == 0x98 || r == 0x9e || r == 0x9f:
			i += n + c1Len(r, s[i+n:])
			continue
		case r == '\r':
			pendingCR = true
		case r == '\n':
			pendingCR = false
			out = append(out, '\n')
			lineStart = len(out)
		case r == '\t':
			out = append(out, '\t')
		case r == utf8.RuneError && n == 1:
			out = utf8.AppendRune(out, utf8.RuneError)
		case hidden(r):
		default:
			out = append(out, s[i:i+n]...)
		}
		i += n
	}
	return string(out)
}

// Line is Clean for what must stay on one line.
func Line(s string) string {
	s = Clean(s)
	if !strings.ContainsAny(s, "\n\t") {
		return s
	}
	return strings.Join(strings.Fields(s), " ")
}

func plain(s string) bool {
	for i := range len(s) {
		c := s[i]
		if c >= 0x7f || (c < 0x20 && c != '\n' && c != '\t') {
			return false
		}
	}
	return true
}

// hidden tells characters that are not shown, or change how others are.
func hidden(r rune) bool {
	switch {
	case r == 0x200d || r == 0xfe0f: // joiner and variant of emoji: harmless
		return false
	case unicode.Is(unicode.Cc, r), unicode.Is(unicode.Cf, r):
		return true
	case r >= 0xe000 && r <= 0xf8ff, r == 0x2028, r == 0x2029, r >= 0xe0000 && r <= 0xe0fff:
		return true
	}
	return false
}

// escapeLen is the length of what follows an ESC and belongs to it.
func escapeLen(s string) int {
	if s == "" {
		return 0
	}
	switch s[0] {
	case '[':
		return 1 + csiLen(s[1:])
	case ']', 'P', 'X', '^', '_':
		return 1 + stringLen(s[1:])
	case 0x1b:
		return 0
	}
	n := 0
	for n < len(s) && s[n] >= 0x20 && s[n] <= 0x2f { // intermediates, as in ESC ( B
		n++
	}
	if n < len(s) && s[n] >= 0x30 && s[n] <= 0x7e {
		n++
	}
	return n
}

func c1Len(r rune, s string) int {
	if r == 0x9b {
		return csiLen(s)
	}
	return stringLen(s)
}

func csiLen(s string) int {
	for i := range len(s) {
		switch c := s[i]; {
		case c >= 0x40 && c <= 0x7e:
			return i + 1
		case c < 0x20 || c > 0x7e:
			return i // broken: what breaks it is looked at again
		}
	}
	return len(s)
}

// stringLen is the length of an operating system command or its like, which
// ends with BEL or a string terminator; an unfinished one ends with its line.
func stringLen(s string) int {
	for i := 0; i < len(s); i++ {
		switch {
		case s[i] == 0x07:
			return i + 1
		case s[i] == 0x1b:
			if i+1 < len(s) && s[i+1] == '\\' {
				return i + 2
			}
			return i
		case s[i] == 0xc2 && i+1 < len(s) && s[i+1] == 0x9c:
			return i + 2
		case s[i] == '\n':
			return i
		}
	}
	return len(s)
}
