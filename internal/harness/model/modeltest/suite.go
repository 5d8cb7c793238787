package modeltest

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"drydock/internal/core"
	"drydock/internal/harness/model"
)

// Key is what the suite configures providers with; it must never be told.
const Key = "sk-secret-1234567890abcdef"

// Idle is the idle limit that the suite asks providers to be made with.
const Idle = 300 * time.Millisecond

// NewProvider makes the provider under test against a server.
type NewProvider func(baseURL string) model.Provider

// TestProvider is the contract of providers behind HTTP.
func TestProvider(t *testing.T, d Dialect, make NewProvider) {
	t.Run("answers", func(t *testing.T) { testAnswers(t, d, make) })
	t.Run("endings", func(t *testing.T) { testEndings(t, d, make) })
	t.Run("problems", func(t *testing.T) { testProblems(t, d, make) })
	t.Run("streams that break", func(t *testing.T) { testBroken(t, d, make) })
	t.Run("odd servers", func(t *testing.T) { testOdd(t, d, make) })
	t.Run("cancelled", func(t *testing.T) { testCancelled(t, d, make) })
}

// Ask is a request as an agent makes it.
func Ask() model.Request {
	return model.Request{
		Model: "test-model", System: "You are a test.", MaxTokens: 1000, Window: 100000,
		Messages: []model.Message{{Role: model.User, Blocks: []model.Block{{Kind: model.Text, Text: "Go."}}}},
		Tools: []model.Tool{{
			Name: "run", Description: "Runs.",
			Schema: json.RawMessage(`{"type":"object","properties":{"command":{"type":"string"}},"required":["command"],"additionalProperties":false}`),
		}},
	}
}

func stream(t *testing.T, p model.Provider, req model.Request) (model.Response, string, error) {
	t.Helper()
	var text strings.Builder
	resp, err := p.Stream(t.Context(), req, func(d model.Delta) {
		if d.Kind == model.Text {
			text.WriteString(d.Text)
		}
	})
	if err != nil && strings.Contains(err.Error(), Key) {
		t.Errorf("the key is in the error: %v", err)
	}
	return resp, text.String(), err
}

func fault(t *testing.T, err error) *model.Fault {
	t.Helper()
	f, ok := errors.AsType[*model.Fault](err)
	if !ok {
		t.Fatalf("got %v, want a fault", err)
	}
	return f
}

func use(call, command string) model.Block {
	raw, _ := json.Marshal(map[string]string{"command": command})
	return model.Block{Kind: model.ToolUse, Call: call, Tool: "run", Input: raw}
}

func say(s string) model.Block { return model.Block{Kind: model.Text, Text: s} }

var counted = core.Usage{Input: 100, CacheRead: 2000, CacheWrite: 30, Output: 40}

func testAnswers(t *testing.T, d Dialect, make NewProvider) {
	text := "Hello, wörld: a \"quoted\" line\nand another. 🙂"
	for name, tt := range map[string]struct {
		outcome model.Outcome
		blocks  []model.Block
	}{
		"text":           {model.EndTurn, []model.Block{say(text)}},
		"one call":       {model.WantsTools, []model.Block{say("I look."), use("c1", "ls -l \"a b\"")}},
		"parallel calls": {model.WantsTools, []model.Block{use("c1", "ls"), use("c2", "pwd"), use("c3", "id")}},
		"cut":            {model.MaxTokens, []model.Block{say(text)}},
	} {
		t.Run(name, func(t *testing.T) {
			usage := counted
			if tt.outcome == model.MaxTokens {
				usage.Output = 1000
			}
			srv := Serve(t, Step{Frames: d.Frames(tt.outcome, usage, tt.blocks...)})
			got, streamed, err := stream(t, make(srv.URL), Ask())
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.blocks, got.Blocks); diff != "" {
				t.Errorf("blocks (-want +got):\n%s", diff)
			}
			if got.Outcome != tt.outcome || got.Usage != usage || got.Model == "" {
				t.Errorf("outcome %s, usage %+v, model %q", got.Outcome, got.Usage, got.Model)
			}
			if tt.blocks[0].Kind == model.Text && streamed != tt.blocks[0].Text {
				t.Errorf("streamed %q", streamed)
			}
			if n := len(srv.Requests()); n != 1 {
				t.Errorf("%d requests", n)
			}
		})
	}
	t.Run("input that is no object", func(t *testing.T) {
		for _, bad := range []string{`{"command": "ls`, `["ls"]`, `"ls"`, `{"command":"ls"} and more`} {
			srv := Serve(t, Step{Frames: d.Frames(model.WantsTools, counted, model.Block{Kind: model.ToolUse, Call: "c1", Tool: "run", BadInput: bad})})
			got, _, err := stream(t, make(srv.URL), Ask())
			if err != nil {
				t.Fatal(err)
			}
			want := []model.Block{{Kind: model.ToolUse, Call: "c1", Tool: "run", Input: json.RawMessage(`{}`), BadInput: bad}}
			if diff := cmp.Diff(want, got.Blocks); diff != "" {
				t.Errorf("blocks (-want +got):\n%s", diff)
			}
			if _, err := json.Marshal(got); err != nil {
				t.Errorf("the answer cannot be stored: %v", err)
			}
		}
	})
}

func testEndings(t *testing.T, d Dialect, make NewProvider) {
	for _, o := range []model.Outcome{model.Refused, model.ContextOverflow, model.Empty} {
		t.Run(string(o), func(t *testing.T) {
			var blocks []model.Block
			usage := counted
			if o == model.ContextOverflow {
				blocks = []model.Block{say("half of")}
				usage.Input = 99000 - usage.CacheRead
			}
			srv := Serve(t, Step{Frames: d.Frames(o, usage, blocks...)})
			got, _, err := stream(t, make(srv.URL), Ask())
			if f := fault(t, err); f.Outcome != o {
				t.Fatalf("got %s, want %s", f.Outcome, o)
			}
			if got.Usage != usage {
				t.Errorf("usage %+v: what was refused or cut is paid for", got.Usage)
			}
		})
	}
}

func testProblems(t *testing.T, d Dialect, make NewProvider) {
	for _, o := range []model.Outcome{model.Overloaded, model.RateLimited, model.ContextOverflow, model.Rejected, model.Unreachable} {
		t.Run(string(o), func(t *testing.T) {
			srv := Serve(t, d.Problem(o))
			_, _, err := stream(t, make(srv.URL), Ask())
			f := fault(t, err)
			if f.Outcome != o || f.Status != d.Problem(o).Status || f.Message == "" {
				t.Fatalf("got %+v, want %s", f, o)
			}
			if again := o == model.Overloaded || o == model.RateLimited || o == model.Unreachable; f.Again() != again {
				t.Errorf("may be tried again: %v", f.Again())
			}
			if n := len(srv.Requests()); n != 1 {
				t.Errorf("%d requests: a provider does not retry", n)
			}
		})
	}
	t.Run("headers", func(t *testing.T) {
		for name, tt := range map[string]struct {
			header map[string]string
			low    time.Duration
			high   time.Duration
			again  bool
		}{
			"milliseconds": {map[string]string{"Retry-After-Ms": "1500", "Retry-After": "9"}, 1500 * time.Millisecond, 1500 * time.Millisecond, true},
			"seconds":      {map[string]string{"Retry-After": "2.5"}, 2500 * time.Millisecond, 2500 * time.Millisecond, true},
			"date":         {map[string]string{"Retry-After": time.Now().Add(time.Minute).UTC().Format("Mon, 02 Jan 2006 15:04:05 GMT")}, 50 * time.Second, time.Minute, true},
			"not again":    {map[string]string{"X-Should-Retry": "false", "Retry-After": "1"}, time.Second, time.Second, false},
			"nonsense":     {map[string]string{"Retry-After": "soon"}, 0, 0, true},
		} {
			t.Run(name, func(t *testing.T) {
				step := d.Problem(model.RateLimited)
				step.Header = tt.header
				_, _, err := stream(t, make(Serve(t, step).URL), Ask())
				if f := fault(t, err); f.After < tt.low || f.After > tt.high || f.Again() != tt.again {
					t.Errorf("after %s, again %v", f.After, f.Again())
				}
			})
		}
		step := d.Problem(model.Rejected)
		step.Header = map[string]string{"X-Should-Retry": "true"}
		_, _, err := stream(t, make(Serve(t, step).URL), Ask())
		if !fault(t, err).Again() {
			t.Error("the provider said it may be tried again")
		}
	})
	t.Run("key", func(t *testing.T) {
		srv := Serve(t, Step{Status: 401, Body: `{"error":{"type":"authentication_error","message":"Incorrect API key provided: ` + Key + `"}}`})
		_, _, err := stream(t, make(srv.URL), Ask())
		if f := fault(t, err); f.Outcome != model.Rejected || f.Again() {
			t.Fatalf("got %+v", f)
		}
		srv = Serve(t, Step{Status: 400, Body: `{"error":{"type":"x","message":"you sent ` + Key + `"}}`})
		_, _, err = stream(t, make(srv.URL), Ask())
		if fault(t, err).Outcome != model.Rejected {
			t.Fatalf("got %v", err)
		}
	})
}

func testBroken(t *testing.T, d Dialect, make NewProvider) {
	whole := d.Frames(model.EndTurn, counted, say("a long text that goes on and on"))
	for name, tt := range map[string]struct {
		step Step
		want model.Outcome
	}{
		"no last event":       {Step{Frames: whole[:len(whole)-d.Last()]}, model.Truncated},
		"connection breaks":   {Step{Frames: whole[:4], Abort: true}, model.Truncated},
		"falls silent":        {Step{Frames: whole[:4], Hang: true}, model.Truncated},
		"never begins":        {Step{Frames: []string{}, Hang: true}, model.Unreachable},
		"breaks at once":      {Step{Frames: []string{}, Abort: true}, model.Unreachable},
		"error in the stream": {Step{Frames: append(append([]string{}, whole[:4]...), d.Broken(model.Overloaded))}, model.Overloaded},
		"server error in it":  {Step{Frames: append(append([]string{}, whole[:4]...), d.Broken(model.Unreachable))}, model.Unreachable},
		"frame is no JSON":    {Step{Frames: append(append([]string{}, whole[:4]...), "event: message_delta\ndata: {\"type\"\n\n")}, model.Truncated},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, err := stream(t, make(Serve(t, tt.step).URL), Ask())
			f := fault(t, err)
			if f.Outcome != tt.want {
				t.Fatalf("got %v, want %s", f, tt.want)
			}
			if !f.Again() {
				t.Error("it may be tried again")
			}
		})
	}
	t.Run("slow but steady", func(t *testing.T) {
		_, text, err := stream(t, make(Serve(t, Step{Frames: whole, Pause: Idle / 5}).URL), Ask())
		if err != nil || text != "a long text that goes on and on" {
			t.Fatalf("got %q, %v", text, err)
		}
	})
}

func testOdd(t *testing.T, d Dialect, make NewProvider) {
	html := map[string]string{"Content-Type": "text/html"}
	for name, tt := range map[string]struct {
		step  Step
		want  model.Outcome
		again bool
	}{
		"bad gateway of a proxy":  {Step{Status: 502, Header: html, Body: "<html>Bad Gateway</html>"}, model.Unreachable, true},
		"busy proxy":              {Step{Status: 503, Header: html, Body: "<html>busy</html>"}, model.Overloaded, true},
		"page in place of events": {Step{Header: html, Body: "<html>Sign in</html>"}, model.Rejected, false},
		"redirect":                {Step{Status: 302, Header: map[string]string{"Location": "http://127.0.0.1:1/"}}, model.Rejected, false},
		"error as a text":         {Step{Status: 400, Body: `{"error":"no such model"}`}, model.Rejected, false},
		"empty body":              {Step{Status: 404}, model.Rejected, false},
		"too large":               {Step{Status: 413, Body: "x"}, model.ContextOverflow, false},
		"quota":                   {Step{Status: 429, Body: `{"error":{"code":"insufficient_quota","message":"You exceeded your current quota"}}`}, model.Rejected, false},
		"server's own words":      {Step{Status: 400, Body: `{"object":"error","message":"This model's maximum context length is 4096 tokens. However, you requested 9000","code":400}`}, model.ContextOverflow, false},
		"server's own status":     {Step{Status: 500, Body: `{"error":{"code":500,"message":"the request exceeds the available context size","type":"exceed_context_size_error"}}`}, model.ContextOverflow, false},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, err := stream(t, make(Serve(t, tt.step).URL), Ask())
			if f := fault(t, err); f.Outcome != tt.want || f.Again() != tt.again {
				t.Fatalf("got %v (again %v), want %s", f, f.Again(), tt.want)
			}
		})
	}
	t.Run("nobody there", func(t *testing.T) {
		_, _, err := stream(t, make("http://127.0.0.1:1"), Ask())
		if f := fault(t, err); f.Outcome != model.Unreachable || !f.Again() {
			t.Fatalf("got %v", f)
		}
	})
}

func testCancelled(t *testing.T, d Dialect, make NewProvider) {
	whole := d.Frames(model.EndTurn, counted, say("a long text"))
	srv := Serve(t, Step{Frames: whole[:4], Hang: true})
	reason := errors.New("a person stopped it")
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	_, err := make(srv.URL).Stream(ctx, Ask(), func(model.Delta) { cancel(reason) })
	if !errors.Is(err, reason) {
		t.Fatalf("got %v, want the cause", err)
	}
}
