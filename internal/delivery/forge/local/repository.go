package local

import (
	"context"
	"maps"
	"slices"
	"strings"

	"drydock/internal/core"
	"drydock/internal/delivery/forge"
	"drydock/internal/gitcmd"
	"drydock/internal/gitcmd/mirror"
	"drydock/internal/store"
)

func (f *Forge) describe(r store.Repository) forge.Repository {
	return forge.Repository{
		Name: r.Name, Environment: r.Environment, Source: r.Source, DefaultBranch: r.DefaultBranch,
		Location: f.path(r.Name), Created: r.Created,
	}
}

// EnsureRepository makes or finds a repository and brings it up to its source.
func (f *Forge) EnsureRepository(ctx context.Context, spec forge.RepositorySpec) (forge.Repository, forge.Refreshed, error) {
	const op = "forge.repository"
	var none forge.Refreshed
	if err := checkName(spec.Name); err != nil {
		return forge.Repository{}, none, err
	}
	if spec.Source != "" {
		if _, err := gitcmd.ParseSource(spec.Source); err != nil {
			return forge.Repository{}, none, err
		}
	}
	record, err := f.records.Repository(ctx, spec.Name)
	switch {
	case core.Is(err, core.NotFound):
		now := f.opts.Now().UTC()
		record = store.Repository{Name: spec.Name, Environment: spec.Environment, Source: spec.Source, DefaultBranch: "main", Created: now, Updated: now}
		if err = f.records.CreateRepository(ctx, record); core.Is(err, core.Conflict) { // another process was first
			record, err = f.records.Repository(ctx, spec.Name)
		}
		if err != nil {
			return forge.Repository{}, none, err
		}
	case err != nil:
		return forge.Repository{}, none, err
	}
	if spec.Source != "" && record.Source != spec.Source {
		return forge.Repository{}, none, core.E(op, core.Conflict, nil, "repository %s follows %s, not %s",
			spec.Name, gitcmd.Redact(record.Source), gitcmd.Redact(spec.Source)).WithHint("use another name")
	}
	if _, err := f.repo(ctx, spec.Name); err != nil {
		return forge.Repository{}, none, err
	}
	refreshed, err := f.Refresh(ctx, spec.Name)
	if err != nil {
		return forge.Repository{}, none, err
	}
	repository, err := f.Repository(ctx, spec.Name)
	return repository, refreshed, err
}

// Repository finds one.
func (f *Forge) Repository(ctx context.Context, name string) (forge.Repository, error) {
	record, err := f.records.Repository(ctx, name)
	if err != nil {
		return forge.Repository{}, err
	}
	return f.describe(record), nil
}

// Repositories lists them.
func (f *Forge) Repositories(ctx context.Context, page core.Page) ([]forge.Repository, string, error) {
	records, next, err := f.records.Repositories(ctx, page)
	out := make([]forge.Repository, 0, len(records))
	for _, r := range records {
		out = append(out, f.describe(r))
	}
	return out, next, err
}

// Refresh moves branches forward to where the source has them.
func (f *Forge) Refresh(ctx context.Context, name string) (forge.Refreshed, error) {
	var res forge.Refreshed
	record, err := f.records.Repository(ctx, name)
	if err != nil {
		return res, err
	}
	r, err := f.repo(ctx, name)
	if err != nil || record.Source == "" {
		return res, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	source, err := gitcmd.ParseSource(record.Source)
	if err != nil {
		return res, err
	}
	args := append(mirror.BenignFaults(), "fetch", "--quiet", "--prune", "--no-tags", "--no-write-fetch-head", "--no-auto-maintenance", "--force",
		"--end-of-options", source.URL, "+refs/heads/*:"+sourceHeads+"*", "+refs/tags/*:"+sourceTags+"*")
	if _, err := f.git.Run(ctx, r.Dir(), args...); err != nil {
		return res, core.E("forge.refresh", core.KindOf(err), err, "repository %s cannot be fetched from %s", name, gitcmd.Redact(source.URL)).
			WithHint("%s", core.HintOf(err))
	}
	if res, err = f.forward(ctx, r); err != nil {
		return res, err
	}
	return res, f.followDefault(ctx, r, record, source.URL)
}

// forward compares every branch of the source with the one here.
func (f *Forge) forward(ctx context.Context, r *repo) (forge.Refreshed, error) {
	var res forge.Refreshed
	refs, err := r.Refs(ctx, "refs/")
	if err != nil {
		return res, err
	}
	for _, ref := range slices.Sorted(maps.Keys(refs)) {
		if tag, ok := strings.CutPrefix(ref, sourceTags); ok {
			if refs["refs/tags/"+tag] == "" { // a tag that is here stays what it is
				if err := r.UpdateRef(ctx, "refs/tags/"+tag, refs[ref], ""); err != nil {
					return res, err
				}
			}
			continue
		}
		branch, ok := strings.CutPrefix(ref, sourceHeads)
		if !ok {
			continue
		}
		state := forge.BranchState{Branch: branch, Here: refs[heads+branch], Source: refs[ref]}
		if err := f.forwardOne(ctx, r, state, &res); err != nil {
			return res, err
		}
	}
	return res, nil
}

func (f *Forge) forwardOne(ctx context.Context, r *repo, b forge.BranchState, res *forge.Refreshed) error {
	if b.Here == b.Source {
		return nil
	}
	if b.Here != "" {
		behind, err := r.IsAncestor(ctx, b.Here, b.Source)
		if err != nil {
			return err
		}
		if !behind {
			ahead, err := r.IsAncestor(ctx, b.Source, b.Here)
			if err != nil {
				return err
			}
			if ahead {
				res.Ahead = append(res.Ahead, b.Branch)
			} else {
				res.Diverged = append(res.Diverged, b)
			}
			return nil
		}
	}
	if err := r.UpdateRef(ctx, heads+b.Branch, b.Source, b.Here); err != nil {
		return err
	}
	res.Moved = append(res.Moved, b)
	return nil
}

// followDefault makes the default branch the source's, once it exists here.
func (f *Forge) followDefault(ctx context.Context, r *repo, record store.Repository, source string) error {
	out, err := f.git.Run(ctx, r.Dir(), "ls-remote", "--symref", "--end-of-options", source, "HEAD")
	if err != nil {
		return err
	}
	branch := symref(string(out))
	if branch == "" || branch == record.DefaultBranch && record.Updated != record.Created {
		return nil
	}
	if at, err := r.ReadRef(ctx, heads+branch); err != nil || at == "" {
		return err
	}
	if _, err := f.git.Run(ctx, r.Dir(), "symbolic-ref", "HEAD", heads+branch); err != nil {
		return err
	}
	_, err = f.records.UpdateRepository(ctx, record.Name, func(s *store.Repository) error {
		s.DefaultBranch = branch
		return nil
	})
	return err
}

// symref reads "ref: refs/heads/main\tHEAD".
func symref(out string) string {
	for line := range strings.Lines(out) {
		rest, ok := strings.CutPrefix(strings.TrimRight(line, "\n"), "ref: "+heads)
		if branch, name, cut := strings.Cut(rest, "\t"); ok && cut && name == "HEAD" && gitcmd.CheckBranch(branch) == nil {
			return branch
		}
	}
	return ""
}

// Branch is where a branch stands.
func (f *Forge) Branch(ctx context.Context, repository, branch string) (string, error) {
	if err := gitcmd.CheckBranch(branch); err != nil {
		return "", err
	}
	if _, err := f.records.Repository(ctx, repository); err != nil {
		return "", err
	}
	r, err := f.repo(ctx, repository)
	if err != nil {
		return "", err
	}
	return r.ReadRef(ctx, heads+branch)
}

// Push moves a branch, and in the same transaction the mark that says that it
// was the platform who did, so that Poll never takes it for a person.
func (f *Forge) Push(ctx context.Context, p forge.Push) error {
	const op = "forge.push"
	if err := gitcmd.CheckBranch(p.Branch); err != nil {
		return err
	}
	for _, id := range []string{p.Commit, p.Expected} {
		if id == "" && p.Commit != "" {
			continue
		}
		if err := gitcmd.CheckCommitID(id); err != nil {
			return err
		}
	}
	record, err := f.records.Repository(ctx, p.Repository)
	if err != nil {
		return err
	}
	if p.Branch == record.DefaultBranch {
		return core.E(op, core.Denied, nil, "branch %s of %s takes merged changes only", p.Branch, p.Repository).
			WithHint("push a branch of its own and open a change")
	}
	r, err := f.repo(ctx, p.Repository)
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	now, err := r.ReadRef(ctx, heads+p.Branch)
	if err != nil || now == p.Commit {
		return err
	}
	if now != p.Expected {
		return moved(op, p, now)
	}
	_, err = f.git.Run(ctx, p.From, "push", "--quiet", "--atomic", "--no-verify", "--no-recurse-submodules",
		"--force-with-lease="+heads+p.Branch+":"+p.Expected,
		"--receive-pack=git -c core.hooksPath=/dev/null -c receive.autogc=false -c core.logAllRefUpdates=false receive-pack",
		"--end-of-options", r.Dir(), p.Commit+":"+heads+p.Branch, "+"+p.Commit+":"+platform+p.Branch)
	if err == nil {
		return nil
	}
	if now, readErr := r.ReadRef(ctx, heads+p.Branch); readErr == nil && now != p.Expected {
		if now == p.Commit {
			return nil
		}
		return moved(op, p, now)
	}
	return core.E(op, core.KindOf(err), err, "branch %s of %s cannot be moved to %s", p.Branch, p.Repository, p.Commit).
		WithHint("%s", core.HintOf(err))
}

func moved(op string, p forge.Push, now string) error {
	return core.E(op, core.Conflict, nil, "branch %s of %s stands at %s, not at %s", p.Branch, p.Repository, orNothing(now), orNothing(p.Expected)).
		WithHint("somebody pushed meanwhile; take their commits in first")
}

func orNothing(commit string) string {
	if commit == "" {
		return "nothing"
	}
	return commit
}
