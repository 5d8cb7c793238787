package supervisor

import (
	"bytes"
	"context"
	"io"
	"io/fs"
	"os"
	"regexp"
	"strings"
	"sync"
	"syscall"

	"drydock/internal/core"
	"drydock/internal/execution/guest"
)

const (
	searchBatch   = 64
	searchWorkers = 4
	maxSearchFile = 16 << 20
	maxLineText   = 2000
	maxContext    = 20
	maxMatches    = 5000
	maxSearchSize = 8 << 20 // bytes of text in one answer
	binaryProbe   = 8 << 10
)

// found is a file to look into.
type found struct{ real, path string }

// matcher collects files in batches, looks into each batch with a few workers,
// and keeps the order of the walk.
type matcher struct {
	re    *regexp.Regexp
	globs globSet
	in    guest.SearchRequest
	limit int
	files []found
	res   *guest.SearchResult
	size  int
}

func newMatcher(in guest.SearchRequest) (*matcher, error) {
	const op = "guest.search"
	expr := in.Pattern
	if expr == "" || len(expr) > 4096 {
		return nil, core.E(op, core.Invalid, nil, "a pattern of %d bytes", len(expr))
	}
	if in.Literal {
		expr = regexp.QuoteMeta(expr)
	}
	flags := "(?m"
	if in.IgnoreCase {
		flags += "i"
	}
	re, err := regexp.Compile(flags + ")" + expr)
	if err != nil {
		return nil, core.E(op, core.Invalid, err, "pattern %q", clip(in.Pattern, 200)).
			WithHint("the syntax is RE2; set literal to search for the text as it is")
	}
	m := &matcher{re: re, globs: parseGlobs(in.Globs), in: in, limit: in.Limit}
	if m.limit <= 0 {
		m.limit = 200
	}
	m.limit = min(m.limit, maxMatches)
	m.in.Context = min(max(in.Context, 0), maxContext)
	return m, nil
}

// add takes one more file. It is fs.SkipAll when enough was found.
func (m *matcher) add(ctx context.Context, f found) error {
	m.files = append(m.files, f)
	if len(m.files) < searchBatch {
		return nil
	}
	return m.flush(ctx)
}

type lookResult struct {
	matches []guest.Match
	binary  bool
	large   bool
	cut     bool
	read    bool
}

func (m *matcher) flush(ctx context.Context) error {
	results := make([]lookResult, len(m.files))
	next := make(chan int)
	var wg sync.WaitGroup
	for range min(searchWorkers, len(m.files)) {
		wg.Go(func() {
			for i := range next {
				results[i] = m.look(m.files[i])
			}
		})
	}
	for i := range m.files {
		if ctx.Err() != nil {
			break
		}
		next <- i
	}
	close(next)
	wg.Wait()
	m.files = m.files[:0]
	if err := ctx.Err(); err != nil {
		return err
	}
	for _, r := range results {
		if r.read {
			m.res.Files++
		}
		if r.binary {
			m.res.Binary++
		}
		if r.large {
			m.res.TooLarge++
		}
		m.res.Cut = m.res.Cut || r.cut
		for _, match := range r.matches {
			m.size += matchSize(match)
			if len(m.res.Matches) >= m.limit || m.size > maxSearchSize {
				m.res.Cut = true
				return fs.SkipAll
			}
			m.res.Matches = append(m.res.Matches, match)
		}
	}
	return nil
}

func matchSize(m guest.Match) int {
	n := len(m.Path) + len(m.Text) + 64
	for _, l := range m.Before {
		n += len(l) + 8
	}
	for _, l := range m.After {
		n += len(l) + 8
	}
	return n
}

// look searches one file.
func (m *matcher) look(f found) (res lookResult) {
	file, err := os.OpenFile(f.real, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return res
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return res
	}
	if info.Size() > maxSearchFile {
		res.large = true
		return res
	}
	data, err := io.ReadAll(io.LimitReader(file, maxSearchFile))
	if err != nil {
		return res
	}
	res.read = true
	if bytes.IndexByte(data[:min(len(data), binaryProbe)], 0) >= 0 {
		res.binary = true
		return res
	}
	m.lines(f.path, data, &res)
	return res
}

// lines turns matches into lines, each once.
func (m *matcher) lines(path string, data []byte, res *lookResult) {
	line, lineStart, at := 1, 0, 0
	for at <= len(data) {
		loc := m.re.FindIndex(data[at:])
		if loc == nil {
			return
		}
		start := at + loc[0]
		if start >= len(data) && len(data) > 0 && data[len(data)-1] == '\n' {
			return // an empty match after the last line
		}
		if m.in.FilesOnly {
			res.matches = append(res.matches, guest.Match{Path: path})
			return
		}
		line += bytes.Count(data[lineStart:start], []byte{'\n'})
		lineStart = bytes.LastIndexByte(data[:start], '\n') + 1
		end := lineEnd(data, start)
		match := guest.Match{Path: path, Line: line, Column: start - lineStart + 1, Text: text(data[lineStart:end])}
		m.context(data, lineStart, end, &match)
		res.matches = append(res.matches, match)
		if len(res.matches) > m.limit {
			res.cut = true
			return
		}
		at = end + 1
	}
}

func lineEnd(data []byte, from int) int {
	if i := bytes.IndexByte(data[from:], '\n'); i >= 0 {
		return from + i
	}
	return len(data)
}

func (m *matcher) context(data []byte, start, end int, match *guest.Match) {
	for s := start; len(match.Before) < m.in.Context && s > 0; {
		prev := bytes.LastIndexByte(data[:s-1], '\n') + 1
		match.Before = append([]string{text(data[prev : s-1])}, match.Before...)
		s = prev
	}
	for e := end; len(match.After) < m.in.Context && e+1 < len(data); {
		next := lineEnd(data, e+1)
		match.After = append(match.After, text(data[e+1:next]))
		e = next
	}
}

// text makes a line fit for an answer.
func text(line []byte) string {
	line = bytes.TrimSuffix(line, []byte{'\r'})
	if len(line) > maxLineText {
		line = line[:maxLineText]
	}
	return strings.ToValidUTF8(string(line), "\uFFFD")
}
