package access

import (
	"context"
	"crypto/rand"
	"strings"
	"sync"
	"time"

	"drydock/internal/core"
	"drydock/internal/store"
)

// Bounds of signing in.
const (
	WebUnused = 30 * 24 * time.Hour // then a browser has to sign in again
	CodeLife  = 5 * time.Minute     // of a one-use code
	CodeLen   = 8                   // letters

	webPrefix  = "ddw_"
	maxBrowser = 50   // browsers of one person
	maxCodes   = 1000 // that wait to be used
	maxOwn     = 5    // of them, of one person
)

// codeLetters are 32 (Crockford's): 40 bits in a code.
const codeLetters = "0123456789abcdefghjkmnpqrstvwxyz"

// letterForms undoes what people do to a code when they type it.
var letterForms = strings.NewReplacer(" ", "", "-", "", "o", "0", "i", "1", "l", "1")

// code is a one-use way in, kept in memory: it lives shorter than a restart is
// worth a table.
type code struct {
	user    string
	parent  core.TokenID
	expires time.Time
}

type codes struct {
	mu   sync.Mutex
	live map[string]code // by the hash of the letters
}

// Code makes a one-use code for the holder of a token, for a browser that is
// to be signed in as the same person.
func (s *Service) Code(ctx context.Context, secret string) (letters string, expires time.Time, err error) {
	t, err := s.holder(ctx, secret)
	if err != nil {
		return "", time.Time{}, err
	}
	letters, expires = newCode(), time.Now().Add(CodeLife).UTC()
	if !s.codes.add(letters, code{t.User, t.ID, expires}) {
		return "", time.Time{}, core.E("access.code", core.Exhausted, nil, "there are %d codes that wait to be used", maxCodes).
			WithHint("they expire within %v", CodeLife)
	}
	return letters, expires, nil
}

func newCode() string {
	raw := make([]byte, CodeLen)
	_, _ = rand.Read(raw) // never fails
	for i, b := range raw {
		raw[i] = codeLetters[b&31]
	}
	return string(raw)
}

// add makes room by forgetting what has expired, and the oldest of a person
// who has many.
func (c *codes) add(letters string, v code) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.live == nil {
		c.live = map[string]code{}
	}
	own, oldest := 0, ""
	for hash, old := range c.live {
		if !time.Now().Before(old.expires) {
			delete(c.live, hash)
			continue
		}
		if old.user == v.user {
			own++
			if oldest == "" || old.expires.Before(c.live[oldest].expires) {
				oldest = hash
			}
		}
	}
	if own >= maxOwn {
		delete(c.live, oldest)
	}
	if len(c.live) >= maxCodes {
		return false
	}
	c.live[store.HashToken(letters)] = v
	return true
}

// take uses a code up.
func (c *codes) take(letters string) (code, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	hash := store.HashToken(letters)
	v, ok := c.live[hash]
	delete(c.live, hash)
	return v, ok && time.Now().Before(v.expires)
}

// forget drops the codes that were made with a token.
func (c *codes) forget(parent core.TokenID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for hash, v := range c.live {
		if v.parent == parent {
			delete(c.live, hash)
		}
	}
}

// SignIn makes a secret for a browser of whoever has a token or a code. label
// says which browser it is.
func (s *Service) SignIn(ctx context.Context, secret, label string) (core.Author, string, error) {
	secret = strings.TrimSpace(secret)
	var from code
	if strings.HasPrefix(secret, secretPrefix) {
		t, err := s.holder(ctx, secret)
		if err != nil {
			return core.Author{}, "", err
		}
		from = code{user: t.User, parent: t.ID}
	} else {
		letters := letterForms.Replace(strings.ToLower(secret))
		var ok bool
		if len(letters) == CodeLen {
			from, ok = s.codes.take(letters)
		}
		if !ok {
			return core.Author{}, "", core.E("access.signin", core.Unauthorized, nil, "this is neither a token nor a code that is still good").
				WithHint("`drydock web` prints a new code; a code works once, within %v", CodeLife)
		}
	}
	who, err := s.db.User(ctx, from.user)
	if err != nil {
		return core.Author{}, "", err
	}
	made := webPrefix + strings.ToLower(rand.Text()+rand.Text())
	now := time.Now().UTC()
	err = s.db.Tx(ctx, func(tx *store.Tx) error {
		if err := tx.TrimWebTokens(ctx, who.Handle, now.Add(-WebUnused), maxBrowser); err != nil {
			return err
		}
		return tx.CreateToken(ctx, store.Token{
			ID: core.NewTokenID(), Hash: store.HashToken(made), User: who.Handle, Kind: store.TokenWeb, Parent: from.parent,
			Label: label, Created: now, LastUsed: now,
		})
	})
	if err != nil {
		return core.Author{}, "", err
	}
	return who, made, nil
}

// Visitor finds the person whose browser holds a secret.
func (s *Service) Visitor(ctx context.Context, secret string) (core.Author, error) {
	t, err := s.browser(ctx, secret)
	if err != nil {
		return core.Author{}, err
	}
	return s.db.User(ctx, t.User)
}

func (s *Service) browser(ctx context.Context, secret string) (store.Token, error) {
	refused := core.E("access.visitor", core.Unauthorized, nil, "this browser is not signed in any more").
		WithHint("sign in again")
	if !strings.HasPrefix(secret, webPrefix) {
		return store.Token{}, refused
	}
	return s.live(ctx, secret, store.TokenWeb, refused)
}

// SignOut ends the secret of a browser.
func (s *Service) SignOut(ctx context.Context, secret string) error {
	t, err := s.browser(ctx, secret)
	if err != nil {
		return err
	}
	return s.db.RevokeToken(ctx, t.ID)
}
