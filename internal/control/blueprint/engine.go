package blueprint

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	"drydock/internal/core"
	"drydock/internal/store"
)

// Job is one run to execute or to go on with.
type Job struct {
	Session core.Session
	Prompt  core.Prompt
	Run     core.Run
	Fence   store.Fence // every write of the run carries it; an older one is refused
	Resumed bool
}

// Ending is how a run ended.
type Ending struct {
	State   core.RunState
	Outcome string // for people
	Verdict string
	Failure *core.Failure
	Change  core.ChangeID
}

// Visit is one execution of a node, or its continuation after a restart.
type Visit struct {
	Job     Job
	Node    string
	Spec    Node
	Attempt core.AttemptID // the same after a restart
	Number  int            // from 1, of this node in this run
	Resumed bool           // an earlier process was inside this visit
	Data    Data           // what earlier nodes handed on; changed in place
}

// Outcome of a visit: the edge to take and a line for people.
type Outcome struct {
	Result string
	Detail string
}

// Step is the work of a node. It must be idempotent: after a kill it is called
// again with the same attempt. Results lists every edge it may take.
type Step interface {
	Results() []string
	Run(ctx context.Context, v *Visit) (Outcome, error)
}

// Data is handed from node to node: small facts by name, as JSON.
type Data map[string]json.RawMessage

// Set stores v under key. Values are plain data of the caller's own.
func (d Data) Set(key string, v any) {
	raw, err := json.Marshal(v)
	if err != nil {
		panic("blueprint: data " + key + " is not JSON: " + err.Error())
	}
	d[key] = raw
}

// Get reads key into out and says whether it was there.
func (d Data) Get(key string, out any) bool {
	raw, ok := d[key]
	return ok && json.Unmarshal(raw, out) == nil
}

// Journal is where position is kept. Each call is one transaction and carries
// the fence of the job.
type Journal interface {
	// Enter opens an attempt at node, or finds the one left open there.
	// resumes counts how often it was found so.
	Enter(ctx context.Context, job Job, node string, spec Node) (att core.Attempt, resumes int, err error)
	// Visits counts the closed attempts of each node of the run.
	Visits(ctx context.Context, run core.RunID) (map[string]int, error)
	// Leave closes the attempt, moves the run to next and stores data.
	Leave(ctx context.Context, job Job, att core.Attempt, spec Node, out Outcome, next string, data Data) error
	// Rest notes that an attempt was put aside on purpose: going on with it is
	// no restart.
	Rest(ctx context.Context, job Job, att core.Attempt) error
	// Skip moves the run without an attempt (a spent node).
	Skip(ctx context.Context, job Job, node, next, why string) error
	// Load reads the run again: position and data.
	Load(ctx context.Context, run core.RunID) (core.Run, error)
}

// Deps of an Engine.
type Deps struct {
	Journal Journal
	Steps   map[string]Step // by the name a node's step gives
	Agents  map[string]Step // by the name a node's agent gives
	// Finish is called when a run has reached an end, before Execute returns,
	// again after a kill: it puts the sandbox away.
	Finish func(ctx context.Context, job Job, end Ending) error
	Log    *slog.Logger
}

// Options of an Engine.
type Options struct {
	FaultTries int           // tries of a visit that failed with a retryable fault; default 3
	FaultWait  time.Duration // before the first retry, doubled after; default 500 ms
	MaxResumes int           // restarts inside one visit before it counts as a fault; default 5
}

// Engine executes machines.
type Engine struct {
	deps     Deps
	opts     Options
	machines map[string]Machine
}

// New checks every machine against the steps.
func New(deps Deps, opts Options, machines []Machine) (*Engine, error) {
	if opts.FaultTries == 0 {
		opts.FaultTries = 3
	}
	if opts.FaultWait == 0 {
		opts.FaultWait = 500 * time.Millisecond
	}
	if opts.MaxResumes == 0 {
		opts.MaxResumes = 5
	}
	e := &Engine{deps: deps, opts: opts, machines: map[string]Machine{}}
	for _, m := range machines {
		if err := e.check(m); err != nil {
			return nil, err
		}
		if _, twice := e.machines[m.Name]; twice {
			return nil, core.E("blueprint.new", core.Invalid, nil, "two blueprints are called %q", m.Name)
		}
		e.machines[m.Name] = m
	}
	return e, nil
}

func (e *Engine) step(n Node) (Step, bool) {
	if n.Agent != "" {
		s, ok := e.deps.Agents[n.Agent]
		return s, ok
	}
	s, ok := e.deps.Steps[n.Step]
	return s, ok
}

func (e *Engine) check(m Machine) error {
	for _, name := range slices.Sorted(maps.Keys(m.Nodes)) {
		n := m.Nodes[name]
		if n.End != "" {
			continue
		}
		bad := func(format string, args ...any) error {
			return core.E("blueprint.check", core.Invalid, nil, "blueprint %s, node %q: %s", m.Name, name, fmt.Sprintf(format, args...))
		}
		s, ok := e.step(n)
		if !ok {
			return bad("nothing is called %q among the %ss", n.Step+n.Agent, n.Kind())
		}
		results := append(slices.Clone(s.Results()), ResultFault)
		for _, r := range results {
			if n.On[r] == "" {
				return bad("it has no edge for the result %q", r)
			}
		}
		results = append(results, ResultSpent, ResultTimeout)
		for r := range n.On {
			if !slices.Contains(results, r) {
				return bad("it has an edge for %q, which it never results in; results: %v", r, results)
			}
		}
	}
	return nil
}

// Machine finds a blueprint by name.
func (e *Engine) Machine(name string) (Machine, error) {
	m, ok := e.machines[name]
	if !ok {
		return Machine{}, core.E("blueprint.get", core.NotFound, nil, "blueprint %q does not exist", name).
			WithHint("blueprints: %v", slices.Sorted(maps.Keys(e.machines)))
	}
	return m, nil
}

// Execute runs a job to its end. When ctx ends it returns the context's cause
// and leaves the position as it is; the caller decides what that means.
func (e *Engine) Execute(ctx context.Context, job Job) (Ending, error) {
	m, err := e.Machine(job.Run.Blueprint)
	if err != nil {
		return Ending{}, err
	}
	run, err := e.deps.Journal.Load(ctx, job.Run.ID)
	if err != nil {
		return Ending{}, err
	}
	data := Data{}
	if len(run.Data) > 0 {
		if err := json.Unmarshal(run.Data, &data); err != nil {
			return Ending{}, core.E("blueprint.execute", core.Internal, err, "run %s has unreadable data", run.ID)
		}
	}
	at := run.Node
	if at == "" {
		at = m.Start
	}
	for {
		if err := context.Cause(ctx); err != nil {
			return Ending{}, err
		}
		spec, ok := m.Nodes[at]
		if !ok {
			return Ending{}, core.E("blueprint.execute", core.Internal, nil,
				"run %s stands at node %q, which blueprint %s no longer has", run.ID, at, m.Name)
		}
		if spec.End != "" {
			end := e.ending(spec.End, data)
			if e.deps.Finish != nil {
				if err := e.deps.Finish(ctx, job, end); err != nil {
					return Ending{}, err
				}
			}
			return end, nil
		}
		next, err := e.visit(ctx, m, job, run, at, spec, data)
		if err != nil {
			return Ending{}, err
		}
		at = next
	}
}

// Keys of Data that become the Ending.
const (
	KeyOutcome = "outcome"
	KeyVerdict = "verdict"
	KeyFailure = "failure"
	KeyChange  = "change"
)

func (e *Engine) ending(state core.RunState, data Data) Ending {
	end := Ending{State: state}
	data.Get(KeyOutcome, &end.Outcome)
	data.Get(KeyVerdict, &end.Verdict)
	data.Get(KeyChange, &end.Change)
	var f core.Failure
	if data.Get(KeyFailure, &f) && state != core.RunDone {
		end.Failure = &f
	}
	return end
}

// Pause is returned by a step that must wait for something outside the run: a
// spent budget, a question to a person. Execute returns it and the position
// stays; the same visit goes on when the run is executed again.
type Pause struct{ Err error }

func (p *Pause) Error() string { return p.Err.Error() }
func (p *Pause) Unwrap() error { return p.Err }

// errWallClock is the cause when the whole run took too long.
var errWallClock = errors.New("the run's wall clock is used up")

func (e *Engine) visit(ctx context.Context, m Machine, job Job, run core.Run, at string, spec Node, data Data) (string, error) {
	visits, err := e.deps.Journal.Visits(ctx, run.ID)
	if err != nil {
		return "", err
	}
	if spec.Cap > 0 && visits[at] >= spec.Cap {
		next := spec.On[ResultSpent]
		return next, e.deps.Journal.Skip(ctx, job, at, next, fmt.Sprintf("%s was tried %d times, which is its cap", at, spec.Cap))
	}
	att, resumes, err := e.deps.Journal.Enter(ctx, job, at, spec)
	if err != nil {
		return "", err
	}
	v := &Visit{Job: job, Node: at, Spec: spec, Attempt: att.ID, Number: att.Number, Resumed: resumes > 0, Data: data}
	var out Outcome
	if resumes > e.opts.MaxResumes {
		out = Outcome{Result: ResultFault, Detail: fmt.Sprintf("the daemon ended %d times inside this step", resumes)}
		data.Set(KeyFailure, core.Failure{Code: "crash_loop", Message: out.Detail, Hint: "look at the daemon's log for what ends it"})
	} else {
		out, err = e.run(ctx, m, run, v)
	}
	if _, pause := errors.AsType[*Pause](err); pause {
		return "", errors.Join(err, e.deps.Journal.Rest(ctx, job, att))
	}
	if err != nil {
		return "", err
	}
	next, ok := spec.On[out.Result]
	if !ok {
		out.Detail = fmt.Sprintf("unexpected result %q: %s", out.Result, out.Detail)
		out.Result = ResultFault
		next = spec.On[ResultFault]
	}
	return next, e.deps.Journal.Leave(ctx, job, att, spec, out, next, data)
}

// run calls the step with its timeout and retries faults that may pass.
func (e *Engine) run(ctx context.Context, m Machine, run core.Run, v *Visit) (Outcome, error) {
	step, _ := e.step(v.Spec)
	inner := ctx
	if v.Spec.Time > 0 {
		var cancel context.CancelFunc
		inner, cancel = context.WithTimeout(inner, time.Duration(v.Spec.Time))
		defer cancel()
	}
	if m.WallClock > 0 {
		var cancel context.CancelFunc
		inner, cancel = context.WithDeadlineCause(inner, run.Created.Add(time.Duration(m.WallClock)), errWallClock)
		defer cancel()
	}
	wait := e.opts.FaultWait
	for try := 1; ; try++ {
		out, err := step.Run(inner, v)
		if err == nil {
			return out, nil
		}
		if cause := context.Cause(ctx); cause != nil {
			return Outcome{}, cause // stop, shutdown, lost lease: the position stays
		}
		if _, pause := errors.AsType[*Pause](err); pause {
			return Outcome{}, err
		}
		if inner.Err() != nil && v.Spec.On[ResultTimeout] != "" {
			return Outcome{Result: ResultTimeout, Detail: timeoutText(inner, m, v)}, nil
		}
		e.deps.Log.Warn("a step failed", "run", v.Job.Run.ID, "node", v.Node, "try", try, "err", err)
		if try >= e.opts.FaultTries || inner.Err() != nil || !core.KindOf(err).Retryable() {
			v.Data.Set(KeyFailure, core.Failure{Code: faultCode(v.Node, err), Message: err.Error(), Hint: core.HintOf(err)})
			return Outcome{Result: ResultFault, Detail: err.Error()}, nil
		}
		select {
		case <-time.After(wait):
		case <-inner.Done():
		}
		wait *= 2
	}
}

// Named is an error that has a code of its own for the failure it ends in, such
// as "out_of_memory"; "" is none.
type Named interface {
	error
	Reason() string
}

func faultCode(node string, err error) string {
	if named, ok := errors.AsType[Named](err); ok && named.Reason() != "" {
		return named.Reason()
	}
	return "fault_" + node
}

func timeoutText(inner context.Context, m Machine, v *Visit) string {
	if errors.Is(context.Cause(inner), errWallClock) {
		return fmt.Sprintf("the run took longer than %s", time.Duration(m.WallClock))
	}
	return fmt.Sprintf("it took longer than %s", time.Duration(v.Spec.Time))
}
