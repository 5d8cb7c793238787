package server

import (
	"context"
	"reflect"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"drydock/internal/core"
	"drydock/internal/surface/api"
)

// transferRoutes move snapshots to and from registries. They answer with a
// stream, and stop when it is closed: what was moved by then is not moved
// again.
func (s *Server) transferRoutes() {
	const tag = "snapshots"
	snaps := s.deps.Snapshots
	have := snaps != nil
	schemas := s.api.OpenAPI().Components.Schemas
	schemas.Schema(reflect.TypeFor[api.Transfer](), true, "Transfer")
	schemas.Schema(reflect.TypeFor[api.PushedSnapshot](), true, "PushedSnapshot")
	schemas.Schema(reflect.TypeFor[api.PulledSnapshot](), true, "PulledSnapshot")
	content := func(result string) map[string]*huma.MediaType {
		return map[string]*huma.MediaType{"text/event-stream": {Schema: &huma.Schema{
			Type: "string", Description: "events named progress are a Transfer each; the last one is named result and is a " + result + ", or is named error",
		}}}
	}
	register(s, route{id: "push-snapshot", method: "POST", path: "/snapshots/{id}/push", tag: tag, stream: true, have: have, content: content("PushedSnapshot"), summary: "Send a snapshot to a registry as an OCI image; progress, then one event named result"},
		func(ctx context.Context, _ core.Author, in *struct {
			IDIn
			Body api.PushSnapshot
		},
		) (*huma.StreamResponse, error) {
			id, err := core.ParseID[core.SnapshotID]("snp_", in.ID)
			if err != nil {
				return nil, err
			}
			if _, err := snaps.Get(ctx, id); err != nil {
				return nil, err
			}
			return transfer(ctx, s, "push-snapshot", func(ctx context.Context, progress func(api.Transfer)) (api.PushedSnapshot, error) {
				return snaps.Push(ctx, id, in.Body, progress)
			}), nil
		})
	register(s, route{id: "pull-snapshot", method: "POST", path: "/snapshots/pull", tag: tag, stream: true, have: have, content: content("PulledSnapshot"), summary: "Bring a snapshot here from a registry; progress, then one event named result"},
		func(ctx context.Context, by core.Author, in *struct{ Body api.PullSnapshot }) (*huma.StreamResponse, error) {
			return transfer(ctx, s, "pull-snapshot", func(ctx context.Context, progress func(api.Transfer)) (api.PulledSnapshot, error) {
				return snaps.Pull(ctx, in.Body, by, progress)
			}), nil
		})
}

func transfer[R any](ctx context.Context, s *Server, id string, do func(context.Context, func(api.Transfer)) (R, error)) *huma.StreamResponse {
	return &huma.StreamResponse{Body: func(hctx huma.Context) {
		_, w := humago.Unwrap(hctx)
		st := newStream(w)
		work(ctx, s, st, id, func(t api.Transfer) { st.send("", "progress", t) }, do)
	}}
}
