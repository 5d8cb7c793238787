package blueprint

import (
	"context"
	"encoding/json"
	"time"

	"drydock/internal/core"
	"drydock/internal/store"
)

// Log appends events in the journal's own transactions.
type Log interface {
	AppendTx(ctx context.Context, tx *store.Tx, subject string, events ...core.Event) ([]core.Event, error)
}

// SQLJournal keeps positions in the store. Each move is one transaction under
// the job's fence: attempt, position, data and event together or not at all.
type SQLJournal struct {
	db  *store.DB
	log Log
}

// NewJournal returns a journal over a store.
func NewJournal(db *store.DB, log Log) *SQLJournal { return &SQLJournal{db, log} }

var _ Journal = (*SQLJournal)(nil)

// resumeNote is kept in an open attempt's detail.
type resumeNote struct {
	Resumes int    `json:"resumes,omitempty"`
	Resting bool   `json:"resting,omitempty"` // put aside on purpose
	Text    string `json:"text,omitempty"`
}

// Enter implements Journal.
func (j *SQLJournal) Enter(ctx context.Context, job Job, node string, spec Node) (att core.Attempt, resumes int, err error) {
	err = j.db.Fenced(ctx, job.Fence, func(tx *store.Tx) error {
		list, err := tx.Attempts(ctx, job.Run.ID)
		if err != nil {
			return err
		}
		var note resumeNote
		detail := ""
		open := -1
		for i := range list {
			if list[i].Node == node && list[i].State == core.AttemptRunning {
				open = i
			}
		}
		if open >= 0 {
			_ = json.Unmarshal(list[open].Detail, &note)
			resumes, detail = note.Resumes+1, "going on after a restart"
			if note.Resting {
				resumes, detail = 1, "going on after a pause"
			} else {
				note.Resumes++
			}
			note.Resting = false
			att, err = tx.UpdateAttempt(ctx, list[open].ID, func(a *core.Attempt) error {
				a.Detail = mustJSON(note)
				return nil
			})
		} else {
			att, err = tx.CreateAttempt(ctx, core.Attempt{
				ID: core.NewAttemptID(), Run: job.Run.ID, Node: node, State: core.AttemptRunning, Started: time.Now().UTC(),
			})
		}
		if err != nil {
			return err
		}
		if _, err := tx.UpdateRun(ctx, job.Run.ID, func(r *core.Run) error { r.Node = node; return nil }); err != nil {
			return err
		}
		return j.event(ctx, tx, job, att, core.EventNodeStarted, core.NodeData{
			Node: node, Kind: spec.Kind(), Title: spec.Title, Number: att.Number, Detail: detail,
		})
	})
	return att, resumes, err
}

// Visits implements Journal.
func (j *SQLJournal) Visits(ctx context.Context, run core.RunID) (map[string]int, error) {
	list, err := j.db.Attempts(ctx, run)
	if err != nil {
		return nil, err
	}
	out := map[string]int{}
	for _, a := range list {
		if a.State != core.AttemptRunning {
			out[a.Node]++
		}
	}
	return out, nil
}

// Leave implements Journal.
func (j *SQLJournal) Leave(ctx context.Context, job Job, att core.Attempt, spec Node, out Outcome, next string, data Data) error {
	return j.db.Fenced(ctx, job.Fence, func(tx *store.Tx) error {
		now := time.Now().UTC()
		state := core.AttemptDone
		if out.Result == ResultFault || out.Result == ResultTimeout {
			state = core.AttemptFailed
		}
		a, err := tx.UpdateAttempt(ctx, att.ID, func(a *core.Attempt) error {
			var note resumeNote
			_ = json.Unmarshal(a.Detail, &note)
			note.Text = out.Detail
			a.State, a.Result, a.Detail, a.Finished = state, out.Result, mustJSON(note), now
			return nil
		})
		if err != nil {
			return err
		}
		if _, err := tx.UpdateRun(ctx, job.Run.ID, func(r *core.Run) error {
			r.Node, r.Data = next, mustJSON(data)
			return nil
		}); err != nil {
			return err
		}
		return j.event(ctx, tx, job, a, core.EventNodeFinished, core.NodeData{
			Node: att.Node, Kind: spec.Kind(), Title: spec.Title, Number: att.Number, Result: out.Result, Detail: out.Detail, Duration: now.Sub(att.Started),
		})
	})
}

// Rest implements Journal.
func (j *SQLJournal) Rest(ctx context.Context, job Job, att core.Attempt) error {
	return j.db.Fenced(ctx, job.Fence, func(tx *store.Tx) error {
		_, err := tx.UpdateAttempt(ctx, att.ID, func(a *core.Attempt) error {
			var note resumeNote
			_ = json.Unmarshal(a.Detail, &note)
			note.Resting = true
			a.Detail = mustJSON(note)
			return nil
		})
		return err
	})
}

// Skip implements Journal.
func (j *SQLJournal) Skip(ctx context.Context, job Job, node, next, why string) error {
	return j.db.Fenced(ctx, job.Fence, func(tx *store.Tx) error {
		if _, err := tx.UpdateRun(ctx, job.Run.ID, func(r *core.Run) error { r.Node = next; return nil }); err != nil {
			return err
		}
		return j.event(ctx, tx, job, core.Attempt{Node: node}, core.EventNodeFinished, core.NodeData{
			Node: node, Title: why, Result: ResultSpent, Detail: why,
		})
	})
}

// Load implements Journal.
func (j *SQLJournal) Load(ctx context.Context, run core.RunID) (core.Run, error) {
	return j.db.Run(ctx, run)
}

func (j *SQLJournal) event(ctx context.Context, tx *store.Tx, job Job, att core.Attempt, kind core.EventKind, data core.NodeData) error {
	e := core.NewEvent(kind, data)
	e.Run, e.Node, e.Attempt, e.Actor = job.Run.ID, att.Node, att.ID, "platform"
	_, err := j.log.AppendTx(ctx, tx, string(job.Session.ID), e)
	return err
}

func mustJSON(v any) json.RawMessage {
	raw, err := json.Marshal(v)
	if err != nil {
		panic("blueprint: not JSON: " + err.Error())
	}
	return raw
}
