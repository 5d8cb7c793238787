package anthropic_test

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"drydock/internal/core"
	"drydock/internal/harness/model"
	"drydock/internal/harness/model/anthropic"
	"drydock/internal/harness/model/modeltest"
)

func provider(url string) model.Provider {
	return anthropic.New(anthropic.Options{Key: modeltest.Key, BaseURL: url, Idle: modeltest.Idle})
}

func TestContract(t *testing.T) { modeltest.TestProvider(t, modeltest.Anthropic{}, provider) }

func text(s string) model.Block { return model.Block{Kind: model.Text, Text: s} }

// What an agent remembers goes back as the API wants it, with cache
// breakpoints on the system prompt, the tools and the last two messages.
func TestRequest(t *testing.T) {
	srv := modeltest.Serve(t, modeltest.Anthropic{}.Reply(model.EndTurn, core.Usage{}, text("ok")))
	req := modeltest.Ask()
	req.Thinks, req.Effort = true, "high"
	req.Messages = []model.Message{
		{Role: model.User, Blocks: []model.Block{text("task"), {Kind: model.Image, MediaType: "image/png", Data: []byte("png")}}},
		{Role: model.Assistant, Blocks: []model.Block{
			{Kind: model.Thinking, Text: "hm", Signature: "sig"},
			{Kind: model.Thinking, Redacted: []byte("opaque")},
			{Kind: model.Thinking, Text: "unsigned"},
			text(" "),
			{Kind: model.ToolUse, Call: "c1", Tool: "run", Input: json.RawMessage(`{"b":1,"a":"<&>"}`)},
		}},
		{Role: model.User, Blocks: []model.Block{text("note"), {
			Kind: model.ToolResult, Call: "c1", Failed: true,
			Content: []model.Block{text("out"), text(""), {Kind: model.Image, MediaType: "image/png", Data: []byte("png")}},
		}}},
	}
	if _, err := provider(srv.URL).Stream(t.Context(), req, func(model.Delta) {}); err != nil {
		t.Fatal(err)
	}
	got := srv.Requests()[0]
	if got.Path != "/v1/messages" || got.Header.Get("Authorization") != "Bearer "+modeltest.Key {
		t.Fatalf("path %s, authorization %q", got.Path, got.Header.Get("Authorization"))
	}
	const cache = `"cache_control":{"type":"ephemeral"}`
	const png = `{"type":"image","source":{"type":"base64","media_type":"image/png","data":"cG5n"}`
	want := `{"model":"test-model","max_tokens":1000,"stream":true,
		"thinking":{"type":"adaptive","display":"summarized"},"output_config":{"effort":"high"},
		"system":[{"type":"text","text":"You are a test.",` + cache + `}],
		"tools":[{"name":"run","description":"Runs.",` + cache + `,"input_schema":{"type":"object","properties":{"command":{"type":"string"}},"required":["command"],"additionalProperties":false}}],
		"messages":[
		 {"role":"user","content":[{"type":"text","text":"task"},` + png + `,` + cache + `}]},
		 {"role":"assistant","content":[{"type":"thinking","thinking":"hm","signature":"sig"},{"type":"redacted_thinking","data":"opaque"},
		  {"type":"tool_use","id":"c1","name":"run","input":{"b":1,"a":"<&>"}}]},
		 {"role":"user","content":[{"type":"tool_result","tool_use_id":"c1","is_error":true,"content":[{"type":"text","text":"out"},` + png + `}]},
		  {"type":"text","text":"note",` + cache + `}]}]}`
	var wanted map[string]any
	if err := json.Unmarshal([]byte(want), &wanted); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(wanted, got.Body); diff != "" {
		t.Fatalf("request (-want +got):\n%s", diff)
	}
}

func TestThinkingComesBackWithItsSignature(t *testing.T) {
	blocks := []model.Block{
		{Kind: model.Thinking, Text: "first this", Signature: "EqQBCgIYAhIM"},
		{Kind: model.Thinking, Redacted: []byte("opaque")},
		text("done"),
	}
	srv := modeltest.Serve(t, modeltest.Anthropic{}.Reply(model.EndTurn, core.Usage{Input: 1, Output: 2}, blocks...))
	var thought string
	resp, err := provider(srv.URL).Stream(t.Context(), modeltest.Ask(), func(d model.Delta) {
		if d.Kind == model.Thinking {
			thought += d.Text
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(blocks, resp.Blocks); diff != "" {
		t.Fatalf("(-want +got):\n%s", diff)
	}
	if thought != "first this" {
		t.Fatalf("streamed %q", thought)
	}
}
