package tool

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

type op uint8

const (
	opUpdate op = iota
	opAdd
	opDelete
)

// fileChange is what a patch does to one file.
type fileChange struct {
	path  string
	to    string // moved to
	op    op
	hunks []hunk
}

// hunk is one place. Line counts are not trusted: models miscount. The first
// line number and the anchor are hints where the lines alone do not decide.
type hunk struct {
	hint   int // line in the old file, 0 when unknown
	anchor string
	lines  []hunkLine
}

type hunkLine struct {
	kind byte // ' ', '+', '-'
	text string
}

var hunkHead = regexp.MustCompile(`^@@ -(\d+)(?:,\d+)? \+\d+(?:,\d+)? @@`)

const (
	maxPatch     = 4 << 20
	maxFileParts = 500
)

// parsePatch reads a unified diff (with or without git's headers) or the
// "*** Begin Patch" form.
func parsePatch(s string) ([]fileChange, error) {
	if len(s) > maxPatch {
		return nil, fmt.Errorf("it is larger than %s", bytesText(maxPatch))
	}
	p := patchParser{lines: splitLines(strings.ReplaceAll(s, "\r\n", "\n"))}
	for p.at < len(p.lines) {
		var err error
		switch line := p.lines[p.at]; {
		case strings.HasPrefix(line, "*** "):
			err = p.envelope(line)
		case strings.HasPrefix(line, "--- ") && strings.HasPrefix(p.peek(1), "+++ "):
			err = p.unified(line, p.peek(1))
		case strings.HasPrefix(line, "diff --git "):
			p.gitHeader()
		case strings.HasPrefix(line, "@@"):
			err = fmt.Errorf("line %d: a hunk comes before any file name", p.at+1)
		default:
			p.at++
		}
		if err != nil {
			return nil, err
		}
		if len(p.out) > maxFileParts {
			return nil, fmt.Errorf("it changes more than %d files", maxFileParts)
		}
	}
	if len(p.out) == 0 {
		return nil, errors.New(`no file was found in it; begin a file with "--- a/PATH" and "+++ b/PATH", or with "*** Update File: PATH"`)
	}
	for _, c := range p.out {
		if c.op == opUpdate && len(c.hunks) == 0 && c.to == "" {
			return nil, fmt.Errorf("%s has no hunk", c.path)
		}
	}
	return p.out, nil
}

type patchParser struct {
	lines []string
	at    int
	out   []fileChange
}

func (p *patchParser) peek(n int) string {
	if p.at+n < len(p.lines) {
		return p.lines[p.at+n]
	}
	return ""
}

func (p *patchParser) envelope(line string) error {
	p.at++
	verb, path, ok := strings.Cut(strings.TrimPrefix(line, "*** "), ": ")
	path = strings.TrimSpace(path)
	if !ok {
		return nil // Begin Patch, End Patch, End of File
	}
	if path == "" {
		return fmt.Errorf("line %d: a path is missing", p.at)
	}
	c := fileChange{path: path}
	switch verb {
	case "Add File":
		c.op = opAdd
		h := hunk{}
		for p.at < len(p.lines) && !strings.HasPrefix(p.lines[p.at], "*** ") {
			text, ok := strings.CutPrefix(p.lines[p.at], "+")
			if !ok && p.lines[p.at] != "" {
				return fmt.Errorf("line %d: every line of an added file begins with +", p.at+1)
			}
			h.lines = append(h.lines, hunkLine{'+', text})
			p.at++
		}
		c.hunks = []hunk{h}
	case "Delete File":
		c.op = opDelete
	case "Update File":
		if to, ok := strings.CutPrefix(p.peek(0), "*** Move to: "); ok {
			c.to = strings.TrimSpace(to)
			p.at++
		}
		var err error
		if c.hunks, err = p.hunks(true); err != nil {
			return err
		}
	default:
		return fmt.Errorf("line %d: %q is not known; there are Add File, Update File, Delete File", p.at, verb)
	}
	p.out = append(p.out, c)
	return nil
}

func (p *patchParser) unified(from, to string) error {
	p.at += 2
	oldPath, newPath := headerPath(from), headerPath(to)
	if strings.HasPrefix(oldPath, "a/") && (strings.HasPrefix(newPath, "b/") || newPath == "/dev/null") {
		oldPath = oldPath[2:]
	}
	newPath = strings.TrimPrefix(newPath, "b/")
	c := fileChange{path: oldPath}
	switch {
	case oldPath == "/dev/null":
		c.path, c.op = newPath, opAdd
	case newPath == "/dev/null":
		c.op = opDelete
	case oldPath != newPath:
		c.to = newPath
	}
	if c.path == "" || c.path == "/dev/null" {
		return fmt.Errorf("line %d: a path is missing", p.at-1)
	}
	var err error
	if c.hunks, err = p.hunks(false); err != nil {
		return err
	}
	p.out = append(p.out, c)
	return nil
}

func headerPath(line string) string {
	path, _, _ := strings.Cut(line[4:], "\t")
	return strings.TrimSpace(path)
}

// gitHeader reads what git writes for a file without hunks: a pure rename, or
// an empty file that is added or removed.
func (p *patchParser) gitHeader() {
	head := p.lines[p.at]
	p.at++
	var from, to string
	var added, deleted bool
	for ; p.at < len(p.lines); p.at++ {
		line := p.lines[p.at]
		if strings.HasPrefix(line, "--- ") || strings.HasPrefix(line, "diff --git ") || strings.HasPrefix(line, "@@") || strings.HasPrefix(line, "*** ") {
			break
		}
		if v, ok := strings.CutPrefix(line, "rename from "); ok {
			from = v
		}
		if v, ok := strings.CutPrefix(line, "rename to "); ok {
			to = v
		}
		added = added || strings.HasPrefix(line, "new file mode")
		deleted = deleted || strings.HasPrefix(line, "deleted file mode")
	}
	if strings.HasPrefix(p.peek(0), "--- ") {
		return // the hunks tell the rest
	}
	_, name, ok := strings.Cut(head, " b/")
	switch {
	case from != "" && to != "":
		p.out = append(p.out, fileChange{path: from, to: to})
	case ok && added:
		p.out = append(p.out, fileChange{path: name, op: opAdd})
	case ok && deleted:
		p.out = append(p.out, fileChange{path: name, op: opDelete})
	}
}

// hunks reads up to the next file. In the envelope form a hunk may begin
// without @@.
func (p *patchParser) hunks(envelope bool) ([]hunk, error) {
	var out []hunk
	for p.at < len(p.lines) && !p.fileAhead() {
		line := p.lines[p.at]
		h := hunk{}
		switch {
		case strings.HasPrefix(line, "@@"):
			if m := hunkHead.FindStringSubmatch(line); m != nil {
				h.hint, _ = strconv.Atoi(m[1])
			} else {
				h.anchor = strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(line[2:]), "@@"))
			}
			p.at++
		case !envelope || line == "":
			p.at++
			continue
		}
		if err := p.body(&h); err != nil {
			return nil, err
		}
		if len(h.lines) > 0 {
			out = append(out, h)
		}
	}
	return out, nil
}

func (p *patchParser) body(h *hunk) error {
	blank := 0 // empty lines at the end may be no part of the hunk
	for p.at < len(p.lines) && !p.fileAhead() && !strings.HasPrefix(p.lines[p.at], "@@") {
		line := p.lines[p.at]
		switch {
		case line == "":
			h.lines = append(h.lines, hunkLine{' ', ""})
			blank++
		case line[0] == ' ' || line[0] == '+' || line[0] == '-':
			h.lines = append(h.lines, hunkLine{line[0], line[1:]})
			blank = 0
		case line[0] == '\\': // "\ No newline at end of file"
		case strings.HasPrefix(line, "```"):
		default:
			return fmt.Errorf("line %d: %q begins with none of space, +, -", p.at+1, clip(line, 80))
		}
		p.at++
	}
	h.lines = h.lines[:len(h.lines)-blank]
	return nil
}

func (p *patchParser) fileAhead() bool {
	line := p.lines[p.at]
	return strings.HasPrefix(line, "*** ") || strings.HasPrefix(line, "diff --git ") ||
		strings.HasPrefix(line, "--- ") && strings.HasPrefix(p.peek(1), "+++ ")
}
