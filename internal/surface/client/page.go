package client

import (
	"context"
	"net/url"

	"drydock/internal/core"
)

// Inbox is the first page of each section of the inbox of the client's person.
func (c *Client) Inbox(ctx context.Context) (core.Inbox, error) {
	return get[core.Inbox](ctx, c, "/inbox", nil)
}

// Page is a session as a page opens it.
func (c *Client) Page(ctx context.Context, id core.SessionID) (core.SessionPage, error) {
	return get[core.SessionPage](ctx, c, "/sessions/"+seg(string(id))+"/page", nil)
}

// Search looks for words in the log of a session.
func (c *Client) Search(ctx context.Context, id core.SessionID, words, cursor string) (core.Found, error) {
	q := url.Values{"q": {words}}
	if cursor != "" {
		q.Set("cursor", cursor)
	}
	return get[core.Found](ctx, c, "/sessions/"+seg(string(id))+"/search", q)
}
