package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"time"

	"drydock/internal/control/blueprint"
	"drydock/internal/control/session"
	"drydock/internal/control/workspace"
	"drydock/internal/core"
	"drydock/internal/harness/model"
	"drydock/internal/obs"
	"drydock/internal/store"
	"drydock/internal/surface/api"
	"drydock/internal/surface/server"
)

// sessions gives the interface the life of sessions.
type sessions struct{ *session.Service }

var (
	_ server.Sessions = sessions{}
	_ server.Prompts  = sessions{}
	_ server.Steering = sessions{}
)

// Create implements server.Prompts.
func (s sessions) Create(ctx context.Context, req core.NewSession) (core.Session, core.Prompt, error) {
	made, prompt, err := s.Service.Create(ctx, req)
	if err != nil {
		return made, prompt, err
	}
	made, err = s.ShowOne(ctx, made)
	return made, prompt, err
}

// EditPrompt implements server.Prompts.
func (s sessions) EditPrompt(ctx context.Context, id core.SessionID, prompt core.PromptID, text string, by core.Author) (core.Prompt, error) {
	if err := s.owns(ctx, id, prompt); err != nil {
		return core.Prompt{}, err
	}
	return s.Service.EditPrompt(ctx, prompt, by, text)
}

// RemovePrompt implements server.Prompts.
func (s sessions) RemovePrompt(ctx context.Context, id core.SessionID, prompt core.PromptID, by core.Author) error {
	if err := s.owns(ctx, id, prompt); err != nil {
		return err
	}
	_, err := s.Service.RemovePrompt(ctx, prompt, by)
	return err
}

// MovePrompt implements server.Prompts; the interface counts from 0.
func (s sessions) MovePrompt(ctx context.Context, id core.SessionID, prompt core.PromptID, position int, by core.Author) error {
	if err := s.owns(ctx, id, prompt); err != nil {
		return err
	}
	_, err := s.Service.MovePrompt(ctx, prompt, by, position+1)
	return err
}

// PromptNow implements server.Prompts.
func (s sessions) PromptNow(ctx context.Context, id core.SessionID, prompt core.PromptID, by core.Author) (core.Session, error) {
	if err := s.owns(ctx, id, prompt); err != nil {
		return core.Session{}, err
	}
	now, err := s.Now(ctx, prompt, by)
	if err != nil {
		return now, err
	}
	return s.ShowOne(ctx, now)
}

// owns refuses a prompt of another session.
func (s sessions) owns(ctx context.Context, id core.SessionID, prompt core.PromptID) error {
	list, err := s.Prompts(ctx, id)
	if err != nil {
		return err
	}
	for _, p := range list {
		if p.ID == prompt {
			return nil
		}
	}
	return core.E("api.prompt", core.NotFound, nil, "session %s has no prompt %s", id, prompt)
}

// Stop implements server.Steering.
func (s sessions) Stop(ctx context.Context, id core.SessionID, by core.Author, reason string) error {
	_, err := s.Service.Stop(ctx, id, by, reason)
	return err
}

// Continue implements server.Steering.
func (s sessions) Continue(ctx context.Context, id core.SessionID, by core.Author) (core.Prompt, error) {
	return s.Resume(ctx, id, core.NewPrompt{Author: by, Source: "api"})
}

// Archive implements server.Steering.
func (s sessions) Archive(ctx context.Context, id core.SessionID, by core.Author) error {
	_, err := s.Service.Archive(ctx, id, by)
	return err
}

// RaiseBudget implements server.Steering.
func (s sessions) RaiseBudget(ctx context.Context, id core.SessionID, by core.Author, budget core.Budget) (core.Session, error) {
	raised, err := s.Service.RaiseBudget(ctx, id, budget, by)
	if err != nil {
		return raised, err
	}
	return s.ShowOne(ctx, raised)
}

// executor lets the session runner drive the blueprint engine.
type executor struct {
	engine     *blueprint.Engine
	workspaces *workspace.Manager
	metrics    *obs.Metrics
	log        *slog.Logger
}

var _ session.Executor = (*executor)(nil)

// Execute implements session.Executor.
func (e *executor) Execute(ctx context.Context, job session.Job) (session.Ending, error) {
	end, err := e.engine.Execute(ctx, blueprint.Job{
		Session: job.Session, Prompt: job.Prompt, Run: job.Run, Fence: job.Fence, Resumed: job.Resumed,
	})
	if err != nil {
		e.leave(ctx, job.Session.ID)
		return session.Ending{}, err
	}
	e.metrics.RunEnded(end.State)
	if end.Verdict != "" {
		e.metrics.Verdict(end.Verdict)
	}
	return session.Ending{RunState: end.State, Outcome: end.Outcome, Verdict: end.Verdict, Failure: end.Failure, Change: end.Change}, nil
}

// leave puts the sandbox of a run away that was cut off (stopped, paused,
// broken): it would hold memory and a place for nothing. A shutdown leaves it
// running for the next process, and a lost session belongs to another one.
func (e *executor) leave(ctx context.Context, id core.SessionID) {
	cause := context.Cause(ctx)
	if errors.Is(cause, session.ErrShutdown) || errors.Is(cause, session.ErrLeaseLost) {
		return
	}
	clean, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaveTimeout)
	defer cancel()
	if err := e.workspaces.PutAway(clean, id); err != nil {
		e.log.Warn("the sandbox of a session that does not run was not put away", "session", id, "err", err)
	}
}

const leaveTimeout = 90 * time.Second

// Kill implements session.Executor.
func (e *executor) Kill(ctx context.Context, id core.SessionID) error {
	return e.workspaces.Kill(ctx, id)
}

// budget meters model calls on the session that asked.
type budget struct {
	s       *session.Service
	metrics *obs.Metrics
}

var (
	_ model.Budget = (*budget)(nil)
	_ model.Sink   = (*budget)(nil)
)

// CheckBudget implements model.Budget.
func (b *budget) CheckBudget(ctx context.Context, c model.Caller) error {
	if c.Session == "" {
		return nil
	}
	return b.s.CheckBudget(ctx, c.Session)
}

// Spend implements model.Budget. The sums and the event are written together
// by ModelCall, so that neither can be there without the other.
func (b *budget) Spend(context.Context, model.Caller, core.Usage, core.Cost) error { return nil }

// ModelCall implements model.Sink.
func (b *budget) ModelCall(ctx context.Context, c model.Caller, e core.Event) error {
	if c.Session == "" {
		return nil
	}
	var data core.ModelData
	if err := json.Unmarshal(e.Data, &data); err != nil {
		return core.E("daemon.spend", core.Internal, err, "event of a model call")
	}
	b.metrics.ModelCall(data.Outcome, data.Usage, data.Cost, data.Duration)
	_, err := b.s.Spend(ctx, session.Call{Session: c.Session, Prompt: c.Prompt, Run: c.Run, Attempt: c.Attempt}, data)
	return err
}

// cells keeps results of the base's exam.
type cells struct{ db *store.DB }

// Get implements exam.Cache.
func (c cells) Get(ctx context.Context, key string) ([]byte, bool, error) {
	cell, err := c.db.Cell(ctx, key)
	if core.Is(err, core.NotFound) {
		return nil, false, nil
	}
	return cell.Result, err == nil, err
}

// Put implements exam.Cache.
func (c cells) Put(ctx context.Context, key string, value []byte) error {
	return c.db.PutCell(ctx, key, value)
}

// usage sums what was spent.
type usage struct{ db *store.DB }

var _ server.Usage = usage{}

// Usage implements server.Usage.
func (u usage) Usage(ctx context.Context, by string, since time.Time) (api.UsageReport, error) {
	out := api.UsageReport{Since: since, Rows: []api.UsageRow{}, Verdicts: map[string]int64{}, Outcomes: map[string]int64{}}
	index := map[string]int{}
	page := core.Page{Limit: core.MaxPage}
	names := map[core.EnvironmentID]string{}
	for {
		list, next, err := u.db.Sessions(ctx, core.SessionFilter{Archived: true}, page)
		if err != nil {
			return out, err
		}
		for _, s := range list {
			if s.Updated.Before(since) {
				continue
			}
			if err := u.add(ctx, &out, index, names, by, s, since); err != nil {
				return out, err
			}
		}
		if next == "" {
			return out, nil
		}
		page.Cursor = next
	}
}

func (u usage) add(ctx context.Context, out *api.UsageReport, index map[string]int, names map[core.EnvironmentID]string, by string, s core.Session, since time.Time) error {
	row := func(key, title string) *api.UsageRow {
		i, ok := index[key]
		if !ok {
			i = len(out.Rows)
			index[key] = i
			out.Rows = append(out.Rows, api.UsageRow{Key: key, Title: title})
		}
		return &out.Rows[i]
	}
	if names[s.Environment] == "" {
		env, err := u.db.Environment(ctx, string(s.Environment))
		if err != nil && !core.Is(err, core.NotFound) {
			return err
		}
		names[s.Environment] = env.Name
	}
	runs, err := u.db.Runs(ctx, s.ID)
	if err != nil {
		return err
	}
	for _, r := range runs {
		if r.Created.Before(since) {
			continue
		}
		out.Outcomes[string(r.State)]++
		if r.Verdict != "" {
			out.Verdicts[r.Verdict]++
		}
	}
	calls, err := u.db.ModelCalls(ctx, s.ID)
	if err != nil {
		return err
	}
	counted := map[string]bool{}
	for _, c := range calls {
		if c.Created.Before(since) {
			continue
		}
		var r *api.UsageRow
		switch by {
		case "session":
			r = row(string(s.ID), s.Title)
		case "model":
			r = row(c.Model, c.Provider)
		default:
			r = row(names[s.Environment], "")
		}
		r.Usage, r.Cost = r.Usage.Add(c.Usage), r.Cost.Add(c.Cost)
		if !counted[r.Key] {
			counted[r.Key] = true
			r.Sessions++
		}
		out.Total.Usage, out.Total.Cost = out.Total.Usage.Add(c.Usage), out.Total.Cost.Add(c.Cost)
	}
	if len(calls) > 0 {
		out.Total.Sessions++
	}
	return nil
}
