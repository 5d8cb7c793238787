package tool

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"regexp"
	"strings"

	"drydock/internal/core"
	"drydock/internal/harness/model"
)

// Limits of what a tool reads and shows.
const (
	maxFile      = 8 << 20
	maxImage     = 3500 << 10
	maxReadLines = 2000
	maxReadBytes = 48 << 10
	maxMatches   = 200
	maxEntries   = 500
)

type readInput struct {
	Path   string `json:"path"`
	Offset number `json:"offset"`
	Limit  number `json:"limit"`
}

func readTitle(s *Set, in readInput) string {
	t := "read " + s.short(s.abs(in.Path))
	switch {
	case in.Offset > 0 && in.Limit > 0:
		t += fmt.Sprintf(" %d-%d", in.Offset, in.Offset+in.Limit-1)
	case in.Offset > 0:
		t += fmt.Sprintf(" from %d", in.Offset)
	}
	return t
}

func (s *Set) read(ctx context.Context, c Call) (Result, error) {
	var in readInput
	if err := decode(c, &in); err != nil {
		return Result{}, err
	}
	if in.Path == "" {
		return Result{}, tell("read needs a path")
	}
	data, info, err := s.load(ctx, s.abs(in.Path))
	if err != nil {
		return Result{}, err
	}
	name := s.short(s.abs(in.Path))
	if kind := http.DetectContentType(data); strings.HasPrefix(kind, "image/") && kind != "image/x-icon" && kind != "image/bmp" {
		if len(data) > maxImage {
			return Result{}, tell("%s is a picture of %s; at most %s can be shown", name, bytesText(info.Size), bytesText(maxImage))
		}
		r := text(fmt.Sprintf("%s, %s, %s", name, kind, bytesText(info.Size)))
		r.Content = append(r.Content, model.Block{Kind: model.Image, MediaType: kind, Data: data})
		return r, nil
	}
	if bytes.IndexByte(data, 0) >= 0 {
		return Result{}, tell("%s is a binary file of %s; look at it with run (file, xxd, strings)", name, bytesText(info.Size))
	}
	return page(name, strings.ToValidUTF8(string(data), "\uFFFD"), int(in.Offset), int(in.Limit))
}

// page shows a part of a text by lines.
func page(name, content string, offset, limit int) (Result, error) {
	lines := splitLines(content)
	if len(lines) == 0 {
		return text(name + " is empty"), nil
	}
	first := max(offset, 1)
	if first > len(lines) {
		return Result{}, tell("%s has %d lines; line %d is past its end", name, len(lines), first)
	}
	if limit <= 0 || limit > maxReadLines {
		limit = maxReadLines
	}
	last := min(first+limit-1, len(lines))
	size := 0
	for i := first; i <= last; i++ {
		if size += min(len(lines[i-1]), 2000) + 8; size > maxReadBytes && i > first {
			last = i - 1
			break
		}
	}
	out := numbered(lines[first-1:last], first)
	r := text(out)
	if last < len(lines) {
		r.Cut = true
		r.Content[0].Text += fmt.Sprintf("[lines %d to %d of %d; go on with offset %d]\n", first, last, len(lines), last+1)
	}
	r.Output = fmt.Sprintf("lines %d to %d of %d", first, last, len(lines))
	return r, nil
}

// load reads a whole file that is not too large.
func (s *Set) load(ctx context.Context, p string) ([]byte, FileInfo, error) {
	data, info, err := s.deps.Box.Read(ctx, p, maxFile)
	switch {
	case core.Is(err, core.NotFound):
		return nil, info, tell("%s does not exist", s.short(p))
	case core.Is(err, core.Invalid) && s.isDir(ctx, p), err == nil && info.Mode.IsDir():
		return nil, info, tell("%s is a directory; use list", s.short(p))
	case err != nil:
		return nil, info, err
	case info.Size > int64(len(data)):
		return nil, info, tell("%s is %s; use run (sed -n, grep, head) to look at parts of it", s.short(p), bytesText(info.Size))
	}
	return data, info, nil
}

// isDir asks why a path could not be read.
func (s *Set) isDir(ctx context.Context, p string) bool {
	_, _, err := s.deps.Box.List(ctx, p, 1, 1)
	return err == nil
}

type writeInput struct {
	Path    string `json:"path"`
	Content string `json:"content"`
}

func writeTitle(s *Set, in writeInput) string { return "write " + s.short(s.abs(in.Path)) }

func (s *Set) write(ctx context.Context, c Call) (Result, error) {
	var in writeInput
	if err := decode(c, &in); err != nil {
		return Result{}, err
	}
	if in.Path == "" {
		return Result{}, tell("write needs a path")
	}
	p := s.abs(in.Path)
	_, info, err := s.deps.Box.Read(ctx, p, 1)
	verb := "replaced"
	switch {
	case core.Is(err, core.NotFound):
		verb = "created"
	case err != nil:
		return Result{}, err
	case info.Mode.IsDir():
		return Result{}, tell("%s is a directory", s.short(p))
	}
	if err := s.deps.Box.Write(ctx, p, 0, []byte(in.Content)); err != nil {
		return Result{}, err
	}
	r := text(fmt.Sprintf("%s %s (%d lines)", verb, s.short(p), len(splitLines(in.Content))))
	r.Wrote = true
	return r, nil
}

type searchInput struct {
	Pattern    string `json:"pattern"`
	Path       string `json:"path"`
	Glob       string `json:"glob"`
	IgnoreCase bool   `json:"ignore_case"`
	FilesOnly  bool   `json:"files_only"`
	Limit      number `json:"limit"`
}

func searchTitle(s *Set, in searchInput) string {
	t := "search " + in.Pattern
	if in.Path != "" {
		t += " in " + s.short(s.abs(in.Path))
	}
	if in.Glob != "" {
		t += " (" + in.Glob + ")"
	}
	return t
}

func (s *Set) search(ctx context.Context, c Call) (Result, error) {
	var in searchInput
	if err := decode(c, &in); err != nil {
		return Result{}, err
	}
	if in.Pattern == "" {
		return Result{}, tell("search needs a pattern")
	}
	if _, err := regexp.Compile(in.Pattern); err != nil {
		return Result{}, tell("the pattern is no regular expression (RE2 syntax): %s", err)
	}
	limit := maxMatches
	if in.Limit > 0 {
		limit = min(int(in.Limit), 1000)
	}
	m, err := s.deps.Box.Search(ctx, Query{Path: s.abs(in.Path), Pattern: in.Pattern, Glob: in.Glob, IgnoreCase: in.IgnoreCase, Limit: limit})
	if err != nil {
		return Result{}, err
	}
	var b strings.Builder
	files := map[string]int{}
	var order []string
	for _, l := range m.Lines {
		if files[l.Path]++; files[l.Path] == 1 {
			order = append(order, l.Path)
		}
		if !in.FilesOnly {
			fmt.Fprintf(&b, "%s:%d: %s\n", s.short(l.Path), l.Line, clip(strings.TrimRight(plain([]byte(l.Text)), "\n"), 300))
		}
	}
	if in.FilesOnly {
		for _, f := range order {
			fmt.Fprintf(&b, "%s (%d)\n", s.short(f), files[f])
		}
	}
	if len(m.Lines) == 0 {
		return text("no match"), nil
	}
	out := b.String()
	cut := m.More
	if len(out) > maxReadBytes {
		out, cut = string(headCut([]byte(out[:maxReadBytes]))), true
	}
	if cut {
		out += "[there are more; narrow the pattern, the path or the glob]\n"
	}
	r := text(out)
	r.Cut = cut
	r.Output = fmt.Sprintf("%d matches in %d files", len(m.Lines), len(order))
	return r, nil
}

type listInput struct {
	Path  string `json:"path"`
	Depth number `json:"depth"`
}

func listTitle(s *Set, in listInput) string { return "list " + s.short(s.abs(in.Path)) }

func (s *Set) list(ctx context.Context, c Call) (Result, error) {
	var in listInput
	if err := decode(c, &in); err != nil {
		return Result{}, err
	}
	root := s.abs(in.Path)
	entries, more, err := s.deps.Box.List(ctx, root, min(max(int(in.Depth), 1), 5), maxEntries)
	if core.Is(err, core.NotFound) {
		return Result{}, tell("%s does not exist", s.short(root))
	}
	if err != nil {
		return Result{}, err
	}
	var b strings.Builder
	for _, e := range entries {
		name := strings.TrimPrefix(strings.TrimPrefix(e.Path, root), "/")
		switch {
		case e.Mode.IsDir():
			name += "/"
		case e.Target != "":
			name += " -> " + e.Target
		default:
			name += "  " + bytesText(e.Size)
		}
		b.WriteString(name + "\n")
	}
	if len(entries) == 0 {
		b.WriteString(s.short(root) + " is empty\n")
	}
	if more {
		fmt.Fprintf(&b, "[only the first %d are shown]\n", len(entries))
	}
	r := text(b.String())
	r.Cut = more
	r.Output = fmt.Sprintf("%d entries", len(entries))
	return r, nil
}
