// Package model is the gateway to language models: one request and response
// shape, several providers, retries, metering, prices and named outcomes.
//
// It runs no tools and keeps no conversation; an agent does.
package model

import (
	"context"
	"encoding/json"

	"drydock/internal/core"
)

// Role of a message.
type Role string

const (
	User      Role = "user"
	Assistant Role = "assistant"
)

// BlockKind says which fields of a Block are set.
type BlockKind string

const (
	Text       BlockKind = "text"
	Image      BlockKind = "image"
	ToolUse    BlockKind = "tool_use"
	ToolResult BlockKind = "tool_result"
	Thinking   BlockKind = "thinking" // passed back unchanged, with its signature
)

// Block is one part of a message.
type Block struct {
	Kind      BlockKind       `json:"kind"`
	Text      string          `json:"text,omitempty"`
	MediaType string          `json:"media_type,omitempty"` // image
	Data      []byte          `json:"data,omitempty"`       // image
	Call      string          `json:"call,omitempty"`       // tool_use and tool_result
	Tool      string          `json:"tool,omitempty"`
	Input     json.RawMessage `json:"input,omitempty"`
	BadInput  string          `json:"bad_input,omitempty"` // tool_use: what the model wrote when it was no JSON object; Input is {} then
	Failed    bool            `json:"failed,omitempty"`    // tool_result
	Content   []Block         `json:"content,omitempty"`   // tool_result: text and images
	Signature string          `json:"signature,omitempty"`
	Redacted  []byte          `json:"redacted,omitempty"`
}

// Message is one turn of one side.
type Message struct {
	Role   Role    `json:"role"`
	Blocks []Block `json:"blocks"`
}

// Tool is offered to the model.
type Tool struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Schema      json.RawMessage `json:"schema"` // JSON Schema of the input
}

// Request to a model. System, Tools and all but the last messages are the
// cacheable prefix; providers that cache are told so.
type Request struct {
	Model     string    `json:"model"`
	System    string    `json:"system"`
	Messages  []Message `json:"messages"`
	Tools     []Tool    `json:"tools"`
	MaxTokens int       `json:"max_tokens"`
	Effort    string    `json:"effort,omitempty"` // "low", "medium", "high"...; "" is the provider's default
	// Seed tells requests from otherwise equal ones, for providers that are
	// Seeded; 0 is none. The others leave it out.
	Seed int64 `json:"seed,omitempty"`

	// The gateway sets these for the provider.
	Attempt  int    `json:"-"` // 0 for the first try of this request
	Window   int    `json:"-"` // context window in tokens, 0 when unknown
	Thinks   bool   `json:"-"` // the model takes adaptive thinking
	CacheKey string `json:"-"` // requests with the same key share a prefix
}

// Outcome names how a call ended. Everything but the first three is an error.
type Outcome string

const (
	EndTurn         Outcome = "end_turn"
	WantsTools      Outcome = "tool_use"
	MaxTokens       Outcome = "max_tokens"
	Refused         Outcome = "refused"
	ContextOverflow Outcome = "context_overflow"
	Overloaded      Outcome = "overloaded"
	RateLimited     Outcome = "rate_limited"
	Truncated       Outcome = "truncated_stream"
	Empty           Outcome = "empty_answer"
	Rejected        Outcome = "rejected" // bad request, bad key, unknown model
	Unreachable     Outcome = "unreachable"
	ScriptMismatch  Outcome = "script_mismatch" // scripted provider: the agent sent what the script did not expect
	BudgetSpent     Outcome = "budget_spent"
)

// Response of a model.
type Response struct {
	Blocks  []Block    `json:"blocks"`
	Outcome Outcome    `json:"outcome"`
	Usage   core.Usage `json:"usage"`
	Cost    core.Cost  `json:"cost"`
	Model   string     `json:"model"` // as the provider names it
	Retries int        `json:"retries,omitempty"`
}

// Caller says for whom a call is made: who pays, and under which budget.
type Caller struct {
	Session core.SessionID
	Prompt  core.PromptID
	Run     core.RunID
	Attempt core.AttemptID
}

// Delta is a piece of text as it is generated; it may be lost.
type Delta struct {
	Kind BlockKind // Text or Thinking
	Text string
}

// Completer is what an agent needs. Complete returns a *core.Error whose
// OutcomeOf names the outcome when the call did not end well.
type Completer interface {
	Complete(ctx context.Context, caller Caller, req Request, onDelta func(Delta)) (Response, error)
	// Limits of a model: context window and largest output, in tokens; known
	// is false for a model that is not in the table.
	Limits(model string) (window, output int, known bool)
}
