package render

import (
	"fmt"
	"strings"

	"drydock/internal/core"
)

func (s *Session) prompt(ev core.Event) {
	d := Decode[core.PromptData](ev)
	st := s.o.Style
	switch {
	case ev.Kind == core.EventPromptQueued:
		s.gap()
		lines := Wrap(strings.TrimSpace(Clean(d.Text)), s.o.Width-4)
		s.line(0, st.Cyan(st.either("▌ ", "| "))+st.Bold(Line(d.Author.Handle)))
		for i, l := range lines {
			if i == 12 && !s.o.Full && len(lines) > 14 {
				s.line(0, st.Cyan(st.either("▌ ", "| "))+st.Dim(fmt.Sprintf("%s %s", st.either("…", "..."), Count(len(lines)-i, "more line"))))
				break
			}
			s.line(0, st.Cyan(st.either("▌ ", "| "))+l)
		}
		s.busy("waiting for a place")
	case d.State == core.PromptRemoved:
		s.line(0, st.Dim("prompt "+Line(string(d.Prompt))+" was withdrawn"))
	case d.State == core.PromptQueued && d.Reason != "":
		s.line(0, st.Dim("prompt waits: "+Line(d.Reason)))
	}
}

func (s *Session) sessionState(ev core.Event) {
	d := Decode[core.StateData](ev)
	st := s.o.Style
	switch core.SessionState(d.To) {
	case core.SessionQueued:
		s.busy(first(Line(d.Reason), "waiting for a place"))
	case core.SessionStarting:
		s.busy("starting")
	case core.SessionRunning:
		s.busy("working")
	case core.SessionWaiting:
		s.head()
		s.line(2, st.Warn()+" "+st.Yellow("waiting for a person")+reason(d.Reason))
		s.busy("waiting for a person")
	case core.SessionStopping:
		s.head()
		s.line(2, st.Warn()+" stopping"+reason(d.Reason))
		s.busy("stopping")
	case core.SessionFailed:
		s.doing = ""
	case core.SessionIdle, core.SessionArchived:
		s.doing = ""
	}
}

func (s *Session) runStarted(ev core.Event) {
	s.runAt, s.places = ev.Time, 0
	s.totals, s.refused = totals{}, nil
	s.busy("starting")
}

// endWords says how a run ended.
func endWords(state core.RunState) string {
	switch state {
	case core.RunDone:
		return "done"
	case core.RunHandedOver:
		return "handed over"
	case core.RunStopped:
		return "stopped"
	case core.RunFailed:
		return "failed"
	}
	return Words(string(state))
}

func (s *Session) runFinished(ev core.Event) {
	d := Decode[core.RunData](ev)
	st := s.o.Style
	s.node, s.tool, s.draft, s.doing = nil, nil, "", ""
	s.gap()
	word := endWords(d.State)
	switch d.State {
	case core.RunDone:
		word = st.Good() + " " + st.Green(word)
	case core.RunFailed:
		word = st.Bad() + " " + st.Red(word)
	default:
		word = st.Warn() + " " + st.Yellow(word)
	}
	facts := []string{st.Bold(word)}
	if !s.runAt.IsZero() && ev.Time.After(s.runAt) {
		facts[0] += " in " + Duration(ev.Time.Sub(s.runAt))
	}
	if s.totals.calls > 0 {
		c := Count(int(s.totals.calls), "model call")
		if s.totals.scripted {
			c += " (scripted: answers from a file, no model)"
		} else {
			c += " for " + Cost(s.totals.cost)
		}
		facts = append(facts, c)
	}
	s.line(0, strings.Join(facts, st.Dim(st.Dot())))
	if d.Outcome != "" {
		s.para(2, Clean(d.Outcome), nil)
	}
	if d.Failure != nil {
		s.failure(*d.Failure)
	}
	s.deniedTotal()
	s.next(d, Line(ev.Subject))
}

// failure tells what broke, with the command and the end of its output.
func (s *Session) failure(f core.Failure) {
	failure(&s.screen, f, s.o.Full)
}

func failure(s *screen, f core.Failure, full bool) {
	st := s.o.Style
	s.para(2, first(Clean(f.Message), Words(f.Code)), st.Red)
	if f.Command != "" {
		s.line(2, st.Dim("command  ")+Cut(Line(f.Command), s.o.Width-12))
	}
	lines := splitLines(strings.TrimRight(Clean(f.Output), "\n \t"))
	limit := 25
	if full {
		limit = len(lines)
	}
	if hidden := len(lines) - limit; hidden > 0 {
		s.line(4, st.Dim(fmt.Sprintf("%s %s before", st.either("…", "..."), Count(hidden, "line"))))
		lines = lines[hidden:]
	}
	for _, l := range lines {
		l = strings.TrimRight(strings.ReplaceAll(l, "\t", "    "), " ")
		if l == "" {
			s.line(0, "")
			continue
		}
		for _, part := range Wrap(l, s.o.Width-4) {
			s.line(4, part)
		}
	}
	if f.Hint != "" {
		for i, l := range Wrap(Clean(f.Hint), s.o.Width-10) {
			lead := "      "
			if i == 0 {
				lead = "hint: "
			}
			s.line(2, st.Yellow(lead+l))
		}
	}
}

// next lists what the person may do now.
func (s *Session) next(d core.RunData, session string) {
	flags := ""
	if s.o.Flags != "" {
		flags = " " + Line(s.o.Flags)
	}
	var cs []Command
	if ref := s.changeRef(d.Change); ref != "" && d.State != core.RunFailed {
		cs = []Command{
			{"review", "drydock change diff " + ref + flags},
			{"proof", "drydock change evidence " + ref + flags},
			{"approve", "drydock change approve " + ref + flags},
			{"merge", "drydock change merge " + ref + flags},
		}
	}
	switch d.State {
	case core.RunHandedOver, core.RunFailed, core.RunStopped:
		cs = append(cs, Command{"look", "drydock session attach " + session + flags},
			Command{"work", "drydock session diff " + session + flags}, Command{"go on", "drydock session resume " + session + flags})
	}
	if len(cs) == 0 {
		return
	}
	s.gap()
	for l := range strings.Lines(Commands(s.o.Style, cs)) {
		s.line(0, strings.TrimRight(l, "\n"))
	}
}

func (s *Session) changeRef(id core.ChangeID) string {
	c := s.totals.change
	switch {
	case c != nil && c.Number > 0 && s.o.Environment != "" && !strings.HasPrefix(s.o.Environment, "env_"):
		return fmt.Sprintf("%s#%d", Line(s.o.Environment), c.Number)
	case c != nil:
		return Line(string(c.Change))
	}
	return Line(string(id))
}

func (s *Session) verdict(d core.VerdictData) {
	st := s.o.Style
	s.told()
	s.totals.verdict = d.Verdict
	s.gap()
	s.line(2, st.Bold("Verdict  ")+st.Bold(st.State(Words(d.Verdict)))+s.caseCounts(d))
	for _, r := range d.Reasons {
		s.bullet(st.either("•", "*"), Clean(r), nil)
	}
	if len(d.NotShown) > 0 {
		s.line(2, st.Yellow("Not shown"))
		for _, r := range d.NotShown {
			s.bullet(st.either("◦", "-"), Clean(r), nil)
		}
	} else if d.Verdict == "proven" || d.Verdict == "unproven" {
		s.line(2, st.Dim("Not shown: nothing known"))
	}
	if d.Evidence != "" {
		s.line(2, st.Dim("Evidence  "+Line(string(d.Evidence))))
	}
	s.gap()
}

func (s *Session) caseCounts(d core.VerdictData) string {
	st := s.o.Style
	var facts []string
	if d.Fixed > 0 {
		facts = append(facts, st.Green(fmt.Sprintf("%d fixed", d.Fixed)))
	}
	if d.Kept > 0 {
		facts = append(facts, fmt.Sprintf("%d kept", d.Kept))
	}
	if d.Broken > 0 {
		facts = append(facts, st.Red(fmt.Sprintf("%d broken", d.Broken)))
	}
	if len(facts) == 0 {
		return ""
	}
	return "  " + strings.Join(facts, st.Dim(st.Dot()))
}

func (s *Session) bullet(mark, text string, paint func(string) string) {
	for i, l := range Wrap(text, s.o.Width-6) {
		if paint != nil {
			l = paint(l)
		}
		if i > 0 {
			mark = " "
		}
		s.line(4, mark+" "+l)
	}
}

func (s *Session) change(d core.ChangeData) {
	st := s.o.Style
	s.told()
	switch d.Action {
	case "opened", "updated":
		s.totals.change = &d
	}
	by := ""
	if d.By != "" && d.By != "platform" {
		by = " by " + Line(d.By)
	}
	mark := st.Good()
	if d.Action == "pushed" {
		mark = st.Warn()
	}
	title := ""
	if d.Title != "" {
		title = "  " + Cut(Line(d.Title), s.o.Width-30)
	}
	s.line(2, mark+" change "+st.Bold(fmt.Sprintf("#%d", d.Number))+" "+Words(d.Action)+by+title)
}

func (s *Session) selection(d core.SelectionData) {
	st := s.o.Style
	s.head()
	if d.Action == "picked" {
		s.line(2, st.Good()+" "+Line(d.Reason)+" in "+Line(string(d.Selection)))
		return
	}
	s.line(2, st.Dim("not picked in "+Line(string(d.Selection))+": that is session "+Line(string(d.Picked))+", "+Line(d.Reason)))
}

func (s *Session) comment(d core.CommentData) {
	st := s.o.Style
	s.head()
	where := ""
	if d.Path != "" {
		where = " on " + Line(d.Path)
		if d.Line > 0 {
			where += fmt.Sprintf(":%d", d.Line)
		}
	}
	s.line(2, st.Cyan(st.either("✎", "*"))+" "+st.Bold(Line(d.Author.Handle))+" commented"+where)
	s.prose(4, Clean(d.Body))
}

// approvalData is what an approval event carries, as far as it is shown.
type approvalData struct {
	Approval core.ApprovalID    `json:"approval"`
	ID       core.ApprovalID    `json:"id"`
	State    core.ApprovalState `json:"state"`
	Question string             `json:"question"`
	By       string             `json:"decided_by"`
	To       core.ApprovalState `json:"to"` // in older logs
}

func (s *Session) approval(ev core.Event) {
	d := Decode[approvalData](ev)
	st := s.o.Style
	s.head()
	id := first(Line(string(d.Approval)), Line(string(d.ID)))
	if d.State == "" {
		d.State = d.To
	}
	if d.State != "" && d.State != core.ApprovalPending {
		by := ""
		if d.By != "" {
			by = " by " + Line(d.By)
		}
		s.line(2, st.Good()+" approval "+st.State(Words(string(d.State)))+by)
		return
	}
	s.line(2, st.Yellow("?")+" "+st.Bold("A person is asked"))
	s.para(4, first(Clean(d.Question), "(no question given)"), nil)
	for l := range strings.Lines(Commands(st, []Command{{"yes", "drydock approval approve " + id}, {"no", "drydock approval deny " + id}})) {
		s.line(2, strings.TrimRight(l, "\n"))
	}
}

func (s *Session) budget(ev core.Event) {
	d, st := Decode[core.BudgetData](ev), s.o.Style
	s.head()
	what, flag := Words(d.What), "--budget"
	if d.What == "wall_clock" {
		what, flag = "time", "--time"
	}
	if ev.Actor != "" && ev.Actor != "platform" && ev.Actor != "agent" { // a person set it
		s.line(2, fmt.Sprintf("%s budget of %s set to %s by %s", st.Good(), what, Line(d.Limit), Line(ev.Actor)))
		return
	}
	s.line(2, st.Warn()+" "+st.Yellow("budget of "+what)+fmt.Sprintf(": %s of %s used; the work is kept and waits", Line(d.Spent), Line(d.Limit)))
	s.line(4, st.Dim("go on with: drydock session resume "+Line(ev.Subject)+" "+flag+" MORE"))
}

func (s *Session) warning(d core.WarningData) {
	st := s.o.Style
	s.head()
	for i, l := range Wrap(first(Clean(d.Message), Words(d.Code)), s.o.Width-4) {
		mark := " "
		if i == 0 {
			mark = st.Warn()
		}
		s.line(2, mark+" "+l)
	}
	if d.Hint != "" {
		s.para(4, Clean(d.Hint), st.Dim)
	}
}
