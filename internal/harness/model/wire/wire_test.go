package wire_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"drydock/internal/harness/model"
	"drydock/internal/harness/model/wire"
)

// FuzzFault feeds error bodies: whatever a server says, the fault has a name,
// a bounded message, and no key.
func FuzzFault(f *testing.F) {
	for _, s := range []string{
		`{"error":{"type":"overloaded_error","message":"Overloaded"}}`, `{"error":"x"}`, `{"error":{"code":500,"message":["a"]}}`,
		`{"detail":[{"msg":"x"}]}`, `[]`, `null`, `{"error":{"details":{"error_code":"credits_required"}}}`, "the key sk-test-key is wrong",
	} {
		f.Add(s, 400)
		f.Add(s, 529)
	}
	const key = "sk-test-key"
	f.Fuzz(func(t *testing.T, body string, status int) {
		if status < 300 || status > 999 {
			return
		}
		_, x := wire.Begin(t.Context(), wire.Options{Secret: key})
		defer x.End()
		rec := httptest.NewRecorder()
		rec.Code = status
		rec.Body.WriteString(body)
		_, err := x.Middleware(httptest.NewRequest(http.MethodPost, "/", nil), func(*http.Request) (*http.Response, error) { return rec.Result(), nil })
		got := x.Fault(t.Context(), err)
		if model.OutcomeOf(got) == "" || len(got.Error()) > 700 || strings.Contains(got.Error(), key) {
			t.Fatalf("status %d: %v", status, got)
		}
		if inner := x.StreamError([]byte(body)); model.OutcomeOf(inner) == "" {
			t.Fatalf("in a stream: %v", inner)
		}
	})
}

func FuzzObject(f *testing.F) {
	for _, s := range []string{``, `{}`, `{"a":1}`, `{"a":`, `[]`, `null`, `{"a":1}{"b":2}`, "{\"a\":\"\x00\"}"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		input, bad := wire.Object(s)
		var v map[string]any
		if err := json.Unmarshal(input, &v); err != nil {
			t.Fatalf("%q became %s: %v", s, input, err)
		}
		if bad != "" && bad != s {
			t.Fatalf("%q is told as %q", s, bad)
		}
	})
}
