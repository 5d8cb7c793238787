package model_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"drydock/internal/core"
	"drydock/internal/harness/model"
)

// fake answers with its steps in order; the last one is repeated.
type fake struct {
	steps    []func(req model.Request) (model.Response, error)
	requests []model.Request
	at       []time.Duration
	start    time.Time
	scripted bool
}

func (f *fake) Scripted() bool { return f.scripted }

func (f *fake) Stream(ctx context.Context, req model.Request, onDelta func(model.Delta)) (model.Response, error) {
	if f.start.IsZero() {
		f.start = time.Now()
	}
	f.at = append(f.at, time.Since(f.start))
	f.requests = append(f.requests, req)
	onDelta(model.Delta{Kind: model.Text, Text: "x"})
	return f.steps[min(len(f.requests)-1, len(f.steps)-1)](req)
}

func good(u core.Usage) func(model.Request) (model.Response, error) {
	return func(model.Request) (model.Response, error) {
		return model.Response{Outcome: model.EndTurn, Usage: u, Model: "m-2026", Blocks: []model.Block{{Kind: model.Text, Text: "secret answer"}}}, nil
	}
}

func bad(f model.Fault, u core.Usage) func(model.Request) (model.Response, error) {
	return func(model.Request) (model.Response, error) { return model.Response{Usage: u}, &f }
}

// ledger is a budget and a sink.
type ledger struct {
	usage  core.Usage
	cost   core.Cost
	events []core.Event
	limit  core.Money
	spends int
}

func (l *ledger) CheckBudget(context.Context, model.Caller) error {
	if l.limit > 0 && l.cost.Known >= l.limit {
		return core.E("budget", core.Exhausted, nil, "%s of %s are spent", l.cost, l.limit)
	}
	return nil
}

func (l *ledger) Spend(ctx context.Context, _ model.Caller, u core.Usage, c core.Cost) error {
	l.spends++
	l.usage, l.cost = l.usage.Add(u), l.cost.Add(c)
	return ctx.Err()
}

func (l *ledger) ModelCall(_ context.Context, _ model.Caller, e core.Event) error {
	l.events = append(l.events, e)
	return nil
}

func (l *ledger) last(t *testing.T) core.ModelData {
	t.Helper()
	var d core.ModelData
	if len(l.events) == 0 {
		t.Fatal("no event")
	}
	e := l.events[len(l.events)-1]
	if err := json.Unmarshal(e.Data, &d); err != nil || e.Kind != core.EventModelCall {
		t.Fatalf("event %s: %v", e.Kind, err)
	}
	return d
}

func gateway(t *testing.T, providers map[string]model.Provider, l *ledger, log *bytes.Buffer) *model.Gateway {
	t.Helper()
	deps := model.Deps{Providers: providers}
	if l != nil {
		deps.Budget, deps.Sink = l, l
	}
	if log != nil {
		deps.Log = slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	}
	g, err := model.New(deps, model.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return g
}

var caller = model.Caller{Session: "ses_1", Run: "run_1", Attempt: "att_1"}

func ask(name string) model.Request {
	return model.Request{Model: name, System: "secret prompt", Messages: []model.Message{{Role: model.User, Blocks: []model.Block{{Kind: model.Text, Text: "secret task"}}}}}
}

func TestMetering(t *testing.T) {
	p := &fake{steps: []func(model.Request) (model.Response, error){good(core.Usage{Input: 1_000_000, CacheRead: 1_000_000, CacheWrite: 100_000, Output: 10_000})}}
	l := &ledger{}
	var log bytes.Buffer
	g := gateway(t, map[string]model.Provider{"anthropic": p}, l, &log)
	resp, err := g.Complete(t.Context(), caller, ask("anthropic/claude-sonnet-5-5"), nil)
	if err != nil {
		t.Fatal(err)
	}
	// 2 + 0.1 + 0.25 + 0.1 dollars
	if want := core.Money(2_450_000); resp.Cost != (core.Cost{Known: want}) || l.cost.Known != want {
		t.Fatalf("cost %v, metered %v", resp.Cost, l.cost)
	}
	d := l.last(t)
	if d.Provider != "anthropic" || d.Model != "m-2026" || d.Outcome != "end_turn" || d.Scripted || d.Usage.Calls != 1 || d.Cost != resp.Cost {
		t.Fatalf("event %+v", d)
	}
	if e := l.events[0]; e.Run != caller.Run || e.Attempt != caller.Attempt {
		t.Fatalf("event %+v", e)
	}
	if r := p.requests[0]; r.Model != "claude-sonnet-5-5" || r.MaxTokens != 32000 || r.Window != 1_000_000 || !r.Thinks || r.CacheKey != "ses_1" {
		t.Fatalf("request %+v", r)
	}
	if strings.Contains(log.String(), "secret") {
		t.Fatalf("content is in the log: %s", log.String())
	}
}

func TestCostOfWhatIsNotInTheTable(t *testing.T) {
	used := core.Usage{Input: 10, Output: 10}
	p := &fake{steps: []func(model.Request) (model.Response, error){good(used)}}
	s := &fake{steps: []func(model.Request) (model.Response, error){good(used)}, scripted: true}
	l := &ledger{}
	g := gateway(t, map[string]model.Provider{"local": p, "scripted": s}, l, nil)
	resp, err := g.Complete(t.Context(), caller, ask("local/qwen"), nil)
	if err != nil || resp.Cost != (core.Cost{Unknown: true}) {
		t.Fatalf("an unknown model costs %v, %v", resp.Cost, err)
	}
	if resp, err = g.Complete(t.Context(), caller, ask("scripted"), nil); err != nil || resp.Cost != (core.Cost{}) {
		t.Fatalf("a scripted answer costs %v, %v", resp.Cost, err)
	}
	if d := l.last(t); !d.Scripted || d.Provider != "scripted" {
		t.Fatalf("event %+v", d)
	}
	if _, _, known := g.Limits("local/qwen"); known {
		t.Fatal("the limits of an unknown model are not known")
	}
	if w, o, known := g.Limits("scripted/x"); !known || w == 0 || o == 0 {
		t.Fatal("a script has limits")
	}
}

// vendor is a provider of a known vendor under a name of one's own.
type vendor struct{ *fake }

func (vendor) Vendor() string { return "anthropic" }

func TestPricesOfAVendorUnderAnotherName(t *testing.T) {
	p := &fake{steps: []func(model.Request) (model.Response, error){good(core.Usage{Input: 1_000_000})}}
	g := gateway(t, map[string]model.Provider{"work": vendor{p}, "local": p}, nil, nil)
	resp, err := g.Complete(t.Context(), caller, ask("work/claude-opus-5"), nil)
	if err != nil || resp.Cost != (core.Cost{Known: 5_000_000}) {
		t.Fatalf("got %v, %v", resp.Cost, err)
	}
	if _, err = g.Complete(t.Context(), caller, ask("local/claude-opus-5"), nil); err != nil {
		t.Fatal(err)
	}
	if n := p.requests[1].MaxTokens; n != 8192 {
		t.Fatalf("a model that is not known was asked for %d tokens", n)
	}
}

func TestRetries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &fake{steps: []func(model.Request) (model.Response, error){
			bad(model.Fault{Outcome: model.Overloaded, Status: 529}, core.Usage{}),
			bad(model.Fault{Outcome: model.RateLimited, Status: 429, After: 20 * time.Second}, core.Usage{}),
			bad(model.Fault{Outcome: model.Truncated}, core.Usage{Input: 500, Output: 7}),
			good(core.Usage{Input: 500, Output: 20}),
		}}
		l := &ledger{}
		g := gateway(t, map[string]model.Provider{"anthropic": p}, l, nil)
		resp, err := g.Complete(t.Context(), caller, ask("claude-opus-5"), nil)
		if err != nil {
			t.Fatal(err)
		}
		if resp.Retries != 3 || resp.Usage != (core.Usage{Input: 1000, Output: 27, Calls: 1}) {
			t.Fatalf("retries %d, usage %+v: a broken answer is paid for", resp.Retries, resp.Usage)
		}
		for i, r := range p.requests {
			if r.Attempt != i {
				t.Errorf("try %d says it is %d", i, r.Attempt)
			}
		}
		first, second, third := p.at[1], p.at[2]-p.at[1], p.at[3]-p.at[2]
		if first < 750*time.Millisecond || first > time.Second {
			t.Errorf("first wait %s", first)
		}
		if second < 20*time.Second || second > 22*time.Second {
			t.Errorf("the provider asked for 20 s, the wait was %s", second)
		}
		if third < 3*time.Second || third > 4*time.Second {
			t.Errorf("third wait %s", third)
		}
		if l.spends != 1 || l.last(t).Retries != 3 {
			t.Errorf("%d records, retries %d", l.spends, l.last(t).Retries)
		}
	})
}

func TestRetriesAreBounded(t *testing.T) {
	for name, tt := range map[string]struct {
		fault model.Fault
		tries int
		kind  core.Kind
	}{
		"overloaded for good": {model.Fault{Outcome: model.Overloaded}, 9, core.Unavailable},
		"empty":               {model.Fault{Outcome: model.Empty}, 2, core.Unavailable},
		"refused":             {model.Fault{Outcome: model.Refused}, 1, core.Denied},
		"overflow":            {model.Fault{Outcome: model.ContextOverflow}, 1, core.Exhausted},
		"rejected":            {model.Fault{Outcome: model.Rejected}, 1, core.Invalid},
		"told not to":         {model.Fault{Outcome: model.Overloaded, Retry: model.RetryNo}, 1, core.Unavailable},
		"told to":             {model.Fault{Outcome: model.Rejected, Retry: model.RetryYes}, 9, core.Invalid},
		"wait too long":       {model.Fault{Outcome: model.RateLimited, After: time.Hour}, 1, core.Unavailable},
		"all waits too long":  {model.Fault{Outcome: model.RateLimited, After: 5 * time.Minute}, 3, core.Unavailable},
		"script":              {model.Fault{Outcome: model.ScriptMismatch}, 1, core.Invalid},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := &fake{steps: []func(model.Request) (model.Response, error){bad(tt.fault, core.Usage{})}}
				l := &ledger{}
				resp, err := gateway(t, map[string]model.Provider{"anthropic": p}, l, nil).Complete(t.Context(), caller, ask("claude-opus-5"), nil)
				if model.OutcomeOf(err) != tt.fault.Outcome || core.KindOf(err) != tt.kind || core.HintOf(err) == "" {
					t.Fatalf("got %v (kind %s, outcome %s)", err, core.KindOf(err), model.OutcomeOf(err))
				}
				if len(p.requests) != tt.tries || resp.Retries != tt.tries-1 {
					t.Fatalf("%d tries, want %d", len(p.requests), tt.tries)
				}
				if d := l.last(t); d.Outcome != string(tt.fault.Outcome) || d.Cost.Unknown {
					t.Fatalf("event %+v", d)
				}
			})
		})
	}
}

func TestCancelledWhileWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &fake{steps: []func(model.Request) (model.Response, error){bad(model.Fault{Outcome: model.RateLimited, After: time.Minute}, core.Usage{})}}
		l := &ledger{}
		reason := core.E("stop", core.Canceled, nil, "a person stopped it")
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(10*time.Second, func() { cancel(reason) })
		_, err := gateway(t, map[string]model.Provider{"anthropic": p}, l, nil).Complete(ctx, caller, ask("claude-opus-5"), nil)
		if !errors.Is(err, reason) {
			t.Fatalf("got %v", err)
		}
		if p.at[0] != 0 || time.Since(p.start) != 10*time.Second {
			t.Fatalf("it took %s", time.Since(p.start))
		}
		if l.spends != 1 || l.last(t).Outcome != "canceled" {
			t.Fatalf("%d records, %+v", l.spends, l.last(t))
		}
	})
}

// A budget pauses at the next call; it is asked again before every try.
func TestBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &fake{steps: []func(model.Request) (model.Response, error){good(core.Usage{Input: 1_000_000})}}
		l := &ledger{limit: 6_000_000}
		g := gateway(t, map[string]model.Provider{"anthropic": p}, l, nil)
		for range 2 { // 5 dollars each
			if _, err := g.Complete(t.Context(), caller, ask("claude-opus-5"), nil); err != nil {
				t.Fatal(err)
			}
		}
		_, err := g.Complete(t.Context(), caller, ask("claude-opus-5"), nil)
		if model.OutcomeOf(err) != model.BudgetSpent || core.KindOf(err) != core.Exhausted || !strings.Contains(err.Error(), "$10.0000 of $6.0000") {
			t.Fatalf("got %v", err)
		}
		if len(p.requests) != 2 || len(l.events) != 2 {
			t.Fatalf("%d requests, %d events: the provider is not asked any more", len(p.requests), len(l.events))
		}
	})
}

func TestRouting(t *testing.T) {
	p := &fake{}
	s := &fake{scripted: true}
	all := map[string]model.Provider{"anthropic": p, "openai": p, "openrouter": p, "scripted": s}
	for name, tt := range map[string]struct {
		providers map[string]model.Provider
		ok        bool
	}{
		"anthropic/claude-opus-5-5":            {all, true},
		"claude-opus-5-5":                      {all, true},
		"claude-haiku-4-5-20251001":            {all, true},
		"gpt-5.4":                              {all, true},
		"openrouter/anthropic/claude-opus-5-5": {all, true},
		"scripted":                             {all, true},
		"scripted/demo":                        {all, true},
		"anthropic":                            {all, false},
		"anthropic/":                           {all, false},
		"nobody-knows":                         {all, false},
		"":                                     {all, false},
		"qwen-3":                               {map[string]model.Provider{"local": p, "scripted": s}, true},
		"org/qwen-3":                           {map[string]model.Provider{"local": p}, true},
		"claude-opus-5":                        {nil, false},
	} {
		g := gateway(t, tt.providers, nil, nil)
		err := g.Check(name)
		if (err == nil) != tt.ok {
			t.Errorf("%q: got %v", name, err)
		}
		if err != nil && (core.KindOf(err) != core.Invalid || core.HintOf(err) == "" || model.OutcomeOf(err) != model.Rejected) {
			t.Errorf("%q: %v, hint %q", name, err, core.HintOf(err))
		}
	}
	g := gateway(t, all, nil, nil)
	if !g.Scripted("scripted/demo") || g.Scripted("gpt-5.4") {
		t.Error("what is scripted is labelled")
	}
}
