package server

import (
	"context"
	"net/http"

	"drydock/internal/core"
	"drydock/internal/surface/api"
)

// Selections gives one task to several sessions, one of which is picked.
type Selections interface {
	CreateSelection(ctx context.Context, req core.NewSelection) (api.SelectionDetail, error)
	GetSelection(ctx context.Context, id core.SelectionID) (api.SelectionDetail, error)
	ListSelections(ctx context.Context, f core.SelectionFilter, p core.Page) ([]core.Selection, string, error)
	// Pick decides; it is stored when answered. It approves nothing.
	Pick(ctx context.Context, id core.SelectionID, session core.SessionID, by core.Author) (api.SelectionDetail, error)
}

func withSelection[O any](raw string, f func(core.SelectionID) (*O, error)) (*O, error) {
	return withID("sel_", raw, f)
}

func (s *Server) selectionRoutes() {
	const tag = "selections"
	d := s.deps
	have := d.Selections != nil
	register(s, route{id: "create-selection", method: "POST", path: "/selections", tag: tag, status: http.StatusCreated, have: have, summary: "One task for several sessions that start alike; stored when answered"},
		func(ctx context.Context, by core.Author, in *struct{ Body api.CreateSelection }) (*out[api.SelectionDetail], error) {
			b := in.Body
			v, err := d.Selections.CreateSelection(ctx, core.NewSelection{
				NewSession: core.NewSession{
					Environment: b.Environment, Title: b.Title, Blueprint: b.Blueprint, Agent: b.Agent, Base: b.Base, Budget: b.Budget,
					Prompt: core.NewPrompt{Author: by, Text: b.Prompt, ClientID: b.ClientID, Source: "api"},
				},
				Sessions: b.Sessions, Models: b.Models, Rule: core.SelectionRule(b.Rule),
			})
			return compared(v), err
		})
	register(s, route{id: "list-selections", method: "GET", path: "/selections", tag: tag, have: have, summary: "List selections, newest first"},
		func(ctx context.Context, _ core.Author, in *struct {
			PageIn
			Environment string `query:"environment" maxLength:"200" doc:"name or identifier"`
			State       string `query:"state" enum:"open,waiting,picking,picked"`
			Owner       string `query:"owner" maxLength:"100"`
		},
		) (*out[api.List[core.Selection]], error) {
			env, err := s.environmentID(ctx, in.Environment)
			if err != nil {
				return nil, err
			}
			items, next, err := d.Selections.ListSelections(ctx, core.SelectionFilter{Environment: env, State: core.SelectionState(in.State), Owner: in.Owner}, in.page())
			return listOf(items, next), err
		})
	register(s, route{id: "get-selection", method: "GET", path: "/selections/{id}", tag: tag, have: have, summary: "A selection, its sessions compared, best first"},
		func(ctx context.Context, _ core.Author, in *IDIn) (*out[api.SelectionDetail], error) {
			return withSelection(in.ID, func(id core.SelectionID) (*out[api.SelectionDetail], error) {
				v, err := d.Selections.GetSelection(ctx, id)
				return compared(v), err
			})
		})
	register(s, route{id: "pick-session", method: "POST", path: "/selections/{id}/pick", tag: tag, have: have, summary: "Pick one session; the others are stopped, their changes closed, and archived"},
		func(ctx context.Context, by core.Author, in *struct {
			IDIn
			Body api.Pick
		},
		) (*out[api.SelectionDetail], error) {
			return withSelection(in.ID, func(id core.SelectionID) (*out[api.SelectionDetail], error) {
				session, err := sessionID(in.Body.Session)
				if err != nil {
					return nil, err
				}
				v, err := d.Selections.Pick(ctx, id, session, by)
				return compared(v), err
			})
		})
}

// compared never has null for its candidates.
func compared(v api.SelectionDetail) *out[api.SelectionDetail] {
	if v.Candidates == nil {
		v.Candidates = []core.Candidate{}
	}
	return ok(v)
}
