package modeltest

import (
	"fmt"
	"maps"

	"drydock/internal/core"
	"drydock/internal/harness/model"
)

// Dialect writes what a vendor's server would send.
type Dialect interface {
	// Frames of a whole answer. A ToolUse block's BadInput is sent as it is.
	Frames(outcome model.Outcome, usage core.Usage, blocks ...model.Block) []string
	// Last is how many frames at the end say that the answer is whole.
	Last() int
	// Problem is an error response for an outcome.
	Problem(outcome model.Outcome) Step
	// Broken is a frame that reports an error inside a stream.
	Broken(outcome model.Outcome) string
}

type m = map[string]any

// Anthropic is the Messages API.
type Anthropic struct{}

// Reply is a step with a whole answer.
func (d Anthropic) Reply(o model.Outcome, u core.Usage, blocks ...model.Block) Step {
	return Step{Frames: d.Frames(o, u, blocks...)}
}

// Frames implements Dialect.
func (Anthropic) Frames(o model.Outcome, u core.Usage, blocks ...model.Block) []string {
	out := []string{event("message_start", m{"type": "message_start", "message": m{
		"id": "msg_1", "type": "message", "role": "assistant", "model": "claude-test", "content": []any{},
		"stop_reason": nil, "stop_sequence": nil,
		"usage": m{"input_tokens": u.Input, "cache_creation_input_tokens": u.CacheWrite, "cache_read_input_tokens": u.CacheRead, "output_tokens": 1},
	}}), event("ping", m{"type": "ping"})}
	for i, b := range blocks {
		start, deltas := anthropicBlock(b)
		out = append(out, event("content_block_start", m{"type": "content_block_start", "index": i, "content_block": start}))
		for _, d := range deltas {
			out = append(out, event("content_block_delta", m{"type": "content_block_delta", "index": i, "delta": d}))
		}
		out = append(out, event("content_block_stop", m{"type": "content_block_stop", "index": i}))
	}
	reason := map[model.Outcome]string{
		model.EndTurn: "end_turn", model.WantsTools: "tool_use", model.MaxTokens: "max_tokens",
		model.Refused: "refusal", model.ContextOverflow: "model_context_window_exceeded", model.Empty: "end_turn",
	}[o]
	return append(out,
		event("message_delta", m{"type": "message_delta", "delta": m{"stop_reason": reason, "stop_sequence": nil}, "usage": m{"output_tokens": u.Output}}),
		event("message_stop", m{"type": "message_stop"}))
}

func anthropicBlock(b model.Block) (start m, deltas []m) {
	switch b.Kind {
	case model.Text:
		start = m{"type": "text", "text": ""}
		for _, p := range pieces(b.Text) {
			deltas = append(deltas, m{"type": "text_delta", "text": p})
		}
	case model.Thinking:
		if len(b.Redacted) > 0 {
			return m{"type": "redacted_thinking", "data": string(b.Redacted)}, nil
		}
		start = m{"type": "thinking", "thinking": "", "signature": ""}
		for _, p := range pieces(b.Text) {
			deltas = append(deltas, m{"type": "thinking_delta", "thinking": p})
		}
		deltas = append(deltas, m{"type": "signature_delta", "signature": b.Signature})
	case model.ToolUse:
		start = m{"type": "tool_use", "id": b.Call, "name": b.Tool, "input": m{}}
		input := string(b.Input)
		if b.BadInput != "" {
			input = b.BadInput
		}
		deltas = append(deltas, m{"type": "input_json_delta", "partial_json": ""})
		for _, p := range pieces(input) {
			deltas = append(deltas, m{"type": "input_json_delta", "partial_json": p})
		}
	}
	return start, deltas
}

// Last implements Dialect.
func (Anthropic) Last() int { return 1 }

func anthropicError(kind, message string) m {
	return m{"type": "error", "error": m{"type": kind, "message": message}, "request_id": "req_1"}
}

// Problem implements Dialect.
func (Anthropic) Problem(o model.Outcome) Step {
	switch o {
	case model.Overloaded:
		return Step{Status: 529, Body: jsonText(anthropicError("overloaded_error", "Overloaded"))}
	case model.RateLimited:
		return Step{Status: 429, Body: jsonText(anthropicError("rate_limit_error", "This request would exceed your organization's rate limit"))}
	case model.ContextOverflow:
		return Step{Status: 400, Body: jsonText(anthropicError("invalid_request_error", "prompt is too long: 208310 tokens > 200000 maximum"))}
	case model.Rejected:
		return Step{Status: 400, Body: jsonText(anthropicError("invalid_request_error", "messages: at least one message is required"))}
	}
	return Step{Status: 500, Body: jsonText(anthropicError("api_error", "Internal server error"))}
}

// Broken implements Dialect.
func (Anthropic) Broken(o model.Outcome) string {
	kind := "api_error"
	if o == model.Overloaded {
		kind = "overloaded_error"
	}
	return event("error", anthropicError(kind, "Overloaded"))
}

// OpenAI is the chat completions API.
type OpenAI struct{}

// Reply is a step with a whole answer.
func (d OpenAI) Reply(o model.Outcome, u core.Usage, blocks ...model.Block) Step {
	return Step{Frames: d.Frames(o, u, blocks...)}
}

func chunk(choices []m, more m) string {
	c := m{"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1790000000, "model": "gpt-test", "choices": choices}
	maps.Copy(c, more)
	return event("", c)
}

func choice(delta m, finish any) []m {
	return []m{{"index": 0, "delta": delta, "logprobs": nil, "finish_reason": finish}}
}

// Frames implements Dialect.
func (OpenAI) Frames(o model.Outcome, u core.Usage, blocks ...model.Block) []string {
	out := []string{": keep-alive\n\n", chunk(choice(m{"role": "assistant", "content": "", "refusal": nil}, nil), m{"usage": nil})}
	calls := 0
	for _, b := range blocks {
		switch b.Kind {
		case model.Text:
			for _, p := range pieces(b.Text) {
				out = append(out, chunk(choice(m{"content": p}, nil), nil))
			}
		case model.Thinking:
			for _, p := range pieces(b.Text) {
				out = append(out, chunk(choice(m{"reasoning_content": p}, nil), nil))
			}
		case model.ToolUse:
			input := string(b.Input)
			if b.BadInput != "" {
				input = b.BadInput
			}
			out = append(out, chunk(choice(m{"tool_calls": []m{{"index": calls, "id": b.Call, "type": "function", "function": m{"name": b.Tool, "arguments": ""}}}}, nil), nil))
			for _, p := range pieces(input) {
				out = append(out, chunk(choice(m{"tool_calls": []m{{"index": calls, "function": m{"arguments": p}}}}, nil), nil))
			}
			calls++
		}
	}
	if o == model.Refused {
		out = append(out, chunk(choice(m{"refusal": "I can't help with that."}, nil), nil))
	}
	reason := map[model.Outcome]string{
		model.EndTurn: "stop", model.WantsTools: "tool_calls", model.MaxTokens: "length",
		model.Refused: "stop", model.ContextOverflow: "length", model.Empty: "stop",
	}[o]
	return append(out,
		chunk(choice(m{}, reason), nil),
		chunk([]m{}, m{"usage": m{
			"prompt_tokens": u.Input + u.CacheRead + u.CacheWrite, "completion_tokens": u.Output, "total_tokens": u.Input + u.CacheRead + u.CacheWrite + u.Output,
			"prompt_tokens_details": m{"cached_tokens": u.CacheRead, "cache_write_tokens": u.CacheWrite},
		}}),
		"data: [DONE]\n\n")
}

// Last implements Dialect.
func (OpenAI) Last() int { return 3 }

func openaiError(kind, code, message string) m {
	return m{"error": m{"message": message, "type": kind, "param": nil, "code": code}}
}

// Problem implements Dialect.
func (OpenAI) Problem(o model.Outcome) Step {
	switch o {
	case model.Overloaded:
		return Step{Status: 503, Body: jsonText(openaiError("server_error", "", "The engine is currently overloaded, please try again later"))}
	case model.RateLimited:
		return Step{Status: 429, Body: jsonText(openaiError("tokens", "rate_limit_exceeded", "Rate limit reached for gpt-test"))}
	case model.ContextOverflow:
		return Step{Status: 400, Body: jsonText(openaiError("invalid_request_error", "context_length_exceeded", "This model's maximum context length is 128000 tokens."))}
	case model.Rejected:
		return Step{Status: 404, Body: jsonText(openaiError("invalid_request_error", "model_not_found", "The model `gpt-none` does not exist"))}
	}
	return Step{Status: 500, Body: jsonText(openaiError("server_error", "", "The server had an error"))}
}

// Broken implements Dialect.
func (OpenAI) Broken(o model.Outcome) string {
	kind := "server_error"
	if o == model.Overloaded {
		kind = "overloaded_error"
	}
	return event("", openaiError(kind, "", "The server had an error while processing"))
}

func jsonText(v any) string {
	frame := event("", v)
	var out string
	if _, err := fmt.Sscanf(frame, "data: %s", &out); err == nil && len(frame) == len("data: ")+len(out)+2 {
		return out
	}
	return frame[len("data: ") : len(frame)-2]
}
