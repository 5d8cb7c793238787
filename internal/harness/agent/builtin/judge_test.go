package builtin_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"drydock/internal/core"
	"drydock/internal/harness/agent"
	"drydock/internal/harness/agent/builtin"
	"drydock/internal/harness/model"
	"drydock/internal/harness/model/modeltest"
	"drydock/internal/harness/model/openai"
)

func (b *bench) notes() string {
	var out []string
	for _, raw := range b.memory.entries {
		var e struct{ Kind, Note string }
		if err := json.Unmarshal(raw, &e); err != nil {
			b.t.Fatal(err)
		}
		if e.Kind == "note" {
			out = append(out, e.Note)
		}
	}
	return strings.Join(out, "\n")
}

func TestSameCallAgainAndAgain(t *testing.T) {
	b := newBench(t, `
scripts:
  - name: loop
    answers:
      - calls: [{tool: run, input: {command: echo same}}]
        repeat: {until: [{in: note, contains: never}], max: 50}
`, builtin.Options{})
	r := b.work()
	if r.Ending != agent.Looping || r.Turns != 5 || !strings.Contains(r.Detail, "5 times") {
		t.Fatalf("got %+v", r)
	}
	if n := b.notes(); strings.Count(n, "same call with the same result 3 times") != 1 {
		t.Fatalf("notes: %s", n)
	}
}

// A test that is run again after a change is not a repetition.
func TestTestAfterEachChangeIsNoLoop(t *testing.T) {
	var s strings.Builder
	s.WriteString("scripts:\n  - name: work\n    answers:\n")
	for i := range 8 {
		fmt.Fprintf(&s, "      - calls: [{tool: write, input: {path: f%d, content: x}}]\n", i)
		s.WriteString("      - calls: [{tool: run, input: {command: echo red; exit 1}}]\n")
	}
	s.WriteString("      - calls: [{tool: finish, input: {verdict: cannot, summary: It stays red.}}]\n")
	b := newBench(t, s.String(), builtin.Options{})
	if r := b.work(); r.Ending != agent.GaveUp || b.notes() != "" {
		t.Fatalf("got %+v, notes %q", r, b.notes())
	}
}

// Waiting for something slow is neither.
func TestWaitingIsNoLoop(t *testing.T) {
	b := newBench(t, `
scripts:
  - name: wait
    answers:
      - calls: [{tool: run, input: {command: sleep 60, background: true}}]
      - calls: [{tool: process, input: {id: p1, action: output}}]
        repeat: {until: [{in: note, contains: brought nothing new}], max: 50}
      - calls: [{tool: process, input: {id: p1, action: stop}}]
      - calls: [{tool: finish, input: {verdict: cannot, summary: slow}}]
`, builtin.Options{})
	if r := b.work(); r.Ending != agent.GaveUp || r.Turns != 24 {
		t.Fatalf("got %+v, notes %q", r, b.notes())
	}
}

func TestNothingNew(t *testing.T) {
	b := newBench(t, `
scripts:
  - name: idle
    answers:
      - calls: [{tool: list, input: {}}]
      - {label: a, calls: [{tool: run, input: {command: echo a}}]}
      - {calls: [{tool: run, input: {command: echo b}}]}
      - {calls: [{tool: run, input: {command: echo c}}], repeat: {from: a, until: [{in: note, contains: never}], max: 50}}
`, builtin.Options{Loop: 99, Remark: 98, NoProgress: 8})
	r := b.work()
	if r.Ending != agent.NoProgress || r.Turns != 12 || !strings.Contains(b.notes(), "last 4 turns brought nothing new") {
		t.Fatalf("got %+v, notes %q", r, b.notes())
	}
}

func TestEveryCallFails(t *testing.T) {
	var s strings.Builder
	s.WriteString("scripts:\n  - name: fail\n    answers:\n")
	for i := range 20 {
		fmt.Fprintf(&s, "      - calls: [{tool: read, input: {path: no%d}}]\n", i)
	}
	b := newBench(t, s.String(), builtin.Options{AllFailed: 6})
	r := b.work()
	if r.Ending != agent.NoProgress || r.Turns != 6 || !strings.Contains(b.notes(), "Every call of the last 3 turns failed") {
		t.Fatalf("got %+v, notes %q", r, b.notes())
	}
}

func TestSilence(t *testing.T) {
	b := newBench(t, "scripts: [{name: mute, answers: [{say: x, fault: {kind: empty, times: 99}}]}]", builtin.Options{})
	r := b.work()
	if r.Ending != agent.Silent || strings.Count(b.notes(), "answer was empty") != 1 {
		t.Fatalf("got %+v, notes %q", r, b.notes())
	}
}

func TestTalkWithoutFinish(t *testing.T) {
	b := newBench(t, `
scripts:
  - name: talk
    answers:
      - calls: [{tool: write, input: {path: x, content: y}}]
      - say: I am done.
      - {expect: [{in: note, contains: without calling finish}], say: "Really, I wrote x."}
`, builtin.Options{})
	r := b.work()
	if r.Ending != agent.Finished || r.Summary != "Really, I wrote x." || !strings.Contains(r.Detail, "without calling finish") {
		t.Fatalf("got %+v", r)
	}
}

func TestVerdicts(t *testing.T) {
	for verdict, want := range map[string]agent.Ending{"done": agent.Finished, "cannot": agent.GaveUp, "answer": agent.Answered} {
		b := newBench(t, fmt.Sprintf("scripts: [{name: f, answers: [{calls: [{tool: finish, input: {verdict: %s, summary: why}}]}]}]", verdict), builtin.Options{})
		if r := b.work(); r.Ending != want || r.Summary != "why" {
			t.Errorf("%s: got %+v", verdict, r)
		}
	}
}

// finish does not count when the model has not seen that its last act failed,
// and nothing is done after it.
func TestFinishWithOtherCalls(t *testing.T) {
	b := newBench(t, `
scripts:
  - name: f
    answers:
      - calls:
          - {tool: run, input: {command: exit 1}}
          - {tool: finish, input: {verdict: done, summary: too early}}
      - expect: [{tool: finish, failed: true, contains: another call of the same answer failed}]
        calls:
          - {tool: finish, input: {verdict: cannot, summary: it fails}}
          - {tool: write, input: {path: late, content: x}}
`, builtin.Options{})
	if r := b.work(); r.Ending != agent.GaveUp || r.Summary != "it fails" {
		t.Fatalf("got %+v", r)
	}
	if _, err := os.Stat(filepath.Join(b.dir, "late")); err == nil {
		t.Error("a call after finish was done")
	}
}

func TestWrongInputsAreTold(t *testing.T) {
	b := newBench(t, `
scripts:
  - name: f
    answers:
      - calls: [{tool: run, raw: '{"command": "ls'}]
      - expect: [{tool: run, failed: true, contains: not a JSON object}]
        calls: [{tool: run, input: {cmd: ls}}]
      - expect: [{tool: run, failed: true, contains: 'unknown field "cmd"'}]
        calls: [{tool: finish, input: {verdict: done, summary: ok}}]
`, builtin.Options{})
	if r := b.work(); r.Ending != agent.Finished {
		t.Fatalf("got %+v", r)
	}
}

func TestCutAnswers(t *testing.T) {
	b := newBench(t, `
scripts:
  - name: f
    answers:
      - {say: a very long, stop: max_tokens}
      - {expect: [{in: note, contains: cut off at the output limit}], say: again a long, stop: max_tokens}
      - {say: and again, stop: max_tokens}
`, builtin.Options{})
	if r := b.work(); r.Ending != agent.ModelFailed || r.Outcome != model.MaxTokens {
		t.Fatalf("got %+v", r)
	}
}

func TestTurnsAreCounted(t *testing.T) {
	var s strings.Builder
	s.WriteString("scripts:\n  - name: f\n    answers:\n")
	for i := range 30 {
		fmt.Fprintf(&s, "      - calls: [{tool: run, input: {command: echo %d}}]\n", i)
	}
	b := newBench(t, s.String(), builtin.Options{})
	b.task.MaxTurns = 20
	if r := b.work(); r.Ending != agent.OutOfTurns || r.Turns != 20 || !strings.Contains(b.notes(), "5 turns left") {
		t.Fatalf("got %+v, notes %q", r, b.notes())
	}
}

func TestModelThatFails(t *testing.T) {
	for kind, open := range map[string]bool{"refused": false, "rejected": false, "overloaded": true, "rate_limited": true, "unreachable": true} {
		b := newBench(t, fmt.Sprintf(`
scripts:
  - name: f
    answers:
      - calls: [{tool: run, input: {command: echo 1}}]
      - calls: [{tool: finish, input: {verdict: done, summary: ok}}]
        fault: {kind: %s, times: 3}
`, kind), builtin.Options{})
		r := b.work()
		if r.Ending != agent.ModelFailed || string(r.Outcome) != kind || r.Turns != 1 || r.Detail == "" {
			t.Fatalf("%s: got %+v", kind, r)
		}
		// A passing state of the world leaves the work where it was.
		var last struct{ Kind string }
		if err := json.Unmarshal(b.memory.entries[len(b.memory.entries)-1], &last); err != nil || (last.Kind == "end") == open {
			t.Errorf("%s: the last entry is %q", kind, last.Kind)
		}
	}
	b := newBench(t, "scripts: [{name: f, answers: [{expect: [{in: system, contains: no such words}], say: x}]}]", builtin.Options{})
	if r := b.work(); r.Outcome != model.ScriptMismatch || !strings.Contains(r.Detail, "got:") {
		t.Fatalf("got %+v", r)
	}
}

type budget struct{ left int }

func (b *budget) CheckBudget(context.Context, model.Caller) error {
	if b.left--; b.left < 0 {
		return core.E("budget", core.Exhausted, nil, "the session's budget is spent")
	}
	return nil
}
func (*budget) Spend(context.Context, model.Caller, core.Usage, core.Cost) error { return nil }

// A budget pauses: the work goes on where it was once there is money again.
func TestBudgetPauses(t *testing.T) {
	b := greetBench(t)
	money := &budget{left: 3}
	g, err := model.New(model.Deps{Providers: providersOf(t, greetScript), Budget: money}, model.Options{})
	if err != nil {
		t.Fatal(err)
	}
	b.agent = builtin.New(builtin.Deps{Model: g, Tools: b.tools}, builtin.Options{})
	if r := b.work(); r.Ending != agent.ModelFailed || r.Outcome != model.BudgetSpent || r.Turns != 3 {
		t.Fatalf("got %+v", r)
	}
	money.left = 10
	if r := b.work(); r.Ending != agent.Finished || r.Turns != 5 {
		t.Fatalf("got %+v", r)
	}
}

func TestStoppedInTheMiddleOfACommand(t *testing.T) {
	b := newBench(t, `
scripts:
  - name: f
    answers:
      - calls: [{tool: run, input: {command: "echo x >> n; sleep 30"}}]
      - expect: [{tool: run, failed: true, contains: killed by signal}]
        calls: [{tool: finish, input: {verdict: cannot, summary: interrupted}}]
`, builtin.Options{})
	reason := core.E("stop", core.Canceled, nil, "a person stopped it")
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	go func() {
		for ctx.Err() == nil {
			if _, err := os.Stat(filepath.Join(b.dir, "n")); err == nil {
				cancel(reason)
			}
			<-time.After(5 * time.Millisecond)
		}
	}()
	start := time.Now()
	r, err := b.agent.Work(ctx, b.task, b.memory, b.memory)
	if !core.Is(err, core.Canceled) || !errors.Is(err, reason) || r.Turns != 1 {
		t.Fatalf("got %+v, %v", r, err)
	}
	if time.Since(start) > 10*time.Second {
		t.Fatal("the command was waited for")
	}
	// Called again, it is told what became of the command.
	if r := b.work(); r.Ending != agent.GaveUp {
		t.Fatalf("got %+v", r)
	}
	if data, _ := os.ReadFile(filepath.Join(b.dir, "n")); string(data) != "x\n" {
		t.Fatalf("the command ran again: %q", data)
	}
}

func TestSandboxThatDies(t *testing.T) {
	b := greetBench(t)
	b.box.Break(core.E("box", core.Unavailable, nil, "the sandbox is gone"))
	if _, err := b.agent.Work(t.Context(), b.task, b.memory, b.memory); !core.Is(err, core.Unavailable) {
		t.Fatalf("got %v", err)
	}
	b.box.Break(nil)
	if r := b.work(); r.Ending != agent.Finished || r.Turns != 5 {
		t.Fatalf("got %+v", r)
	}
}

// A node may be visited again in a run: the next visit begins anew, unless the
// engine says that it resumes.
func TestNextAttempt(t *testing.T) {
	b := newBench(t, `
scripts:
  - name: second
    when: {message: {contains: still red}}
    answers: [{calls: [{tool: finish, input: {verdict: done, summary: second}}]}]
  - name: first
    answers:
      - calls: [{tool: run, input: {command: echo 1}}]
      - calls: [{tool: finish, input: {verdict: done, summary: first}}]
`, builtin.Options{})
	if r := b.work(); r.Summary != "first" {
		t.Fatalf("got %+v", r)
	}
	first := b.task.Attempt
	b.task.Attempt, b.task.Resumes = "att_2", first
	if r := b.work(); r.Summary != "first" || b.box.Starts != 1 {
		t.Fatalf("resumed: got %+v", r)
	}
	b.task.Resumes, b.task.Brief = "", "The tests are still red."
	if r := b.work(); r.Summary != "second" || r.Turns != 1 {
		t.Fatalf("got %+v", r)
	}
	// An attempt that was cut short is continued by the next one.
	b.task.Attempt, b.task.Brief = "att_3", ""
	b.memory.dieAt = len(b.memory.entries) + 4
	if _, err := b.agent.Work(t.Context(), b.task, b.memory, b.memory); err == nil {
		t.Fatal("it did not die")
	}
	b.memory.dieAt, b.task.Attempt = 0, "att_4"
	if r := b.work(); r.Summary != "first" || r.Turns != 2 || b.box.Starts != 2 {
		t.Fatalf("got %+v after %d starts", r, b.box.Starts)
	}
}

// The same loop against the wire format of a vendor.
func TestOverTheWire(t *testing.T) {
	d := modeltest.OpenAI{}
	use := func(id, name, input string) model.Block {
		return model.Block{Kind: model.ToolUse, Call: id, Tool: name, Input: json.RawMessage(input)}
	}
	u := core.Usage{Input: 100, Output: 10}
	srv := modeltest.Serve(t,
		d.Problem(model.Overloaded),
		d.Reply(model.WantsTools, u, use("call_0", "write", `{"path":"a","content":"1"}`), use("call_1", "run", `{"command":"cat a"}`)),
		d.Reply(model.WantsTools, u, use("call_0", "finish", `{"verdict":"done","summary":"ok"}`)))
	b := newBenchWith(t, map[string]model.Provider{"local": openai.New(openai.Options{BaseURL: srv.URL})}, "local/some-model", builtin.Options{})
	r := b.work()
	if r.Ending != agent.Finished || !r.Cost.Unknown || r.Usage.Input != 200 {
		t.Fatalf("got %+v", r)
	}
	last, _ := json.Marshal(srv.Requests()[2].Body["messages"])
	if !strings.Contains(string(last), `"content":"1"`) || !strings.Contains(string(last), "created a") {
		t.Fatalf("the results did not come to the model: %s", last)
	}
}
