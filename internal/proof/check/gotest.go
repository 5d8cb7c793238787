package check

import (
	"encoding/json"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"time"
)

// ReadGoTest reads the stream of `go test -json`.
//
// A test with a start and no end is an error, whatever its package says. A
// name that ended more than once keeps the worst end. A package that failed
// although none of its cases did (a build error, a TestMain that exits, a
// panic in init) becomes a case of its own, named "(package)".
func ReadGoTest(r io.Reader, o Options) Report {
	g := &goTest{collector: newCollector(FormatGoTest, o), packages: map[string]*goPackage{}, builds: map[string]*tail{}}
	lines := newLineReader(r)
	for {
		line, ok := lines.next()
		if !ok {
			break
		}
		g.line(line, lines.long)
	}
	if lines.err != nil {
		g.partial("reading the stream failed: %v", lines.err)
	}
	if lines.clipped {
		g.partial("the stream is longer than %d bytes; the rest was not read", int64(maxBytes))
	}
	g.finish()
	return g.report
}

type goTest struct {
	*collector
	packages map[string]*goPackage
	order    []string
	builds   map[string]*tail // compiler output by import path
	kept     int              // bytes of output held
	cases    int
	events   int
	foreign  int
}

type goPackage struct {
	ends        []string
	tests       map[string]*goCase
	order       []string
	output      tail
	failedBuild string
}

type goCase struct {
	runs    int
	ends    []Status
	output  tail
	elapsed float64
}

type goEvent struct {
	Action      string
	Package     string
	ImportPath  string
	Test        string
	Elapsed     float64
	Output      string
	FailedBuild string
}

func (g *goTest) line(line []byte, long bool) {
	var e goEvent
	if len(line) == 0 {
		return
	}
	if line[0] != '{' || long || json.Unmarshal(line, &e) != nil || e.Action == "" {
		// Compilers and wrappers write between the events. A line that starts
		// as an event and is none is damage, since go test writes whole lines.
		if line[0] == '{' && (long || strings.Contains(string(line[:min(len(line), 200)]), `"Action"`)) {
			g.partial("a line could not be read as an event: %s", cut(string(line), 80))
		}
		g.foreign++
		return
	}
	g.events++
	switch e.Action {
	case "build-output":
		g.keep(g.build(e.ImportPath), e.Output)
		return
	case "build-fail":
		g.build(e.ImportPath)
		return
	}
	if e.Package == "" {
		return
	}
	p := g.packages[e.Package]
	if p == nil {
		if len(g.packages) >= maxCases {
			return
		}
		p = &goPackage{tests: map[string]*goCase{}}
		g.packages[e.Package] = p
		g.order = append(g.order, e.Package)
	}
	if e.Test == "" {
		g.packageEvent(p, e)
		return
	}
	g.caseEvent(p, e)
}

func (g *goTest) build(importPath string) *tail {
	importPath, _, _ = strings.Cut(importPath, " ")
	b := g.builds[importPath]
	if b == nil {
		b = &tail{}
		if len(g.builds) < maxCases {
			g.builds[importPath] = b
		}
	}
	return b
}

func (g *goTest) keep(t *tail, s string) {
	if g.kept < maxAllKept {
		g.kept += t.write(s)
	}
}

func (g *goTest) packageEvent(p *goPackage, e goEvent) {
	switch e.Action {
	case "output":
		g.keep(&p.output, e.Output)
		if strings.HasPrefix(e.Output, "ok") && strings.Contains(e.Output, "\t(cached)") {
			g.report.Cached = true
		}
	case "pass", "fail", "skip":
		p.ends = append(p.ends, e.Action)
		if e.FailedBuild != "" {
			p.failedBuild = e.FailedBuild
		}
	}
}

func (g *goTest) caseEvent(p *goPackage, e goEvent) {
	c := p.tests[e.Test]
	if c == nil {
		if g.cases >= maxCases {
			if !g.full {
				g.full = true
				g.partial("more than %d cases; the rest was not read", maxCases)
			}
			return
		}
		g.cases++
		c = &goCase{}
		p.tests[e.Test] = c
		p.order = append(p.order, e.Test)
	}
	switch e.Action {
	case "run":
		c.runs++
	case "output":
		g.keep(&c.output, e.Output)
	case "pass", "fail", "skip":
		s := map[string]Status{"pass": Pass, "fail": Fail, "skip": Skip}[e.Action]
		if len(c.ends) < 64 {
			c.ends = append(c.ends, s)
		} else if rank(s) > rank(c.ends[63]) {
			c.ends[63] = s
		}
		c.elapsed += e.Elapsed
	}
}

func (g *goTest) finish() {
	if g.events == 0 {
		if g.foreign > 0 {
			g.partial("no event of go test -json in it; was go test run without -json?")
		} else {
			g.partial("empty")
		}
		return
	}
	for _, name := range g.order {
		g.finishPackage(name, g.packages[name])
	}
}

func (g *goTest) finishPackage(name string, p *goPackage) {
	if len(p.ends) == 0 {
		g.partial("the stream ends inside package %s", name)
	}
	out := p.output.String()
	panicked := goPanicRE.MatchString(out)
	red := false
	parents := map[string]bool{}
	redChild := map[string]bool{}
	for _, test := range p.order {
		for at := strings.LastIndexByte(test, '/'); at > 0; at = strings.LastIndexByte(test[:at], '/') {
			parents[test[:at]] = true
			if c := p.tests[test]; slices.Contains(c.ends, Fail) || len(c.ends) < c.runs {
				redChild[test[:at]] = true
			}
		}
	}
	for _, test := range p.order {
		c := p.tests[test]
		if c.runs == 0 && len(c.ends) == 0 {
			continue // output alone: benchmarks and prints with a marker's shape
		}
		one := g.goCase(name, test, c, out, panicked)
		one.Group = parents[test]
		if one.Group && one.Status == Fail && redChild[test] && silent(c.output.String()) {
			one.Derived = true
		}
		red = red || one.Status.Red()
		g.add(entry{suite: name, name: test, Case: one})
	}
	if slices.Contains(p.ends, "fail") && !red {
		g.add(entry{suite: name, name: "(package)", Case: g.packageCase(name, p, out)})
	}
	if slices.Contains(p.ends, "pass") && len(p.tests) == 0 &&
		!strings.Contains(out, "no test files") && !strings.Contains(out, "no tests to run") {
		g.fault("package %s passed without running a case", name)
	}
}

// packageCase stands for a package that failed although no case of it did.
func (g *goTest) packageCase(name string, p *goPackage, out string) Case {
	one := Case{Status: Error, Fault: FaultTest, Message: strings.TrimSpace(out)}
	importPath, _, _ := strings.Cut(p.failedBuild, " ")
	built := g.builds[importPath]
	if built == nil {
		built = g.builds[name]
	}
	switch {
	case p.failedBuild != "" || strings.Contains(out, "[build failed]") || strings.Contains(out, "[setup failed]"):
		one.Fault = FaultBuild
		if text := compilerLines(built.String()); text != "" {
			one.Message = text
		}
	case goPanicRE.MatchString(out):
		_, one.Fault = judgeText(out)
	}
	return one
}

// compilerLines drops the headings that only repeat the package's name.
func compilerLines(s string) string {
	var b strings.Builder
	for line := range strings.Lines(s) {
		if !strings.HasPrefix(line, "# ") {
			b.WriteString(line)
		}
	}
	return strings.TrimSpace(b.String())
}

var goPlaceRE = regexp.MustCompile(`(?m)^\s+([\w./-]+\.go):(\d+): `)

func (g *goTest) goCase(pkg, test string, c *goCase, pkgOut string, panicked bool) Case {
	out := c.output.String()
	one := Case{Duration: time.Duration(c.elapsed * float64(time.Second)), Status: Missing}
	for _, s := range c.ends {
		if rank(s) > rank(one.Status) {
			one.Status = s
		}
	}
	switch {
	case len(c.ends) < c.runs:
		one.Status, one.Fault = Error, FaultLost
		one.Message = strings.TrimSpace(out)
		text := out
		if panicked {
			text = pkgOut
		}
		if goPanicRE.MatchString(text) {
			if inTrace(text, test) || strings.Contains(text, "test timed out") {
				one.Status, one.Fault = judgeText(text)
			}
			one.Message = strings.TrimSpace(text)
		}
		g.fault("case %s of %s started and did not end", test, pkg)
	case one.Status == Fail:
		one.Message = clean(out)
		if goPanicRE.MatchString(out) {
			one.Status, one.Fault = judgeText(out)
			one.Message = strings.TrimSpace(out)
		}
		if m := goPlaceRE.FindStringSubmatch(out); m != nil {
			one.File = m[1]
			_, _ = fmt.Sscanf(m[2], "%d", &one.Line)
		}
	case one.Status == Skip:
		one.Message = clean(out)
	}
	if len(c.ends) > 1 {
		one.Tries = c.ends
	}
	if c.runs > 0 && len(c.ends) > c.runs {
		g.fault("case %s of %s ended %d times and started %d times; its worst end counts", test, pkg, len(c.ends), c.runs)
	}
	return one
}

// inTrace reports whether a test's function, or one made in it, is on a stack.
func inTrace(trace, test string) bool {
	name, _, _ := strings.Cut(test, "/")
	return strings.Contains(trace, "."+name+"(") || strings.Contains(trace, "."+name+".func")
}

var goMarkRE = regexp.MustCompile(`^\s*(=== (RUN|PAUSE|CONT|NAME)|--- (FAIL|PASS|SKIP): )`)

// clean drops the runner's own marker lines.
func clean(out string) string {
	var b strings.Builder
	for line := range strings.Lines(out) {
		if !goMarkRE.MatchString(line) {
			b.WriteString(line)
		}
	}
	return strings.TrimSpace(b.String())
}

// silent is true of a parent that said nothing itself.
func silent(out string) bool { return clean(out) == "" }
