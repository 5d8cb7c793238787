package server

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"reflect"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"drydock/internal/core"
	"drydock/internal/surface/api"
)

const openAPIPath = api.Prefix + "/openapi.json"

// describe makes the framework ready. Its own paths are off: it would serve
// pages that load scripts from elsewhere.
func (s *Server) describe() {
	registry := huma.NewMapRegistry("#/components/schemas/", huma.DefaultSchemaNamer)
	config := huma.Config{
		OpenAPI: &huma.OpenAPI{
			OpenAPI: "3.1.0",
			Info: &huma.Info{
				Title: "Drydock", Version: "1",
				Description: "Background coding agents. Errors have code, message and hint; lists have items and next; durations are in nanoseconds, money in millionths of a US dollar.",
			},
			Components: &huma.Components{
				Schemas: registry,
				SecuritySchemes: map[string]*huma.SecurityScheme{
					"token":   {Type: "http", Scheme: "bearer"},
					"browser": {Type: "apiKey", In: "cookie", Name: secureCookie, Description: "of POST /login; only for the page itself: same origin, and JSON where something changes"},
				},
			},
			Security: []map[string][]string{{"token": {}}, {"browser": {}}},
		},
		Formats:                      map[string]huma.Format{"application/json": huma.DefaultJSONFormat, "json": huma.DefaultJSONFormat},
		DefaultFormat:                "application/json",
		RejectUnknownQueryParameters: true,
		Transformers:                 []huma.Transformer{s.ownErrors},
	}
	s.api = humago.New(s.mux, config)
	registry.Schema(reflect.TypeFor[api.Error](), true, "Error")
	registry.Schema(reflect.TypeFor[core.Event](), true, "Event")
	registry.Schema(reflect.TypeFor[api.ExecRequest](), true, "ExecRequest")
	registry.Schema(reflect.TypeFor[api.Control](), true, "Control")
	registry.Schema(reflect.TypeFor[api.ExecEnd](), true, "ExecEnd")
}

// document is the description as indented JSON.
func (s *Server) document() ([]byte, error) {
	schemas := s.api.OpenAPI().Components.Schemas.Map()
	delete(schemas, "ErrorModel")
	delete(schemas, "ErrorDetail")
	raw, err := json.Marshal(s.api.OpenAPI())
	if err != nil {
		return nil, core.E("server.openapi", core.Internal, err, "describe the interface")
	}
	var buf bytes.Buffer
	if err := json.Indent(&buf, raw, "", "  "); err != nil {
		return nil, core.E("server.openapi", core.Internal, err, "describe the interface")
	}
	buf.WriteByte('\n')
	return buf.Bytes(), nil
}

func (s *Server) serveOpenAPI(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/openapi+json")
	_, _ = w.Write(s.doc)
}

// OpenAPI is the description of the whole interface, as docs/openapi.json
// holds it.
func OpenAPI() ([]byte, error) {
	s, err := New(Deps{Tokens: nobody{}}, Options{})
	if err != nil {
		return nil, err
	}
	return s.doc, nil
}

// nobody knows no token.
type nobody struct{}

func (nobody) Authenticate(context.Context, string) (core.Author, error) {
	return core.Author{}, core.E("server.auth", core.Unauthorized, nil, "unknown token")
}

func (nobody) CreateToken(context.Context, core.Author, api.CreateToken) (api.CreatedToken, error) {
	return api.CreatedToken{}, core.E("server.token", core.Denied, nil, "no tokens here")
}

func (nobody) ListTokens(context.Context, core.Author, core.Page) ([]api.Token, string, error) {
	return nil, "", nil
}

func (nobody) RevokeToken(context.Context, core.Author, core.TokenID) error { return nil }
