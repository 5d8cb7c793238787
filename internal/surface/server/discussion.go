package server

import (
	"context"
	"net/http"

	"drydock/internal/core"
	"drydock/internal/surface/api"
)

// NoteIn names a draft of a change.
type NoteIn struct {
	IDIn
	Note string `path:"draft" maxLength:"100"`
}

func withNote[O any](ctx context.Context, s *Server, in NoteIn, f func(core.ChangeID, core.NoteID) (*O, error)) (*O, error) {
	return withChange(ctx, s, in.ID, func(id core.ChangeID) (*O, error) {
		note, err := core.ParseID[core.NoteID]("nte_", in.Note)
		if err != nil {
			return nil, err
		}
		return f(id, note)
	})
}

func (s *Server) discussionRoutes() {
	const tag = "changes"
	talk := s.deps.Discussion
	have := talk != nil
	register(s, route{id: "change-threads", method: "GET", path: "/changes/{id}/threads", tag: tag, have: have, summary: "What was said about a change, where it stands now, and your drafts"},
		func(ctx context.Context, by core.Author, in *IDIn) (*out[api.List[core.Thread]], error) {
			return withChange(ctx, s, in.ID, func(id core.ChangeID) (*out[api.List[core.Thread]], error) {
				v, err := talk.Threads(ctx, id, by)
				return listOf(v, ""), err
			})
		})
	register(s, route{id: "set-thread", method: "PUT", path: "/threads/{id}", tag: tag, have: have, summary: "Resolve a thread, or open it again"},
		func(ctx context.Context, by core.Author, in *struct {
			IDIn
			Body api.SetThread
		},
		) (*out[core.Thread], error) {
			return withID("thr_", in.ID, func(id core.ThreadID) (*out[core.Thread], error) {
				v, err := talk.Resolve(ctx, id, by, in.Body.State == "resolved")
				return ok(v), err
			})
		})
	register(s, route{id: "reply-thread", method: "POST", path: "/threads/{id}/comments", tag: tag, status: http.StatusCreated, have: have, summary: "Answer in a thread"},
		func(ctx context.Context, by core.Author, in *struct {
			IDIn
			Body api.ReplyTo
		},
		) (*out[core.Comment], error) {
			return withID("thr_", in.ID, func(id core.ThreadID) (*out[core.Comment], error) {
				v, err := talk.Reply(ctx, id, by, in.Body.Body, in.Body.ClientID)
				return ok(v), err
			})
		})
	register(s, route{id: "hand-back", method: "POST", path: "/changes/{id}/hand-back", tag: tag, status: http.StatusCreated, have: have, summary: "Give a change back to the agent, as a prompt"},
		func(ctx context.Context, by core.Author, in *struct {
			IDIn
			Body api.HandBack
		},
		) (*out[core.Prompt], error) {
			return withChange(ctx, s, in.ID, func(id core.ChangeID) (*out[core.Prompt], error) {
				v, err := talk.HandBack(ctx, id, by, in.Body.Note, in.Body.ClientID)
				return ok(v), err
			})
		})
	s.noteRoutes(talk, have)
}

func (s *Server) noteRoutes(talk Discussion, have bool) {
	const tag = "changes"
	register(s, route{id: "list-change-drafts", method: "GET", path: "/changes/{id}/drafts", tag: tag, have: have, summary: "Comments that you are writing"},
		func(ctx context.Context, by core.Author, in *IDIn) (*out[api.List[core.Note]], error) {
			return withChange(ctx, s, in.ID, func(id core.ChangeID) (*out[api.List[core.Note]], error) {
				v, err := talk.Notes(ctx, id, by)
				return listOf(v, ""), err
			})
		})
	register(s, route{id: "create-change-draft", method: "POST", path: "/changes/{id}/drafts", tag: tag, status: http.StatusCreated, have: have, summary: "Keep a comment that you are writing; nobody else sees it"},
		func(ctx context.Context, by core.Author, in *struct {
			IDIn
			Body api.WriteNote
		},
		) (*out[core.Note], error) {
			return withChange(ctx, s, in.ID, func(id core.ChangeID) (*out[core.Note], error) {
				v, err := talk.Write(ctx, id, by, in.Body.Anchor.Anchor(), in.Body.Body, in.Body.ClientID)
				return ok(v), err
			})
		})
	register(s, route{id: "edit-change-draft", method: "PATCH", path: "/changes/{id}/drafts/{draft}", tag: tag, have: have, summary: "Change a draft of yours"},
		func(ctx context.Context, by core.Author, in *struct {
			NoteIn
			Body api.RewriteNote
		},
		) (*out[core.Note], error) {
			return withNote(ctx, s, in.NoteIn, func(id core.ChangeID, note core.NoteID) (*out[core.Note], error) {
				v, err := talk.Rewrite(ctx, id, note, by, in.Body.Body)
				return ok(v), err
			})
		})
	register(s, route{id: "remove-change-draft", method: "DELETE", path: "/changes/{id}/drafts/{draft}", tag: tag, status: 204, have: have, summary: "Throw a draft of yours away"},
		func(ctx context.Context, by core.Author, in *NoteIn) (*none, error) {
			return withNote(ctx, s, *in, func(id core.ChangeID, note core.NoteID) (*none, error) {
				return nil, talk.Discard(ctx, id, note, by)
			})
		})
	register(s, route{id: "send-change-drafts", method: "POST", path: "/changes/{id}/drafts/send", tag: tag, have: have, summary: "Make comments of all your drafts; for the agent they are one prompt"},
		func(ctx context.Context, by core.Author, in *struct {
			IDIn
			Body api.SendNotes
		},
		) (*out[core.SentNotes], error) {
			return withChange(ctx, s, in.ID, func(id core.ChangeID) (*out[core.SentNotes], error) {
				v, err := talk.Send(ctx, id, by, core.Sending{To: in.Body.To, Note: in.Body.Note, ClientID: in.Body.ClientID})
				return ok(v), err
			})
		})
}
