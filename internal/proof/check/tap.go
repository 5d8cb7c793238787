package check

import (
	"io"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// ReadTAP reads the Test Anything Protocol, versions 12 to 14, with nested
// subtests and YAML diagnostics. Lines that are none of its own are skipped:
// programs print between them.
func ReadTAP(r io.Reader, o Options) Report {
	t := &tap{collector: newCollector(FormatTAP, o), seen: map[string]int{}}
	t.push(0)
	lines := newLineReader(r)
	for {
		line, ok := lines.next()
		if !ok || t.bailed {
			break
		}
		t.line(string(line))
	}
	if lines.err != nil {
		t.partial("reading the stream failed: %v", lines.err)
	}
	if lines.clipped {
		t.partial("the stream is longer than %d bytes; the rest was not read", int64(maxBytes))
	}
	t.finish()
	return t.report
}

// tapLevel is one nesting of subtests.
type tapLevel struct {
	indent int
	name   string // of the subtest whose points these are
	plan   int    // -1: not seen
	points int
	red    bool
	first  int // number of cases gathered before it
}

type tap struct {
	*collector
	levels    []*tapLevel
	pending   []tapPoint // points whose parents are not known yet
	last      *tapPoint
	yaml      []string
	yamlAt    int // indent of the open YAML block, 0 when none
	kept      int
	anyTAP    bool
	bailed    bool
	closed    *tapLevel // the level that was just left: children of the next point
	announced string    // by "# Subtest:"
	seen      map[string]int
	points    int    // of all streams
	suite     string // file that prove named
	proved    bool   // prove has named a file
	dubious   string // what prove says of the file's end
}

type tapPoint struct {
	ok        bool
	path      []string
	directive string // "", "skip", "todo"
	reason    string
	diag      []string
	children  bool
	redChild  bool
}

var (
	tapPointRE = regexp.MustCompile(`^(not )?ok\b(?:\s+(\d+)\b)?\s*(.*)$`)
	tapPlanRE  = regexp.MustCompile(`^1\.\.(\d+)\s*(?:#\s*(.*))?$`)
	tapDirRE   = regexp.MustCompile(`(?i)(^|[^\\])#\s*(skip|todo)\b\S*[:\s]*(.*)$`)
	tapSubRE   = regexp.MustCompile(`^# Subtest(?:: (.*))?$`)
)

func (t *tap) push(indent int) *tapLevel {
	l := &tapLevel{indent: indent, plan: -1, first: len(t.pending), name: t.announced}
	t.announced = ""
	t.levels = append(t.levels, l)
	return l
}

func (t *tap) top() *tapLevel { return t.levels[len(t.levels)-1] }

func (t *tap) line(line string) {
	body := strings.TrimLeft(line, " \t")
	indent := len(line) - len(body)
	if t.inYAML(line, body, indent) {
		return
	}
	switch {
	case strings.HasPrefix(body, "TAP version "):
		t.anyTAP = true
		t.another(indent, "")
		return
	case strings.HasPrefix(body, "Bail out!"):
		t.anyTAP, t.bailed = true, true
		t.partial("bailed out: %s", strings.TrimSpace(strings.TrimPrefix(body, "Bail out!")))
		return
	case body == "---" && t.last != nil && indent > 0:
		t.yaml, t.yamlAt = nil, indent
		return
	}
	if m := tapSubRE.FindStringSubmatch(body); m != nil {
		if len(t.levels) == 1 {
			t.another(0, "")
		}
		t.announced = m[1]
		return
	}
	if m := tapPlanRE.FindStringSubmatch(body); m != nil {
		t.plan(indent, m)
		return
	}
	m := tapPointRE.FindStringSubmatch(body)
	named := m != nil && (m[2] != "" || strings.HasPrefix(m[3], "-"))
	if ended := t.suite != "" && t.whole(); (!named || ended) && indent == 0 && body != "" && body[0] != '#' && t.proves(body) {
		return
	}
	if m != nil && (m[2] != "" || m[3] == "" || strings.HasPrefix(m[3], "-") || t.anyTAP) {
		t.point(indent, m)
	}
}

func (t *tap) inYAML(line, body string, indent int) bool {
	if t.yamlAt == 0 || t.last == nil {
		return false
	}
	if body == "..." && indent <= t.yamlAt {
		t.last.diag = t.yaml
		t.yamlAt, t.yaml = 0, nil
		return true
	}
	if body != "" && indent < t.yamlAt {
		// The block was never closed; what it had counts.
		t.last.diag = t.yaml
		t.yamlAt, t.yaml = 0, nil
		return false
	}
	if t.kept < maxAllKept && len(t.yaml) < 2000 {
		rest := line[min(t.yamlAt, len(line)-len(strings.TrimLeft(line, " \t"))):]
		rest = cut(rest, maxText)
		t.kept += len(rest)
		t.yaml = append(t.yaml, rest)
	}
	return true
}

// level finds or opens the level of an indent.
func (t *tap) level(indent int) *tapLevel {
	first := len(t.pending)
	for len(t.levels) > 1 && t.top().indent > indent {
		t.closed = t.top()
		first = t.closed.first
		t.levels = t.levels[:len(t.levels)-1]
		if t.closed.plan >= 0 && t.closed.plan != t.closed.points {
			t.partial("subtest %q planned %d cases and has %d", t.closed.name, t.closed.plan, t.closed.points)
		}
	}
	if t.top().indent < indent && len(t.levels) < maxDepth {
		l := t.push(indent)
		l.first = first // deeper points that came before are below it too
		return l
	}
	return t.top()
}

func (t *tap) plan(indent int, m []string) {
	t.anyTAP = true
	t.another(indent, "")
	l := t.level(indent)
	n, err := strconv.Atoi(m[1])
	if err != nil || n > maxCases {
		t.partial("the plan %q is not believable", cut(m[0], 40))
		return
	}
	if l.plan >= 0 {
		t.partial("two plans: 1..%d and 1..%d", l.plan, n)
	}
	l.plan = n
	if n == 0 && len(t.levels) == 1 {
		t.fault("the plan is 1..0: nothing was run %s", m[2])
	}
}

func (t *tap) point(indent int, m []string) {
	t.anyTAP = true
	t.another(indent, m[2])
	t.closed = nil
	l := t.level(indent)
	l.points++
	if t.points++; t.points > maxCases {
		if !t.full {
			t.full = true
			t.partial("more than %d cases; the rest was not read", maxCases)
		}
		t.last = &tapPoint{}
		return
	}
	p := tapPoint{ok: m[1] == ""}
	name := strings.TrimSpace(m[3])
	if d := tapDirRE.FindStringSubmatchIndex(name); d != nil {
		p.directive = strings.ToLower(name[d[4]:d[5]])
		p.reason = strings.TrimSpace(name[d[6]:d[7]])
		name = strings.TrimSpace(name[:d[3]])
	}
	name = strings.TrimSpace(strings.TrimPrefix(name, "- "))
	if name == "-" {
		name = ""
	}
	if rest, ok := strings.CutSuffix(name, "{"); ok { // TAP 14 keeps "{" for buffered subtests
		name = strings.TrimSpace(rest)
	}
	name = strings.NewReplacer(`\#`, `#`, `\\`, `\`).Replace(name)
	if name == "" {
		name = "#" + strconv.Itoa(l.points)
	}
	p.path = []string{name}
	if c := t.closed; c != nil && c.indent > indent {
		// The points of the level just left are this one's subtests.
		p.children, p.redChild = true, c.red
		for i := c.first; i < len(t.pending); i++ {
			t.pending[i].path = append([]string{name}, t.pending[i].path...)
		}
	}
	if !p.ok && p.directive == "" {
		l.red = true
	}
	if p.redChild && p.directive == "" {
		l.red = true
	}
	t.announced = ""
	t.pending = append(t.pending, p)
	t.last = &t.pending[len(t.pending)-1]
	t.yamlAt, t.yaml = 0, nil
}

func (t *tap) finish() {
	if !t.anyTAP {
		t.partial("no line of TAP in it")
		return
	}
	// After the last file of prove nothing is open.
	if !t.proved || t.suite != "" || len(t.pending) > 0 {
		t.endStream()
	}
}

func (t *tap) enter(p tapPoint) {
	diag := yamlFlat(p.diag)
	one := Case{Status: Pass, Group: p.children}
	if ms, err := strconv.ParseFloat(diag["duration_ms"], 64); err == nil && ms > 0 && ms < 1e11 {
		one.Duration = time.Duration(ms * float64(time.Millisecond))
	}
	if at := diag["location"]; at != "" {
		parts := strings.Split(at, ":")
		if len(parts) >= 3 {
			one.File = strings.Join(parts[:len(parts)-2], ":")
			one.Line, _ = strconv.Atoi(parts[len(parts)-2])
		}
	}
	switch {
	case p.directive == "skip":
		one.Status, one.Message = Skip, p.reason
	case p.directive == "todo":
		one.Status, one.Message = Todo, p.reason
	case !p.ok:
		one.Status, one.Fault = judgeDiag(diag, p.diag)
		one.Message = joinText(strings.TrimPrefix(diag["name"]+": "+strings.TrimSpace(first(diag["error"], diag["message"])), ": "), strings.Join(p.diag, "\n"))
		if p.redChild && (diag["failureType"] == "subtestsFailed" || len(p.diag) == 0 || diag["failureType"] == "" && diag["error"] == "") {
			one.Derived, one.Status, one.Fault = true, Fail, FaultNone
		}
	}
	names := p.path
	for i := range names {
		names[i] = cut(names[i], maxName)
	}
	class := strings.Join(names[:len(names)-1], " > ")
	name := names[len(names)-1]
	key := t.suite + "\x00" + class + "\x00" + name
	if t.seen[key]++; t.seen[key] > 1 {
		// TAP has no retries: an equal name is another case.
		name += " #" + strconv.Itoa(t.seen[key])
	}
	t.add(entry{suite: t.suite, class: class, name: name, Case: one})
}

// judgeDiag reads what a diagnostic block says about a red point. Without one
// "not ok" is an assertion.
func judgeDiag(diag map[string]string, lines []string) (Status, Fault) {
	if len(lines) == 0 {
		return Fail, FaultNone
	}
	switch diag["failureType"] {
	case "hookFailed":
		return Error, FaultSetup
	case "testTimeoutFailure":
		return Error, FaultTimeout
	case "cancelledByParent", "parentAlreadyFinished":
		return Error, FaultLost
	case "testCodeFailure", "uncaughtException", "unhandledRejection":
		if diag["code"] == "ERR_ASSERTION" || diag["name"] == "AssertionError" {
			return Fail, FaultNone
		}
		if diag["exitCode"] != "" {
			return Error, FaultBuild // a whole file that did not load
		}
	}
	text := joinText(diag["name"], diag["error"], diag["message"], diag["stack"])
	if text == "" {
		return Fail, FaultNone
	}
	if diag["name"] != "" && !looksAsserted(diag["name"]) && !looksAsserted(diag["code"]) && thrownRE.MatchString(diag["name"]) {
		text = diag["name"] + ": " + diag["error"] + "\n" + diag["stack"]
		if s, f := judgeText(text); s == Error {
			return s, f
		}
		if file, ok := topFrame(text); ok && !IsTestPath(file) {
			return Error, FaultCrash
		}
		return Error, FaultTest
	}
	return judgeText(text)
}

// yamlFlat reads the top level of a diagnostic block: scalars and block
// texts. Anything deeper is left alone.
func yamlFlat(lines []string) map[string]string {
	out := map[string]string{}
	for i := 0; i < len(lines) && len(out) < 64; i++ {
		key, value, ok := strings.Cut(lines[i], ":")
		if !ok || key == "" || key[0] == ' ' || key[0] == '-' {
			continue
		}
		value = strings.TrimSpace(value)
		if strings.HasPrefix(value, "|") || strings.HasPrefix(value, ">") {
			var block []string
			for i+1 < len(lines) && (lines[i+1] == "" || lines[i+1][0] == ' ') {
				i++
				block = append(block, lines[i])
			}
			value = strings.Join(block, "\n")
		} else if len(value) > 1 && (value[0] == '\'' || value[0] == '"') && value[len(value)-1] == value[0] {
			value = value[1 : len(value)-1]
		}
		out[strings.TrimSpace(key)] = value
	}
	return out
}
