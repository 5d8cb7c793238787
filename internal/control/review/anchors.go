package review

import (
	"bytes"
	"context"
	"strings"

	"drydock/internal/core"
	"drydock/internal/delivery/forge"
	"drydock/internal/gitcmd/mirror"
)

const (
	sideOld = "old"
	sideNew = "new"
)

type mapKey struct{ dir, old, new string }

// mapping says where the lines of one text are in another.
type mapping struct {
	hunks []mirror.Hunk
	patch []byte // without context
}

// maxMapped bounds the patch that lines are followed through.
const maxMapped = 1 << 20

func newMapping(patch []byte, cut bool) *mapping {
	m := &mapping{patch: patch}
	left := 0
	for line := range bytes.Lines(patch) {
		if left > 0 && (line[0] == '-' || line[0] == '+') {
			left--
			continue
		}
		if h, ok := mirror.ParseHunk(string(line[:min(len(line), 200)])); ok && left == 0 {
			m.hunks = append(m.hunks, h)
			left = h.OldLines + h.NewLines
		}
	}
	if cut { // what follows is not known: nothing there may be taken for unchanged
		last := 0
		if len(m.hunks) > 0 {
			last = m.hunks[len(m.hunks)-1].OldStart
		}
		m.hunks = append(m.hunks, mirror.Hunk{OldStart: last + 1, OldLines: 1 << 30})
	}
	return m
}

// line follows one line.
func (m *mapping) line(n int) (int, bool) {
	shift := 0
	for _, h := range m.hunks {
		if h.OldLines == 0 {
			if h.OldStart < n {
				shift += h.NewLines
			}
			continue
		}
		switch {
		case n >= h.OldStart && n < h.OldStart+h.OldLines:
			return 0, false
		case n >= h.OldStart+h.OldLines:
			shift += h.NewLines - h.OldLines
		}
	}
	return n + shift, true
}

// place follows lines from a to b: what is left of them, or where exactly they
// were moved to.
func (m *mapping) place(a, b int) (from, to int, ok bool) {
	for n := a; n <= b && n-a < maxRange; n++ {
		if at, kept := m.line(n); kept {
			if from == 0 {
				from = at
			}
			to = at
		}
	}
	if from > 0 {
		return from, to, true
	}
	return m.moved(a, b)
}

// moved finds lines that were taken out and put in elsewhere as they were. Two
// places, or hardly any text, say nothing.
func (m *mapping) moved(a, b int) (from, to int, ok bool) {
	var want []string
	type line struct {
		n    int
		text string
	}
	var added []line
	eachLine(m.patch, func(kind byte, before, after int, text []byte) {
		switch {
		case kind == '-' && before >= a && before <= b:
			want = append(want, string(text))
		case kind == '+':
			added = append(added, line{after, string(text)})
		}
	})
	if len(want) != b-a+1 || len(strings.TrimSpace(strings.Join(want, ""))) < 12 {
		return 0, 0, false
	}
	found := 0
	for i := 0; i+len(want) <= len(added); i++ {
		same := true
		for j, text := range want {
			if added[i+j].text != text || added[i+j].n != added[i].n+j {
				same = false
				break
			}
		}
		if same {
			found++
			from, to = added[i].n, added[i].n+len(want)-1
		}
	}
	return from, to, found == 1
}

// touches says whether lines from a to b, or what stands right beside them,
// were changed.
func (m *mapping) touches(a, b int) bool {
	for _, h := range m.hunks {
		if h.OldLines == 0 && h.OldStart >= a-1 && h.OldStart <= b {
			return true
		}
		if h.OldLines > 0 && h.OldStart <= b && h.OldStart+h.OldLines > a {
			return true
		}
	}
	return false
}

// Bounds of anchors.
const (
	maxRange    = 2000 // lines of one
	maxHunk     = 20   // lines of its text
	maxHunkLine = 400  // bytes of one
	maxSpans    = 40   // pairs of commits that are compared for one answer
)

func last(a core.Anchor) int { return max(a.Line, a.EndLine) }

// where says where anchors are in the change as it is.
type whereabouts struct {
	now  *core.AnchorNow
	lost bool
}

func (s *Service) whereabouts(ctx context.Context, span forge.Span, repo *mirror.Mirror, anchors []core.Anchor) (_ []whereabouts, err error) {
	out := make([]whereabouts, len(anchors))
	type step struct{ from, to string }
	by := map[step][]int{}
	var order []step
	for i, a := range anchors {
		if a.Path == "" && len(a.Raw) == 0 {
			continue
		}
		st := step{a.Head, span.Change.Head}
		if a.Side == sideOld {
			st = step{a.Base, span.Base}
		}
		if by[st] == nil {
			order = append(order, st)
		}
		by[st] = append(by[st], i)
	}
	for k, st := range order {
		if st.from == st.to {
			for _, i := range by[st] {
				out[i].now = &core.AnchorNow{Line: anchors[i].Line, EndLine: anchors[i].EndLine}
			}
			continue
		}
		var list []core.Anchor
		for _, i := range by[st] {
			list = append(list, anchors[i])
		}
		places := make([]whereabouts, len(list))
		for i := range places {
			places[i].lost = true
		}
		if k < maxSpans {
			if s.has(ctx, span.Dir, repo, st.from) {
				if places, err = s.follow(ctx, span.Dir, repo, st.from, st.to, list); err != nil {
					return nil, err
				}
			}
		}
		for n, i := range by[st] {
			out[i] = places[n]
		}
	}
	return out, nil
}

// follow brings places of one commit to another, in a fixed number of runs of
// git.
func (s *Service) follow(ctx context.Context, dir string, repo *mirror.Mirror, from, to string, list []core.Anchor) ([]whereabouts, error) {
	files, err := s.step(ctx, dir, repo, from, to)
	if err != nil {
		return nil, err
	}
	gone := map[string]mirror.Compared{}
	for _, f := range files {
		switch f.Status {
		case mirror.Renamed:
			gone[f.OldPath] = f
		case mirror.Modified, mirror.Deleted, mirror.TypeChanged:
			gone[f.Path] = f
		}
	}
	out := make([]whereabouts, len(list))
	need := map[mirror.Pair]*mapping{}
	var pairs []mirror.Pair
	for i, a := range list {
		f, changed := gone[named(a.Path, a.Raw)]
		switch {
		case !changed:
			out[i].now = &core.AnchorNow{Line: a.Line, EndLine: a.EndLine}
		case f.NewBlob == "" || f.NewMode == submodule || f.OldMode == submodule || f.OldSize > mirror.MaxText || f.NewSize > mirror.MaxText:
			out[i].lost = true
		default:
			p := mirror.Pair{Old: f.OldBlob, New: f.NewBlob}
			if _, asked := need[p]; !asked {
				need[p] = nil
				pairs = append(pairs, p)
			}
		}
	}
	if err := s.mappings(ctx, dir, repo, pairs, need); err != nil {
		return nil, err
	}
	for i, a := range list {
		if out[i].now != nil || out[i].lost {
			continue
		}
		f := gone[named(a.Path, a.Raw)]
		now := &core.AnchorNow{}
		if f.Path != named(a.Path, a.Raw) {
			now.Path, now.Raw = shown(f.Path)
		}
		if a.Line == 0 {
			out[i].now = now
			continue
		}
		first, end, ok := need[mirror.Pair{Old: f.OldBlob, New: f.NewBlob}].place(a.Line, last(a))
		if !ok {
			out[i].lost = true
			continue
		}
		if now.Line = first; end > first {
			now.EndLine = end
		}
		out[i].now = now
	}
	return out, nil
}

// step is what differs between two commits. They do not change, so many threads
// cost one comparison.
func (s *Service) step(ctx context.Context, dir string, repo *mirror.Mirror, from, to string) ([]mirror.Compared, error) {
	key := mapKey{dir, from, to}
	if files, ok := s.steps.get(key); ok {
		return files, nil
	}
	files, err := repo.Compare(ctx, nil, from, to)
	if err == nil && len(files) <= maxItems {
		s.steps.put(key, files)
	}
	return files, err
}

// has says whether a commit is in the repository.
func (s *Service) has(ctx context.Context, dir string, repo *mirror.Mirror, commit string) bool {
	key := mapKey{dir: dir, new: commit}
	if there, ok := s.commits.get(key); ok && there {
		return true
	}
	_, err := repo.Commit(ctx, commit)
	if err == nil {
		s.commits.put(key, true)
	}
	return err == nil
}

// mappings fills in what is not known from before.
func (s *Service) mappings(ctx context.Context, dir string, repo *mirror.Mirror, pairs []mirror.Pair, into map[mirror.Pair]*mapping) error {
	var missing []mirror.Pair
	for _, p := range pairs {
		if m, ok := s.maps.get(mapKey{dir, p.Old, p.New}); ok {
			into[p] = m
			continue
		}
		into[p] = &mapping{} // binary files have no lines
		if p.Old != p.New {
			missing = append(missing, p)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	sc, err := repo.Scratch()
	if err != nil {
		return err
	}
	defer sc.Close()
	return sc.Patches(ctx, missing, mirror.PatchOptions{Context: -1, Limit: maxMapped}, func(i int, p mirror.FilePatch) (bool, error) {
		m := newMapping(p.Text, p.Cut)
		into[missing[i]] = m
		if len(p.Text) <= 64<<10 {
			s.maps.put(mapKey{dir, missing[i].Old, missing[i].New}, m)
		}
		return true, nil
	})
}

// anchor checks a place that somebody wants to write about, and takes down what
// stands there.
func (s *Service) anchor(ctx context.Context, e ends, a core.Anchor) (core.Anchor, error) {
	const op = "review.anchor"
	a.Head, a.Base, a.Hunk = e.to, e.toBase, ""
	path := named(a.Path, a.Raw)
	if path == "" {
		if a.Line != 0 || a.EndLine != 0 || a.Side != "" {
			return a, core.E(op, core.Invalid, nil, "line %d without a file", a.Line)
		}
		return a, nil
	}
	a.Path, a.Raw = shown(path)
	if a.Side == "" {
		a.Side = sideNew
	}
	switch {
	case a.Side != sideOld && a.Side != sideNew:
		return a, core.E(op, core.Invalid, nil, "side %q is neither old nor new", clip(a.Side, 20))
	case a.Line < 0 || a.EndLine < 0 || a.EndLine != 0 && a.EndLine < a.Line || a.Line == 0 && a.EndLine != 0 || last(a)-a.Line >= maxRange:
		return a, core.E(op, core.Invalid, nil, "lines %d to %d of %s are no range of at most %d lines", a.Line, a.EndLine, clip(a.Path, 200), maxRange)
	}
	if a.EndLine == a.Line {
		a.EndLine = 0
	}
	commit := a.Head
	if a.Side == sideOld {
		commit = a.Base
	}
	data, f, err := e.repo.ShowFile(ctx, commit, path, mirror.MaxText)
	if err != nil {
		if core.Is(err, core.NotFound) {
			err = core.E(op, core.NotFound, nil, "file %s is not on the %s side of the change at %.12s", clip(a.Path, 200), a.Side, a.Head)
		}
		return a, err
	}
	if a.Line == 0 {
		return a, nil
	}
	lines := bytes.Split(bytes.TrimSuffix(data, []byte("\n")), []byte("\n"))
	if bytes.IndexByte(data[:min(len(data), 8000)], 0) >= 0 || last(a) > len(lines) || len(data) == 0 {
		return a, core.E(op, core.Invalid, nil, "file %s has no line %d on the %s side", clip(a.Path, 200), last(a), a.Side)
	}
	marks, err := s.marks(ctx, e, path, a.Side, f.Object)
	if err != nil {
		return a, err
	}
	a.Hunk = excerpt(lines, a.Line, last(a), marks)
	return a, nil
}

// marks are the lines of one side of a file that the change put in or takes
// out.
func (s *Service) marks(ctx context.Context, e ends, path, side, blob string) (map[int]byte, error) {
	out := map[int]byte{}
	plain := e
	plain.from, plain.fromBase = e.toBase, e.toBase
	d, err := s.diff(ctx, plain)
	if err != nil {
		return nil, err
	}
	for i, p := range d.pairs {
		name, id := d.paths[i], p.New
		if side == sideOld {
			id = p.Old
			if d.olds[i] != "" {
				name = d.olds[i]
			}
		}
		if name != path || id != blob {
			continue
		}
		need := map[mirror.Pair]*mapping{}
		if err := s.mappings(ctx, e.span.Dir, e.repo, []mirror.Pair{p}, need); err != nil {
			return nil, err
		}
		eachLine(need[p].patch, func(kind byte, before, after int, _ []byte) {
			if kind == '-' && side == sideOld {
				out[before] = '-'
			}
			if kind == '+' && side == sideNew {
				out[after] = '+'
			}
		})
		break
	}
	return out, nil
}

// excerpt is the lines from a to b with a few before, as in a patch.
func excerpt(lines [][]byte, a, b int, marks map[int]byte) string {
	b = min(b, a+maxHunk-1)
	first := max(1, a-3, b-maxHunk+1)
	var out strings.Builder
	for n := first; n <= b; n++ {
		mark := marks[n]
		if mark == 0 {
			mark = ' '
		}
		text := lines[n-1]
		text = text[:min(len(text), maxHunkLine)]
		out.WriteByte(mark)
		out.WriteString(strings.ToValidUTF8(string(text), "\uFFFD"))
		out.WriteByte('\n')
	}
	return out.String()
}
