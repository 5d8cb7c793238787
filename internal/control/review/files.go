package review

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"drydock/internal/control/codechange"
	"drydock/internal/control/review/reading"
	"drydock/internal/core"
	"drydock/internal/gitcmd/mirror"
	"drydock/internal/proof/exam"
)

// maxItems bounds the files of one answer.
const maxItems = 3000

// diffKey names everything that a Diff is worked out from.
type diffKey struct {
	dir                        string
	from, to, fromBase, toBase string
	evidence                   core.EvidenceID
}

// diff is a Diff with what the daemon keeps for itself. It is not changed once
// it is made.
type diff struct {
	core.ChangeDiff
	paths []string // byte for byte, by place in Items
	olds  []string
	pairs []mirror.Pair
}

// Files lists what differs, in reading order.
func (s *Service) Files(ctx context.Context, id core.ChangeID, by core.Author, r core.DiffRange) (core.ChangeDiff, error) {
	e, err := s.ends(ctx, id, by, r)
	if err != nil {
		return core.ChangeDiff{}, err
	}
	d, err := s.diff(ctx, e)
	if err != nil {
		return core.ChangeDiff{}, err
	}
	viewed, err := s.d.Store.Viewed(ctx, id, by.Handle)
	if err != nil {
		return core.ChangeDiff{}, err
	}
	out := d.ChangeDiff
	out.Items = slices.Clone(d.Items)
	for i := range out.Items {
		blob, known := viewed[d.paths[i]]
		out.Items[i].Viewed = known && blob == out.Items[i].NewBlob
		out.Items[i].ChangedSinceViewed = known && blob != out.Items[i].NewBlob
	}
	return out, nil
}

// diff works a Diff out, or takes it from before.
func (s *Service) diff(ctx context.Context, e ends) (*diff, error) {
	key := diffKey{e.span.Dir, e.from, e.to, e.fromBase, e.toBase, e.span.Change.Evidence}
	if d, ok := s.diffs.get(key); ok {
		return d, nil
	}
	result, err := s.result(ctx, e.span.Change.Evidence)
	if err != nil {
		return nil, err
	}
	if result != nil && result.Exam.Head != e.to {
		result = nil // it speaks of other lines
	}
	var files []mirror.Compared
	var moved []string
	err = s.sides(ctx, e, func(sc *mirror.Scratch, left string, conflicts []string) (err error) {
		moved = conflicts
		files, err = e.repo.Compare(ctx, sc, left, e.to)
		return err
	})
	if err != nil {
		return nil, err
	}
	d := s.arrange(e, files, moved, result)
	s.diffs.put(key, d)
	return d, nil
}

// sides makes the left side of a comparison: a commit, or for an interdiff the
// tree that the older state would be on the newer base.
func (s *Service) sides(ctx context.Context, e ends, use func(sc *mirror.Scratch, left string, conflicts []string) error) error {
	sc, err := e.repo.Scratch()
	if err != nil {
		return err
	}
	defer sc.Close()
	left := e.from
	var conflicts []string
	if e.interdiff() {
		re, err := sc.Replay(ctx, e.fromBase, e.from, e.toBase)
		if err != nil {
			return err
		}
		left, conflicts = re.Tree, re.Conflicts
	}
	return use(sc, left, conflicts)
}

// arrange puts files into reading order.
func (s *Service) arrange(e ends, files []mirror.Compared, moved []string, result *exam.Result) *diff {
	d := &diff{ChangeDiff: core.ChangeDiff{
		From: e.from, To: e.to, Base: e.toBase, Interdiff: e.interdiff(), Count: len(files),
		Items: []core.DiffFile{}, Groups: []core.DiffGroup{},
	}}
	for _, f := range files {
		if f.OldMode != submodule && f.NewMode != submodule {
			d.Added += f.Added
			d.Removed += f.Removed
		}
	}
	if len(files) > maxItems {
		d.More = len(files) - maxItems
		files = files[:maxItems]
	}
	told := tell(result)
	list := make([]reading.File, len(files))
	items := make([]core.DiffFile, len(files))
	for i, f := range files {
		items[i] = item(f)
		items[i].BaseMoved = slices.Contains(moved, f.Path)
		list[i] = s.read(f, &items[i], told)
	}
	sum := sha256.New()
	for g, group := range reading.Order(list, told.claims) {
		out := core.DiffGroup{Name: strings.ToValidUTF8(group.Name, "\uFFFD"), Why: group.Why, Mode: group.Mode, Files: []int{}}
		for _, i := range group.Files {
			one := items[i]
			one.N, one.Group = len(d.Items)+1, g
			out.Files = append(out.Files, one.N)
			d.Items = append(d.Items, one)
			d.paths = append(d.paths, files[i].Path)
			d.olds = append(d.olds, files[i].OldPath)
			pair := mirror.Pair{}
			if one.Kind == kindText || one.Kind == kindSymlink {
				pair = mirror.Pair{Old: one.OldBlob, New: one.NewBlob}
			}
			d.pairs = append(d.pairs, pair)
			fmt.Fprintf(sum, "%q %q %s %s %s %s\n", files[i].Path, files[i].OldPath, orDash(one.OldBlob), orDash(one.NewBlob), one.ModeOld, one.ModeNew)
		}
		d.Groups = append(d.Groups, out)
	}
	fmt.Fprintf(sum, "%d", d.Count)
	d.Digest = "sha256:" + hex.EncodeToString(sum.Sum(nil))
	return d
}

func orDash(blob string) string {
	if blob == "" {
		return "-"
	}
	return blob
}

// Kinds of files.
const (
	kindText      = "text"
	kindBinary    = "binary"
	kindSymlink   = "symlink"
	kindSubmodule = "submodule"
	kindLarge     = "large"

	submodule = "160000"
	symlink   = "120000"
)

func item(f mirror.Compared) core.DiffFile {
	out := core.DiffFile{
		Added: f.Added, Removed: f.Removed, OldBlob: f.OldBlob, NewBlob: f.NewBlob, Size: f.NewSize, Kind: kindText, Status: status(f),
	}
	out.Path, out.Raw = shown(f.Path)
	out.OldPath, out.OldRaw = shown(f.OldPath)
	if f.NewBlob == "" {
		out.Size = f.OldSize
	}
	if f.OldMode != f.NewMode {
		out.ModeOld, out.ModeNew = mode(f.OldMode), mode(f.NewMode)
	}
	switch {
	case f.OldMode == submodule || f.NewMode == submodule:
		out.Kind, out.Added, out.Removed = kindSubmodule, 0, 0
	case f.OldSize > mirror.MaxText || f.NewSize > mirror.MaxText:
		out.Kind, out.Added, out.Removed = kindLarge, 0, 0
	case f.Binary:
		out.Kind = kindBinary
	case f.NewMode == symlink || f.NewBlob == "" && f.OldMode == symlink:
		out.Kind = kindSymlink
	}
	return out
}

func mode(m string) string {
	if m == "000000" {
		return ""
	}
	return m
}

func status(f mirror.Compared) string {
	switch f.Status {
	case mirror.Added:
		return "added"
	case mirror.Deleted:
		return "deleted"
	case mirror.Renamed:
		return "renamed"
	case mirror.Copied:
		return "copied"
	case mirror.TypeChanged:
		return "type"
	}
	if f.OldBlob == f.NewBlob {
		return "mode"
	}
	return "modified"
}

// shown is a name for people, and all its bytes where that is not the same.
func shown(name string) (string, []byte) {
	if utf8.ValidString(name) {
		return name, nil
	}
	return strings.ToValidUTF8(name, "\uFFFD"), []byte(name)
}

// named is the other way round.
func named(name string, raw []byte) string {
	if len(raw) > 0 {
		return string(raw)
	}
	return name
}

// told is what the proof says about single files.
type told struct {
	roles    map[string]exam.Role
	alarms   map[string]string
	unrun    map[string]int
	coverage map[string]core.LineCoverage
	claims   bool // cases are new or fixed
}

func tell(r *exam.Result) told {
	t := told{roles: map[string]exam.Role{}, alarms: map[string]string{}, unrun: map[string]int{}, coverage: map[string]core.LineCoverage{}}
	if r == nil {
		return t
	}
	for _, f := range r.Files {
		t.roles[f.Path] = f.Role
	}
	open := map[string]bool{}
	for _, f := range r.Open() {
		open[f.ID] = true
	}
	for _, f := range r.Findings {
		if f.Path != "" && f.NeedsAck && (open[f.ID] || t.alarms[f.Path] == "") {
			t.alarms[f.Path] = f.Text
		}
	}
	if r.Coverage != nil && r.Coverage.Measured {
		for _, f := range r.Coverage.Files {
			t.coverage[f.Path] = core.LineCoverage{Hit: f.Covered, Of: f.Changed}
			t.unrun[f.Path] = f.Changed - f.Covered
		}
		for _, span := range r.Coverage.Unrun { // of evidence without counts by file
			if i := strings.LastIndexByte(span, ':'); i > 0 && t.coverage[span[:i]].Of == 0 {
				t.unrun[span[:i]]++
			}
		}
	}
	for _, c := range r.Checks {
		t.claims = t.claims || c.Classes[exam.ClassFixed]+c.Classes[exam.ClassNew] > 0
	}
	return t
}

// read says what a file is to a reader, and writes it into the item.
func (s *Service) read(f mirror.Compared, out *core.DiffFile, t told) reading.File {
	proof, known := t.roles[f.Path]
	if !known {
		proof = exam.RoleOf(f.Path)
	}
	protected := slices.ContainsFunc(s.opts.Protected, func(glob string) bool {
		return codechange.GlobMatch(glob, f.Path) || f.OldPath != "" && codechange.GlobMatch(glob, f.OldPath)
	})
	role, decides := reading.RoleOf(f.Path, string(proof), protected)
	out.Role = string(role)
	if c, ok := t.coverage[f.Path]; ok {
		out.Coverage = &c
	}
	one := reading.File{
		Path: f.Path, Role: role, Decides: decides, Alarm: t.alarms[f.Path], Unrun: t.unrun[f.Path], Lines: out.Added + out.Removed,
		Shown: out.Kind == kindText || out.Kind == kindSymlink, Data: proof == exam.RoleTestData,
	}
	switch {
	case one.Alarm != "":
		out.Why = clip(strings.ToValidUTF8(one.Alarm, "\uFFFD"), 300)
	case protected:
		out.Why = "a protected path"
	case decides && proof == exam.RoleHarness:
		out.Why = "decides how tests run"
	case one.Unrun > 0 && out.Coverage != nil:
		out.Why = fmt.Sprintf("%d of %d changed lines are run by no test", one.Unrun, out.Coverage.Of)
	}
	return one
}
