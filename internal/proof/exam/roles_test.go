package exam

import (
	"strings"
	"testing"
)

func TestClassify(t *testing.T) {
	for role, paths := range map[Role][]string{
		RoleTest:     {"a_test.go", "src/a.test.ts", "tests/test_x.py", "spec/a_spec.rb", "src/test/java/ATest.java", "test/helper.js"},
		RoleTestData: {"testdata/a.json", "src/__snapshots__/a.snap", "tests/fixtures/x.txt", "tests/data.csv", "a.golden", "testdata/package.json"},
		RoleHarness: {
			"conftest.py", "pkg/conftest.py", "pytest.ini", "tox.ini", "jest.config.js", "vitest.config.mts", "babel.config.js", ".mocharc.yml",
			"sitecustomize.py", "evil.pth", "spec/spec_helper.rb", "phpunit.xml", "src/setupTests.js", "jest.setup.ts", ".config/nextest.toml", "playwright.config.ts",
		},
		RoleScript:   {"Makefile", "Rakefile", "justfile", "sub/Makefile", "Dockerfile"},
		RoleManifest: {"package.json", "go.mod", "web/package.json", "requirements-dev.txt", "pyproject.toml", "pom.xml", "Cargo.toml", "a.csproj"},
		RoleLock:     {"package-lock.json", "go.sum", "yarn.lock", "Cargo.lock", "poetry.lock", "uv.lock", "Gemfile.lock"},
		RoleRecipe:   {"drydock.yaml", ".devcontainer/devcontainer.json"},
		RoleVendor:   {"vendor/github.com/x/y_test.go", "node_modules/jest/jest.config.js", "third_party/a.c"},
		RoleCI:       {".github/workflows/ci.yml", ".gitlab-ci.yml", ".ci/run"},
		RoleDoc:      {"README.md", "docs/a.txt", "LICENSE", "docs/pic.png", "CHANGELOG.md", ".gitignore", "README.txt"},
		RoleCode:     {"main.go", "src/a.ts", "words.txt", "contest.py", "latest/a.go", "public/robots.txt", "style.css", "db/schema.sql", "config.yaml", "src/license.ts", "src/history.go"},
	} {
		for _, p := range paths {
			if got := classify(p, "drydock.yaml"); got != role {
				t.Errorf("%s is %s, want %s", p, got, role)
			}
		}
	}
}

func TestRoleByContent(t *testing.T) {
	for _, test := range []struct {
		path, text string
		want       Role
	}{
		{"a_test.go", "package a\n\nfunc TestMain(m *testing.M) {}\n", RoleHarness},
		{"a_test.go", "package a\n\nfunc TestMainly(t *testing.T) {}\n", RoleTest},
		{"checks/price.mjs", "import test from 'node:test';\n", RoleTest},
		{"checks/price.py", "import pytest\n", RoleTest},
		{"price.py", "x = 1\n", RoleCode},
	} {
		if got := roleByContent(test.path, classify(test.path, ""), []byte(test.text)); got != test.want {
			t.Errorf("%s with %q is %s, want %s", test.path, test.text, got, test.want)
		}
	}
}

func TestManifestKeepsTheBaseHarness(t *testing.T) {
	tests := map[string]struct {
		path, base, branch, want string // want "" means nothing changed
	}{
		"dependencies only": {"package.json", `{"scripts": {"test": "jest"}, "dependencies": {"a": "1"}}`, `{"scripts": {"test": "jest"}, "dependencies": {"a": "2"}}`, ""},
		"a script edited":   {"package.json", `{"scripts": {"test": "jest"}}`, `{"scripts": {"test": "true"}, "exports": {"b": 1, "a": 2}}`, `"test": "jest"`},
		"a script added":    {"package.json", `{"scripts": {"test": "jest"}}`, `{"scripts": {"test": "jest", "css": "x"}}`, ""},
		"a hook added":      {"package.json", `{"scripts": {"test": "jest"}}`, `{"scripts": {"test": "jest", "pretest": "rm -r test"}}`, `"test": "jest"`},
		"a config added":    {"package.json", `{}`, `{"jest": {"testMatch": []}}`, "{}"},
		"not JSON":          {"package.json", `{}`, `{{{`, ""},
		"pytest options":    {"pyproject.toml", "[project]\nversion = \"1\"\n[tool.pytest.ini_options]\naddopts = \"-x\"\n", "[project]\nversion = \"2\"\n[tool.pytest.ini_options]\naddopts = \"--co\"\n", "addopts = \"-x\""},
		"version only":      {"pyproject.toml", "[project]\nversion = \"1\"\n[tool.pytest.ini_options]\naddopts = \"-x\"\n", "[project]\nversion = \"2\"\n\n[tool.pytest.ini_options]\naddopts = \"-x\"\n", ""},
		"go.mod":            {"go.mod", "module a\n", "module b\n", ""},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got, changed := withBaseHarness(test.path, []byte(test.base), []byte(test.branch))
			if changed != (test.want != "") || !strings.Contains(string(got), test.want) {
				t.Errorf("changed %v:\n%s", changed, got)
			}
			if !changed && string(got) != test.branch {
				t.Errorf("rewritten:\n%s", got)
			}
		})
	}
}

func TestRustModules(t *testing.T) {
	const file = "pub fn a() -> char { '}' } // }\n\n#[cfg(test)]\nmod tests {\n    use super::*;\n    #[test]\n    fn t() { assert_eq!(a(), '}'); let s = \"}\\\"}\"; let r = r#\"}\"}\"#; }\n}\npub fn b() {}\n"
	code, tests, ok := splitRust([]byte(file))
	if !ok || strings.Contains(code, "mod tests") || !strings.Contains(code, "pub fn b()") || !strings.HasSuffix(tests, "}\n}") {
		t.Errorf("%v\ncode:\n%s\ntests:\n%s", ok, code, tests)
	}
	if _, _, ok := splitRust([]byte("#[cfg(test)]\nmod tests {\n")); ok {
		t.Error("a module without an end was cut")
	}
}

func FuzzManifest(f *testing.F) {
	f.Add("package.json", `{"scripts":{"test":"a"}}`, `{"scripts":{"test":"b"}}`)
	f.Add("pyproject.toml", "[tool.pytest]\nx=1\n", "[a]\n")
	f.Fuzz(func(t *testing.T, path, base, branch string) {
		merged, changed := withBaseHarness(path, []byte(base), []byte(branch))
		if !changed && string(merged) != branch {
			t.Error("rewritten although nothing changed")
		}
		if changed {
			if _, again := withBaseHarness(path, []byte(base), merged); again {
				t.Errorf("%q still differs from the base's harness", merged)
			}
		}
	})
}

func FuzzSplitRust(f *testing.F) {
	f.Add("fn a() {}\n#[cfg(test)]\nmod tests { fn b() { \"}\" } }\n")
	f.Fuzz(func(t *testing.T, s string) {
		code, tests, ok := splitRust([]byte(s))
		if len(code)+len(tests) != len(s) || ok != (tests != "") {
			t.Error("bytes were lost")
		}
	})
}
