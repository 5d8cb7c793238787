package store

import (
	"context"
	"time"

	"drydock/internal/core"
)

// Facts are what is known of a session without reading its log.
type Facts struct {
	Session core.SessionID
	Parent  core.SessionID // that it was forked from
	Settled int64          // newest event that people should look at: an outcome, a question, a verdict
	StateAt time.Time      // when it came into its state
	Turn    core.PromptID  // that events belong to now
	Tool    string         // title of the newest tool call

	VerdictReason string // the first of the newest verdict
	Files         int    // of everything the session committed, against its base
	Added         int
	Removed       int

	Sandbox     string // SandboxAwake, SandboxAsleep or "": there is none
	Snapshot    core.SnapshotID
	StartedFrom string // memory, files
	Fallback    string // why it was not started the best way
}

// What a session's sandbox does.
const (
	SandboxAwake  = "awake"
	SandboxAsleep = "asleep" // suspended with its memory
)

var factsTable = table[Facts]{
	name: "session_facts", noun: "facts of session",
	columns: "session, parent, settled, state_at, turn, tool, verdict_reason, files, added, removed, sandbox, snapshot, started_from, fallback",
	fields: func(f *Facts) []any {
		return []any{
			&f.Session, &f.Parent, &f.Settled,
			stamp{&f.StateAt},
			&f.Turn, &f.Tool, &f.VerdictReason, &f.Files, &f.Added, &f.Removed,
			&f.Sandbox, &f.Snapshot, &f.StartedFrom, &f.Fallback,
		}
	},
}

// Turn is what one prompt led to, as far as it can be told without its events.
type Turn struct {
	Prompt     core.PromptID
	Session    core.SessionID
	Run        core.RunID
	First      int64 // number of its first event; it reaches to the first of the next
	Tools      int
	Files      int
	Errors     int
	Cost       core.Cost
	Answer     int64  // number of the newest text of the agent
	AnswerHead string // its beginning
	Nodes      int
	Marks      int // also of those that were too many to keep
}

var turnTable = table[Turn]{
	name: "session_turns", noun: "turn",
	columns: "prompt, session, run, first_seq, tools, files, errors, cost, cost_unknown, answer_seq, answer_head, nodes, marks",
	fields: func(t *Turn) []any {
		return []any{
			&t.Prompt, &t.Session, &t.Run, &t.First, &t.Tools, &t.Files, &t.Errors, &t.Cost.Known, &t.Cost.Unknown, &t.Answer, &t.AnswerHead,
			&t.Nodes, &t.Marks,
		}
	},
}

// TurnNode is one attempt at a step, in a turn.
type TurnNode struct {
	Session  core.SessionID
	Seq      int64
	Prompt   core.PromptID
	Node     string
	Kind     string
	Title    string
	Number   int
	State    string // running, done
	Result   string
	Started  time.Time
	Duration time.Duration
}

var turnNodeTable = table[TurnNode]{
	name: "turn_nodes", noun: "step of turn", columns: "session, seq, prompt, node, kind, title, number, state, result, started, duration",
	fields: func(n *TurnNode) []any {
		return []any{
			&n.Session, &n.Seq, &n.Prompt, &n.Node, &n.Kind, &n.Title, &n.Number, &n.State, &n.Result,
			stamp{&n.Started},
			&n.Duration,
		}
	},
}

// TurnMark is an event in a turn that people look for.
type TurnMark struct {
	Session core.SessionID
	Seq     int64
	Prompt  core.PromptID
	Kind    string
}

var turnMarkTable = table[TurnMark]{
	name: "turn_marks", noun: "mark of turn", columns: "session, seq, prompt, kind",
	fields: func(m *TurnMark) []any { return []any{&m.Session, &m.Seq, &m.Prompt, &m.Kind} },
}

// Facts finds those of one session.
func (r Reader) Facts(ctx context.Context, id core.SessionID) (Facts, error) {
	return factsTable.get(ctx, r.q, id, "WHERE session = ?", id)
}

// PutFacts writes those of a session.
func (w Writer) PutFacts(ctx context.Context, f Facts) error {
	return w.in(ctx, func(c conn) error { return factsTable.put(ctx, c, &f) })
}

// Children lists sessions that were forked from one, oldest first.
func (r Reader) Children(ctx context.Context, id core.SessionID, limit int) ([]core.Session, error) {
	return sessionTable.list(ctx, r.q, "WHERE id IN (SELECT f.session FROM session_facts f WHERE f.parent = ? AND f.parent <> '') ORDER BY id LIMIT ?", id, limit)
}

// WithoutFacts lists sessions whose log has not been looked at yet.
func (r Reader) WithoutFacts(ctx context.Context, limit int) ([]core.Session, error) {
	return sessionTable.list(ctx, r.q, "WHERE id NOT IN (SELECT f.session FROM session_facts f) ORDER BY id LIMIT ?", limit)
}

// Turn finds that of one prompt.
func (r Reader) Turn(ctx context.Context, id core.PromptID) (Turn, error) {
	return turnTable.get(ctx, r.q, id, "WHERE prompt = ?", id)
}

// PutTurn writes one.
func (w Writer) PutTurn(ctx context.Context, t Turn) error {
	return w.in(ctx, func(c conn) error { return turnTable.put(ctx, c, &t) })
}

// Turns lists the newest of a session, newest first.
func (r Reader) Turns(ctx context.Context, id core.SessionID, limit int) ([]Turn, error) {
	return turnTable.list(ctx, r.q, "WHERE session = ? ORDER BY first_seq DESC LIMIT ?", id, limit)
}

// CountTurns counts them.
func (r Reader) CountTurns(ctx context.Context, id core.SessionID) (n int, err error) {
	err = r.q.row(ctx, `SELECT COUNT(*) FROM session_turns WHERE session = ?`, id).Scan(&n)
	return n, r.q.d.explain(ctx, "store.turn", err, "turns of session "+string(id))
}

// TurnAt is the prompt whose turn has an event, "" before the first.
func (r Reader) TurnAt(ctx context.Context, id core.SessionID, seq int64) (core.PromptID, error) {
	list, err := turnTable.list(ctx, r.q, "WHERE session = ? AND first_seq <= ? ORDER BY first_seq DESC LIMIT 1", id, seq)
	if err != nil || len(list) == 0 {
		return "", err
	}
	return list[0].Prompt, nil
}

// AddTurnNode adds a step that has begun.
func (w Writer) AddTurnNode(ctx context.Context, n TurnNode) error {
	return w.in(ctx, func(c conn) error { return turnNodeTable.insert(ctx, c, &n) })
}

// EndTurnNode writes how the newest attempt at a step ended.
func (w Writer) EndTurnNode(ctx context.Context, prompt core.PromptID, node string, number int, result string, took time.Duration) error {
	return w.in(ctx, func(c conn) error {
		_, err := c.exec(ctx, `UPDATE turn_nodes SET state = 'done', result = ?, duration = ?
			WHERE prompt = ? AND node = ? AND number = ? AND state = 'running'`, result, int64(took), prompt, node, number)
		return c.d.explain(ctx, "store.turn", err, turnTable.what(prompt))
	})
}

// CutTurnNodes ends what still runs of a turn that has ended.
func (w Writer) CutTurnNodes(ctx context.Context, prompt core.PromptID, at time.Time) error {
	return w.in(ctx, func(c conn) error {
		_, err := c.exec(ctx, `UPDATE turn_nodes SET state = 'cut', duration = ? - started WHERE prompt = ? AND state = 'running'`, nanos(at), prompt)
		return c.d.explain(ctx, "store.turn", err, turnTable.what(prompt))
	})
}

// TurnNodes lists those of a session from a number on, in order.
func (r Reader) TurnNodes(ctx context.Context, id core.SessionID, from int64) ([]TurnNode, error) {
	return turnNodeTable.list(ctx, r.q, "WHERE session = ? AND seq >= ? ORDER BY seq", id, from)
}

// AddTurnMark adds one.
func (w Writer) AddTurnMark(ctx context.Context, m TurnMark) error {
	return w.in(ctx, func(c conn) error { return turnMarkTable.insert(ctx, c, &m) })
}

// TurnMarks lists those of a session from a number on, in order.
func (r Reader) TurnMarks(ctx context.Context, id core.SessionID, from int64) ([]TurnMark, error) {
	return turnMarkTable.list(ctx, r.q, "WHERE session = ? AND seq >= ? ORDER BY seq", id, from)
}
