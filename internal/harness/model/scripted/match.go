package scripted

import (
	"encoding/json"
	"fmt"
	"strings"

	"drydock/internal/harness/model"
)

const signaturePrefix = "scripted:"

// state travels in the conversation.
type state struct {
	Script string            `json:"s"`
	Answer int               `json:"n"` // index of the last answer given
	Count  int               `json:"c"` // answers given
	Loops  map[string]int    `json:"l,omitempty"`
	Vars   map[string]string `json:"v,omitempty"`
}

func (s state) sign() string {
	raw, _ := json.Marshal(s) // strings and numbers only
	return signaturePrefix + string(raw)
}

// conversation is what a request holds, as conditions look at it.
type conversation struct {
	system    string
	first     string // first message
	prompt    string // the task in it
	signature string // state after the last answer
	results   []result
	note      string // text after the last answer
	bytes     int
	last      int // bytes of the last message
}

type result struct {
	tool   string
	text   string
	failed bool
	image  bool
}

func read(req model.Request) conversation {
	c := conversation{system: req.System, bytes: len(req.System)}
	tools := map[string]string{}
	since := 0
	for i, m := range req.Messages {
		c.last = size(m.Blocks)
		c.bytes += c.last
		for _, b := range m.Blocks {
			switch {
			case m.Role == model.Assistant && b.Kind == model.ToolUse:
				tools[b.Call] = b.Tool
			case m.Role == model.Assistant && b.Kind == model.Thinking && b.Signature != "":
				c.signature = b.Signature
			case i == 0 && b.Kind == model.Text:
				c.first += b.Text
			}
		}
		if m.Role == model.Assistant {
			since = i + 1
		}
	}
	c.prompt = task(c.first)
	for i, m := range req.Messages[since:] {
		for _, b := range m.Blocks {
			switch b.Kind {
			case model.ToolResult:
				r := result{tool: tools[b.Call], failed: b.Failed}
				for _, x := range b.Content {
					r.text += x.Text
					r.image = r.image || x.Kind == model.Image
				}
				c.results = append(c.results, r)
			case model.Text:
				if i+since > 0 {
					c.note += b.Text + "\n"
				}
			}
		}
	}
	return c
}

func size(blocks []model.Block) int {
	n := 0
	for _, b := range blocks {
		n += len(b.Text) + len(b.Input) + len(b.Data) + size(b.Content)
	}
	return n
}

// task is what stands between <task> and </task>, else everything.
func task(first string) string {
	_, rest, ok := strings.Cut(first, "<task>")
	if !ok {
		return first
	}
	inner, _, ok := strings.Cut(rest, "</task>")
	if !ok {
		return first
	}
	return strings.TrimSpace(inner)
}

func (c conversation) resultText() string {
	var b strings.Builder
	for _, r := range c.results {
		b.WriteString(r.text)
		b.WriteByte('\n')
	}
	return b.String()
}

// got shows what the agent sent, for a person who compares.
func (c conversation) got() string {
	var b strings.Builder
	for _, r := range c.results {
		fmt.Fprintf(&b, "result of %s (failed=%v, image=%v):\n%s\n", r.tool, r.failed, r.image, clip(r.text, 1500))
	}
	if c.note != "" {
		fmt.Fprintf(&b, "note:\n%s\n", clip(c.note, 500))
	}
	if b.Len() == 0 {
		return "neither result nor note"
	}
	return strings.TrimRight(b.String(), "\n")
}

// unmet is "" when every condition holds, else the first that does not, with
// what was there instead.
func unmet(list []Expect, c conversation, vars map[string]string) string {
	for _, e := range list {
		if !e.holds(c, vars) {
			return fmt.Sprintf("expected %s\ngot:\n%s", e, c.view(e.In))
		}
	}
	return ""
}

func (c conversation) view(in string) string {
	switch in {
	case "prompt":
		return clip(c.prompt, 1000)
	case "message":
		return clip(c.first, 2000)
	case "system":
		return clip(c.system, 2000)
	}
	return c.got()
}

func (e Expect) holds(c conversation, vars map[string]string) bool {
	t := &Text{Contains: expandAll(e.Contains, vars), NotContains: expandAll(e.NotContains, vars), Regex: e.Regex}
	switch e.In {
	case "note":
		return c.note != "" && t.holds(c.note)
	case "prompt":
		return t.holds(c.prompt)
	case "message":
		return t.holds(c.first)
	case "system":
		return t.holds(c.system)
	}
	for _, r := range c.results {
		if (e.Tool == "" || e.Tool == r.tool) && (e.Failed == nil || *e.Failed == r.failed) &&
			(e.Image == nil || *e.Image == r.image) && t.holds(r.text) {
			return true
		}
	}
	return false
}

func (t *Text) holds(s string) bool {
	if t == nil {
		return true
	}
	for _, w := range t.Contains {
		if !strings.Contains(s, w) {
			return false
		}
	}
	for _, w := range t.NotContains {
		if strings.Contains(s, w) {
			return false
		}
	}
	return t.Regex == nil || t.Regex.MatchString(s)
}

func expand(s string, vars map[string]string) string {
	return variable.ReplaceAllStringFunc(s, func(m string) string {
		if v, ok := vars[m[2:len(m)-1]]; ok {
			return v
		}
		return m
	})
}

func expandAll(list []string, vars map[string]string) []string {
	out := make([]string, len(list))
	for i, s := range list {
		out[i] = expand(s, vars)
	}
	return out
}

func expandAny(v any, vars map[string]string) any {
	switch v := v.(type) {
	case string:
		return expand(v, vars)
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = expandAny(v[i], vars)
		}
		return out
	case map[string]any:
		if v == nil {
			return nil
		}
		out := make(map[string]any, len(v))
		for k := range v {
			out[k] = expandAny(v[k], vars)
		}
		return out
	}
	return v
}

func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n/2], "") + "\n[...]\n" + strings.ToValidUTF8(s[len(s)-n/2:], "")
}
