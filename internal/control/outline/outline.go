// Package outline keeps what people want to know of a session's log without
// reading it: its turns with their steps, counts, answers and marks, and a few
// facts of the session itself.
//
// Fold is called in the transaction that appends events, by package event, so
// the outline is never behind the log. Catchup makes it for logs of before.
// Both are the same function of the events, in order.
//
// Invariants: what is kept of a turn is bounded, whatever happens in it; an
// event that cannot be read changes nothing and is no error.
//
// The package has no state of its own.
package outline

import (
	"context"
	"encoding/json"
	"strings"
	"unicode/utf8"

	"drydock/internal/core"
	"drydock/internal/store"
)

// Bounds of one turn.
const (
	MaxNodes  = 200 // steps, with attempts
	MaxMarks  = 100
	MaxAnswer = 400 // characters of the answer
	maxTool   = 120 // characters of what is done now
)

// Kinds of marks.
const (
	MarkQuestion = "question"
	MarkApproval = "approval"
	MarkDenied   = "denied"
	MarkError    = "error"
	MarkWarning  = "warning"
	MarkVerdict  = "verdict"
	MarkChange   = "change"
	MarkPicture  = "picture"
)

// fallbacks are warnings which tell that a sandbox did not start the best way.
var fallbacks = map[string]bool{"memory_not_restored": true, "snapshot_damaged": true, "snapshot_old": true}

// Fold brings the outline of a session up to date with events that are being
// appended. Other subjects have none.
func Fold(ctx context.Context, tx *store.Tx, subject string, events []core.Event) error {
	if !strings.HasPrefix(subject, "ses_") {
		return nil
	}
	f := folding{ctx: ctx, tx: tx, id: core.SessionID(subject)}
	for _, e := range events {
		if err := f.event(e); err != nil {
			return err
		}
	}
	return f.write()
}

// folding reads what it changes once, and writes it once.
type folding struct {
	ctx context.Context //nolint:containedctx // lives as long as one call of Fold
	tx  *store.Tx
	id  core.SessionID

	facts      store.Facts
	readFacts  bool
	writeFacts bool
	turn       store.Turn
	writeTurn  bool
}

func (f *folding) write() error {
	if f.writeTurn {
		f.writeTurn = false
		if err := f.tx.PutTurn(f.ctx, f.turn); err != nil {
			return err
		}
	}
	if f.writeFacts {
		f.writeFacts = false
		return f.tx.PutFacts(f.ctx, f.facts)
	}
	return nil
}

// fact changes a fact of the session.
func (f *folding) fact(change func(*store.Facts)) error {
	if err := f.load(); err != nil {
		return err
	}
	old := f.facts
	change(&f.facts)
	f.writeFacts = f.writeFacts || f.facts != old
	return nil
}

func (f *folding) load() error {
	if f.readFacts {
		return nil
	}
	got, err := f.tx.Facts(f.ctx, f.id)
	if core.Is(err, core.NotFound) {
		got, err = store.Facts{Session: f.id}, nil
	}
	f.facts, f.readFacts = got, err == nil
	return err
}

// inTurn changes the turn that events belong to now; before the first there
// is none, and nothing happens.
func (f *folding) inTurn(change func(*store.Turn) error) error {
	if err := f.load(); err != nil {
		return err
	}
	if f.facts.Turn == "" {
		return nil
	}
	if f.turn.Prompt != f.facts.Turn {
		t, err := f.tx.Turn(f.ctx, f.facts.Turn)
		if core.Is(err, core.NotFound) {
			return nil
		}
		if err != nil {
			return err
		}
		f.turn = t
	}
	old := f.turn
	if err := change(&f.turn); err != nil {
		return err
	}
	f.writeTurn = f.writeTurn || f.turn != old
	return nil
}

// begin makes a prompt's turn the current one.
func (f *folding) begin(prompt core.PromptID, seq int64) error {
	if err := f.load(); err != nil || prompt == "" || f.facts.Turn == prompt {
		return err
	}
	if err := f.write(); err != nil { // the turn before
		return err
	}
	t, err := f.tx.Turn(f.ctx, prompt)
	if core.Is(err, core.NotFound) {
		t, err = store.Turn{Prompt: prompt, Session: f.id, First: seq}, nil
		f.writeTurn = true
	}
	if err != nil {
		return err
	}
	f.turn = t
	return f.fact(func(v *store.Facts) { v.Turn = prompt })
}

func (f *folding) mark(seq int64, kind string) error {
	return f.inTurn(func(t *store.Turn) error {
		t.Marks++
		if t.Marks > MaxMarks {
			return nil
		}
		return f.tx.AddTurnMark(f.ctx, store.TurnMark{Session: f.id, Seq: seq, Prompt: t.Prompt, Kind: kind})
	})
}

func (f *folding) settle(seq int64) error {
	return f.fact(func(v *store.Facts) { v.Settled = seq })
}

func decode[T any](e core.Event) (v T, ok bool) {
	return v, json.Unmarshal(e.Data, &v) == nil
}

func clip(s string, n int) string {
	s = strings.TrimSpace(s)
	if utf8.RuneCountInString(s) <= n {
		return s
	}
	return string([]rune(s)[:n])
}

// event is the one function from events to outlines.
func (f *folding) event(e core.Event) error {
	switch e.Kind {
	case core.EventSessionCreated, core.EventSessionState:
		return f.state(e)
	case core.EventPromptState, core.EventRunStarted, core.EventRunFinished:
		return f.run(e)
	case core.EventNodeStarted, core.EventNodeFinished:
		return f.node(e)
	case core.EventToolStarted, core.EventToolFinished, core.EventModelCall, core.EventAgentText, core.EventCommit:
		return f.work(e)
	case core.EventVerdict:
		v, ok := decode[core.VerdictData](e)
		if !ok {
			return nil
		}
		reason := ""
		if len(v.Reasons) > 0 {
			reason = clip(v.Reasons[0], MaxAnswer)
		}
		if err := f.fact(func(s *store.Facts) { s.VerdictReason, s.Settled = reason, e.Seq }); err != nil {
			return err
		}
		return f.mark(e.Seq, MarkVerdict)
	case core.EventApproval:
		return f.approval(e)
	case core.EventSandbox:
		return f.sandbox(e)
	case core.EventWarning:
		if v, ok := decode[core.WarningData](e); ok && fallbacks[v.Code] {
			if err := f.fact(func(s *store.Facts) { s.Fallback = clip(v.Message, MaxAnswer) }); err != nil {
				return err
			}
		}
		return f.mark(e.Seq, MarkWarning)
	case core.EventNetworkDenied:
		return f.mark(e.Seq, MarkDenied)
	case core.EventChange:
		return f.mark(e.Seq, MarkChange)
	case core.EventPicture:
		return f.mark(e.Seq, MarkPicture)
	}
	return nil
}

func (f *folding) state(e core.Event) error {
	v, ok := decode[core.StateData](e)
	if !ok {
		return nil
	}
	err := f.fact(func(s *store.Facts) {
		if e.Kind == core.EventSessionCreated || v.From != v.To {
			s.StateAt = e.Time
		}
		if e.Kind == core.EventSessionCreated && strings.HasPrefix(v.From, "ses_") {
			s.Parent = core.SessionID(v.From)
		}
		if v.To == string(core.SessionWaiting) {
			s.Settled = e.Seq
		}
	})
	if err != nil || v.To != string(core.SessionWaiting) || v.From == v.To {
		return err
	}
	return f.mark(e.Seq, MarkQuestion)
}

func (f *folding) run(e core.Event) error {
	switch e.Kind {
	case core.EventPromptState:
		if v, ok := decode[core.PromptData](e); ok && v.State == core.PromptRunning {
			return f.begin(v.Prompt, e.Seq)
		}
	case core.EventRunStarted:
		v, ok := decode[core.RunData](e)
		if !ok {
			return nil
		}
		if err := f.begin(v.Prompt, e.Seq); err != nil {
			return err
		}
		return f.inTurn(func(t *store.Turn) error { t.Run = e.Run; return nil })
	case core.EventRunFinished:
		v, ok := decode[core.RunData](e)
		if !ok {
			return nil
		}
		if err := f.fact(func(s *store.Facts) { s.Settled, s.Tool = e.Seq, "" }); err != nil {
			return err
		}
		if v.State == core.RunFailed {
			if err := f.mark(e.Seq, MarkError); err != nil {
				return err
			}
		}
		return f.inTurn(func(t *store.Turn) error { return f.tx.CutTurnNodes(f.ctx, t.Prompt, e.Time) })
	}
	return nil
}

func (f *folding) node(e core.Event) error {
	v, ok := decode[core.NodeData](e)
	if !ok {
		return nil
	}
	if e.Kind == core.EventNodeFinished {
		return f.inTurn(func(t *store.Turn) error {
			return f.tx.EndTurnNode(f.ctx, t.Prompt, v.Node, v.Number, clip(v.Result, maxTool), v.Duration)
		})
	}
	if err := f.fact(func(s *store.Facts) { s.Tool = "" }); err != nil {
		return err
	}
	return f.inTurn(func(t *store.Turn) error {
		// A step that is tried again under the same number goes on where it stood.
		if err := f.tx.EndTurnNode(f.ctx, t.Prompt, v.Node, v.Number, "interrupted", 0); err != nil {
			return err
		}
		t.Nodes++
		if t.Nodes > MaxNodes {
			return nil
		}
		return f.tx.AddTurnNode(f.ctx, store.TurnNode{
			Session: f.id, Seq: e.Seq, Prompt: t.Prompt, Node: clip(v.Node, maxTool), Kind: clip(v.Kind, maxTool), Title: clip(v.Title, maxTool),
			Number: v.Number, State: "running", Started: e.Time,
		})
	})
}

func (f *folding) work(e core.Event) error {
	switch e.Kind {
	case core.EventToolStarted:
		v, _ := decode[core.ToolData](e)
		if err := f.fact(func(s *store.Facts) { s.Tool = clip(v.Title, maxTool) }); err != nil {
			return err
		}
		return f.inTurn(func(t *store.Turn) error { t.Tools++; return nil })
	case core.EventToolFinished:
		if v, ok := decode[struct {
			Failed bool `json:"failed"`
		}](e); ok && v.Failed {
			return f.inTurn(func(t *store.Turn) error { t.Errors++; return nil })
		}
	case core.EventModelCall:
		if v, ok := decode[core.ModelData](e); ok {
			return f.inTurn(func(t *store.Turn) error { t.Cost = t.Cost.Add(v.Cost); return nil })
		}
	case core.EventAgentText:
		if v, ok := decode[core.TextData](e); ok {
			return f.inTurn(func(t *store.Turn) error { t.Answer, t.AnswerHead = e.Seq, clip(v.Text, MaxAnswer); return nil })
		}
	case core.EventCommit:
		v, ok := decode[core.CommitData](e)
		if !ok {
			return nil
		}
		err := f.fact(func(s *store.Facts) { s.Files, s.Added, s.Removed = v.Files, v.Added, v.Removed })
		if err != nil {
			return err
		}
		return f.inTurn(func(t *store.Turn) error { t.Files = v.Files; return nil })
	}
	return nil
}

func (f *folding) approval(e core.Event) error {
	v, ok := decode[core.ApprovalData](e)
	if !ok || v.State != core.ApprovalPending {
		return f.mark(e.Seq, MarkApproval)
	}
	if err := f.settle(e.Seq); err != nil {
		return err
	}
	return f.mark(e.Seq, MarkQuestion)
}

func (f *folding) sandbox(e core.Event) error {
	v, ok := decode[core.SandboxData](e)
	if !ok {
		return nil
	}
	return f.fact(func(s *store.Facts) {
		switch v.State {
		case core.SandboxCreating:
			s.Fallback = ""
		case core.SandboxRunning:
			s.Sandbox = store.SandboxAwake
			if v.From != "running" {
				s.Snapshot, s.StartedFrom = v.Snapshot, clip(v.From, maxTool)
			}
			if v.From == "memory" {
				s.Fallback = ""
			}
		case core.SandboxDead:
			s.Sandbox = ""
		case core.SandboxGone, core.SandboxFrozen:
			s.Sandbox = ""
			if v.Cause == "suspended" {
				s.Sandbox = store.SandboxAsleep
			}
			s.Fallback = "" // told of the start before
		}
	})
}
