package tool

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"drydock/internal/core"
)

type patchInput struct {
	Patch string `json:"patch"`
}

func patchTitle(s *Set, in patchInput) string {
	changes, err := parsePatch(in.Patch)
	if err != nil {
		return "patch"
	}
	var names []string
	for _, c := range changes {
		names = append(names, s.short(s.abs(c.path)))
	}
	return "patch " + strings.Join(names, ", ")
}

// file is one file as a patch leaves it.
type file struct {
	path   string
	before []byte
	after  []byte
	was    bool // it exists before
	is     bool // and after
}

// patch is all or nothing: everything is worked out before the first write.
func (s *Set) patch(ctx context.Context, c Call) (Result, error) {
	var in patchInput
	if err := decode(c, &in); err != nil {
		return Result{}, err
	}
	changes, err := parsePatch(in.Patch)
	if err != nil {
		return Result{}, tell("the patch cannot be read, nothing was changed: %s", err)
	}
	files, err := s.plan(ctx, changes)
	if err != nil {
		if c.Again {
			if _, undoErr := s.plan(ctx, reversed(changes)); undoErr == nil {
				return text("the patch was applied before the restart"), nil
			}
		}
		return Result{}, err
	}
	if err := s.apply(ctx, files); err != nil {
		return Result{}, err
	}
	var lines []string
	for _, f := range files {
		lines = append(lines, describe(s, f))
	}
	r := text(strings.Join(lines, "\n"))
	r.Wrote = true
	return r, nil
}

func describe(s *Set, f file) string {
	name := s.short(f.path)
	switch {
	case !f.was:
		return fmt.Sprintf("created %s (%d lines)", name, len(splitLines(string(f.after))))
	case !f.is:
		return "removed " + name
	}
	return fmt.Sprintf("changed %s (%d lines before, %d after)", name, len(splitLines(string(f.before))), len(splitLines(string(f.after))))
}

// plan works out what every file becomes.
func (s *Set) plan(ctx context.Context, changes []fileChange) ([]file, error) {
	var files []file
	find := func(p string) (*file, error) {
		for i := range files {
			if files[i].path == p {
				return &files[i], nil
			}
		}
		f := file{path: p}
		data, _, err := s.load(ctx, p)
		switch {
		case err == nil:
			f.before, f.after, f.was, f.is = data, data, true, true
		case !isMissing(err):
			return nil, err
		}
		files = append(files, f)
		return &files[len(files)-1], nil
	}
	for _, ch := range changes {
		f, err := find(s.abs(ch.path))
		if err != nil {
			return nil, err
		}
		name := s.short(f.path)
		switch {
		case ch.op == opAdd && f.is:
			return nil, tell("%s exists already, so the patch cannot add it; nothing was changed", name)
		case ch.op != opAdd && !f.is:
			return nil, tell("%s does not exist; nothing was changed", name)
		}
		if ch.op == opDelete {
			if len(ch.hunks) > 0 {
				if rest, err := applyHunks(string(f.after), ch.hunks); err != nil || rest != "" {
					return nil, tell("%s is not what the patch removes; nothing was changed", name)
				}
			}
			f.after, f.is = nil, false
			continue
		}
		out, err := applyHunks(string(f.after), ch.hunks)
		if err != nil {
			return nil, tell("%s: %s; nothing was changed", name, err)
		}
		target := f
		if ch.to != "" && s.abs(ch.to) != f.path {
			f.after, f.is = nil, false
			if target, err = find(s.abs(ch.to)); err != nil {
				return nil, err
			}
			if target.is {
				return nil, tell("%s exists already, so nothing can be moved there; nothing was changed", s.short(target.path))
			}
		}
		target.after, target.is = []byte(out), true
	}
	return files, nil
}

func isMissing(err error) bool {
	told, ok := errors.AsType[*tellError](err)
	return core.Is(err, core.NotFound) || ok && strings.HasSuffix(told.text, " does not exist")
}

// apply writes; when one write fails, those before it are undone.
func (s *Set) apply(ctx context.Context, files []file) error {
	for i, f := range files {
		err := s.put(ctx, f)
		if err == nil {
			continue
		}
		undo, cancel := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
		defer cancel()
		for _, d := range slices.Backward(files[:i]) {
			back := file{path: d.path, before: d.after, after: d.before, was: d.is, is: d.was}
			if undoErr := s.put(undo, back); undoErr != nil {
				err = errors.Join(err, core.E("tool.patch", core.KindOf(undoErr), undoErr, "%s could not be put back", d.path))
			}
		}
		return err
	}
	return nil
}

func (s *Set) put(ctx context.Context, f file) error {
	switch {
	case f.is:
		return s.deps.Box.Write(ctx, f.path, 0, f.after)
	case f.was:
		return s.deps.Box.Remove(ctx, f.path)
	}
	return nil
}

func reversed(changes []fileChange) []fileChange {
	var out []fileChange
	for _, c := range slices.Backward(changes) {
		r := fileChange{path: c.path, op: c.op}
		if c.to != "" {
			r.path, r.to = c.to, c.path
		}
		switch c.op {
		case opAdd:
			r.op = opDelete
		case opDelete:
			if len(c.hunks) == 0 {
				continue // its content is not known; that it is gone is enough
			}
			r.op = opAdd
		}
		for _, h := range c.hunks {
			rh := hunk{anchor: h.anchor}
			for _, l := range h.lines {
				switch l.kind {
				case '+':
					l.kind = '-'
				case '-':
					l.kind = '+'
				}
				rh.lines = append(rh.lines, l)
			}
			r.hunks = append(r.hunks, rh)
		}
		out = append(out, r)
	}
	return out
}
