package client

import (
	"context"
	"io"
	"net/http"
	"net/url"

	"drydock/internal/core"
	"drydock/internal/surface/api"
)

func (c *Client) Evidence(ctx context.Context, id core.EvidenceID) (api.Evidence, error) {
	return get[api.Evidence](ctx, c, "/evidence/"+seg(string(id)), nil)
}

// EvidenceFile copies one artifact to w.
func (c *Client) EvidenceFile(ctx context.Context, id core.EvidenceID, digest string, w io.Writer) error {
	return c.fetch(ctx, http.MethodGet, "/evidence/"+seg(string(id))+"/files/"+seg(digest), nil, w)
}

// EvidenceBundle copies a whole bundle to w, as a tar.
func (c *Client) EvidenceBundle(ctx context.Context, id core.EvidenceID, w io.Writer) error {
	return c.fetch(ctx, http.MethodGet, "/evidence/"+seg(string(id))+"/bundle", nil, w)
}

// Blob copies a picture or a log to w.
func (c *Client) Blob(ctx context.Context, digest string, w io.Writer) error {
	return c.fetch(ctx, http.MethodGet, "/blobs/"+seg(digest), nil, w)
}

// SessionFile copies one file of the workspace to w.
func (c *Client) SessionFile(ctx context.Context, id core.SessionID, path string, w io.Writer) error {
	return c.fetch(ctx, http.MethodGet, "/sessions/"+seg(string(id))+"/file", url.Values{"path": {path}}, w)
}

// Backup copies the daemon's state to w, as a tar.
func (c *Client) Backup(ctx context.Context, w io.Writer) error {
	return c.fetch(ctx, http.MethodPost, "/backup", nil, w)
}

func (c *Client) fetch(ctx context.Context, method, path string, query url.Values, w io.Writer) error {
	resp, err := c.send(ctx, request{method: method, path: path, query: query})
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	if _, err := io.Copy(w, resp.Body); err != nil {
		if ctx.Err() != nil {
			return core.E("client.fetch", core.Canceled, ctx.Err(), "")
		}
		return core.E("client.fetch", core.Unavailable, err, "the transfer of %s broke off", path)
	}
	return nil
}
