package store

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"time"

	"drydock/internal/core"
)

// Token lets a program act as a user. Only a hash of its secret is stored.
type Token struct {
	ID       core.TokenID `json:"id"`
	Hash     string       `json:"-"`
	User     string       `json:"user"` // handle
	Label    string       `json:"label"`
	Created  time.Time    `json:"created"`
	LastUsed time.Time    `json:"last_used,omitzero"`
	Revoked  time.Time    `json:"revoked,omitzero"`
}

var tokenTable = table[Token]{
	name: "tokens", noun: "token", columns: "id, hash, handle, label, created, last_used, revoked",
	fields: func(t *Token) []any {
		return []any{&t.ID, &t.Hash, &t.User, &t.Label, stamp{&t.Created}, stamp{&t.LastUsed}, stamp{&t.Revoked}}
	},
}

// HashToken is what is stored of a secret. Secrets are long and random, so a
// plain hash is enough.
func HashToken(secret string) string {
	sum := sha256.Sum256([]byte(secret))
	return hex.EncodeToString(sum[:])
}

// CreateToken stores a token whose Hash is set; its user must exist.
func (w Writer) CreateToken(ctx context.Context, t Token) error {
	return w.in(ctx, func(c conn) error { return tokenTable.insert(ctx, c, &t) })
}

// TokenByHash finds a token, also a revoked one.
func (r Reader) TokenByHash(ctx context.Context, hash string) (Token, error) {
	return tokenTable.get(ctx, r.q, "with this secret", "WHERE hash = ?", hash)
}

// Tokens lists a user's tokens, newest first.
func (r Reader) Tokens(ctx context.Context, user string) ([]Token, error) {
	return tokenTable.list(ctx, r.q, "WHERE handle = ? ORDER BY id DESC", user)
}

// TouchToken notes that a token was used.
func (w Writer) TouchToken(ctx context.Context, id core.TokenID, at time.Time) error {
	return w.in(ctx, func(c conn) error {
		_, err := tokenTable.update(ctx, c, id, func(t *Token) error { t.LastUsed = at; return nil })
		return err
	})
}

// RevokeToken ends a token for good. A second call changes nothing.
func (w Writer) RevokeToken(ctx context.Context, id core.TokenID) error {
	return w.in(ctx, func(c conn) error {
		_, err := tokenTable.update(ctx, c, id, func(t *Token) error {
			if t.Revoked.IsZero() {
				t.Revoked = now()
			}
			return nil
		})
		return err
	})
}
