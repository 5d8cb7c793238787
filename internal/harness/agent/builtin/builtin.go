// Package builtin is the agent that runs in the daemon: a loop around a model
// that reaches the sandbox only through tools, so no key is in the sandbox and
// its memory outlives it.
//
// Every answer of the model is in the transcript before its tools run, and
// every result before the model is asked again. Work may therefore be abandoned
// at any point, by a kill too, and goes on there when it is called again: an
// answered request is not asked twice, and a call without a result is done
// under the same key, so that a command that still runs is found.
//
// The loop ends itself when it repeats itself, gets nowhere or falls silent;
// it shortens its memory before the context window is full, and always keeps
// the task and the rules. It never decides about proof, pushes nothing.
//
// An Agent is safe for use by many goroutines.
//
//	a := builtin.New(builtin.Deps{Model: gateway, Tools: toolsFor}, builtin.Options{})
//	result, err := a.Work(ctx, task, sink, memory)
package builtin

import (
	"context"
	"encoding/json"
	"log/slog"

	"drydock/internal/core"
	"drydock/internal/harness/agent"
	"drydock/internal/harness/model"
	"drydock/internal/harness/tool"
)

// Tools is what the agent can do in a sandbox; *tool.Set implements it.
type Tools interface {
	Offer() []model.Tool
	Title(name string, input json.RawMessage) string
	Do(ctx context.Context, c tool.Call) (tool.Result, error)
}

// Deps of an Agent.
type Deps struct {
	Model model.Completer
	Tools func(ctx context.Context, task agent.Task) (Tools, error)
	Log   *slog.Logger
}

// Options of an Agent; zero values take the defaults.
type Options struct {
	MaxTurns   int // default 200, where the task names none
	MaxTokens  int // of one answer, default 32000
	Window     int // assumed for a model that is not in the price table, default 128000
	Effort     string
	KeepTurns  int // newest turns that are never summarised, default 6
	Remark     int // same call with the same result so often: a remark; default 3
	Loop       int // and so often: the end; default 5
	NoProgress int // turns without anything new, default 10
	AllFailed  int // turns in which every call failed, default 15
}

func (o Options) withDefaults() Options {
	set := func(v *int, d int) {
		if *v <= 0 {
			*v = d
		}
	}
	set(&o.MaxTurns, 200)
	set(&o.MaxTokens, 32000)
	set(&o.Window, 128000)
	set(&o.KeepTurns, 6)
	set(&o.Remark, 3)
	set(&o.Loop, 5)
	set(&o.NoProgress, 10)
	set(&o.AllFailed, 15)
	return o
}

// Agent implements agent.Agent.
type Agent struct {
	deps Deps
	opts Options
}

// New makes an Agent.
func New(deps Deps, opts Options) *Agent {
	if deps.Log == nil {
		deps.Log = slog.New(slog.DiscardHandler)
	}
	return &Agent{deps: deps, opts: opts.withDefaults()}
}

// Work implements agent.Agent.
func (a *Agent) Work(ctx context.Context, task agent.Task, sink agent.Sink, memory agent.Transcript) (agent.Result, error) {
	entries, err := memory.Load(ctx, task)
	if err != nil {
		return agent.Result{}, core.E("agent.work", core.KindOf(err), err, "the transcript of run %s, node %s cannot be read", task.Run, task.Node)
	}
	st, err := replay(entries, task)
	if err != nil {
		return agent.Result{}, err
	}
	if st != nil && st.end != nil {
		return *st.end, nil
	}
	tools, err := a.deps.Tools(ctx, task)
	if err != nil {
		return agent.Result{}, err
	}
	w := &work{agent: a, task: task, sink: sink, memory: memory, tools: tools, st: st}
	if st == nil {
		if err := w.begin(ctx); err != nil {
			return agent.Result{}, err
		}
	}
	result, err := w.loop(ctx)
	if err != nil {
		return w.result(""), w.stopped(ctx, err)
	}
	return result, nil
}

// stopped tells a cancelled context by the cause that its owner gave.
func (w *work) stopped(ctx context.Context, err error) error {
	if ctx.Err() == nil {
		return err
	}
	return core.E("agent.work", core.Canceled, context.Cause(ctx), "the agent was stopped in turn %d", len(w.st.turns))
}
