package scripted_test

import (
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"drydock/internal/harness/model"
	"drydock/internal/harness/model/scripted"
)

func parse(t *testing.T, text string) *scripted.Provider {
	t.Helper()
	f, err := scripted.Parse("test.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return scripted.New(f)
}

// talk plays an agent: results answer the calls of the last message in order.
type talk struct {
	t   *testing.T
	p   model.Provider
	req model.Request
}

func begin(t *testing.T, p model.Provider, prompt string) *talk {
	req := model.Request{System: "sys", Messages: []model.Message{{Role: model.User, Blocks: []model.Block{{Kind: model.Text, Text: "Step: implement\n<task>\n" + prompt + "\n</task>"}}}}}
	for _, n := range []string{"run", "read", "finish"} {
		req.Tools = append(req.Tools, model.Tool{Name: n})
	}
	return &talk{t: t, p: p, req: req}
}

func (k *talk) ask() (model.Response, error) {
	// A request that went through a store is all that a provider may rely on.
	raw, err := json.Marshal(k.req.Messages)
	if err != nil {
		k.t.Fatal(err)
	}
	k.req.Messages = nil
	if err := json.Unmarshal(raw, &k.req.Messages); err != nil {
		k.t.Fatal(err)
	}
	return k.p.Stream(k.t.Context(), k.req, func(model.Delta) {})
}

func (k *talk) must(results ...string) model.Response {
	k.t.Helper()
	k.add(results...)
	r, err := k.ask()
	if err != nil {
		k.t.Fatal(err)
	}
	k.req.Messages = append(k.req.Messages, model.Message{Role: model.Assistant, Blocks: r.Blocks})
	return r
}

func (k *talk) add(results ...string) {
	if len(results) == 0 {
		return
	}
	last := k.req.Messages[len(k.req.Messages)-1]
	var m model.Message
	m.Role = model.User
	i := 0
	for _, b := range last.Blocks {
		if b.Kind == model.ToolUse && i < len(results) {
			m.Blocks = append(m.Blocks, model.Block{Kind: model.ToolResult, Call: b.Call, Failed: strings.HasPrefix(results[i], "!"), Content: []model.Block{{Kind: model.Text, Text: results[i]}}})
			i++
		}
	}
	for ; i < len(results); i++ {
		m.Blocks = append(m.Blocks, model.Block{Kind: model.Text, Text: results[i]})
	}
	k.req.Messages = append(k.req.Messages, m)
}

func said(r model.Response) string {
	var out string
	for _, b := range r.Blocks {
		switch b.Kind {
		case model.Text:
			out += b.Text
		case model.ToolUse:
			out += " [" + b.Tool + " " + string(b.Input) + "]"
		}
	}
	return out
}

const two = `
scripts:
  - name: repair
    when: {prompt: {contains: cart}, message: {regex: 'Step: repair'}}
    answers: [{say: repairing}]
  - name: cart
    when: {prompt: {contains: [cart, total], not_contains: checkout}}
    answers:
      - say: I run the test.
        calls: [{tool: run, input: {command: go test, timeout: 60}}]
      - expect: [{tool: run, failed: true, regex: 'cart_test.go:\d+'}]
        capture: {line: 'cart_test.go:(\d+)', file: '(\w+\.go):\d+: want'}
        calls:
          - {tool: read, input: {path: "${file}", offset: "${line}", nested: [{a: "${line}-${line}"}]}}
          - {tool: run, input: {command: "true"}}
      - expect: [{tool: read, contains: "line ${line}"}, {tool: run, contains: done}]
        calls: [{tool: finish, input: {verdict: done, summary: "line ${line}"}}]
  - name: other
    when: {prompt: {contains: checkout}}
    answers: [{say: other}]
`

func TestScript(t *testing.T) {
	k := begin(t, parse(t, two), "the cart shows a wrong total")
	if got := said(k.must()); got != `I run the test. [run {"command":"go test","timeout":60}]` {
		t.Fatalf("got %s", got)
	}
	r := k.must("!cart_test.go:41: want 3")
	if got := said(r); got != ` [read {"nested":[{"a":"41-41"}],"offset":"41","path":"cart_test.go"}] [run {"command":"true"}]` {
		t.Fatalf("got %s", got)
	}
	if r.Outcome != model.WantsTools || !strings.HasPrefix(r.Model, "scripted:") || r.Usage.Input == 0 || r.Usage.CacheRead == 0 || r.Usage.Output == 0 {
		t.Fatalf("got %+v", r)
	}
	if got := said(k.must("line 41 is", "done")); !strings.Contains(got, `"summary":"line 41"`) {
		t.Fatalf("got %s", got)
	}
	if got := said(begin(t, parse(t, two), "a cart total in the checkout").must()); got != "other" {
		t.Fatalf("got %s", got)
	}
	k = begin(t, parse(t, two), "the cart total")
	k.req.Model = "other"
	if _, err := k.ask(); !scripted.IsMismatch(err) {
		t.Fatalf("a script that is named still has its condition: %v", err)
	}
}

func TestMismatchesSayWhatWasExpectedAndGot(t *testing.T) {
	p := parse(t, two)
	mismatch := func(k *talk, want ...string) {
		t.Helper()
		_, err := k.ask()
		f, ok := errors.AsType[*model.Fault](err)
		if !ok || f.Outcome != model.ScriptMismatch || f.Again() {
			t.Fatalf("got %v", err)
		}
		for _, w := range want {
			if !strings.Contains(f.Message, w) {
				t.Errorf("%q is not in:\n%s", w, f.Message)
			}
		}
	}
	mismatch(begin(t, p, "paint it blue"), "no script answers", "paint it blue")
	k := begin(t, p, "cart total")
	k.must()
	k.add("all is well")
	mismatch(k, `script "cart", answer 2`, `expected a result of run that failed=true and matches "cart_test.go:\\d+"`, "got:", "all is well")

	k = begin(t, p, "cart total")
	k.must()
	k.add("!cart_test.go:41 without the rest")
	mismatch(k, "nothing to capture for ${file}", "without the rest")

	k = begin(t, p, "cart total")
	k.must()
	k.must("!cart_test.go:41: want 3")
	k.must("line 41", "done")
	k.add("finished?")
	mismatch(k, "at its end after 3 answers", "finished?")

	k = begin(t, p, "cart total")
	k.req.Tools = k.req.Tools[:0:0]
	k.req.Tools = append(k.req.Tools, model.Tool{Name: "read"})
	mismatch(k, `calls the tool "run"`, "offers read")

	k = begin(t, p, "cart total")
	k.req.Messages = append(k.req.Messages, model.Message{Role: model.Assistant, Blocks: []model.Block{{Kind: model.Thinking, Signature: "EqQBCgIYAhIM"}}})
	mismatch(k, "begun by another model")
}

func TestRepeatAndIf(t *testing.T) {
	p := parse(t, `
scripts:
  - name: wait
    answers:
      - label: look
        calls: [{tool: run, input: {command: status}}]
        repeat: {until: [{tool: run, contains: ready}], max: 3}
      - if: [{tool: run, contains: warnings}]
        say: there are warnings
        calls: [{tool: run, input: {command: warnings}}]
      - say: done
`)
	k := begin(t, p, "x")
	first := k.must()
	second := k.must("starting")
	if said(first) != said(second) || first.Blocks[1].Call == second.Blocks[1].Call {
		t.Fatalf("got %s, then %s with the same identifiers", said(first), said(second))
	}
	if got := said(k.must("ready, with warnings")); !strings.HasPrefix(got, "there are warnings") {
		t.Fatalf("got %s", got)
	}
	if got := said(k.must("none")); got != "done" {
		t.Fatalf("got %s", got)
	}
	k = begin(t, p, "x")
	k.must()
	if got := said(k.must("ready")); got != "done" {
		t.Fatalf("a turn whose condition does not hold is left out: %s", got)
	}
	k = begin(t, p, "x")
	k.must()
	k.must("starting")
	k.must("starting")
	k.add("starting")
	if _, err := k.ask(); !scripted.IsMismatch(err) || !strings.Contains(err.Error(), "repeated 3 times") {
		t.Fatalf("got %v", err)
	}
}

func TestSimulatedEndings(t *testing.T) {
	p := parse(t, `
scripts:
  - name: faults
    usage: {input: 7, cache_read: 5, output: 3}
    answers:
      - {say: "a text that breaks off", fault: {kind: truncated, times: 2, retry_after: 3s}}
      - {calls: [{tool: run, raw: '{"command"'}]}
      - {say: cut, stop: max_tokens}
      - {say: big, fault: {kind: context_overflow, above: 5000}}
`)
	k := begin(t, p, "x")
	for attempt := range 2 {
		k.req.Attempt = attempt
		var streamed string
		_, err := p.Stream(t.Context(), k.req, func(d model.Delta) { streamed += d.Text })
		f, ok := errors.AsType[*model.Fault](err)
		if !ok || f.Outcome != model.Truncated || f.After != 3*time.Second || streamed != "a text that" {
			t.Fatalf("got %v after %q", err, streamed)
		}
	}
	k.req.Attempt = 2
	if r := k.must(); r.Usage.Input != 7 || r.Usage.CacheRead != 5 || r.Usage.Output != 3 {
		t.Fatalf("got %+v", r.Usage)
	}
	k.req.Attempt = 0
	if r := k.must("go on"); r.Blocks[1].BadInput != `{"command"` || string(r.Blocks[1].Input) != "{}" {
		t.Fatalf("got %+v", r.Blocks)
	}
	if r := k.must("told"); r.Outcome != model.MaxTokens {
		t.Fatalf("got %s", r.Outcome)
	}
	k.add(strings.Repeat("x", 6000))
	if _, err := k.ask(); model.OutcomeOf(err) != model.ContextOverflow {
		t.Fatalf("got %v", err)
	}
	k.req.Messages = k.req.Messages[:len(k.req.Messages)-1]
	if got := said(k.must("shorter")); got != "big" {
		t.Fatalf("got %s", got)
	}
}

func TestPaceAndDelay(t *testing.T) {
	p := parse(t, `
scripts:
  - name: slow
    delay: 1s
    answers: [{say: "one two three four five six seven", pace: 100ms}]
`)
	synctest.Test(t, func(t *testing.T) {
		k := begin(t, p, "x")
		start := time.Now()
		pieces := 0
		if _, err := p.Stream(t.Context(), k.req, func(model.Delta) { pieces++ }); err != nil {
			t.Fatal(err)
		}
		if d := time.Since(start); pieces < 2 || d != time.Second+time.Duration(pieces)*100*time.Millisecond {
			t.Fatalf("%d pieces in %s", pieces, d)
		}
	})
}

func TestSummaryOfAnAgentThatShortensItsMemory(t *testing.T) {
	k := begin(t, parse(t, two), "nothing that a script knows")
	k.req.Tools = nil
	if got := said(k.must()); !strings.Contains(got, "Scripted summary") {
		t.Fatalf("got %s", got)
	}
}

func TestManySessionsAtOnce(t *testing.T) {
	p := parse(t, two)
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() {
			k := begin(t, p, "cart total")
			k.must()
			k.must("!cart_test.go:41: want 3")
			k.must("line 41", "done")
		})
	}
	wg.Wait()
}

func TestMistakesShowTheirPlace(t *testing.T) {
	for name, tt := range map[string]struct{ text, want string }{
		"unknown key":      {"scripts:\n  - name: a\n    answers:\n      - sya: hello\n", `sya`},
		"no name":          {"scripts:\n  - answers: [{say: x}]\n", "name"},
		"no answers":       {"scripts:\n  - name: a\n", "0 answers"},
		"nothing to do":    {"scripts:\n  - name: a\n    answers:\n      - say: x\n      - label: y\n", "answers[1]: does nothing"},
		"bad pattern":      {"scripts:\n  - name: a\n    answers:\n      - {say: x, capture: {v: '('}}\n", "missing closing"},
		"unknown fault":    {"scripts:\n  - name: a\n    answers:\n      - fault: {kind: explode}\n", `"explode" is not known`},
		"unknown variable": {"scripts:\n  - name: a\n    answers:\n      - say: see ${line}\n", "${line} is captured nowhere"},
		"unknown label":    {"scripts:\n  - name: a\n    answers:\n      - {say: x, repeat: {from: y, until: [{contains: z}], max: 2}}\n", `"y" is no label`},
		"forward label":    {"scripts:\n  - name: a\n    answers:\n      - {say: x, repeat: {from: y, until: [{contains: z}], max: 2}}\n      - {label: y, say: z}\n", `"y" is no label`},
		"twice":            {"scripts:\n  - {name: a, answers: [{say: x}]}\n  - {name: a, answers: [{say: x}]}\n", "there twice"},
		"nothing":          {"", "0 scripts"},
		"bad duration":     {"scripts:\n  - {name: a, delay: soon, answers: [{say: x}]}\n", "soon"},
		"in":               {"scripts:\n  - {name: a, answers: [{say: x, expect: [{in: heaven, contains: x}]}]}\n", "heaven"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := scripted.Parse("demo.yaml", []byte(tt.text))
			if err == nil || !strings.Contains(err.Error(), tt.want) || !strings.Contains(err.Error(), "demo.yaml") {
				t.Fatalf("got %v, want a word about %q", err, tt.want)
			}
			if tt.text != "" && name != "nothing" && !strings.Contains(err.Error(), "^") {
				t.Errorf("no caret in:\n%v", err)
			}
		})
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(two))
	f.Add([]byte("scripts: [{name: a, answers: [{say: x, repeat: {until: [{contains: z}], max: 2}}]}]"))
	f.Add([]byte("scripts: [{name: a, answers: [{calls: [{tool: run, input: {a: .inf, b: 2001-01-01, c: !!binary aGk=}}]}]}]"))
	f.Add([]byte("a: &a [1]\nscripts: [{name: a, answers: [{calls: [{tool: run, input: {x: *a}}]}]}]"))
	f.Add([]byte("scripts: [~, {name: a, answers: [~]}]"))
	f.Fuzz(func(t *testing.T, data []byte) {
		file, err := scripted.Parse("f.yaml", data)
		if err != nil {
			return
		}
		// What parses can be played, and what it answers can be stored.
		p := scripted.New(file)
		req := model.Request{Messages: []model.Message{{Role: model.User, Blocks: []model.Block{{Kind: model.Text, Text: "x"}}}}, Tools: []model.Tool{{Name: "run"}}, Attempt: 1 << 20}
		for i := range file.Scripts {
			for _, a := range file.Scripts[i].Answers {
				a.Delay, a.Pace = scripted.Duration{}, scripted.Duration{}
			}
			file.Scripts[i].Delay = scripted.Duration{}
		}
		for range 5 {
			r, err := p.Stream(t.Context(), req, func(model.Delta) {})
			if err != nil {
				return
			}
			if _, err := json.Marshal(r); err != nil {
				t.Fatal(err)
			}
			req.Messages = append(req.Messages, model.Message{Role: model.Assistant, Blocks: r.Blocks})
		}
	})
}

func TestSeedsTellRequestsApart(t *testing.T) {
	p := parse(t, `
scripts:
  - {name: second, when: {seed: 2}, answers: [{say: two}]}
  - {name: any, answers: [{say: one}]}
`)
	for seed, want := range map[int64]string{0: "one", 1: "one", 2: "two"} {
		k := begin(t, p, "anything")
		k.req.Seed = seed
		r := k.must()
		if got := r.Blocks[len(r.Blocks)-1].Text; got != want {
			t.Errorf("seed %d: %q, want %q", seed, got, want)
		}
	}
}
