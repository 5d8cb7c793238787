package local

import (
	"context"

	"drydock/internal/core"
	"drydock/internal/delivery/forge"
	"drydock/internal/gitcmd/mirror"
)

// Span tells between which commits a change lies.
func (f *Forge) Span(ctx context.Context, id core.ChangeID) (forge.Span, error) {
	c, r, from, err := f.span(ctx, id)
	if err != nil {
		return forge.Span{}, err
	}
	tip, err := f.tip(ctx, r, c)
	return forge.Span{Change: c, Base: from, Tip: tip, Dir: r.Dir()}, err
}

// tip is where the base of a change stands; of a merged one, where it stood
// before. It never has the change's own commits.
func (f *Forge) tip(ctx context.Context, r *repo, c core.Change) (string, error) {
	tip := ""
	switch {
	case c.State != core.ChangeMerged:
		at, err := r.ReadRef(ctx, heads+c.Base)
		if err != nil {
			return "", err
		}
		tip = at
	case c.Merge != "" && c.Merge != c.Head:
		log, err := r.Log(ctx, mirror.LogOptions{From: c.Merge, Max: 1})
		if err != nil {
			return "", err
		}
		if len(log) == 1 && len(log[0].Parents) > 0 {
			tip = log[0].Parents[0]
		}
	}
	if tip == "" {
		return c.BaseCommit, nil
	}
	// Merged by hand, or the commits are in the base under their own names.
	if has, err := r.IsAncestor(ctx, c.Head, tip); err != nil || has {
		return c.BaseCommit, err
	}
	return tip, nil
}

// Rights says what somebody may do with a change as it stands.
func (f *Forge) Rights(ctx context.Context, id core.ChangeID, who core.Author) (forge.Rights, error) {
	c, err := f.Change(ctx, id)
	if err != nil {
		return forge.Rights{}, err
	}
	var res forge.Rights
	own, err := f.ownWork(ctx, c, who)
	if err != nil {
		return res, err
	}
	if own != "" {
		res.Author = true
		res.Approve = "you " + own + " of it: somebody else has to look at it"
	}
	if c.State != core.ChangeOpen {
		res.Approve = "it is " + string(c.State)
	}
	if _, err := f.mayMerge(ctx, c, forge.MergeRequest{Change: id, By: who}); err != nil {
		if k := core.KindOf(err); k == core.Internal || k == core.Unavailable || k == core.Canceled {
			return res, err
		}
		res.Merge = err.Error()
	}
	return res, nil
}
