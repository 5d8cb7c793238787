package exam

import (
	"bytes"
	"context"
	"path"
	"slices"
	"strings"

	"drydock/internal/core"
)

// plan says what the cells are made of.
type plan struct {
	needC, needD bool
	overC, overD []OverlayFile
	setup        map[Cell]bool // dependencies differ from the snapshot's
	behaviour    bool          // something that runs was changed
	tests        bool          // something of the exam was changed
	harness      []FileChange  // edited files that decide how tests run
	scripts      []FileChange  // edited scripts that a check calls
	mixed        []string      // manifests whose script or test keys changed
}

// makePlan classifies the changed files and builds the overlays of C and D.
func (e *engine) makePlan(ctx context.Context) error {
	e.plan.setup = map[Cell]bool{}
	for i := range e.result.Files {
		f := &e.result.Files[i]
		if err := e.planFile(ctx, f); err != nil {
			return err
		}
	}
	return e.planSetup(ctx)
}

func (e *engine) planFile(ctx context.Context, f *FileChange) error {
	oldPath := f.Path
	if f.Old != "" {
		oldPath = f.Old
	}
	var before, after *File
	var err error
	if f.Status != "added" {
		if before, err = e.file(ctx, e.exam.Base, oldPath); err != nil {
			return err
		}
	}
	if f.Status != "deleted" {
		if after, err = e.file(ctx, e.exam.Head, f.Path); err != nil {
			return err
		}
	}
	f.Role = e.role(f.Path, oldPath, before, after)
	switch {
	case f.Role.tests():
		e.plan.tests = true
		if f.Role == RoleHarness {
			e.plan.harness = append(e.plan.harness, *f)
		}
		e.overlayC(f, oldPath, before)
		e.overlayD(f, oldPath, after)
	case f.Role == RoleManifest:
		e.plan.behaviour = true
		e.overlayManifest(f, before, after)
	case f.Role == RoleScript:
		e.plan.behaviour = true
		if e.used(oldPath) && f.Status != "added" {
			e.plan.scripts = append(e.plan.scripts, *f)
			e.overlayC(f, oldPath, before)
		}
	case f.Role == RoleLock, f.Role == RoleVendor:
		e.plan.behaviour = true
	case f.Role == RoleCode:
		e.plan.behaviour = true
		e.inlineRust(f, before, after)
	}
	return nil
}

// role takes the stricter of what the old and the new file are.
func (e *engine) role(p, oldPath string, before, after *File) Role {
	role := classify(p, e.exam.RecipePath)
	if oldPath != p {
		if old := classify(oldPath, e.exam.RecipePath); strictness(old) > strictness(role) {
			role = old
		}
	}
	for _, f := range []*File{before, after} {
		if f != nil {
			if r := roleByContent(p, role, f.Data); strictness(r) > strictness(role) {
				role = r
			}
		}
	}
	if role == RoleCode && (e.used(p) || e.used(oldPath)) && !isProgram(p) {
		role = RoleScript
	}
	return role
}

// isProgram is true of programs that are themselves what a check examines: a
// check that names a source file runs it.
func isProgram(p string) bool {
	switch strings.ToLower(path.Ext(p)) {
	case ".sh", ".bash", ".zsh", ".ps1", ".bat", ".mk", "":
		return false
	}
	return true
}

// runners are the commands that read a build file without naming it.
var runners = map[string]string{
	"makefile": "make", "gnumakefile": "make", "justfile": "just", "taskfile.yml": "task", "taskfile.yaml": "task",
	"rakefile": "rake", "gulpfile.js": "gulp", "gruntfile.js": "grunt", "magefile.go": "mage", "cmakelists.txt": "cmake",
	"meson.build": "meson", "earthfile": "earthly",
}

// used reports whether a check's command names a file or its runner.
func (e *engine) used(p string) bool {
	runner := runners[strings.ToLower(path.Base(p))]
	for _, c := range e.exam.Checks {
		if runner != "" && slices.Contains(words(c.Run), runner) {
			return true
		}
		if runner == "" && slices.ContainsFunc(words(c.Run), func(w string) bool {
			w = strings.TrimPrefix(w, "./")
			return w == p || c.Dir != "" && path.Join(c.Dir, w) == p
		}) {
			return true
		}
	}
	return false
}

func words(shell string) []string {
	return strings.FieldsFunc(shell, func(r rune) bool { return strings.ContainsRune(" \t\n;&|()<>\"'`=", r) })
}

func strictness(r Role) int {
	return slices.Index([]Role{RoleDoc, RoleCI, RoleCode, RoleVendor, RoleLock, RoleManifest, RoleScript, RoleTestData, RoleTest, RoleHarness, RoleRecipe}, r)
}

func (e *engine) file(ctx context.Context, commit, p string) (*File, error) {
	f, err := e.deps.Repo.File(ctx, commit, p)
	switch {
	case core.Is(err, core.NotFound): // a submodule
		return nil, nil
	case err != nil:
		return nil, err
	}
	return &f, nil
}

// overlayC brings the base's version of an exam file.
func (e *engine) overlayC(f *FileChange, oldPath string, before *File) {
	if f.Status == "added" && f.Role != RoleHarness {
		// A new test changes nothing about the old ones; it only has to go if C
		// runs for another reason.
		e.plan.overC = append(e.plan.overC, OverlayFile{Path: f.Path, Delete: true})
		return
	}
	e.plan.needC = true
	if before == nil || oldPath != f.Path {
		e.plan.overC = append(e.plan.overC, OverlayFile{Path: f.Path, Delete: true})
	}
	if before != nil {
		e.plan.overC = append(e.plan.overC, OverlayFile{Path: oldPath, Data: before.Data, Mode: before.Mode})
	}
}

// overlayD brings the branch's version of an exam file to the old code.
func (e *engine) overlayD(f *FileChange, oldPath string, after *File) {
	if f.Status != "deleted" {
		e.plan.needD = true
	}
	if after == nil || oldPath != f.Path {
		e.plan.overD = append(e.plan.overD, OverlayFile{Path: oldPath, Delete: true})
	}
	if after != nil {
		e.plan.overD = append(e.plan.overD, OverlayFile{Path: f.Path, Data: after.Data, Mode: after.Mode})
	}
}

// overlayManifest keeps the branch's dependencies in C and takes back the
// keys that say how tests run. D has the base's manifest as it is.
func (e *engine) overlayManifest(f *FileChange, before, after *File) {
	if after == nil {
		return
	}
	var old []byte
	if before != nil {
		old = before.Data
	}
	merged, changed := withBaseHarness(f.Path, old, after.Data)
	if !changed || bytes.Equal(merged, after.Data) {
		return
	}
	e.plan.needC = true
	e.plan.mixed = append(e.plan.mixed, f.Path)
	e.plan.overC = append(e.plan.overC, OverlayFile{Path: f.Path, Data: merged, Mode: after.Mode})
}

// inlineRust exchanges the test modules that stand inside Rust source files.
func (e *engine) inlineRust(f *FileChange, before, after *File) {
	if before == nil || after == nil || f.Old != "" || len(f.Path) < 3 || f.Path[len(f.Path)-3:] != ".rs" {
		return
	}
	oldCode, oldTests, _ := splitRust(before.Data)
	newCode, newTests, _ := splitRust(after.Data)
	if oldTests == newTests {
		return
	}
	e.plan.tests = true
	if oldTests != "" {
		e.plan.needC = true
		e.plan.overC = append(e.plan.overC, OverlayFile{Path: f.Path, Data: []byte(newCode + "\n" + oldTests + "\n"), Mode: after.Mode})
	}
	if newTests != "" {
		e.plan.needD = true
		e.plan.overD = append(e.plan.overD, OverlayFile{Path: f.Path, Data: []byte(oldCode + "\n" + newTests + "\n"), Mode: before.Mode})
	}
	if oldCode == newCode {
		f.Role = RoleTest
	}
}

// planSetup finds the cells whose dependencies are not the snapshot's.
func (e *engine) planSetup(ctx context.Context) error {
	for _, side := range []struct {
		commit string
		cells  []Cell
	}{{e.exam.Base, []Cell{CellA, CellD}}, {e.exam.Head, []Cell{CellB, CellC}}} {
		if side.commit == e.exam.SnapshotCommit {
			continue
		}
		changes, err := e.deps.Repo.Changes(ctx, e.exam.SnapshotCommit, side.commit)
		if core.Is(err, core.NotFound) {
			e.note("commit %s of the snapshot is not in the repository; dependencies are installed again", e.exam.SnapshotCommit)
			changes, err = []FileChange{{Path: "package.json"}}, nil
		}
		if err != nil {
			return err
		}
		for _, c := range changes {
			if classify(c.Path, e.exam.RecipePath).dependencies() {
				for _, cell := range side.cells {
					e.plan.setup[cell] = true
				}
			}
		}
	}
	if len(e.plan.setup) > 0 && e.exam.Setup == "" {
		e.note("dependencies differ from the snapshot's and the recipe has no setup command: checks must install them themselves")
	}
	return nil
}
