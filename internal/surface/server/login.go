package server

import (
	"context"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"drydock/internal/core"
	"drydock/internal/surface/api"
)

const loginPath = api.Prefix + "/login"

type visitKey struct{}

// visited hands the request itself to the few operations that set cookies.
func (s *Server) visited(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), visitKey{}, r)))
	})
}

func requestOf(ctx context.Context) *http.Request {
	r, _ := ctx.Value(visitKey{}).(*http.Request)
	return r
}

// signedIn is an answer that changes the browser's cookie.
type signedIn struct {
	SetCookie http.Cookie `header:"Set-Cookie"`
	Body      api.Who
}

type signedOut struct {
	SetCookie http.Cookie `header:"Set-Cookie"`
}

func (s *Server) loginRoutes() {
	const tag = "tokens"
	visitors := s.deps.Visitors
	have := visitors != nil
	register(s, route{id: "login", method: "POST", path: "/login", tag: tag, have: have, open: true, summary: "Sign this browser in with a token or a one-use code; only for the page itself"},
		func(ctx context.Context, _ core.Author, in *struct{ Body api.Login }) (*signedIn, error) {
			r := requestOf(ctx)
			if err := s.maySignIn(r); err != nil {
				return nil, err
			}
			from := remoteHost(r)
			if err := s.tries.may(from); err != nil {
				return nil, err
			}
			who, secret, err := visitors.SignIn(ctx, in.Body.Secret, browserLabel(r))
			if core.Is(err, core.Unauthorized) {
				s.tries.failed(from)
			}
			if err != nil {
				return nil, err
			}
			return &signedIn{SetCookie: s.setCookie(r, secret), Body: api.Who{User: who, Version: s.opts.Version}}, nil
		})
	register(s, route{id: "logout", method: "POST", path: "/logout", tag: tag, status: 204, have: have, summary: "Sign this browser out: its cookie is worth nothing any more"},
		func(ctx context.Context, _ core.Author, _ *none) (*signedOut, error) {
			r := requestOf(ctx)
			cookie, err := s.cookie(r)
			if err != nil {
				return nil, err
			}
			if cookie == "" || r.Header.Get("Authorization") != "" {
				return nil, core.E("server.logout", core.Invalid, nil, "no browser is signed in with this request").
					WithHint("a token ends with `drydock token revoke`")
			}
			return &signedOut{SetCookie: s.setCookie(r, "")}, visitors.SignOut(ctx, cookie)
		})
	register(s, route{id: "create-login-code", method: "POST", path: "/login-codes", tag: tag, status: 201, have: have, summary: "A one-use code to sign a browser in as the holder of this token"},
		func(ctx context.Context, _ core.Author, _ *none) (*out[api.LoginCode], error) {
			secret := bearer(requestOf(ctx).Header.Get("Authorization"))
			if secret == "" { // a page that was broken into must not be able to stay
				return nil, core.E("server.code", core.Denied, nil, "a browser cannot make codes for others").
					WithHint("`drydock web` prints one")
			}
			v, err := visitors.LoginCode(ctx, secret)
			if s.hosts.public != nil {
				v.URL = s.hosts.public.String()
			}
			return ok(v), err
		})
}

// maySignIn refuses to set cookies where they would travel in the clear, and
// for pages of others, which could sign a person in as somebody else.
func (s *Server) maySignIn(r *http.Request) error {
	if !s.hosts.sameOrigin(r) {
		return core.E("server.login", core.Denied, nil, "only the page of this server signs a browser in").
			WithHint("a program sends the header: Authorization: Bearer TOKEN")
	}
	if name, _ := split(r.Host, "http"); !s.hosts.encrypted(r) && !loopback(name) && !s.opts.PlainHTTP {
		return core.E("server.login", core.Denied, nil, "nobody signs in at http://%s: without TLS the secret could be read on the way, and the browser does not say which page a request comes from", clip(r.Host, 100)).
			WithHint("open it over https (web.public_url in the configuration) or through `ssh -L`; web.plain_http allows it all the same")
	}
	return nil
}

func remoteHost(r *http.Request) string {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	return host
}

// browserLabel names a browser in the list of tokens, in its own words.
func browserLabel(r *http.Request) string {
	name := strings.Map(func(c rune) rune {
		if c < ' ' || c > '~' {
			return -1
		}
		return c
	}, r.UserAgent())
	if name == "" {
		name = "unnamed"
	}
	return "browser: " + clip(name, 90)
}

// Bounds of wrong secrets within tryWindow. A code has 40 bits: the bound of
// all together is for the daemon's peace, not for the code's.
const (
	tryWindow  = 5 * time.Minute
	triesOfOne = 10
	triesOfAll = 5000
)

// tries counts wrong secrets by where they come from. It is as large as the
// bound of all together.
type tries struct {
	mu    sync.Mutex
	since time.Time
	all   int
	from  map[string]int
}

func (t *tries) may(from string) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if time.Since(t.since) > tryWindow {
		t.since, t.all, t.from = time.Now(), 0, map[string]int{}
	}
	if t.from[from] >= triesOfOne || t.all >= triesOfAll {
		return core.E("server.login", core.Exhausted, nil, "too many wrong tokens and codes").
			WithHint("try again in %v", (tryWindow - time.Since(t.since)).Round(time.Second))
	}
	return nil
}

func (t *tries) failed(from string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.from != nil {
		t.all++
		t.from[from]++
	}
}
