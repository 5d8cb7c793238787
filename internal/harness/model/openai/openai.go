// Package openai speaks the chat completions API of OpenAI, and of everything
// compatible with it, through the official SDK: streaming, tools, images, and
// cached tokens read from the usage.
//
// It makes one request per call and never retries, with one exception: a model
// that takes tools here only without reasoning is asked again without it.
// Thinking that compatible servers stream is shown but not sent back. A
// Provider is safe for use by many goroutines.
//
//	p := openai.New(openai.Options{Key: key, BaseURL: "http://127.0.0.1:8000/v1"})
//	resp, err := p.Stream(ctx, req, func(d model.Delta) { fmt.Print(d.Text) })
package openai

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"sync"
	"time"

	sdk "github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/packages/ssestream"
	"github.com/openai/openai-go/v3/shared"

	"drydock/internal/harness/model"
	"drydock/internal/harness/model/wire"
)

const officialURL = "https://api.openai.com/v1/"

// Options of a Provider.
type Options struct {
	Key     string        // may be empty for servers that want none
	BaseURL string        // up to and including /v1; default: OpenAI's own
	Idle    time.Duration // longest silence in a stream; default 10 min, since reasoning is not streamed
	HTTP    *http.Client  // default wire.Client()
}

// Provider implements model.Provider.
type Provider struct {
	service  sdk.ChatCompletionService
	opts     Options
	official bool

	// plain holds models that take tools only with effort "none".
	plain sync.Map
}

// New makes a Provider. The environment is not consulted.
func New(o Options) *Provider {
	if o.HTTP == nil {
		o.HTTP = wire.Client()
	}
	if o.Idle <= 0 {
		o.Idle = 10 * time.Minute
	}
	base := officialURL
	if o.BaseURL != "" {
		base = strings.TrimSuffix(o.BaseURL, "/") + "/"
	}
	opts := []option.RequestOption{
		option.WithBaseURL(base),
		option.WithHTTPClient(o.HTTP),
		option.WithMaxRetries(0),
	}
	if o.Key != "" {
		opts = append(opts, option.WithAPIKey(o.Key))
	}
	return &Provider{service: sdk.NewChatCompletionService(opts...), opts: o, official: base == officialURL}
}

// Vendor implements model.Vendor.
func (p *Provider) Vendor() string {
	if p.official {
		return "openai"
	}
	return ""
}

// Seeded implements model.Seeded.
func (*Provider) Seeded() bool { return true }

// Stream implements model.Provider.
func (p *Provider) Stream(ctx context.Context, req model.Request, onDelta func(model.Delta)) (model.Response, error) {
	if _, ok := p.plain.Load(req.Model); ok && len(req.Tools) > 0 {
		req.Effort = "none"
	}
	resp, again, err := p.stream(ctx, req, onDelta)
	if again && req.Effort != "none" {
		p.plain.Store(req.Model, true)
		req.Effort = "none"
		resp, _, err = p.stream(ctx, req, onDelta)
	}
	return resp, err
}

func (p *Provider) stream(ctx context.Context, req model.Request, onDelta func(model.Delta)) (_ model.Response, again bool, _ error) {
	within, x := wire.Begin(ctx, wire.Options{Idle: p.opts.Idle, Secret: p.opts.Key})
	defer x.End()
	stream := p.service.NewStreaming(within, p.params(req), option.WithMiddleware(x.Middleware))
	defer func() { _ = stream.Close() }()

	a := answer{asked: int64(req.MaxTokens), window: int64(req.Window)}
	for stream.Next() {
		if err := a.add(stream.Current(), onDelta); err != nil {
			return a.response(), false, &model.Fault{Outcome: model.Truncated, Message: err.Error()}
		}
	}
	if err := stream.Err(); err != nil {
		if inner, ok := errors.AsType[*ssestream.StreamError](err); ok {
			return a.response(), false, x.StreamError(inner.Event.Data)
		}
		status, text := x.Problem()
		again := status == http.StatusBadRequest && strings.Contains(text, "reasoning_effort") && strings.Contains(strings.ToLower(text), "function tools")
		return a.response(), again, x.Fault(ctx, err)
	}
	if a.reason == "" {
		return a.response(), false, x.Truncated(ctx)
	}
	resp := a.response()
	return resp, false, a.verdict(&resp)
}

func (p *Provider) params(req model.Request) sdk.ChatCompletionNewParams {
	out := sdk.ChatCompletionNewParams{
		Model:         req.Model,
		StreamOptions: sdk.ChatCompletionStreamOptionsParam{IncludeUsage: sdk.Bool(true)},
	}
	// Compatible servers know the old name only; OpenAI's newer models the new.
	if p.official {
		out.MaxCompletionTokens = sdk.Int(int64(req.MaxTokens))
		if req.CacheKey != "" {
			out.PromptCacheKey = sdk.String(req.CacheKey)
		}
	} else {
		out.MaxTokens = sdk.Int(int64(req.MaxTokens))
	}
	if req.Seed != 0 {
		out.Seed = sdk.Int(req.Seed)
	}
	if req.Effort != "" {
		out.ReasoningEffort = shared.ReasoningEffort(req.Effort)
	}
	for _, t := range req.Tools {
		var schema shared.FunctionParameters
		_ = json.Unmarshal(t.Schema, &schema) // schemas are ours, checked by tests
		out.Tools = append(out.Tools, sdk.ChatCompletionFunctionTool(shared.FunctionDefinitionParam{
			Name: t.Name, Description: sdk.String(t.Description), Parameters: schema,
		}))
	}
	if req.System != "" {
		out.Messages = append(out.Messages, sdk.SystemMessage(req.System))
	}
	for _, m := range req.Messages {
		if m.Role == model.Assistant {
			out.Messages = append(out.Messages, assistant(m)...)
		} else {
			out.Messages = append(out.Messages, user(m)...)
		}
	}
	return out
}

func assistant(m model.Message) []sdk.ChatCompletionMessageParamUnion {
	out := &sdk.ChatCompletionAssistantMessageParam{}
	var text []string
	for _, b := range m.Blocks {
		switch b.Kind {
		case model.Text:
			text = append(text, b.Text)
		case model.ToolUse:
			args := string(b.Input)
			if args == "" {
				args = "{}"
			}
			out.ToolCalls = append(out.ToolCalls, sdk.ChatCompletionMessageToolCallUnionParam{
				OfFunction: &sdk.ChatCompletionMessageFunctionToolCallParam{
					ID:       b.Call,
					Function: sdk.ChatCompletionMessageFunctionToolCallFunctionParam{Name: b.Tool, Arguments: args},
				},
			})
		}
	}
	if len(text) > 0 {
		out.Content.OfString = sdk.String(strings.Join(text, "\n"))
	}
	if len(text) == 0 && len(out.ToolCalls) == 0 {
		return nil
	}
	return []sdk.ChatCompletionMessageParamUnion{{OfAssistant: out}}
}

// user turns results into one tool message each, which must follow the calls
// at once, and what else there is into one user message. Pictures in results
// go into that message: a tool message takes text only.
func user(m model.Message) []sdk.ChatCompletionMessageParamUnion {
	var tools []sdk.ChatCompletionMessageParamUnion
	var parts []sdk.ChatCompletionContentPartUnionParam
	for _, b := range m.Blocks {
		switch b.Kind {
		case model.Text:
			if b.Text != "" {
				parts = append(parts, sdk.TextContentPart(b.Text))
			}
		case model.Image:
			parts = append(parts, picture(b))
		case model.ToolResult:
			var text []string
			if b.Failed {
				text = append(text, "error:")
			}
			for _, c := range b.Content {
				switch c.Kind {
				case model.Text:
					text = append(text, c.Text)
				case model.Image:
					text = append(text, "(the picture follows)")
					parts = append(parts, sdk.TextContentPart("Picture from call "+b.Call+":"), picture(c))
				}
			}
			tools = append(tools, sdk.ToolMessage(strings.Join(text, "\n"), b.Call))
		}
	}
	if len(parts) > 0 {
		tools = append(tools, sdk.UserMessage(parts))
	}
	return tools
}

func picture(b model.Block) sdk.ChatCompletionContentPartUnionParam {
	return sdk.ImageContentPart(sdk.ChatCompletionContentPartImageImageURLParam{
		URL: "data:" + b.MediaType + ";base64," + base64.StdEncoding.EncodeToString(b.Data),
	})
}
