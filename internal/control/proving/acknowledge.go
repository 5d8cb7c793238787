package proving

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"drydock/internal/core"
	"drydock/internal/proof/evidence"
	"drydock/internal/proof/exam"
	"drydock/internal/store"
)

// KindAcknowledge is the kind of an approval that asks a person to stand for
// findings: changed expectations, tests that are gone, edited harness files.
const KindAcknowledge = "acknowledge"

// question is the detail of such an approval.
type question struct {
	Evidence core.EvidenceID `json:"evidence"`
	Head     string          `json:"head"`
	Findings []string        `json:"findings"`
	Texts    []string        `json:"texts"`
}

// ask opens the question that an unconfirmed verdict waits for. The proof goes
// on without an answer: the change is delivered as unproven until somebody
// speaks. It is named after the evidence, so asking twice is one question.
func (p *Prover) ask(ctx context.Context, id core.EvidenceID, session core.SessionID, run core.RunID, author string, r exam.Result) error {
	if r.Code != exam.CodeUnconfirmed {
		return nil
	}
	q := question{Evidence: id, Head: r.Exam.Head}
	for _, f := range r.Open() {
		q.Findings = append(q.Findings, f.ID)
		q.Texts = append(q.Texts, f.Text)
	}
	detail, err := json.Marshal(q)
	if err != nil {
		return core.E("proving.ask", core.Internal, err, "findings of evidence %s", id)
	}
	a := store.Approval{
		ID: core.ApprovalID("apr_" + strings.TrimPrefix(string(id), "evd_")), Session: session, Run: run, Kind: KindAcknowledge,
		Question: fmt.Sprintf("Are these %d findings meant? %s", len(q.Texts), strings.Join(q.Texts, "; ")),
		Detail:   detail, AskedBy: author, State: core.ApprovalPending, Created: time.Now().UTC(),
	}
	err = p.d.DB.Tx(ctx, func(tx *store.Tx) error {
		if err := tx.CreateApproval(ctx, a); err != nil {
			return err
		}
		e := core.NewEvent(core.EventApproval, core.ApprovalData{Approval: a.ID, State: a.State, Question: a.Question})
		e.Run, e.Actor = run, "platform"
		_, err := p.d.Events.AppendTx(ctx, tx, string(session), e)
		return err
	})
	if core.Is(err, core.Conflict) {
		return nil
	}
	return err
}

// Acknowledged is what a person's word made of a proof.
type Acknowledged struct {
	Evidence core.EvidenceID
	Verdict  string
	Markdown string
	Data     core.VerdictData
}

// Acknowledge enters a person's yes to the findings of an approval, judges
// again and writes new evidence with the word in it. An author of a prompt of
// the change is Denied. The first evidence stays as it was.
func (p *Prover) Acknowledge(ctx context.Context, a store.Approval, by core.Author, note string) (Acknowledged, error) {
	var q question
	if a.Kind != KindAcknowledge || json.Unmarshal(a.Detail, &q) != nil {
		return Acknowledged{}, core.E("proving.acknowledge", core.Invalid, nil, "approval %s asks nothing about findings", a.ID)
	}
	if _, err := p.found(ctx, q.Evidence); err != nil {
		return Acknowledged{}, err
	}
	m, err := evidence.ReadManifest(ctx, p.dir(q.Evidence))
	if err != nil {
		return Acknowledged{}, err
	}
	r := m.Result
	if err := r.Acknowledge(exam.Acknowledgement{By: by.Handle, Head: q.Head, Findings: q.Findings, Note: note, At: time.Now().UTC()}); err != nil {
		return Acknowledged{}, err
	}
	id := core.NewEvidenceID()
	if err := p.keep(ctx, id, a.Session, a.Run, r); err != nil {
		return Acknowledged{}, err
	}
	proof := p.proof(r, id)
	return Acknowledged{Evidence: id, Verdict: proof.Verdict, Markdown: proof.Markdown, Data: proof.Data}, nil
}
