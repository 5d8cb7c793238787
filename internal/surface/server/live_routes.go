package server

import (
	"context"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"drydock/internal/core"
	"drydock/internal/surface/api"
)

// maxFollowed is how many sessions one stream brings events of.
const maxFollowed = 8

// positions reads where a reader stands in several logs: identifiers and
// numbers, "ses_...=17,ses_...=4". Each session stands there once.
func positions(s, between string) (map[core.SessionID]int64, error) {
	out := map[core.SessionID]int64{}
	if s == "" {
		return out, nil
	}
	if len(s) > 1000 {
		return nil, core.E("server.stream", core.Invalid, nil, "positions are %d bytes long", len(s))
	}
	for part := range strings.SplitSeq(s, ",") {
		raw, n, ok := strings.Cut(part, between)
		seq, good := number(n)
		if !ok || !good {
			return nil, core.E("server.stream", core.Invalid, nil, "%q is not a session and a number of its log", clip(part, 60)).
				WithHint("write SESSION%sNUMBER, with commas between them", between)
		}
		id, err := sessionID(raw)
		if err != nil {
			return nil, err
		}
		if _, twice := out[id]; twice {
			return nil, core.E("server.stream", core.Invalid, nil, "session %s is named twice", id)
		}
		out[id] = seq
	}
	return out, bounded(out)
}

func bounded(wanted map[core.SessionID]int64) error {
	if len(wanted) > maxFollowed {
		return core.E("server.stream", core.Invalid, nil, "%d sessions: a stream follows at most %d", len(wanted), maxFollowed)
	}
	return nil
}

// written is the other direction.
func written(at map[core.SessionID]int64) string {
	parts := make([]string, 0, len(at))
	for id, seq := range at {
		parts = append(parts, string(id)+"="+strconv.FormatInt(seq, 10))
	}
	slices.Sort(parts)
	return strings.Join(parts, ",")
}

func (s *Server) liveRoutes() {
	const tag = "stream"
	d := s.deps
	have := d.Events != nil && d.Sessions != nil && d.Overview != nil
	schemas := s.api.OpenAPI().Components.Schemas
	for _, t := range []reflect.Type{
		reflect.TypeFor[api.Hello](), reflect.TypeFor[api.Reset](), reflect.TypeFor[api.Presence](), reflect.TypeFor[core.InboxCounts](), reflect.TypeFor[api.ReadEvent](),
	} {
		schemas.Schema(t, true, "")
	}
	register(s, route{
		id: "stream", method: "GET", path: "/stream", tag: tag, stream: true, have: have, summary: "Everything that one browser shows, as one stream that can be resumed",
		content: map[string]*huma.MediaType{"text/event-stream": {Schema: &huma.Schema{
			Type:        "string",
			Description: "hello (Hello) first; event (ReadEvent, short bodies; id: the position in all sessions), delta (Event), view (Session), row (InboxRow), counts (InboxCounts), presence (Presence), read (Read), reset (Reset), error (Error)",
		}}},
	},
		func(ctx context.Context, by core.Author, in *struct {
			Inbox       bool   `query:"inbox" doc:"rows and counts of the inbox"`
			Sessions    string `query:"sessions" maxLength:"1000" doc:"events of these sessions after these numbers: ses_...:17,ses_...:4; at most 8"`
			LastEventID string `header:"Last-Event-ID" maxLength:"1000" doc:"id of the last message: wins over sessions"`
		},
		) (*huma.StreamResponse, error) {
			wanted, err := positions(in.Sessions, ":")
			if in.LastEventID != "" {
				wanted, err = positions(in.LastEventID, "=")
			}
			if err != nil {
				return nil, err
			}
			if err := s.allThere(ctx, wanted); err != nil {
				return nil, err
			}
			b := newBrowserStream(s, by)
			if err := s.live.enter(b); err != nil {
				return nil, err
			}
			return &huma.StreamResponse{Body: func(hctx huma.Context) {
				_, w := humago.Unwrap(hctx)
				defer s.live.leave(b)
				b.run(ctx, newStream(w), wants{inbox: in.Inbox, sessions: wanted})
			}}, nil
		})
	register(s, route{id: "change-stream", method: "PUT", path: "/streams/{id}", tag: tag, status: 204, have: have, summary: "Change what a stream brings, without a new connection"},
		func(ctx context.Context, by core.Author, in *struct {
			IDIn
			Body api.Wants
		},
		) (*none, error) {
			w := wants{inbox: in.Body.Inbox, sessions: map[core.SessionID]int64{}}
			for raw, seq := range in.Body.Sessions {
				id, err := sessionID(raw)
				if err != nil {
					return nil, err
				}
				if seq < 0 {
					return nil, core.E("server.stream", core.Invalid, nil, "%d is no number of an event", seq)
				}
				w.sessions[id] = seq
			}
			if err := bounded(w.sessions); err != nil {
				return nil, err
			}
			if err := s.allThere(ctx, w.sessions); err != nil {
				return nil, err
			}
			b := s.live.find(in.ID, by.Handle)
			if b == nil || !b.want(ctx, w) {
				return nil, core.E("server.stream", core.NotFound, nil, "stream %s does not exist any more", clip(in.ID, 60)).WithHint("connect again")
			}
			return nil, nil
		})
	register(s, route{id: "presence", method: "PUT", path: "/sessions/{id}/presence", tag: tag, status: 204, have: have, summary: "Say that you look at a session; forgotten after 45 seconds"},
		func(ctx context.Context, by core.Author, in *struct {
			IDIn
			Body api.Here
		},
		) (*none, error) {
			return withSession(in.ID, func(id core.SessionID) (*none, error) {
				if _, err := d.Sessions.Get(ctx, id); err != nil {
					return nil, err
				}
				news, err := s.live.here(id, by, in.Body)
				if err == nil && news {
					s.live.notify(notice{"presence", id}, func(b *browserStream) bool { return b.follows(id) })
				}
				return nil, err
			})
		})
}

// allThere refuses sessions that do not exist.
func (s *Server) allThere(ctx context.Context, wanted map[core.SessionID]int64) error {
	for id := range wanted {
		if _, err := s.deps.Sessions.Get(ctx, id); err != nil {
			return err
		}
	}
	return nil
}
