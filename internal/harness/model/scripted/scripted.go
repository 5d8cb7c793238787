// Package scripted is a provider without a model: it answers from a YAML file
// of turns, checks what the agent sent, and says so when that is not what the
// script expects. Demos and tests run on it; everything that shows its answers
// labels them "scripted".
//
// It keeps no state. Where a conversation stands (script, turn, captured
// variables) travels in it, as the signature of a thinking block, which an
// agent passes back unchanged as it does with a real model. So it survives the
// death of the daemon, and any number of sessions may use it at once.
//
// What it does not do: understand anything. docs/formats/scripted.md describes
// the file.
//
//	file, err := scripted.Parse("demo.yaml", data)
//	p := scripted.New(file)
//	resp, err := p.Stream(ctx, req, onDelta)
package scripted

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"drydock/internal/core"
	"drydock/internal/harness/model"
)

// Provider implements model.Provider.
type Provider struct{ scripts []*Script }

// New makes a Provider of all scripts in the files; of several that fit a
// task, the first answers.
func New(files ...*File) *Provider {
	p := &Provider{}
	for _, f := range files {
		p.scripts = append(p.scripts, f.Scripts...)
	}
	return p
}

// Scripted implements model.Labelled.
func (*Provider) Scripted() bool { return true }

// Seeded implements model.Seeded.
func (*Provider) Seeded() bool { return true }

// Stream implements model.Provider.
func (p *Provider) Stream(ctx context.Context, req model.Request, onDelta func(model.Delta)) (model.Response, error) {
	conv := read(req)
	st, err := p.locate(req.Model, req.Seed, conv)
	if len(req.Tools) == 0 {
		return summary(p.script(st.Script), conv), nil
	}
	if err != nil {
		return model.Response{}, err
	}
	s := p.script(st.Script)
	n, err := next(s, &st, conv)
	if err != nil {
		return model.Response{}, err
	}
	a := s.Answers[n]
	at := fmt.Sprintf("script %q, answer %d%s", s.Name, n+1, label(a))
	if err := pause(ctx, max(a.Delay.Duration, s.Delay.Duration)); err != nil {
		return model.Response{}, err
	}
	if err := check(at, a.Expect, conv, st.Vars); err != nil {
		return model.Response{}, err
	}
	if err := capture(at, a, conv, &st); err != nil {
		return model.Response{}, err
	}
	if err := simulate(a, req, conv, st.Vars, onDelta); err != nil {
		return model.Response{Usage: usage(s, a, conv, nil), Model: name(s)}, err
	}
	if err := offered(at, a, req.Tools); err != nil {
		return model.Response{}, err
	}
	return answer(ctx, s, a, n, st, conv, onDelta)
}

func label(a *Answer) string {
	if a.Label == "" {
		return ""
	}
	return " (" + a.Label + ")"
}

func name(s *Script) string { return "scripted:" + s.Name }

func (p *Provider) script(name string) *Script {
	for _, s := range p.scripts {
		if s.Name == name {
			return s
		}
	}
	return nil
}

// locate finds where the conversation stands, or the script that begins it.
func (p *Provider) locate(modelName string, seed int64, c conversation) (state, error) {
	if c.signature != "" {
		var st state
		raw, ok := strings.CutPrefix(c.signature, signaturePrefix)
		if !ok || json.Unmarshal([]byte(raw), &st) != nil || p.script(st.Script) == nil {
			return st, mismatch("the conversation was begun by another model or by a script that is gone: %s", clip(c.signature, 100))
		}
		if s := p.script(st.Script); st.Answer < -1 || st.Answer >= len(s.Answers) {
			return st, mismatch("script %q has become shorter than the conversation", st.Script)
		}
		return st, nil
	}
	for _, s := range p.scripts {
		if modelName != "" && modelName != s.Name {
			continue
		}
		if s.When.Seed != 0 && s.When.Seed != seed {
			continue
		}
		if s.When.Prompt.holds(c.prompt) && s.When.Message.holds(c.first) {
			return state{Script: s.Name, Answer: -1}, nil
		}
	}
	if modelName != "" && p.script(modelName) == nil {
		return state{}, &model.Fault{Outcome: model.Rejected, Message: fmt.Sprintf("there is no script %q", modelName), Retry: model.RetryNo}
	}
	return state{}, mismatch("no script answers to this prompt: %q", clip(c.prompt, 300))
}

// next is the answer that follows.
func next(s *Script, st *state, c conversation) (int, error) {
	n := st.Answer + 1
	if st.Answer >= 0 {
		if r := s.Answers[st.Answer].Repeat; r != nil && unmet(r.Until, c, st.Vars) != "" {
			key := fmt.Sprint(st.Answer)
			if st.Loops == nil {
				st.Loops = map[string]int{}
			}
			st.Loops[key]++
			if st.Loops[key] >= r.Max {
				return 0, mismatch("script %q, answer %d: repeated %d times, and still %s", s.Name, st.Answer+1, r.Max, unmet(r.Until, c, st.Vars))
			}
			n = st.Answer
			if r.From != "" {
				n = s.labels[r.From]
			}
		}
	}
	for n < len(s.Answers) && len(s.Answers[n].If) > 0 && unmet(s.Answers[n].If, c, st.Vars) != "" {
		n++
	}
	if n >= len(s.Answers) {
		return 0, mismatch("script %q is at its end after %d answers, and the agent asks again; it sent:\n%s", s.Name, len(s.Answers), c.got())
	}
	return n, nil
}

func check(at string, list []Expect, c conversation, vars map[string]string) error {
	if what := unmet(list, c, vars); what != "" {
		return mismatch("%s: %s", at, what)
	}
	return nil
}

func capture(at string, a *Answer, c conversation, st *state) error {
	for name, re := range a.Capture {
		m := re.FindStringSubmatch(c.resultText())
		if m == nil {
			return mismatch("%s: nothing to capture for ${%s}: expected a match of %q\ngot:\n%s", at, name, re.String(), c.got())
		}
		if st.Vars == nil {
			st.Vars = map[string]string{}
		}
		st.Vars[name] = m[len(m)-1]
		if len(st.Vars[name]) > 4096 {
			return mismatch("%s: what ${%s} captures is larger than 4096 bytes", at, name)
		}
	}
	return nil
}

// simulate fails as a provider would.
func simulate(a *Answer, req model.Request, c conversation, vars map[string]string, onDelta func(model.Delta)) error {
	f := a.Fault
	if f == nil || req.Attempt >= max(f.Times, 1) || f.Above > 0 && c.bytes <= f.Above {
		return nil
	}
	if f.Kind == "truncated" {
		half := expand(a.Say, vars)
		onDelta(model.Delta{Kind: model.Text, Text: strings.ToValidUTF8(half[:len(half)/2], "")})
	}
	return &model.Fault{Outcome: faults[f.Kind], Message: "simulated by the script", After: f.RetryAfter.Duration}
}

func offered(at string, a *Answer, tools []model.Tool) error {
	for _, call := range a.Calls {
		if !slices.ContainsFunc(tools, func(t model.Tool) bool { return t.Name == call.Tool }) {
			var names []string
			for _, t := range tools {
				names = append(names, t.Name)
			}
			return mismatch("%s: the script calls the tool %q; the agent offers %s", at, call.Tool, strings.Join(names, ", "))
		}
	}
	return nil
}

func answer(ctx context.Context, s *Script, a *Answer, n int, st state, c conversation, onDelta func(model.Delta)) (model.Response, error) {
	st.Answer, st.Count = n, st.Count+1
	think, say := expand(a.Think, st.Vars), expand(a.Say, st.Vars)
	if err := speak(ctx, model.Thinking, think, a.Pace.Duration, onDelta); err != nil {
		return model.Response{}, err
	}
	if err := speak(ctx, model.Text, say, a.Pace.Duration, onDelta); err != nil {
		return model.Response{}, err
	}
	resp := model.Response{Model: name(s), Outcome: model.EndTurn}
	resp.Blocks = append(resp.Blocks, model.Block{Kind: model.Thinking, Text: think, Signature: st.sign()})
	if say != "" {
		resp.Blocks = append(resp.Blocks, model.Block{Kind: model.Text, Text: say})
	}
	for i, call := range a.Calls {
		b := model.Block{Kind: model.ToolUse, Tool: call.Tool, Call: fmt.Sprintf("scripted_%d_%d", st.Count, i+1)}
		if call.Raw != "" {
			b.Input, b.BadInput = json.RawMessage(`{}`), call.Raw
		} else {
			b.Input, _ = json.Marshal(expandAny(call.Input, st.Vars)) // checked by Parse
			if string(b.Input) == "null" {
				b.Input = json.RawMessage(`{}`)
			}
		}
		resp.Blocks = append(resp.Blocks, b)
		resp.Outcome = model.WantsTools
	}
	if a.Stop != "" {
		resp.Outcome = model.MaxTokens
	}
	resp.Usage = usage(s, a, c, resp.Blocks)
	return resp, nil
}

// speak streams a text in pieces of a few words.
func speak(ctx context.Context, kind model.BlockKind, text string, pace time.Duration, onDelta func(model.Delta)) error {
	for len(text) > 0 {
		cut := len(text)
		if i := strings.IndexAny(text[min(16, len(text)):], " \n"); i >= 0 {
			cut = min(16, len(text)) + i + 1
		}
		onDelta(model.Delta{Kind: kind, Text: text[:cut]})
		text = text[cut:]
		if err := pause(ctx, pace); err != nil {
			return err
		}
	}
	return ctx.Err()
}

func pause(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return context.Cause(ctx)
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-t.C:
		return nil
	}
}

// summary answers a request without tools: an agent that shortens its memory.
func summary(s *Script, c conversation) model.Response {
	if s == nil {
		s = &Script{Name: "summary"}
	}
	text := s.Summary
	if text == "" {
		text = "Scripted summary: the work so far went as the script " + s.Name + " says."
	}
	blocks := []model.Block{{Kind: model.Text, Text: text}}
	return model.Response{Model: name(s), Outcome: model.EndTurn, Blocks: blocks, Usage: usage(s, &Answer{}, c, blocks)}
}

// usage is what the script says, else an estimate in which all but the last
// message came from a cache.
func usage(s *Script, a *Answer, c conversation, out []model.Block) core.Usage {
	u := a.Usage
	if u == nil {
		u = s.Usage
	}
	if u != nil {
		return core.Usage{Input: u.Input, CacheRead: u.CacheRead, CacheWrite: u.CacheWrite, Output: u.Output}
	}
	var size int
	for _, b := range out {
		size += len(b.Text) + len(b.Input)
	}
	return core.Usage{Input: int64(c.last/4 + 1), CacheRead: int64((c.bytes - c.last) / 4), Output: int64(size/4 + 1)}
}

func mismatch(format string, args ...any) error {
	return &model.Fault{Outcome: model.ScriptMismatch, Message: fmt.Sprintf(format, args...), Retry: model.RetryNo}
}

// IsMismatch reports whether err says that the agent left the script.
func IsMismatch(err error) bool {
	f, ok := errors.AsType[*model.Fault](err)
	return ok && f.Outcome == model.ScriptMismatch
}
