package session

import (
	"slices"
	"strings"
	"testing"
	"time"

	"drydock/internal/core"
	"drydock/internal/store"
)

func TestOneWordForEverySession(t *testing.T) {
	now := time.Now()
	run := func(state core.RunState, verdict string) *store.RunHead {
		return &store.RunHead{State: state, Verdict: verdict, Finished: now.Add(-time.Hour), Failure: &core.Failure{Message: "the sandbox needed more memory"}}
	}
	change := func(state core.ChangeState, updated time.Duration) *core.Change {
		return &core.Change{Number: 7, State: state, Updated: now.Add(updated)}
	}
	ses := func(state core.SessionState, more ...func(*core.Session)) core.Session {
		s := core.Session{State: state, Reason: "why", Updated: now, Head: "0123456789abcdef"}
		for _, m := range more {
			m(&s)
		}
		return s
	}
	idle := ses(core.SessionIdle)
	question := &store.Approval{Question: "Are these meant?"}
	cases := map[string]struct {
		st     stand
		word   core.ViewWord
		reason string
	}{
		"a fork":                         {stand{session: idle}, core.ViewDraft, "why"},
		"waits for a runner":             {stand{session: ses(core.SessionQueued), place: 3}, core.ViewQueued, "why"},
		"starts":                         {stand{session: ses(core.SessionStarting), here: true}, core.ViewStarting, "why"},
		"works":                          {stand{session: ses(core.SessionRunning), here: true, node: &store.TurnNode{Title: "implement the task", Number: 2}, facts: store.Facts{Tool: "$ go test"}}, core.ViewWorking, "implement the task: $ go test"},
		"works, waits for room":          {stand{session: ses(core.SessionRunning), here: true, waits: true, node: &store.TurnNode{Title: "prove"}}, core.ViewWorking, "why"},
		"works elsewhere":                {stand{session: ses(core.SessionRunning), held: now.Add(time.Minute)}, core.ViewWorking, "why"},
		"cut off, has a place":           {stand{session: ses(core.SessionRunning), place: 1}, core.ViewQueued, "why"},
		"nobody is heard of":             {stand{session: ses(core.SessionRunning, func(s *core.Session) { s.Updated = now.Add(-time.Hour) }), held: now.Add(-10 * time.Minute)}, core.ViewLost, "nobody has been heard of who works on it; the work up to commit 0123456789 is safe"},
		"waits for an answer":            {stand{session: ses(core.SessionWaiting, func(s *core.Session) { s.Wait = waitPerson }), question: question}, core.ViewNeedsYou, "Are these meant?"},
		"waits for money":                {stand{session: ses(core.SessionWaiting, func(s *core.Session) { s.Wait = waitBudget }), question: question}, core.ViewPaused, "why"},
		"is stopping":                    {stand{session: ses(core.SessionStopping), here: true}, core.ViewStopping, "why"},
		"was stopped":                    {stand{session: idle, run: run(core.RunStopped, "")}, core.ViewStopped, "why"},
		"a held queue":                   {stand{session: ses(core.SessionIdle, func(s *core.Session) { s.Held = true }), run: run(core.RunDone, "proven")}, core.ViewStopped, "why"},
		"proven":                         {stand{session: idle, run: run(core.RunDone, "proven"), change: change(core.ChangeOpen, 0), facts: store.Facts{VerdictReason: "fixed 1 case"}}, core.ViewProven, "fixed 1 case"},
		"unproven, open question":        {stand{session: idle, run: run(core.RunDone, "unproven"), change: change(core.ChangeOpen, 0), question: question}, core.ViewNeedsYou, "Are these meant?"},
		"unproven":                       {stand{session: idle, run: run(core.RunDone, "unproven")}, core.ViewUnproven, "why"},
		"the proof says broken":          {stand{session: idle, run: run(core.RunDone, "broken")}, core.ViewBroken, "why"},
		"the run failed":                 {stand{session: ses(core.SessionFailed), run: run(core.RunFailed, "")}, core.ViewBroken, "the sandbox needed more memory"},
		"an answer":                      {stand{session: idle, run: run(core.RunDone, "")}, core.ViewAnswered, "why"},
		"handed over":                    {stand{session: idle, run: run(core.RunHandedOver, "handed_over")}, core.ViewHandedOver, "why"},
		"merged":                         {stand{session: idle, run: run(core.RunDone, "proven"), change: change(core.ChangeMerged, 0), question: question}, core.ViewMerged, "change #7 was merged"},
		"merged, then something else":    {stand{session: idle, run: run(core.RunDone, ""), change: change(core.ChangeMerged, -2*time.Hour)}, core.ViewAnswered, "why"},
		"closed":                         {stand{session: idle, run: run(core.RunDone, "proven"), change: change(core.ChangeClosed, 0)}, core.ViewClosed, "change #7 was closed without merging"},
		"archived":                       {stand{session: ses(core.SessionArchived), run: run(core.RunDone, "proven")}, core.ViewClosed, "why"},
		"archived after it was merged":   {stand{session: ses(core.SessionArchived), change: change(core.ChangeMerged, 0)}, core.ViewMerged, "why"},
		"merged, and works on again":     {stand{session: ses(core.SessionRunning), here: true, change: change(core.ChangeMerged, 0)}, core.ViewWorking, "why"},
		"stopped while a question waits": {stand{session: ses(core.SessionStopping), here: true, question: question}, core.ViewStopping, "why"},
	}
	var seen []core.ViewWord
	for name, c := range cases {
		c.st.now, c.st.silence = now, time.Minute
		v := c.st.view()
		if v.Word != c.word || v.Reason != c.reason || v.Role == "" || v.Glyph == "" || v.Since.IsZero() {
			t.Errorf("%s: got %+v, want %s because %q", name, v, c.word, c.reason)
		}
		if (v.Role == "ask" || v.Role == "unp" || v.Role == "ok") && strings.TrimSpace(v.Action) == "" {
			t.Errorf("%s: %s does not say what to do", name, v.Word)
		}
		if (v.Position > 0) != (v.Word == core.ViewQueued && c.st.place > 0) {
			t.Errorf("%s: place %d", name, v.Position)
		}
		seen = append(seen, v.Word)
	}
	for _, w := range core.ViewWords() {
		if !slices.Contains(seen, w) {
			t.Errorf("no session is ever %s", w)
		}
	}
}
