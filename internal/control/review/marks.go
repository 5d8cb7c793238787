package review

import (
	"context"

	"drydock/internal/core"
	"drydock/internal/gitcmd"
)

// SetViewed marks a file as looked at by one person, or takes the mark away.
func (s *Service) SetViewed(ctx context.Context, id core.ChangeID, by core.Author, m core.ViewedMark) error {
	if err := gitcmd.CheckPath(m.Path); err != nil {
		return err
	}
	if m.Blob != "" {
		if err := gitcmd.CheckCommitID(m.Blob); err != nil {
			return core.E("review.viewed", core.Invalid, nil, "%q is no blob", clip(m.Blob, 80)).WithHint("send new_blob of the list of files; it is empty for a deleted file")
		}
	}
	return s.d.Store.SetViewed(ctx, id, by.Handle, m)
}

// SetSeen remembers the head that a person has looked at, and where it left the
// base: when both move, what the base brought can be left out.
func (s *Service) SetSeen(ctx context.Context, id core.ChangeID, by core.Author, head string) error {
	span, repo, err := s.open(ctx, id)
	if err != nil {
		return err
	}
	if _, err := repo.Commit(ctx, head); err != nil {
		return err
	}
	base, err := s.forked(ctx, span, repo, head)
	if err != nil {
		return err
	}
	return s.d.Store.SetSeen(ctx, id, by.Handle, core.SeenMark{Head: head, Base: base, At: s.opts.Now().UTC()})
}
