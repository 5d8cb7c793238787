package check

import (
	"io"
	"slices"
	"strconv"
	"strings"
	"time"
)

// ReadJUnit reads JUnit XML of any dialect. There is no specification, so it
// looks for nodes it knows and counts those, never the counters that tools
// write beside them. It has its own tolerant scanner: damage in one place
// costs that place and not the file.
func ReadJUnit(r io.Reader, o Options) Report {
	j := &junit{collector: newCollector(FormatJUnit, o), seen: map[string]int{}}
	limited := &io.LimitedReader{R: r, N: maxBytes}
	x := newXMLScanner(limited)
	for {
		t, ok := x.next()
		if !ok {
			break
		}
		j.token(t)
	}
	switch {
	case x.err != nil:
		j.partial("reading the file failed: %v", x.err)
	case limited.N <= 0:
		j.partial("the file is longer than %d bytes; the rest was not read", int64(maxBytes))
	case x.broken:
		j.partial("the file ends inside a tag")
	}
	j.finish(x.any)
	return j.report
}

type junitSuite struct {
	name, file string
}

type junit struct {
	*collector
	stack  []string
	suites []junitSuite
	one    *junitCase
	text   *strings.Builder // of the node that is open, if its text is wanted
	node   *junitNode
	roots  int
	deep   int // levels below the depth limit
	seen   map[string]int
}

type junitCase struct {
	attrs map[string]string
	nodes []*junitNode
}

type junitNode struct {
	kind, typ, message string
	text               string
}

const maxDepth = 64

// known are the elements that have a meaning; everything else is text.
var known = map[string]bool{
	"testsuites": true, "testsuite": true, "testcase": true, "failure": true, "error": true, "skipped": true,
	"flakyfailure": true, "flakyerror": true, "rerunfailure": true, "rerunerror": true,
	"system-out": true, "system-err": true, "properties": true, "property": true, "stacktrace": true,
}

func (j *junit) token(t xmlToken) {
	switch t.kind {
	case xmlText:
		j.write(t.text)
	case xmlStart:
		name := strings.ToLower(t.name)
		if !known[name] || j.printing() || !j.fits(name) {
			j.write(t.raw)
			return
		}
		if len(j.stack) >= maxDepth {
			j.deep++
			if j.deep == 1 {
				j.partial("elements are nested deeper than %d", maxDepth)
			}
			return
		}
		j.stack = append(j.stack, name)
		j.open(name, t.attrs)
		if t.empty {
			j.close(name)
		}
	case xmlEnd:
		name := strings.ToLower(t.name)
		if !known[name] || !j.isOpen(name) || j.printing() && name != j.stack[len(j.stack)-1] {
			j.write(t.raw)
			return
		}
		j.close(name)
	}
}

// fits refuses elements where they make no sense, so that a tag in printed
// text (an unescaped "<error>") does not become one.
func (j *junit) fits(name string) bool {
	switch name {
	case "testsuites", "testsuite":
		return j.one == nil
	case "testcase":
		// A case inside a case means that the first was never closed.
		return j.node == nil
	case "system-out", "system-err", "properties":
		return j.node == nil || strings.HasPrefix(j.node.kind, "flaky") || strings.HasPrefix(j.node.kind, "rerun")
	case "property":
		return j.isOpen("properties")
	case "stacktrace":
		return true
	}
	return j.one != nil && j.node == nil
}

// printing is true inside what a program wrote, where every tag is text.
func (j *junit) printing() bool {
	return len(j.stack) > 0 && strings.HasPrefix(j.stack[len(j.stack)-1], "system-")
}

func (j *junit) isOpen(name string) bool {
	return slices.Contains(j.stack, name)
}

func (j *junit) write(s string) {
	if j.text == nil || j.text.Len() >= 2*maxKept {
		return
	}
	j.text.WriteString(s[:min(len(s), maxKept)])
}

func (j *junit) open(name string, attrs map[string]string) {
	switch name {
	case "testsuites":
		j.roots++
	case "testsuite":
		j.roots++
		j.suites = append(j.suites, junitSuite{name: attrs["name"], file: first(attrs["file"], attrs["filepath"])})
	case "testcase":
		if j.one != nil {
			j.partial("a case was not closed")
			j.emit(true)
		}
		j.roots++
		j.one = &junitCase{attrs: attrs}
		j.node, j.text = nil, nil
	case "failure", "error", "skipped", "flakyfailure", "flakyerror", "rerunfailure", "rerunerror":
		j.node = &junitNode{kind: name, typ: attrs["type"], message: attrs["message"]}
		j.text = &strings.Builder{}
		if len(j.one.nodes) < 64 {
			j.one.nodes = append(j.one.nodes, j.node)
		}
	case "system-out", "system-err":
		if j.node == nil {
			j.text = nil
		}
	}
}

func (j *junit) close(name string) {
	for len(j.stack) > 0 {
		top := j.stack[len(j.stack)-1]
		j.stack = j.stack[:len(j.stack)-1]
		j.end(top, top != name)
		if top == name {
			return
		}
	}
}

func (j *junit) end(name string, forced bool) {
	switch name {
	case "testsuite":
		if len(j.suites) > 0 {
			j.suites = j.suites[:len(j.suites)-1]
		}
	case "testcase":
		if forced {
			j.partial("a case was not closed")
		}
		j.emit(forced)
	case "failure", "error", "skipped", "flakyfailure", "flakyerror", "rerunfailure", "rerunerror":
		if j.node != nil && j.text != nil {
			j.node.text = strings.TrimSpace(j.text.String())
		}
		j.node, j.text = nil, nil
	}
}

func (j *junit) finish(anything bool) {
	open := len(j.stack) > 0
	for len(j.stack) > 0 {
		top := j.stack[len(j.stack)-1]
		j.stack = j.stack[:len(j.stack)-1]
		if top == "testcase" {
			j.emit(true)
		} else {
			j.end(top, false)
		}
	}
	switch {
	case !anything:
		j.partial("empty")
	case j.roots == 0:
		j.partial("no testsuites, testsuite or testcase element in it")
	case open:
		j.partial("the file is cut off: not every element is closed")
	}
}

// emit enters the open case. A case that was cut off has no known end.
func (j *junit) emit(cutOff bool) {
	c := j.one
	j.one, j.node, j.text = nil, nil, nil
	if c == nil {
		return
	}
	one := Case{Status: Pass, File: first(c.attrs["file"], c.attrs["filepath"])}
	one.Line, _ = strconv.Atoi(c.attrs["line"])
	if secs, err := strconv.ParseFloat(strings.ReplaceAll(c.attrs["time"], ",", ""), 64); err == nil && secs > 0 && secs < 1e8 {
		one.Duration = time.Duration(secs * float64(time.Second))
	}
	j.judge(&one, c)
	if cutOff && one.Status == Pass {
		one.Status, one.Fault, one.Message = Error, FaultLost, "the report ends inside this case"
	}
	suite, class := j.place(c)
	name := c.attrs["name"]
	if c.attrs["classname"] == "test" && one.File == "" {
		// node's own reporter names no file and never retries: an equal name is
		// another case.
		key := suite + "\x00" + class + "\x00" + name
		if j.seen[key]++; j.seen[key] > 1 {
			name += " #" + strconv.Itoa(j.seen[key])
		}
	}
	j.add(entry{suite: suite, class: class, name: name, Case: one})
}

// place finds what a case belongs to: its file where one is told, else the
// names of the suites around it.
func (j *junit) place(c *junitCase) (suite, class string) {
	var names []string
	file := first(c.attrs["file"], c.attrs["filepath"])
	for _, s := range j.suites {
		if s.name != "" {
			names = append(names, s.name)
		}
		if file == "" && s.file != "" {
			file = s.file
		}
	}
	class = c.attrs["classname"]
	if class == "test" {
		class = ""
	}
	if file == "" {
		if len(names) > 0 {
			file, names = names[0], names[1:]
		}
	}
	if len(names) > 0 && class == "" {
		class = strings.Join(names, " > ")
	}
	if class == file {
		class = ""
	}
	return file, class
}

// judge sets the status from the nodes of a case.
func (j *junit) judge(one *Case, c *junitCase) {
	switch strings.ToLower(first(c.attrs["status"], c.attrs["result"])) {
	case "skipped", "notrun", "ignored", "disabled", "suppressed", "pending":
		one.Status = Skip
	}
	var tries []Status
	todo := false
	for _, n := range c.nodes {
		text := joinText(n.typ, n.message, n.text)
		s, f := one.Status, FaultNone
		switch n.kind {
		case "skipped":
			s = Skip
			if t := strings.ToLower(n.typ); t == "todo" || strings.Contains(t, "xfail") {
				s, todo = Todo, true
			}
		case "failure", "flakyfailure", "rerunfailure":
			s, f = judgeNode(n)
		case "error", "flakyerror", "rerunerror":
			s, f = judgeError(n)
		}
		if strings.HasPrefix(n.kind, "flaky") || strings.HasPrefix(n.kind, "rerun") {
			tries = append(tries, s)
		}
		if rank(s) > rank(one.Status) {
			one.Status, one.Fault, one.Message = s, f, text
		}
	}
	if todo {
		one.Status, one.Fault = Todo, FaultNone // an expected failure is told as one
		return
	}
	if len(tries) > 0 {
		// The last try is what stands without the tries' nodes.
		last := Pass
		for _, n := range c.nodes {
			if n.kind == "failure" || n.kind == "error" {
				last = Fail
			}
		}
		one.Tries = append(tries, last)
	}
}

func judgeNode(n *junitNode) (Status, Fault) {
	if s, f := judgeText(joinText(n.typ, n.message)); s == Fail && looksAsserted(joinText(n.typ, n.message)) {
		return s, f
	}
	return judgeText(joinText(n.typ, n.message, n.text))
}

// judgeError reads an error node: never an assertion, at best the crash of
// the code under test.
func judgeError(n *junitNode) (Status, Fault) {
	text := joinText(n.typ, n.message, n.text)
	if strings.Contains(n.message, "failed on setup") || strings.Contains(n.message, "failed on teardown") ||
		strings.Contains(n.message, "test setup failure") {
		return Error, FaultSetup
	}
	s, f := judgeText(text)
	if s == Fail || f == FaultNone {
		f = FaultTest
		if file, ok := topFrame(text); ok && !IsTestPath(file) {
			f = FaultCrash
		}
	}
	return Error, f
}

func joinText(parts ...string) string {
	var kept []string
	for _, p := range parts {
		if p = strings.TrimSpace(p); p != "" {
			kept = append(kept, p)
		}
	}
	return strings.Join(kept, "\n")
}

func first(values ...string) string {
	for _, v := range values {
		if v != "" {
			return v
		}
	}
	return ""
}
