package exam

import (
	"bytes"
	"encoding/json"
	"path"
	"regexp"
	"slices"
	"strings"
)

// packageTestKeys are the keys of package.json that say how tests run.
var packageTestKeys = []string{
	"scripts", "jest", "mocha", "ava", "nyc", "c8", "tap", "vitest", "babel", "eslintConfig", "cypress", "jasmine",
	"ts-jest", "wdio", "config", "testem",
}

var composerTestKeys = []string{"scripts", "config"}

// testSections are the sections of an INI or TOML manifest that say so.
var testSections = regexp.MustCompile(`^\[+\s*(tool[.:](pytest|tox|coverage|nox|hatch\.envs|pdm\.scripts|poe|taskipy|mypy|ruff)\b.*|pytest|tox|testenv.*|coverage.*|flake8|mypy|` +
	`test|profile\.test.*|lints.*|alias)\s*\]+`)

// withBaseHarness gives the branch's manifest with the base's script and test
// configuration. changed is false where nothing of that kind differs.
func withBaseHarness(p string, base, branch []byte) (merged []byte, changed bool) {
	switch name := strings.ToLower(path.Base(p)); name {
	case "package.json":
		return mergeJSON(base, branch, packageTestKeys)
	case "composer.json":
		return mergeJSON(base, branch, composerTestKeys)
	case "deno.json":
		return mergeJSON(base, branch, []string{"tasks", "test"})
	case "pyproject.toml", "setup.cfg", "cargo.toml", "pipfile":
		return mergeSections(base, branch)
	}
	return branch, false
}

// mergeJSON takes keys of an object from base. Values are copied as written,
// since the order inside them can carry meaning.
func mergeJSON(base, branch []byte, keys []string) ([]byte, bool) {
	var old, cur map[string]json.RawMessage
	if json.Unmarshal(branch, &cur) != nil || cur == nil {
		return branch, false // the branch's own tools will fail on it
	}
	if len(base) == 0 || json.Unmarshal(base, &old) != nil {
		old = nil
	}
	changed := false
	for _, k := range keys {
		before, had := old[k]
		now, has := cur[k]
		if (k == "scripts" || k == "tasks") && onlyAdds(before, now) {
			continue
		}
		switch {
		case had && (!has || !sameJSON(before, now)):
			cur[k], changed = before, true
		case !had && has:
			delete(cur, k)
			changed = true
		}
	}
	if !changed {
		return branch, false
	}
	out, err := json.MarshalIndent(cur, "", "  ")
	if err != nil {
		return branch, false
	}
	return append(out, '\n'), true
}

// onlyAdds reports whether a table of commands has all it had before, and new
// ones that nothing which was there calls.
func onlyAdds(before, now json.RawMessage) bool {
	var old, cur map[string]json.RawMessage
	if len(before) > 0 && json.Unmarshal(before, &old) != nil || json.Unmarshal(now, &cur) != nil {
		return false
	}
	for name, command := range old {
		if !sameJSON(command, cur[name]) {
			return false
		}
	}
	for name := range cur {
		_, known := old[name]
		for _, hook := range []string{"pre", "post"} {
			if rest, ok := strings.CutPrefix(name, hook); ok && !known {
				if _, hooked := old[rest]; hooked || slices.Contains([]string{"install", "pare", "test", "start"}, rest) {
					return false
				}
			}
		}
		if !known && (name == "test" || name == "install" || name == "prepare") {
			return false
		}
	}
	return true
}

func sameJSON(a, b json.RawMessage) bool {
	if len(a) == 0 || len(b) == 0 {
		return len(a) == len(b)
	}
	var x, y bytes.Buffer
	if json.Compact(&x, a) != nil || json.Compact(&y, b) != nil {
		return bytes.Equal(a, b)
	}
	return bytes.Equal(x.Bytes(), y.Bytes())
}

// section is a header line and what follows it.
type section struct {
	header string
	text   string
}

func sections(data []byte) []section {
	out := []section{{}}
	for line := range strings.Lines(string(data)) {
		trimmed := strings.TrimSpace(line)
		if strings.HasPrefix(trimmed, "[") && strings.Contains(trimmed, "]") && !strings.Contains(trimmed, "=") &&
			!strings.HasSuffix(trimmed, ",") && line[0] == '[' {
			out = append(out, section{header: trimmed})
		}
		out[len(out)-1].text += line
	}
	return out
}

func mergeSections(base, branch []byte) ([]byte, bool) {
	pick := func(data []byte) (test, rest []section) {
		for _, s := range sections(data) {
			if testSections.MatchString(s.header) {
				test = append(test, s)
			} else {
				rest = append(rest, s)
			}
		}
		return test, rest
	}
	oldTest, _ := pick(base)
	newTest, rest := pick(branch)
	trim := func(list []section) []section {
		out := slices.Clone(list)
		for i := range out {
			out[i].text = strings.TrimSpace(out[i].text)
		}
		slices.SortFunc(out, func(a, b section) int { return strings.Compare(a.text, b.text) })
		return out
	}
	if slices.Equal(trim(oldTest), trim(newTest)) {
		return branch, false
	}
	var b strings.Builder
	for _, s := range append(rest, oldTest...) {
		b.WriteString(s.text)
		if !strings.HasSuffix(s.text, "\n") {
			b.WriteByte('\n')
		}
	}
	return []byte(b.String()), true
}
