package daemon

import (
	"context"
	"time"

	"drydock/internal/control/event"
	"drydock/internal/control/proving"
	"drydock/internal/core"
	"drydock/internal/delivery/change"
	"drydock/internal/store"
	"drydock/internal/surface/api"
	"drydock/internal/surface/server"
)

// approvals are questions to people. So far there is one kind: to stand for
// findings of a proof.
type approvals struct {
	db      *store.DB
	events  *event.Log
	prover  *proving.Prover
	changes *change.Service
}

var _ server.Approvals = approvals{}

// ListApprovals implements server.Approvals.
func (a approvals) ListApprovals(ctx context.Context, f server.ApprovalFilter, page core.Page) ([]api.Approval, string, error) {
	rows, next, err := a.db.Approvals(ctx, f.Session, f.State, page)
	if err != nil {
		return nil, "", err
	}
	out := make([]api.Approval, 0, len(rows))
	for _, row := range rows {
		out = append(out, api.Approval(row))
	}
	return out, next, nil
}

// AnswerApproval implements server.Approvals. Nobody answers what their own
// prompt led to.
func (a approvals) AnswerApproval(ctx context.Context, id core.ApprovalID, by core.Author, yes bool, note string) (api.Approval, error) {
	row, err := a.db.Approval(ctx, id)
	if err != nil {
		return api.Approval{}, err
	}
	if row.State != core.ApprovalPending {
		return api.Approval{}, core.E("approval.answer", core.Conflict, nil, "approval %s is %s already, by %s", id, row.State, row.DecidedBy)
	}
	if row.AskedBy == by.Handle {
		return api.Approval{}, core.E("approval.answer", core.Denied, nil, "%s asked for the work that this question is about", by.Handle).
			WithHint("somebody else has to answer")
	}
	state := core.ApprovalDenied
	if yes {
		state = core.ApprovalApproved
		if err := a.acknowledge(ctx, row, by, note); err != nil {
			return api.Approval{}, err
		}
	}
	err = a.db.Tx(ctx, func(tx *store.Tx) error {
		if row, err = tx.UpdateApproval(ctx, id, func(v *store.Approval) error {
			v.State, v.DecidedBy, v.Note, v.Decided = state, by.Handle, note, time.Now().UTC()
			return nil
		}); err != nil {
			return err
		}
		e := core.NewEvent(core.EventApproval, core.ApprovalData{Approval: id, State: state, Question: row.Question, By: by.Handle})
		e.Run, e.Actor = row.Run, by.Handle
		_, err := a.events.AppendTx(ctx, tx, string(row.Session), e)
		return err
	})
	return api.Approval(row), err
}

// acknowledge judges the proof again and brings the new verdict to the change.
func (a approvals) acknowledge(ctx context.Context, row store.Approval, by core.Author, note string) error {
	got, err := a.prover.Acknowledge(ctx, row, by, note)
	if err != nil {
		return err
	}
	e := core.NewEvent(core.EventVerdict, got.Data)
	e.Run, e.Actor = row.Run, by.Handle
	if _, err := a.events.Append(ctx, string(row.Session), e); err != nil {
		return err
	}
	s, err := a.db.Session(ctx, row.Session)
	if err != nil || s.Change == "" {
		return err
	}
	return a.changes.Rejudge(ctx, s.Change, got.Evidence, got.Verdict, got.Markdown)
}
