package tool

import (
	"context"
	"fmt"
	"strings"
)

type editInput struct {
	Path       string `json:"path"`
	Old        string `json:"old"`
	New        string `json:"new"`
	ReplaceAll bool   `json:"replace_all"`
}

func editTitle(s *Set, in editInput) string { return "edit " + s.short(s.abs(in.Path)) }

func (s *Set) edit(ctx context.Context, c Call) (Result, error) {
	var in editInput
	if err := decode(c, &in); err != nil {
		return Result{}, err
	}
	switch {
	case in.Path == "":
		return Result{}, tell("edit needs a path")
	case in.Old == "":
		return Result{}, tell("edit needs old, the text to replace; use write for a new file")
	case in.Old == in.New:
		return Result{}, tell("old and new are the same")
	}
	p := s.abs(in.Path)
	name := s.short(p)
	data, _, err := s.load(ctx, p)
	if err != nil {
		return Result{}, err
	}
	content := string(data)
	if strings.Contains(content, "\r\n") && !strings.Contains(in.Old, "\r\n") {
		in.Old, in.New = toCRLF(in.Old), toCRLF(in.New)
	}
	n := strings.Count(content, in.Old)
	switch {
	case n == 0 && c.Again && in.New != "" && strings.Contains(content, in.New):
		return text(name + ": the edit was made before the restart"), nil
	case n == 0:
		return Result{}, tell("old is not in %s, nothing was changed.%s", name, nearMiss(content, in.Old))
	case n > 1 && !in.ReplaceAll:
		return Result{}, tell("old is %d times in %s (lines %s), nothing was changed. Give more lines around it, or set replace_all", n, name, lineNumbers(content, in.Old, 8))
	}
	at := strings.Index(content, in.Old)
	changed := strings.ReplaceAll(content, in.Old, in.New)
	if err := s.deps.Box.Write(ctx, p, 0, []byte(changed)); err != nil {
		return Result{}, err
	}
	r := text(fmt.Sprintf("changed %s%s\n%s", name, times(n), around(changed, at, at+len(in.New))))
	r.Output = fmt.Sprintf("-%d +%d lines%s", len(splitLines(in.Old)), len(splitLines(in.New)), times(n))
	r.Wrote = true
	return r, nil
}

func times(n int) string {
	if n == 1 {
		return ""
	}
	return fmt.Sprintf(" in %d places", n)
}

func toCRLF(s string) string {
	return strings.ReplaceAll(strings.ReplaceAll(s, "\r\n", "\n"), "\n", "\r\n")
}

// around shows the lines of content[from:to] and three on each side.
func around(content string, from, to int) string {
	first := strings.Count(content[:from], "\n")
	last := strings.Count(content[:min(to, len(content))], "\n")
	lines := splitLines(strings.ReplaceAll(content, "\r\n", "\n"))
	first, last = max(first-3, 0), min(last+3, len(lines)-1)
	if last-first > 60 {
		last = first + 60
	}
	if len(lines) == 0 || first > last {
		return ""
	}
	return numbered(lines[first:last+1], first+1)
}

func lineNumbers(content, part string, most int) string {
	var out []string
	for at := 0; ; {
		i := strings.Index(content[at:], part)
		if i < 0 {
			break
		}
		if len(out) == most {
			out = append(out, "...")
			break
		}
		out = append(out, fmt.Sprint(strings.Count(content[:at+i], "\n")+1))
		at += i + len(part)
	}
	return strings.Join(out, ", ")
}

// nearMiss says where the text would fit if white space did not matter, or
// how far its first lines go.
func nearMiss(content, old string) string {
	have := splitLines(content)
	want := splitLines(old)
	squeeze := func(s string) string { return strings.Join(strings.Fields(s), " ") }
	for i := range have {
		have[i] = strings.TrimRight(have[i], "\r")
	}
	best, bestAt, budget := 0, -1, 1<<20 // it is only advice
	for i := range have {
		n := 0
		for n < len(want) && i+n < len(have) && squeeze(have[i+n]) == squeeze(want[n]) {
			n++
		}
		if budget -= n + 1; budget < 0 {
			break
		}
		if n > best {
			best, bestAt = n, i
		}
	}
	switch {
	case best == 0:
		return " Read the file again and copy the text exactly, without the line numbers"
	case best == len(want):
		return fmt.Sprintf(" Lines %d to %d differ from it in white space only; they are:\n%s", bestAt+1, bestAt+best, numbered(have[bestAt:bestAt+best], bestAt+1))
	}
	miss := bestAt + best
	there := "the file ends there"
	if miss < len(have) {
		there = fmt.Sprintf("line %d is %q", miss+1, clip(have[miss], 200))
	}
	return fmt.Sprintf(" Its first %d lines are at line %d, then it wants %q where %s", best, bestAt+1, clip(want[best], 200), there)
}
