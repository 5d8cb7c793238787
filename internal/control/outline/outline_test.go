package outline_test

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"drydock/internal/control/event"
	"drydock/internal/control/outline"
	"drydock/internal/core"
	"drydock/internal/store"
)

var ana = core.Author{Handle: "ana", Name: "Ana", Email: "ana@example.com"}

func open(t *testing.T) (*store.DB, *event.Log, core.Session) {
	t.Helper()
	db, err := store.Open(t.Context(), store.Options{Path: filepath.Join(t.TempDir(), "drydock.db")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	at := time.Now().UTC()
	env := core.Environment{ID: core.NewEnvironmentID(), Name: "shop", Source: "/srv/shop", DefaultBranch: "main", Created: at, Updated: at}
	if err := db.CreateEnvironment(t.Context(), env); err != nil {
		t.Fatal(err)
	}
	s := core.Session{ID: core.NewSessionID(), Environment: env.ID, Title: "x", State: core.SessionQueued, Owner: ana, Created: at, Updated: at}
	if err := db.CreateSession(t.Context(), s, ""); err != nil {
		t.Fatal(err)
	}
	return db, event.New(db, event.Options{}), s
}

func turnsOf(db *store.DB, id core.SessionID) ([]store.Turn, error) {
	list, err := db.Turns(context.Background(), id, 100)
	slices.Reverse(list)
	return list, err
}

func ev(kind core.EventKind, run core.RunID, data any) core.Event {
	e := core.NewEvent(kind, data)
	e.Run = run
	return e
}

// story is a log with two turns.
func story(p1, p2 core.PromptID, r1, r2 core.RunID) []core.Event {
	two := 2
	return []core.Event{
		ev(core.EventSessionCreated, "", core.StateData{From: "ses_000000000000000009", To: "queued"}),
		ev(core.EventPromptQueued, "", core.PromptData{Prompt: p1, Author: ana, Text: "do it", State: core.PromptQueued}),
		ev(core.EventPromptState, r1, core.PromptData{Prompt: p1, State: core.PromptRunning}), // 3
		ev(core.EventRunStarted, r1, core.RunData{Prompt: p1, State: core.RunRunning}),
		ev(core.EventSessionState, "", core.StateData{From: "queued", To: "starting"}),
		ev(core.EventSandbox, r1, core.SandboxData{Sandbox: "sbx_1", State: core.SandboxCreating}),
		ev(core.EventWarning, r1, core.WarningData{Code: "memory_not_restored", Message: "another build"}), // 7
		ev(core.EventSandbox, r1, core.SandboxData{Sandbox: "sbx_1", State: core.SandboxRunning, From: "files", Snapshot: "snp_000000000000000001"}),
		ev(core.EventNodeStarted, r1, core.NodeData{Node: "implement", Kind: "agent", Title: "implement the task", Number: 1}), // 9
		ev(core.EventModelCall, r1, core.ModelData{Model: "m", Cost: core.Cost{Known: 300}}),
		ev(core.EventToolStarted, r1, core.ToolData{Call: "a", Tool: "run", Title: "$ go test ./..."}),
		ev(core.EventToolFinished, r1, core.ToolData{Call: "a", Tool: "run", Failed: true, ExitCode: &two}),
		ev(core.EventNetworkDenied, r1, core.DeniedData{Host: "x.example.com"}), // 13
		ev(core.EventModelCall, r1, core.ModelData{Model: "m", Cost: core.Cost{Known: 200}}),
		ev(core.EventAgentText, r1, core.TextData{Text: "first words"}),
		ev(core.EventAgentText, r1, core.TextData{Text: "  the answer  "}), // 16
		ev(core.EventNodeFinished, r1, core.NodeData{Node: "implement", Number: 1, Result: "finished", Duration: time.Second}),
		ev(core.EventCommit, r1, core.CommitData{Files: 3, Added: 10, Removed: 2}),
		ev(core.EventVerdict, r1, core.VerdictData{Verdict: "unproven", Reasons: []string{"no test shows it", "b"}}),      // 19
		ev(core.EventApproval, r1, core.ApprovalData{Approval: "apr_1", State: core.ApprovalPending, Question: "meant?"}), // 20
		ev(core.EventChange, r1, core.ChangeData{Number: 1, Action: "opened"}),                                            // 21
		ev(core.EventRunFinished, r1, core.RunData{Prompt: p1, State: core.RunDone}),                                      // 22
		ev(core.EventSessionState, "", core.StateData{From: "running", To: "idle"}),
		ev(core.EventSandbox, "", core.SandboxData{Sandbox: "sbx_1", State: core.SandboxGone, Cause: "suspended"}),
		ev(core.EventPromptQueued, "", core.PromptData{Prompt: p2, Author: ana, Text: "again", State: core.PromptQueued}),
		ev(core.EventPromptState, r2, core.PromptData{Prompt: p2, State: core.PromptRunning}), // 26
		ev(core.EventRunStarted, r2, core.RunData{Prompt: p2, State: core.RunRunning}),
		ev(core.EventNodeStarted, r2, core.NodeData{Node: "prepare", Title: "start", Number: 1}),                                      // 28
		{Kind: core.EventToolStarted, Run: r2, Data: []byte(`"not an object"`)},                                                       // hostile: counts, and is no error
		ev(core.EventRunFinished, r2, core.RunData{Prompt: p2, State: core.RunFailed, Failure: &core.Failure{Code: "out_of_memory"}}), // 30
	}
}

func TestAnOutlineSaysWhatTheLogSays(t *testing.T) {
	db, log, s := open(t)
	ctx, id := t.Context(), s.ID
	p1, p2, r1, r2 := core.NewPromptID(), core.NewPromptID(), core.NewRunID(), core.NewRunID()
	for _, e := range story(p1, p2, r1, r2) { // one by one, as they come
		if _, err := log.Append(ctx, string(id), e); err != nil {
			t.Fatal(err)
		}
	}
	facts, err := db.Facts(ctx, id)
	if err != nil {
		t.Fatal(err)
	}
	want := store.Facts{
		Session: id, Parent: "ses_000000000000000009", Settled: 30, Turn: p2, VerdictReason: "no test shows it", Files: 3, Added: 10, Removed: 2,
		Sandbox: store.SandboxAsleep, Snapshot: "snp_000000000000000001", StartedFrom: "files",
	}
	if diff := cmp.Diff(want, facts, cmpopts.IgnoreFields(store.Facts{}, "StateAt")); diff != "" || facts.StateAt.IsZero() {
		t.Errorf("facts (-want +got):\n%s", diff)
	}
	turns, err := turnsOf(db, id)
	if err != nil {
		t.Fatal(err)
	}
	wantTurns := []store.Turn{
		{Prompt: p1, Session: id, Run: r1, First: 3, Tools: 1, Files: 3, Errors: 1, Cost: core.Cost{Known: 500}, Answer: 16, AnswerHead: "the answer", Nodes: 1, Marks: 5},
		{Prompt: p2, Session: id, Run: r2, First: 26, Tools: 1, Nodes: 1, Marks: 1},
	}
	if diff := cmp.Diff(wantTurns, turns); diff != "" {
		t.Errorf("turns (-want +got):\n%s", diff)
	}
	nodes, _ := db.TurnNodes(ctx, id, 0)
	if len(nodes) != 2 || nodes[0].Seq != 9 || nodes[0].State != "done" || nodes[0].Duration != time.Second || nodes[1].State != "cut" {
		t.Errorf("steps: %+v", nodes)
	}
	marks, _ := db.TurnMarks(ctx, id, 0)
	var got []string
	for _, m := range marks {
		got = append(got, fmt.Sprintf("%d %s", m.Seq, m.Kind))
	}
	if diff := cmp.Diff([]string{"7 warning", "13 denied", "19 verdict", "20 question", "21 change", "30 error"}, got); diff != "" {
		t.Errorf("marks (-want +got):\n%s", diff)
	}
	for seq, want := range map[int64]core.PromptID{2: "", 3: p1, 25: p1, 26: p2, 1000: p2} {
		if at, err := db.TurnAt(ctx, id, seq); at != want || err != nil {
			t.Errorf("event %d is in the turn of %q, want %q, %v", seq, at, want, err)
		}
	}
}

// TestOldLogsGetTheSameOutline: what is made from a log that was there before
// is what would have been kept.
func TestOldLogsGetTheSameOutline(t *testing.T) {
	p1, p2, r1, r2 := core.NewPromptID(), core.NewPromptID(), core.NewRunID(), core.NewRunID()
	events := story(p1, p2, r1, r2)
	kept, log, s := open(t)
	if _, err := log.Append(t.Context(), string(s.ID), events...); err != nil {
		t.Fatal(err)
	}
	old, _, o := open(t)
	if _, err := old.AppendEvents(t.Context(), string(o.ID), events); err != nil { // as before there were outlines
		t.Fatal(err)
	}
	if made, err := outline.Catchup(t.Context(), old); made != 1 || err != nil {
		t.Fatalf("%d made, %v", made, err)
	}
	if made, err := outline.Catchup(t.Context(), old); made != 0 || err != nil {
		t.Errorf("a second time %d were made, %v", made, err)
	}
	opts := cmp.Options{
		cmpopts.IgnoreTypes(time.Time{}), cmp.Transformer("id", func(core.SessionID) string { return "" }), cmpopts.IgnoreFields(store.TurnNode{}, "Duration"),
	}
	type all struct {
		Facts store.Facts
		Turns []store.Turn
		Nodes []store.TurnNode
		Marks []store.TurnMark
	}
	read := func(db *store.DB, id core.SessionID) (v all) {
		v.Facts, _ = db.Facts(t.Context(), id)
		v.Turns, _ = turnsOf(db, id)
		v.Nodes, _ = db.TurnNodes(t.Context(), id, 0)
		v.Marks, _ = db.TurnMarks(t.Context(), id, 0)
		return v
	}
	if diff := cmp.Diff(read(kept, s.ID), read(old, o.ID), opts); diff != "" {
		t.Errorf("kept while it was written (-), made later (+):\n%s", diff)
	}
	stands, err := old.StandingsOf(t.Context(), "ana", []core.SessionID{o.ID})
	if err != nil || stands[o.ID].Seq != int64(len(events)) {
		t.Errorf("what happened before is unread: %+v, %v", stands, err)
	}
}

func TestATurnIsBounded(t *testing.T) {
	db, log, s := open(t)
	p, r := core.NewPromptID(), core.NewRunID()
	events := []core.Event{ev(core.EventRunStarted, r, core.RunData{Prompt: p})}
	for i := range 3000 {
		events = append(events,
			ev(core.EventNetworkDenied, r, core.DeniedData{Host: "x"}),
			ev(core.EventNodeStarted, r, core.NodeData{Node: fmt.Sprint("n", i), Number: 1}))
	}
	if _, err := log.Append(t.Context(), string(s.ID), events...); err != nil {
		t.Fatal(err)
	}
	turns, _ := turnsOf(db, s.ID)
	marks, _ := db.TurnMarks(t.Context(), s.ID, 0)
	nodes, _ := db.TurnNodes(t.Context(), s.ID, 0)
	if len(marks) != outline.MaxMarks || len(nodes) != outline.MaxNodes || turns[0].Marks != 3000 || turns[0].Nodes != 3000 {
		t.Errorf("%d marks, %d steps of %+v", len(marks), len(nodes), turns[0])
	}
}

// FuzzFold: whatever an event says, an append goes through.
func FuzzFold(f *testing.F) {
	for _, e := range story("prm_000000000000000001", "prm_000000000000000002", "run_1", "run_2") {
		f.Add(string(e.Kind), string(e.Data))
	}
	db, err := store.Open(f.Context(), store.Options{Path: filepath.Join(f.TempDir(), "drydock.db")})
	if err != nil {
		f.Fatal(err)
	}
	log := event.New(db, event.Options{})
	f.Fuzz(func(t *testing.T, kind, data string) {
		e := core.Event{Kind: core.EventKind(kind), Data: []byte(data)}
		if kind == "" || data == "" || kind == string(core.EventDelta) {
			return
		}
		start := ev(core.EventRunStarted, "run_1", core.RunData{Prompt: "prm_000000000000000001"})
		if _, err := log.Append(t.Context(), "ses_000000000000000001", start, e); err != nil {
			t.Errorf("%s %q: %v", kind, data, err)
		}
	})
}
