package review

import (
	"context"

	"drydock/internal/core"
	"drydock/internal/delivery/forge"
	"drydock/internal/gitcmd/mirror"
)

// ends are the two states that are compared.
type ends struct {
	span     forge.Span
	repo     *mirror.Mirror
	from, to string // commits
	// fromBase and toBase are where they left the base of the change. Where they
	// differ, what the base brought is not part of the answer.
	fromBase, toBase string
}

func (e ends) interdiff() bool { return e.fromBase != e.toBase }

// open finds a change and its repository.
func (s *Service) open(ctx context.Context, id core.ChangeID) (forge.Span, *mirror.Mirror, error) {
	span, err := s.d.Changes.Span(ctx, id)
	if err != nil {
		return span, nil, err
	}
	repo, err := s.repo(ctx, span.Dir)
	return span, repo, err
}

// ends resolves the words of a range.
func (s *Service) ends(ctx context.Context, id core.ChangeID, by core.Author, r core.DiffRange) (ends, error) {
	span, repo, err := s.open(ctx, id)
	if err != nil {
		return ends{}, err
	}
	e := ends{span: span, repo: repo}
	if e.to, e.toBase, err = s.end(ctx, e, by, r.To, "head"); err != nil {
		return e, err
	}
	e.from, e.fromBase, err = s.end(ctx, e, by, r.From, "base")
	return e, err
}

// end is one commit, and where it left the base.
func (s *Service) end(ctx context.Context, e ends, by core.Author, word, otherwise string) (commit, base string, err error) {
	const op = "review.range"
	if word == "" {
		word = otherwise
	}
	switch word {
	case "head":
		return e.span.Change.Head, e.span.Base, nil
	case "base":
		if e.toBase != "" {
			return e.toBase, e.toBase, nil
		}
		return e.span.Base, e.span.Base, nil
	case "seen":
		seen, err := s.d.Store.Seen(ctx, e.span.Change.ID, by.Handle)
		if core.Is(err, core.NotFound) {
			return "", "", core.E(op, core.NotFound, nil, "you have not looked at change %s#%d yet", e.span.Change.Repository, e.span.Change.Number).
				WithHint("compare with base")
		}
		if err != nil {
			return "", "", err
		}
		if _, err := e.repo.Commit(ctx, seen.Head); err != nil {
			return "", "", err
		}
		return seen.Head, seen.Base, nil
	case e.span.Change.Head:
		return word, e.span.Base, nil
	case e.span.Base:
		return word, word, nil
	}
	if _, err := e.repo.Commit(ctx, word); err != nil {
		if core.Is(err, core.Invalid) {
			return "", "", core.E(op, core.Invalid, nil, "%q is no state of a change", clip(word, 80)).WithHint("use base, head, seen or a full commit identifier")
		}
		return "", "", err
	}
	base, err = s.forked(ctx, e.span, e.repo, word)
	return word, base, err
}

// forked is where a commit left the base of the change.
func (s *Service) forked(ctx context.Context, span forge.Span, repo *mirror.Mirror, commit string) (string, error) {
	if commit == span.Change.Head {
		return span.Base, nil
	}
	base, err := repo.MergeBase(ctx, span.Tip, commit)
	if core.Is(err, core.NotFound) {
		return span.Base, nil
	}
	return base, err
}
