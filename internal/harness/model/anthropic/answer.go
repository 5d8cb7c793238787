package anthropic

import (
	"fmt"
	"strings"

	sdk "github.com/anthropics/anthropic-sdk-go/v2"

	"drydock/internal/core"
	"drydock/internal/harness/model"
	"drydock/internal/harness/model/wire"
)

// answer is a message as it comes in. The SDK's own accumulator is not used:
// it drops tool input that is not JSON, which the model must hear about.
type answer struct {
	blocks  []model.Block
	inputs  []strings.Builder // JSON of tool_use blocks, by index
	usage   core.Usage
	model   string
	reason  sdk.StopReason
	stopped bool
}

// maxBlocks bounds an answer whose start events do not stop.
const maxBlocks = 1024

func (a *answer) add(e sdk.MessageStreamEventUnion, onDelta func(model.Delta)) error {
	switch e.Type {
	case "message_start":
		a.model = string(e.Message.Model)
		u := e.Message.Usage
		a.usage = core.Usage{Input: u.InputTokens, CacheRead: u.CacheReadInputTokens, CacheWrite: u.CacheCreationInputTokens, Output: u.OutputTokens}
	case "content_block_start":
		return a.start(e)
	case "content_block_delta":
		return a.delta(e, onDelta)
	case "message_delta":
		a.reason = e.Delta.StopReason
		a.usage.Output = e.Usage.OutputTokens
		if e.Usage.JSON.InputTokens.Valid() && e.Usage.InputTokens > 0 {
			a.usage.Input = e.Usage.InputTokens
		}
		if e.Usage.JSON.CacheReadInputTokens.Valid() {
			a.usage.CacheRead = e.Usage.CacheReadInputTokens
		}
		if e.Usage.JSON.CacheCreationInputTokens.Valid() {
			a.usage.CacheWrite = e.Usage.CacheCreationInputTokens
		}
	case "message_stop":
		a.stopped = true
	}
	return nil
}

func (a *answer) start(e sdk.MessageStreamEventUnion) error {
	if e.Index != int64(len(a.blocks)) || len(a.blocks) >= maxBlocks {
		return fmt.Errorf("content block %d starts where %d is next", e.Index, len(a.blocks))
	}
	b := model.Block{}
	switch c := e.ContentBlock; c.Type {
	case "text":
		b.Kind, b.Text = model.Text, c.Text
	case "tool_use":
		b.Kind, b.Call, b.Tool = model.ToolUse, c.ID, c.Name
	case "thinking":
		b.Kind, b.Text, b.Signature = model.Thinking, c.Thinking, c.Signature
	case "redacted_thinking":
		b.Kind, b.Redacted = model.Thinking, []byte(c.Data)
	}
	a.blocks = append(a.blocks, b)
	a.inputs = append(a.inputs, strings.Builder{})
	return nil
}

func (a *answer) delta(e sdk.MessageStreamEventUnion, onDelta func(model.Delta)) error {
	if e.Index < 0 || e.Index >= int64(len(a.blocks)) {
		return fmt.Errorf("a delta belongs to content block %d, of which there are %d", e.Index, len(a.blocks))
	}
	b := &a.blocks[e.Index]
	switch d := e.Delta; d.Type {
	case "text_delta":
		b.Text += d.Text
		onDelta(model.Delta{Kind: model.Text, Text: d.Text})
	case "thinking_delta":
		b.Text += d.Thinking
		onDelta(model.Delta{Kind: model.Thinking, Text: d.Thinking})
	case "signature_delta":
		b.Signature += d.Signature
	case "input_json_delta":
		a.inputs[e.Index].WriteString(d.PartialJSON)
	}
	return nil
}

func (a *answer) response() model.Response {
	r := model.Response{Usage: a.usage, Model: a.model}
	for i, b := range a.blocks {
		switch b.Kind {
		case model.ToolUse:
			b.Input, b.BadInput = wire.Object(a.inputs[i].String())
		case model.Text:
			if strings.TrimSpace(b.Text) == "" {
				continue
			}
		case "":
			continue // a kind of block that we never ask for
		}
		r.Blocks = append(r.Blocks, b)
	}
	return r
}

// verdict names how a complete message ended.
func (a *answer) verdict(r *model.Response) error {
	has := map[model.BlockKind]bool{}
	for _, b := range r.Blocks {
		has[b.Kind] = true
	}
	switch a.reason {
	case sdk.StopReasonRefusal:
		return &model.Fault{Outcome: model.Refused, Message: "stop reason refusal"}
	case sdk.StopReasonModelContextWindowExceeded:
		return &model.Fault{Outcome: model.ContextOverflow, Message: "the answer reached the end of the context window"}
	case sdk.StopReasonMaxTokens:
		r.Outcome = model.MaxTokens
		return nil
	case "":
		return &model.Fault{Outcome: model.Truncated, Message: "the message ended without a stop reason"}
	}
	switch {
	case has[model.ToolUse]:
		r.Outcome = model.WantsTools
	case has[model.Text]:
		r.Outcome = model.EndTurn
	default:
		return &model.Fault{Outcome: model.Empty, Message: "stop reason " + string(a.reason)}
	}
	return nil
}
