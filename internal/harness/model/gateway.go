package model

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"drydock/internal/core"
)

// Budget bounds what a session may spend. CheckBudget returns an error of kind
// core.Exhausted when nothing more may be spent; Spend is told what a call
// used, also when it failed.
type Budget interface {
	CheckBudget(ctx context.Context, caller Caller) error
	Spend(ctx context.Context, caller Caller, usage core.Usage, cost core.Cost) error
}

// Sink takes one event of kind core.EventModelCall for every call.
type Sink interface {
	ModelCall(ctx context.Context, caller Caller, e core.Event) error
}

// Deps of a Gateway. Budget and Sink may be nil.
type Deps struct {
	Providers map[string]Provider // by the name used before the slash
	Prices    *Table
	Budget    Budget
	Sink      Sink
	Log       *slog.Logger
}

// Options of a Gateway.
type Options struct {
	Retry     RetryPolicy
	MaxTokens int // largest answer asked for where the request names none; default 32000
	// UnknownMaxTokens is the largest answer asked of a model that is not in
	// the table: small servers refuse what does not fit their window. Default
	// 8192.
	UnknownMaxTokens int
}

// Gateway is the only way to a model: it routes, checks the budget, retries,
// meters and records. It holds no state of its own and is safe for use by many
// goroutines. It never logs content or keys.
type Gateway struct {
	deps Deps
	opts Options
}

// New makes a Gateway.
func New(deps Deps, opts Options) (*Gateway, error) {
	if deps.Prices == nil {
		var err error
		if deps.Prices, err = LoadPrices("", nil); err != nil {
			return nil, err
		}
	}
	if deps.Log == nil {
		deps.Log = slog.New(slog.DiscardHandler)
	}
	if opts.MaxTokens <= 0 {
		opts.MaxTokens = 32000
	}
	if opts.UnknownMaxTokens <= 0 {
		opts.UnknownMaxTokens = 8192
	}
	opts.Retry = opts.Retry.withDefaults()
	return &Gateway{deps: deps, opts: opts}, nil
}

// route is where a model name leads.
type route struct {
	provider string
	model    string
	client   Provider
	row      Row
	known    bool
	scripted bool
}

func (r route) name() string { return strings.TrimSuffix(r.provider+"/"+r.model, "/") }

func (g *Gateway) route(name string) (route, error) {
	provider, rest, cut := strings.Cut(name, "/")
	if client, ok := g.deps.Providers[provider]; ok && (cut && rest != "" || !cut) {
		if !cut {
			rest = ""
			if l, ok := client.(Labelled); !ok || !l.Scripted() {
				return route{}, g.unknown(name)
			}
		}
		return g.made(provider, rest, client), nil
	}
	if p := g.guess(name); p != "" {
		return g.made(p, name, g.deps.Providers[p]), nil
	}
	return route{}, g.unknown(name)
}

func (g *Gateway) made(provider, name string, client Provider) route {
	r := route{provider: provider, model: name, client: client}
	if l, ok := client.(Labelled); ok && l.Scripted() {
		r.scripted, r.known = true, true
		r.row = Row{Model: r.name(), Window: 200000, Output: 32000, Price: &Price{}}
		return r
	}
	r.row, r.known = g.deps.Prices.Find(provider, name)
	if v, ok := client.(Vendor); ok && !r.known && v.Vendor() != "" {
		r.row, r.known = g.deps.Prices.Find(v.Vendor(), name)
	}
	return r
}

// guess finds the provider of a bare model name: the one configured provider
// that has a price for it, else the only one there is.
func (g *Gateway) guess(name string) string {
	if name == "" {
		return ""
	}
	var found []string
	for _, p := range g.deps.Prices.providersOf(name) {
		if _, ok := g.deps.Providers[p]; ok {
			found = append(found, p)
		}
	}
	var vendors []string
	for p, client := range g.deps.Providers {
		if l, ok := client.(Labelled); !ok || !l.Scripted() {
			vendors = append(vendors, p)
		}
	}
	switch {
	case len(found) == 1:
		return found[0]
	case len(found) == 0 && len(vendors) == 1:
		return vendors[0]
	}
	return ""
}

func (g *Gateway) unknown(name string) error {
	names := slices.Sorted(maps.Keys(g.deps.Providers))
	err := core.E("model.route", core.Invalid, &Fault{Outcome: Rejected, Message: "no such model", Retry: RetryNo},
		"model %q belongs to no configured provider", name)
	if len(names) == 0 {
		return err.WithHint("no provider is configured: set a key, or an OpenAI-compatible endpoint, in the configuration")
	}
	return err.WithHint("write provider/model; configured providers: %s", strings.Join(names, ", "))
}

// Check reports whether a model name leads to a provider, so that a mistake is
// told before a session starts.
func (g *Gateway) Check(name string) error {
	_, err := g.route(name)
	return err
}

// Scripted reports whether a model name leads to a scripted provider.
func (g *Gateway) Scripted(name string) bool {
	r, err := g.route(name)
	return err == nil && r.scripted
}

// Seeds reports whether a model name leads to a provider that takes a seed.
func (g *Gateway) Seeds(name string) bool {
	r, err := g.route(name)
	if err != nil {
		return false
	}
	s, ok := r.client.(Seeded)
	return ok && s.Seeded()
}

// Limits implements Completer.
func (g *Gateway) Limits(name string) (window, output int, known bool) {
	r, err := g.route(name)
	if err != nil || r.row.Window == 0 {
		return 0, 0, false
	}
	return r.row.Window, r.row.Output, true
}

// Complete implements Completer.
func (g *Gateway) Complete(ctx context.Context, caller Caller, req Request, onDelta func(Delta)) (Response, error) {
	r, err := g.route(req.Model)
	if err != nil {
		return Response{}, err
	}
	if onDelta == nil {
		onDelta = func(Delta) {}
	}
	g.prepare(&req, r, caller)
	began := time.Now()
	resp, err := g.try(ctx, caller, req, r, onDelta)
	if resp.Model == "" {
		resp.Model = req.Model
	}
	if f, ok := errors.AsType[*Fault](err); ok {
		resp.Outcome = f.Outcome
		err = asError("model.complete", r.name(), f)
	}
	resp.Cost = g.cost(r, resp)
	if recErr := g.record(ctx, caller, r, resp, err, time.Since(began)); recErr != nil && err == nil {
		err = recErr
	}
	return resp, err
}

func (g *Gateway) prepare(req *Request, r route, caller Caller) {
	req.Model = r.model
	req.Window = r.row.Window
	req.Thinks = r.row.Adaptive
	req.CacheKey = string(caller.Session)
	if req.MaxTokens <= 0 {
		req.MaxTokens = g.opts.MaxTokens
	}
	switch {
	case r.row.Output > 0:
		req.MaxTokens = min(req.MaxTokens, r.row.Output)
	case !r.known:
		req.MaxTokens = min(req.MaxTokens, g.opts.UnknownMaxTokens)
	}
}

// try sends the request until it ends well or may not be sent again. Usage of
// broken tries is added up: it is paid for.
func (g *Gateway) try(ctx context.Context, caller Caller, req Request, r route, onDelta func(Delta)) (Response, error) {
	var spent core.Usage
	var waited time.Duration
	for n := 0; ; n++ {
		if err := g.mayAsk(ctx, caller); err != nil {
			return Response{Usage: spent, Retries: max(n-1, 0)}, err
		}
		req.Attempt = n
		resp, err := r.client.Stream(ctx, req, onDelta)
		resp.Usage = resp.Usage.Add(spent)
		resp.Usage.Calls = 1
		resp.Retries = n
		f, isFault := errors.AsType[*Fault](err)
		if err == nil || !isFault {
			return resp, err
		}
		wait, again := g.opts.Retry.next(f, n+1, waited)
		if !again {
			return resp, err
		}
		g.deps.Log.Info("model call is tried again", "model", r.name(), "session", caller.Session,
			"outcome", f.Outcome, "status", f.Status, "try", n+1, "wait", wait)
		spent = resp.Usage
		if err := sleep(ctx, wait); err != nil {
			return resp, err
		}
		waited += wait
	}
}

func (g *Gateway) mayAsk(ctx context.Context, caller Caller) error {
	if g.deps.Budget == nil {
		return nil
	}
	err := g.deps.Budget.CheckBudget(ctx, caller)
	if core.Is(err, core.Exhausted) {
		return &Fault{Outcome: BudgetSpent, Message: err.Error(), Retry: RetryNo, Err: err}
	}
	return err
}

func (g *Gateway) cost(r route, resp Response) core.Cost {
	if resp.Usage == (core.Usage{Calls: resp.Usage.Calls}) && resp.Outcome != "" && !resp.Outcome.Good() {
		return core.Cost{} // nothing was generated, nothing is charged
	}
	if !r.known {
		return core.Cost{Unknown: true}
	}
	return r.row.Cost(resp.Usage)
}

// record meters a call even when ctx is done: the tokens were used.
func (g *Gateway) record(ctx context.Context, caller Caller, r route, resp Response, callErr error, took time.Duration) error {
	if resp.Usage.Calls == 0 {
		return nil // the provider was never asked
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	outcome := resp.Outcome
	if outcome == "" {
		outcome = "canceled"
		if callErr != nil && !core.Is(callErr, core.Canceled) {
			outcome = "failed"
		}
	}
	var errs []error
	if g.deps.Budget != nil {
		errs = append(errs, g.deps.Budget.Spend(ctx, caller, resp.Usage, resp.Cost))
	}
	if g.deps.Sink != nil {
		e := core.NewEvent(core.EventModelCall, core.ModelData{
			Provider: r.provider, Model: resp.Model, Scripted: r.scripted, Outcome: string(outcome),
			Usage: resp.Usage, Cost: resp.Cost, Retries: resp.Retries, Duration: took,
		})
		e.Run, e.Attempt, e.Actor = caller.Run, caller.Attempt, "platform"
		errs = append(errs, g.deps.Sink.ModelCall(ctx, caller, e))
	}
	return errors.Join(errs...)
}
