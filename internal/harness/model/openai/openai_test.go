package openai_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"drydock/internal/core"
	"drydock/internal/harness/model"
	"drydock/internal/harness/model/modeltest"
	"drydock/internal/harness/model/openai"
)

func provider(url string) model.Provider {
	return openai.New(openai.Options{Key: modeltest.Key, BaseURL: url + "/v1", Idle: modeltest.Idle})
}

func TestContract(t *testing.T) { modeltest.TestProvider(t, modeltest.OpenAI{}, provider) }

func text(s string) model.Block { return model.Block{Kind: model.Text, Text: s} }

func TestRequest(t *testing.T) {
	srv := modeltest.Serve(t, modeltest.OpenAI{}.Reply(model.EndTurn, core.Usage{}, text("ok")))
	req := modeltest.Ask()
	req.Effort, req.CacheKey, req.Seed = "low", "ses_1", 3
	req.Messages = []model.Message{
		{Role: model.User, Blocks: []model.Block{text("task"), {Kind: model.Image, MediaType: "image/png", Data: []byte("png")}}},
		{Role: model.Assistant, Blocks: []model.Block{
			{Kind: model.Thinking, Text: "hm"},
			text("I look."),
			{Kind: model.ToolUse, Call: "c1", Tool: "run", Input: json.RawMessage(`{"command":"ls"}`)},
			{Kind: model.ToolUse, Call: "c2", Tool: "run"},
		}},
		{Role: model.User, Blocks: []model.Block{
			{Kind: model.ToolResult, Call: "c1", Failed: true, Content: []model.Block{text("out")}},
			{Kind: model.ToolResult, Call: "c2", Content: []model.Block{text("page"), {Kind: model.Image, MediaType: "image/png", Data: []byte("png")}}},
			text("note"),
		}},
	}
	if _, err := provider(srv.URL).Stream(t.Context(), req, func(model.Delta) {}); err != nil {
		t.Fatal(err)
	}
	got := srv.Requests()[0]
	if got.Path != "/v1/chat/completions" || got.Header.Get("Authorization") != "Bearer "+modeltest.Key {
		t.Fatalf("path %s, authorization %q", got.Path, got.Header.Get("Authorization"))
	}
	const png = `{"type":"image_url","image_url":{"url":"data:image/png;base64,cG5n"}}`
	want := `{"model":"test-model","max_tokens":1000,"stream":true,"stream_options":{"include_usage":true},"reasoning_effort":"low","seed":3,
		"tools":[{"type":"function","function":{"name":"run","description":"Runs.","parameters":{"type":"object","properties":{"command":{"type":"string"}},"required":["command"],"additionalProperties":false}}}],
		"messages":[
		 {"role":"system","content":"You are a test."},
		 {"role":"user","content":[{"type":"text","text":"task"},` + png + `]},
		 {"role":"assistant","content":"I look.","tool_calls":[
		  {"id":"c1","type":"function","function":{"name":"run","arguments":"{\"command\":\"ls\"}"}},
		  {"id":"c2","type":"function","function":{"name":"run","arguments":"{}"}}]},
		 {"role":"tool","tool_call_id":"c1","content":"error:\nout"},
		 {"role":"tool","tool_call_id":"c2","content":"page\n(the picture follows)"},
		 {"role":"user","content":[{"type":"text","text":"Picture from call c2:"},` + png + `,{"type":"text","text":"note"}]}]}`
	var wanted map[string]any
	if err := json.Unmarshal([]byte(want), &wanted); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(wanted, got.Body); diff != "" {
		t.Fatalf("request (-want +got):\n%s", diff)
	}
}

// Compatible servers differ from OpenAI in small things.
func TestCompatibleServers(t *testing.T) {
	frame := func(delta string, finish string) string {
		if finish != "null" {
			finish = `"` + finish + `"`
		}
		return fmt.Sprintf(`data: {"id":"x","object":"chat.completion.chunk","model":"local","choices":[{"index":0,"delta":%s,"finish_reason":%s}]}`, delta, finish) + "\n\n"
	}
	call := func(index, id, name, args string) string {
		raw, _ := json.Marshal(args)
		return fmt.Sprintf(`{"tool_calls":[{%s%s"type":"function","function":{"name":%q,"arguments":%s}}]}`, index, id, name, raw)
	}
	ask := func(t *testing.T, frames ...string) model.Response {
		t.Helper()
		srv := modeltest.Serve(t, modeltest.Step{Frames: frames})
		resp, err := provider(srv.URL).Stream(t.Context(), modeltest.Ask(), func(model.Delta) {})
		if err != nil {
			t.Fatal(err)
		}
		return resp
	}
	t.Run("whole calls without an index", func(t *testing.T) {
		r := ask(t, frame(call("", `"id":"a",`, "run", `{"command":"ls"}`), "null"), frame(call("", `"id":"b",`, "run", `{"command":"pwd"}`), "null"), frame(`{}`, "stop"))
		if r.Outcome != model.WantsTools || len(r.Blocks) != 2 || string(r.Blocks[1].Input) != `{"command":"pwd"}` {
			t.Fatalf("got %+v", r)
		}
	})
	t.Run("calls without an id", func(t *testing.T) {
		r := ask(t, frame(call(`"index":0,`, "", "run", `{}`), "null"), frame(call(`"index":1,`, "", "run", ``), "tool_calls"))
		if len(r.Blocks) != 2 || r.Blocks[0].Call == "" || r.Blocks[0].Call == r.Blocks[1].Call {
			t.Fatalf("got %+v", r.Blocks)
		}
	})
	t.Run("id repeated in every piece", func(t *testing.T) {
		r := ask(t, frame(call(`"index":0,`, `"id":"a",`, "run", `{"comm`), "null"), frame(call(`"index":0,`, `"id":"a",`, "run", `and":"ls"}`), "null"), frame(`{}`, "tool_calls"))
		if len(r.Blocks) != 1 || string(r.Blocks[0].Input) != `{"command":"ls"}` {
			t.Fatalf("got %+v", r.Blocks)
		}
	})
	t.Run("reasoning", func(t *testing.T) {
		r := ask(t, frame(`{"reasoning_content":"hm "}`, "null"), frame(`{"reasoning":"so"}`, "null"), frame(`{"content":"yes"}`, "null"), frame(`{}`, "stop"))
		if len(r.Blocks) != 2 || r.Blocks[0].Kind != model.Thinking || r.Blocks[0].Text != "hm so" {
			t.Fatalf("got %+v", r.Blocks)
		}
	})
	t.Run("no key", func(t *testing.T) {
		srv := modeltest.Serve(t, modeltest.OpenAI{}.Reply(model.EndTurn, core.Usage{}, text("ok")))
		p := openai.New(openai.Options{BaseURL: srv.URL})
		if _, err := p.Stream(t.Context(), modeltest.Ask(), func(model.Delta) {}); err != nil {
			t.Fatal(err)
		}
		if h := srv.Requests()[0].Header.Get("Authorization"); h != "" {
			t.Fatalf("authorization %q", h)
		}
	})
}

// Some models take tools on this API only without reasoning, and say so.
func TestAskedAgainWithoutReasoning(t *testing.T) {
	srv := modeltest.Serve(t,
		modeltest.Step{Status: 400, Body: `{"error":{"message":"Function tools with reasoning_effort are not supported for gpt-x in /v1/chat/completions. To use function tools, use /v1/responses or set reasoning_effort to 'none'.","type":"invalid_request_error","param":"reasoning_effort","code":null}}`},
		modeltest.OpenAI{}.Reply(model.EndTurn, core.Usage{}, text("ok")))
	p := provider(srv.URL)
	for range 2 {
		if _, err := p.Stream(t.Context(), modeltest.Ask(), func(model.Delta) {}); err != nil {
			t.Fatal(err)
		}
	}
	var efforts []string
	for _, r := range srv.Requests() {
		efforts = append(efforts, fmt.Sprint(r.Body["reasoning_effort"]))
	}
	if got := strings.Join(efforts, " "); got != "<nil> none none" {
		t.Fatalf("efforts %s", got)
	}
}
