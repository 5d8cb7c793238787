// Package anthropic speaks the Anthropic Messages API through the official SDK:
// streaming, tools, images, prompt caching and thinking blocks that go back
// unchanged with their signature.
//
// It makes one request per call and never retries. A Provider is safe for use
// by many goroutines.
//
//	p := anthropic.New(anthropic.Options{Key: key})
//	resp, err := p.Stream(ctx, req, func(d model.Delta) { fmt.Print(d.Text) })
package anthropic

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	sdk "github.com/anthropics/anthropic-sdk-go/v2"
	"github.com/anthropics/anthropic-sdk-go/v2/option"
	"github.com/anthropics/anthropic-sdk-go/v2/packages/param"

	"drydock/internal/harness/model"
	"drydock/internal/harness/model/wire"
)

// Options of a Provider.
type Options struct {
	Key     string
	BaseURL string        // default: Anthropic's own
	Idle    time.Duration // longest silence in a stream
	HTTP    *http.Client  // default wire.Client()
}

// Provider implements model.Provider.
type Provider struct {
	client sdk.Client
	opts   Options
}

// New makes a Provider. The environment is not consulted.
func New(o Options) *Provider {
	if o.HTTP == nil {
		o.HTTP = wire.Client()
	}
	opts := []option.RequestOption{
		option.WithoutEnvironmentDefaults(),
		option.WithAPIKey(o.Key),
		option.WithHTTPClient(o.HTTP),
		option.WithMaxRetries(0),
	}
	if o.BaseURL != "" {
		opts = append(opts, option.WithBaseURL(strings.TrimSuffix(o.BaseURL, "/")+"/"))
	}
	return &Provider{client: sdk.NewClient(opts...), opts: o}
}

// Vendor implements model.Vendor.
func (p *Provider) Vendor() string {
	if p.opts.BaseURL == "" {
		return "anthropic"
	}
	return ""
}

// Stream implements model.Provider.
func (p *Provider) Stream(ctx context.Context, req model.Request, onDelta func(model.Delta)) (model.Response, error) {
	within, x := wire.Begin(ctx, wire.Options{Idle: p.opts.Idle, Secret: p.opts.Key})
	defer x.End()
	stream := p.client.Messages.NewStreaming(within, params(req), option.WithMiddleware(x.Middleware))
	defer func() { _ = stream.Close() }()

	var a answer
	for stream.Next() {
		if err := a.add(stream.Current(), onDelta); err != nil {
			return a.response(), &model.Fault{Outcome: model.Truncated, Message: err.Error()}
		}
	}
	if err := stream.Err(); err != nil {
		if apiErr, ok := errors.AsType[*sdk.Error](err); ok && apiErr.StatusCode < 300 {
			return a.response(), x.StreamError([]byte(apiErr.RawJSON()))
		}
		return a.response(), x.Fault(ctx, err)
	}
	if !a.stopped {
		return a.response(), x.Truncated(ctx)
	}
	resp := a.response()
	return resp, a.verdict(&resp)
}

func params(req model.Request) sdk.MessageNewParams {
	out := sdk.MessageNewParams{Model: req.Model, MaxTokens: int64(req.MaxTokens)}
	if req.System != "" {
		out.System = []sdk.TextBlockParam{{Text: req.System, CacheControl: sdk.NewCacheControlEphemeralParam()}}
	}
	for _, t := range req.Tools {
		out.Tools = append(out.Tools, sdk.ToolUnionParam{OfTool: &sdk.ToolParam{
			Name: t.Name, Description: sdk.String(t.Description),
			InputSchema: param.Override[sdk.ToolInputSchemaParam](t.Schema),
		}})
	}
	if n := len(out.Tools); n > 0 {
		out.Tools[n-1].OfTool.CacheControl = sdk.NewCacheControlEphemeralParam()
	}
	if req.Thinks {
		out.Thinking = sdk.ThinkingConfigParamUnion{OfAdaptive: &sdk.ThinkingConfigAdaptiveParam{Display: sdk.ThinkingConfigAdaptiveDisplaySummarized}}
	}
	if req.Effort != "" {
		out.OutputConfig = sdk.OutputConfigParam{Effort: sdk.OutputConfigEffort(req.Effort)}
	}
	for _, m := range req.Messages {
		switch blocks := content(m); {
		case len(blocks) == 0:
		case m.Role == model.Assistant:
			out.Messages = append(out.Messages, sdk.NewAssistantMessage(blocks...))
		default:
			out.Messages = append(out.Messages, sdk.NewUserMessage(blocks...))
		}
	}
	markCache(out.Messages)
	return out
}

// markCache puts the two breakpoints that are left after system and tools on
// the last two messages of the user: the newest is read by the next request,
// the one before by this one.
func markCache(messages []sdk.MessageParam) {
	marked := 0
	for i := len(messages) - 1; i >= 0 && marked < 2; i-- {
		if messages[i].OfUser == nil {
			continue
		}
		blocks := messages[i].OfUser.Content
		if c := blocks[len(blocks)-1].GetCacheControl(); c != nil {
			*c = sdk.NewCacheControlEphemeralParam()
			marked++
		}
	}
}

func content(m model.Message) []sdk.ContentBlockParamUnion {
	blocks := slices.Clone(m.Blocks)
	if m.Role == model.User { // the API wants results before anything else
		slices.SortStableFunc(blocks, func(a, b model.Block) int {
			return cmp.Compare(resultFirst(a), resultFirst(b))
		})
	}
	var out []sdk.ContentBlockParamUnion
	for _, b := range blocks {
		switch b.Kind {
		case model.Text:
			if strings.TrimSpace(b.Text) != "" { // the API refuses empty text
				out = append(out, sdk.NewTextBlock(b.Text))
			}
		case model.Image:
			out = append(out, sdk.NewImageBlockBase64(b.MediaType, base64.StdEncoding.EncodeToString(b.Data)))
		case model.Thinking:
			if len(b.Redacted) > 0 {
				out = append(out, sdk.NewRedactedThinkingBlock(string(b.Redacted)))
			} else if b.Signature != "" { // unsigned thinking is not taken back
				out = append(out, sdk.NewThinkingBlock(b.Signature, b.Text))
			}
		case model.ToolUse:
			input := b.Input
			if len(input) == 0 {
				input = json.RawMessage(`{}`)
			}
			out = append(out, sdk.NewToolUseBlock(b.Call, input, b.Tool))
		case model.ToolResult:
			out = append(out, result(b))
		}
	}
	return out
}

func resultFirst(b model.Block) int {
	if b.Kind == model.ToolResult {
		return 0
	}
	return 1
}

func result(b model.Block) sdk.ContentBlockParamUnion {
	r := &sdk.ToolResultBlockParam{ToolUseID: b.Call}
	if b.Failed {
		r.IsError = sdk.Bool(true)
	}
	for _, c := range b.Content {
		switch c.Kind {
		case model.Text:
			if strings.TrimSpace(c.Text) != "" {
				r.Content = append(r.Content, sdk.ToolResultBlockParamContentUnion{OfText: &sdk.TextBlockParam{Text: c.Text}})
			}
		case model.Image:
			r.Content = append(r.Content, sdk.ToolResultBlockParamContentUnion{
				OfImage: sdk.NewImageBlockBase64(c.MediaType, base64.StdEncoding.EncodeToString(c.Data)).OfImage,
			})
		}
	}
	return sdk.ContentBlockParamUnion{OfToolResult: r}
}
