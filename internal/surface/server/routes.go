package server

import (
	"context"
	"time"

	"drydock/internal/core"
	"drydock/internal/surface/api"
)

func (s *Server) routes() {
	s.miscRoutes()
	s.loginRoutes()
	s.sessionRoutes()
	s.inboxRoutes()
	s.pageRoutes()
	s.liveRoutes()
	s.promptRoutes()
	s.selectionRoutes()
	s.streamRoutes()
	s.previewRoutes()
	s.environmentRoutes()
	s.snapshotRoutes()
	s.changeRoutes()
	s.reviewRoutes()
	s.readingRoutes()
	s.discussionRoutes()
	s.evidenceRoutes()
}

func (s *Server) miscRoutes() {
	register(s, route{id: "whoami", method: "GET", path: "/whoami", tag: "tokens", have: true, summary: "Who the token belongs to, and the daemon's version"},
		func(_ context.Context, by core.Author, _ *none) (*out[api.Who], error) {
			return ok(api.Who{User: by, Version: s.opts.Version}), nil
		})

	tokens := s.deps.Tokens
	register(s, route{id: "create-token", method: "POST", path: "/tokens", tag: "tokens", status: 201, have: true, summary: "Make a token for a person; its secret is shown once"},
		func(ctx context.Context, by core.Author, in *struct{ Body api.CreateToken }) (*out[api.CreatedToken], error) {
			t, err := tokens.CreateToken(ctx, by, in.Body)
			return ok(t), err
		})
	register(s, route{id: "list-tokens", method: "GET", path: "/tokens", tag: "tokens", have: true, summary: "List tokens, without their secrets"},
		func(ctx context.Context, by core.Author, in *PageIn) (*out[api.List[api.Token]], error) {
			items, next, err := tokens.ListTokens(ctx, by, in.page())
			return listOf(items, next), err
		})
	register(s, route{id: "revoke-token", method: "DELETE", path: "/tokens/{id}", tag: "tokens", status: 204, have: true, summary: "Revoke a token"},
		func(ctx context.Context, by core.Author, in *IDIn) (*none, error) {
			id, err := core.ParseID[core.TokenID]("tok_", in.ID)
			if err != nil {
				return nil, err
			}
			return nil, tokens.RevokeToken(ctx, by, id)
		})

	register(s, route{id: "usage", method: "GET", path: "/usage", tag: "usage", have: s.deps.Usage != nil, summary: "Tokens, cost and outcomes"},
		func(ctx context.Context, _ core.Author, in *struct {
			By    string    `query:"by" enum:"session,environment,model" default:"environment"`
			Since time.Time `query:"since" doc:"only what was spent after it"`
		},
		) (*out[api.UsageReport], error) {
			u, err := s.deps.Usage.Usage(ctx, in.By, in.Since)
			if u.Rows == nil {
				u.Rows = []api.UsageRow{}
			}
			return ok(u), err
		})
}
