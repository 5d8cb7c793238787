package change

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"drydock/internal/core"
	"drydock/internal/delivery/forge"
	"drydock/internal/store"
)

// once does an outside effect under a key. Done before, its response is
// returned; begun before, it is done again, which the forge makes harmless. A
// failure that cannot have had an effect frees the key.
func once[T any](ctx context.Context, s *Service, kind, key string, session core.SessionID, request any, do func() (T, error)) (T, error) {
	var out T
	raw, err := json.Marshal(request)
	if err != nil {
		return out, core.E(kind, core.Internal, err, "")
	}
	effect, _, err := s.effects.IntendEffect(ctx, store.Effect{ID: key, Kind: kind, Subject: string(session), Request: raw})
	if err != nil {
		return out, err
	}
	if effect.State == store.EffectDone {
		if err := json.Unmarshal(effect.Response, &out); err != nil {
			return out, core.E(kind, core.Internal, err, "effect %s", key)
		}
		return out, nil
	}
	out, err = do()
	if err != nil {
		if !unknown(err) {
			if finishErr := s.effects.FinishEffect(context.WithoutCancel(ctx), key, store.EffectFailed, nil); finishErr != nil {
				s.log.Warn("effect stays open", "effect", key, "err", finishErr)
			}
		}
		return out, err
	}
	if raw, err = json.Marshal(out); err != nil {
		return out, core.E(kind, core.Internal, err, "")
	}
	return out, s.effects.FinishEffect(ctx, key, store.EffectDone, raw)
}

// unknown is an error after which nobody knows whether it happened.
func unknown(err error) bool {
	switch core.KindOf(err) {
	case core.Unavailable, core.Internal, core.Canceled:
		return true
	}
	return false
}

// PushRequest says which branch of a session moves where.
type PushRequest struct {
	Key        string // of this push; a repetition finds it done
	Session    core.SessionID
	Repository string
	Branch     string
	Commit     string
	Expected   string // where the session last saw the branch, "" for a new one
	From       string // directory of the mirror that has the commit
}

// Push moves the session's branch on the forge. It is a Conflict when somebody
// pushed meanwhile: their commits must be taken in first (see Branch).
func (s *Service) Push(ctx context.Context, p PushRequest) error {
	if p.Key == "" {
		return core.E("change.push", core.Invalid, nil, "a push without a key")
	}
	_, err := once(ctx, s, "change.push", p.Key, p.Session, p, func() (struct{}, error) {
		return struct{}{}, s.forge.Push(ctx, forge.Push{Repository: p.Repository, Branch: p.Branch, Commit: p.Commit, Expected: p.Expected, From: p.From})
	})
	return err
}

// DeliverRequest is finished work. Its branch is pushed first when From is set.
type DeliverRequest struct {
	Key         string // stable for one run of the node that delivers
	Session     core.SessionID
	Environment core.EnvironmentID
	Repository  string // on the forge: the environment's name
	Title       string
	Body        string // Markdown: what and why
	Base        string
	Branch      string
	Head        string // commit the evidence is about
	Expected    string // see PushRequest
	From        string // directory of the mirror; "" when the branch is pushed already
	Authors     []core.Author
	Evidence    core.EvidenceID
	Verdict     string
}

// Delivered says what became of it.
type Delivered struct {
	Change core.Change `json:"change"`
	Opened bool        `json:"opened"` // otherwise an open change was updated
}

// Deliver opens a change for the session's branch, or updates the open one. It
// happens once per key. A branch whose change was merged meanwhile is a
// Conflict: new work needs a new branch.
func (s *Service) Deliver(ctx context.Context, d DeliverRequest) (Delivered, error) {
	const op = "change.deliver"
	if d.Key == "" || d.Session == "" || d.Repository == "" || d.Branch == "" || d.Head == "" {
		return Delivered{}, core.E(op, core.Invalid, nil, "key, session, repository, branch and head must be set")
	}
	if done, ok, err := s.delivered(ctx, d.Key); ok || err != nil {
		return done, err
	}
	existing, err := s.ofBranch(ctx, d)
	if err != nil {
		return Delivered{}, err
	}
	if d.From != "" {
		push := PushRequest{Key: d.Key + ":push", Session: d.Session, Repository: d.Repository, Branch: d.Branch, Commit: d.Head, Expected: d.Expected, From: d.From}
		if err := s.Push(ctx, push); err != nil {
			return Delivered{}, err
		}
	}
	if at, err := s.forge.Branch(ctx, d.Repository, d.Branch); err != nil {
		return Delivered{}, err
	} else if at != d.Head {
		return Delivered{}, core.E(op, core.Conflict, nil, "branch %s of %s stands at %s, the evidence is about %s", d.Branch, d.Repository, at, d.Head).
			WithHint("somebody pushed meanwhile; take their commits in and prove it again")
	}
	done, err := once(ctx, s, op, d.Key, d.Session, d, func() (Delivered, error) {
		if existing != nil {
			return s.update(ctx, existing.ID, d)
		}
		return s.open(ctx, d)
	})
	if err != nil {
		return Delivered{}, err
	}
	return done, s.announce(ctx, d.Key, done)
}

// delivered finds what an earlier call with the key has done. Its
// announcement may have been lost, so it is made again.
func (s *Service) delivered(ctx context.Context, key string) (Delivered, bool, error) {
	effect, err := s.effects.Effect(ctx, key)
	switch {
	case core.Is(err, core.NotFound):
		return Delivered{}, false, nil
	case err != nil:
		return Delivered{}, false, err
	case effect.State != store.EffectDone:
		return Delivered{}, false, nil
	}
	var done Delivered
	if err := json.Unmarshal(effect.Response, &done); err != nil {
		return done, true, core.E("change.deliver", core.Internal, err, "effect %s", key)
	}
	if done.Change, err = s.forge.Change(ctx, done.Change.ID); err != nil {
		return done, true, err
	}
	return done, true, s.announce(ctx, key, done)
}

func (s *Service) announce(ctx context.Context, key string, done Delivered) error {
	action := "updated"
	if done.Opened {
		action = "opened"
	}
	return s.record(ctx, done.Change, "delivered:"+key, action, core.Author{})
}

// ofBranch finds the open change of the session's branch.
func (s *Service) ofBranch(ctx context.Context, d DeliverRequest) (*core.Change, error) {
	for page := (core.Page{Limit: core.MaxPage}); ; {
		list, next, err := s.forge.Changes(ctx, core.ChangeFilter{Repository: d.Repository, Session: d.Session}, page)
		if err != nil {
			return nil, err
		}
		for _, c := range list {
			if c.Branch != d.Branch {
				continue
			}
			switch c.State {
			case core.ChangeOpen:
				return &c, nil
			case core.ChangeMerged:
				return nil, core.E("change.deliver", core.Conflict, nil, "change %s#%d of branch %s was merged meanwhile", c.Repository, c.Number, c.Branch).
					WithHint("start a new branch from %s", c.Base)
			}
		}
		if page.Cursor = next; next == "" {
			return nil, nil
		}
	}
}

func (s *Service) open(ctx context.Context, d DeliverRequest) (Delivered, error) {
	change, err := once(ctx, s, "change.open", openKey(d), d.Session, d, func() (core.Change, error) {
		change, _, err := s.forge.OpenChange(ctx, forge.NewChange{
			Key: openKey(d), Repository: d.Repository, Environment: d.Environment, Session: d.Session, Title: title(d.Title), Body: Body(d),
			Base: d.Base, Branch: d.Branch, Authors: d.Authors, Evidence: d.Evidence, Verdict: d.Verdict,
		})
		return change, err
	})
	return Delivered{Change: change, Opened: true}, err
}

func openKey(d DeliverRequest) string { return d.Key + ":open" }

// update keeps the title: people may have changed it, and it names the change
// in their lists.
func (s *Service) update(ctx context.Context, id core.ChangeID, d DeliverRequest) (Delivered, error) {
	// The change may be the one that this very delivery opened before it was
	// killed.
	effect, err := s.effects.Effect(ctx, openKey(d))
	if err != nil && !core.Is(err, core.NotFound) {
		return Delivered{}, err
	}
	opened := err == nil && effect.State != store.EffectFailed
	body := Body(d)
	change, err := s.forge.UpdateChange(ctx, id, forge.ChangeUpdate{Body: &body, Evidence: &d.Evidence, Verdict: &d.Verdict, Head: &d.Head, Authors: d.Authors})
	return Delivered{Change: change, Opened: opened}, err
}

func title(s string) string {
	first, _, _ := strings.Cut(strings.TrimSpace(s), "\n")
	if first == "" {
		first = "Change without a title"
	}
	return clip(strings.TrimSpace(first), 250)
}

const maxBody = 200 << 10

// Body is what stands in a change: what was said, then what is proven.
func Body(d DeliverRequest) string {
	var b strings.Builder
	b.WriteString(clip(strings.TrimSpace(d.Body), maxBody))
	b.WriteString("\n\n---\n\n")
	var names []string
	for _, a := range d.Authors {
		names = append(names, "@"+a.Handle)
	}
	fmt.Fprintf(&b, "Session `%s`", d.Session)
	if len(names) > 0 {
		fmt.Fprintf(&b, ", prompts by %s", strings.Join(names, ", "))
	}
	if d.Evidence != "" {
		fmt.Fprintf(&b, ". Evidence `%s` for commit `%s`", d.Evidence, d.Head)
	}
	b.WriteString(".\n")
	return b.String()
}
