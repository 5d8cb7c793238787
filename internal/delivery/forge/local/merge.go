package local

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"drydock/internal/core"
	"drydock/internal/delivery/forge"
	"drydock/internal/gitcmd"
	"drydock/internal/gitcmd/mirror"
)

// mergeTries bounds how often a merge starts over because the base moved.
const mergeTries = 5

// Merge brings a change into its base, without a work tree.
func (f *Forge) Merge(ctx context.Context, m forge.MergeRequest) (core.Change, error) {
	const op = "forge.merge"
	if m.By.Handle == "" {
		return core.Change{}, core.E(op, core.Unauthorized, nil, "a merge without a name")
	}
	if m.Method == "" {
		m.Method = forge.MergeCommit
	}
	c, err := f.Change(ctx, m.Change)
	if err != nil || c.State == core.ChangeMerged {
		return c, err
	}
	r, err := f.repo(ctx, c.Repository)
	if err != nil {
		return core.Change{}, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	approvals, err := f.mayMerge(ctx, c, m)
	if err != nil {
		return core.Change{}, err
	}
	for range mergeTries {
		tip, err := r.ReadRef(ctx, heads+c.Base)
		if err != nil {
			return core.Change{}, err
		}
		if tip == "" {
			return core.Change{}, core.E(op, core.Conflict, nil, "the base %s of change %s#%d does not exist any more", c.Base, c.Repository, c.Number)
		}
		result, err := f.compose(ctx, r, c, m, tip, approvals)
		if err != nil {
			return core.Change{}, err
		}
		err = f.land(ctx, r, c, tip, result)
		if err == nil {
			return f.finishMerge(ctx, r, c, result)
		}
		if now, readErr := r.ReadRef(ctx, heads+c.Base); readErr != nil || now == tip {
			return core.Change{}, err
		}
		if done, err := f.live(ctx, c); err != nil || done.State == core.ChangeMerged {
			return done, err // another process was faster
		}
	}
	return core.Change{}, core.E(op, core.Conflict, nil, "the base %s of %s keeps moving", c.Base, c.Repository).WithHint("try again")
}

// mayMerge checks the rules and returns the approvals that count.
func (f *Forge) mayMerge(ctx context.Context, c core.Change, m forge.MergeRequest) ([]core.ChangeApproval, error) {
	const op = "forge.merge"
	if c.State != core.ChangeOpen {
		return nil, core.E(op, core.Conflict, nil, "change %s#%d is %s", c.Repository, c.Number, c.State).WithHint("reopen it first")
	}
	if m.Head != "" && m.Head != c.Head {
		return nil, core.E(op, core.Conflict, nil, "change %s#%d stands at %s, not at %s", c.Repository, c.Number, c.Head, clip(m.Head, 64)).
			WithHint("somebody pushed meanwhile; look at it again")
	}
	approvals, err := f.approvals(ctx, c)
	if err != nil {
		return nil, err
	}
	if len(approvals) == 0 && !f.opts.NoApproval {
		return nil, core.E(op, core.NeedsApproval, nil, "nobody has approved change %s#%d at %s", c.Repository, c.Number, clip(c.Head, 12)).
			WithHint("somebody who wrote no prompt of it must approve it first")
	}
	return approvals, nil
}

// compose makes the commit that the base will stand at.
func (f *Forge) compose(ctx context.Context, r *repo, c core.Change, m forge.MergeRequest, tip string, approvals []core.ChangeApproval) (string, error) {
	const op = "forge.merge"
	if there, err := r.IsAncestor(ctx, c.Head, tip); err != nil {
		return "", err
	} else if there {
		return "", core.E(op, core.Conflict, nil, "everything in change %s#%d is in %s already", c.Repository, c.Number, c.Base)
	}
	now := f.opts.Now()
	committer := mailbox(f.opts.Committer, now)
	var trailers []string
	trailers = append(trailers, fmt.Sprintf("Change: %s#%d", c.Repository, c.Number))
	for _, a := range approvals {
		s := mailbox(a.By, now)
		trailers = append(trailers, fmt.Sprintf("Approved-by: %s <%s>", s.Name, s.Email))
	}
	switch m.Method {
	case forge.MergeCommit:
		tree, err := f.mergeTree(ctx, r, c, tip, c.Head)
		if err != nil {
			return "", err
		}
		return r.CommitTree(ctx, mirror.CommitSpec{
			Tree: tree, Parents: []string{tip, c.Head}, Author: mailbox(m.By, now), Committer: committer,
			Message: fmt.Sprintf("Merge change #%d: %s\n\n%s\n", c.Number, oneLine(c.Title), strings.Join(trailers, "\n")),
		})
	case forge.Squash:
		tree, err := f.mergeTree(ctx, r, c, tip, c.Head)
		if err != nil {
			return "", err
		}
		return f.squash(ctx, r, c, m, tip, tree, trailers)
	case forge.Rebase:
		return f.rebase(ctx, r, c, tip, committer)
	}
	return "", core.E(op, core.Invalid, nil, "merge method %q", clip(string(m.Method), 40)).WithHint("use merge, squash or rebase")
}

func (f *Forge) squash(ctx context.Context, r *repo, c core.Change, m forge.MergeRequest, tip, tree string, trailers []string) (string, error) {
	from, err := r.MergeBase(ctx, tip, c.Head)
	if err != nil {
		return "", err
	}
	log, err := r.Log(ctx, mirror.LogOptions{From: c.Head, Exclude: []string{from}, Max: maxCommits})
	if err != nil {
		return "", err
	}
	now := f.opts.Now()
	author := mailbox(m.By, now)
	if len(c.Authors) > 0 {
		author = mailbox(c.Authors[0], now)
	} else if len(log) > 0 {
		author = mirror.Signature{Name: log[len(log)-1].Author.Name, Email: log[len(log)-1].Author.Email, When: now}
	}
	var body strings.Builder
	seen := map[string]bool{strings.ToLower(author.Email): true}
	with := func(s mirror.Signature) {
		if key := strings.ToLower(s.Email); !seen[key] {
			seen[key] = true
			trailers = append(trailers, fmt.Sprintf("Co-authored-by: %s <%s>", s.Name, s.Email))
		}
	}
	for _, a := range c.Authors {
		with(mailbox(a, now))
	}
	for _, l := range slices.Backward(log) {
		if len(log) > 1 {
			fmt.Fprintf(&body, "* %s\n", clip(oneLine(l.Subject()), 200))
		}
		with(l.Author)
	}
	if body.Len() > 0 {
		body.WriteString("\n")
	}
	return r.CommitTree(ctx, mirror.CommitSpec{
		Tree: tree, Parents: []string{tip}, Author: author, Committer: mailbox(f.opts.Committer, now),
		Message: fmt.Sprintf("%s (#%d)\n\n%s%s\n", oneLine(c.Title), c.Number, body.String(), strings.Join(trailers, "\n")),
	})
}

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

// rebase puts the commits of a change on tip one by one. Where nothing has to
// move they stay what they are.
func (f *Forge) rebase(ctx context.Context, r *repo, c core.Change, tip string, committer mirror.Signature) (string, error) {
	const op = "forge.merge"
	from, err := r.MergeBase(ctx, tip, c.Head)
	if err != nil {
		return "", err
	}
	if from == tip {
		return c.Head, nil
	}
	log, err := r.Log(ctx, mirror.LogOptions{From: c.Head, Exclude: []string{from, tip}, Max: maxCommits + 1})
	if err != nil {
		return "", err
	}
	if len(log) > maxCommits {
		return "", core.E(op, core.Conflict, nil, "change %s#%d has more than %d commits", c.Repository, c.Number, maxCommits).WithHint("use merge or squash")
	}
	at := tip
	for _, l := range slices.Backward(log) {
		if len(l.Parents) != 1 {
			return "", core.E(op, core.Conflict, nil, "commit %s of change %s#%d is a merge and cannot be rebased", clip(l.ID, 12), c.Repository, c.Number).
				WithHint("use merge or squash")
		}
		atTree, err := r.Tree(ctx, at)
		if err != nil {
			return "", err
		}
		// merge-tree wants two commits and finds their common ancestor: a
		// commit with the tree of where we are and the parent of the one to take
		// makes that ancestor the right one.
		stand, err := r.CommitTree(ctx, mirror.CommitSpec{Tree: atTree, Parents: l.Parents, Author: committer, Committer: committer, Message: "rebase"})
		if err != nil {
			return "", err
		}
		tree, err := f.mergeTree(ctx, r, c, stand, l.ID)
		if err != nil {
			return "", err
		}
		if tree == atTree && !f.wasEmpty(ctx, r, l) {
			continue // the base has it already
		}
		author := l.Author
		if author.When.IsZero() {
			author.When = committer.When
		}
		at, err = r.CommitTree(ctx, mirror.CommitSpec{Tree: tree, Parents: []string{at}, Author: author, Committer: committer, Message: l.Message})
		if err != nil {
			return "", err
		}
	}
	if at == tip {
		return "", core.E(op, core.Conflict, nil, "everything in change %s#%d is in %s already", c.Repository, c.Number, c.Base)
	}
	return at, nil
}

func (f *Forge) wasEmpty(ctx context.Context, r *repo, l mirror.Commit) bool {
	parent, err := r.Tree(ctx, l.Parents[0])
	return err == nil && parent == l.Tree
}

// mergeTree merges two commits and returns the tree; a conflict names the files.
func (f *Forge) mergeTree(ctx context.Context, r *repo, c core.Change, ours, theirs string) (string, error) {
	// The exit code of a conflict and the list of files come together, so the
	// output is kept also when git says that it failed.
	var out strings.Builder
	err := f.git.Stream(ctx, gitcmd.Call{
		Dir: r.Dir(), Stdout: &limited{to: &out, left: 4 << 20},
		Args: []string{"merge-tree", "--write-tree", "--name-only", "--no-messages", "-z", ours, theirs},
	})
	parts := strings.Split(strings.TrimSuffix(out.String(), "\x00"), "\x00")
	if err == nil {
		if !gitcmd.IsCommitID(parts[0]) {
			return "", core.E("forge.merge", core.Internal, nil, "git's merge of %s and %s cannot be read", ours, theirs)
		}
		return parts[0], nil
	}
	failure, ok := gitcmd.FailureOf(err)
	if !ok || failure.Exit != 1 || len(parts) < 2 {
		return "", err
	}
	files := slices.Compact(slices.Sorted(slices.Values(parts[1:])))
	return "", core.E("forge.merge", core.Conflict, nil, "change %s#%d does not merge into %s: both sides changed %s", c.Repository, c.Number, c.Base, names(files)).
		WithHint("bring %s into %s and resolve it there, or ask the agent to", c.Base, c.Branch)
}

func names(files []string) string {
	const most = 10
	if len(files) <= most {
		return strings.Join(files, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(files[:most], ", "), len(files)-most)
}

// limited drops what is beyond a bound.
type limited struct {
	to   *strings.Builder
	left int
}

func (l *limited) Write(p []byte) (int, error) {
	n := min(len(p), l.left)
	l.to.Write(p[:n])
	l.left -= n
	return len(p), nil
}

// land moves the base and marks the change as merged, both or neither.
func (f *Forge) land(ctx context.Context, r *repo, c core.Change, tip, result string) error {
	script := fmt.Sprintf("start\nupdate %s %s %s\ncreate %s %s\nupdate %s %s\nprepare\ncommit\n",
		heads+c.Base, result, tip, changeRef(c.Number, "merge"), result, changeRef(c.Number, "head"), c.Head)
	_, err := f.git.Output(ctx, gitcmd.Call{Dir: r.Dir(), Args: []string{"update-ref", "--no-deref", "--stdin"}, Stdin: strings.NewReader(script)})
	if err != nil {
		return core.E("forge.merge", core.Conflict, err, "the base %s of change %s#%d cannot be moved to %s", c.Base, c.Repository, c.Number, result)
	}
	return nil
}

// finishMerge writes down what the repository already says. It may run more
// than once.
func (f *Forge) finishMerge(ctx context.Context, r *repo, c core.Change, merge string) (core.Change, error) {
	head, err := r.ReadRef(ctx, changeRef(c.Number, "head"))
	if err != nil {
		return core.Change{}, err
	}
	forked := c.BaseCommit
	if parents, err := r.Log(ctx, mirror.LogOptions{From: merge, Max: 1}); err == nil && len(parents) == 1 && len(parents[0].Parents) > 0 {
		if base, err := r.MergeBase(ctx, parents[0].Parents[0], head); err == nil && base != head {
			forked = base
		}
	}
	if now, err := f.records.Change(ctx, c.ID); err == nil && now.State == core.ChangeClosed {
		// Closed while it was being merged: the repository decides.
		if _, err := f.setState(ctx, c.ID, core.ChangeOpen); err != nil {
			return core.Change{}, err
		}
	}
	return f.records.UpdateChange(ctx, c.ID, func(c *core.Change) error {
		c.State, c.Merge, c.Head, c.BaseCommit = core.ChangeMerged, merge, head, forked
		return nil
	})
}
