package daemon

import (
	"context"

	"drydock/internal/control/access"
	"drydock/internal/core"
	"drydock/internal/store"
	"drydock/internal/surface/api"
	"drydock/internal/surface/server"
)

// people gives the interface who holds which token.
type people struct{ access *access.Service }

var (
	_ server.Tokens   = people{}
	_ server.Visitors = people{}
)

// Authenticate implements server.Tokens.
func (p people) Authenticate(ctx context.Context, secret string) (core.Author, error) {
	return p.access.Authenticate(ctx, secret)
}

func shownToken(t store.Token) api.Token {
	return api.Token{ID: t.ID, User: t.User, Kind: t.Kind, Parent: t.Parent, Label: t.Label, Created: t.Created, LastUsed: t.LastUsed, Revoked: t.Revoked}
}

// CreateToken implements server.Tokens.
func (p people) CreateToken(ctx context.Context, by core.Author, req api.CreateToken) (api.CreatedToken, error) {
	t, secret, err := p.access.Create(ctx, by, core.Author{Handle: req.Handle, Name: req.Name, Email: req.Email}, req.Label)
	if err != nil {
		return api.CreatedToken{}, err
	}
	return api.CreatedToken{Token: shownToken(t), Secret: secret}, nil
}

// ListTokens implements server.Tokens. A person has few tokens, so the cursor
// is a plain position.
func (p people) ListTokens(ctx context.Context, by core.Author, page core.Page) ([]api.Token, string, error) {
	list, err := p.access.List(ctx, by)
	if err != nil {
		return nil, "", err
	}
	part, next, err := slicePage(list, page)
	if err != nil {
		return nil, "", err
	}
	out := make([]api.Token, 0, len(part))
	for _, t := range part {
		out = append(out, shownToken(t))
	}
	return out, next, nil
}

// RevokeToken implements server.Tokens.
func (p people) RevokeToken(ctx context.Context, by core.Author, id core.TokenID) error {
	return p.access.Revoke(ctx, by, id)
}

// SignIn implements server.Visitors.
func (p people) SignIn(ctx context.Context, secret, label string) (core.Author, string, error) {
	return p.access.SignIn(ctx, secret, label)
}

// Visitor implements server.Visitors.
func (p people) Visitor(ctx context.Context, secret string) (core.Author, error) {
	return p.access.Visitor(ctx, secret)
}

// SignOut implements server.Visitors.
func (p people) SignOut(ctx context.Context, secret string) error {
	return p.access.SignOut(ctx, secret)
}

// LoginCode implements server.Visitors.
func (p people) LoginCode(ctx context.Context, secret string) (api.LoginCode, error) {
	code, expires, err := p.access.Code(ctx, secret)
	return api.LoginCode{Code: code, Expires: expires}, err
}
