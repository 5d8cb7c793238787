package server

import (
	"mime"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"

	"drydock/internal/core"
)

// What a browser may do here. Its cookie goes with every request to this host,
// whoever made the page that sends it, so a cookie counts only for requests
// that the browser itself says come from our own page. A bearer token does not
// travel by itself and needs none of this.

// secure sets the headers of everything that is served. The page has a policy
// of its own; nothing else may act as one.
func secure(h http.Header) {
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Permissions-Policy", "accelerometer=(), autoplay=(), camera=(), display-capture=(), encrypted-media=(), geolocation=(), gyroscope=(), magnetometer=(), microphone=(), midi=(), payment=(), usb=()")
	h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'")
}

// hosts are the names under which this server answers browsers. A name that
// somebody else points at this machine is not one of them.
type hosts struct {
	public *url.URL // nil: none is configured
}

func newHosts(public string) (hosts, error) {
	if public == "" {
		return hosts{}, nil
	}
	u, err := url.Parse(public)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.User != nil {
		return hosts{}, core.E("server.new", core.Invalid, err, "public address %q is not of the form https://name", public)
	}
	return hosts{public: u}, nil
}

// split parts a Host header. The port is that of the scheme if none is given.
func split(host, scheme string) (name, port string) {
	name, port, err := net.SplitHostPort(host)
	if err != nil {
		name, port = strings.Trim(host, "[]"), "80"
		if scheme == "https" {
			port = "443"
		}
	}
	return strings.TrimSuffix(strings.ToLower(name), "."), port
}

// isPublic reports whether a request names the configured address.
func (h hosts) isPublic(r *http.Request) bool {
	if h.public == nil {
		return false
	}
	name, port := split(r.Host, h.public.Scheme)
	wantName, wantPort := split(h.public.Host, h.public.Scheme)
	return name == wantName && port == wantPort
}

func loopback(name string) bool {
	if name == "localhost" || strings.HasSuffix(name, ".localhost") {
		return true
	}
	ip, err := netip.ParseAddr(name)
	return err == nil && ip.Unmap().IsLoopback()
}

// knows reports whether a request names this server. With a token in it any
// name will do: only names of browsers can be turned against them.
func (h hosts) knows(r *http.Request) bool {
	name, _ := split(r.Host, "http")
	if r.Header.Get("Authorization") != "" || r.URL.Path == "/healthz" || loopback(name) && !isPreviewName(name) || h.isPublic(r) {
		return true
	}
	ip, err := netip.ParseAddr(name)
	at, ok := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr)
	return err == nil && ok && at.AddrPort().Addr().Unmap() == ip.Unmap() // the address that was dialled, not a name for it
}

func (s *Server) writeForeignHost(w http.ResponseWriter, r *http.Request) {
	p := problemOf(core.E("server.host", core.Invalid, nil, "this server does not answer as %q", clip(r.Host, 100)).
		WithHint("use localhost, or name the public address in the configuration (web.public_url)"))
	p.status = http.StatusMisdirectedRequest
	writeProblem(w, p)
}

// encrypted reports whether a request came over TLS, here or in front.
func (h hosts) encrypted(r *http.Request) bool {
	return r.TLS != nil || h.public != nil && h.public.Scheme == "https" && h.isPublic(r)
}

// sameOrigin reports whether the browser says that our own page made the
// request. A request that says nothing is not.
func (h hosts) sameOrigin(r *http.Request) bool {
	site, origin := r.Header.Values("Sec-Fetch-Site"), r.Header.Values("Origin")
	switch {
	case len(site) == 1:
		return site[0] == "same-origin"
	case len(site) > 1 || len(origin) != 1:
		return false
	}
	scheme := "http"
	if h.encrypted(r) {
		scheme = "https"
	}
	u, err := url.Parse(origin[0])
	if err != nil || u.Scheme != scheme || u.Host == "" {
		return false
	}
	name, port := split(u.Host, scheme)
	ourName, ourPort := split(r.Host, scheme)
	return name == ourName && port == ourPort
}

// mayUseCookie refuses requests that others could have had a browser make.
func (s *Server) mayUseCookie(r *http.Request) error {
	reads := r.Method == http.MethodGet || r.Method == http.MethodHead
	if !s.hosts.sameOrigin(r) {
		// Without TLS a browser sends no Sec-Fetch-Site, and a read has no Origin
		// either. The cookie itself is then all there is: it is SameSite=Strict.
		blind := s.opts.PlainHTTP && !s.hosts.encrypted(r) && reads && r.Header.Get("Upgrade") == "" &&
			len(r.Header.Values("Sec-Fetch-Site")) == 0 && len(r.Header.Values("Origin")) == 0
		if !blind {
			return core.E("server.origin", core.Denied, nil, "only the page of this server may use this browser's sign-in").
				WithHint("a program sends the header: Authorization: Bearer TOKEN")
		}
	}
	if reads {
		return nil
	}
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		return core.E("server.origin", core.Denied, nil, "a browser has to send JSON (Content-Type: application/json), also without a body")
	}
	return nil
}

const secureCookie = "__Host-drydock"

// cookieName has the port in it where there is no TLS: cookies do not know
// ports, and several daemons may run on one host.
func (s *Server) cookieName(r *http.Request) string {
	if s.hosts.encrypted(r) {
		return secureCookie
	}
	_, port := split(r.Host, "http")
	return "drydock-" + port
}

// cookie is the secret that the browser holds, or "". Two of them are one that
// another port or path of this host has put there: neither is believed.
func (s *Server) cookie(r *http.Request) (string, error) {
	found := r.CookiesNamed(s.cookieName(r))
	switch len(found) {
	case 0:
		return "", nil
	case 1:
		return found[0].Value, nil
	}
	return "", core.E("server.auth", core.Unauthorized, nil, "the browser sends %d cookies named %s", len(found), found[0].Name).
		WithHint("remove the cookies of this host in the browser, and sign in again")
}

func (s *Server) setCookie(r *http.Request, secret string) http.Cookie {
	c := http.Cookie{
		Name: s.cookieName(r), Value: secret, Path: "/", HttpOnly: true, SameSite: http.SameSiteStrictMode,
		Secure: s.hosts.encrypted(r), MaxAge: 400 * 24 * 3600, // the server knows when it ends
	}
	if secret == "" {
		c.MaxAge = -1
	}
	return c
}
