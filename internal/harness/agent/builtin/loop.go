package builtin

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"drydock/internal/core"
	"drydock/internal/harness/agent"
	"drydock/internal/harness/model"
	"drydock/internal/harness/tool"
)

// work is one call of Work.
type work struct {
	agent     *Agent
	task      agent.Task
	sink      agent.Sink
	memory    agent.Transcript
	tools     Tools
	st        *state
	overflows int // answers of the model that the context is too large, in a row
}

// append makes an entry durable together with its events, then counts it.
func (w *work) append(ctx context.Context, e entry, events ...core.Event) error {
	raw, err := json.Marshal(e)
	if err != nil {
		return core.E("agent.append", core.Internal, err, "a transcript entry of kind %s cannot be written", e.Kind)
	}
	for i := range events {
		events[i].Run, events[i].Node, events[i].Attempt = w.task.Run, w.task.Node, w.task.Attempt
		if events[i].Actor == "" {
			events[i].Actor = "agent"
		}
	}
	if err := w.memory.Append(ctx, w.task, raw, events...); err != nil {
		return err
	}
	if w.st != nil {
		w.st.add(e)
	}
	return nil
}

func (w *work) begin(ctx context.Context) error {
	s := &startEntry{Version: formatVersion, Attempt: w.task.Attempt, System: systemPrompt, First: first(w.task)}
	if err := w.append(ctx, entry{Kind: kindStart, Start: s}); err != nil {
		return err
	}
	w.st = &state{id: string(s.Attempt), system: s.System, first: s.First, began: map[string]bool{}, prints: map[string]fingerprint{}}
	return nil
}

func (w *work) maxTurns() int {
	if w.task.MaxTurns > 0 {
		return w.task.MaxTurns
	}
	return w.agent.opts.MaxTurns
}

func (w *work) maxTokens() int {
	n := w.agent.opts.MaxTokens
	if w.task.MaxTokens > 0 {
		n = w.task.MaxTokens
	}
	if _, output, known := w.agent.deps.Model.Limits(w.task.Model); known && output > 0 {
		n = min(n, output)
	}
	return n
}

// loop goes on from wherever the transcript stands.
func (w *work) loop(ctx context.Context) (agent.Result, error) {
	for {
		if n := len(w.st.turns); n > 0 {
			if err := w.callTools(ctx, n-1); err != nil {
				return agent.Result{}, err
			}
			if r, done := w.finished(); done {
				return w.end(ctx, r)
			}
			r, done, err := w.judge(ctx)
			if err != nil {
				return agent.Result{}, err
			}
			if done {
				return w.end(ctx, r)
			}
		}
		if ctx.Err() != nil {
			return agent.Result{}, context.Cause(ctx)
		}
		if len(w.st.turns) >= w.maxTurns() {
			r := w.result(agent.OutOfTurns)
			r.Detail = fmt.Sprintf("%d turns were used", len(w.st.turns))
			return w.end(ctx, r)
		}
		if err := w.makeRoom(ctx); err != nil {
			return agent.Result{}, err
		}
		r, done, err := w.ask(ctx)
		if err != nil {
			return agent.Result{}, err
		}
		if done {
			return r, nil
		}
	}
}

// ask makes one request. done is true when the model failed for good.
func (w *work) ask(ctx context.Context) (_ agent.Result, done bool, _ error) {
	req := model.Request{
		Model: w.task.Model, System: w.st.system, Messages: w.st.messages(), Tools: w.tools.Offer(),
		MaxTokens: w.maxTokens(), Effort: w.agent.opts.Effort, Seed: w.task.Seed,
	}
	resp, err := w.agent.deps.Model.Complete(ctx, w.caller(), req, w.delta)
	if ctx.Err() != nil {
		return agent.Result{}, false, context.Cause(ctx)
	}
	outcome := model.OutcomeOf(err)
	switch {
	case err == nil:
		w.overflows = 0
		return agent.Result{}, false, w.answered(ctx, resp)
	case outcome == "":
		return agent.Result{}, false, err
	case outcome == model.Empty:
		// Silence is an answer: it is remembered, so that it is nudged once.
		return agent.Result{}, false, w.answered(ctx, model.Response{Outcome: model.Empty, Usage: resp.Usage, Cost: resp.Cost})
	case outcome == model.ContextOverflow && w.overflows < 2:
		w.overflows++
		w.st.usage, w.st.cost = w.st.usage.Add(resp.Usage), w.st.cost.Add(resp.Cost)
		return agent.Result{}, false, w.shorten(ctx, w.overflows)
	}
	r := w.result(agent.ModelFailed)
	r.Outcome, r.Detail = outcome, err.Error()
	r.Usage, r.Cost = r.Usage.Add(resp.Usage), r.Cost.Add(resp.Cost)
	if outcome.Passing() {
		return r, true, nil
	}
	r, err = w.end(ctx, r)
	return r, true, err
}

func (w *work) caller() model.Caller {
	return model.Caller{Session: w.task.Session, Prompt: w.task.Prompt, Run: w.task.Run, Attempt: w.task.Attempt}
}

func (w *work) delta(d model.Delta) {
	if d.Kind == model.Text {
		w.sink.Delta(d.Text)
	}
}

func (w *work) answered(ctx context.Context, resp model.Response) error {
	var events []core.Event
	seen := map[string]bool{}
	for i := range resp.Blocks {
		b := &resp.Blocks[i]
		switch b.Kind {
		case model.Thinking:
			if strings.TrimSpace(b.Text) != "" {
				events = append(events, core.NewEvent(core.EventAgentThought, core.TextData{Text: b.Text}))
			}
		case model.Text:
			if strings.TrimSpace(b.Text) != "" {
				events = append(events, core.NewEvent(core.EventAgentText, core.TextData{Text: b.Text}))
			}
		case model.ToolUse:
			if b.Call == "" || seen[b.Call] { // results are told apart by it
				b.Call = fmt.Sprintf("call_%d_%d", len(w.st.turns), i)
			}
			seen[b.Call] = true
		}
	}
	return w.append(ctx, entry{Kind: kindAnswer, Answer: &answerEntry{
		Blocks: resp.Blocks, Outcome: resp.Outcome, Usage: resp.Usage, Cost: resp.Cost,
	}}, events...)
}

// callTools does the calls of the last answer that have no result yet, in
// order.
func (w *work) callTools(ctx context.Context, n int) error {
	over := false
	for _, c := range w.st.turns[n].calls() {
		if r, ok := w.st.turns[n].results[c.Call]; ok {
			over = over || r.Finish != nil
			continue
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if over {
			if err := w.told(ctx, c, "not done: the work was finished before this call"); err != nil {
				return err
			}
			continue
		}
		if c.Tool == "finish" && w.anyFailed(n) {
			if err := w.told(ctx, c, "not finished: another call of the same answer failed. Look at its result, then finish"); err != nil {
				return err
			}
			continue
		}
		res, err := w.call(ctx, n, c)
		if err != nil {
			return err
		}
		over = res.Finish != nil
	}
	return nil
}

func (w *work) anyFailed(n int) bool {
	for _, r := range w.st.turns[n].results {
		if r.Block.Failed {
			return true
		}
	}
	return false
}

// told answers a call without doing it.
func (w *work) told(ctx context.Context, c model.Block, text string) error {
	b := model.Block{Kind: model.ToolResult, Call: c.Call, Failed: true, Content: []model.Block{textBlock(text)}}
	return w.append(ctx, entry{Kind: kindResult, Result: &resultEntry{Block: b}})
}

func (w *work) call(ctx context.Context, n int, c model.Block) (tool.Result, error) {
	key := fmt.Sprintf("%s/%d/%s", w.st.id, n, c.Call)
	title := w.tools.Title(c.Tool, c.Input)
	again := w.st.began[key]
	if !again {
		e := core.NewEvent(core.EventToolStarted, core.ToolData{Call: key, Tool: c.Tool, Title: title, Input: shownInput(c)})
		if err := w.append(ctx, entry{Kind: kindBegan, Began: key}, e); err != nil {
			return tool.Result{}, err
		}
	}
	began := time.Now()
	res, err := w.tools.Do(ctx, tool.Call{ID: c.Call, Key: key, Again: again, Name: c.Tool, Input: c.Input, Bad: c.BadInput})
	if err != nil {
		return res, err
	}
	output, cut := shownOutput(res.Output)
	events := []core.Event{core.NewEvent(core.EventToolFinished, core.ToolData{
		Call: key, Tool: c.Tool, Title: title, Output: output, Cut: res.Cut || cut, Failed: res.Failed,
		ExitCode: res.ExitCode, Duration: time.Since(began),
	})}
	if res.Picture != nil {
		events = append(events, core.NewEvent(core.EventPicture, *res.Picture))
	}
	b := model.Block{Kind: model.ToolResult, Call: c.Call, Failed: res.Failed, Content: res.Content}
	return res, w.append(ctx, entry{Kind: kindResult, Result: &resultEntry{Block: b, Wrote: res.Wrote, Finish: res.Finish}}, events...)
}

// Events are for people; the transcript has the whole.
const maxShown = 8 << 10

func shownOutput(s string) (string, bool) {
	if len(s) <= maxShown {
		return s, false
	}
	return strings.ToValidUTF8(s[:maxShown/4], "") + "\n[...]\n" + strings.ToValidUTF8(s[len(s)-maxShown*3/4:], ""), true
}

func shownInput(c model.Block) json.RawMessage {
	if len(c.Input) <= maxShown {
		return c.Input
	}
	raw, _ := json.Marshal(map[string]string{"cut": clip(string(c.Input), maxShown)}) // strings only
	return raw
}

// finished maps the verdict that the model gave.
func (w *work) finished() (agent.Result, bool) {
	for _, r := range w.st.turns[len(w.st.turns)-1].results {
		if r.Finish == nil {
			continue
		}
		ending := agent.Finished
		switch r.Finish.Verdict {
		case "cannot":
			ending = agent.GaveUp
		case "answer":
			ending = agent.Answered
		}
		out := w.result(ending)
		out.Summary, out.Claims = r.Finish.Summary, r.Finish.Claims
		return out, true
	}
	return agent.Result{}, false
}

func (w *work) result(ending agent.Ending) agent.Result {
	r := agent.Result{Ending: ending}
	if w.st != nil {
		r.Turns, r.Usage, r.Cost = len(w.st.turns), w.st.usage, w.st.cost
		if n := len(w.st.turns); n > 0 {
			r.Summary = strings.TrimSpace(w.st.turns[n-1].text())
		}
	}
	return r
}

func (w *work) end(ctx context.Context, r agent.Result) (agent.Result, error) {
	return r, w.append(ctx, entry{Kind: kindEnd, End: &r})
}

func (w *work) note(ctx context.Context, format string, args ...any) error {
	return w.append(ctx, entry{Kind: kindNote, Note: fmt.Sprintf(format, args...)})
}
