package render

import (
	"fmt"
	"strings"
	"time"

	"drydock/internal/core"
)

// Session shows the events of one session as a log that reads from top to
// bottom: who asked what, each node of the blueprint under its number, what
// the agent says and does, and at the end verdict and change.
type Session struct {
	screen
	node    *nodeState
	places  int // nodes so far in this run; -1 when its beginning was not seen
	tool    *toolState
	doing   string // what the bottom line says when no tool runs
	doingAt time.Time
	draft   string // text as it is generated
	totals  totals
	runAt   time.Time
	parts   []string             // timed parts of a start that wait for their line
	refused map[string]*refusals // hosts denied in this run
	last    time.Time
	// oneLine is how many lines were out after a node that took one line: when
	// nothing came between, the next one follows without a gap.
	oneLine int
}

// Both remember when we saw the beginning: by our own clock, and for an old
// log later than it was.
type nodeState struct {
	core.NodeData
	place    int // in the run, from 1; 0 when the run's beginning was not seen
	at, seen time.Time
	printed  bool // its header is out
	told     bool // an event said what its detail would say
}

type toolState struct {
	title string
	seen  time.Time
	next  time.Duration // when to say that it still runs
}

type totals struct {
	calls    int64
	cost     core.Cost
	scripted bool
	pictures int
	verdict  string
	change   *core.ChangeData
}

// NewSession makes one.
func NewSession(o Options) *Session {
	return &Session{screen: screen{o: o.withDefaults()}, places: -1}
}

// Err is the first error of the writer.
func (s *Session) Err() error { return s.err }

// Close takes the bottom line away.
func (s *Session) Close() {
	s.flushParts()
	s.clear()
}

// Header prints what session this is; what was asked comes with the events.
func (s *Session) Header(ses core.Session) {
	st := s.o.Style
	facts := []string{Line(string(ses.ID))}
	if ses.Base != "" {
		ses.Base = "base " + ses.Base
	}
	for _, f := range []string{s.o.Environment, ses.Base, ses.Blueprint, ses.Model} {
		if f != "" {
			facts = append(facts, Line(f))
		}
	}
	s.line(0, st.Dim(strings.Join(facts, st.Dot())))
}

// Tick is to be called a few times a second. It redraws the bottom line.
// Without a terminal it says from time to time that a long command still
// runs, and lets a header out that waited.
func (s *Session) Tick() {
	s.draw()
	if s.o.Terminal || !s.o.Live {
		return
	}
	now := s.o.Now()
	if t := s.tool; t != nil && now.Sub(t.seen) >= t.next {
		t.next *= 2
		s.head()
		s.line(2, s.o.Style.Dim("still running after "+coarse(now.Sub(t.seen))+": "+Cut(t.title, s.o.Width-40)))
	}
	if s.node != nil && now.Sub(s.node.seen) > 3*time.Second {
		s.head()
	}
}

// draw shows on the bottom line what goes on.
func (s *Session) draw() {
	switch {
	case s.tool != nil:
		s.status(s.tool.title, s.tool.seen)
	case s.draft != "":
		s.status(s.draft, time.Time{})
	case s.node != nil:
		s.status(first(s.doing, Line(s.node.Title)), latest(s.doingAt, s.node.seen))
	case s.doing != "":
		s.status(s.doing, s.doingAt)
	}
}

func first(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// busy sets what the bottom line says.
// The time is ours: the daemon's clock may be another.
func (s *Session) busy(text string) {
	s.doing, s.doingAt = Line(text), s.o.Now()
}

// Event shows one.
func (s *Session) Event(ev core.Event) {
	if ev.Kind != core.EventDelta {
		s.last = ev.Time
	}
	if ev.Kind != core.EventPhase && ev.Kind != core.EventService && ev.Kind != core.EventDelta {
		s.flushParts()
	}
	switch ev.Kind {
	case core.EventDelta:
		s.delta(Decode[core.TextData](ev).Text)
	case core.EventAgentText:
		s.text(Decode[core.TextData](ev).Text)
	case core.EventAgentThought:
		s.thought(Decode[core.TextData](ev).Text)
	case core.EventToolStarted:
		d := Decode[core.ToolData](ev)
		s.draft = ""
		s.tool = &toolState{title: Line(d.Title), seen: s.o.Now(), next: 20 * time.Second}
	case core.EventToolFinished:
		s.tool = nil
		s.toolDone(Decode[core.ToolData](ev))
	case core.EventNodeStarted:
		s.nodeStarted(ev)
	case core.EventNodeFinished:
		s.nodeFinished(ev)
	case core.EventModelCall:
		s.modelCall(Decode[core.ModelData](ev))
	default:
		s.rare(ev)
	}
	s.draw()
}

func (s *Session) rare(ev core.Event) {
	switch ev.Kind {
	case core.EventSessionState:
		s.sessionState(ev)
	case core.EventPromptQueued, core.EventPromptState:
		s.prompt(ev)
	case core.EventRunStarted:
		s.runStarted(ev)
	case core.EventRunFinished:
		s.runFinished(ev)
	case core.EventSandbox:
		s.sandbox(Decode[core.SandboxData](ev))
	case core.EventPhase:
		s.phase(Decode[core.Phase](ev))
	case core.EventService:
		s.service(Decode[core.ServiceData](ev))
	case core.EventPicture:
		s.picture(Decode[core.PictureData](ev))
	case core.EventNetworkDenied:
		s.denied(Decode[core.DeniedData](ev))
	case core.EventCommit:
		s.commit(Decode[core.CommitData](ev))
	case core.EventCheck:
		s.check(Decode[core.CheckData](ev))
	case core.EventVerdict:
		s.verdict(Decode[core.VerdictData](ev))
	case core.EventChange:
		s.change(Decode[core.ChangeData](ev))
	case core.EventComment:
		s.comment(Decode[core.CommentData](ev))
	case core.EventApproval:
		s.approval(ev)
	case core.EventBudget:
		s.budget(ev)
	case core.EventSelection:
		s.selection(Decode[core.SelectionData](ev))
	case core.EventWarning:
		s.warning(Decode[core.WarningData](ev))
	}
}

// head prints the header of the node under way, once. It waits until there is
// something to put under it, so that a step that just works takes one line.
func (s *Session) head() {
	if s.node == nil || s.node.printed {
		return
	}
	s.node.printed = true
	s.gap()
	s.line(0, s.nodeName(s.node))
}

// told is head for events that say what the node's detail would say again.
func (s *Session) told() {
	s.head()
	if s.node != nil && s.node.Kind != "agent" {
		s.node.told = true
	}
}

func (s *Session) nodeName(n *nodeState) string {
	st := s.o.Style
	name := nodeTitle(n)
	if n.Kind == "agent" {
		return st.Bold(name) + st.Dim("  agent")
	}
	return st.Bold(name)
}

func (s *Session) nodeStarted(ev core.Event) {
	n := &nodeState{NodeData: Decode[core.NodeData](ev), at: ev.Time, seen: s.o.Now()}
	switch {
	case s.node != nil && s.node.Node == n.Node: // interrupted, and taken up again
		s.head()
		n.place = s.node.place
	case s.places >= 0:
		s.places++
		n.place = s.places
	}
	s.node = n
	s.doing, s.draft, s.tool = "", "", nil
	if s.node.Kind == "agent" {
		s.busy("thinking")
		s.head()
	}
}

func (s *Session) nodeFinished(ev core.Event) {
	d := Decode[core.NodeData](ev)
	st := s.o.Style
	took := d.Duration
	if took == 0 && s.node != nil {
		took = ev.Time.Sub(s.node.at)
	}
	tail := s.result(d.Result) + st.Dim(Duration(took))
	detail := Line(d.Detail)
	if s.node != nil && !s.node.printed {
		name := nodeTitle(s.node)
		if s.oneLine != s.count {
			s.gap()
		}
		s.line(0, st.Bold(Pad(Cut(name, s.o.Width-20), min(52, s.o.Width-20)))+"  "+tail)
		s.oneLine = s.count
	} else {
		if s.node == nil && d.Title != "" { // it never began: a cap was reached
			s.line(2, Line(d.Title))
		}
		s.line(2, tail)
	}
	if detail == Line(d.Title) || (s.node != nil && s.node.told) {
		detail = ""
	}
	if detail != "" {
		s.para(4, detail, st.Dim)
	}
	s.node, s.tool, s.draft, s.doing = nil, nil, "", ""
}

func nodeTitle(n *nodeState) string {
	name := first(Line(n.Title), Line(n.Node))
	if n.place > 0 {
		name = fmt.Sprintf("%d  %s", n.place, name)
	}
	if n.Number > 1 {
		name += fmt.Sprintf(" (try %d)", n.Number)
	}
	return name
}

// result paints the edge that a node took; one that just went well needs no
// word.
func (s *Session) result(word string) string {
	st := s.o.Style
	switch word {
	case "", "ok", "done", "finished":
		return st.Good() + " "
	case "passed", "pass", "green", "clean", "proven", "delivered", "answered":
		return st.Good() + " " + st.Green(Words(word)) + st.Dim(st.Dot())
	case "failed", "fail", "error", "broken", "red", "fault", "timeout", "model_failed":
		return st.Bad() + " " + st.Red(Words(word)) + st.Dim(st.Dot())
	}
	return st.Yellow(st.Arrow()+" "+Words(word)) + st.Dim(st.Dot())
}

func (s *Session) delta(text string) {
	if !s.o.Terminal {
		return
	}
	s.draft += text
	if i := strings.LastIndexByte(strings.TrimRight(s.draft, "\n"), '\n'); i >= 0 {
		s.draft = s.draft[i+1:]
	}
	if n := Width(Line(s.draft)); n > s.o.Width-8 { // show the newest words
		runes := []rune(s.draft)
		s.draft = string(runes[max(0, len(runes)-(s.o.Width-8)):])
	}
}

func (s *Session) text(text string) {
	s.draft = ""
	text = strings.TrimSpace(Clean(text))
	if text == "" {
		return
	}
	s.head()
	s.gap()
	s.prose(2, text)
	s.gap()
	s.busy("thinking")
}

func (s *Session) thought(text string) {
	s.draft = ""
	lines := Wrap(strings.TrimSpace(Clean(text)), s.o.Width-4)
	if len(lines) == 0 || lines[0] == "" {
		return
	}
	s.head()
	limit := 3
	if s.o.Full {
		limit = len(lines)
	}
	for i, l := range lines {
		if i == limit {
			s.line(2, s.o.Style.Dim(s.o.Style.either("┆ …", ": ...")))
			break
		}
		s.line(2, s.o.Style.Dim(s.o.Style.either("┆ ", ": ")+l))
	}
}

func (s *Session) modelCall(d core.ModelData) {
	s.totals.calls++
	s.totals.cost = s.totals.cost.Add(d.Cost)
	s.totals.scripted = s.totals.scripted || d.Scripted
	if d.Retries > 0 {
		s.head()
		word := "retries"
		if d.Retries == 1 {
			word = "retry"
		}
		s.line(2, s.o.Style.Dim(fmt.Sprintf("the model answered after %d %s", d.Retries, word)))
	}
	switch d.Outcome {
	case "", "end_turn", "tool_use", "ok":
		return
	}
	s.head()
	s.line(2, s.o.Style.Warn()+" model "+Line(d.Model)+": "+s.o.Style.Yellow(Words(d.Outcome)))
}
