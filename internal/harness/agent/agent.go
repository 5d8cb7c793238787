// Package agent is the contract of whatever does the thinking: the built-in
// loop, or later any ACP agent.
//
// An agent is told a task, works in a sandbox through tools, and says how it
// ended. It never pushes, never opens changes, never decides about proof.
package agent

import (
	"context"
	"encoding/json"

	"drydock/internal/core"
	"drydock/internal/harness/model"
)

// Task is one piece of work in one node of a run.
type Task struct {
	Session core.SessionID
	Prompt  core.PromptID
	Run     core.RunID
	Attempt core.AttemptID
	// Resumes names the attempt that was interrupted and that this one goes on
	// with, if the engine counts a restart as a new attempt.
	Resumes core.AttemptID
	Node    string
	Author  core.Author

	Model   string
	Seed    int64    // for models that take one; 0 is none
	Goal    string   // what the person asked
	Brief   string   // what the blueprint adds: base, checks, failures to repair
	Rules   []Rule   // AGENTS.md and friends
	Images  [][]byte // PNG
	Earlier []Turn   // earlier prompts of the session and how they ended

	MaxTurns  int
	MaxTokens int
}

// Rule is one instruction file of the repository.
type Rule struct {
	Path string
	Text string
}

// Turn is an earlier prompt of the session.
type Turn struct {
	Author  core.Author
	Text    string
	Summary string
}

// Ending names how an agent stopped.
type Ending string

const (
	Finished    Ending = "finished" // it called finish
	GaveUp      Ending = "gave_up"  // finish with verdict "cannot"
	Answered    Ending = "answered" // finish with verdict "answer": nothing to change
	OutOfTurns  Ending = "out_of_turns"
	Looping     Ending = "looping" // the same call again and again
	NoProgress  Ending = "no_progress"
	Silent      Ending = "silent"       // neither text nor tool call
	ModelFailed Ending = "model_failed" // see Outcome
)

// Result of a task. Work that was done is in the sandbox whatever the ending.
// ModelFailed with a passing Outcome (BudgetSpent, Overloaded, RateLimited,
// Unreachable) leaves the transcript open: the same task goes on where it was
// when Work is called again.
type Result struct {
	Ending  Ending
	Summary string // the agent's own words
	Claims  []string
	Outcome model.Outcome
	Detail  string
	Turns   int
	Usage   core.Usage
	Cost    core.Cost
}

// Sink takes what happens while an agent works. Event is durable before it
// returns; Delta may be lost.
type Sink interface {
	Event(ctx context.Context, e core.Event) error
	Delta(text string)
}

// Transcript is the agent's memory outside the sandbox. Append is durable
// before it returns, and writes the events in the same transaction, so that
// what people see and what the agent remembers never differ after a crash.
// Load returns everything appended for the attempt's run and node, in order,
// also by an earlier process that was killed.
type Transcript interface {
	Append(ctx context.Context, task Task, entry json.RawMessage, events ...core.Event) error
	Load(ctx context.Context, task Task) ([]json.RawMessage, error)
}

// Agent does a task. Cancelling ctx stops it at the next safe point; the
// cause of the context names who asked.
type Agent interface {
	Work(ctx context.Context, task Task, sink Sink, memory Transcript) (Result, error)
}
