package access

import (
	"context"
	"strings"

	"drydock/internal/core"
	"drydock/internal/store"
)

// IsSecret reports whether a text looks like a secret of ours.
func IsSecret(text string) bool {
	return strings.HasPrefix(text, secretPrefix) || strings.HasPrefix(text, webPrefix)
}

// Credential stands for a secret without being one: it lets nobody in, and
// tells with Still whether the secret is still good. It is "" for what is no
// secret of ours.
func Credential(secret string) string {
	switch {
	case len(secret) > maxSecret:
		return ""
	case strings.HasPrefix(secret, secretPrefix):
		return store.TokenAPI + ":" + store.HashToken(secret)
	case strings.HasPrefix(secret, webPrefix):
		return store.TokenWeb + ":" + store.HashToken(secret)
	}
	return ""
}

// Still is the person behind a credential, or Unauthorized.
func (s *Service) Still(ctx context.Context, credential string) (core.Author, error) {
	kind, hash, _ := strings.Cut(credential, ":")
	refused := core.E("access.still", core.Unauthorized, nil, "the token or browser that this was opened with is not signed in any more").
		WithHint("sign in again, and open it anew")
	if kind != store.TokenAPI && kind != store.TokenWeb || hash == "" {
		return core.Author{}, refused
	}
	t, err := s.liveHash(ctx, hash, kind, refused)
	if err != nil {
		return core.Author{}, err
	}
	return s.db.User(ctx, t.User)
}
