package local

import (
	"context"
	"strings"
	"time"

	"drydock/internal/core"
	"drydock/internal/delivery/forge"
	"drydock/internal/gitcmd"
)

// Poll looks at every open change: its comments since a moment, a branch that
// stands elsewhere than Drydock knows, a base that has everything in it.
func (f *Forge) Poll(ctx context.Context, since time.Time) ([]forge.Activity, error) {
	var out []forge.Activity
	views := map[string]view{} // a repository is looked at once
	for page := (core.Page{Limit: core.MaxPage}); ; {
		list, next, err := f.records.Changes(ctx, core.ChangeFilter{State: core.ChangeOpen}, page)
		if err != nil {
			return out, err
		}
		for _, c := range list {
			v, ok := views[c.Repository]
			if !ok {
				if v, err = f.look(ctx, c.Repository); err == nil {
					views[c.Repository] = v
				}
			}
			var found []forge.Activity
			if err == nil {
				found, err = f.pollOne(ctx, v, c, since)
			}
			if err != nil {
				if ctx.Err() != nil {
					return out, err
				}
				f.log.Warn("change cannot be polled", "change", c.ID, "err", err) // one broken repository must not hide the others
				continue
			}
			out = append(out, found...)
		}
		if next == "" {
			return out, nil
		}
		page.Cursor = next
	}
}

func (f *Forge) pollOne(ctx context.Context, v view, recorded core.Change, since time.Time) ([]forge.Activity, error) {
	c, err := f.liveIn(ctx, v, recorded)
	if err != nil {
		return nil, err
	}
	var out []forge.Activity
	if c.State == core.ChangeOpen && c.Head != recorded.Head {
		pushed, err := f.pushed(ctx, v, c, recorded.Head)
		if err != nil {
			return nil, err
		}
		if pushed != nil {
			out = append(out, *pushed)
		}
	}
	comments, err := f.records.Comments(ctx, c.ID)
	if err != nil {
		return nil, err
	}
	for _, cm := range comments {
		if cm.Created.Before(since) || cm.Author.Handle == f.opts.Committer.Handle {
			continue
		}
		out = append(out, forge.Activity{Key: "comment:" + string(cm.ID), Kind: forge.Commented, Change: c, By: cm.Author, Comment: &cm})
	}
	if c.State == core.ChangeMerged { // a merge that was cut short has just been finished
		out = append(out, forge.Activity{Key: mergeKey(c), Kind: forge.Merged, Change: c, Head: c.Head})
	}
	if c.State == core.ChangeOpen {
		merged, err := f.mergedByHand(ctx, v, c)
		if err != nil {
			return nil, err
		}
		if merged != nil {
			out = append(out, *merged)
		}
	}
	return out, nil
}

// pushed tells of a branch that a person moved; nil when the platform did.
func (f *Forge) pushed(ctx context.Context, v view, c core.Change, before string) (*forge.Activity, error) {
	if v.refs[platform+c.Branch] == c.Head {
		return nil, nil
	}
	a := &forge.Activity{Key: "push:" + string(c.ID) + ":" + c.Head, Kind: forge.Pushed, Change: c, Head: c.Head, Before: before}
	pushers, err := f.pushers(ctx, v.repo, c.Branch)
	if err != nil {
		return nil, err
	}
	for _, p := range pushers {
		if p.commit == c.Head {
			a.By = p.who
			break
		}
	}
	return a, nil
}

// pusher is who moved a branch to a commit, as the log of the branch has it.
type pusher struct {
	commit string
	who    core.Author
}

// pushers reads who pushed a branch, newest first. Over HTTP the handler
// writes the name of the account; by path it is what the person's git says.
func (f *Forge) pushers(ctx context.Context, r *repo, branch string) ([]pusher, error) {
	if at, err := r.ReadRef(ctx, heads+branch); err != nil || at == "" {
		return nil, err
	}
	out, err := f.git.Run(ctx, r.Dir(), "log", "-g", "-z", "--max-count=200", "--format=tformat:%H%x09%gn%x09%ge", heads+branch, "--")
	if err != nil {
		return nil, err
	}
	var list []pusher
	for record := range strings.SplitSeq(string(out), "\x00") {
		p := strings.SplitN(record, "\t", 3)
		if len(p) == 3 && gitcmd.IsCommitID(p[0]) {
			list = append(list, pusher{commit: p[0], who: core.Author{Handle: p[1], Name: p[1], Email: p[2]}})
		}
	}
	return list, nil
}

func mergeKey(c core.Change) string { return "merge:" + string(c.ID) }

// mergedByHand finds a change whose commits somebody brought into the base
// with git, and marks it.
func (f *Forge) mergedByHand(ctx context.Context, v view, c core.Change) (*forge.Activity, error) {
	r, tip := v.repo, v.refs[heads+c.Base]
	seen := c.Head + " " + tip
	f.mu.Lock()
	known := f.apart[c.ID] == seen
	f.mu.Unlock()
	if tip == "" || known || c.Head == c.BaseCommit {
		return nil, nil
	}
	there, err := r.IsAncestor(ctx, c.Head, tip)
	if err != nil {
		return nil, err
	}
	if !there {
		f.mu.Lock()
		if len(f.apart) > 10_000 { // only a cache
			clear(f.apart)
		}
		f.apart[c.ID] = seen
		f.mu.Unlock()
		return nil, nil
	}
	if err := f.keep(ctx, r, c); err != nil {
		return nil, err
	}
	merged, err := f.finishMerge(ctx, r, c, tip)
	if err != nil {
		return nil, err
	}
	a := &forge.Activity{Key: mergeKey(merged), Kind: forge.Merged, Change: merged, Head: merged.Head}
	pushers, err := f.pushers(ctx, r, c.Base)
	if err == nil && len(pushers) > 0 && pushers[0].commit == tip {
		a.By = pushers[0].who
	}
	return a, err
}
