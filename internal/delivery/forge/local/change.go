package local

import (
	"context"
	"slices"
	"strconv"
	"strings"

	"drydock/internal/core"
	"drydock/internal/delivery/forge"
	"drydock/internal/gitcmd"
	"drydock/internal/gitcmd/mirror"
)

const (
	maxTitle   = 300
	maxBody    = 256 << 10
	maxComment = 64 << 10
)

func checkText(op, what, s string, limit int) error {
	if strings.TrimSpace(s) == "" || len(s) > limit || strings.IndexByte(s, 0) >= 0 {
		return core.E(op, core.Invalid, nil, "%s is empty or longer than %d bytes", what, limit)
	}
	return nil
}

// OpenChange opens a change on a branch that exists.
func (f *Forge) OpenChange(ctx context.Context, c forge.NewChange) (core.Change, bool, error) {
	const op = "forge.open"
	if err := checkText(op, "the title of the change", c.Title, maxTitle); err != nil {
		return core.Change{}, false, err
	}
	if len(c.Body) > maxBody {
		return core.Change{}, false, core.E(op, core.Invalid, nil, "the body of the change has %d bytes, the limit is %d", len(c.Body), maxBody)
	}
	record, err := f.records.Repository(ctx, c.Repository)
	if err != nil {
		return core.Change{}, false, err
	}
	r, err := f.repo(ctx, c.Repository)
	if err != nil {
		return core.Change{}, false, err
	}
	if c.Base == "" {
		c.Base = record.DefaultBranch
	}
	head, forked, err := f.compare(ctx, r, c.Repository, c.Base, c.Branch)
	if err != nil {
		return core.Change{}, false, err
	}
	others, err := f.records.ChangesOfBranch(ctx, c.Repository, c.Branch)
	if err != nil {
		return core.Change{}, false, err
	}
	now := f.opts.Now().UTC()
	change := core.Change{
		ID: core.NewChangeID(), Repository: c.Repository, Session: c.Session, Title: c.Title, Body: c.Body, State: core.ChangeOpen,
		Base: c.Base, Branch: c.Branch, BaseCommit: forked, Head: head, Authors: withAuthors(nil, c.Authors), Evidence: c.Evidence,
		Verdict: c.Verdict, Environment: c.Environment, Created: now, Updated: now,
	}
	if f.opts.URL != "" {
		change.URL = strings.TrimRight(f.opts.URL, "/") + "/changes/" + string(change.ID)
	}
	if len(others) > 0 {
		// A number that is taken: the store finds the change of this key, or
		// refuses; it cannot make a second one.
		change.Number = others[0].Number
	}
	stored, added, err := f.records.CreateChange(ctx, c.Key, change)
	if err != nil {
		if len(others) > 0 && core.Is(err, core.Conflict) {
			err = taken(op, others[0])
		}
		return core.Change{}, false, err
	}
	if !added {
		stored, err = f.live(ctx, stored)
		return stored, false, err
	}
	if others, err := f.records.ChangesOfBranch(ctx, c.Repository, c.Branch); err == nil && len(others) > 1 {
		// Two were opened at once: the younger one gives way.
		oldest := others[len(others)-1]
		if oldest.ID != stored.ID {
			if _, err := f.setState(ctx, stored.ID, core.ChangeClosed); err != nil {
				return core.Change{}, false, err
			}
			return core.Change{}, false, taken(op, oldest)
		}
	}
	return stored, true, f.keep(ctx, r, stored)
}

func taken(op string, other core.Change) error {
	return core.E(op, core.Conflict, nil, "branch %s has the open change %s#%d already", other.Branch, other.Repository, other.Number).
		WithHint("update that change, or close it first")
}

// compare checks that a branch has something its base has not.
func (f *Forge) compare(ctx context.Context, r *repo, repository, base, branch string) (head, forked string, err error) {
	const op = "forge.open"
	for _, name := range []string{base, branch} {
		if err := gitcmd.CheckBranch(name); err != nil {
			return "", "", err
		}
	}
	head, err = r.ReadRef(ctx, heads+branch)
	if err != nil {
		return "", "", err
	}
	tip, err := r.ReadRef(ctx, heads+base)
	if err != nil {
		return "", "", err
	}
	for name, at := range map[string]string{branch: head, base: tip} {
		if at == "" {
			return "", "", core.E(op, core.NotFound, nil, "branch %s of %s does not exist", name, repository)
		}
	}
	if base == branch {
		return "", "", core.E(op, core.Invalid, nil, "branch %s cannot be merged into itself", base)
	}
	if forked, err = r.MergeBase(ctx, tip, head); err != nil {
		return "", "", err
	}
	if forked == head {
		return "", "", core.E(op, core.Conflict, nil, "branch %s of %s has no commit that %s has not", branch, repository, base)
	}
	return head, forked, nil
}

// keep holds on to the commits of a change, also when its branch is removed.
func (f *Forge) keep(ctx context.Context, r *repo, c core.Change) error {
	_, err := f.git.Run(ctx, r.Dir(), "update-ref", "--no-deref", changeRef(c.Number, "head"), c.Head)
	return err
}

func changeRef(number int64, what string) string {
	return changeRefs + strconv.FormatInt(number, 10) + "/" + what
}

func withAuthors(have, more []core.Author) []core.Author {
	out := slices.Clone(have)
	for _, a := range more {
		if !slices.ContainsFunc(out, func(o core.Author) bool { return o.Handle == a.Handle }) {
			out = append(out, a)
		}
	}
	return out
}

// UpdateChange changes what is given.
func (f *Forge) UpdateChange(ctx context.Context, id core.ChangeID, u forge.ChangeUpdate) (core.Change, error) {
	const op = "forge.update"
	if u.Title != nil {
		if err := checkText(op, "the title of the change", *u.Title, maxTitle); err != nil {
			return core.Change{}, err
		}
	}
	if u.Body != nil && len(*u.Body) > maxBody {
		return core.Change{}, core.E(op, core.Invalid, nil, "the body of change %s has %d bytes, the limit is %d", id, len(*u.Body), maxBody)
	}
	if u.Head != nil {
		if err := gitcmd.CheckCommitID(*u.Head); err != nil {
			return core.Change{}, err
		}
	}
	change, err := f.records.UpdateChange(ctx, id, func(c *core.Change) error {
		if c.State != core.ChangeOpen {
			return core.E(op, core.Conflict, nil, "change %s#%d is %s", c.Repository, c.Number, c.State)
		}
		set(&c.Title, u.Title)
		set(&c.Body, u.Body)
		set(&c.Evidence, u.Evidence)
		set(&c.Verdict, u.Verdict)
		set(&c.Head, u.Head)
		c.Authors = withAuthors(c.Authors, u.Authors)
		return nil
	})
	if err != nil {
		return core.Change{}, err
	}
	r, err := f.repo(ctx, change.Repository)
	if err != nil {
		return core.Change{}, err
	}
	if u.Head != nil {
		if err := f.keep(ctx, r, change); err != nil {
			return core.Change{}, err
		}
	}
	return f.live(ctx, change)
}

func set[T any](to *T, from *T) {
	if from != nil {
		*to = *from
	}
}

// view is where the refs of one repository stand, read at once.
type view struct {
	*repo
	refs map[string]string
}

// look reads the refs that the changes given are about; none means all.
func (f *Forge) look(ctx context.Context, repository string, about ...core.Change) (view, error) {
	r, err := f.repo(ctx, repository)
	if err != nil {
		return view{}, err
	}
	v := view{repo: r, refs: map[string]string{}}
	if len(about) == 0 {
		v.refs, err = r.Refs(ctx, "refs/")
		return v, err
	}
	for _, c := range about {
		for _, ref := range []string{changeRef(c.Number, "merge"), heads + c.Branch} {
			if v.refs[ref], err = r.ReadRef(ctx, ref); err != nil {
				return v, err
			}
		}
	}
	return v, nil
}

// live puts in what git knows better than the record: where the branch of an
// open change stands, and that it was merged although the record does not say
// so yet.
func (f *Forge) live(ctx context.Context, c core.Change) (core.Change, error) {
	if c.State != core.ChangeOpen {
		return c, nil
	}
	v, err := f.look(ctx, c.Repository, c)
	if err != nil {
		return c, err
	}
	return f.liveIn(ctx, v, c)
}

func (f *Forge) liveIn(ctx context.Context, v view, c core.Change) (core.Change, error) {
	if merge := v.refs[changeRef(c.Number, "merge")]; merge != "" {
		return f.finishMerge(ctx, v.repo, c, merge)
	}
	if head := v.refs[heads+c.Branch]; head != "" {
		c.Head = head
	}
	return c, nil
}

// Change finds one.
func (f *Forge) Change(ctx context.Context, id core.ChangeID) (core.Change, error) {
	c, err := f.records.Change(ctx, id)
	if err != nil {
		return core.Change{}, err
	}
	return f.live(ctx, c)
}

// ChangeByNumber finds one by its number.
func (f *Forge) ChangeByNumber(ctx context.Context, repository string, number int64) (core.Change, error) {
	c, err := f.records.ChangeByNumber(ctx, repository, number)
	if err != nil {
		if core.Is(err, core.NotFound) {
			return core.Change{}, core.E("forge.change", core.NotFound, nil, "change %s#%d does not exist", clip(repository, 100), number)
		}
		return core.Change{}, err
	}
	return f.live(ctx, c)
}

// Changes lists newest first.
func (f *Forge) Changes(ctx context.Context, filter core.ChangeFilter, page core.Page) ([]core.Change, string, error) {
	list, next, err := f.records.Changes(ctx, filter, page)
	if err != nil {
		return nil, "", err
	}
	views := map[string]view{} // a repository is looked at once
	for i, c := range list {
		if c.State != core.ChangeOpen {
			continue
		}
		v, ok := views[c.Repository]
		if !ok {
			if v, err = f.look(ctx, c.Repository); err != nil {
				return nil, "", err
			}
			views[c.Repository] = v
		}
		if list[i], err = f.liveIn(ctx, v, c); err != nil {
			return nil, "", err
		}
	}
	return list, next, nil
}

// span is what the commits and the diff of a change are about: from where the
// branch left its base to its head.
func (f *Forge) span(ctx context.Context, id core.ChangeID) (c core.Change, r *repo, from string, err error) {
	if c, err = f.Change(ctx, id); err != nil {
		return c, nil, "", err
	}
	if r, err = f.repo(ctx, c.Repository); err != nil {
		return c, nil, "", err
	}
	tip, err := f.tip(ctx, r, c)
	if err != nil {
		return c, r, "", err
	}
	from, err = r.MergeBase(ctx, tip, c.Head)
	return c, r, from, err
}

const maxCommits = 500

// Commits lists those of a change, oldest first.
func (f *Forge) Commits(ctx context.Context, id core.ChangeID) ([]forge.Commit, error) {
	c, r, from, err := f.span(ctx, id)
	if err != nil {
		return nil, err
	}
	log, err := r.Log(ctx, mirror.LogOptions{From: c.Head, Exclude: []string{from}, Max: maxCommits})
	if err != nil {
		return nil, err
	}
	out := make([]forge.Commit, 0, len(log))
	for _, l := range slices.Backward(log) {
		out = append(out, forge.Commit{
			ID: l.ID, Parents: l.Parents, Subject: l.Subject(), Message: l.Message,
			Author: core.Author{Name: l.Author.Name, Email: l.Author.Email}, Time: l.Author.When,
		})
	}
	return out, nil
}

// Diff is what a change changes.
func (f *Forge) Diff(ctx context.Context, id core.ChangeID, opts forge.DiffOptions) (forge.Diff, error) {
	c, r, from, err := f.span(ctx, id)
	if err != nil {
		return forge.Diff{}, err
	}
	if opts.From != "" {
		if from, err = r.Resolve(ctx, opts.From); err != nil {
			return forge.Diff{}, err
		}
	}
	files, err := r.ChangedFiles(ctx, from, c.Head)
	if err != nil {
		return forge.Diff{}, err
	}
	patch, err := r.Diff(ctx, from, c.Head, mirror.DiffOptions{Paths: opts.Paths, Context: opts.Context, Limit: opts.Limit})
	if err != nil {
		return forge.Diff{}, err
	}
	d := forge.Diff{Base: from, Head: c.Head, Files: []forge.File{}, Patch: strings.ToValidUTF8(string(patch.Text), "\uFFFD"), Truncated: patch.Truncated}
	for _, x := range files {
		if below(x.Path, opts.Paths) || x.OldPath != "" && below(x.OldPath, opts.Paths) {
			d.Files = append(d.Files, forge.File{Path: x.Path, OldPath: x.OldPath, Status: string(x.Status), Added: x.Added, Removed: x.Removed, Binary: x.Binary})
		}
	}
	return d, nil
}

func below(path string, list []string) bool {
	return len(list) == 0 || slices.ContainsFunc(list, func(p string) bool {
		return path == p || strings.HasPrefix(path, strings.TrimSuffix(p, "/")+"/")
	})
}

// Close leaves branch and commits.
func (f *Forge) Close(ctx context.Context, id core.ChangeID, _ core.Author) (core.Change, error) {
	c, err := f.Change(ctx, id) // heals a merge that was cut short
	if err != nil {
		return core.Change{}, err
	}
	if c.State == core.ChangeMerged {
		return core.Change{}, core.E("forge.close", core.Conflict, nil, "change %s#%d is merged", c.Repository, c.Number)
	}
	return f.setState(ctx, id, core.ChangeClosed)
}

// Reopen opens a closed change again.
func (f *Forge) Reopen(ctx context.Context, id core.ChangeID, _ core.Author) (core.Change, error) {
	const op = "forge.reopen"
	c, err := f.records.Change(ctx, id)
	if err != nil {
		return core.Change{}, err
	}
	others, err := f.records.ChangesOfBranch(ctx, c.Repository, c.Branch)
	if err != nil {
		return core.Change{}, err
	}
	if c.State == core.ChangeClosed && len(others) > 0 {
		return core.Change{}, taken(op, others[0])
	}
	if c, err = f.setState(ctx, id, core.ChangeOpen); err != nil {
		return core.Change{}, err
	}
	return f.live(ctx, c)
}

func (f *Forge) setState(ctx context.Context, id core.ChangeID, state core.ChangeState) (core.Change, error) {
	return f.records.UpdateChange(ctx, id, func(c *core.Change) error {
		c.State = state
		return nil
	})
}
