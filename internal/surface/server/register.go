package server

import (
	"context"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"drydock/internal/core"
	"drydock/internal/surface/api"
)

// route describes one operation.
type route struct {
	id, method, path string
	tag, summary     string
	status           int  // of success; default 200
	have             bool // the part it needs was given
	stream           bool // writes its own answer, for as long as it likes
	slow             bool // may take minutes
	open             bool // nobody has to be known
	content          map[string]*huma.MediaType
}

// slowTimeout bounds operations that move a lot of data.
const slowTimeout = 10 * time.Minute

// register adds an operation. The handler gets the person who asks; its error
// may be any, and its kind becomes the status.
func register[I, O any](s *Server, r route, h func(ctx context.Context, by core.Author, in *I) (*O, error)) {
	timeout := s.opts.Timeout
	if r.slow {
		timeout = slowTimeout
	}
	op := huma.Operation{
		OperationID: r.id, Method: r.method, Path: api.Prefix + r.path,
		Summary: r.summary, Tags: []string{r.tag}, DefaultStatus: r.status,
		MaxBodyBytes: api.MaxBody,
		Middlewares: huma.Middlewares{func(ctx huma.Context, next func(huma.Context)) {
			if !r.stream {
				_, w := humago.Unwrap(ctx)
				_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(timeout + 30*time.Second))
			}
			next(&statusMapper{humaContext: ctx})
		}},
	}
	if r.open {
		op.Security = []map[string][]string{{}}
	}
	if r.content != nil {
		op.Responses = map[string]*huma.Response{"200": {Description: "OK", Content: r.content}}
	}
	huma.Register(s.api, op, func(ctx context.Context, in *I) (*O, error) {
		if !r.have {
			return nil, problemOf(core.E("server."+r.id, core.Unavailable, nil, "this daemon has no part for %s", r.tag))
		}
		if !r.stream {
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(ctx, timeout)
			defer cancel()
		}
		out, err := h(ctx, authorOf(ctx), in)
		if err != nil {
			return nil, s.problem(ctx, r.id, err)
		}
		return out, nil
	})
	s.documentError(r)
}

// documentError replaces the framework's error schema by ours.
func (s *Server) documentError(r route) {
	item := s.api.OpenAPI().Paths[api.Prefix+r.path]
	for _, op := range []*huma.Operation{item.Get, item.Post, item.Put, item.Patch, item.Delete} {
		if op != nil && op.OperationID == r.id {
			op.Responses["default"] = &huma.Response{
				Description: "Error",
				Content:     map[string]*huma.MediaType{"application/json": {Schema: &huma.Schema{Ref: "#/components/schemas/Error"}}},
			}
		}
	}
}

// statusMapper makes a failed validation what the kind Invalid is.
type statusMapper struct{ humaContext }

// humaContext renames the interface: an embedded field may not be called like
// one of its methods.
type humaContext huma.Context

func (m *statusMapper) Unwrap() huma.Context { return m.humaContext }

func (m *statusMapper) SetStatus(code int) {
	if code == http.StatusUnprocessableEntity {
		code = core.Invalid.HTTPStatus()
	}
	m.humaContext.SetStatus(code)
}

func (m *statusMapper) SetHeader(name, value string) {
	if name == "Content-Type" && value == "application/problem+json" {
		value = "application/json"
	}
	m.humaContext.SetHeader(name, value)
}

// Shapes that many operations share. Those that others embed are exported,
// since the framework passes over embedded types that are not.
type (
	out[T any] struct{ Body T }
	none       struct{}
	IDIn       struct {
		ID string `path:"id" maxLength:"300"`
	}
	PageIn struct {
		Limit  int    `query:"limit" minimum:"1" maximum:"500" doc:"entries in the answer; default 50"`
		Cursor string `query:"cursor" maxLength:"1000" doc:"next of the page before"`
	}
)

func (p PageIn) page() core.Page { return core.Page{Limit: p.Limit, Cursor: p.Cursor} }

func ok[T any](v T) *out[T] { return &out[T]{Body: v} }

// withID runs f with the parsed identifier.
func withID[ID ~string, O any](prefix, raw string, f func(ID) (*O, error)) (*O, error) {
	id, err := core.ParseID[ID](prefix, raw)
	if err != nil {
		return nil, err
	}
	return f(id)
}

// listOf makes a page; items is never null.
func listOf[T any](items []T, next string) *out[api.List[T]] {
	if items == nil {
		items = []T{}
	}
	return ok(api.List[T]{Items: items, Next: next})
}
