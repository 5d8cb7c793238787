package server

import (
	"context"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"time"

	"drydock/internal/core"
	"drydock/internal/surface/api"
)

func (s *Server) pageRoutes() {
	const tag = "sessions"
	o := s.deps.Overview
	have := o != nil
	register(s, route{id: "session-page", method: "GET", path: "/sessions/{id}/page", tag: tag, have: have, summary: "A session as a page opens it: state, outline of its log, queue, change, people; go on with the events after seq"},
		func(ctx context.Context, by core.Author, in *IDIn) (*out[core.SessionPage], error) {
			return withSession(in.ID, func(id core.SessionID) (*out[core.SessionPage], error) {
				v, err := o.Page(ctx, by, id)
				return ok(v), err
			})
		})
	register(s, route{id: "search-session", method: "GET", path: "/sessions/{id}/search", tag: tag, have: have, summary: "Events of a session that have words in one of their texts, newest first"},
		func(ctx context.Context, _ core.Author, in *struct {
			IDIn
			PageIn
			Query string `query:"q" required:"true" minLength:"1" maxLength:"200"`
		},
		) (*out[core.Found], error) {
			return withSession(in.ID, func(id core.SessionID) (*out[core.Found], error) {
				v, err := o.Search(ctx, id, in.Query, in.Cursor, in.Limit)
				return ok(v), err
			})
		})
	register(s, route{id: "session-event", method: "GET", path: "/sessions/{id}/events/{seq}", tag: "events", have: s.deps.Events != nil, summary: "One event of a session, whole"},
		func(ctx context.Context, _ core.Author, in *struct {
			IDIn
			Seq int64 `path:"seq" minimum:"1"`
		},
		) (*out[api.ReadEvent], error) {
			return withSession(in.ID, func(id core.SessionID) (*out[api.ReadEvent], error) {
				e, err := s.deps.Events.One(ctx, string(id), in.Seq)
				return ok(api.ReadEvent{Event: e}), err
			})
		})
}

// pageSnapshot is what the page starts with, so that it asks nothing first.
type pageSnapshot struct {
	Who     api.Who           `json:"who"`
	Inbox   *core.Inbox       `json:"inbox,omitempty"`
	Session *core.SessionPage `json:"session,omitempty"`
}

// snapshotTimeout bounds what a page waits for; it can ask by itself.
const snapshotTimeout = 2 * time.Second

// snapshot is the first of the page's answers for a browser that is signed in,
// or nil. Another origin cannot read the page that it is in; still, only what
// a person opened gets one.
func (s *Server) snapshot(r *http.Request) []byte {
	site := r.Header.Get("Sec-Fetch-Site")
	if r.Method != http.MethodGet || s.deps.Visitors == nil || s.deps.Overview == nil || site != "none" && site != "same-origin" {
		return nil
	}
	secret, err := s.cookie(r)
	if err != nil || secret == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(r.Context(), snapshotTimeout)
	defer cancel()
	who, err := s.deps.Visitors.Visitor(ctx, secret)
	if err != nil {
		return nil
	}
	snap := pageSnapshot{Who: api.Who{User: who, Version: s.opts.Version}}
	if raw, ok := strings.CutPrefix(r.URL.Path, "/s/"); ok {
		if id, err := sessionID(raw); err == nil {
			if page, err := s.deps.Overview.Page(ctx, who, id); err == nil {
				snap.Session = &page
			}
		}
	} else if r.URL.Path == "/" {
		if box, err := s.deps.Overview.Inbox(ctx, core.InboxFilter{Person: who.Handle}, 0); err == nil {
			snap.Inbox = &box
		}
	}
	raw, err := json.Marshal(snap)
	if err != nil || len(raw) > maxSnapshot {
		return nil
	}
	return raw
}

const maxSnapshot = 1 << 20

// number reads a number as it is written in one way only.
func number(s string) (int64, bool) {
	n, err := strconv.ParseInt(s, 10, 64)
	return n, err == nil && n >= 0 && strconv.FormatInt(n, 10) == s
}
