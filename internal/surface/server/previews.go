package server

import (
	"context"
	"net/http"
	"strings"

	"drydock/internal/core"
	"drydock/internal/surface/api"
)

// Previews shows people what listens in a sandbox, on origins of their own.
type Previews interface {
	Ports(ctx context.Context, by core.Author, id core.SessionID) (api.Ports, error)
	// Open makes a way in for one browser. It ends with the secret that the
	// request carries.
	Open(ctx context.Context, secret string, id core.SessionID, req api.OpenPreview) (api.Preview, error)
	// Frames are the sources that the page may frame, for its policy.
	Frames() string
}

func (s *Server) previewRoutes() {
	const tag = "previews"
	d := s.deps
	have := d.Previews != nil
	register(s, route{id: "list-ports", method: "GET", path: "/sessions/{id}/ports", tag: tag, have: have, summary: "Ports of a session: those that its recipe declares, and those that something listens on"},
		func(ctx context.Context, by core.Author, in *IDIn) (*out[api.Ports], error) {
			return withSession(in.ID, func(id core.SessionID) (*out[api.Ports], error) {
				v, err := d.Previews.Ports(ctx, by, id)
				return ok(v), err
			})
		})
	register(s, route{id: "open-preview", method: "POST", path: "/sessions/{id}/previews", tag: tag, status: 201, have: have, summary: "A way into the preview of a port: an address that works once, within 30 seconds"},
		func(ctx context.Context, _ core.Author, in *struct {
			IDIn
			Body api.OpenPreview
		},
		) (*out[api.Preview], error) {
			return withSession(in.ID, func(id core.SessionID) (*out[api.Preview], error) {
				r := requestOf(ctx)
				secret := bearer(r.Header.Get("Authorization"))
				if secret == "" {
					var err error
					if secret, err = s.cookie(r); err != nil {
						return nil, err
					}
				}
				v, err := d.Previews.Open(ctx, secret, id, in.Body)
				return ok(v), err
			})
		})
}

// framing lets the page frame previews, and nothing else.
func (s *Server) framing(w http.ResponseWriter) http.ResponseWriter {
	if s.deps.Previews == nil {
		return w
	}
	if frames := s.deps.Previews.Frames(); frames != "" {
		return &framingWriter{ResponseWriter: w, frames: frames}
	}
	return w
}

type framingWriter struct {
	http.ResponseWriter
	frames string
}

// Write changes the policy that the page has given itself.
func (w *framingWriter) Write(p []byte) (int, error) {
	const policy = "Content-Security-Policy"
	h := w.Header()
	h.Set(policy, strings.Replace(h.Get(policy), "frame-src 'none'", "frame-src "+w.frames, 1))
	return w.ResponseWriter.Write(p)
}

// isPreviewName reports whether a host name is one of previews. Theirs is
// another listener; here an app could pass for the page.
func isPreviewName(name string) bool {
	first, _, _ := strings.Cut(name, ".")
	return strings.Contains(first, "--")
}
