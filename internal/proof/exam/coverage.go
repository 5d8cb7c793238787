package exam

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/bluekeyes/go-gitdiff/gitdiff"
	"golang.org/x/tools/cover"

	"drydock/internal/proof/check"
)

// profileName lies in the repository so that a room can be asked for it.
const (
	profileName = ".drydock-cover.out"
	coverMost   = 10 * time.Minute
	maxProfile  = 64 << 20
)

var goTestRE = regexp.MustCompile(`(^|[;&|(\s])go\s+test\b`)

// measure takes a cover profile in the room of cell B after its checks: one
// more run of each go test check with a profile asked for through GOFLAGS,
// which only go test reads. The run's outcome decides nothing, and a run that
// fails only leaves the lines unmeasured.
func (e *engine) measure(ctx context.Context, room Room) {
	if e.opts.NoCoverage || !e.changedGo() {
		return
	}
	for _, c := range e.exam.Checks {
		if e.sources[c.Name].Format != check.FormatGoTest || !goTestRE.MatchString(c.Run) || strings.Contains(c.Run, "-coverprofile") {
			continue
		}
		run := e.first(CellB, c.Name)
		if run == nil || run.Record.TimedOut || run.Record.Counts.Passed == 0 {
			continue
		}
		if err := e.profileOf(ctx, room, c, run.Record.Duration); err != nil {
			e.coverWhy = fmt.Sprintf("the measuring run of check %s failed: %v", c.Name, err)
		}
		e.coverCheck = c
		return // one check is enough; several profiles would cost several runs
	}
}

func (e *engine) first(cell Cell, name string) *checkRun {
	e.mu.Lock()
	defer e.mu.Unlock()
	if runs := e.runs[cell][name]; len(runs) > 0 {
		return runs[0]
	}
	return nil
}

func (e *engine) changedGo() bool {
	return slices.ContainsFunc(e.result.Files, func(f FileChange) bool {
		return f.Role == RoleCode && f.Status != "deleted" && strings.HasSuffix(f.Path, ".go")
	})
}

// emptyAtBase measures the base when the branch's profile is empty: tests that
// only start programs never fill one, and that is no fault of the change.
func (e *engine) emptyAtBase(ctx context.Context) bool {
	room, err := e.openRoom(ctx, RoomRequest{Cell: CellA, Try: 1, Checks: []string{e.coverCheck.Name}, Commit: e.exam.Base, Services: e.exam.Services})
	if err != nil {
		e.note("the base's coverage could not be measured: %v", err)
		return true
	}
	defer e.closeRoom(ctx, room)
	branch := e.profile
	defer func() { e.profile = branch }()
	e.profile = nil
	if err := e.profileOf(ctx, room, e.coverCheck, coverMost/10); err != nil {
		e.note("the base's coverage could not be measured: %v", err)
		return true
	}
	profiles, err := cover.ParseProfilesFromReader(bytes.NewReader(e.profile))
	return err != nil || nothingRan(profiles)
}

func (e *engine) profileOf(ctx context.Context, room Room, c CheckSpec, took time.Duration) error {
	if err := room.Remove(ctx, []string{profileName}); err != nil {
		return err
	}
	target := path.Join(room.Root(), profileName)
	out, err := room.Run(ctx, Command{
		Shell: fmt.Sprintf("export GOFLAGS=\"${GOFLAGS:+$GOFLAGS }-coverpkg=./... -coverprofile=%s\"\n%s", target, c.Run),
		Dir:   c.Dir, Timeout: min(coverMost, 10*took+2*time.Minute),
	})
	switch {
	case err != nil:
		return err
	case out.Died != "":
		return errors.New(out.Died)
	case out.TimedOut:
		return errors.New("it took too long")
	}
	files, err := room.Files(ctx, []string{profileName}, maxProfile)
	if err != nil {
		return err
	}
	if len(files) != 1 || files[0].Cut {
		return errNoProfile
	}
	e.profile = files[0].Data
	return room.Remove(ctx, []string{profileName})
}

// coverage holds the profile against the changed lines.
func (e *engine) coverage(ctx context.Context) error {
	if !e.plan.behaviour {
		return nil
	}
	c := &Coverage{Why: e.coverWhy}
	e.result.Coverage = c
	switch {
	case e.opts.NoCoverage:
		c.Why = "switched off"
	case len(e.profile) == 0 && c.Why == "":
		c.Why = "no check of this recipe can tell it"
	}
	if len(e.profile) == 0 {
		return nil
	}
	profiles, err := cover.ParseProfilesFromReader(bytes.NewReader(e.profile))
	if err != nil {
		c.Why = fmt.Sprintf("the profile cannot be read: %s", clip(err.Error(), 200))
		return nil
	}
	c.Measured, c.Why = true, ""
	c.Empty = nothingRan(profiles) && !e.emptyAtBase(ctx)
	var paths []string
	for _, f := range e.result.Files {
		if f.Role == RoleCode && f.Status != "deleted" && codeLike(f.Path) {
			paths = append(paths, f.Path)
		}
	}
	if len(paths) == 0 {
		return nil
	}
	for _, file := range e.patch(ctx, paths) {
		c.add(file, profileFor(profiles, file.NewName))
	}
	return ctx.Err()
}

// nothingRan is true of a profile in which no line ran: the mark of a test
// binary that only says that it ran tests.
func nothingRan(profiles []*cover.Profile) bool {
	for _, p := range profiles {
		for _, b := range p.Blocks {
			if b.Count > 0 {
				return false
			}
		}
	}
	return true
}

// profileFor finds a file in a profile that speaks of import paths: the one
// whose end is the file's path. A file that is not there has no data, which is
// neither covered nor uncovered.
func profileFor(profiles []*cover.Profile, name string) *cover.Profile {
	var found *cover.Profile
	best := 0
	for _, p := range profiles {
		n := commonTail(p.FileName, name)
		if n > best {
			found, best = p, n
		}
	}
	if found == nil || path.Base(found.FileName) != path.Base(name) {
		return nil
	}
	// All of the repository's path must be there, or all of the profile's below
	// its module.
	if want := strings.Count(name, "/") + 1; best < want && best < strings.Count(found.FileName, "/") {
		return nil
	}
	return found
}

func commonTail(a, b string) int {
	x, y := strings.Split(a, "/"), strings.Split(b, "/")
	n := 0
	for n < len(x) && n < len(y) && x[len(x)-1-n] == y[len(y)-1-n] {
		n++
	}
	return n
}

func (c *Coverage) add(file *gitdiff.File, p *cover.Profile) {
	if p == nil {
		if strings.HasSuffix(file.NewName, ".go") && len(c.NoData) < 200 {
			c.NoData = append(c.NoData, file.NewName)
		}
		return
	}
	var unrun []int
	one := FileCoverage{Path: file.NewName}
	for _, frag := range file.TextFragments {
		line := int(frag.NewPosition)
		for _, l := range frag.Lines {
			if l.Op != gitdiff.OpAdd {
				continue
			}
			if code, ran := covered(p, line); code {
				one.Changed++
				if ran {
					one.Covered++
				} else {
					unrun = append(unrun, line)
				}
			}
			line++
		}
	}
	c.Unrun = append(c.Unrun, spans(file.NewName, unrun)...)
	c.Changed += one.Changed
	c.Covered += one.Covered
	if one.Changed > 0 {
		c.Files = append(c.Files, one)
	}
}

func covered(p *cover.Profile, line int) (code, ran bool) {
	for _, b := range p.Blocks {
		if line >= b.StartLine && line <= b.EndLine {
			code = true
			ran = ran || b.Count > 0
		}
	}
	return code, ran
}

// spans writes line numbers as "file:3-5".
func spans(name string, lines []int) []string {
	var out []string
	for i := 0; i < len(lines); {
		j := i
		for j+1 < len(lines) && lines[j+1] == lines[j]+1 {
			j++
		}
		if i == j {
			out = append(out, fmt.Sprintf("%s:%d", name, lines[i]))
		} else {
			out = append(out, fmt.Sprintf("%s:%d-%d", name, lines[i], lines[j]))
		}
		i = j + 1
	}
	return out
}

func (c *Coverage) notShown() []string {
	if !c.Measured {
		return []string{"which changed lines the tests run: coverage was not measured (" + c.Why + ")"}
	}
	var out []string
	if len(c.Unrun) > 0 {
		out = append(out, fmt.Sprintf("%d of %d changed lines with code, which no test runs: %s", c.Changed-c.Covered, c.Changed, list(c.Unrun, 10)))
	}
	if len(c.NoData) > 0 {
		out = append(out, "no coverage data for "+list(c.NoData, 10))
	}
	return out
}

var errNoProfile = errors.New("it left no profile")
