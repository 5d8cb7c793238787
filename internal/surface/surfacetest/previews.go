package surfacetest

import (
	"context"
	"fmt"
	"time"

	"drydock/internal/core"
	"drydock/internal/surface/api"
)

// previews shows port 3000 of every session, which is declared, and 9229,
// which is not.
type previews struct{ w *World }

func (p previews) Ports(ctx context.Context, _ core.Author, id core.SessionID) (api.Ports, error) {
	if _, err := sessions(p).Get(ctx, id); err != nil {
		return api.Ports{}, err
	}
	return api.Ports{Awake: true, Items: []api.Port{
		{Port: 3000, Name: "web", Service: "web", Declared: true, Listening: true, URL: p.origin(3000, id) + "/"},
		{Port: 9229, Listening: true, URL: p.origin(9229, id) + "/"},
	}}, nil
}

func (previews) origin(port int, id core.SessionID) string {
	return fmt.Sprintf("http://%d--%s.localhost:7301", port, string(id)[4:])
}

func (p previews) Open(ctx context.Context, secret string, id core.SessionID, req api.OpenPreview) (api.Preview, error) {
	if _, err := sessions(p).Get(ctx, id); err != nil {
		return api.Preview{}, err
	}
	if secret == "" {
		return api.Preview{}, core.E("preview.open", core.Unauthorized, nil, "the request carries no secret")
	}
	if req.Port != 3000 && !req.Any {
		return api.Preview{}, core.E("preview.open", core.Denied, nil, "the recipe of session %s does not declare port %d", id, req.Port).
			WithHint("drydock.yaml declares ports with `ports: [%d]` or a service; `any` shows it all the same", req.Port)
	}
	return api.Preview{
		URL: p.origin(req.Port, id) + "/.drydock/enter?ticket=once", Port: req.Port, Declared: req.Port == 3000, Expires: p.w.Now().Add(30 * time.Second),
	}, nil
}

func (previews) Frames() string { return "http://*.localhost:7301" }
