// Package reading puts the files of a change into an order for people: first
// what decides how the work is judged and what no test has run, then tests and
// code, last what nobody has to read line by line.
//
// It is pure: names, sizes and roles go in, groups come out, the same for the
// same. It reads no file and knows neither git nor proof.
//
//	for _, g := range reading.Order(files, true) { fmt.Println(g.Mode, g.Name, g.Files) }
package reading

import (
	"cmp"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
)

// Role is what a file is to a reader.
type Role string

const (
	Source    Role = "source"
	Test      Role = "test"
	CI        Role = "ci"
	Lock      Role = "lock"      // dependencies: manifests and lock files
	Rules     Role = "rules"     // for agents, reviewers, and the recipe
	Protected Role = "protected" // a path that the scope gate guards
	Generated Role = "generated"
	Vendor    Role = "vendor" // other people's code
	Docs      Role = "docs"
)

var (
	rulesRE = regexp.MustCompile(`(?i)(^|/)(agents|claude|gemini|copilot-instructions)\.md$|(^|/)\.(cursorrules|clinerules|windsurfrules|gitattributes|gitmodules)$|` +
		`(^|/)codeowners$|(^|/)\.(cursor|claude|agents)/`)
	generatedRE = regexp.MustCompile(`(?i)\.pb(\.gw)?\.go$|_pb2(_grpc)?\.pyi?$|\.min\.(js|css)$|\.(js|css)\.map$|[._](generated|gen)\.[a-z0-9]+$|\.g\.(dart|cs)$|` +
		`(^|/)(__generated__|generated)/|(^|/)zz_generated|_string\.go$|(^|/)mock_[^/]*\.go$`)
)

// RoleOf is the role of a path that the proof calls by the word proof (code,
// test, testdata, harness, script, manifest, lock, recipe, vendor, ci, doc).
// decides says that it decides how the work is judged.
func RoleOf(p, proof string, protected bool) (role Role, decides bool) {
	switch {
	case protected:
		return Protected, true
	case proof == "recipe" || rulesRE.MatchString(p):
		return Rules, true
	case proof == "ci":
		return CI, true
	case proof == "harness":
		return Test, true
	case proof == "test" || proof == "testdata":
		return Test, false
	case proof == "lock" || proof == "manifest":
		return Lock, false
	case proof == "vendor":
		return Vendor, false
	case proof == "doc":
		return Docs, false
	case generatedRE.MatchString(p):
		return Generated, false
	}
	return Source, false
}

// File is one changed file.
type File struct {
	Path    string
	Role    Role
	Decides bool   // it decides how the work is judged
	Alarm   string // what the proof says about it that a person has to see
	Unrun   int    // changed lines that no test runs
	Lines   int    // added and removed
	Shown   bool   // it has lines that can be shown
	Data    bool   // a test's data, not its cases
}

// Modes of reading.
const (
	First = "first"
	Read  = "read"
	Skim  = "skim"
)

// Group is files that are read together.
type Group struct {
	Name, Why, Mode string
	Files           []int // places in what was given
}

// maxPlaces bounds how many directories have a group of their own.
const maxPlaces = 12

// Order groups files. Every file is in exactly one group. testsFirst puts tests
// before the code: they say what is claimed, if they say something new.
func Order(files []File, testsFirst bool) []Group {
	named := map[string]*Group{}
	for i, f := range files {
		key, mode, why := place(f)
		g := named[key]
		if g == nil {
			g = &Group{Name: key, Mode: mode, Why: why}
			named[key] = g
		}
		g.Files = append(g.Files, i)
	}
	var out []Group
	take := func(names ...string) {
		for _, name := range names {
			if g := named[name]; g != nil {
				sortFiles(files, g.Files)
				out = append(out, *g)
				delete(named, name)
			}
		}
	}
	take(deciding, unrun)
	if testsFirst {
		take(tests)
	}
	for _, g := range places(files, named) {
		sortFiles(files, g.Files)
		out = append(out, g)
	}
	take(tests, dependencies, documents, generated, vendored, moved, unseen)
	return out
}

// Names of groups; code is in groups named after its directories.
const (
	deciding     = "What decides the proof"
	unrun        = "Code that no test runs"
	tests        = "Tests"
	dependencies = "Dependencies"
	documents    = "Documentation"
	generated    = "Generated files"
	vendored     = "Other people's code"
	moved        = "Moved, nothing else"
	unseen       = "Without lines to show"
	inPlace      = "dir:"
)

func place(f File) (key, mode, why string) {
	switch {
	case f.Alarm != "" || f.Decides:
		return deciding, First, "These files decide how the work is judged, or the proof asks a person to look at them"
	case !f.Shown:
		return unseen, Skim, "Binary or very large files, submodules"
	case f.Lines == 0:
		return moved, Skim, "Renamed, copied or given another mode; no line differs"
	case f.Role == Test:
		return tests, Read, "What is claimed, as cases"
	case f.Role == Lock:
		return dependencies, Skim, "What is installed; versions rather than lines"
	case f.Role == Docs:
		return documents, Skim, "Words for people"
	case f.Role == Generated:
		return generated, Skim, "Made by a program from other files"
	case f.Role == Vendor:
		return vendored, Skim, "Committed copies of other projects"
	case f.Unrun > 0:
		return unrun, First, "The tests are green without these lines"
	}
	return inPlace + directory(f.Path), Read, ""
}

// directory is the first two directories of a path.
func directory(p string) string {
	dir := path.Dir(p)
	if parts := strings.SplitN(dir, "/", 3); len(parts) > 2 {
		return parts[0] + "/" + parts[1]
	}
	return dir
}

// places are the groups of code, most changed lines first. Many small ones are
// one.
func places(files []File, named map[string]*Group) []Group {
	type sized struct {
		Group
		lines int
	}
	var list []sized
	for key, g := range named {
		dir, ok := strings.CutPrefix(key, inPlace)
		if !ok {
			continue
		}
		s := sized{Group: *g}
		if s.Name = dir; dir == "." {
			s.Name = "Top directory"
		}
		for _, i := range s.Files {
			s.lines += files[i].Lines
		}
		list = append(list, s)
	}
	slices.SortFunc(list, func(a, b sized) int {
		return cmp.Or(cmp.Compare(b.lines, a.lines), cmp.Compare(a.Name, b.Name))
	})
	var out []Group
	rest := Group{Name: "Other directories", Mode: Read}
	for i, s := range list {
		if i >= maxPlaces && len(list) > maxPlaces+1 {
			rest.Files = append(rest.Files, s.Files...)
			continue
		}
		s.Why = fmt.Sprintf("%d changed lines in %s", s.lines, count(len(s.Files), "file"))
		out = append(out, s.Group)
	}
	if len(rest.Files) > 0 {
		rest.Why = "Smaller changes in " + count(len(list)-maxPlaces, "directory")
		out = append(out, rest)
	}
	return out
}

func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	if stem, ok := strings.CutSuffix(noun, "y"); ok {
		return fmt.Sprintf("%d %sies", n, stem)
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// sortFiles puts what the proof has a word about first, then by size; data of
// tests stands behind their cases.
func sortFiles(files []File, list []int) {
	loud := func(f File) int {
		switch {
		case f.Alarm != "":
			return 0
		case f.Data:
			return 2
		}
		return 1
	}
	slices.SortStableFunc(list, func(a, b int) int {
		x, y := files[a], files[b]
		return cmp.Or(cmp.Compare(loud(x), loud(y)), cmp.Compare(y.Unrun, x.Unrun), cmp.Compare(y.Lines, x.Lines), cmp.Compare(x.Path, y.Path))
	})
}
