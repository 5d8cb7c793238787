package server

import (
	"context"

	"drydock/internal/core"
	"drydock/internal/surface/api"
)

// InboxIn narrows an inbox.
type InboxIn struct {
	Mine        bool   `query:"mine" doc:"only own sessions, or ones you wrote in"`
	Environment string `query:"environment" maxLength:"200" doc:"name or identifier"`
	Text        string `query:"q" maxLength:"200" doc:"in the title"`
}

func (s *Server) inboxFilter(ctx context.Context, by core.Author, in InboxIn) (core.InboxFilter, error) {
	env, err := s.environmentID(ctx, in.Environment)
	return core.InboxFilter{Person: by.Handle, Mine: in.Mine, Environment: env, Text: in.Text}, err
}

func (s *Server) inboxRoutes() {
	const tag = "inbox"
	o := s.deps.Overview
	have := o != nil
	register(s, route{id: "inbox", method: "GET", path: "/inbox", tag: tag, have: have, summary: "What needs you, what runs, and the rest: the first page of each"},
		func(ctx context.Context, by core.Author, in *struct {
			InboxIn
			Limit int `query:"limit" minimum:"1" maximum:"200" doc:"rows of each section; default 50"`
		},
		) (*out[core.Inbox], error) {
			f, err := s.inboxFilter(ctx, by, in.InboxIn)
			if err != nil {
				return nil, err
			}
			v, err := o.Inbox(ctx, f, in.Limit)
			return ok(v), err
		})
	register(s, route{id: "inbox-section", method: "GET", path: "/inbox/{section}", tag: tag, have: have, summary: "One page of a section of the inbox"},
		func(ctx context.Context, by core.Author, in *struct {
			InboxIn
			PageIn
			Section string `path:"section" enum:"needs,running,recent"`
		},
		) (*out[core.InboxPart], error) {
			f, err := s.inboxFilter(ctx, by, in.InboxIn)
			if err != nil {
				return nil, err
			}
			v, err := o.InboxPart(ctx, core.InboxSection(in.Section), f, in.page())
			return ok(v), err
		})
	register(s, route{id: "mark-read", method: "PUT", path: "/sessions/{id}/read", tag: tag, have: have, summary: "You have read a session up to a number; the mark only goes forward"},
		func(ctx context.Context, by core.Author, in *struct {
			IDIn
			Body api.MarkRead
		},
		) (*out[core.Read], error) {
			return withSession(in.ID, func(id core.SessionID) (*out[core.Read], error) {
				v, err := o.MarkRead(ctx, by, id, in.Body.Seq)
				if err == nil {
					s.live.read(by.Handle, v)
				}
				return ok(v), err
			})
		})
	register(s, route{id: "mark-unread", method: "DELETE", path: "/sessions/{id}/read", tag: tag, have: have, summary: "The session is unread for you again"},
		func(ctx context.Context, by core.Author, in *IDIn) (*out[core.Read], error) {
			return withSession(in.ID, func(id core.SessionID) (*out[core.Read], error) {
				v, err := o.MarkUnread(ctx, by, id)
				if err == nil {
					s.live.read(by.Handle, v)
				}
				return ok(v), err
			})
		})
}
