package check

import (
	"fmt"
	"regexp"
)

// A report can hold several streams one after another: each program of a suite
// writes its own, and prove -v puts a line with the file's name before each and
// one with its result behind.

// NameFile is the case that stands for a file as a whole. It is there only if
// the file failed otherwise than by its cases.
const NameFile = "(file)"

var (
	proveFileRE   = regexp.MustCompile(`^(\S.*?) \.{2,} *(skipped: .*)?$`)
	proveResultRE = regexp.MustCompile(`^(?:(Dubious, test returned .*)|(?:ok|skipped: .*|All \d+ subtests passed.*|Failed \d+/\d+ subtests.*|No subtests run.*))\s*$`)
	proveEndRE    = regexp.MustCompile(`^(?:Test Summary Report|All tests successful\.|Files=\d+, Tests=\d+.*|Result: (?:PASS|FAIL|NOTESTS))\s*$`)
)

// proves takes the lines that prove writes itself.
func (t *tap) proves(line string) bool {
	if m := proveFileRE.FindStringSubmatch(line); m != nil {
		t.nextStream(m[1])
		t.proved, t.anyTAP = true, true
		if m[2] != "" {
			t.fault("%s: %s", m[1], m[2])
			t.suite = ""
		}
		return true
	}
	if !t.proved {
		return false
	}
	if proveEndRE.MatchString(line) {
		t.nextStream("")
		return true
	}
	m := proveResultRE.FindStringSubmatch(line)
	if m == nil || t.suite == "" {
		return false
	}
	// A case may be a bare "ok" too; the file's result comes when its plan is
	// fulfilled.
	if root := t.levels[0]; m[0] == "ok" && (len(t.levels) == 1 && root.plan != root.points) {
		return false
	}
	if m[1] != "" {
		t.dubious = m[1]
	}
	return true
}

// nextStream ends a stream and begins another one.
func (t *tap) nextStream(name string) {
	if t.suite != "" || t.levels[0].plan >= 0 || len(t.pending) > 0 {
		t.endStream()
	}
	t.suite, t.dubious = name, ""
	t.levels, t.pending, t.closed, t.announced = nil, nil, nil, ""
	t.last, t.yaml, t.yamlAt = nil, nil, 0
	t.push(0)
}

// endStream judges whether a stream is whole and enters its cases.
func (t *tap) endStream() {
	if t.last != nil && t.yamlAt > 0 {
		t.last.diag = t.yaml
		if !t.bailed {
			t.partial("the stream ends inside a diagnostic block")
		}
	}
	open := len(t.levels) > 1
	t.level(0)
	root := t.levels[0]
	where := ""
	if t.suite != "" {
		where = t.suite + ": "
	}
	broken := ""
	switch {
	case t.bailed:
	case open:
		broken = "the stream ends inside a subtest"
	case root.plan < 0:
		broken = "there is no plan: nobody knows how many cases were meant to run"
	case root.plan != root.points:
		broken = fmt.Sprintf("planned %d cases and has %d", root.plan, root.points)
	}
	switch {
	case t.dubious == "" && broken != "":
		t.partial("%s%s", where, broken)
	case t.dubious != "" && (broken != "" || !root.red):
		// prove saw the end of the program: its report is whole, and says that
		// the file failed.
		t.add(entry{suite: t.suite, name: NameFile, Case: Case{Status: Error, Fault: FaultExit, Message: joinText(t.dubious, broken)}})
	}
	for _, p := range t.pending {
		t.enter(p)
	}
}

// another begins a new stream at a header, plan or point at the top, if the one
// before has all that it planned. number is that of a point, "" of others.
func (t *tap) another(indent int, number string) {
	if root := t.levels[0]; indent == 0 && t.suite == "" && root.plan > 0 && root.plan == root.points && (number == "" || number == "1") {
		t.nextStream("")
	}
}
