package codechange

import (
	"context"
	"fmt"
	"sync"
	"time"

	"drydock/internal/control/blueprint"
	"drydock/internal/control/session"
	"drydock/internal/core"
	"drydock/internal/harness/agent"
	"drydock/internal/harness/model"
	"drydock/internal/harness/rules"
)

// Agents returns the agent nodes of the default machine by the name of their
// brief.
func Agents(d Deps) map[string]blueprint.Step {
	out := map[string]blueprint.Step{}
	for _, name := range []string{"implement", "repair", "mend", "strengthen", "rework"} {
		out[name] = agentStep{d}
	}
	return out
}

type agentStep struct{ d Deps }

// endings maps how an agent stopped to the edges of an agent node.
var endings = map[agent.Ending]string{
	agent.Finished:    "finished",
	agent.GaveUp:      "gave_up",
	agent.Answered:    "answered",
	agent.OutOfTurns:  "out_of_turns",
	agent.Looping:     "looping",
	agent.NoProgress:  "no_progress",
	agent.Silent:      "silent",
	agent.ModelFailed: "model_failed",
}

func (agentStep) Results() []string {
	var out []string
	for _, edge := range endings {
		out = append(out, edge)
	}
	return out
}

// Run lets the agent work, and brings what it left into the mirror however it
// ended.
func (a agentStep) Run(ctx context.Context, v *blueprint.Visit) (blueprint.Outcome, error) {
	d := a.d
	if _, err := d.Workspaces.Open(ctx, v.Job); err != nil {
		return blueprint.Outcome{}, err
	}
	task, err := d.task(ctx, v)
	if err != nil {
		return blueprint.Outcome{}, err
	}
	got, err := d.work(ctx, v, task)
	if err != nil {
		return blueprint.Outcome{}, err
	}
	// The sandbox may have died meanwhile, and another one goes on.
	w, err := d.Workspaces.Open(ctx, v.Job)
	if err != nil {
		return blueprint.Outcome{}, err
	}
	wip, err := w.Harvest(ctx)
	if err != nil {
		return blueprint.Outcome{}, err
	}
	v.Data.Set(keyWip, wip)
	v.Data.Set(keySummary, got.Summary)
	edge, ok := endings[got.Ending]
	if !ok {
		return blueprint.Outcome{}, core.E("codechange.agent", core.Internal, nil, "the agent ended with %q, which has no edge", got.Ending)
	}
	if got.Ending == agent.Finished {
		v.Data.Set(keyFinished, true)
	} else if got.Ending != agent.Answered {
		why := endingText(got)
		v.Data.Set(keyEnding, why)
		v.Data.Set(blueprint.KeyFailure, core.Failure{Code: string(got.Ending), Message: why, Hint: endingHint(got)})
	}
	return result(edge, "%d turns, %s", got.Turns, got.Cost)
}

// harvestEvery bounds how much of a long turn a dead host can cost.
const harvestEvery = time.Minute

// work lets the agent run. Meanwhile the working tree is brought out now and
// then. A spent budget pauses the run and never kills work.
func (d Deps) work(ctx context.Context, v *blueprint.Visit, task agent.Task) (agent.Result, error) {
	done := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		tick := time.NewTicker(harvestEvery)
		defer tick.Stop()
		for {
			select {
			case <-done:
				return
			case <-tick.C:
				w, err := d.Workspaces.Open(ctx, v.Job)
				if err == nil {
					_, err = w.Harvest(ctx)
				}
				if err != nil && ctx.Err() == nil {
					d.Log.Warn("the working tree was not brought out", "session", task.Session, "err", err)
				}
			}
		}
	})
	defer wg.Wait()
	defer close(done)
	got, err := d.Agent.Work(ctx, task, sink{d, v}, d.Memory)
	if err == nil && got.Ending == agent.ModelFailed && got.Outcome == model.BudgetSpent {
		return got, &blueprint.Pause{Err: core.E("codechange.agent", core.Exhausted, session.ErrBudget, "%s", got.Detail)}
	}
	return got, err
}

func (d Deps) task(ctx context.Context, v *blueprint.Visit) (agent.Task, error) {
	s, err := d.Sessions.Session(ctx, v.Job.Session.ID)
	if err != nil {
		return agent.Task{}, err
	}
	m, err := d.Workspaces.Mirror(ctx, s.Environment)
	if err != nil {
		return agent.Task{}, err
	}
	// Rules come from the base: what an agent writes into them cannot steer
	// the agents after it before a person has merged it.
	list, err := rules.Load(ctx, func(ctx context.Context, path string, limit int64) ([]byte, error) {
		data, _, err := m.ShowFile(ctx, s.BaseCommit, path, limit)
		return data, err
	})
	if err != nil {
		return agent.Task{}, err
	}
	earlier, err := d.Sessions.Earlier(ctx, v.Job)
	if err != nil {
		return agent.Task{}, err
	}
	return agent.Task{
		Session: s.ID, Prompt: v.Job.Prompt.ID, Run: v.Job.Run.ID, Attempt: v.Attempt,
		Node: fmt.Sprintf("%s.%d", v.Node, v.Number), Author: v.Job.Prompt.Author,
		Model: s.Model, Seed: s.Seed, Goal: v.Job.Prompt.Text, Brief: text(v, keyBrief), Rules: list, Earlier: earlier,
		MaxTurns: v.Spec.Turns,
	}, nil
}

func endingText(r agent.Result) string {
	detail := ""
	if r.Detail != "" {
		detail = ": " + r.Detail
	}
	switch r.Ending {
	case agent.GaveUp:
		return "the agent says that it cannot do this: " + r.Summary
	case agent.OutOfTurns:
		return fmt.Sprintf("the agent used its %d turns without finishing", r.Turns)
	case agent.Looping:
		return "the agent repeated itself" + detail
	case agent.NoProgress:
		return "the agent made no progress" + detail
	case agent.Silent:
		return "the model answered with neither words nor work" + detail
	case agent.ModelFailed:
		return fmt.Sprintf("the model failed (%s)%s", r.Outcome, detail)
	}
	return string(r.Ending) + detail
}

func endingHint(r agent.Result) string {
	switch r.Ending {
	case agent.ModelFailed:
		return "look at the model's settings with `drydock config show`, then continue the session"
	case agent.OutOfTurns, agent.Looping, agent.NoProgress:
		return "say more precisely what you want, or split the task, and prompt again: the work so far is kept"
	}
	return "answer in a new prompt: the work so far is kept"
}

// sink ties what an agent does to the visit it belongs to.
type sink struct {
	d Deps
	v *blueprint.Visit
}

func (s sink) Event(ctx context.Context, e core.Event) error {
	e.Run, e.Node, e.Attempt = s.v.Job.Run.ID, s.v.Node, s.v.Attempt
	if e.Actor == "" {
		e.Actor = "agent"
	}
	return s.d.Events.Emit(ctx, s.v.Job, e)
}

func (s sink) Delta(text string) { s.d.Events.Delta(s.v.Job.Session.ID, text) }
