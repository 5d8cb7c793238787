package store

import (
	"context"

	"drydock/internal/core"
)

var commentTable = table[core.Comment]{
	name: "comments", noun: "comment",
	columns: "id, change_id, author, author_name, author_email, body, path, line, head, prompt, thread, created",
	fields: func(c *core.Comment) []any {
		return []any{
			&c.ID, &c.Change, &c.Author.Handle, &c.Author.Name, &c.Author.Email, &c.Body, &c.Path, &c.Line, &c.Head, &c.Prompt, &c.Thread, stamp{&c.Created},
		}
	},
}

// CreateComment adds one; its change must exist. If a comment was made under
// the same effect key before, that one is returned and added is false.
func (w Writer) CreateComment(ctx context.Context, effectKey string, cm core.Comment) (stored core.Comment, added bool, err error) {
	err = w.in(ctx, func(c conn) error {
		if effectKey != "" {
			old, err := commentTable.get(ctx, c, effectKey, "WHERE effect_key = ?", effectKey)
			if err == nil {
				stored = old
				return nil
			}
			if !core.Is(err, core.NotFound) {
				return err
			}
		}
		stored, added = cm, true
		return commentTable.insert(ctx, c, &cm, "effect_key", effectKey)
	})
	if err != nil {
		return core.Comment{}, false, err
	}
	return stored, added, nil
}

// Comment finds one.
func (r Reader) Comment(ctx context.Context, id core.CommentID) (core.Comment, error) {
	return commentTable.get(ctx, r.q, id, "WHERE id = ?", id)
}

// Comments lists those of a change, oldest first.
func (r Reader) Comments(ctx context.Context, change core.ChangeID) ([]core.Comment, error) {
	return commentTable.list(ctx, r.q, "WHERE change_id = ? ORDER BY created, id", change)
}

// UpdateComment changes one, for example to name the prompt it became.
func (w Writer) UpdateComment(ctx context.Context, id core.CommentID, change func(*core.Comment) error) (core.Comment, error) {
	return commentTable.change(ctx, w, id, change)
}
