package supervisor

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"drydock/internal/core"
	"drydock/internal/execution/guest"
)

// visit is called for each file below a directory, in lexical order per
// directory; it returns fs.SkipDir or fs.SkipAll like fs.WalkDirFunc.
type visit func(real, rel string, entry fs.DirEntry) error

type walker struct {
	gitIgnore bool
	skipGit   bool
	hidden    bool
	depth     int // 0: no bound
	f         visit
}

// maxWalkDepth stops a hostile tree before the stack does.
const maxWalkDepth = 500

func (w *walker) walk(ctx context.Context, real, rel string, level int, ig ignores) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if level > maxWalkDepth {
		return nil
	}
	entries, err := os.ReadDir(real)
	if err != nil {
		if level == 0 {
			return err
		}
		return nil // unreadable or gone meanwhile: what is there is listed
	}
	if w.gitIgnore {
		ig = ig.with(real, rel)
	}
	for _, e := range entries {
		name := e.Name()
		childRel := name
		if rel != "" {
			childRel = rel + "/" + name
		}
		switch {
		case w.skipGit && name == ".git":
			continue
		case !w.hidden && name[0] == '.':
			continue
		case w.gitIgnore && ig.ignored(childRel, e.IsDir()):
			continue
		}
		childReal := filepath.Join(real, name)
		err := w.f(childReal, childRel, e)
		switch {
		case errors.Is(err, fs.SkipDir):
			continue
		case err != nil:
			return err
		}
		if e.IsDir() && (w.depth == 0 || level+1 < w.depth) {
			if err := w.walk(ctx, childReal, childRel, level+1, ig); err != nil {
				return err
			}
		}
	}
	return nil
}

// walk lists files below a directory.
func (s *Supervisor) walk(ctx context.Context, in guest.WalkOptions) (guest.WalkResult, error) {
	const op = "guest.walk"
	res := guest.WalkResult{Files: []guest.FileInfo{}}
	real, err := s.tree.target(op, in.Dir)
	if err != nil {
		return res, err
	}
	limit := in.Limit
	if limit <= 0 || limit > guest.MaxEntries {
		limit = guest.MaxEntries
	}
	size := 0
	w := walker{gitIgnore: in.GitIgnore, skipGit: in.SkipGit, hidden: true, depth: max(0, in.Depth)}
	w.f = func(real, rel string, entry fs.DirEntry) error {
		if size += len(rel) + len(in.Dir) + 160; len(res.Files) >= limit || size > guest.MaxJSON {
			res.Cut = true
			return fs.SkipAll
		}
		info, err := entry.Info()
		if err != nil {
			return nil
		}
		target := ""
		if info.Mode()&fs.ModeSymlink != 0 {
			target, _ = os.Readlink(real)
			size += len(target)
		}
		res.Files = append(res.Files, describe(filepath.Join(in.Dir, rel), info, target))
		return nil
	}
	err = w.walk(ctx, real, "", 0, nil)
	switch {
	case errors.Is(err, fs.SkipAll):
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return res, err
	case err != nil:
		return res, fileErr(op, err, in.Dir)
	}
	return res, nil
}

// search looks for a pattern in files.
func (s *Supervisor) search(ctx context.Context, in guest.SearchRequest) (guest.SearchResult, error) {
	const op = "guest.search"
	res := guest.SearchResult{Matches: []guest.Match{}}
	m, err := newMatcher(in)
	if err != nil {
		return res, err
	}
	dir := in.Dir
	if dir == "" {
		dir = s.tree.inside(s.defaultDir())
	}
	real, err := s.tree.target(op, dir)
	if err != nil {
		return res, err
	}
	info, err := os.Stat(real)
	if err != nil {
		return res, fileErr(op, err, dir)
	}
	m.res = &res
	if !info.IsDir() {
		m.files = []found{{real: real, path: dir}}
		return res, m.flush(ctx)
	}
	w := walker{gitIgnore: !in.NoIgnore, skipGit: true, hidden: in.Hidden}
	w.f = func(real, rel string, entry fs.DirEntry) error {
		if !m.globs.keep(rel, entry.IsDir()) {
			if entry.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		if !entry.Type().IsRegular() {
			return nil
		}
		return m.add(ctx, found{real: real, path: filepath.Join(dir, rel)})
	}
	err = w.walk(ctx, real, "", 0, nil)
	if err == nil {
		err = m.flush(ctx)
	}
	switch {
	case err == nil, errors.Is(err, fs.SkipAll):
		return res, nil
	case core.KindOf(err) == core.Internal && ctx.Err() == nil:
		return res, fileErr(op, err, dir)
	}
	return res, err
}

func (s *Supervisor) defaultDir() string {
	dir, err := s.workDir("")
	if err != nil {
		return s.tree.root
	}
	return dir
}
