package openai

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"strings"

	sdk "github.com/openai/openai-go/v3"

	"drydock/internal/core"
	"drydock/internal/harness/model"
	"drydock/internal/harness/model/wire"
)

// maxCalls bounds the tool calls of one answer.
const maxCalls = 256

// answer is a completion as it comes in.
type answer struct {
	text     strings.Builder
	thinking strings.Builder
	refusal  strings.Builder
	calls    []call
	reason   string
	usage    core.Usage
	total    int64 // tokens of request and answer together
	model    string
	asked    int64 // tokens asked for
	window   int64
}

type call struct {
	index    int64
	id, name string
	args     strings.Builder
}

func (a *answer) add(c sdk.ChatCompletionChunk, onDelta func(model.Delta)) error {
	if c.Model != "" {
		a.model = c.Model
	}
	if u := c.Usage; u.PromptTokens > 0 || u.CompletionTokens > 0 {
		cached, written := u.PromptTokensDetails.CachedTokens, u.PromptTokensDetails.CacheWriteTokens
		a.usage = core.Usage{
			Input:     max(u.PromptTokens-cached-written, 0),
			CacheRead: cached, CacheWrite: written, Output: u.CompletionTokens,
		}
		a.total = u.PromptTokens + u.CompletionTokens
	}
	for _, choice := range c.Choices {
		if choice.Index != 0 {
			continue
		}
		if choice.FinishReason != "" {
			a.reason = choice.FinishReason
		}
		d := choice.Delta
		if d.Content != "" {
			a.text.WriteString(d.Content)
			onDelta(model.Delta{Kind: model.Text, Text: d.Content})
		}
		if t := thought(d); t != "" {
			a.thinking.WriteString(t)
			onDelta(model.Delta{Kind: model.Thinking, Text: t})
		}
		a.refusal.WriteString(d.Refusal)
		for _, tc := range d.ToolCalls {
			if err := a.call(tc); err != nil {
				return err
			}
		}
	}
	return nil
}

// thought reads the fields in which compatible servers stream reasoning.
func thought(d sdk.ChatCompletionChunkChoiceDelta) string {
	for _, name := range []string{"reasoning_content", "reasoning"} {
		if f, ok := d.JSON.ExtraFields[name]; ok {
			var s string
			if json.Unmarshal([]byte(f.Raw()), &s) == nil {
				return s
			}
		}
	}
	return ""
}

// call adds a piece to the call of its index. Some servers leave the index out
// and send whole calls: a new id then starts a new call.
func (a *answer) call(tc sdk.ChatCompletionChunkChoiceDeltaToolCall) error {
	at := -1
	for i := range a.calls {
		c := &a.calls[i]
		if c.index == tc.Index && (tc.ID == "" || c.id == "" || c.id == tc.ID) {
			at = i
		}
	}
	if at < 0 {
		if len(a.calls) >= maxCalls {
			return fmt.Errorf("more than %d tool calls in one answer", maxCalls)
		}
		a.calls = append(a.calls, call{index: tc.Index})
		at = len(a.calls) - 1
	}
	c := &a.calls[at]
	if tc.ID != "" {
		c.id = tc.ID
	}
	if c.name == "" {
		c.name = tc.Function.Name
	}
	c.args.WriteString(tc.Function.Arguments)
	return nil
}

func (a *answer) response() model.Response {
	r := model.Response{Usage: a.usage, Model: a.model}
	if a.thinking.Len() > 0 {
		r.Blocks = append(r.Blocks, model.Block{Kind: model.Thinking, Text: a.thinking.String()})
	}
	if strings.TrimSpace(a.text.String()) != "" {
		r.Blocks = append(r.Blocks, model.Block{Kind: model.Text, Text: a.text.String()})
	}
	for i := range a.calls {
		c := &a.calls[i]
		b := model.Block{Kind: model.ToolUse, Call: c.id, Tool: c.name}
		if b.Call == "" {
			b.Call = "call_" + rand.Text()
		}
		b.Input, b.BadInput = wire.Object(c.args.String())
		r.Blocks = append(r.Blocks, b)
	}
	return r
}

func (a *answer) verdict(r *model.Response) error {
	switch {
	case a.reason == "content_filter" || a.refusal.Len() > 0:
		return &model.Fault{Outcome: model.Refused, Message: strings.TrimSpace("finish reason " + a.reason + " " + clip(a.refusal.String()))}
	case a.reason == "length" && a.windowEnded():
		return &model.Fault{Outcome: model.ContextOverflow, Message: "the answer reached the end of the context window"}
	case a.reason == "length":
		r.Outcome = model.MaxTokens
	case len(a.calls) > 0:
		r.Outcome = model.WantsTools
	case strings.TrimSpace(a.text.String()) != "":
		r.Outcome = model.EndTurn
	default:
		return &model.Fault{Outcome: model.Empty, Message: "finish reason " + a.reason}
	}
	return nil
}

// windowEnded tells an answer that was cut by the end of the context window
// from one that used all tokens it was allowed.
func (a *answer) windowEnded() bool {
	if a.usage.Output == 0 || a.usage.Output >= a.asked {
		return false
	}
	if a.window > 0 {
		return a.total >= a.window-a.window/100
	}
	return a.usage.Output < a.asked*9/10
}

func clip(s string) string {
	if len(s) > 200 {
		return strings.ToValidUTF8(s[:200], "") + "..."
	}
	return s
}
