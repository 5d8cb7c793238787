package render

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"drydock/internal/core"
)

// Lines of output that are shown of a command that worked, of one that did
// not, and of other tools.
const (
	foldGood  = 3
	foldBad   = 14
	foldOther = 0
)

// exitLine is what the run tool writes above an output; the renderer says it
// in its own words.
var exitLine = regexp.MustCompile(`^\[exit code \d+(, no output)?\]\n?`)

// toolDone prints a finished tool call: one line, and a folded output.
func (s *Session) toolDone(d core.ToolData) {
	st := s.o.Style
	s.draft = ""
	s.head()
	output := strings.TrimRight(exitLine.ReplaceAllString(Clean(d.Output), ""), "\n \t")
	lines := splitLines(output)
	var facts []string
	switch {
	case d.ExitCode != nil && *d.ExitCode != 0:
		facts = append(facts, st.Red(fmt.Sprintf("exit %d", *d.ExitCode)))
	case d.Failed && d.ExitCode == nil:
		facts = append(facts, st.Red("failed"))
	}
	inline := len(lines) == 1 && d.ExitCode == nil && !d.Failed && Width(lines[0]) <= 40
	switch {
	case inline:
		facts = append(facts, lines[0])
	case len(lines) > 0:
		n := Count(len(lines), "line")
		if d.Cut {
			n = "long output"
		}
		facts = append(facts, n)
	}
	if d.Duration >= 100*time.Millisecond {
		facts = append(facts, Duration(d.Duration))
	}
	mark, title := s.toolTitle(d)
	tail := ""
	width := 0
	if len(facts) > 0 {
		tail = "  " + strings.Join(facts, st.Dim(st.Dot()))
		width = 2 + Width(strings.Join(plainFacts(facts), st.Dot()))
	}
	if d.Tool == "finish" && len(lines) > 0 { // the agent's last words
		s.line(2, mark+" "+title)
		s.prose(4, output)
		return
	}
	s.line(2, mark+" "+Cut(title, max(20, s.o.Width-4-width))+dimTail(st, tail))
	if !inline {
		s.output(lines, d)
	}
	s.busy("thinking")
}

// toolTitle is one line for a call; of a script it is the first line.
func (s *Session) toolTitle(d core.ToolData) (mark, title string) {
	st := s.o.Style
	mark = st.Cyan(st.either("›", ">"))
	text := strings.TrimSpace(Clean(d.Title))
	if text == "" {
		text = Clean(d.Tool)
	}
	if rest, ok := strings.CutPrefix(text, "$ "); ok {
		mark, text = st.Cyan("$"), rest
	}
	head, more, _ := strings.Cut(text, "\n")
	title = Line(head)
	if n := len(splitLines(more)); n > 0 {
		title += " " + st.either("…", "...") + " +" + Count(n, "line")
	}
	return mark, title
}

func dimTail(st Style, tail string) string {
	if strings.Contains(tail, "\x1b") {
		return tail
	}
	return st.Dim(tail)
}

var paint = regexp.MustCompile("\x1b\\[[0-9;]*m")

func plainFacts(facts []string) []string {
	out := make([]string, len(facts))
	for i, f := range facts {
		out[i] = paint.ReplaceAllString(f, "")
	}
	return out
}

func splitLines(s string) []string {
	if s == "" {
		return nil
	}
	return strings.Split(s, "\n")
}

// output prints the end of an output, where the news is.
func (s *Session) output(lines []string, d core.ToolData) {
	limit := foldOther
	switch {
	case s.o.Full:
		limit = len(lines)
	case d.Failed || (d.ExitCode != nil && *d.ExitCode != 0):
		limit = foldBad
		if at := telling(lines); at >= 0 && at+tellingLines < len(lines)-foldBad/2 {
			s.some(lines[at:at+tellingLines], 6)
			lines, limit = lines[at+tellingLines:], foldBad/2
		}
	case d.ExitCode != nil:
		limit = foldGood
	}
	s.fold(lines, limit, 6)
}

// tellingLines is how much is shown from where a failure is told.
const tellingLines = 8

// tells matches the first line of what test programs and compilers say of a
// failure.
var tells = regexp.MustCompile(`(?i)^\s*(not ok\b|--- fail|fail(ed)?[: ]|e\s{3,}|\S*(error|exception|panic|traceback)\b.*:|✗|✘|×|✖|● )|\berror:|\bassertion`)

// telling is the place of the first such line, or -1.
func telling(lines []string) int {
	for i, l := range lines {
		if len(l) < 2000 && tells.MatchString(l) {
			return i
		}
	}
	return -1
}

// some prints lines as they are.
func (s *Session) some(lines []string, indent int) {
	for _, l := range lines {
		l = strings.TrimRight(strings.ReplaceAll(l, "\t", "    "), " ")
		if l == "" {
			s.line(0, "")
			continue
		}
		s.line(indent, s.o.Style.Dim(Cut(l, s.o.Width-indent)))
	}
}

// fold prints the last lines of a text and says how many came before.
func (s *Session) fold(lines []string, limit, indent int) {
	if limit == 0 || len(lines) == 0 {
		return
	}
	st := s.o.Style
	if hidden := len(lines) - limit; hidden > 0 {
		s.line(indent, st.Dim(fmt.Sprintf("%s %s", st.either("…", "..."), Count(hidden, "line"))))
		lines = lines[hidden:]
	}
	s.some(lines, indent)
}

func (s *Session) sandbox(d core.SandboxData) {
	st := s.o.Style
	switch d.State {
	case core.SandboxCreating:
		s.busy("making a sandbox")
	case core.SandboxRunning:
		from := Words(d.From)
		switch d.From {
		case "files":
			from = "from files"
		case "memory":
			from = "from a memory image"
		case "warm":
			from = "from the warm pool, with a memory image"
		case "running":
			from = "was running"
		}
		facts := []string{"sandbox ready"}
		if from != "" {
			facts[0] += " " + from
		}
		if d.Snapshot != "" {
			facts[0] += " of " + Line(string(d.Snapshot))
		}
		if d.Duration > 0 {
			facts = append(facts, Duration(d.Duration))
		}
		if d.Cause != "" {
			facts = append(facts, Line(d.Cause))
		}
		s.head()
		s.line(2, st.Good()+" "+strings.Join(facts, st.Dim(st.Dot())))
	case core.SandboxDead:
		s.head()
		s.line(2, st.Bad()+" "+st.Red("sandbox died")+": "+first(Words(d.Cause), "cause unknown")+"; its files are safe")
	}
}

// phase collects timed parts; they make one line when something else comes.
func (s *Session) phase(d core.Phase) {
	name := Words(d.Name)
	if name == "" {
		return
	}
	if d.Duration == 0 && !d.Cached {
		s.busy(name)
		return
	}
	if d.Cached {
		s.parts = append(s.parts, name+" cached")
		return
	}
	s.parts = append(s.parts, name+" "+Duration(d.Duration))
}

func (s *Session) service(d core.ServiceData) {
	st := s.o.Style
	switch d.State {
	case "ready":
		s.parts = append(s.parts, Line(d.Service)+" ready")
	case "failed":
		s.flushParts()
		s.head()
		s.line(2, st.Bad()+" service "+Line(d.Service)+" "+st.Red("failed"))
		if d.Detail != "" {
			s.para(4, Clean(d.Detail), st.Dim)
		}
	case "starting", "waiting":
		s.busy("starting service " + d.Service)
	}
}

func (s *Session) flushParts() {
	if len(s.parts) == 0 {
		return
	}
	parts := s.parts
	s.parts = nil
	s.head()
	st := s.o.Style
	for _, l := range Wrap(strings.Join(parts, st.Dot()), s.o.Width-4) {
		s.line(4, st.Dim(l))
	}
}

func (s *Session) picture(d core.PictureData) {
	st := s.o.Style
	s.totals.pictures++
	s.head()
	what := fmt.Sprintf("picture %s", Line(d.Name))
	if d.Width > 0 {
		what += fmt.Sprintf(" %dx%d", d.Width, d.Height)
	}
	if d.URL != "" {
		what += " of " + Line(d.URL)
	}
	where := ""
	if s.o.Picture != nil {
		where = s.o.Picture(d)
	}
	s.line(2, st.Cyan(st.either("▣", "#"))+" "+Cut(what, s.o.Width-4))
	if where != "" {
		s.line(4, st.Dim(where))
	}
}

// denied tells of a host once, and how to get access with the first. Programs
// try again and again: how often is told at the end of the run.
func (s *Session) denied(d core.DeniedData) {
	st := s.o.Style
	host := Line(d.Host)
	if d.Port > 0 {
		host = fmt.Sprintf("%s:%d", host, d.Port)
	}
	n := max(d.Count, 1)
	if s.refused[host] != nil {
		s.refused[host].all += n
		return
	}
	if s.refused == nil {
		s.refused = map[string]*refusals{}
	}
	s.refused[host] = &refusals{told: n, all: n}
	s.head()
	times := ""
	if d.Count > 1 {
		times = fmt.Sprintf(" (%d times)", d.Count)
	}
	why := reason(d.Reason)
	if len(s.refused) > 1 && strings.Contains(d.Reason, d.Host) { // said of the first one
		why = ""
	}
	s.line(2, st.Yellow(st.either("⊘", "x"))+" network: "+host+times+" "+st.Yellow("denied")+why)
	if d.Hint != "" && len(s.refused) == 1 {
		s.para(4, Clean(d.Hint), st.Dim)
	}
}

// refusals are how often a host was denied, and how often we said so.
type refusals struct{ told, all int }

// deniedTotal is one line about hosts that were denied more often than told.
func (s *Session) deniedTotal() {
	var parts []string
	for _, host := range slices.Sorted(maps.Keys(s.refused)) {
		if r := s.refused[host]; r.all > r.told {
			parts = append(parts, fmt.Sprintf("%s %d times", host, r.all))
		}
	}
	if len(parts) > 0 {
		st := s.o.Style
		s.para(2, st.either("⊘", "x")+" network denied: "+strings.Join(parts, ", "), st.Dim)
	}
}

func reason(s string) string {
	if s == "" {
		return ""
	}
	return ": " + Line(s)
}

func (s *Session) commit(d core.CommitData) {
	st := s.o.Style
	s.told()
	facts := []string{Count(d.Files, "file")}
	if d.Added+d.Removed > 0 {
		facts = append(facts, st.Green(fmt.Sprintf("+%d", d.Added))+" "+st.Red(fmt.Sprintf("-%d", d.Removed)))
	}
	s.line(2, st.Yellow(Short(d.Commit))+" "+Cut(Line(d.Subject), s.o.Width-45)+st.Dim(st.Dot())+strings.Join(facts, st.Dim(st.Dot())))
}

// cellNames say in words what the cells of the exam are.
func cellName(cell string) string {
	switch cell {
	case "A":
		return "base"
	case "B":
		return "branch"
	case "C":
		return "branch with the base's tests"
	case "D":
		return "base with the branch's tests"
	}
	return Line(cell)
}

func (s *Session) check(d core.CheckData) {
	st := s.o.Style
	s.told()
	name := Line(d.Check)
	if d.Cell != "" {
		name += st.Dim(" on " + cellName(d.Cell))
	}
	var facts []string
	if n := d.Passed + d.Failed + d.Skipped; n > 0 {
		facts = append(facts, fmt.Sprintf("%d passed", d.Passed))
		if d.Failed > 0 {
			facts = append(facts, st.Red(fmt.Sprintf("%d failed", d.Failed)))
		}
		if d.Skipped > 0 {
			facts = append(facts, st.Yellow(fmt.Sprintf("%d skipped", d.Skipped)))
		}
	} else if d.Result != "" {
		facts = append(facts, Words(d.Result))
	}
	if d.Duration > 0 {
		facts = append(facts, Duration(d.Duration))
	}
	mark := st.Good()
	switch d.Result {
	case "", "ok", "pass", "passed", "green", "done", "kept", "fixed":
		if d.Failed > 0 {
			mark = st.Bad()
		}
	default:
		mark = st.Bad()
	}
	if d.Cell == "A" || d.Cell == "D" { // the old code: red is no news there
		mark = st.Dim(st.either("•", "*"))
	}
	s.line(2, mark+" "+name+"  "+strings.Join(facts, st.Dim(st.Dot())))
	if d.Detail != "" {
		s.para(4, Clean(d.Detail), st.Dim)
	}
}
