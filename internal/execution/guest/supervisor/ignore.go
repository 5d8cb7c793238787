package supervisor

import (
	"bufio"
	"io"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
)

// pattern is one line in the manner of .gitignore.
type pattern struct {
	re      *regexp.Regexp
	negate  bool
	dirOnly bool
}

const (
	maxPatternLen  = 1024
	maxIgnoreFile  = 1 << 20
	maxIgnoreLines = 5000
)

// parsePattern reads one line; ok is false for comments, blank lines and what
// cannot be understood, which then matches nothing.
func parsePattern(line string) (p pattern, ok bool) {
	line = strings.TrimRight(line, "\r\n")
	for strings.HasSuffix(line, " ") && !strings.HasSuffix(line, `\ `) {
		line = line[:len(line)-1]
	}
	if line == "" || line[0] == '#' || len(line) > maxPatternLen {
		return p, false
	}
	if line[0] == '!' {
		p.negate, line = true, line[1:]
	}
	if strings.HasSuffix(line, "/") {
		p.dirOnly, line = true, strings.TrimRight(line, "/")
	}
	anchored := strings.Contains(line, "/")
	line = strings.TrimPrefix(line, "/")
	if line == "" {
		return p, false
	}
	expr := globExpr(line)
	if !anchored {
		expr = "(?:.*/)?" + expr
	}
	re, err := regexp.Compile("^" + expr + "$")
	if err != nil {
		return p, false
	}
	p.re = re
	return p, true
}

// globExpr turns a glob into a regular expression: * and ? stay within one
// name, ** crosses directories, [...] is a class, {a,b} a choice.
func globExpr(glob string) string {
	var b strings.Builder
	braces := 0
	for i := 0; i < len(glob); i++ {
		c := glob[i]
		switch {
		case strings.HasPrefix(glob[i:], "**/") && (i == 0 || glob[i-1] == '/'):
			b.WriteString("(?:.*/)?")
			i += 2
		case strings.HasPrefix(glob[i:], "**"):
			b.WriteString(".*")
			for i+1 < len(glob) && glob[i+1] == '*' {
				i++
			}
		case c == '*':
			b.WriteString("[^/]*")
		case c == '?':
			b.WriteString("[^/]")
		case c == '[':
			class, n := classExpr(glob[i:])
			b.WriteString(class)
			i += n - 1
		case c == '{' && strings.IndexByte(glob[i:], '}') > 0:
			braces++
			b.WriteString("(?:")
		case c == '}' && braces > 0:
			braces--
			b.WriteString(")")
		case c == ',' && braces > 0:
			b.WriteString("|")
		case c == '\\' && i+1 < len(glob):
			i++
			b.WriteString(regexp.QuoteMeta(glob[i : i+1]))
		default:
			b.WriteString(quoteByte(glob, &i))
		}
	}
	b.WriteString(strings.Repeat(")", braces))
	return b.String()
}

// quoteByte quotes one character, which may take several bytes.
func quoteByte(glob string, i *int) string {
	end := *i + 1
	for end < len(glob) && glob[end]&0xc0 == 0x80 {
		end++
	}
	out := regexp.QuoteMeta(glob[*i:end])
	*i = end - 1
	return out
}

// classExpr reads "[...]" at the start of glob and says how long it is; an
// unfinished one is a plain bracket.
func classExpr(glob string) (expr string, n int) {
	end := strings.IndexByte(glob[min(2, len(glob)):], ']')
	if end < 0 {
		return `\[`, 1
	}
	end += 2
	inner := glob[1:end]
	negate := ""
	if inner[0] == '!' || inner[0] == '^' {
		negate, inner = "^/", inner[1:]
	}
	inner = strings.NewReplacer(`\`, `\\`, `[`, `\[`, `]`, `\]`, `^`, `\^`).Replace(inner)
	return "[" + negate + inner + "]", end + 1
}

// patterns apply below base, which is relative to the root of the walk and
// ends with a slash or is empty.
type patterns struct {
	base string
	list []pattern
}

// match says whether rel (relative to the root of the walk) is named, and by
// the last line that says something about it.
func (ps patterns) match(rel string, dir bool) (named, ignored bool) {
	rest, ok := strings.CutPrefix(rel, ps.base)
	if !ok {
		return false, false
	}
	for _, p := range slices.Backward(ps.list) {
		if (!p.dirOnly || dir) && p.re.MatchString(rest) {
			return true, !p.negate
		}
	}
	return false, false
}

func parsePatterns(base string, r io.Reader) patterns {
	ps := patterns{base: base}
	scanner := bufio.NewScanner(io.LimitReader(r, maxIgnoreFile))
	for scanner.Scan() && len(ps.list) < maxIgnoreLines {
		if p, ok := parsePattern(scanner.Text()); ok {
			ps.list = append(ps.list, p)
		}
	}
	return ps
}

// ignores is the chain of .gitignore files from the root of a walk down.
type ignores []patterns

func (ig ignores) with(dir, rel string) ignores {
	file, err := os.Open(path.Join(dir, ".gitignore"))
	if err != nil {
		return ig
	}
	defer file.Close()
	if info, err := file.Stat(); err != nil || !info.Mode().IsRegular() {
		return ig
	}
	base := ""
	if rel != "" {
		base = rel + "/"
	}
	ps := parsePatterns(base, file)
	if len(ps.list) == 0 {
		return ig
	}
	return append(slices.Clip(ig), ps)
}

// ignored asks the deepest file first.
func (ig ignores) ignored(rel string, dir bool) bool {
	for _, ps := range slices.Backward(ig) {
		if named, ignored := ps.match(rel, dir); named {
			return ignored
		}
	}
	return false
}

// globSet is the filter of a search: files that match a glob stay; with only
// negated globs everything else stays.
type globSet struct {
	list     []pattern
	positive bool
}

func parseGlobs(globs []string) globSet {
	var gs globSet
	for _, g := range globs {
		if p, ok := parsePattern(g); ok {
			gs.list = append(gs.list, p)
			gs.positive = gs.positive || !p.negate
		}
	}
	return gs
}

func (gs globSet) keep(rel string, dir bool) bool {
	for _, p := range slices.Backward(gs.list) {
		if (!p.dirOnly || dir) && p.re.MatchString(rel) {
			return !p.negate
		}
	}
	return dir || !gs.positive
}
