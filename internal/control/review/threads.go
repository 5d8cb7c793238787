package review

import (
	"context"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"drydock/internal/core"
	"drydock/internal/delivery/change"
	"drydock/internal/store"
)

// Bounds of what people write.
const (
	maxBody    = 64 << 10
	maxThreads = 2000
	maxNote    = 16 << 10
)

// Threads lists what was said about a change, oldest first, with what the
// asking person is writing. Anchors are followed to the head as it is.
func (s *Service) Threads(ctx context.Context, id core.ChangeID, by core.Author) ([]core.Thread, error) {
	span, repo, err := s.open(ctx, id)
	if err != nil {
		return nil, err
	}
	list, err := s.said(ctx, id)
	if err != nil {
		return nil, err
	}
	notes, err := s.d.Store.Notes(ctx, id, by.Handle)
	if err != nil {
		return nil, err
	}
	for _, n := range notes {
		list = append(list, core.Thread{ID: core.ThreadID(n.ID), Anchor: n.Anchor, State: core.ThreadDraft, Comments: []core.Comment{{
			ID: core.CommentID(n.ID), Change: id, Author: by, Body: n.Body, Path: n.Anchor.Path, Line: n.Anchor.Line, Head: n.Anchor.Head, Created: n.Created,
		}}})
	}
	anchors := make([]core.Anchor, len(list))
	for i, t := range list {
		anchors[i] = t.Anchor
	}
	places, err := s.whereabouts(ctx, span, repo, anchors)
	if err != nil {
		return nil, err
	}
	for i := range list {
		t := &list[i]
		t.Now, t.Lost = places[i].now, places[i].lost
		if t.State != core.ThreadSent || t.Prompt == "" {
			continue
		}
		if t.Answered, err = s.answer(ctx, span, repo, *t, asked(*t)); err != nil {
			return nil, err
		}
		if t.Answered != nil {
			t.State = core.ThreadAnswered
		}
	}
	return list, nil
}

// asked is when a thread's last prompt was written.
func asked(t core.Thread) time.Time {
	var at time.Time
	for _, c := range t.Comments {
		if c.Prompt != "" {
			at = c.Created
		}
	}
	return at
}

// said puts comments together, without looking into git.
func (s *Service) said(ctx context.Context, id core.ChangeID) ([]core.Thread, error) {
	comments, err := s.d.Store.Comments(ctx, id)
	if err != nil {
		return nil, err
	}
	known, err := s.d.Store.Threads(ctx, id)
	if err != nil {
		return nil, err
	}
	list := []core.Thread{}
	at := map[core.ThreadID]int{}
	for _, c := range comments {
		if i, ok := at[c.Thread]; ok && c.Thread != "" {
			list[i].Comments = append(list[i].Comments, c)
			if c.Prompt != "" {
				list[i].Prompt = c.Prompt
			}
			continue
		}
		if len(list) == maxThreads {
			continue
		}
		t := core.Thread{ID: core.ThreadOf(c.ID), Anchor: anchorOf(c), State: core.ThreadSent, Comments: []core.Comment{c}, Prompt: c.Prompt}
		at[t.ID] = len(list)
		list = append(list, t)
	}
	for _, m := range known {
		i, ok := at[m.ID]
		if !ok {
			continue
		}
		list[i].Anchor = m.Anchor
		if m.ResolvedBy != "" {
			list[i].State, list[i].ResolvedBy, list[i].Resolved = core.ThreadResolved, m.ResolvedBy, m.Resolved
		}
	}
	return list, nil
}

// anchorOf is the place of a comment that came without one of its own.
func anchorOf(c core.Comment) core.Anchor {
	a := core.Anchor{Path: c.Path, Line: c.Line, Head: c.Head}
	if c.Path != "" {
		a.Side = sideNew
	}
	return a
}

// thread finds the comment that began one.
func (s *Service) thread(ctx context.Context, id core.ThreadID) (core.Comment, core.Change, error) {
	first, err := s.d.Store.Comment(ctx, id.First())
	if core.Is(err, core.NotFound) || err == nil && first.Thread != "" {
		return first, core.Change{}, core.E("review.thread", core.NotFound, nil, "thread %s does not exist", id).WithHint("GET /changes/{id}/threads lists them")
	}
	if err != nil {
		return first, core.Change{}, err
	}
	c, err := s.d.Store.Change(ctx, first.Change)
	return first, c, err
}

// Resolve ends a thread, or opens it again. Doing so twice is doing it once.
func (s *Service) Resolve(ctx context.Context, id core.ThreadID, by core.Author, resolved bool) (core.Thread, error) {
	first, c, err := s.thread(ctx, id)
	if err != nil {
		return core.Thread{}, err
	}
	err = s.d.Store.Tx(ctx, func(tx *store.Tx) error {
		_, err := tx.Thread(ctx, id)
		if core.Is(err, core.NotFound) {
			err = tx.AddThread(ctx, core.ThreadMark{ID: id, Change: c.ID, Anchor: anchorOf(first)})
		}
		if err != nil {
			return err
		}
		changed := false
		_, err = tx.UpdateThread(ctx, id, func(m *core.ThreadMark) error {
			changed = (m.ResolvedBy != "") != resolved
			if !changed {
				return nil
			}
			m.ResolvedBy, m.Resolved = "", time.Time{}
			if resolved {
				m.ResolvedBy, m.Resolved = by.Handle, s.opts.Now().UTC()
			}
			return nil
		})
		if err != nil || !changed {
			return err
		}
		action := "thread_resolved"
		if !resolved {
			action = "thread_reopened"
		}
		return s.tell(ctx, tx, c, by, action)
	})
	if err != nil {
		return core.Thread{}, err
	}
	return s.one(ctx, c.ID, by, id)
}

func (s *Service) one(ctx context.Context, change core.ChangeID, by core.Author, id core.ThreadID) (core.Thread, error) {
	list, err := s.Threads(ctx, change, by)
	if err != nil {
		return core.Thread{}, err
	}
	if i := slices.IndexFunc(list, func(t core.Thread) bool { return t.ID == id }); i >= 0 {
		return list[i], nil
	}
	return core.Thread{}, core.E("review.thread", core.NotFound, nil, "thread %s is not listed: change %s has too many", id, change)
}

// Reply adds a comment to a thread. The same client id is the same comment. One
// that speaks to the agent becomes a prompt, as every comment does.
func (s *Service) Reply(ctx context.Context, id core.ThreadID, by core.Author, body, clientID string) (core.Comment, error) {
	if err := checkBody(body, maxBody); err != nil {
		return core.Comment{}, err
	}
	first, c, err := s.thread(ctx, id)
	if err != nil {
		return core.Comment{}, err
	}
	reply := core.Comment{
		ID: core.NewCommentID(), Change: c.ID, Author: by, Body: body, Path: first.Path, Line: first.Line, Head: first.Head, Thread: id, Created: s.opts.Now().UTC(),
	}
	key := ""
	if clientID != "" {
		key = "reply:" + string(id) + ":" + by.Handle + ":" + clientID
	}
	err = s.d.Store.Tx(ctx, func(tx *store.Tx) error {
		stored, added, err := tx.CreateComment(ctx, key, reply)
		if err != nil || !added {
			reply = stored
			return err
		}
		return s.tellComment(ctx, tx, c, stored)
	})
	return reply, err
}

func checkBody(body string, limit int) error {
	if strings.TrimSpace(body) == "" || len(body) > limit || !utf8.ValidString(body) || strings.IndexByte(body, 0) >= 0 {
		return core.E("review.comment", core.Invalid, nil, "a comment is text of 1 to %d bytes", limit)
	}
	return nil
}

// tell appends an event about a change to the log of its session.
func (s *Service) tell(ctx context.Context, tx *store.Tx, c core.Change, by core.Author, action string) error {
	if c.Session == "" {
		return nil
	}
	e := core.NewEvent(core.EventChange, core.ChangeData{Change: c.ID, Number: c.Number, Action: action, Title: c.Title, Head: c.Head, By: by.Handle})
	e.Actor = by.Handle
	_, err := s.d.Events.AppendTx(ctx, tx, string(c.Session), e)
	return err
}

// tellComment appends the event of a comment, under the key that whoever
// watches the forge uses, so that it is told once. A comment that speaks to the
// agent is left to that watch, which makes a prompt of it first.
func (s *Service) tellComment(ctx context.Context, tx *store.Tx, c core.Change, m core.Comment) error {
	if c.Session == "" {
		return nil
	}
	if _, speaks := change.Addressed(s.opts.Agent, m.Body); speaks && m.Prompt == "" && c.State == core.ChangeOpen {
		return nil
	}
	e := core.NewEvent(core.EventComment, core.CommentData{Change: c.ID, Comment: m.ID, Author: m.Author, Body: m.Body, Path: m.Path, Line: m.Line, Prompt: m.Prompt})
	e.Actor = m.Author.Handle
	key := "event:comment:" + string(m.ID)
	_, fresh, err := tx.IntendEffect(ctx, store.Effect{ID: key, Kind: "event", Subject: string(c.Session), Request: e.Data})
	if err != nil || !fresh {
		return err
	}
	if _, err := s.d.Events.AppendTx(ctx, tx, string(c.Session), e); err != nil {
		return err
	}
	return tx.FinishEffect(ctx, key, store.EffectDone, nil)
}
