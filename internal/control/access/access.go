// Package access knows who holds which token. Roles and policies come with a
// later part; until then there are two kinds of people: the operator, whose
// token lies in the state directory, and everybody the operator made a token
// for. Only the operator makes tokens, since whoever can act as two people can
// approve their own work.
//
// Only a hash of a secret is stored. All methods may be called at once.
//
// A person signs a browser in with a token or with a one-use code, and the
// browser gets a secret of its own (kind web), which is no bearer token, ends
// with the token it was made with, and expires when it is not used.
package access

import (
	"context"
	"crypto/rand"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"drydock/internal/core"
	"drydock/internal/store"
)

// Operator is the handle of whoever runs the daemon.
const Operator = "operator"

// secretPrefix makes a leaked token recognisable to scanners.
const secretPrefix = "ddk_"

// touchEvery bounds how often the last use of a token is written.
const touchEvery = time.Minute

// Service answers who is who.
type Service struct {
	db    *store.DB
	codes codes
}

// New returns the service over a store.
func New(db *store.DB) *Service { return &Service{db: db} }

// Bootstrap makes the operator's token on the first start, and writes it to
// file with mode 0600. Later starts leave a working file as it is; a file that
// is lost is made anew.
func (s *Service) Bootstrap(ctx context.Context, file string, operator core.Author) error {
	operator.Handle = Operator
	if data, err := os.ReadFile(file); err == nil {
		if _, err := s.Authenticate(ctx, strings.TrimSpace(string(data))); err == nil {
			return nil
		}
	} else if !errors.Is(err, fs.ErrNotExist) {
		return core.E("access.bootstrap", core.Unavailable, err, "read the token file %s", file)
	}
	if _, err := s.db.User(ctx, Operator); core.Is(err, core.NotFound) {
		if err := s.db.PutUser(ctx, operator); err != nil {
			return err
		}
	} else if err != nil {
		return err
	}
	_, secret, err := s.create(ctx, Operator, "token file of the state directory")
	if err != nil {
		return err
	}
	tmp := filepath.Join(filepath.Dir(file), ".token.new")
	if err := os.WriteFile(tmp, []byte(secret+"\n"), 0o600); err != nil {
		return core.E("access.bootstrap", core.Unavailable, err, "write the token file %s", file)
	}
	if err := os.Rename(tmp, file); err != nil {
		return core.E("access.bootstrap", core.Unavailable, err, "write the token file %s", file)
	}
	return nil
}

// Authenticate finds the person behind a secret. An unknown and a revoked one
// are the same: Unauthorized.
func (s *Service) Authenticate(ctx context.Context, secret string) (core.Author, error) {
	t, err := s.holder(ctx, secret)
	if err != nil {
		return core.Author{}, err
	}
	return s.db.User(ctx, t.User)
}

// holder finds the token of a program behind a secret.
func (s *Service) holder(ctx context.Context, secret string) (store.Token, error) {
	refused := core.E("access.authenticate", core.Unauthorized, nil, "the token is not valid").
		WithHint("use the token of the state directory, or ask the operator for one (drydock token create)")
	if !strings.HasPrefix(secret, secretPrefix) {
		return store.Token{}, refused
	}
	return s.live(ctx, secret, store.TokenAPI, refused)
}

// live finds a token that is neither revoked nor of another kind.
func (s *Service) live(ctx context.Context, secret, kind string, refused error) (store.Token, error) {
	if len(secret) > maxSecret {
		return store.Token{}, refused
	}
	return s.liveHash(ctx, store.HashToken(secret), kind, refused)
}

func (s *Service) liveHash(ctx context.Context, hash, kind string, refused error) (store.Token, error) {
	t, err := s.db.TokenByHash(ctx, hash)
	if core.Is(err, core.NotFound) || err == nil && (!t.Revoked.IsZero() || t.Kind != kind) {
		return store.Token{}, refused
	}
	if err != nil {
		return store.Token{}, err
	}
	if kind == store.TokenWeb && time.Since(latest(t.Created, t.LastUsed)) > WebUnused {
		return store.Token{}, refused
	}
	if time.Since(t.LastUsed) > touchEvery {
		return t, s.db.TouchToken(ctx, t.ID, time.Now())
	}
	return t, nil
}

// maxSecret bounds what is looked at.
const maxSecret = 200

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

var handleRE = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{0,63}$`)

// Create makes a token for a person, who is created when unknown. The secret
// is returned once and stored nowhere.
func (s *Service) Create(ctx context.Context, by, who core.Author, label string) (store.Token, string, error) {
	if by.Handle != Operator {
		return store.Token{}, "", core.E("access.create", core.Denied, nil, "%s may not make tokens", by.Handle).
			WithHint("only the operator does: whoever can act as two people can approve their own work")
	}
	if !handleRE.MatchString(who.Handle) {
		return store.Token{}, "", core.E("access.create", core.Invalid, nil, "%q is not a handle: small letters, digits, dot, dash and underscore, at most 64", who.Handle)
	}
	known, err := s.db.User(ctx, who.Handle)
	switch {
	case core.Is(err, core.NotFound):
		if who.Name == "" {
			who.Name = who.Handle
		}
		if who.Email == "" {
			who.Email = who.Handle + "@localhost"
		}
		if strings.ContainsAny(who.Name+who.Email, "<>\r\n\x00") {
			return store.Token{}, "", core.E("access.create", core.Invalid, nil, "name and address go into commits and must not hold < > or line breaks")
		}
		err = s.db.PutUser(ctx, who)
	case err == nil && (who.Name != "" && who.Name != known.Name || who.Email != "" && who.Email != known.Email):
		return store.Token{}, "", core.E("access.create", core.Conflict, nil, "%s is known as %s <%s>", known.Handle, known.Name, known.Email).
			WithHint("leave name and address out to make one more token for them")
	}
	if err != nil {
		return store.Token{}, "", err
	}
	return s.create(ctx, who.Handle, label)
}

func (s *Service) create(ctx context.Context, handle, label string) (store.Token, string, error) {
	secret := secretPrefix + strings.ToLower(rand.Text()+rand.Text())
	t := store.Token{ID: core.NewTokenID(), Hash: store.HashToken(secret), User: handle, Kind: store.TokenAPI, Label: label, Created: time.Now().UTC()}
	return t, secret, s.db.CreateToken(ctx, t)
}

// List returns the tokens of a person; the operator sees everybody's.
func (s *Service) List(ctx context.Context, by core.Author) ([]store.Token, error) {
	if by.Handle != Operator {
		return s.db.Tokens(ctx, by.Handle)
	}
	var out []store.Token
	page := core.Page{Limit: core.MaxPage}
	for {
		users, next, err := s.db.Users(ctx, page)
		if err != nil {
			return nil, err
		}
		for _, u := range users {
			tokens, err := s.db.Tokens(ctx, u.Handle)
			if err != nil {
				return nil, err
			}
			out = append(out, tokens...)
		}
		if next == "" {
			return out, nil
		}
		page.Cursor = next
	}
}

// Revoke ends a token: one's own, or for the operator anybody's.
func (s *Service) Revoke(ctx context.Context, by core.Author, id core.TokenID) error {
	tokens, err := s.List(ctx, by)
	if err != nil {
		return err
	}
	for _, t := range tokens {
		if t.ID == id {
			s.codes.forget(id)
			return s.db.RevokeToken(ctx, id)
		}
	}
	return core.E("access.revoke", core.NotFound, nil, "token %s does not exist, or is not yours", id)
}
