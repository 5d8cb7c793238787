package store

import (
	"context"
	"time"

	"drydock/internal/core"
)

// Reads of many sessions at once, for lists that say how each one stands.

func byKey[T any, K comparable](list []T, err error, key func(T) K) (map[K]T, error) {
	out := make(map[K]T, len(list))
	for _, v := range list {
		out[key(v)] = v
	}
	return out, err
}

// FactsOf finds those of several sessions.
func (r Reader) FactsOf(ctx context.Context, ids []core.SessionID) (map[core.SessionID]Facts, error) {
	list, err := among(ctx, factsTable, r.q, "session", ids, "")
	return byKey(list, err, func(f Facts) core.SessionID { return f.Session })
}

// RunHead is a run without what its steps hand on.
type RunHead struct {
	ID                core.RunID
	Session           core.SessionID
	Prompt            core.PromptID
	State             core.RunState
	Outcome, Verdict  string
	Failure           *core.Failure
	Created, Finished time.Time
}

var runHeadTable = table[RunHead]{
	name: "runs", noun: "run", columns: "id, session, prompt, state, outcome, verdict, failure, created, finished",
	fields: func(r *RunHead) []any {
		return []any{
			&r.ID, &r.Session, &r.Prompt, &r.State, &r.Outcome, &r.Verdict, asDoc(&r.Failure),
			stamp{&r.Created},
			stamp{&r.Finished},
		}
	},
}

// LastRuns finds the newest run of each of several sessions.
func (r Reader) LastRuns(ctx context.Context, ids []core.SessionID) (map[core.SessionID]RunHead, error) {
	list, err := among(ctx, runHeadTable, r.q, "session", ids, "AND id = (SELECT MAX(o.id) FROM runs o WHERE o.session = runs.session)")
	return byKey(list, err, func(v RunHead) core.SessionID { return v.Session })
}

// ChangesByID finds several changes.
func (r Reader) ChangesByID(ctx context.Context, ids []core.ChangeID) (map[core.ChangeID]core.Change, error) {
	list, err := among(ctx, changeTable, r.q, "id", ids, "")
	return byKey(list, err, func(v core.Change) core.ChangeID { return v.ID })
}

// PendingApprovals finds the newest open question of each of several sessions.
func (r Reader) PendingApprovals(ctx context.Context, ids []core.SessionID) (map[core.SessionID]Approval, error) {
	list, err := among(ctx, approvalTable, r.q, "session", ids, "AND state = ? ORDER BY id", core.ApprovalPending)
	return byKey(list, err, func(v Approval) core.SessionID { return v.Session })
}

// RunningNodes finds the step that each of several sessions is at.
func (r Reader) RunningNodes(ctx context.Context, ids []core.SessionID) (map[core.SessionID]TurnNode, error) {
	list, err := among(ctx, turnNodeTable, r.q, "session", ids, "AND state = 'running' ORDER BY seq")
	return byKey(list, err, func(v TurnNode) core.SessionID { return v.Session })
}

// LeaseEnds says until when each of several sessions is held by a runner.
func (r Reader) LeaseEnds(ctx context.Context, ids []core.SessionID) (map[core.SessionID]time.Time, error) {
	names, of := make([]string, len(ids)), make(map[string]core.SessionID, len(ids))
	for i, id := range ids {
		names[i] = LeaseOfSession(id)
		of[names[i]] = id
	}
	list, err := among(ctx, leaseTable, r.q, "name", names, "")
	out := make(map[core.SessionID]time.Time, len(list))
	for _, l := range list {
		out[of[l.Lease]] = l.expires
	}
	return out, err
}

// Progress is how far a session's log and clock are.
type Progress struct {
	Session     core.SessionID
	Last        int64     // number of its newest event
	ActiveSince time.Time // zero if its clock stands
	Environment string    // name
}

var progressTable = table[Progress]{
	name: "sessions", noun: "session",
	columns: "id, COALESCE((SELECT MAX(e.seq) FROM events e WHERE e.subject = sessions.id), 0), active_since, " +
		"COALESCE((SELECT v.name FROM environments v WHERE v.id = sessions.environment), '')",
	fields: func(p *Progress) []any {
		return []any{&p.Session, &p.Last, stamp{&p.ActiveSince}, &p.Environment}
	},
}

// ProgressOf finds that of several sessions.
func (r Reader) ProgressOf(ctx context.Context, ids []core.SessionID) (map[core.SessionID]Progress, error) {
	list, err := among(ctx, progressTable, r.q, "id", ids, "")
	return byKey(list, err, func(v Progress) core.SessionID { return v.Session })
}

// SessionsByID finds several sessions, in no order.
func (r Reader) SessionsByID(ctx context.Context, ids []core.SessionID) ([]core.Session, error) {
	return among(ctx, sessionTable, r.q, "id", ids, "")
}

// PromptHead is a prompt with the beginning of its text.
type PromptHead struct {
	ID                core.PromptID
	Author            core.Author
	Text              string // at most HeadLen characters
	Source            string
	State             core.PromptState
	Run               core.RunID
	Started, Finished time.Time
}

// HeadLen is how much of a text its beginning is.
const HeadLen = 400

var promptHeadTable = table[PromptHead]{
	name: "prompts", noun: "prompt", columns: "id, author, author_name, author_email, SUBSTR(text, 1, 400), source, state, run, started, finished",
	fields: func(p *PromptHead) []any {
		return []any{
			&p.ID, &p.Author.Handle, &p.Author.Name, &p.Author.Email, &p.Text, &p.Source, &p.State, &p.Run,
			stamp{&p.Started},
			stamp{&p.Finished},
		}
	},
}

// PromptHeads finds several.
func (r Reader) PromptHeads(ctx context.Context, ids []core.PromptID) (map[core.PromptID]PromptHead, error) {
	list, err := among(ctx, promptHeadTable, r.q, "id", ids, "")
	return byKey(list, err, func(p PromptHead) core.PromptID { return p.ID })
}

// RunsOf finds the runs of several prompts, in no order.
func (r Reader) RunsOf(ctx context.Context, ids []core.PromptID) ([]RunHead, error) {
	return among(ctx, runHeadTable, r.q, "prompt", ids, "")
}
