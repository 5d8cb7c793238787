package server

import (
	"context"
	"net/http"
	"net/url"
	"runtime/debug"
	"strings"
	"time"

	"drydock/internal/core"
)

// wrap puts around everything what every request passes: recovery, headers,
// the refusal of foreign hosts and of cross-origin writes, one line in the log.
func (s *Server) wrap(h http.Handler) http.Handler {
	guard := http.NewCrossOriginProtection()
	guard.SetDenyHandler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.writeError(w, r, core.E("server.origin", core.Denied, nil,
			"a page of another origin may not change anything here").
			WithHint("send the request from a program, or from the page of this server"))
	}))
	h = guard.Handler(h)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, start := r.Context(), time.Now()
		sw := &statusWriter{ResponseWriter: w}
		defer func() {
			if v := recover(); v != nil {
				s.recovered(ctx, sw, r.URL.Path, v)
			}
			s.log.DebugContext(ctx, "request", "method", r.Method, "path", r.URL.Path,
				"status", sw.status, "dur", time.Since(start))
		}()
		secure(sw.Header())
		if !s.hosts.knows(r) {
			s.writeForeignHost(sw, r)
			return
		}
		h.ServeHTTP(sw, r)
	})
}

func (s *Server) recovered(ctx context.Context, w *statusWriter, path string, v any) {
	if v == http.ErrAbortHandler { //nolint:errorlint // a value of panic, compared as net/http does
		panic(v)
	}
	if ctx.Err() != nil {
		s.log.DebugContext(ctx, "client went away", "path", path, "err", v)
		return
	}
	id := faultID()
	s.log.ErrorContext(ctx, "panic in a handler", "fault", id, "path", path, "err", v, "stack", string(debug.Stack()))
	if w.status != 0 {
		panic(http.ErrAbortHandler) // half an answer is out: cut the connection
	}
	writeProblem(w, faultProblem(id))
}

// statusWriter remembers whether an answer has begun.
type statusWriter struct {
	http.ResponseWriter
	status int
}

func (w *statusWriter) WriteHeader(code int) {
	if w.status == 0 {
		w.status = code
	}
	w.ResponseWriter.WriteHeader(code)
}

func (w *statusWriter) Write(p []byte) (int, error) {
	if w.status == 0 {
		w.status = http.StatusOK
	}
	return w.ResponseWriter.Write(p)
}

func (w *statusWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

type authorKey struct{}

func authorOf(ctx context.Context) core.Author {
	a, _ := ctx.Value(authorKey{}).(core.Author)
	return a
}

// A form says how a client may carry its secret.
type form int

const (
	bearerOnly     form = iota
	bearerOrBasic       // git sends passwords, so the token is the password
	bearerOrCookie      // the page has a cookie; a program has a token
)

func (s *Server) authenticated(f form, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		who, err := s.who(f, r)
		if err != nil {
			if core.Is(err, core.Unauthorized) {
				scheme := `Bearer realm="drydock"`
				if f == bearerOrBasic {
					scheme = `Basic realm="drydock: any user name, a token as the password"`
				}
				w.Header().Set("WWW-Authenticate", scheme)
			}
			s.writeError(w, r, err)
			return
		}
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), authorKey{}, who)))
	})
}

// who finds the person behind a request. A token wins: with one, a cookie
// counts for nothing.
func (s *Server) who(f form, r *http.Request) (core.Author, error) {
	secret := bearer(r.Header.Get("Authorization"))
	if secret == "" && f == bearerOrBasic {
		_, secret, _ = r.BasicAuth()
	}
	if secret == "" && f == bearerOrCookie && s.deps.Visitors != nil && r.Header.Get("Authorization") == "" {
		if cookie, err := s.cookie(r); cookie != "" || err != nil {
			if err != nil {
				return core.Author{}, err
			}
			if err := s.mayUseCookie(r); err != nil {
				return core.Author{}, err
			}
			return s.deps.Visitors.Visitor(r.Context(), cookie)
		}
	}
	if secret == "" {
		return core.Author{}, core.E("server.auth", core.Unauthorized, nil, "no token in the request").
			WithHint("send the header: Authorization: Bearer TOKEN (the first token is in the file token of the state directory)")
	}
	who, err := s.deps.Tokens.Authenticate(r.Context(), secret)
	if err == nil && who.Handle == "" {
		err = core.E("server.auth", core.Unauthorized, nil, "the token belongs to nobody")
	}
	return who, err
}

func bearer(header string) string {
	scheme, token, ok := strings.Cut(header, " ")
	if !ok || !strings.EqualFold(scheme, "Bearer") {
		return ""
	}
	return strings.TrimSpace(token)
}

// strictQuery refuses what net/url would pass over in silence: a malformed
// query and a key given twice.
func strictQuery(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		values, err := url.ParseQuery(r.URL.RawQuery)
		if err != nil {
			writeProblem(w, problemOf(core.E("server.query", core.Invalid, nil, "malformed query %q", clip(r.URL.RawQuery, 200))))
			return
		}
		for key, vs := range values {
			if len(vs) > 1 {
				writeProblem(w, problemOf(core.E("server.query", core.Invalid, nil, "query parameter %q is given %d times", clip(key, 60), len(vs))))
				return
			}
		}
		next.ServeHTTP(w, r)
	})
}

// jsonMisses gives the mux's own 404 and 405 the form of every error.
func jsonMisses(mux *http.ServeMux) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h, pattern := mux.Handler(r)
		if pattern != "" {
			mux.ServeHTTP(w, r)
			return
		}
		miss := &missWriter{header: http.Header{}}
		h.ServeHTTP(miss, r)
		if miss.status/100 == 3 {
			h.ServeHTTP(w, r)
			return
		}
		if miss.status == http.StatusMethodNotAllowed {
			w.Header().Set("Allow", miss.header.Get("Allow"))
			p := problemOf(core.E("server.route", core.Invalid, nil, "%s is not allowed on %s", r.Method, clip(r.URL.Path, 200)).
				WithHint("allowed: %s", miss.header.Get("Allow")))
			p.status = http.StatusMethodNotAllowed
			writeProblem(w, p)
			return
		}
		writeProblem(w, problemOf(core.E("server.route", core.NotFound, nil, "no path %s", clip(r.URL.Path, 200)).
			WithHint("the interface is described at %s", openAPIPath)))
	})
}

// missWriter takes an answer that nobody sees.
type missWriter struct {
	header http.Header
	status int
}

func (w *missWriter) Header() http.Header { return w.header }
func (w *missWriter) Write(p []byte) (int, error) {
	if w.status == 0 {
		w.status = http.StatusOK
	}
	return len(p), nil
}

func (w *missWriter) WriteHeader(code int) {
	if w.status == 0 {
		w.status = code
	}
}

func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n], "") + "..."
}
