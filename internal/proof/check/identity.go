package check

import (
	"path"
	"regexp"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// What differs from run to run in names that were generated from values. Only
// forms that nobody writes as a fixed parameter by hand are replaced; where
// two names of one report become equal by it, collector numbers them.
var placeholders = []struct {
	hint string // the pattern cannot match without it: a cheap test first
	re   *regexp.Regexp
	with string
}{
	{"-", regexp.MustCompile(`(?i)\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b`), "<uuid>"},
	{":", regexp.MustCompile(`\b\d{4}-\d\d-\d\d[T_ ]\d\d:\d\d(:\d\d([.,]\d+)?)?(Z|[+-]\d\d:?\d\d)?`), "<time>"},
	{"1", regexp.MustCompile(`\b1[5-9]\d{11}\b`), "<time>"},
	{"/", regexp.MustCompile(`(/private)?(/tmp|/var/tmp|/var/folders|/dev/shm)/[^\s"'()\[\]{},;:]+`), "<tmp>"},
	{"x", regexp.MustCompile(`(?i)\b0x[0-9a-f]{6,16}\b`), "<addr>"},
	{"@", regexp.MustCompile(`([A-Za-z_$])@[0-9a-f]{6,8}\b`), "$1@<addr>"},
	{":", regexp.MustCompile(`(localhost|127\.0\.0\.1|0\.0\.0\.0|\[::1?\]):(3[3-9]\d{3}|[45]\d{4}|6[0-5]\d{3})\b`), "$1:<port>"},
}

// Normalise makes the stable form of a reported name: one Unicode form,
// whitespace folded, control characters out, changing parts replaced.
func Normalise(name string) string {
	name = fold(cut(name, maxName))
	for _, p := range placeholders {
		if strings.Contains(name, p.hint) {
			name = p.re.ReplaceAllString(name, p.with)
		}
	}
	return name
}

// fold is the part of Normalise that loses nothing anyone can see.
func fold(name string) string {
	if plain(name) {
		return name
	}
	name = strings.ToValidUTF8(name, "\uFFFD")
	var b strings.Builder
	space := false
	for _, r := range name {
		switch {
		case unicode.IsSpace(r):
			space = true
			continue
		case unicode.IsControl(r) || unicode.Is(unicode.Cf, r):
			continue
		}
		if space && b.Len() > 0 {
			b.WriteByte(' ')
		}
		space = false
		b.WriteRune(r)
	}
	return norm.NFC.String(b.String()) // last: what was dropped may have kept marks apart
}

func plain(s string) bool {
	if s == "" {
		return true
	}
	if s[0] == ' ' || s[len(s)-1] == ' ' || strings.Contains(s, "  ") {
		return false
	}
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}

// relative strips the repository's directory from a path in a report.
func relative(root, p string) string {
	p = strings.TrimPrefix(p, "file://")
	if root != "" {
		root = strings.TrimSuffix(root, "/")
		if rest, ok := strings.CutPrefix(p, root+"/"); ok {
			p = rest
		}
	}
	if p == "" {
		return ""
	}
	return path.Clean(strings.ReplaceAll(p, "\\", "/"))
}

// cut shortens s to at most n bytes at a rune's border and says so.
func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + "..."
}

// cutMiddle keeps the head and the tail of a message: the first line names
// the fault, the last ones often hold the values.
func cutMiddle(s string, n int) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	if len(s) <= n {
		return s
	}
	head, tail := n*2/3, n/3
	for head > 0 && !utf8.RuneStart(s[head]) {
		head--
	}
	start := len(s) - tail
	for start < len(s) && !utf8.RuneStart(s[start]) {
		start++
	}
	return s[:head] + "\n[... " + strconv.Itoa(start-head) + " bytes left out ...]\n" + s[start:]
}
