package surfacetest

import (
	"context"
	"encoding/json"
	"strings"
	"time"

	"drydock/internal/core"
	"drydock/internal/surface/api"
)

const (
	commitA = "3f2a91c0de3f2a91c0de3f2a91c0de3f2a91c0de"
	commitB = "9b1d44e07c9b1d44e07c9b1d44e07c9b1d44e07c"
)

// Patch is the diff of every change in this world.
const Patch = `diff --git a/cart/total.go b/cart/total.go
index 1111111..2222222 100644
--- a/cart/total.go
+++ b/cart/total.go
@@ -8,3 +8,3 @@ func Total(c Cart) int {
-	return sum
+	return sum - c.Discount
 }
`

// PNG is a picture of one pixel.
const PNG = "\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR\x00\x00\x00\x01\x00\x00\x00\x01\x08\x06\x00\x00\x00\x1f\x15\xc4\x89"

// Run is one run that a script plays.
type Run struct {
	w       *World
	Ctx     context.Context //nolint:containedctx // a script runs within it
	Session core.SessionID
	Prompt  core.Prompt
	Run     core.RunID
}

// Emit appends an event of the run, d after the one before.
func (r *Run) Emit(d time.Duration, kind core.EventKind, data any) {
	ev := core.NewEvent(kind, data)
	ev.Run = r.Run
	r.w.Emit(string(r.Session), d, ev)
}

// State moves the session.
func (r *Run) State(to core.SessionState, reason string) {
	r.w.mu.Lock()
	ses, _ := r.w.session(r.Session)
	from := ses.State
	ses.State, ses.Reason, ses.Updated = to, reason, r.w.now
	r.w.mu.Unlock()
	r.Emit(0, core.EventSessionState, core.StateData{From: string(from), To: string(to), Reason: reason})
}

// End finishes run, prompt and session as the daemon does, and starts what
// waits next.
func (r *Run) End(run core.RunState, outcome, verdict string, f *core.Failure) {
	w := r.w
	w.mu.Lock()
	defer w.mu.Unlock()
	rec, _ := find(w.runs, "run", string(r.Run), func(x core.Run) bool { return x.ID == r.Run })
	rec.State, rec.Outcome, rec.Verdict, rec.Failure, rec.Finished = run, outcome, verdict, f, w.now
	ses, _ := w.session(r.Session)
	w.emit(string(r.Session), 0, core.NewEvent(core.EventRunFinished, core.RunData{
		Prompt: r.Prompt.ID, Blueprint: "code-change", State: run, Outcome: outcome, Verdict: verdict, Failure: f, Change: ses.Change,
	}))
	p, _ := find(w.prompts, "prompt", "", func(p core.Prompt) bool { return p.ID == r.Prompt.ID })
	p.State = map[core.RunState]core.PromptState{
		core.RunDone: core.PromptDone, core.RunHandedOver: core.PromptHandedOver, core.RunFailed: core.PromptFailed, core.RunStopped: core.PromptStopped,
	}[run]
	p.Finished = w.now
	w.emit(string(r.Session), 0, core.NewEvent(core.EventPromptState, core.PromptData{Prompt: p.ID, Author: p.Author, State: p.State}))
	ses.State = core.SessionIdle
	if run == core.RunFailed {
		ses.State = core.SessionFailed
	}
	w.emit(string(r.Session), 0, core.NewEvent(core.EventSessionState, core.StateData{From: "running", To: string(ses.State)}))
	delete(w.stops, r.Session)
	w.startNext(r.Session)
}

// Play is the default script. The words of the prompt choose how it goes:
// "wait" works until it is stopped, "hand over" and "break" end that way,
// "ask" asks a person first, "budget" spends it; everything else succeeds.
func Play(w *World, r *Run) {
	text := r.Prompt.Text
	r.Emit(0, core.EventPromptState, core.PromptData{Prompt: r.Prompt.ID, State: core.PromptRunning})
	r.State(core.SessionStarting, "")
	r.Emit(0, core.EventRunStarted, core.RunData{Prompt: r.Prompt.ID, Blueprint: "code-change", State: core.RunRunning})
	r.State(core.SessionRunning, "")
	r.begin()
	switch {
	case strings.Contains(text, "wait"):
		r.node("agent", "implement", "implement the task")
		<-r.Ctx.Done()
		if cause := context.Cause(r.Ctx); w.ctx.Err() == nil {
			r.State(core.SessionStopping, cause.Error())
			r.End(core.RunStopped, cause.Error(), "", nil)
		}
	case strings.Contains(text, "hand over"):
		r.node("agent", "implement", "implement the task")
		r.Emit(time.Second, core.EventAgentText, core.TextData{Text: "I cannot do this without the key of the payment provider."})
		r.done("implement", "gave_up", "the agent says it cannot do the task", 5*time.Second)
		r.End(core.RunHandedOver, "The agent gave up: a key is missing.", "handed_over", nil)
	case strings.Contains(text, "break"):
		r.End(core.RunFailed, "", "", &core.Failure{Code: "out_of_memory", Message: "the sandbox needed more than its 2 GiB of memory", Command: "npm test", Output: "line one\nline two\nKilled\n", Hint: "raise limits.memory in drydock.yaml"})
	default:
		if strings.Contains(text, "ask") {
			r.ask()
		}
		r.work()
		r.prove()
		r.deliver()
	}
}

func (r *Run) node(kind, name, title string) {
	r.Emit(10*time.Millisecond, core.EventNodeStarted, core.NodeData{Node: name, Kind: kind, Title: title, Number: 1})
}

func (r *Run) done(name, result, detail string, d time.Duration) {
	r.Emit(10*time.Millisecond, core.EventNodeFinished, core.NodeData{Node: name, Number: 1, Result: result, Detail: detail, Duration: d})
}

func (r *Run) begin() {
	r.node("step", "prepare", "start the sandbox and catch up with the base")
	r.Emit(0, core.EventSandbox, core.SandboxData{Sandbox: "sbx_000000000000000001", State: core.SandboxCreating})
	r.Emit(0, core.EventPhase, core.Phase{Name: "place", Duration: 2 * time.Millisecond})
	r.Emit(0, core.EventPhase, core.Phase{Name: "restore", Duration: 131 * time.Millisecond})
	r.Emit(142*time.Millisecond, core.EventSandbox, core.SandboxData{Sandbox: "sbx_000000000000000001", State: core.SandboxRunning, From: "files", Snapshot: "snp_000000000000000001", Duration: 142 * time.Millisecond})
	r.Emit(300*time.Millisecond, core.EventService, core.ServiceData{Service: "db", State: "ready"})
	r.Emit(100*time.Millisecond, core.EventService, core.ServiceData{Service: "web", State: "ready"})
	r.Emit(0, core.EventPhase, core.Phase{Name: "catch_up", Duration: 210 * time.Millisecond})
	r.done("prepare", "ok", "", 800*time.Millisecond)
	r.node("step", "context", "read the repository's rules and recipe")
	r.done("context", "ok", "AGENTS.md, 1 check, 1 page", 40*time.Millisecond)
}

func (r *Run) tool(d time.Duration, name, title, output string, code *int) {
	r.Emit(50*time.Millisecond, core.EventToolStarted, core.ToolData{Call: "c1", Tool: name, Title: title})
	r.Emit(d, core.EventToolFinished, core.ToolData{Call: "c1", Tool: name, Title: title, Output: output, ExitCode: code, Failed: code != nil && *code != 0, Duration: d})
}

func (r *Run) ask() {
	r.w.mu.Lock()
	a := api.Approval{ID: core.ApprovalID(r.w.id("apr_")), Session: r.Session, Run: r.Run, Kind: "scope", State: core.ApprovalPending, Question: "May the change touch .github/workflows?", AskedBy: r.Prompt.Author.Handle, Created: r.w.now, Deadline: r.w.now.Add(time.Hour)}
	r.w.approvals = append(r.w.approvals, a)
	r.w.mu.Unlock()
	r.Emit(0, core.EventApproval, a)
}

func (r *Run) work() {
	model := core.ModelData{Provider: "scripted", Model: "scripted/shop", Scripted: true, Outcome: "tool_use", Usage: core.Usage{Input: 900, Output: 80, Calls: 1}, Duration: time.Second}
	r.node("agent", "implement", "implement the task")
	r.Emit(time.Second, core.EventModelCall, model)
	r.Emit(0, core.EventAgentThought, core.TextData{Text: "The discount is stored on the cart. Let me see where the total is made."})
	r.Emit(0, core.EventAgentText, core.TextData{Text: "I will run the failing test first, to see the fault with my own eyes, and then read the code that computes the total of a cart."})
	r.tool(3100*time.Millisecond, "run", "$ go test ./cart", "[exit code 1]\n--- FAIL: TestTotalWithDiscount (0.00s)\n    cart_test.go:31: got 100, want 90\nFAIL\nFAIL\tshop/cart\t0.004s\n", new(1))
	r.tool(10*time.Millisecond, "read", "read cart/total.go", strings.Repeat("line\n", 40), nil)
	r.tool(10*time.Millisecond, "edit", "edit cart/total.go", "-1 +1 lines", nil)
	r.Emit(0, core.EventNetworkDenied, core.DeniedData{Host: "telemetry.example.com", Port: 443, Via: "dns", Reason: "not in the allow-list", Hint: "add it under network.allow in drydock.yaml", Count: 3})
	r.Emit(time.Second, core.EventModelCall, model)
	r.tool(2900*time.Millisecond, "run", "$ go test ./...", "[exit code 0]\n"+strings.Repeat("ok  \tshop/cart\t0.004s\n", 6), new(0))
	r.w.mu.Lock()
	d := digestOf([]byte(PNG))
	r.w.blobs[d] = []byte(PNG)
	r.w.mu.Unlock()
	r.tool(1700*time.Millisecond, "picture", "look at http://127.0.0.1:3000/", "http://127.0.0.1:3000/: status 200", nil)
	r.Emit(0, core.EventPicture, core.PictureData{Name: "cart", URL: "http://127.0.0.1:3000/", Digest: d, Width: 1280, Height: 800})
	r.Emit(0, core.EventAgentText, core.TextData{Text: "The total now takes the discount off.\n\n- `cart/total.go`: one line\n- the test that failed passes \x1b]0;owned\x07\x1b[2J"})
	r.done("implement", "finished", "", 21*time.Second)
	r.node("step", "autofix", "format and fix what a machine can fix")
	r.done("autofix", "ok", "", 200*time.Millisecond)
	r.node("step", "check", "run the checks that the edits touch")
	r.Emit(2*time.Second, core.EventCheck, core.CheckData{Check: "test", Result: "passed", Passed: 12, Duration: 2 * time.Second})
	r.done("check", "green", "", 2*time.Second)
	r.node("step", "scope", "is it what was asked, and safe to hand on?")
	r.done("scope", "ok", "", 20*time.Millisecond)
	r.node("step", "commit", "commit under the author's name and push the branch")
	r.Emit(0, core.EventCommit, core.CommitData{Commit: commitB, Branch: "drydock/1", Subject: "Apply the discount to the total", Author: r.Prompt.Author, Files: 2, Added: 12, Removed: 1})
	r.done("commit", "ok", "", 100*time.Millisecond)
}

func (r *Run) prove() {
	r.node("step", "prove", "prove it where the agent has never been")
	for _, c := range []core.CheckData{
		{Check: "test", Cell: "A", Result: "failed", Passed: 41, Failed: 1, Duration: 3 * time.Second},
		{Check: "test", Cell: "B", Result: "passed", Passed: 42, Skipped: 1, Duration: 3 * time.Second},
		{Check: "test", Cell: "D", Result: "failed", Passed: 41, Failed: 1, Duration: 3 * time.Second},
	} {
		r.Emit(3*time.Second, core.EventCheck, c)
	}
	r.w.mu.Lock()
	id := core.EvidenceID(r.w.id("evd_"))
	manifest, _ := json.Marshal(map[string]any{
		"verdict": "proven", "reasons": []string{"cart TestTotalWithDiscount fails by assertion without this change and passes with it"},
		"not_shown": []string{"web/cart.js 12-14: no test runs these changed lines"},
		"exam":      map[string]any{"base": commitA, "head": commitB, "snapshot": "snp_000000000000000001"},
		"cases": []map[string]any{
			{"id": map[string]string{"check": "test", "suite": "shop/cart", "name": "TestTotalWithDiscount"}, "class": "fixed", "cells": map[string][]string{"A": {"fail"}, "B": {"pass"}, "D": {"fail"}}, "message": "got 100, want 90"},
			{"id": map[string]string{"check": "test", "suite": "shop/cart", "name": "TestEmpty"}, "class": "kept", "cells": map[string][]string{"A": {"pass"}, "B": {"pass"}}},
		},
		"runs": []map[string]any{{
			"cell": "B", "try": 1, "check": "test", "command": "go test -json ./...", "exit_code": 0, "duration_ns": 3e9,
			"artifacts": []map[string]any{{"name": "B/test/stdout.log", "media_type": "text/plain", "digest": digestOf([]byte("log\n")), "size": 4}},
		}},
		"pictures": []map[string]any{{"page": "cart", "changed": 0.012}},
	})
	r.w.evidence[id] = manifest
	r.w.blobs[digestOf([]byte("log\n"))] = []byte("log\n")
	r.w.mu.Unlock()
	r.Emit(0, core.EventVerdict, core.VerdictData{
		Verdict: "proven", Reasons: []string{"cart TestTotalWithDiscount fails by assertion without this change and passes with it"},
		NotShown: []string{"web/cart.js 12-14: no test runs these changed lines"}, Evidence: id, Fixed: 1, Kept: 41,
	})
	r.done("prove", "proven", "", 9*time.Second)
}

func (r *Run) deliver() {
	r.node("step", "deliver", "open or update the change")
	r.w.mu.Lock()
	ses, _ := r.w.session(r.Session)
	action := "updated"
	if ses.Change == "" {
		action = "opened"
		c := core.Change{
			ID: core.ChangeID(r.w.id("chg_")), Number: int64(len(r.w.changes) + 1), Repository: "shop", Session: r.Session,
			Title: "Apply the discount to the total", Body: "The total of a cart ignored its discount.\n\n## Proof\n\nOne case is red without this change.", State: core.ChangeOpen,
			Base: "main", Branch: "drydock/1", BaseCommit: commitA, Head: commitB, Authors: []core.Author{r.Prompt.Author},
			Evidence: core.EvidenceID("evd_000000000000000001"), Verdict: "proven", Environment: ses.Environment, Created: r.w.now, Updated: r.w.now,
		}
		r.w.changes = append(r.w.changes, c)
		ses.Change, ses.Branch, ses.Head = c.ID, c.Branch, c.Head
	}
	ses.Usage = core.Usage{Input: 1800, Output: 160, Calls: 2}
	c, _ := r.w.change(string(ses.Change))
	d := core.ChangeData{Change: c.ID, Number: c.Number, Action: action, Title: c.Title, Head: c.Head, By: "platform"}
	r.w.mu.Unlock()
	r.Emit(100*time.Millisecond, core.EventChange, d)
	r.done("deliver", "ok", "", 100*time.Millisecond)
	r.End(core.RunDone, "Change #1 is proven and waits for review.", "proven", nil)
}
