package exam

import (
	"path"
	"regexp"
	"slices"
	"strings"

	"drydock/internal/proof/check"
)

// Role says what a file is to the exam.
type Role string

const (
	RoleCode     Role = "code"     // behaviour
	RoleTest     Role = "test"     // cases
	RoleTestData Role = "testdata" // fixtures, golden files, snapshots, cassettes
	RoleHarness  Role = "harness"  // decides how tests run: conftest.py, jest.config.js, a TestMain
	RoleScript   Role = "script"   // build files and scripts a check may call: Makefile, justfile
	RoleManifest Role = "manifest" // declares dependencies, and in some languages scripts
	RoleLock     Role = "lock"     // pins dependencies
	RoleRecipe   Role = "recipe"   // the environment file itself
	RoleVendor   Role = "vendor"   // other people's code, committed
	RoleCI       Role = "ci"
	RoleDoc      Role = "doc"
)

// tests reports whether the role belongs to the exam and not to what is
// examined.
func (r Role) tests() bool { return r == RoleTest || r == RoleTestData || r == RoleHarness }

func (r Role) dependencies() bool { return r == RoleManifest || r == RoleLock }

var (
	lockNames = []string{
		"package-lock.json", "npm-shrinkwrap.json", "yarn.lock", "pnpm-lock.yaml", "bun.lockb", "bun.lock",
		"go.sum", "go.work.sum", "cargo.lock", "poetry.lock", "uv.lock", "pdm.lock", "pipfile.lock", "gemfile.lock",
		"composer.lock", "mix.lock", "packages.lock.json", "gradle.lockfile", "pubspec.lock", "podfile.lock",
		"package.resolved", "flake.lock", "deno.lock", "conda-lock.yml", "stack.yaml.lock", "rebar.lock",
	}
	manifestNames = []string{
		"package.json", "go.mod", "go.work", "cargo.toml", "pyproject.toml", "setup.py", "setup.cfg", "pipfile",
		"gemfile", "composer.json", "mix.exs", "pom.xml", "build.gradle", "build.gradle.kts", "settings.gradle",
		"settings.gradle.kts", "pubspec.yaml", "podfile", "package.swift", "deno.json", "deno.jsonc",
		"environment.yml", "stack.yaml", "rebar.config", "directory.packages.props", "libs.versions.toml", ".npmrc",
		"pnpm-workspace.yaml",
	}
	manifestRE = regexp.MustCompile(`(?i)(^|/)(requirements|constraints)[^/]*\.(txt|in)$|\.(gemspec|csproj|fsproj|cabal)$`)
	harnessRE  = regexp.MustCompile(`(?i)(^|/)(` + strings.Join([]string{
		`conftest\.py`, `pytest\.ini`, `\.pytest\.ini`, `tox\.ini`, `noxfile\.py`, `sitecustomize\.py`, `usercustomize\.py`,
		`\.coveragerc`, `[^/]+\.pth`,
		`(jest|vitest|vite|babel|mocha|karma|ava|playwright|cypress|nightwatch|protractor|wdio|jasmine|web-test-runner|tap|nyc)([._-][\w.-]+)?\.(config|conf|setup|preset)(\.[\w-]+)*\.([cm]?[jt]s|json)`,
		`(jest|vitest|test|tests)[._-]?(setup|globals?|env|environment|helper)s?\.[cm]?[jt]sx?`, `setup[._-]?tests?\.[cm]?[jt]sx?`,
		`\.mocharc(\.[\w]+)?`, `\.babelrc(\.[\w]+)?`, `\.nycrc(\.[\w]+)?`, `\.taprc`, `\.c8rc(\.json)?`, `jasmine\.json`,
		`\.rspec`, `(spec|rails|test)_helper\.rb`, `phpunit(\.dist)?\.xml(\.dist)?`, `(tests/)?bootstrap\.php`,
		`junit-platform\.properties`, `nextest\.toml`, `test_helper\.exs`, `ctesttestfile\.cmake`, `karma\.conf\.js`,
		`codeception\.yml`, `behat\.yml`, `dart_test\.yaml`, `xunit\.runner\.json`, `\.runsettings`,
	}, "|") + `)$|(^|/)(__mocks__)/|(^|/)\.config/nextest\.toml$`)
	scriptNames = []string{
		"makefile", "gnumakefile", "justfile", "taskfile.yml", "taskfile.yaml", "rakefile", "gulpfile.js", "gruntfile.js",
		"build.sh", "dockerfile", "cmakelists.txt", "meson.build", "magefile.go", "tiltfile", "earthfile", "procfile", ".envrc",
	}
	testDataRE = regexp.MustCompile(`(?i)(^|/)(testdata|test-data|test_data|fixtures?|__fixtures__|__snapshots__|snapshots|cassettes|golden|goldens|__image_snapshots__|mocks)/|` +
		`\.(snap|golden|approved\.[\w]+|ambr)$|(^|/)src/(test|it)/resources/`)
	vendorRE = regexp.MustCompile(`(^|/)(vendor|node_modules|third_party|\.yarn/(cache|releases|plugins))/|^\.pnp\.`)
	ciRE     = regexp.MustCompile(`(?i)^(\.github/(workflows|actions)/|\.gitlab-ci|\.circleci/|\.travis\.yml|azure-pipelines|jenkinsfile|\.drone\.yml|` +
		`\.woodpecker|\.buildkite/|bitbucket-pipelines|\.ci/|appveyor\.yml|\.cirrus\.yml|\.gitea/workflows/|\.forgejo/workflows/)`)
	docRE = regexp.MustCompile(`(?i)\.(md|mdx|markdown|rst|adoc|asciidoc|pdf|odt)$|(^|/)docs?/.*\.txt$|(^|/)(readme|licen[cs]e|copying|notice|authors|contributors|changelog|` +
		`changes|history|news|codeowners|maintainers|code_of_conduct|security)([.-][\w.]+)?$|^docs?/.*\.(png|jpe?g|gif|svg|html|css|drawio|mmd|puml)$|` +
		`^\.github/(issue_template|pull_request_template|funding)|(^|/)\.(gitignore|gitattributes|mailmap|editorconfig)$`)
)

// RoleOf says what a path is by its name alone, with the usual recipe; what is
// in the file can make it another.
func RoleOf(p string) Role { return classify(p, "drydock.yaml") }

// classify says what a path is. Content can make it a harness file: see
// harnessContent.
func classify(p, recipe string) Role {
	base := strings.ToLower(path.Base(p))
	switch {
	case p == recipe || p == "devcontainer.json" || strings.HasPrefix(p, ".devcontainer"):
		return RoleRecipe
	case vendorRE.MatchString(p):
		return RoleVendor
	case slices.Contains(lockNames, base):
		return RoleLock
	case harnessRE.MatchString(p):
		return RoleHarness
	case slices.Contains(manifestNames, base) || manifestRE.MatchString(p):
		if testDataRE.MatchString(p) {
			return RoleTestData
		}
		return RoleManifest
	case ciRE.MatchString(p):
		return RoleCI
	case testDataRE.MatchString(p):
		return RoleTestData
	case check.IsTestPath(p):
		if codeLike(p) {
			return RoleTest
		}
		return RoleTestData
	case slices.Contains(scriptNames, base):
		return RoleScript
	case docRE.MatchString(p) && !codeLike(p):
		return RoleDoc
	}
	return RoleCode
}

var codeRE = regexp.MustCompile(`(?i)\.(go|[cm]?[jt]sx?|py|rb|exs?|erl|hs|ml|dart|c|cc|cpp|cxx|h|hpp|rs|php|lua|jl|sh|bash|clj[cs]?|` +
	`java|kts?|scala|groovy|cs|fs|vb|swift|mm?|pl|pm|t|bats|feature|vue|svelte|sql|r|nim|zig|cr|elm|robot)$`)

func codeLike(p string) bool { return codeRE.MatchString(p) }

var (
	goTestMainRE = regexp.MustCompile(`(?m)^func TestMain\s*\(`)
	testImportRE = regexp.MustCompile(`(?m)^\s*(import|from)\b[^\n]*['"](vitest|@jest/globals|node:test|mocha|ava|tap|@playwright/test|bun:test)['"]|` +
		`require\(['"](node:test|mocha|ava|tap|@jest/globals)['"]\)|^\s*class \w+\((unittest\.)?TestCase\)|^\s*(import pytest\b|from pytest import)|` +
		`^use PHPUnit\\Framework\\TestCase;|^import org\.junit\.|^require ['"]minitest/autorun['"]`)
	rustTestsRE = regexp.MustCompile(`(?m)^[ \t]*#\[cfg\((?:all\()?test\b[^\]]*\]\s*(?:#\[[^\]]*\]\s*)*(?:pub(?:\([^)]*\))?\s+)?mod\s+(\w+)\s*\{`)
)

// roleByContent refines a path's role by what is in the file.
func roleByContent(p string, role Role, data []byte) Role {
	switch {
	case role == RoleTest && strings.HasSuffix(p, "_test.go") && goTestMainRE.Match(data):
		return RoleHarness
	case role == RoleCode && codeLike(p) && testImportRE.Match(data):
		return RoleTest
	}
	return role
}

// splitRust cuts the inline test module out of a Rust file.
func splitRust(data []byte) (code, tests string, ok bool) {
	text := string(data)
	at := rustTestsRE.FindStringIndex(text)
	if at == nil {
		return text, "", false
	}
	end := closingBrace(text, at[1])
	if end < 0 {
		return text, "", false
	}
	return text[:at[0]] + text[end:], text[at[0]:end], true
}

// closingBrace finds the end of a block whose opening brace ends at from,
// past strings, characters and comments.
func closingBrace(s string, from int) int {
	depth := 1
	for i := from; i < len(s); i++ {
		switch s[i] {
		case '{':
			depth++
		case '}':
			if depth--; depth == 0 {
				return i + 1
			}
		case '/':
			if strings.HasPrefix(s[i:], "//") {
				if n := strings.IndexByte(s[i:], '\n'); n >= 0 {
					i += n
				} else {
					return -1
				}
			}
		case '\'':
			// A character, not a lifetime: '{' or '\n'.
			if i+2 < len(s) && s[i+2] == '\'' {
				i += 2
			} else if i+3 < len(s) && s[i+1] == '\\' && s[i+3] == '\'' {
				i += 3
			}
		case '"':
			if i > 0 && (s[i-1] == 'r' || s[i-1] == '#') {
				hashes := 0
				for j := i - 1; j >= 0 && s[j] == '#'; j-- {
					hashes++
				}
				mark := `"` + strings.Repeat("#", hashes)
				if n := strings.Index(s[i+1:], mark); n >= 0 {
					i += n + len(mark)
					continue
				}
				return -1
			}
			for i++; i < len(s) && s[i] != '"'; i++ {
				if s[i] == '\\' {
					i++
				}
			}
		}
	}
	return -1
}
