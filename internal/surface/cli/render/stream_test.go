package render_test

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"drydock/internal/core"
	"drydock/internal/surface/api"
	"drydock/internal/surface/cli/render"
	"drydock/internal/surface/client"
	"drydock/internal/surface/surfacetest"
)

// played runs a prompt in the small world and returns the session's events.
func played(t *testing.T, prompt string) (core.Session, []core.Event) {
	t.Helper()
	w := surfacetest.New(t)
	c, err := client.New(client.Options{URL: w.Start(t), Token: surfacetest.AliceToken})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	made, err := c.CreateSession(t.Context(), api.CreateSession{Environment: "shop", Prompt: prompt})
	if err != nil {
		t.Fatal(err)
	}
	var events []core.Event
	for ev, err := range c.SessionEvents(t.Context(), made.Session.ID, 0) {
		if err != nil {
			t.Fatal(err)
		}
		events = append(events, ev)
		if ev.Kind == core.EventSessionState && strings.Contains(string(ev.Data), `"from":"running"`) {
			break
		}
	}
	return made.Session, events
}

func show(o render.Options, ses core.Session, events []core.Event) []byte {
	var out bytes.Buffer
	o.Out = &out
	r := render.NewSession(o)
	r.Header(ses)
	for _, ev := range events {
		r.Event(ev)
	}
	r.Close()
	return out.Bytes()
}

// TestGoldenStream keeps the look of a session: as a log in a file, in colour
// on a terminal, narrow in ASCII, and in full.
func TestGoldenStream(t *testing.T) {
	ses, events := played(t, "The total of a cart ignores its discount.\nAdd a test that shows it.")
	_, over := played(t, "hand over")
	_, broken := played(t, "break")
	_, ask := played(t, "ask me")
	uni := render.Style{Unicode: true}
	golden(t, "stream.txt", show(render.Options{Width: 100, Style: uni, Environment: "shop"}, ses, events))
	golden(t, "stream-color.txt", show(render.Options{Width: 100, Style: render.Style{Unicode: true, Color: true}, Environment: "shop", Flags: "--state /tmp/demo", Picture: func(core.PictureData) string { return "pictures/cart.png" }}, ses, events))
	golden(t, "stream-narrow.txt", show(render.Options{Width: 60}, ses, events))
	golden(t, "stream-full.txt", show(render.Options{Width: 100, Style: uni, Environment: "shop", Full: true}, ses, events))
	golden(t, "stream-ends.txt", bytes.Join([][]byte{
		show(render.Options{Style: uni, Environment: "shop"}, ses, over), show(render.Options{Style: uni, Environment: "shop"}, ses, broken),
		show(render.Options{Style: uni, Environment: "shop"}, ses, ask[:18]),
	}, []byte("\n----------\n")))
}

// TestGoldenRare shows the events that a good run does not have.
func TestGoldenRare(t *testing.T) {
	at := time.Date(2026, 1, 2, 15, 0, 0, 0, time.UTC)
	var events []core.Event
	add := func(kind core.EventKind, data any) {
		ev := core.NewEvent(kind, data)
		at = at.Add(time.Second)
		ev.Seq, ev.Time, ev.Subject = int64(len(events)+1), at, "ses_000000000000000001"
		events = append(events, ev)
	}
	add(core.EventRunStarted, core.RunData{})
	add(core.EventNodeStarted, core.NodeData{Node: "implement", Kind: "agent", Title: "implement the task", Number: 1})
	add(core.EventNodeStarted, core.NodeData{Node: "implement", Kind: "agent", Title: "implement the task", Number: 2})
	add(core.EventWarning, core.WarningData{Code: "memory_image_misfit", Message: "the memory image was made by another runtime; services start from files", Hint: "it is made again with the next build"})
	add(core.EventService, core.ServiceData{Service: "web", State: "failed", Detail: "exit code 1 after 3 restarts\nError: port 3000 is in use"})
	add(core.EventModelCall, core.ModelData{Model: "m-1", Outcome: "overloaded", Retries: 3})
	add(core.EventModelCall, core.ModelData{Model: "m-1", Outcome: "end_turn", Retries: 1, Cost: core.Cost{Known: 12_300}})
	add(core.EventSandbox, core.SandboxData{State: core.SandboxDead, Cause: "out_of_memory"})
	add(core.EventToolFinished, core.ToolData{Tool: "run", Title: "$ sleep 600", Failed: true, Output: "[timed out after 10m0s and was killed]\npartial"})
	add(core.EventToolFinished, core.ToolData{Tool: "search", Title: "search discount in cart", Output: "a\nb\nc", Cut: true})
	add(core.EventToolFinished, core.ToolData{Tool: "edit", Title: "edit cart/total.go", Failed: true, Output: "old is not in cart/total.go, nothing was changed."})
	for range 3 {
		add(core.EventNetworkDenied, core.DeniedData{Host: "a.example.com", Reason: "the policy does not allow a.example.com", Hint: "add it"})
		add(core.EventNetworkDenied, core.DeniedData{Host: "b.example.com", Port: 443, Reason: "the policy does not allow b.example.com", Hint: "add it"})
	}
	add(core.EventBudget, core.BudgetData{What: "money", Spent: "$2.0100", Limit: "$2.0000"})
	add(core.EventSessionState, core.StateData{From: "running", To: "waiting", Reason: "budget"})
	add(core.EventBudget, core.BudgetData{What: "money", Spent: "$2.0100", Limit: "$5.0000"})
	events[len(events)-1].Actor = "bob"
	add(core.EventComment, core.CommentData{Author: core.Author{Handle: "bob"}, Body: "Why not round here?\nIt is money.", Path: "cart/total.go", Line: 31})
	add(core.EventChange, core.ChangeData{Number: 1, Action: "pushed", By: "bob"})
	add(core.EventPromptState, core.PromptData{Prompt: "prm_1", State: core.PromptRemoved})
	add(core.EventNodeFinished, core.NodeData{Node: "implement", Result: "looping", Detail: "the same call 5 times"})
	add(core.EventNodeFinished, core.NodeData{Node: "repair", Title: "2 tries of repair are used up", Result: "spent", Detail: "2 tries of repair are used up"})
	add(core.EventCheck, core.CheckData{Check: "lint", Result: "failed", Failed: 2, Detail: "src/a.js:3 unused variable"})
	add(core.EventVerdict, core.VerdictData{Verdict: "broken", Reasons: []string{"1 case is green on the base and red on the branch"}, Broken: 1, Kept: 40})
	add(core.EventRunFinished, core.RunData{State: core.RunStopped, Outcome: "stopped by bob: enough"})
	golden(t, "rare.txt", show(render.Options{Style: render.Style{Unicode: true}}, core.Session{ID: "ses_000000000000000001"}, events))
}

// TestTerminalKeepsOneLiveLine looks at what a terminal is sent while a
// command runs: the bottom line is redrawn, and gone before anything else.
func TestTerminalKeepsOneLiveLine(t *testing.T) {
	var out bytes.Buffer
	now := time.Date(2026, 1, 2, 15, 0, 0, 0, time.UTC)
	r := render.NewSession(render.Options{Out: &out, Width: 60, Terminal: true, Live: true, Now: func() time.Time { return now }})
	ev := core.NewEvent(core.EventToolStarted, core.ToolData{Title: "$ npm test -- " + strings.Repeat("x", 80)})
	ev.Time = now
	r.Event(ev)
	now = now.Add(5 * time.Second)
	r.Tick()
	tail := out.String()[strings.LastIndex(out.String(), "\r"):]
	if !strings.Contains(tail, "npm test") || !strings.HasSuffix(tail, " 5 s") || render.Width(strings.TrimPrefix(tail, "\r\x1b[K")) >= 60 {
		t.Errorf("bottom line %q", tail)
	}
	r.Event(core.NewEvent(core.EventDelta, core.TextData{Text: "I will"}))
	out.Reset()
	r.Event(core.NewEvent(core.EventAgentText, core.TextData{Text: "I will look."}))
	if !strings.HasPrefix(out.String(), "\r\x1b[K") || !strings.Contains(out.String(), "  I will look.\n") {
		t.Errorf("text over the bottom line: %q", out.String())
	}
	r.Event(ev)
	out.Reset()
	r.Close()
	if out.String() != "\r\x1b[K" {
		t.Errorf("close leaves %q", out.String())
	}
}

// TestLongSilenceIsToldWithoutATerminal is for logs of CI systems, where a
// spinner shows nothing.
func TestLongSilenceIsToldWithoutATerminal(t *testing.T) {
	var out bytes.Buffer
	now := time.Date(2026, 1, 2, 15, 0, 0, 0, time.UTC)
	r := render.NewSession(render.Options{Out: &out, Live: true, Now: func() time.Time { return now }})
	ev := core.NewEvent(core.EventToolStarted, core.ToolData{Title: "$ npm test"})
	ev.Time = now
	r.Event(ev)
	for range 130 {
		now = now.Add(time.Second)
		r.Tick()
	}
	want := "  still running after 20 s: $ npm test\n  still running after 40 s: $ npm test\n  still running after 1 min: $ npm test\n"
	if out.String() != want {
		t.Errorf("got %q", out.String())
	}
}

func TestGoldenBuild(t *testing.T) {
	at := time.Date(2026, 1, 2, 15, 0, 0, 0, time.UTC)
	var good, bad bytes.Buffer
	play := func(out *bytes.Buffer, broken bool) {
		b := render.NewBuild(render.Options{Out: out, Style: render.Style{Unicode: true}, Environment: "shop"})
		emit := func(d time.Duration, kind core.EventKind, data any) {
			at = at.Add(d)
			ev := core.NewEvent(kind, data)
			ev.Time = at
			b.Event(ev)
		}
		emit(0, core.EventBuildState, core.BuildData{State: core.BuildRunning})
		emit(time.Second, core.EventPhase, core.Phase{Name: "mirror", Duration: time.Second, Detail: "commit 3f2a91c0de"})
		emit(0, core.EventPhase, core.Phase{Name: "base_image", Cached: true})
		emit(0, core.EventLog, core.LogData{Phase: "setup", Text: "$ npm ci\n"})
		emit(0, core.EventNetworkDenied, core.DeniedData{Host: "example.com", Port: 443, Reason: "not in the allow-list", Hint: "add it under network.allow"})
		emit(0, core.EventWarning, core.WarningData{Message: "the recipe has no checks", Hint: "without checks nothing can be proven"})
		if broken {
			for range 40 {
				emit(time.Second, core.EventLog, core.LogData{Phase: "setup", Text: "npm \x1b[31mERR!\x1b[0m line\n"})
			}
			emit(0, core.EventBuildState, core.BuildData{State: core.BuildFailed, Failure: &core.Failure{Message: "setup ended with exit code 1", Command: "npm ci", Hint: "run it by hand"}})
			return
		}
		emit(12*time.Second, core.EventPhase, core.Phase{Name: "setup", Duration: 12 * time.Second})
		emit(0, core.EventService, core.ServiceData{Service: "db", State: "ready"})
		emit(time.Second, core.EventBuildState, core.BuildData{State: core.BuildDone, Snapshot: "snp_000000000000000001"})
	}
	play(&good, false)
	play(&bad, true)
	golden(t, "build.txt", append(append(good.Bytes(), "----------\n"...), bad.Bytes()...))
}
