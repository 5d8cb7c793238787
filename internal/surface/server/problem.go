package server

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"drydock/internal/core"
	"drydock/internal/surface/api"
)

// problem is an error on its way out: a body and a status. It is what handlers
// return to the framework.
type problem struct {
	body   api.Error
	status int
}

func (p *problem) Error() string                { return p.body.Message }
func (p *problem) GetStatus() int               { return p.status }
func (p *problem) MarshalJSON() ([]byte, error) { return json.Marshal(p.body) }

// problemOf gives an error its form. An Internal one loses its text here: use
// Server.problem, which logs it.
func problemOf(err error) *problem {
	kind := core.KindOf(err)
	return &problem{
		status: kind.HTTPStatus(),
		body:   api.Error{Code: kind.String(), Message: err.Error(), Hint: core.HintOf(err)},
	}
}

func faultProblem(id string) *problem {
	return &problem{
		status: core.Internal.HTTPStatus(),
		body: api.Error{
			Code: core.Internal.String(), ID: id,
			Message: "a fault of the daemon, logged as " + id,
			Hint:    "look for " + id + " in the daemon's log",
		},
	}
}

func faultID() string { return "flt_" + strings.ToLower(rand.Text()[:12]) }

// problem logs faults of the daemon and tells only their identifier.
func (s *Server) problem(ctx context.Context, op string, err error) *problem {
	if p, ok := errors.AsType[*problem](err); ok {
		return p
	}
	if core.KindOf(err) != core.Internal {
		return problemOf(err)
	}
	id := faultID()
	s.log.ErrorContext(ctx, "request failed", "fault", id, "op", op, "actor", authorOf(ctx).Handle, "err", err)
	return faultProblem(id)
}

func (s *Server) writeError(w http.ResponseWriter, r *http.Request, err error) {
	writeProblem(w, s.problem(r.Context(), r.Method+" "+r.URL.Path, err))
}

func writeProblem(w http.ResponseWriter, p *problem) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(p.status)
	_ = json.NewEncoder(w).Encode(p)
}

// ownErrors turns the framework's validation errors into ours.
func (s *Server) ownErrors(ctx huma.Context, _ string, v any) (any, error) {
	model, ok := v.(*huma.ErrorModel)
	if !ok {
		return v, nil
	}
	if model.Status >= http.StatusInternalServerError {
		return s.problem(ctx.Context(), ctx.Operation().OperationID, fmt.Errorf("%s %v", model.Detail, model.Errors)), nil
	}
	parts := make([]string, 0, len(model.Errors))
	for i, e := range model.Errors {
		if i == 5 {
			parts = append(parts, fmt.Sprintf("and %d more", len(model.Errors)-i))
			break
		}
		where := strings.TrimPrefix(e.Location, "body.")
		if where == "" {
			parts = append(parts, e.Message)
			continue
		}
		parts = append(parts, where+": "+e.Message)
	}
	message := model.Detail
	if len(parts) > 0 {
		message = strings.Join(parts, "; ")
	}
	return &api.Error{
		Code: core.Invalid.String(), Message: clip(message, 2000),
		Hint: "the form of every request is described at " + openAPIPath,
	}, nil
}
