package store

import (
	"context"
	"time"

	"drydock/internal/core"
)

// Evidence is the row of a bundle; the bundle itself lies in the blob store.
type Evidence struct {
	ID      core.EvidenceID `json:"id"`
	Session core.SessionID  `json:"session,omitempty"`
	Run     core.RunID      `json:"run,omitempty"`
	Verdict string          `json:"verdict"`
	Digest  string          `json:"digest"` // of the bundle's manifest
	Created time.Time       `json:"created"`
}

var evidenceTable = table[Evidence]{
	name: "evidence", noun: "evidence", columns: "id, session, run, verdict, digest, created",
	fields: func(e *Evidence) []any {
		return []any{&e.ID, &e.Session, &e.Run, &e.Verdict, &e.Digest, stamp{&e.Created}}
	},
}

// CreateEvidence adds one.
func (w Writer) CreateEvidence(ctx context.Context, e Evidence) error {
	return w.in(ctx, func(c conn) error { return evidenceTable.insert(ctx, c, &e) })
}

// Evidence finds one.
func (r Reader) Evidence(ctx context.Context, id core.EvidenceID) (Evidence, error) {
	return evidenceTable.get(ctx, r.q, id, "WHERE id = ?", id)
}

// EvidenceOf lists a session's bundles, newest first.
func (r Reader) EvidenceOf(ctx context.Context, session core.SessionID) ([]Evidence, error) {
	return evidenceTable.list(ctx, r.q, "WHERE session = ? ORDER BY id DESC", session)
}

// NewestEvidence is a session's newest bundle, or NotFound.
func (r Reader) NewestEvidence(ctx context.Context, session core.SessionID) (Evidence, error) {
	return evidenceTable.get(ctx, r.q, "of session "+string(session), "WHERE session = ? ORDER BY id DESC LIMIT 1", session)
}
