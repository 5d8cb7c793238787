package server

import (
	"context"
	"net/http"

	"drydock/internal/core"
	"drydock/internal/surface/api"
)

func (s *Server) changeRoutes() {
	const tag = "changes"
	changes := s.deps.Changes
	have := changes != nil
	register(s, route{id: "list-changes", method: "GET", path: "/changes", tag: tag, have: have, summary: "List changes, newest first"},
		func(ctx context.Context, _ core.Author, in *struct {
			PageIn
			Repository string `query:"repository" maxLength:"300"`
			State      string `query:"state" enum:"open,merged,closed"`
			Session    string `query:"session" maxLength:"100"`
		},
		) (*out[api.List[core.Change]], error) {
			filter := core.ChangeFilter{Repository: in.Repository, State: core.ChangeState(in.State)}
			if in.Session != "" {
				id, err := sessionID(in.Session)
				if err != nil {
					return nil, err
				}
				filter.Session = id
			}
			items, next, err := changes.List(ctx, filter, in.page())
			return listOf(items, next), err
		})
	register(s, route{id: "get-change", method: "GET", path: "/changes/{id}", tag: tag, have: have, summary: "One change with commits, comments and approvals; by identifier, ENVIRONMENT#NUMBER or NUMBER"},
		func(ctx context.Context, _ core.Author, in *IDIn) (*out[api.ChangeDetail], error) {
			c, err := changes.Get(ctx, in.ID)
			if err != nil {
				return nil, err
			}
			d := api.ChangeDetail{Change: c}
			if d.Commits, err = changes.Commits(ctx, c.ID); err != nil {
				return nil, err
			}
			if d.Comments, err = changes.Comments(ctx, c.ID); err != nil {
				return nil, err
			}
			if d.Approvals, err = changes.ChangeApprovals(ctx, c.ID); err != nil {
				return nil, err
			}
			d.Commits, d.Comments, d.Approvals = notNil(d.Commits), notNil(d.Comments), notNil(d.Approvals)
			return ok(d), nil
		})
	register(s, route{id: "change-diff", method: "GET", path: "/changes/{id}/diff", tag: tag, have: have, summary: "Unified diff of a change"},
		func(ctx context.Context, _ core.Author, in *IDIn) (*out[api.Diff], error) {
			c, err := changes.Get(ctx, in.ID)
			if err != nil {
				return nil, err
			}
			v, err := changes.Diff(ctx, c.ID)
			return ok(s.cutDiff(api.Diff{Base: c.BaseCommit, Head: c.Head, Diff: v})), err
		})
}

func notNil[T any](v []T) []T {
	if v == nil {
		return []T{}
	}
	return v
}

// withChange resolves the reference of a change.
func withChange[O any](ctx context.Context, s *Server, ref string, f func(core.ChangeID) (*O, error)) (*O, error) {
	if s.deps.Changes == nil {
		return nil, core.E("server.change", core.Unavailable, nil, "this daemon has no part for changes")
	}
	c, err := s.deps.Changes.Get(ctx, ref)
	if err != nil {
		return nil, err
	}
	return f(c.ID)
}

func (s *Server) reviewRoutes() {
	const tag = "changes"
	review := s.deps.Review
	have := review != nil
	register(s, route{id: "comment-change", method: "POST", path: "/changes/{id}/comments", tag: tag, status: http.StatusCreated, have: have, summary: "Comment on a change, or on a line of it"},
		func(ctx context.Context, by core.Author, in *struct {
			IDIn
			Body api.CreateComment
		},
		) (*out[core.Comment], error) {
			return withChange(ctx, s, in.ID, func(id core.ChangeID) (*out[core.Comment], error) {
				v, err := review.Comment(ctx, id, by, in.Body.Body, in.Body.Path, in.Body.Line)
				return ok(v), err
			})
		})
	register(s, route{id: "approve-change", method: "POST", path: "/changes/{id}/approve", tag: tag, have: have, summary: "Approve one commit of a change; its prompt's author may not"},
		func(ctx context.Context, by core.Author, in *struct {
			IDIn
			Body api.ApproveChange
		},
		) (*out[core.ChangeApproval], error) {
			return withChange(ctx, s, in.ID, func(id core.ChangeID) (*out[core.ChangeApproval], error) {
				v, err := review.Approve(ctx, id, by, in.Body.Head, in.Body.Note)
				return ok(v), err
			})
		})
	register(s, route{id: "merge-change", method: "POST", path: "/changes/{id}/merge", tag: tag, have: have, slow: true, summary: "Merge a change"},
		func(ctx context.Context, by core.Author, in *struct {
			IDIn
			Body api.MergeChange
		},
		) (*out[core.Change], error) {
			return withChange(ctx, s, in.ID, func(id core.ChangeID) (*out[core.Change], error) {
				method := in.Body.Method
				if method == "" {
					method = "merge"
				}
				v, err := review.Merge(ctx, id, by, method, in.Body.Head)
				return ok(v), err
			})
		})
	register(s, route{id: "close-change", method: "POST", path: "/changes/{id}/close", tag: tag, have: have, summary: "Close a change without merging"},
		func(ctx context.Context, by core.Author, in *struct {
			IDIn
			Body api.Reason
		},
		) (*out[core.Change], error) {
			return withChange(ctx, s, in.ID, func(id core.ChangeID) (*out[core.Change], error) {
				v, err := review.Close(ctx, id, by, in.Body.Reason)
				return ok(v), err
			})
		})
	register(s, route{id: "reopen-change", method: "POST", path: "/changes/{id}/reopen", tag: tag, have: have, summary: "Open a closed change again"},
		func(ctx context.Context, by core.Author, in *IDIn) (*out[core.Change], error) {
			return withChange(ctx, s, in.ID, func(id core.ChangeID) (*out[core.Change], error) {
				v, err := review.Reopen(ctx, id, by)
				return ok(v), err
			})
		})
	s.approvalRoutes()
}

func (s *Server) approvalRoutes() {
	const tag = "approvals"
	approvals := s.deps.Approvals
	have := approvals != nil
	register(s, route{id: "list-approvals", method: "GET", path: "/approvals", tag: tag, have: have, summary: "Questions that runs ask people"},
		func(ctx context.Context, _ core.Author, in *struct {
			PageIn
			State   string `query:"state" enum:"pending,approved,denied,expired"`
			Session string `query:"session" maxLength:"100"`
		},
		) (*out[api.List[api.Approval]], error) {
			filter := ApprovalFilter{State: core.ApprovalState(in.State)}
			if in.Session != "" {
				id, err := sessionID(in.Session)
				if err != nil {
					return nil, err
				}
				filter.Session = id
			}
			items, next, err := approvals.ListApprovals(ctx, filter, in.page())
			return listOf(items, next), err
		})
	for verb, yes := range map[string]bool{"approve": true, "deny": false} {
		register(s, route{id: verb + "-approval", method: "POST", path: "/approvals/{id}/" + verb, tag: tag, have: have, summary: "Answer a question"},
			func(ctx context.Context, by core.Author, in *struct {
				IDIn
				Body api.Answer
			},
			) (*out[api.Approval], error) {
				id, err := core.ParseID[core.ApprovalID]("apr_", in.ID)
				if err != nil {
					return nil, err
				}
				v, err := approvals.AnswerApproval(ctx, id, by, yes, in.Body.Note)
				return ok(v), err
			})
	}
}
