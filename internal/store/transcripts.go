package store

import (
	"context"
	"encoding/json"

	"drydock/internal/core"
)

type transcriptEntry struct {
	seq   int64
	entry json.RawMessage
}

var transcriptTable = table[transcriptEntry]{
	name: "transcripts", noun: "transcript", columns: "seq, entry",
	fields: func(t *transcriptEntry) []any { return []any{&t.seq, asDoc(&t.entry)} },
}

// AppendTranscript adds an entry to an agent's memory of a node of a run.
func (w Writer) AppendTranscript(ctx context.Context, run core.RunID, node string, entry json.RawMessage) error {
	return w.in(ctx, func(c conn) error {
		_, err := c.exec(ctx, `INSERT INTO transcripts (run, node, seq, entry)
			SELECT ?, ?, COALESCE(MAX(seq), 0) + 1, ? FROM transcripts WHERE run = ? AND node = ?`, run, node, string(entry), run, node)
		return c.d.explain(ctx, "store.transcript", err, "transcript of run "+string(run))
	})
}

// Transcript returns all entries in the order they were added.
func (r Reader) Transcript(ctx context.Context, run core.RunID, node string) ([]json.RawMessage, error) {
	list, err := transcriptTable.list(ctx, r.q, "WHERE run = ? AND node = ? ORDER BY seq", run, node)
	out := make([]json.RawMessage, 0, len(list))
	for _, e := range list {
		out = append(out, e.entry)
	}
	return out, err
}
