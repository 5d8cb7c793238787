package builtin

import (
	"context"
	"fmt"
	"strings"

	"drydock/internal/core"
	"drydock/internal/harness/model"
)

// Rough sizes: a token is about 3.5 bytes of code and English; a picture costs
// some 1600 tokens whatever its bytes.
const (
	bytesPerToken = 3.5
	imageTokens   = 1600
)

func tokens(blocks []model.Block) float64 {
	var n float64
	for _, b := range blocks {
		n += float64(len(b.Text)+len(b.Input)+len(b.BadInput)+len(b.Signature)+len(b.Redacted))/bytesPerToken + 8
		if b.Kind == model.Image {
			n += imageTokens
		}
		n += tokens(b.Content)
	}
	return n
}

// estimate says how many tokens the next request holds. What the provider
// counted for the last one is better than any guess, so only what came since
// is guessed, unless the memory was shortened since.
func (w *work) estimate() float64 {
	s := w.st
	if n := len(s.turns); n > 0 && n > s.compact.Drop && n > s.compact.CutBefore+w.agent.opts.KeepTurns {
		t := s.turns[n-1]
		u := t.answer.Usage
		if known := u.Input + u.CacheRead + u.CacheWrite; known > 0 {
			sum := float64(known + u.Output)
			for _, r := range t.results {
				sum += tokens([]model.Block{r.Block})
			}
			return sum
		}
	}
	return w.guess()
}

func (w *work) guess() float64 {
	sum := float64(len(w.st.system)) / bytesPerToken
	for _, m := range w.st.messages() {
		sum += tokens(m.Blocks)
	}
	for _, t := range w.tools.Offer() {
		sum += float64(len(t.Description)+len(t.Schema)) / bytesPerToken
	}
	return sum
}

// room is how many tokens a request may hold.
func (w *work) room() float64 {
	window, _, known := w.agent.deps.Model.Limits(w.task.Model)
	if !known || window <= 0 {
		window = w.agent.opts.Window
	}
	return float64(window - min(w.maxTokens(), window/3))
}

// makeRoom shortens the memory before the context window is full.
func (w *work) makeRoom(ctx context.Context) error {
	if w.estimate() < 0.85*w.room() {
		return nil
	}
	return w.shorten(ctx, 0)
}

// shorten first cuts old outputs; if that is not enough, it replaces old turns
// by a summary. force is how often the model has said in a row that it was
// sent too much: each time less is kept. The first message is never touched.
func (w *work) shorten(ctx context.Context, force int) error {
	n := len(w.st.turns)
	keep := max(w.agent.opts.KeepTurns>>force, 1)
	c := w.st.compact
	c.Usage, c.Cost = core.Usage{}, core.Cost{}
	c.CutBefore, c.Keep = max(c.CutBefore, n-keep), 400
	if force > 1 {
		c.CutBefore, c.Keep = n, 2000>>force
	}
	was := w.guess()
	w.st.compact = c
	if force == 0 && w.guess() < 0.6*w.room() && w.guess() < 0.8*was {
		return w.shortened(ctx, c, was)
	}
	if drop := n - keep; drop > c.Drop {
		text, usage, cost := w.summarise(ctx, drop)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		c.Drop, c.Summary, c.Usage, c.Cost = drop, text, usage, cost
	}
	return w.shortened(ctx, c, was)
}

func (w *work) shortened(ctx context.Context, c compactEntry, was float64) error {
	w.st.compact = c
	e := core.NewEvent(core.EventWarning, core.WarningData{
		Code:    "context_shortened",
		Message: fmt.Sprintf("the agent shortened its memory: about %.0f tokens before, %.0f after", was, w.guess()),
	})
	return w.append(ctx, entry{Kind: kindCompact, Compact: &c}, e)
}

const summaryTask = `Below is the record of the work so far of a software engineer on the task at its top. Write the notes with which a colleague can go on without the record, under 800 words, in plain sentences and lists:
- what was found out: files, functions, causes, with paths and line numbers
- what was changed, file by file
- which commands were run, with the results that matter, word for word where the wording matters
- what was tried and did not work
- what is left to do
State only what the record shows. Do not address anybody.`

// summarise has the model note what the first turns were about. When it cannot,
// a mechanical list takes its place: the work must go on.
func (w *work) summarise(ctx context.Context, drop int) (string, core.Usage, core.Cost) {
	record := w.record(drop)
	req := model.Request{
		Model: w.task.Model, System: summaryTask, MaxTokens: min(w.maxTokens(), 8000), Seed: w.task.Seed,
		Messages: []model.Message{{Role: model.User, Blocks: []model.Block{textBlock(record)}}},
	}
	resp, err := w.agent.deps.Model.Complete(ctx, w.caller(), req, nil)
	var text strings.Builder
	for _, b := range resp.Blocks {
		if b.Kind == model.Text {
			text.WriteString(b.Text)
		}
	}
	if err != nil || strings.TrimSpace(text.String()) == "" {
		w.agent.deps.Log.Warn("the model could not summarise, a list takes its place", "session", w.task.Session, "outcome", model.OutcomeOf(err))
		return w.plainList(drop), resp.Usage, resp.Cost
	}
	return strings.TrimSpace(text.String()), resp.Usage, resp.Cost
}

// record renders the turns that go, bounded to half of the room.
func (w *work) record(drop int) string {
	limit := int(w.room() / 2 * bytesPerToken)
	per := max(limit/(2*max(drop, 1)), 300)
	var b strings.Builder
	for _, blk := range w.st.first.Blocks {
		b.WriteString(clip(blk.Text, limit/4) + "\n")
	}
	if w.st.compact.Summary != "" {
		b.WriteString("\nNotes so far:\n" + clip(w.st.compact.Summary, limit/4) + "\n")
	}
	b.WriteString("\nThe record:\n")
	for _, t := range w.st.turns[min(w.st.compact.Drop, drop):drop] {
		if s := strings.TrimSpace(t.text()); s != "" {
			fmt.Fprintf(&b, "said: %s\n", clip(s, per))
		}
		for _, c := range t.calls() {
			fmt.Fprintf(&b, "call %s %s\n", c.Tool, clip(string(c.Input), per))
			fmt.Fprintf(&b, "result: %s\n", clip(resultText(t.results[c.Call].Block), per))
		}
	}
	return clip(b.String(), limit)
}

func (w *work) plainList(drop int) string {
	var b strings.Builder
	if w.st.compact.Summary != "" {
		b.WriteString(clip(w.st.compact.Summary, 8000) + "\n")
	}
	b.WriteString("Calls made, with the beginning of each result:\n")
	for _, t := range w.st.turns[min(w.st.compact.Drop, drop):drop] {
		for _, c := range t.calls() {
			line, _, _ := strings.Cut(strings.TrimSpace(resultText(t.results[c.Call].Block)), "\n")
			fmt.Fprintf(&b, "- %s: %s\n", clip(w.tools.Title(c.Tool, c.Input), 120), clip(line, 120))
		}
	}
	return clip(b.String(), 16000)
}

func resultText(b model.Block) string {
	var out strings.Builder
	for _, c := range b.Content {
		out.WriteString(c.Text)
	}
	return out.String()
}

// cutResult keeps the beginning of an old output and no pictures.
func cutResult(b model.Block, keep int) model.Block {
	out := b
	out.Content = nil
	for _, c := range b.Content {
		switch {
		case c.Kind == model.Image:
			out.Content = append(out.Content, textBlock("[a picture was here]"))
		case len(c.Text) > keep+100:
			out.Content = append(out.Content, textBlock(strings.ToValidUTF8(c.Text[:keep], "")+fmt.Sprintf("\n[%d bytes of this old output left out]", len(c.Text)-keep)))
		default:
			out.Content = append(out.Content, c)
		}
	}
	return out
}
