package environment

import (
	"path"
	"regexp"
	"slices"
)

// manifests are the files that package managers install from.
var manifests = []string{
	"go.mod", "go.sum", "go.work", "go.work.sum", "package.json", "package-lock.json", "npm-shrinkwrap.json", "yarn.lock", "pnpm-lock.yaml", "pnpm-workspace.yaml",
	"bun.lock", "Cargo.toml", "Cargo.lock", "pyproject.toml", "poetry.lock", "uv.lock", "Pipfile", "Pipfile.lock", "setup.py", "setup.cfg",
	"Gemfile", "Gemfile.lock", "composer.json", "composer.lock", "mix.exs", "mix.lock", "pom.xml", "build.gradle", "build.gradle.kts",
	"settings.gradle", "settings.gradle.kts", "gradle.lockfile", "libs.versions.toml", "deno.json", "deno.lock", ".npmrc", ".yarnrc.yml",
	// The versions of tools that they are run with.
	".nvmrc", ".node-version", ".python-version", ".ruby-version", ".tool-versions", "rust-toolchain", "rust-toolchain.toml",
}

var requirementsRE = regexp.MustCompile(`^requirements[a-z0-9_.-]*\.(txt|in)$`)

// IsManifest says whether dependencies are installed from this file.
func IsManifest(file string) bool {
	base := path.Base(file)
	return slices.Contains(manifests, base) || requirementsRE.MatchString(base)
}
