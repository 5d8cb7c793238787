package wire

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"drydock/internal/harness/model"
)

// problem is an error body in any of the shapes seen in the field:
// {"error":{"type","message","code"}}, {"error":"text"}, {"message","code"},
// {"detail":...}, and plain text.
type problem struct {
	kind    string
	code    string
	message string
}

func parse(raw []byte) problem {
	var doc map[string]any
	if json.Unmarshal(raw, &doc) != nil {
		return problem{message: string(raw)}
	}
	var p problem
	switch inner := doc["error"].(type) {
	case map[string]any:
		p.kind, p.code, p.message = word(inner["type"]), word(inner["code"]), word(inner["message"])
		if details, ok := inner["details"].(map[string]any); ok && p.code == "" {
			p.code = word(details["error_code"])
		}
	case string:
		p.message = inner
	default:
		p.kind, p.code, p.message = word(doc["type"]), word(doc["code"]), word(doc["message"])
		if p.message == "" {
			p.message = word(doc["detail"])
		}
	}
	return p
}

func word(v any) string {
	switch v := v.(type) {
	case nil:
		return ""
	case string:
		return v
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64)
	}
	out, _ := json.Marshal(v)
	return string(out)
}

// overflowWords appear in the messages of servers that have no code for it.
var overflowWords = []string{
	"prompt is too long", "maximum context length", "context window", "context length",
	"exceed context limit", "exceeds the available context size", "input is too long",
	"request too large", "request_too_large", "too many tokens", "reduce the length of the messages",
}

func (p problem) overflow(status int) bool {
	switch p.code {
	case "context_length_exceeded", "string_above_max_length", "exceed_context_size_error", "request_too_large":
		return true
	}
	switch p.kind {
	case "exceed_context_size_error", "request_too_large":
		return true
	}
	switch status {
	case 0, http.StatusBadRequest, http.StatusRequestEntityTooLarge, http.StatusUnprocessableEntity,
		http.StatusTooManyRequests, http.StatusInternalServerError:
	default:
		return false
	}
	text := strings.ToLower(p.message)
	for _, w := range overflowWords {
		if strings.Contains(text, w) {
			return true
		}
	}
	return status == http.StatusRequestEntityTooLarge
}

// terminal faults wear a status that otherwise means "later".
func (p problem) terminal() bool {
	switch p.code {
	case "insufficient_quota", "billing_hard_limit_reached", "credits_required":
		return true
	}
	return p.kind == "insufficient_quota" || p.kind == "billing_error"
}

func (p problem) outcome(status int) model.Outcome {
	switch {
	case p.overflow(status):
		return model.ContextOverflow
	case p.terminal():
		return model.Rejected
	case p.kind == "overloaded_error" || status == 529 || status == http.StatusServiceUnavailable:
		return model.Overloaded
	case p.kind == "rate_limit_error" || p.kind == "rate_limit_exceeded" || p.code == "rate_limit_exceeded" || status == http.StatusTooManyRequests:
		return model.RateLimited
	case p.code == "content_filter" || p.code == "content_policy_violation":
		return model.Refused
	case status >= 500 || status == http.StatusRequestTimeout || status == http.StatusConflict || status == http.StatusTooEarly:
		return model.Unreachable
	case status >= 300:
		return model.Rejected
	case p.kind == "invalid_request_error" || p.kind == "authentication_error" || p.kind == "permission_error" || p.kind == "not_found_error":
		return model.Rejected
	}
	return model.Unreachable // an error inside a stream: the server's own fault
}

// retryAfter reads retry-after-ms, then retry-after in seconds or as a date.
func retryAfter(h http.Header) time.Duration {
	if ms, err := strconv.ParseFloat(h.Get("Retry-After-Ms"), 64); err == nil && ms > 0 && ms < 1e9 {
		return time.Duration(ms * float64(time.Millisecond))
	}
	v := h.Get("Retry-After")
	if s, err := strconv.ParseFloat(v, 64); err == nil && s > 0 && s < 1e6 {
		return time.Duration(s * float64(time.Second))
	}
	if at, err := http.ParseTime(v); err == nil {
		return max(time.Until(at), 0)
	}
	return 0
}

// Object turns what a model wrote as a tool's input into a JSON object. What
// is none is returned as bad, with an empty object in its place.
func Object(text string) (input json.RawMessage, bad string) {
	if strings.TrimSpace(text) == "" {
		return json.RawMessage(`{}`), ""
	}
	var v map[string]json.RawMessage
	if err := json.Unmarshal([]byte(text), &v); err != nil || v == nil {
		return json.RawMessage(`{}`), text
	}
	return json.RawMessage(text), ""
}

// Problem tells what a rejected request was told, for providers that can word
// the request differently.
func (x *Exchange) Problem() (status int, message string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.status < 300 {
		return x.status, ""
	}
	p := parse(x.errBody)
	return x.status, fmt.Sprintf("%s %s %s", p.kind, p.code, p.message)
}
