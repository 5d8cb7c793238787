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
	proveFileRE   = regexp.MustCompile(`^(?:\[\d\d:\d\d:\d\d\] )?(\S*(?:/|\.\w)\S*) \.{2,} *(skipped: .*)?$`)
	proveResultRE = regexp.MustCompile(`^(?:(Dubious, test returned .*)|ok(?: +\d+ ms.*)?|skipped: .*|All \d+ subtests passed.*|Failed \d+/\d+ subtests.*|No subtests run.*)\s*$`)
	proveEndRE    = regexp.MustCompile(`^(?:Test Summary Report|All tests successful\.|Files=\d+, Tests=\d+.*|Result: (?:PASS|FAIL|NOTESTS))\s*$`)
)

// proves takes the lines that prove writes itself. Programs write lines that
// look like them, so they count only where one can stand.
func (t *tap) proves(line string) bool {
	if m := proveFileRE.FindStringSubmatch(line); m != nil && (t.proved || !t.anyTAP) && t.between() {
		t.nextStream(m[1])
		t.proved, t.anyTAP = true, true
		if m[2] != "" {
			t.fault("%s: %s", m[1], m[2])
			t.suite = ""
		}
		return true
	}
	if !t.proved || t.suite == "" {
		return false
	}
	if m := proveResultRE.FindStringSubmatch(line); m != nil {
		// A case may be a bare "ok" too; the file's result comes when its plan
		// is fulfilled.
		if line[0] == 'o' && !t.whole() {
			return false
		}
		if m[1] != "" {
			t.dubious = cut(m[1], maxName)
		}
		return true
	}
	if t.between() && proveEndRE.MatchString(line) {
		t.nextStream("")
		return true
	}
	return false
}

// whole reports whether the stream has all that it planned.
func (t *tap) whole() bool {
	root := t.levels[0]
	return len(t.levels) == 1 && root.plan >= 0 && root.plan == root.points
}

// between reports whether another stream can begin here: nothing was read of
// this one, it is whole, or prove has told its result.
func (t *tap) between() bool {
	return t.dubious != "" || t.whole() || len(t.levels) == 1 && t.levels[0].plan < 0 && t.levels[0].points == 0
}

// nextStream ends a stream and begins another one.
func (t *tap) nextStream(name string) {
	if t.suite != "" || t.levels[0].plan >= 0 || len(t.pending) > 0 {
		t.endStream()
	}
	t.suite, t.dubious = cut(name, maxName), ""
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

// another begins a new stream at a header, an announced subtest, a plan or a
// point at the top, if the one before has all that it planned. number is that
// of a point, "" of others.
func (t *tap) another(indent int, number string) {
	if indent > 0 || t.suite != "" {
		return
	}
	root := t.levels[0]
	if root.plan >= 0 && root.plan == root.points {
		if number == "" || number == "1" {
			t.nextStream("")
		}
		return
	}
	if number == "1" && root.points > 0 {
		t.partial("a case numbered 1 follows %d others: a stream was cut", root.points)
	}
}
