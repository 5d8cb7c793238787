package scenarios

import (
	"fmt"
	"strings"
	"testing"

	"drydock/internal/testkit"
)

// The smallest repository that can be worked on and proven: shell scripts, and
// one check that speaks TAP. A session on it takes a few seconds.
const (
	tinyRunner = `# Runs every case and tells it in TAP.
n=0 bad=0
is() {
	n=$((n + 1))
	if [ "$2" = "$3" ]; then echo "ok $n - $1"; else echo "not ok $n - $1"; bad=1; fi
}
for f in test/cases/*.sh; do . "./$f"; done
echo "1..$n"
exit $bad
`
	tinyRecipe = `base: debian:bookworm
checks:
  test: {run: sh test/all.sh, report: tap}
`
)

func tinyFiles() map[string]string {
	return map[string]string{
		"hello.sh":           "echo \"Helo, $1\"\n",
		"bye.sh":             "echo \"By, $1\"\n",
		"shout.sh":           "echo \"$1\"\n",
		"test/all.sh":        tinyRunner,
		"test/cases/base.sh": "is 'says something' \"$(sh hello.sh ana | wc -l)\" 1\n",
		".gitignore":         "*.tmp\n",
		"drydock.yaml":       tinyRecipe,
	}
}

func tinyRepo(t *testing.T, change func(map[string]string)) string {
	t.Helper()
	files := tinyFiles()
	if change != nil {
		change(files)
	}
	return testkit.Repo(t, files)
}

// mend is a script that mends one of the tiny repository's programs and adds
// the case that notices. more are answers that come first.
func mend(name, word, program, from, to string, more ...string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "  - name: %s\n    when: {prompt: {contains: %q}}\n    answers:\n", name, word)
	for _, a := range more {
		b.WriteString(a)
	}
	fmt.Fprintf(&b, `      - calls:
          - {tool: edit, input: {path: %[1]s.sh, old: '%[2]s', new: '%[3]s'}}
          - tool: write
            input:
              path: test/cases/%[1]s.sh
              content: |
                is '%[1]s: %[3]s' "$(sh %[1]s.sh ana)" "$(set -- ana; echo "%[3]s")"
          - {tool: run, input: {command: sh test/all.sh}}
      - expect: [{tool: run, failed: false, contains: "%[1]s: "}]
        calls:
          - {tool: finish, input: {verdict: done, summary: "%[1]s.sh is mended."}}
`, program, from, to)
	return b.String()
}

func mendHello(more ...string) string {
	return mend("hello", "greeting", "hello", "Helo, $1", "Hello, $1", more...)
}

func scripts(parts ...string) string { return "scripts:\n" + strings.Join(parts, "") }
