package builtin_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	"drydock/internal/core"
	"drydock/internal/harness/agent"
	"drydock/internal/harness/agent/builtin"
	"drydock/internal/harness/model"
	"drydock/internal/harness/model/scripted"
)

func providersOf(t *testing.T, script string) map[string]model.Provider {
	t.Helper()
	f, err := scripted.Parse("test.yaml", []byte(script))
	if err != nil {
		t.Fatal(err)
	}
	return map[string]model.Provider{"scripted": scripted.New(f)}
}

// spy is a Completer with a small window that remembers what it was sent.
type spy struct {
	inner    model.Completer
	window   int
	mu       sync.Mutex
	requests []model.Request
	limit    int // requests with tools that have more bytes overflow
}

func (s *spy) Complete(ctx context.Context, c model.Caller, req model.Request, d func(model.Delta)) (model.Response, error) {
	s.mu.Lock()
	s.requests = append(s.requests, req)
	over := len(req.Tools) > 0 && s.limit > 0 && size(req) > s.limit
	s.mu.Unlock()
	if over {
		f := &model.Fault{Outcome: model.ContextOverflow}
		return model.Response{Outcome: f.Outcome}, core.E("complete", core.Exhausted, f, "too much")
	}
	return s.inner.Complete(ctx, c, req, d)
}

func (s *spy) Limits(string) (int, int, bool) {
	if s.window == 0 {
		return 0, 0, false
	}
	return s.window, 1000, true
}

func size(req model.Request) int {
	n := len(req.System)
	for _, m := range req.Messages {
		for _, b := range m.Blocks {
			n += len(b.Text) + len(b.Input)
			for _, c := range b.Content {
				n += len(c.Text)
			}
		}
	}
	return n
}

// longScript reads outputs of 4 KiB, and ends.
func longScript(turns int) string {
	var s strings.Builder
	s.WriteString("scripts:\n  - name: long\n    when: {prompt: {contains: greet}}\n    summary: The notes of the model.\n    answers:\n")
	for i := range turns {
		fmt.Fprintf(&s, "      - say: step %d\n        calls: [{tool: run, input: {command: \"echo step %d; head -c 4000 /dev/zero | tr '\\\\0' 'x'\"}}]\n", i, i)
	}
	s.WriteString("      - calls: [{tool: finish, input: {verdict: done, summary: ok}}]\n")
	return s.String()
}

func spied(t *testing.T, script string, window int, opts builtin.Options) (*bench, *spy) {
	b := newBench(t, script, opts)
	s := &spy{inner: b.gateway, window: window}
	b.agent = builtin.New(builtin.Deps{Model: s, Tools: b.tools}, opts)
	return b, s
}

func keepsTheTask(t *testing.T, req model.Request) {
	t.Helper()
	text := req.Messages[0].Blocks[0].Text
	if !strings.Contains(text, "<task>\nmake greet say hello\n</task>") || !strings.Contains(text, "Run sh test.sh.") {
		t.Fatalf("the task and the rules are not there word for word:\n%s", text)
	}
}

// The conversation stays inside the window, by cutting old outputs first and
// by a summary when that is not enough; task and rules are always there.
func TestMemoryIsShortenedBeforeItOverflows(t *testing.T) {
	for name, tt := range map[string]struct {
		window  int
		turns   int
		summary bool
	}{
		"cut":       {24_000, 24, false},
		"summarise": {12_000, 60, true},
	} {
		t.Run(name, func(t *testing.T) {
			b, s := spied(t, longScript(tt.turns), tt.window, builtin.Options{KeepTurns: 3})
			r := b.work()
			if r.Ending != agent.Finished || r.Turns != tt.turns+1 {
				t.Fatalf("got %+v", r)
			}
			summaries, cuts, told := 0, false, false
			for _, req := range s.requests {
				if n := float64(size(req))/3.5 + float64(req.MaxTokens); n > float64(tt.window) {
					t.Fatalf("a request of about %.0f tokens was sent into a window of %d", n, tt.window)
				}
				keepsTheTask(t, req)
				if len(req.Tools) == 0 {
					summaries++
					continue
				}
				for _, m := range req.Messages {
					for _, blk := range m.Blocks {
						told = told || strings.Contains(blk.Text, "The notes of the model.")
						for _, c := range blk.Content {
							cuts = cuts || strings.Contains(c.Text, "of this old output left out")
						}
					}
				}
			}
			if !cuts || (summaries > 0) != tt.summary || told != tt.summary {
				t.Fatalf("cuts %v, %d summaries, told %v", cuts, summaries, told)
			}
			warned := 0
			for _, e := range b.memory.events {
				if e.Kind == core.EventWarning && strings.Contains(string(e.Data), "context_shortened") {
					warned++
				}
			}
			if warned == 0 {
				t.Fatal("nobody was told")
			}
		})
	}
}

// A model whose window is not known says that it is full: the memory is
// shortened then, and the work goes on.
func TestOverflowThatTheModelReports(t *testing.T) {
	b, s := spied(t, longScript(12), 0, builtin.Options{KeepTurns: 4})
	s.limit = 30_000
	r := b.work()
	if r.Ending != agent.Finished || r.Turns != 13 {
		t.Fatalf("got %+v", r)
	}
	for _, req := range s.requests {
		keepsTheTask(t, req)
	}
}

// When even the shortest memory is too long, the work ends by name.
func TestOverflowThatCannotBeMended(t *testing.T) {
	b, s := spied(t, longScript(12), 0, builtin.Options{})
	s.limit = 100
	r := b.work()
	if r.Ending != agent.ModelFailed || r.Outcome != model.ContextOverflow {
		t.Fatalf("got %+v", r)
	}
}

// A restart finds the shortened memory as it was.
func TestShortenedMemoryIsResumed(t *testing.T) {
	whole, _ := spied(t, longScript(20), 12_000, builtin.Options{KeepTurns: 3})
	whole.work()
	n := len(whole.memory.entries)
	for _, at := range []int{n / 4, n / 2, n/2 + 1, n/2 + 2, n - 3} {
		b, s := spied(t, longScript(20), 12_000, builtin.Options{KeepTurns: 3})
		b.memory.dieAt, b.memory.after = at, true
		if _, err := b.agent.Work(t.Context(), b.task, b.memory, b.memory); err == nil {
			t.Fatal("it did not die")
		}
		b.memory.dieAt = 0
		if r := b.work(); r.Ending != agent.Finished || r.Turns != 21 {
			t.Fatalf("entry %d: got %+v", at, r)
		}
		if got := len(b.memory.entries); got != n {
			t.Errorf("entry %d: %d entries, want %d", at, got, n)
		}
		for _, req := range s.requests {
			keepsTheTask(t, req)
		}
	}
}
