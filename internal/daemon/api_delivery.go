package daemon

import (
	"context"
	"log/slog"

	"drydock/internal/control/selection"
	"drydock/internal/core"
	"drydock/internal/delivery/change"
	"drydock/internal/delivery/forge"
	"drydock/internal/surface/api"
	"drydock/internal/surface/server"
)

// changes gives the interface changes and their review.
type changes struct {
	s          *change.Service
	selections *selection.Service
	// moved hears of a repository whose base has moved.
	moved func(ctx context.Context, repository string)
	log   *slog.Logger
}

var (
	_ server.Changes = changes{}
	_ server.Review  = changes{}
)

func (c changes) Get(ctx context.Context, ref string) (core.Change, error) {
	got, err := c.s.Get(ctx, ref)
	if err != nil {
		return got, err
	}
	one := []core.Change{got}
	err = c.mark(ctx, one)
	return one[0], err
}

func (c changes) List(ctx context.Context, f core.ChangeFilter, page core.Page) ([]core.Change, string, error) {
	list, next, err := c.s.List(ctx, f, page)
	if err != nil {
		return nil, "", err
	}
	return list, next, c.mark(ctx, list)
}

// mark says which changes are candidates of selections.
func (c changes) mark(ctx context.Context, list []core.Change) error {
	undecided, err := c.selections.Undecided(ctx)
	for i := range list {
		if list[i].State == core.ChangeOpen && list[i].Session != "" {
			list[i].Candidate = undecided[list[i].Session]
		}
	}
	return err
}

func (c changes) Commits(ctx context.Context, id core.ChangeID) ([]api.Commit, error) {
	list, err := c.s.Commits(ctx, id)
	if err != nil {
		return nil, err
	}
	out := make([]api.Commit, 0, len(list))
	for _, k := range list {
		out = append(out, api.Commit{ID: k.ID, Subject: k.Subject, Body: k.Message, Author: k.Author.Name, Email: k.Author.Email, Time: k.Time})
	}
	return out, nil
}

func (c changes) Diff(ctx context.Context, id core.ChangeID) (string, error) {
	d, err := c.s.Diff(ctx, id, forge.DiffOptions{})
	return d.Patch, err
}

func (c changes) Comments(ctx context.Context, id core.ChangeID) ([]core.Comment, error) {
	return c.s.Comments(ctx, id)
}

func (c changes) ChangeApprovals(ctx context.Context, id core.ChangeID) ([]core.ChangeApproval, error) {
	return c.s.Approvals(ctx, id)
}

func (c changes) Comment(ctx context.Context, id core.ChangeID, by core.Author, body, path string, line int) (core.Comment, error) {
	return c.s.Comment(ctx, forge.NewComment{Change: id, Author: by, Body: body, Path: path, Line: line})
}

func (c changes) Approve(ctx context.Context, id core.ChangeID, by core.Author, head, note string) (core.ChangeApproval, error) {
	return c.s.Approve(ctx, forge.NewApproval{Change: id, By: by, Head: head, Note: note})
}

func (c changes) Merge(ctx context.Context, id core.ChangeID, by core.Author, method, head string) (core.Change, error) {
	before, err := c.s.Get(ctx, string(id))
	if err != nil {
		return before, err
	}
	if err := c.selections.MayMerge(ctx, before); err != nil {
		return before, err
	}
	done, err := c.s.Merge(ctx, forge.MergeRequest{Change: id, By: by, Method: forge.Method(method), Head: head})
	if err != nil {
		return done, err
	}
	c.moved(ctx, done.Repository)
	if err := c.selections.Merged(ctx, done, by); err != nil {
		c.log.Warn("a merge is taken for a pick later", "change", id, "err", err)
	}
	return done, nil
}

func (c changes) Close(ctx context.Context, id core.ChangeID, by core.Author, _ string) (core.Change, error) {
	return c.s.Close(ctx, id, by)
}

func (c changes) Reopen(ctx context.Context, id core.ChangeID, by core.Author) (core.Change, error) {
	return c.s.Reopen(ctx, id, by)
}
