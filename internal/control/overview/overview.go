// Package overview answers what a page shows at once: the inbox of a person, a
// session with the outline of its log, and what is found in a log.
//
// It changes nothing but read marks. What one answer says belongs to one state
// of the database. How a session stands is not worked out here: package session
// does that, and outlines are kept by package outline.
//
// Invariants: no answer reads a whole log; the number of statements does not
// grow with the length of a log.
//
// A Service is used by many goroutines at once.
package overview

import (
	"context"
	"time"

	"drydock/internal/core"
	"drydock/internal/store"
)

// Shower says how sessions stand.
type Shower interface {
	Show(ctx context.Context, r store.Reader, list []core.Session) error
}

// Service answers.
type Service struct {
	db   *store.DB
	show Shower
}

// New makes one.
func New(db *store.DB, show Shower) *Service { return &Service{db: db, show: show} }

// Inbox is the first page of each section.
func (s *Service) Inbox(ctx context.Context, f core.InboxFilter, limit int) (box core.Inbox, err error) {
	err = s.db.View(ctx, func(r store.Reader) error {
		for section, part := range map[core.InboxSection]*core.InboxPart{
			core.InboxNeeds: &box.Needs, core.InboxRunning: &box.Running, core.InboxRecent: &box.Recent,
		} {
			if *part, err = s.part(ctx, r, section, f, core.Page{Limit: limit}); err != nil {
				return err
			}
		}
		return nil
	})
	return box, err
}

// InboxPart is one page of one section.
func (s *Service) InboxPart(ctx context.Context, section core.InboxSection, f core.InboxFilter, p core.Page) (part core.InboxPart, err error) {
	err = s.db.View(ctx, func(r store.Reader) error {
		part, err = s.part(ctx, r, section, f, p)
		return err
	})
	return part, err
}

func (s *Service) part(ctx context.Context, r store.Reader, section core.InboxSection, f core.InboxFilter, p core.Page) (part core.InboxPart, err error) {
	list, next, err := r.Inbox(ctx, section, f, p)
	if err != nil {
		return part, err
	}
	if part.Items, err = s.rows(ctx, r, f.Person, list); err != nil {
		return part, err
	}
	part.Next = next
	part.Count, err = r.CountInbox(ctx, section, f)
	return part, err
}

// InboxRows are single sessions as a person's inbox shows them, in no order.
// Those that are not there are left out.
func (s *Service) InboxRows(ctx context.Context, person string, ids []core.SessionID) (rows []core.InboxRow, err error) {
	err = s.db.View(ctx, func(r store.Reader) error {
		list, err := r.SessionsByID(ctx, ids)
		if err != nil {
			return err
		}
		rows, err = s.rows(ctx, r, person, list)
		return err
	})
	return rows, err
}

// InboxCounts counts what wants attention.
func (s *Service) InboxCounts(ctx context.Context, person string) (n core.InboxCounts, err error) {
	f := core.InboxFilter{Person: person}
	if n.Needs, err = s.db.CountInbox(ctx, core.InboxNeeds, f); err != nil {
		return n, err
	}
	n.Running, err = s.db.CountInbox(ctx, core.InboxRunning, f)
	return n, err
}

func (s *Service) rows(ctx context.Context, r store.Reader, person string, list []core.Session) ([]core.InboxRow, error) {
	rows := make([]core.InboxRow, 0, len(list))
	if len(list) == 0 {
		return rows, nil
	}
	if err := s.show.Show(ctx, r, list); err != nil {
		return nil, err
	}
	ids, changes := make([]core.SessionID, 0, len(list)), []core.ChangeID{}
	for _, v := range list {
		ids = append(ids, v.ID)
		if v.Change != "" {
			changes = append(changes, v.Change)
		}
	}
	facts, err := r.FactsOf(ctx, ids)
	if err != nil {
		return nil, err
	}
	made, err := r.ChangesByID(ctx, changes)
	if err != nil {
		return nil, err
	}
	progress, err := r.ProgressOf(ctx, ids)
	if err != nil {
		return nil, err
	}
	stands, err := r.StandingsOf(ctx, person, ids)
	if err != nil {
		return nil, err
	}
	for _, v := range list {
		p, f := progress[v.ID], facts[v.ID]
		row := core.InboxRow{
			Session: v, Environment: p.Environment, Section: stands[v.ID].Section, Unread: stands[v.ID].Unread, Read: stands[v.ID].Seq,
			Seq: p.Last, Elapsed: elapsed(v, p), Running: !p.ActiveSince.IsZero(), Parent: f.Parent,
		}
		if c, ok := made[v.Change]; ok {
			row.Change = &core.ChangeBrief{
				ID: c.ID, Number: c.Number, State: c.State, Verdict: c.Verdict, Files: f.Files, Added: f.Added, Removed: f.Removed,
			}
		}
		rows = append(rows, row)
	}
	return rows, nil
}

// elapsed is the time in runs, with the part that was not counted yet.
func elapsed(s core.Session, p store.Progress) time.Duration {
	if p.ActiveSince.IsZero() {
		return s.Active
	}
	return s.Active + max(0, time.Since(p.ActiveSince))
}

// MarkRead notes that a person has read a session up to a number. Marks only
// go forward, and not beyond the log.
func (s *Service) MarkRead(ctx context.Context, by core.Author, id core.SessionID, seq int64) (core.Read, error) {
	if _, err := s.db.Session(ctx, id); err != nil {
		return core.Read{}, err
	}
	last, err := s.db.LastEvent(ctx, string(id))
	if err != nil {
		return core.Read{}, err
	}
	if err := s.db.MarkRead(ctx, by.Handle, id, min(max(seq, 0), last)); err != nil {
		return core.Read{}, err
	}
	stands, err := s.db.StandingsOf(ctx, by.Handle, []core.SessionID{id})
	return core.Read{Session: id, Seq: stands[id].Seq}, err
}

// MarkUnread forgets how far a person has read a session: it is unread again.
func (s *Service) MarkUnread(ctx context.Context, by core.Author, id core.SessionID) (core.Read, error) {
	if _, err := s.db.Session(ctx, id); err != nil {
		return core.Read{}, err
	}
	return core.Read{Session: id}, s.db.MarkUnread(ctx, by.Handle, id)
}
