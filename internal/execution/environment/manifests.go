package environment

import (
	"context"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"

	"drydock/internal/core"
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

// RunSetup runs the recipe's set-up commands again, where dependencies moved.
func (m *Machine) RunSetup(ctx context.Context) error {
	for _, s := range m.recipe.Setup {
		argv := s.Argv
		if len(argv) == 0 {
			argv = []string{"/bin/sh", "-e", "-c", s.Run}
		}
		timeout := s.Timeout
		if timeout == 0 {
			timeout = setupTimeout
		}
		res, err := m.guest.Run(ctx, guest.Command{Argv: argv, Dir: m.recipe.Path(s.Dir), User: m.User(), Timeout: timeout, Merge: true})
		if err != nil {
			return m.Explain(ctx, err)
		}
		if res.ExitCode != 0 {
			out := strings.ToValidUTF8(string(res.Stdout), "?")
			return core.E("environment.setup", core.Conflict, nil, "the recipe's setup ended with %d: %s", res.ExitCode, out[max(0, len(out)-2000):]).
				WithHint("the commit changes dependencies; setup must work for it too")
		}
	}
	return nil
}

const setupTimeout = 30 * time.Minute
