package local

import (
	"context"
	"strings"

	"drydock/internal/core"
	"drydock/internal/delivery/forge"
	"drydock/internal/gitcmd"
	"drydock/internal/gitcmd/mirror"
)

// Comment writes a comment, on a change in any state.
func (f *Forge) Comment(ctx context.Context, c forge.NewComment) (core.Comment, error) {
	const op = "forge.comment"
	if err := checkText(op, "the comment", c.Body, maxComment); err != nil {
		return core.Comment{}, err
	}
	if c.Author.Handle == "" {
		return core.Comment{}, core.E(op, core.Unauthorized, nil, "a comment without an author")
	}
	if c.Path != "" {
		if err := gitcmd.CheckPath(c.Path); err != nil {
			return core.Comment{}, err
		}
	}
	if c.Line < 0 || c.Line > 0 && c.Path == "" {
		return core.Comment{}, core.E(op, core.Invalid, nil, "line %d without a file", c.Line)
	}
	change, err := f.Change(ctx, c.Change)
	if err != nil {
		return core.Comment{}, err
	}
	comment := core.Comment{
		ID: core.NewCommentID(), Change: c.Change, Author: c.Author, Body: c.Body, Path: c.Path, Line: c.Line,
		Head: change.Head, Created: f.opts.Now().UTC(),
	}
	stored, _, err := f.records.CreateComment(ctx, c.Key, comment)
	return stored, err
}

// Comments lists those of a change, oldest first.
func (f *Forge) Comments(ctx context.Context, id core.ChangeID) ([]core.Comment, error) {
	if _, err := f.records.Change(ctx, id); err != nil {
		return nil, err
	}
	return f.records.Comments(ctx, id)
}

// LinkComment remembers the prompt; the first one stays.
func (f *Forge) LinkComment(ctx context.Context, id core.CommentID, prompt core.PromptID) error {
	_, err := f.records.UpdateComment(ctx, id, func(c *core.Comment) error {
		if c.Prompt == "" {
			c.Prompt = prompt
		}
		return nil
	})
	return err
}

// Approve records that somebody looked at the head and agrees.
func (f *Forge) Approve(ctx context.Context, a forge.NewApproval) (core.ChangeApproval, error) {
	const op = "forge.approve"
	if a.By.Handle == "" {
		return core.ChangeApproval{}, core.E(op, core.Unauthorized, nil, "an approval without a name")
	}
	c, err := f.Change(ctx, a.Change)
	if err != nil {
		return core.ChangeApproval{}, err
	}
	if c.State != core.ChangeOpen {
		return core.ChangeApproval{}, core.E(op, core.Conflict, nil, "change %s#%d is %s", c.Repository, c.Number, c.State)
	}
	if a.Head == "" {
		a.Head = c.Head
	}
	if a.Head != c.Head {
		return core.ChangeApproval{}, core.E(op, core.Conflict, nil, "change %s#%d stands at %s, not at %s", c.Repository, c.Number, c.Head, clip(a.Head, 64)).
			WithHint("somebody pushed meanwhile; look at it again")
	}
	own, err := f.ownWork(ctx, c, a.By)
	if err != nil {
		return core.ChangeApproval{}, err
	}
	if own != "" {
		return core.ChangeApproval{}, core.E(op, core.Denied, nil, "%s %s of change %s#%d and cannot approve it", a.By.Handle, own, c.Repository, c.Number).
			WithHint("ask somebody else to look at it")
	}
	approval := core.ChangeApproval{Change: c.ID, By: a.By, Head: c.Head, Note: clip(a.Note, 4000), Created: f.opts.Now().UTC()}
	return approval, f.records.AddChangeApproval(ctx, approval)
}

// ownWork says in which way a change is somebody's own, or "".
func (f *Forge) ownWork(ctx context.Context, c core.Change, who core.Author) (string, error) {
	for _, a := range c.Authors {
		if a.Handle == who.Handle || sameMail(a.Email, who.Email) {
			return "wrote a prompt", nil
		}
	}
	_, r, from, err := f.span(ctx, c.ID)
	if err != nil {
		return "", err
	}
	log, err := r.Log(ctx, mirror.LogOptions{From: c.Head, Exclude: []string{from}, Max: maxCommits})
	if err != nil {
		return "", err
	}
	for _, l := range log {
		if sameMail(l.Author.Email, who.Email) || sameMail(l.Committer.Email, who.Email) {
			return "wrote a commit", nil
		}
	}
	pushers, err := f.pushers(ctx, r, c.Branch)
	if err != nil {
		return "", err
	}
	for _, p := range pushers {
		if p.who.Handle == who.Handle || sameMail(p.who.Email, who.Email) {
			return "pushed a commit", nil
		}
	}
	return "", nil
}

func sameMail(a, b string) bool { return a != "" && strings.EqualFold(a, b) }

// Approvals lists those that were given for the head as it is now.
func (f *Forge) Approvals(ctx context.Context, id core.ChangeID) ([]core.ChangeApproval, error) {
	c, err := f.Change(ctx, id)
	if err != nil {
		return nil, err
	}
	return f.approvals(ctx, c)
}

func (f *Forge) approvals(ctx context.Context, c core.Change) ([]core.ChangeApproval, error) {
	all, err := f.records.ChangeApprovals(ctx, c.ID)
	if err != nil {
		return nil, err
	}
	out := []core.ChangeApproval{}
	for _, a := range all {
		if a.Head != c.Head {
			continue
		}
		// Somebody whose prompt joined the change later is an author as well.
		own := false
		for _, author := range c.Authors {
			own = own || author.Handle == a.By.Handle || sameMail(author.Email, a.By.Email)
		}
		if !own {
			out = append(out, a)
		}
	}
	return out, nil
}
