package store

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"time"

	"drydock/internal/core"
)

// What a token is for.
const (
	TokenAPI = "api" // a program sends it
	TokenWeb = "web" // a browser holds it in a cookie
)

// Token lets a program act as a user. Only a hash of its secret is stored.
type Token struct {
	ID       core.TokenID `json:"id"`
	Hash     string       `json:"-"`
	User     string       `json:"user"` // handle
	Kind     string       `json:"kind"`
	Parent   core.TokenID `json:"parent,omitempty"` // that it was made with, and ends with
	Label    string       `json:"label"`
	Created  time.Time    `json:"created"`
	LastUsed time.Time    `json:"last_used,omitzero"`
	Revoked  time.Time    `json:"revoked,omitzero"`
}

var tokenTable = table[Token]{
	name: "tokens", noun: "token", columns: "id, hash, handle, kind, parent, label, created, last_used, revoked",
	fields: func(t *Token) []any {
		return []any{&t.ID, &t.Hash, &t.User, &t.Kind, &t.Parent, &t.Label, stamp{&t.Created}, stamp{&t.LastUsed}, stamp{&t.Revoked}}
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

// RevokeToken ends a token for good, and those that were made with it. A second
// call changes nothing.
func (w Writer) RevokeToken(ctx context.Context, id core.TokenID) error {
	return w.in(ctx, func(c conn) error {
		_, err := tokenTable.update(ctx, c, id, func(t *Token) error {
			if t.Revoked.IsZero() {
				t.Revoked = now()
			}
			return nil
		})
		if err != nil {
			return err
		}
		_, err = c.exec(ctx, `UPDATE tokens SET revoked = ? WHERE parent = ? AND parent <> '' AND revoked = 0`, nanos(now()), id)
		return c.d.explain(ctx, "store.token", err, tokenTable.what(id))
	})
}

// TrimWebTokens forgets web tokens of a user that ended or were last used
// before a time, and all but the newest keep-1: one more is about to be made.
func (w Writer) TrimWebTokens(ctx context.Context, user string, before time.Time, keep int) error {
	return w.in(ctx, func(c conn) error {
		_, err := c.exec(ctx, `DELETE FROM tokens WHERE handle = ? AND kind = ? AND (
				revoked > 0 AND revoked < ? OR last_used < ? AND created < ?
				OR id NOT IN (SELECT t.id FROM tokens t WHERE t.handle = ? AND t.kind = ? ORDER BY t.id DESC LIMIT ?))`,
			user, TokenWeb, nanos(before), nanos(before), nanos(before), user, TokenWeb, keep-1)
		return c.d.explain(ctx, "store.token", err, "web tokens of "+user)
	})
}
