package scenarios

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"drydock/internal/core"
	"drydock/internal/surface/api"
	"drydock/internal/surface/client"
	"drydock/internal/testkit"
	"drydock/internal/testkit/need"
)

const slow = `      - calls: [{tool: run, input: {command: "echo begun > progress.tmp; sleep 600"}}]
`

const afterSlow = `      - calls: [{tool: run, input: {command: cat progress.tmp}}]
      - expect: [{tool: run, contains: begun}]
        say: What the stopped prompt wrote is here.
`

// TestStop stops a session in the middle of a command, with a follow-up in its
// queue.
func TestStop(t *testing.T) {
	d := testkit.Start(t, testkit.Options{Script: scripts(
		mend("slow", "takes for ever", "shout", "$1", "$1!", slow),
		mendHello(afterSlow),
	)})
	env := d.BuildEnvironment(t, tinyRepo(t, nil))
	ana := d.Client(t, "ana")
	made, err := ana.CreateSession(t.Context(), api.CreateSession{Environment: env.Name, Prompt: "A task that takes for ever"})
	if err != nil {
		t.Fatal(err)
	}
	id := made.Session.ID
	next, err := ana.Prompt(t.Context(), id, api.CreatePrompt{Text: "Mend the greeting"})
	if err != nil {
		t.Fatal(err)
	}
	testkit.Follow(t, ana, id, func(e core.Event) bool { return e.Kind == core.EventToolStarted })
	awaitFile(t, ana, id, "progress.tmp", "begun\n") // the event comes before the command's first step
	asked := time.Now()
	if err := d.Client(t, "ben").Stop(t.Context(), id, "wrong task"); err != nil {
		t.Fatal(err)
	}
	stopped := testkit.Await(t, ana, id, made.Prompt.ID)
	if took := time.Since(asked); took > time.Minute {
		t.Errorf("the stop took %s", took)
	}
	if stopped.Prompt.State != core.PromptStopped || stopped.Run.State != core.RunStopped {
		t.Fatalf("prompt %+v, run %+v", stopped.Prompt, stopped.Run)
	}
	if s := stopped.Session; s.State != core.SessionIdle || !s.Held || !strings.Contains(s.Reason, "wrong task") {
		t.Errorf("session: %+v, want it idle, its queue held, and why", s)
	}
	if held := testkit.Result(t, ana, id, next.ID, nil); held.Prompt.State != core.PromptQueued {
		t.Errorf("the follow-up is %s, want it to wait", held.Prompt.State)
	}
	if _, err := ana.Continue(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	proven(t, testkit.Await(t, ana, id, next.ID), "ana", 1)
}

// awaitFile returns when a file of a session's sandbox says something.
func awaitFile(t *testing.T, c *client.Client, id core.SessionID, name, want string) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(30 * time.Second); ; <-tick.C {
		var got strings.Builder
		err := c.SessionFile(t.Context(), id, name, &got)
		if err == nil && got.String() == want {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("file %s says %q, want %q (error %v)", name, got.String(), want, err)
		}
	}
}

// TestBudget spends the money of a session in the middle of its run.
func TestBudget(t *testing.T) {
	d := testkit.Start(t, testkit.Options{Script: scripts(strings.Replace(mendHello(`      - calls: [{tool: run, input: {command: "echo first >> calls.tmp"}}]
      - calls: [{tool: run, input: {command: "echo second >> calls.tmp; cat calls.tmp"}}]
      - expect: [{tool: run, regex: "first\\nsecond\\n"}]
        calls: [{tool: run, input: {command: "wc -l < calls.tmp"}}]
`), "    answers:", "    usage: {input: 600000, output: 1}\n    answers:", 1))})
	env := d.BuildEnvironment(t, tinyRepo(t, nil))
	ana := d.Client(t, "ana")
	made, err := ana.CreateSession(t.Context(), api.CreateSession{
		Environment: env.Name, Prompt: "Mend the greeting", Model: testkit.PaidModel, Budget: core.Budget{Money: 1_000_000, WallClock: time.Hour},
	})
	if err != nil {
		t.Fatal(err)
	}
	id := made.Session.ID
	events := testkit.Follow(t, ana, id, func(e core.Event) bool {
		return e.Kind == core.EventSessionState && testkit.Data[core.StateData](t, e).To == string(core.SessionWaiting)
	})
	spent := testkit.Of[core.BudgetData](t, events, core.EventBudget)
	if len(spent) != 1 || spent[0].What != "money" {
		t.Errorf("the budget says %+v", spent)
	}
	if calls := testkit.Of[core.ModelData](t, events, core.EventModelCall); len(calls) != 2 {
		t.Errorf("%d model calls for a budget that two exceed", len(calls))
	}
	waiting := testkit.Result(t, ana, id, made.Prompt.ID, events)
	if waiting.Session.Wait != "budget" || waiting.Run.State != core.RunWaiting || waiting.Prompt.State != core.PromptRunning {
		t.Errorf("session %+v\nrun %+v\nprompt %+v", waiting.Session, waiting.Run, waiting.Prompt)
	}
	if _, err := ana.SetBudget(t.Context(), id, core.Budget{Money: 100_000_000, WallClock: time.Hour}); err != nil {
		t.Fatal(err)
	}
	done := testkit.Await(t, ana, id, made.Prompt.ID)
	proven(t, done, "ana", 1)
	if done.Run.ID != waiting.Run.ID {
		t.Errorf("run %s goes on as %s", waiting.Run.ID, done.Run.ID)
	}
	if got := done.Session.Cost; got.Unknown || got.Known < 3_000_000 {
		t.Errorf("cost %+v of five calls at 0.6", got)
	}
}

const hungry = `      - calls:
          - {tool: run, input: {command: "echo precious > kept.tmp"}}
      - calls:
          - {tool: run, input: {command: "head -c 900M /dev/zero | tail | wc -c"}}
      - expect: [{tool: run, failed: true, contains: memory}]
        say: That was too much for this machine.
        calls:
          - {tool: run, input: {command: cat kept.tmp}}
      - expect: [{tool: run, contains: precious}]
        say: The files are here.
`

// TestOutOfMemory lets a command of the agent eat more than its sandbox has.
func TestOutOfMemory(t *testing.T) {
	d := testkit.Start(t, testkit.Options{Script: scripts(mendHello(hungry))})
	env := d.BuildEnvironment(t, tinyRepo(t, func(f map[string]string) { f["drydock.yaml"] += "limits: {memory: 384MiB}\n" }))
	got := d.Run(t, env, "Mend the greeting")
	dead := slices.ContainsFunc(testkit.Of[core.SandboxData](t, got.Events, core.EventSandbox), func(s core.SandboxData) bool {
		return s.State == core.SandboxDead && s.Cause == "out_of_memory"
	})
	told := slices.ContainsFunc(testkit.Of[core.WarningData](t, got.Events, core.EventWarning), func(w core.WarningData) bool {
		return w.Code == "sandbox_died" && strings.Contains(w.Message, "memory") && w.Hint != ""
	})
	if !dead || !told {
		t.Errorf("death by memory is not told: dead %v, warning %v", dead, told)
	}
	if t.Failed() || got.Run.Verdict != "proven" {
		t.Logf("\n%s", testkit.Story(got.Events))
	}
	proven(t, got, "ana", 1)
}

// TestCheckOutOfMemory has a check that eats more than the sandbox has, once the
// agent has edited something. No more memory comes from trying again: the run is
// handed over, with the reason and the work.
func TestCheckOutOfMemory(t *testing.T) {
	d := testkit.Start(t, testkit.Options{Script: scripts(mendHello())})
	env := d.BuildEnvironment(t, tinyRepo(t, func(f map[string]string) {
		f["drydock.yaml"] = "base: debian:bookworm\nlimits: {memory: 384MiB}\nchecks:\n  hungry: {run: head -c 900M /dev/zero | tail | wc -c}\n"
	}))
	got := d.Run(t, env, "Mend the greeting")
	f := got.Run.Failure
	if got.Prompt.State != core.PromptHandedOver || f == nil || f.Code != "out_of_memory" {
		t.Fatalf("prompt %+v\nrun %+v\nfailure %+v\n%s", got.Prompt, got.Run, f, testkit.Story(got.Events))
	}
	if !strings.Contains(f.Message, "check hungry") || !strings.Contains(f.Hint, "limits.memory") {
		t.Errorf("failure %+v does not say what needed more, or what to do", f)
	}
	diff, err := d.Client(t, "ana").SessionDiff(t.Context(), got.Session.ID)
	if err != nil || !strings.Contains(diff.Diff, "Hello, $1") {
		t.Errorf("the work is not kept: %q %v", diff.Diff, err)
	}
}

// TestHandOver ends sessions that have nothing to deliver, and asks the
// command line for its exit code.
func TestHandOver(t *testing.T) {
	d := testkit.Start(t, testkit.Options{Script: `
scripts:
  - name: cannot
    when: {prompt: {contains: impossible}}
    answers:
      - calls:
          - {tool: write, input: {path: attempt.txt, content: "so far\n"}}
          - {tool: finish, input: {verdict: cannot, summary: "The task needs a printer, and there is none."}}
  - name: idle
    when: {prompt: {contains: nothing}}
    answers:
      - calls: [{tool: finish, input: {verdict: done, summary: "All is well as it is."}}]
  - name: answer
    when: {prompt: {contains: question}}
    answers:
      - calls: [{tool: finish, input: {verdict: answer, summary: "It greets people."}}]
`})
	env := d.BuildEnvironment(t, tinyRepo(t, nil))
	cannot := d.Run(t, env, "Do the impossible")
	if cannot.Prompt.State != core.PromptHandedOver || !strings.Contains(cannot.Run.Outcome, "printer") || cannot.Session.Change != "" {
		t.Errorf("prompt %+v\nrun %+v", cannot.Prompt, cannot.Run)
	}
	diff, err := d.Client(t, "ana").SessionDiff(t.Context(), cannot.Session.ID)
	if err != nil || !strings.Contains(diff.Diff, "so far") {
		t.Errorf("the work so far is not kept: %q %v", diff.Diff, err)
	}
	idle := d.Run(t, env, "Change nothing")
	if idle.Prompt.State != core.PromptHandedOver || idle.Run.Failure == nil || idle.Run.Failure.Code != "nothing_to_prove" {
		t.Errorf("prompt %+v\nrun %+v", idle.Prompt, idle.Run)
	}
	answer := d.Run(t, env, "A question: what does it do?")
	if answer.Prompt.State != core.PromptDone || !strings.Contains(answer.Run.Outcome, "greets") {
		t.Errorf("prompt %+v\nrun %+v", answer.Prompt, answer.Run)
	}
	if code, out := command(t, d, "run", "-e", env.Name, "--wait", "Do the impossible again"); code != 3 {
		t.Errorf("exit code %d for a hand-over, want 3:\n%s", code, out)
	}
	if code, out := command(t, d, "run", "-e", "no-such-place", "Anything"); code != 5 {
		t.Errorf("exit code %d for an environment that is not there, want 5:\n%s", code, out)
	}
}

// command runs the command line as it was built.
func command(t *testing.T, d *testkit.Daemon, args ...string) (int, string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, need.Bin(t, "drydock"), args...)
	cmd.Env = append(os.Environ(), "DRYDOCK_URL="+d.URL, "DRYDOCK_TOKEN="+testkit.OperatorToken(t, d.State))
	out, err := cmd.CombinedOutput()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return exit.ExitCode(), string(out)
	}
	if err != nil {
		t.Fatal(err)
	}
	return 0, string(out)
}
