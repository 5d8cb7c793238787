package builtin

import (
	"encoding/json"
	"fmt"
	"strings"

	"drydock/internal/core"
	"drydock/internal/harness/agent"
	"drydock/internal/harness/model"
	"drydock/internal/harness/tool"
)

// formatVersion of the entries; a transcript of another version is left alone
// and the work begins anew.
const formatVersion = 1

// entry is one line of the transcript. Kind says which field is set.
type entry struct {
	Kind    string        `json:"kind"`
	Start   *startEntry   `json:"start,omitempty"`
	Answer  *answerEntry  `json:"answer,omitempty"`
	Began   string        `json:"began,omitempty"` // call
	Result  *resultEntry  `json:"result,omitempty"`
	Note    string        `json:"note,omitempty"`
	Compact *compactEntry `json:"compact,omitempty"`
	End     *agent.Result `json:"end,omitempty"`
}

const (
	kindStart   = "start"
	kindAnswer  = "answer"
	kindBegan   = "began"
	kindResult  = "result"
	kindNote    = "note"
	kindCompact = "compact"
	kindEnd     = "end"
)

// startEntry fixes what the model was told first, so that a newer program
// goes on with the same words.
type startEntry struct {
	Version int            `json:"version"`
	Attempt core.AttemptID `json:"attempt"`
	System  string         `json:"system"`
	First   model.Message  `json:"first"`
}

type answerEntry struct {
	Blocks  []model.Block `json:"blocks"`
	Outcome model.Outcome `json:"outcome"`
	Usage   core.Usage    `json:"usage"`
	Cost    core.Cost     `json:"cost"`
}

type resultEntry struct {
	Block  model.Block  `json:"block"`
	Wrote  bool         `json:"wrote,omitempty"`
	Finish *tool.Finish `json:"finish,omitempty"`
}

// compactEntry shortens what is sent from here on. Turns count from 0.
type compactEntry struct {
	CutBefore int        `json:"cut_before"` // outputs of earlier turns are cut
	Keep      int        `json:"keep"`       // bytes kept of such an output
	Drop      int        `json:"drop"`       // earlier turns are replaced by Summary
	Summary   string     `json:"summary,omitempty"`
	Usage     core.Usage `json:"usage"`
	Cost      core.Cost  `json:"cost"`
}

// turn is one answer with what came of it.
type turn struct {
	answer  answerEntry
	results map[string]resultEntry
	notes   []string
}

// state is what the transcript says.
type state struct {
	id      string // names the calls of this piece of work
	system  string
	first   model.Message
	turns   []turn
	lead    []string // notes before the first turn
	began   map[string]bool
	compact compactEntry
	usage   core.Usage
	cost    core.Cost
	end     *agent.Result
	prints  map[string]fingerprint // of calls that have a result, see measure
}

// replay finds the piece of work that task goes on with; nil means that it
// begins anew. A node may be visited several times in a run: earlier visits
// have ended, or belong to another attempt.
func replay(raw []json.RawMessage, task agent.Task) (*state, error) {
	var st *state
	for i, r := range raw {
		var e entry
		err := json.Unmarshal(r, &e)
		if err == nil && !e.whole() {
			err = fmt.Errorf("kind %q without its content", e.Kind)
		}
		if err != nil {
			return nil, core.E("agent.replay", core.Internal, err, "entry %d of the transcript of run %s, node %s is damaged", i, task.Run, task.Node)
		}
		if e.Kind == kindStart {
			st = nil
			if e.Start.Version == formatVersion {
				st = &state{id: string(e.Start.Attempt), system: e.Start.System, first: e.Start.First, began: map[string]bool{}, prints: map[string]fingerprint{}}
			}
			continue
		}
		if st != nil {
			st.add(e)
		}
	}
	if st != nil && st.end != nil && st.id != string(task.Attempt) && (task.Resumes == "" || st.id != string(task.Resumes)) {
		return nil, nil
	}
	return st, nil
}

// whole reports whether an entry has what its kind says; unknown kinds are
// passed over.
func (e entry) whole() bool {
	switch e.Kind {
	case kindStart:
		return e.Start != nil
	case kindAnswer:
		return e.Answer != nil
	case kindResult:
		return e.Result != nil
	case kindCompact:
		return e.Compact != nil
	case kindEnd:
		return e.End != nil
	}
	return true
}

func (s *state) add(e entry) {
	switch e.Kind {
	case kindAnswer:
		s.turns = append(s.turns, turn{answer: *e.Answer, results: map[string]resultEntry{}})
		s.usage, s.cost = s.usage.Add(e.Answer.Usage), s.cost.Add(e.Answer.Cost)
	case kindBegan:
		s.began[e.Began] = true
	case kindResult:
		if n := len(s.turns); n > 0 {
			s.turns[n-1].results[e.Result.Block.Call] = *e.Result
		}
	case kindNote:
		if n := len(s.turns); n > 0 {
			s.turns[n-1].notes = append(s.turns[n-1].notes, e.Note)
		} else {
			s.lead = append(s.lead, e.Note)
		}
	case kindCompact:
		s.compact = *e.Compact
		s.usage, s.cost = s.usage.Add(e.Compact.Usage), s.cost.Add(e.Compact.Cost)
	case kindEnd:
		s.end = e.End
	}
}

func (t turn) calls() []model.Block {
	var out []model.Block
	for _, b := range t.answer.Blocks {
		if b.Kind == model.ToolUse {
			out = append(out, b)
		}
	}
	return out
}

func (t turn) text() string {
	var out strings.Builder
	for _, b := range t.answer.Blocks {
		if b.Kind == model.Text {
			out.WriteString(b.Text + "\n")
		}
	}
	return out.String()
}

// messages is the conversation as the model is sent it.
func (s *state) messages() []model.Message {
	first := model.Message{Role: model.User, Blocks: append([]model.Block(nil), s.first.Blocks...)}
	if s.compact.Drop > 0 {
		first.Blocks = append(first.Blocks, textBlock(summaryHead+s.compact.Summary))
	}
	for _, n := range s.lead {
		first.Blocks = append(first.Blocks, textBlock(n))
	}
	out := []model.Message{first}
	add := func(role model.Role, blocks []model.Block) {
		if len(blocks) == 0 {
			return
		}
		if last := &out[len(out)-1]; last.Role == role {
			last.Blocks = append(last.Blocks, blocks...)
			return
		}
		out = append(out, model.Message{Role: role, Blocks: blocks})
	}
	for i := min(s.compact.Drop, len(s.turns)); i < len(s.turns); i++ {
		t := s.turns[i]
		add(model.Assistant, t.answer.Blocks)
		var blocks []model.Block
		for _, c := range t.calls() {
			if r, ok := t.results[c.Call]; ok {
				b := r.Block
				if i < s.compact.CutBefore {
					b = cutResult(b, s.compact.Keep)
				}
				blocks = append(blocks, b)
			}
		}
		for _, n := range t.notes {
			blocks = append(blocks, textBlock(n))
		}
		add(model.User, blocks)
	}
	return out
}

func textBlock(s string) model.Block { return model.Block{Kind: model.Text, Text: s} }
