package store

import (
	"context"
	"time"

	"drydock/internal/core"
)

// maxViewed bounds the marks of one person on one change.
const maxViewed = 5000

// viewedRow is one mark; a path need not be UTF-8.
type viewedRow struct {
	path []byte
	blob string
}

var viewedTable = table[viewedRow]{
	name: "change_viewed", noun: "mark", columns: "path, blob",
	fields: func(v *viewedRow) []any { return []any{&v.path, &v.blob} },
}

// SetViewed marks one file as looked at by a person, or takes the mark away.
func (w Writer) SetViewed(ctx context.Context, change core.ChangeID, author string, m core.ViewedMark) error {
	return w.in(ctx, func(c conn) error {
		_, err := c.exec(ctx, `DELETE FROM change_viewed WHERE change_id = ? AND author = ? AND path = ?`, change, author, []byte(m.Path))
		if err != nil || !m.Viewed {
			return c.d.explain(ctx, "store.viewed", err, changeTable.what(change))
		}
		var n int
		if err := c.row(ctx, `SELECT COUNT(*) FROM change_viewed WHERE change_id = ? AND author = ?`, change, author).Scan(&n); err != nil {
			return c.d.explain(ctx, "store.viewed", err, changeTable.what(change))
		}
		if n >= maxViewed {
			return core.E("store.viewed", core.Exhausted, nil, "%s has marked %d files of change %s already", author, n, change)
		}
		_, err = c.exec(ctx, `INSERT INTO change_viewed (change_id, author, path, blob, at) VALUES (?, ?, ?, ?, ?)`, change, author, []byte(m.Path), m.Blob, nanos(now()))
		return c.d.explain(ctx, "store.viewed", err, changeTable.what(change))
	})
}

// Viewed is the content of each file that a person has looked at, by path.
func (r Reader) Viewed(ctx context.Context, change core.ChangeID, author string) (map[string]string, error) {
	rows, err := viewedTable.list(ctx, r.q, "WHERE change_id = ? AND author = ?", change, author)
	out := make(map[string]string, len(rows))
	for _, v := range rows {
		out[string(v.path)] = v.blob
	}
	return out, err
}

var seenTable = table[core.SeenMark]{
	name: "change_seen", noun: "look at change", columns: "head, base_commit, at",
	fields: func(s *core.SeenMark) []any { return []any{&s.Head, &s.Base, stamp{&s.At}} },
}

// SetSeen remembers which head a person looked at last.
func (w Writer) SetSeen(ctx context.Context, change core.ChangeID, author string, s core.SeenMark) error {
	return w.in(ctx, func(c conn) error {
		_, err := c.exec(ctx, `INSERT INTO change_seen (change_id, author, head, base_commit, at) VALUES (?, ?, ?, ?, ?)
			ON CONFLICT (change_id, author) DO UPDATE SET head = excluded.head, base_commit = excluded.base_commit, at = excluded.at`,
			change, author, s.Head, s.Base, nanos(s.At))
		return c.d.explain(ctx, "store.seen", err, changeTable.what(change))
	})
}

// Seen is the head that a person looked at last, or NotFound.
func (r Reader) Seen(ctx context.Context, change core.ChangeID, author string) (core.SeenMark, error) {
	return seenTable.get(ctx, r.q, change, "WHERE change_id = ? AND author = ?", change, author)
}

var noteTable = table[core.Note]{
	name: "change_drafts", noun: "draft", columns: "id, change_id, author, client_id, anchor, body, created, updated",
	fields: func(n *core.Note) []any {
		return []any{&n.ID, &n.Change, &n.Author, &n.ClientID, asDoc(&n.Anchor), &n.Body, stamp{&n.Created}, stamp{&n.Updated}}
	},
	updated: func(n *core.Note) *time.Time { return &n.Updated },
}

// MaxNotes bounds what one person is writing on one change.
const MaxNotes = 200

// AddNote keeps a draft. The same client id of the same person is the same
// draft: nothing is written and added is false.
func (w Writer) AddNote(ctx context.Context, n core.Note) (stored core.Note, added bool, err error) {
	err = w.in(ctx, func(c conn) error {
		if n.ClientID != "" {
			old, err := noteTable.get(ctx, c, n.ClientID, "WHERE change_id = ? AND author = ? AND client_id = ?", n.Change, n.Author, n.ClientID)
			if err == nil {
				stored = old
				return nil
			}
			if !core.Is(err, core.NotFound) {
				return err
			}
		}
		have, err := Reader{c}.Notes(ctx, n.Change, n.Author)
		if err != nil {
			return err
		}
		if len(have) >= MaxNotes {
			return core.E("store.draft", core.Exhausted, nil, "%s has %d drafts on change %s already", n.Author, len(have), n.Change).WithHint("send or remove some")
		}
		stored, added = n, true
		return noteTable.insert(ctx, c, &n)
	})
	return stored, added, err
}

// Note finds one draft.
func (r Reader) Note(ctx context.Context, id core.NoteID) (core.Note, error) {
	return noteTable.get(ctx, r.q, id, "WHERE id = ?", id)
}

// Notes lists what a person is writing on a change, oldest first.
func (r Reader) Notes(ctx context.Context, change core.ChangeID, author string) ([]core.Note, error) {
	return noteTable.list(ctx, r.q, "WHERE change_id = ? AND author = ? ORDER BY created, id", change, author)
}

// UpdateNote changes one draft.
func (w Writer) UpdateNote(ctx context.Context, id core.NoteID, change func(*core.Note) error) (core.Note, error) {
	return noteTable.change(ctx, w, id, change)
}

// RemoveNote removes one draft.
func (w Writer) RemoveNote(ctx context.Context, id core.NoteID) error {
	return w.in(ctx, func(c conn) error {
		_, err := c.exec(ctx, `DELETE FROM change_drafts WHERE id = ?`, id)
		return c.d.explain(ctx, "store.draft", err, noteTable.what(id))
	})
}

var threadTable = table[core.ThreadMark]{
	name: "change_threads", noun: "thread", columns: "id, change_id, anchor, resolved_by, resolved",
	fields: func(t *core.ThreadMark) []any {
		return []any{&t.ID, &t.Change, asDoc(&t.Anchor), &t.ResolvedBy, stamp{&t.Resolved}}
	},
}

// AddThread keeps what is known of a thread.
func (w Writer) AddThread(ctx context.Context, t core.ThreadMark) error {
	return w.in(ctx, func(c conn) error { return threadTable.insert(ctx, c, &t) })
}

// Thread finds one, or NotFound when there is only its comment.
func (r Reader) Thread(ctx context.Context, id core.ThreadID) (core.ThreadMark, error) {
	return threadTable.get(ctx, r.q, id, "WHERE id = ?", id)
}

// Threads lists those of a change that have a row.
func (r Reader) Threads(ctx context.Context, change core.ChangeID) ([]core.ThreadMark, error) {
	return threadTable.list(ctx, r.q, "WHERE change_id = ? ORDER BY id", change)
}

// UpdateThread changes one.
func (w Writer) UpdateThread(ctx context.Context, id core.ThreadID, change func(*core.ThreadMark) error) (core.ThreadMark, error) {
	return threadTable.change(ctx, w, id, change)
}
