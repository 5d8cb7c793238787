package store

import (
	"context"
	"encoding/json"
	"time"

	"drydock/internal/core"
)

// Approval is a question to a person that a run waits for.
type Approval struct {
	ID        core.ApprovalID    `json:"id"`
	Session   core.SessionID     `json:"session"`
	Run       core.RunID         `json:"run,omitempty"`
	Node      string             `json:"node,omitempty"`
	Kind      string             `json:"kind"`     // what is asked for, a fixed word
	Question  string             `json:"question"` // one sentence for people
	Detail    json.RawMessage    `json:"detail,omitempty"`
	AskedBy   string             `json:"asked_by"` // handle of the prompt's author, who may not answer
	State     core.ApprovalState `json:"state"`
	DecidedBy string             `json:"decided_by,omitempty"`
	Note      string             `json:"note,omitempty"`
	Deadline  time.Time          `json:"deadline,omitzero"`
	Created   time.Time          `json:"created"`
	Decided   time.Time          `json:"decided,omitzero"`
}

var approvalTable = table[Approval]{
	name: "approvals", noun: "approval",
	columns: "id, session, run, node, kind, question, detail, asked_by, state, decided_by, note, deadline, created, decided",
	fields: func(a *Approval) []any {
		return []any{
			&a.ID, &a.Session, &a.Run, &a.Node, &a.Kind, &a.Question, asDoc(&a.Detail), &a.AskedBy, &a.State,
			&a.DecidedBy, &a.Note,
			stamp{&a.Deadline},
			stamp{&a.Created},
			stamp{&a.Decided},
		}
	},
}

// CreateApproval adds one.
func (w Writer) CreateApproval(ctx context.Context, a Approval) error {
	return w.in(ctx, func(c conn) error { return approvalTable.insert(ctx, c, &a) })
}

// Approval finds one.
func (r Reader) Approval(ctx context.Context, id core.ApprovalID) (Approval, error) {
	return approvalTable.get(ctx, r.q, id, "WHERE id = ?", id)
}

// Approvals lists newest first; an empty state or session does not narrow.
func (r Reader) Approvals(ctx context.Context, session core.SessionID, state core.ApprovalState, p core.Page) ([]Approval, string, error) {
	var where conditions
	where.equal("session", session)
	where.equal("state", state)
	return approvalTable.page(ctx, r.q, p, where.sql, where.args)
}

// UpdateApproval changes one; its state moves along core.ApprovalTable only.
func (w Writer) UpdateApproval(ctx context.Context, id core.ApprovalID, change func(*Approval) error) (Approval, error) {
	return moveAlong(ctx, w, approvalTable, id, core.ApprovalTable, func(a *Approval) core.ApprovalState { return a.State }, change)
}
