package store

import (
	"context"
	"time"

	"drydock/internal/core"
)

var changeTable = table[core.Change]{
	name: "changes", noun: "change",
	columns: "id, number, repository, session, title, body, state, base, branch, base_commit, head, merge_commit, " +
		"authors, evidence, verdict, url, environment, created, updated",
	fields: func(c *core.Change) []any {
		return []any{
			&c.ID, &c.Number, &c.Repository, &c.Session, &c.Title, &c.Body, &c.State, &c.Base, &c.Branch, &c.BaseCommit,
			&c.Head, &c.Merge, asDoc(&c.Authors), &c.Evidence, &c.Verdict, &c.URL, &c.Environment,
			stamp{&c.Created},
			stamp{&c.Updated},
		}
	},
	updated: func(v *core.Change) *time.Time { return &v.Updated },
}

// CreateChange adds one and, if its Number is 0, gives it the next number of
// its repository. If a change was made under the same effect key before, that
// one is returned, nothing is written and added is false.
func (w Writer) CreateChange(ctx context.Context, effectKey string, ch core.Change) (stored core.Change, added bool, err error) {
	err = w.in(ctx, func(c conn) error {
		if effectKey != "" {
			old, err := changeTable.get(ctx, c, effectKey, "WHERE effect_key = ?", effectKey)
			if err == nil {
				stored = old
				return nil
			}
			if !core.Is(err, core.NotFound) {
				return err
			}
		}
		if ch.Number == 0 {
			err := c.row(ctx, `SELECT COALESCE(MAX(number), 0) + 1 FROM changes WHERE repository = ?`, ch.Repository).Scan(&ch.Number)
			if err != nil {
				return c.d.explain(ctx, "store.change", err, changeTable.what(ch.ID))
			}
		}
		stored, added = ch, true
		return changeTable.insert(ctx, c, &ch, "effect_key", effectKey)
	})
	if err != nil {
		return core.Change{}, false, err
	}
	return stored, added, nil
}

// Change finds one.
func (r Reader) Change(ctx context.Context, id core.ChangeID) (core.Change, error) {
	return changeTable.get(ctx, r.q, id, "WHERE id = ?", id)
}

// ChangeByNumber finds one by its number in a repository.
func (r Reader) ChangeByNumber(ctx context.Context, repository string, number int64) (core.Change, error) {
	return changeTable.get(ctx, r.q, number, "WHERE repository = ? AND number = ?", repository, number)
}

// Changes lists newest first.
func (r Reader) Changes(ctx context.Context, f core.ChangeFilter, p core.Page) ([]core.Change, string, error) {
	var where conditions
	where.equal("repository", f.Repository)
	where.equal("state", f.State)
	where.equal("session", f.Session)
	return changeTable.page(ctx, r.q, p, where.sql, where.args)
}

// ChangesOfBranch lists the open changes of a branch, newest first.
func (r Reader) ChangesOfBranch(ctx context.Context, repository, branch string) ([]core.Change, error) {
	return changeTable.list(ctx, r.q, "WHERE repository = ? AND branch = ? AND state = ? ORDER BY id DESC", repository, branch, core.ChangeOpen)
}

// UpdateChange changes one; its state moves along core.ChangeTable only.
func (w Writer) UpdateChange(ctx context.Context, id core.ChangeID, change func(*core.Change) error) (core.Change, error) {
	return moveAlong(ctx, w, changeTable, id, core.ChangeTable, func(v *core.Change) core.ChangeState { return v.State }, change)
}

var changeApprovalTable = table[core.ChangeApproval]{
	name: "change_approvals", noun: "approval of change", columns: "change_id, author, author_name, author_email, head, note, created",
	fields: func(a *core.ChangeApproval) []any {
		return []any{&a.Change, &a.By.Handle, &a.By.Name, &a.By.Email, &a.Head, &a.Note, stamp{&a.Created}}
	},
}

// AddChangeApproval records that a person approved a commit of a change. The
// same person approving the same commit again changes only the note.
func (w Writer) AddChangeApproval(ctx context.Context, a core.ChangeApproval) error {
	if a.Created.IsZero() {
		a.Created = time.Now()
	}
	return w.in(ctx, func(c conn) error {
		_, err := c.exec(ctx, `DELETE FROM change_approvals WHERE change_id = ? AND author = ? AND head = ?`, a.Change, a.By.Handle, a.Head)
		if err != nil {
			return c.d.explain(ctx, "store.change", err, changeApprovalTable.what(a.Change))
		}
		return changeApprovalTable.insert(ctx, c, &a)
	})
}

// ChangeApprovals lists those of a change, oldest first.
func (r Reader) ChangeApprovals(ctx context.Context, change core.ChangeID) ([]core.ChangeApproval, error) {
	return changeApprovalTable.list(ctx, r.q, "WHERE change_id = ? ORDER BY created, author", change)
}
