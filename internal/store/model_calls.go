package store

import (
	"context"
	"time"

	"drydock/internal/core"
)

// ModelCall is one request to a model, for usage and cost.
type ModelCall struct {
	Session  core.SessionID `json:"session"`
	Prompt   core.PromptID  `json:"prompt,omitempty"`
	Run      core.RunID     `json:"run,omitempty"`
	Attempt  core.AttemptID `json:"attempt,omitempty"`
	Provider string         `json:"provider"`
	Model    string         `json:"model"`
	Scripted bool           `json:"scripted,omitempty"`
	Outcome  string         `json:"outcome"`
	Usage    core.Usage     `json:"usage"`
	Cost     core.Cost      `json:"cost"`
	Retries  int            `json:"retries,omitempty"`
	Duration time.Duration  `json:"duration_ns"`
	Created  time.Time      `json:"created"`
}

var modelCallTable = table[ModelCall]{
	name: "model_calls", noun: "model call",
	columns: "session, prompt, run, attempt, provider, model, scripted, outcome, usage_input, usage_cache_read, " +
		"usage_cache_write, usage_output, usage_calls, cost_known, cost_unknown, retries, duration, created",
	fields: func(m *ModelCall) []any {
		return []any{
			&m.Session, &m.Prompt, &m.Run, &m.Attempt, &m.Provider, &m.Model, &m.Scripted, &m.Outcome, &m.Usage.Input, &m.Usage.CacheRead,
			&m.Usage.CacheWrite, &m.Usage.Output, &m.Usage.Calls, &m.Cost.Known, &m.Cost.Unknown, &m.Retries, &m.Duration,
			stamp{&m.Created},
		}
	},
}

// AddModelCall adds one.
func (w Writer) AddModelCall(ctx context.Context, m ModelCall) error {
	return w.in(ctx, func(c conn) error { return modelCallTable.insert(ctx, c, &m) })
}

// ModelCalls lists a session's calls, oldest first.
func (r Reader) ModelCalls(ctx context.Context, session core.SessionID) ([]ModelCall, error) {
	return modelCallTable.list(ctx, r.q, "WHERE session = ? ORDER BY id", session)
}

// UsageRow is one line of a usage report.
type UsageRow struct {
	Owner    string     `json:"owner"`
	Provider string     `json:"provider"`
	Model    string     `json:"model"`
	Scripted bool       `json:"scripted,omitempty"`
	Outcome  string     `json:"outcome"`
	Usage    core.Usage `json:"usage"`
	Cost     core.Cost  `json:"cost"`
}

var usageTable = table[UsageRow]{
	name: "model_calls m JOIN sessions s ON s.id = m.session", noun: "usage",
	columns: "s.owner, m.provider, m.model, m.scripted, m.outcome, SUM(m.usage_input), SUM(m.usage_cache_read), " +
		"SUM(m.usage_cache_write), SUM(m.usage_output), COUNT(*), SUM(m.cost_known), MAX(CASE WHEN m.cost_unknown THEN 1 ELSE 0 END)",
	fields: func(u *UsageRow) []any {
		return []any{
			&u.Owner, &u.Provider, &u.Model, &u.Scripted, &u.Outcome, &u.Usage.Input, &u.Usage.CacheRead,
			&u.Usage.CacheWrite, &u.Usage.Output, &u.Usage.Calls, &u.Cost.Known, &u.Cost.Unknown,
		}
	},
}

// UsageSince sums model calls by owner, model and outcome.
func (r Reader) UsageSince(ctx context.Context, since time.Time) ([]UsageRow, error) {
	return usageTable.list(ctx, r.q, `WHERE m.created >= ? GROUP BY s.owner, m.provider, m.model, m.scripted, m.outcome
		ORDER BY s.owner, m.provider, m.model, m.outcome`, nanos(since))
}
