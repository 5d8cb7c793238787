package builtin_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"drydock/internal/core"
	"drydock/internal/harness/agent"
	"drydock/internal/harness/agent/builtin"
	"drydock/internal/harness/model"
	"drydock/internal/harness/model/scripted"
	"drydock/internal/harness/tool"
	"drydock/internal/harness/tool/tooltest"
)

// journal is a transcript in memory that survives the agent, and dies (returns
// an error) where a test says so.
type journal struct {
	mu      sync.Mutex
	entries []json.RawMessage
	events  []core.Event
	deltas  strings.Builder
	dieAt   int  // entry count at which Append fails; 0 never
	after   bool // the entry is written before the death
}

var errKilled = core.E("test", core.Internal, nil, "killed")

func (j *journal) Append(_ context.Context, _ agent.Task, e json.RawMessage, events ...core.Event) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	n := len(j.entries) + 1
	if j.dieAt == n && !j.after {
		return errKilled
	}
	j.entries = append(j.entries, append(json.RawMessage(nil), e...))
	j.events = append(j.events, events...)
	if j.dieAt == n {
		return errKilled
	}
	return nil
}

func (j *journal) Load(context.Context, agent.Task) ([]json.RawMessage, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return append([]json.RawMessage(nil), j.entries...), nil
}

func (j *journal) Event(_ context.Context, e core.Event) error {
	j.events = append(j.events, e)
	return nil
}
func (j *journal) Delta(s string) { j.deltas.WriteString(s) }

func (j *journal) count(kind core.EventKind) int {
	n := 0
	for _, e := range j.events {
		if e.Kind == kind {
			n++
		}
	}
	return n
}

type bench struct {
	t       *testing.T
	box     *tooltest.LocalBox
	dir     string
	gateway *model.Gateway
	agent   *builtin.Agent
	memory  *journal
	task    agent.Task
}

func newBench(t *testing.T, script string, opts builtin.Options) *bench {
	t.Helper()
	file, err := scripted.Parse("test.yaml", []byte(script))
	if err != nil {
		t.Fatal(err)
	}
	return newBenchWith(t, map[string]model.Provider{"scripted": scripted.New(file)}, "scripted", opts)
}

func newBenchWith(t *testing.T, providers map[string]model.Provider, name string, opts builtin.Options) *bench {
	t.Helper()
	b := &bench{t: t, dir: t.TempDir(), memory: &journal{}}
	b.box = tooltest.Local(t, b.dir)
	var err error
	b.gateway, err = model.New(model.Deps{Providers: providers}, model.Options{Retry: model.RetryPolicy{Base: 1, Cap: 2, Max: 2}})
	if err != nil {
		t.Fatal(err)
	}
	b.agent = builtin.New(builtin.Deps{Model: b.gateway, Tools: b.tools}, opts)
	b.task = agent.Task{
		Session: "ses_1", Run: "run_1", Attempt: "att_1", Node: "implement", Model: name,
		Goal: "make greet say hello", Rules: []agent.Rule{{Path: "AGENTS.md", Text: "Run sh test.sh."}},
	}
	return b
}

func (b *bench) tools(context.Context, agent.Task) (builtin.Tools, error) {
	return tool.New(tool.Deps{Box: b.box}, tool.Options{Root: b.dir}), nil
}

func (b *bench) file(name, content string) {
	b.t.Helper()
	if err := os.WriteFile(filepath.Join(b.dir, name), []byte(content), 0o755); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bench) work() agent.Result {
	b.t.Helper()
	r, err := b.agent.Work(b.t.Context(), b.task, b.memory, b.memory)
	if err != nil {
		b.t.Fatal(err)
	}
	return r
}

const greetScript = `
scripts:
  - name: greet
    when: {prompt: {contains: make greet say hello}}
    answers:
      - say: I run the test first.
        expect: [{in: message, contains: [AGENTS.md, "Step: implement"]}]
        calls: [{tool: run, input: {command: sh test.sh}}]
      - expect: [{tool: run, failed: true, contains: "want hello"}]
        capture: {file: 'in (\S+)\.'}
        say: It fails, as reported. I look at ${file}.
        calls:
          - {tool: read, input: {path: "${file}"}}
          - {tool: search, input: {pattern: hullo}}
      - expect:
          - {tool: read, contains: hullo}
          - {tool: search, contains: "greet:2: echo hullo"}
        calls: [{tool: edit, input: {path: "${file}", old: hullo, new: hello}}]
      - expect: [{tool: edit, failed: false}]
        calls: [{tool: run, input: {command: "echo x >> count; sh test.sh"}}]
      - expect: [{tool: run, contains: ok, failed: false}]
        calls: [{tool: finish, input: {verdict: done, summary: "greet said hullo; it says hello now.", claims: [sh test.sh passes]}}]
`

func greetBench(t *testing.T) *bench {
	b := newBench(t, greetScript, builtin.Options{})
	b.file("greet", "#!/bin/sh\necho hullo\n")
	b.file("test.sh", `[ "$(sh greet)" = hello ] && echo ok || { echo "want hello in greet."; exit 1; }`+"\n")
	return b
}

func TestWorkToTheEnd(t *testing.T) {
	b := greetBench(t)
	r := b.work()
	if r.Ending != agent.Finished || !strings.Contains(r.Summary, "it says hello now") || len(r.Claims) != 1 {
		t.Fatalf("got %+v", r)
	}
	data, _ := os.ReadFile(filepath.Join(b.dir, "greet"))
	if string(data) != "#!/bin/sh\necho hello\n" {
		t.Fatalf("greet is %q", data)
	}
	if s, f := b.memory.count(core.EventToolStarted), b.memory.count(core.EventToolFinished); s != 6 || f != 6 {
		t.Fatalf("%d calls started and %d finished, want 6 each", s, f)
	}
	if !strings.Contains(b.memory.deltas.String(), "I run the test first.") {
		t.Fatalf("streamed %q", b.memory.deltas.String())
	}
	if r.Usage.Calls != 5 || r.Usage.Output == 0 || r.Cost != (core.Cost{}) {
		t.Fatalf("usage %+v, cost %v", r.Usage, r.Cost)
	}
	again := b.work()
	if again.Ending != r.Ending || b.box.Starts != 2 {
		t.Fatalf("called again it gave %+v after %d starts", again, b.box.Starts)
	}
}

// The agent is killed at every single entry, before and after it is durable,
// and called again: it ends the same, asks no answered question twice, and
// repeats no command that was begun.
func TestKilledAtEveryStep(t *testing.T) {
	whole := greetBench(t)
	whole.work()
	for _, after := range []bool{false, true} {
		for at := 1; at <= len(whole.memory.entries); at++ {
			b := greetBench(t)
			b.memory.dieAt, b.memory.after = at, after
			if _, err := b.agent.Work(t.Context(), b.task, b.memory, b.memory); err == nil {
				t.Fatalf("entry %d: it did not die", at)
			}
			b.memory.dieAt = 0
			r := b.work()
			if r.Ending != agent.Finished {
				t.Fatalf("entry %d, after %v: got %+v", at, after, r)
			}
			if got, want := len(b.memory.entries), len(whole.memory.entries); got != want {
				t.Fatalf("entry %d, after %v: %d entries, want %d", at, after, got, want)
			}
			if got, want := len(b.memory.events), len(whole.memory.events); got != want {
				t.Fatalf("entry %d, after %v: %d events, want %d", at, after, got, want)
			}
			if data, _ := os.ReadFile(filepath.Join(b.dir, "count")); string(data) != "x\n" {
				t.Fatalf("entry %d, after %v: a command ran more than once: %q", at, after, data)
			}
		}
	}
}

// Many sessions share one agent, one gateway and one script.
func TestFiftyAtOnce(t *testing.T) {
	shared := greetBench(t)
	var wg sync.WaitGroup
	for range 50 {
		b := greetBench(t)
		b.agent = builtin.New(builtin.Deps{Model: shared.gateway, Tools: b.tools}, builtin.Options{})
		wg.Go(func() {
			r, err := b.agent.Work(t.Context(), b.task, b.memory, b.memory)
			if err != nil || r.Ending != agent.Finished {
				t.Errorf("got %+v, %v", r, err)
			}
		})
	}
	wg.Wait()
}
