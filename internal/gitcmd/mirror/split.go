package mirror

import (
	"bytes"
	"strconv"
	"strings"

	"drydock/internal/core"
)

// splitter reads the output of diff-tree -p over numbered files as it comes and
// hands on one patch after the other. It goes by the counts in the hunks'
// headers: a removed line "-- x" looks like a header and is none.
type splitter struct {
	limit int64
	files int
	each  func(i int, p FilePatch) (more bool, err error)

	stopped bool
	err     error

	cur      int // -1: no file yet
	last     int
	patch    FilePatch
	lineAt   int // where the line that is being written begins in patch.Text
	old, new int // lines that the hunk still has
	inLine   bool
	header   []byte // a header line that has not ended
}

func newSplitter(limit int64, files int, each func(int, FilePatch) (bool, error)) *splitter {
	return &splitter{limit: limit, files: files, each: each, cur: -1, last: -1}
}

const maxHeader = 64 << 10

func (s *splitter) Write(p []byte) (int, error) {
	whole := len(p)
	for len(p) > 0 {
		if s.stopped || s.err != nil {
			return 0, errCut
		}
		if s.inLine || len(s.header) == 0 && s.startLine(p[0]) {
			p = s.body(p)
			continue
		}
		if s.err != nil {
			return 0, errCut
		}
		i := bytes.IndexByte(p, '\n')
		part := p
		if i >= 0 {
			part = p[:i+1]
		}
		if len(s.header)+len(part) > maxHeader {
			s.fail("a header that does not end")
			return 0, errCut
		}
		s.header = append(s.header, part...)
		p = p[len(part):]
		if i >= 0 {
			line := string(s.header[:len(s.header)-1])
			s.header = s.header[:0]
			s.head(line)
		}
	}
	if s.stopped || s.err != nil {
		return 0, errCut
	}
	return whole, nil
}

// startLine says whether a line that begins with c belongs to a hunk.
func (s *splitter) startLine(c byte) bool {
	if s.old == 0 && s.new == 0 {
		if c == '\\' && s.cur >= 0 && len(s.patch.Text) > 0 { // no newline at the end of the file
			s.inLine, s.lineAt = true, len(s.patch.Text)
			return true
		}
		return false
	}
	switch c {
	case ' ':
		s.old--
		s.new--
	case '-':
		s.old--
	case '+':
		s.new--
	case '\\':
	default:
		s.fail("a hunk with a line of no kind")
		return false
	}
	if s.old < 0 || s.new < 0 {
		s.fail("a hunk with more lines than it says")
		return false
	}
	s.inLine, s.lineAt = true, len(s.patch.Text)
	return true
}

// body takes a piece of a line and returns what follows it.
func (s *splitter) body(p []byte) []byte {
	part := p
	if i := bytes.IndexByte(p, '\n'); i >= 0 {
		part = p[:i+1]
		s.inLine = false
	}
	s.add(part)
	return p[len(part):]
}

func (s *splitter) add(part []byte) {
	s.patch.Size += int64(len(part))
	switch {
	case s.patch.Cut:
	case s.limit > 0 && int64(len(s.patch.Text)+len(part)) > s.limit:
		s.patch.Cut = true
		s.patch.Text = s.patch.Text[:s.lineAt]
	default:
		s.patch.Text = append(s.patch.Text, part...)
	}
}

func (s *splitter) head(line string) {
	switch {
	case strings.HasPrefix(line, "diff --git a/"):
		s.finish()
		name, _, _ := strings.Cut(strings.TrimPrefix(line, "diff --git a/"), " ")
		n, err := strconv.Atoi(name)
		if err != nil || len(name) != 8 || n <= s.last || n >= s.files {
			s.fail("a file that was not asked for")
			return
		}
		s.cur, s.last = n, n
	case strings.HasPrefix(line, "@@ "):
		h, ok := ParseHunk(line)
		if !ok || s.cur < 0 {
			s.fail("the header of a hunk")
			return
		}
		s.old, s.new, s.lineAt = h.OldLines, h.NewLines, len(s.patch.Text)
		s.add([]byte(line + "\n"))
	}
}

// finish hands on the file that has ended.
func (s *splitter) finish() {
	if s.cur < 0 || s.stopped || s.err != nil {
		return
	}
	patch := s.patch
	n := s.cur
	s.cur, s.patch = -1, FilePatch{}
	if patch.Size == 0 {
		return // a binary file
	}
	more, err := s.each(n, patch)
	s.stopped, s.err = !more || err != nil, err
}

func (s *splitter) end() error {
	if s.err == nil && (s.inLine || len(s.header) > 0 || s.old > 0 || s.new > 0) {
		s.fail("an end in the middle")
	}
	s.finish()
	return s.err
}

func (s *splitter) fail(what string) {
	if s.err == nil {
		s.err = core.E("mirror.patches", core.Internal, nil, "git's patch cannot be read: %s", what)
	}
}

// Hunk is the head of a hunk: which lines of both sides it covers. A start of a
// side without lines is the line before it.
type Hunk struct{ OldStart, OldLines, NewStart, NewLines int }

// ParseHunk reads "@@ -1,2 +3,4 @@ whatever".
func ParseHunk(line string) (h Hunk, ok bool) {
	rest, ok := strings.CutPrefix(line, "@@ -")
	if !ok {
		return h, false
	}
	before, rest, ok := strings.Cut(rest, " +")
	if !ok {
		return h, false
	}
	after, _, ok := strings.Cut(rest, " @@")
	if !ok {
		return h, false
	}
	var ok1, ok2 bool
	h.OldStart, h.OldLines, ok1 = span(before)
	h.NewStart, h.NewLines, ok2 = span(after)
	return h, ok1 && ok2
}

const maxLines = 1 << 30

func span(s string) (start, lines int, ok bool) {
	first, count, both := strings.Cut(s, ",")
	if !both {
		count = "1"
	}
	start, err1 := strconv.Atoi(first)
	lines, err2 := strconv.Atoi(count)
	return start, lines, err1 == nil && err2 == nil && start >= 0 && lines >= 0 && start < maxLines && lines < maxLines
}
