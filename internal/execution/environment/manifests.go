package environment

import (
	"context"
	"path"
	"regexp"
	"slices"
	"strings"

	"drydock/internal/core"
	"drydock/internal/execution/environment/recipe"
	"drydock/internal/execution/guest"
)

// manifests are the files that package managers install from.
var manifests = []string{
	"go.mod", "go.sum", "go.work", "go.work.sum", "package.json", "package-lock.json", "npm-shrinkwrap.json", "yarn.lock", "pnpm-lock.yaml", "pnpm-workspace.yaml",
	"bun.lock", "Cargo.toml", "Cargo.lock", "pyproject.toml", "poetry.lock", "uv.lock", "Pipfile", "Pipfile.lock", "setup.py", "setup.cfg",
	"Gemfile", "Gemfile.lock", "composer.json", "composer.lock", "mix.exs", "mix.lock", "pom.xml", "build.gradle", "build.gradle.kts",
	"settings.gradle", "settings.gradle.kts", "gradle.lockfile", "libs.versions.toml", "drydock.yaml",
}

var requirementsRE = regexp.MustCompile(`^requirements[a-z0-9_.-]*\.(txt|in)$`)

// IsManifest says whether dependencies are installed from this file.
func IsManifest(file string) bool {
	base := path.Base(file)
	return slices.Contains(manifests, base) || requirementsRE.MatchString(base)
}

// RunSetup runs the recipe's set-up commands again.
func (m *Machine) RunSetup(ctx context.Context, r recipe.Recipe) error {
	for _, s := range r.Setup {
		argv := s.Argv
		if len(argv) == 0 {
			argv = []string{"/bin/sh", "-e", "-c", s.Run}
		}
		timeout := s.Timeout
		if timeout == 0 {
			timeout = defaultStepTimeout
		}
		res, err := m.guest.Run(ctx, guest.Command{Argv: argv, Dir: r.Path(s.Dir), User: r.User, Timeout: timeout, Merge: true})
		if err != nil {
			return m.died(ctx, err)
		}
		if res.ExitCode != 0 {
			return &FailureError{core.Failure{
				Code: "setup_failed", Command: argv[len(argv)-1], Output: lastLines(string(res.Stdout), tailBytes),
				Message: "the recipe's setup failed at this commit", Hint: "the commit changes dependencies; look at the output",
			}}
		}
	}
	return nil
}

// Died turns an error of the guest into the driver's word when the sandbox is
// no longer there.
func (m *Machine) Died(ctx context.Context, err error) error { return m.died(ctx, err) }

// Glob finds files below dir by a pattern of slash-separated parts, in which
// "**" crosses directories. The result is bounded.
func (m *Machine) Glob(ctx context.Context, dir, pattern string) ([]guest.FileInfo, error) {
	root := dir
	parts := strings.Split(path.Clean(pattern), "/")
	// Walk only below the part without wildcards.
	for len(parts) > 1 && !strings.ContainsAny(parts[0], `*?[\`) {
		root, parts = path.Join(root, parts[0]), parts[1:]
	}
	found, err := m.guest.Walk(ctx, guest.WalkOptions{Dir: root, SkipGit: true})
	if core.Is(err, core.NotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, m.died(ctx, err)
	}
	var out []guest.FileInfo
	for _, f := range found.Files {
		if f.Mode.IsRegular() && matchParts(parts, strings.Split(strings.TrimPrefix(f.Path, root+"/"), "/")) {
			out = append(out, f)
		}
	}
	return out, nil
}

// MatchGlob matches slash-separated paths part by part; "**" stands for any
// directories.
func MatchGlob(glob, file string) bool {
	return matchParts(strings.Split(strings.TrimPrefix(glob, "/"), "/"), strings.Split(file, "/"))
}

func matchParts(glob, parts []string) bool {
	for len(glob) > 0 {
		if glob[0] == "**" {
			for i := range len(parts) + 1 {
				if matchParts(glob[1:], parts[i:]) {
					return true
				}
			}
			return false
		}
		if len(parts) == 0 {
			return false
		}
		if ok, _ := path.Match(glob[0], parts[0]); !ok {
			return false
		}
		glob, parts = glob[1:], parts[1:]
	}
	return len(parts) == 0
}
