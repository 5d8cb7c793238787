package builtin

import (
	"context"
	"crypto/sha256"
	"fmt"
	"strings"

	"drydock/internal/harness/agent"
	"drydock/internal/harness/model"
)

// judge looks at the last turn: silence, repetition, no progress. It either
// ends the work, leaves a remark for the model, or does nothing. Everything is
// worked out from the transcript, so that a restart judges the same; a turn
// that has a remark already was judged.
func (w *work) judge(ctx context.Context) (_ agent.Result, done bool, _ error) {
	turns := w.st.turns
	last := turns[len(turns)-1]
	if len(last.notes) > 0 {
		return agent.Result{}, false, nil
	}
	if len(last.calls()) == 0 {
		return w.judgeSpeech(ctx)
	}
	p := w.st.measure()
	o := w.agent.opts
	ended := func(e agent.Ending, format string, n int) (agent.Result, bool, error) {
		r := w.result(e)
		r.Detail = fmt.Sprintf(format, n)
		return r, true, nil
	}
	switch {
	case p.same >= o.Loop:
		return ended(agent.Looping, "the same call gave the same result %d times", p.same)
	case p.stale >= o.NoProgress:
		return ended(agent.NoProgress, "%d turns brought nothing new", p.stale)
	case p.failing >= o.AllFailed:
		return ended(agent.NoProgress, "every call of %d turns failed", p.failing)
	case p.same == o.Remark:
		return agent.Result{}, false, w.note(ctx, remarkRepeat, p.same)
	case p.stale == (o.NoProgress+1)/2:
		return agent.Result{}, false, w.note(ctx, remarkNothing, p.stale)
	case p.failing == (o.AllFailed+1)/2:
		return agent.Result{}, false, w.note(ctx, remarkFailing, p.failing)
	case len(turns) > 10 && w.maxTurns()-len(turns) == 5:
		return agent.Result{}, false, w.note(ctx, remarkTurns, 5)
	}
	return agent.Result{}, false, nil
}

// judgeSpeech is about answers without a call.
func (w *work) judgeSpeech(ctx context.Context) (_ agent.Result, done bool, _ error) {
	turns := w.st.turns
	last := turns[len(turns)-1]
	silent, speaking, cut := 0, 0, 0
	for i := len(turns) - 1; i >= 0 && len(turns[i].calls()) == 0; i-- {
		switch {
		case turns[i].answer.Outcome == model.MaxTokens:
			cut++
		case strings.TrimSpace(turns[i].text()) == "":
			silent++
		default:
			speaking++
		}
	}
	switch {
	case last.answer.Outcome == model.MaxTokens && cut >= 3:
		r := w.result(agent.ModelFailed)
		r.Outcome, r.Detail = model.MaxTokens, "three answers in a row were cut off at the output limit"
		return r, true, nil
	case last.answer.Outcome == model.MaxTokens:
		return agent.Result{}, false, w.note(ctx, remarkCut)
	case silent >= 2:
		return w.result(agent.Silent), true, nil
	case strings.TrimSpace(last.text()) == "":
		return agent.Result{}, false, w.note(ctx, remarkSilent)
	case speaking >= 2:
		// It has said its last word twice. What it did is judged by proof.
		r := w.result(agent.Answered)
		if w.wrote() {
			r.Ending = agent.Finished
		}
		r.Detail = "it stopped without calling finish"
		return r, true, nil
	}
	return agent.Result{}, false, w.note(ctx, remarkNoCall)
}

func (w *work) wrote() bool {
	for _, t := range w.st.turns {
		for _, r := range t.results {
			if r.Wrote {
				return true
			}
		}
	}
	return false
}

// progress of the last turns.
type progress struct {
	same    int // how often the last call gave the same result lately
	stale   int // turns in a row without anything new
	failing int // turns in a row in which every call failed
}

// recent is how many calls back a repetition counts.
const recent = 20

// measure compares calls by tool, input and result. Waiting for a process is
// no repetition, and may bring nothing new four times as long.
func (s *state) measure() progress {
	var p progress
	seen := map[fingerprint]bool{}
	var window []fingerprint
	stale := 0 // in quarters of a turn
	for i, t := range s.turns {
		calls := t.calls()
		fresh, failed, waits := false, len(calls) > 0, len(calls) > 0
		for _, c := range calls {
			r := t.results[c.Call]
			key := s.print(i, c, r.Block)
			failed = failed && r.Block.Failed
			isNew := !seen[key]
			seen[key] = true
			fresh = fresh || isNew
			if c.Tool == "process" {
				p.same = 0
				continue
			}
			waits = false
			if isNew && r.Wrote && !r.Block.Failed && c.Tool != "run" {
				window = window[:0] // the tree has changed: the same test is not the same question
			}
			window = append(window, key)
			p.same = 0
			for _, k := range window[max(len(window)-recent, 0):] {
				if k == key {
					p.same++
				}
			}
		}
		switch {
		case fresh:
			stale = 0
		case waits:
			stale++
		default:
			stale += 4
		}
		p.stale = stale / 4
		p.failing++
		if !failed {
			p.failing = 0
		}
	}
	return p
}

// fingerprint of a call with its result.
type fingerprint [sha256.Size]byte

// print remembers what it worked out: results hold pictures.
func (s *state) print(turn int, c, result model.Block) fingerprint {
	id := fmt.Sprintf("%d/%s", turn, c.Call)
	if p, ok := s.prints[id]; ok {
		return p
	}
	h := sha256.New()
	fmt.Fprintf(h, "%s\x00%s\x00%s\x00%v\x00", c.Tool, c.Input, c.BadInput, result.Failed)
	for _, b := range result.Content {
		fmt.Fprintf(h, "%s\x00%s\x00", b.Text, b.Data)
	}
	p := fingerprint(h.Sum(nil))
	s.prints[id] = p
	return p
}
