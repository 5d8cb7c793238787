package preview

import (
	"net/http"
	"net/url"
	"slices"
	"strings"

	"drydock/internal/core"
)

// malformed says what is wrong with a request whatever it is for, or "".
func malformed(r *http.Request) string {
	switch {
	case r.Method == http.MethodConnect, r.Method == http.MethodTrace:
		return "this method is not for apps"
	case r.URL.Host != "" || r.URL.Scheme != "" || r.URL.Opaque != "":
		return "the address in the request names a host"
	case !strings.HasPrefix(r.URL.Path, "/"):
		return "the address in the request is not a path"
	case len(r.Header.Values("Sec-Fetch-Site")) > 1 || len(r.Header.Values("Origin")) > 1:
		return "the request says twice where it is from"
	case upgrades(r) && !strings.EqualFold(r.Header.Get("Upgrade"), "websocket"):
		return "only WebSockets are passed on"
	case upgrades(r) && (r.ContentLength != 0 || r.Method != http.MethodGet):
		return "a WebSocket begins with a GET without a body"
	}
	return ""
}

func upgrades(r *http.Request) bool { return len(r.Header.Values("Upgrade")) > 0 }

// from says where a request comes from, as far as the browser tells.
type from int

const (
	fromSelf    from = iota // the same origin, or the person's own hand
	fromSibling             // another port of the session
	fromVisit               // a navigation from anywhere
	fromOutside             // something that an unknown page embeds
	fromForeign             // a page that has no business here
)

// origin judges a request by what the browser says of it. sibling is the port
// it comes from, if it is one.
func (s *Service) origin(r *http.Request, t target) (where from, sibling int) {
	site, origin := r.Header.Get("Sec-Fetch-Site"), r.Header.Get("Origin")
	reads := r.Method == http.MethodGet || r.Method == http.MethodHead
	if origin == t.origin() && (site == "" || site == "same-origin") {
		return fromSelf, 0
	}
	if origin != "" && origin != "null" {
		if port, ok := s.siblingOf(origin, t); ok {
			return fromSibling, port
		}
	}
	switch site {
	case "same-origin":
		return fromSelf, 0
	case "none":
		if reads && !upgrades(r) {
			return fromSelf, 0
		}
		return fromForeign, 0
	case "": // an old browser, or plain HTTP: then only an Origin tells
		if origin == "" && reads && !upgrades(r) {
			return fromSelf, 0
		}
		return fromForeign, 0
	}
	dest := r.Header.Get("Sec-Fetch-Dest")
	switch {
	case !reads || upgrades(r) || origin != "":
		return fromForeign, 0
	case r.Header.Get("Sec-Fetch-Mode") == "navigate" && slices.Contains([]string{"document", "iframe", "frame"}, dest):
		return fromVisit, 0
	case r.Header.Get("Sec-Fetch-Mode") == "no-cors":
		return fromOutside, 0
	}
	return fromForeign, 0
}

// siblingOf reads an Origin as another port of the same session.
func (s *Service) siblingOf(origin string, t target) (int, bool) {
	if s.doors != nil {
		u, err := url.Parse(origin)
		if err != nil || u.Scheme != "http" || u.Host == "" || origin != u.Scheme+"://"+u.Host {
			return 0, false
		}
		name, port := splitHost("http", u.Host)
		l, ok := s.doors.whose(port)
		return l.Port, ok && name == s.opts.Name && l.Session == t.Session && l.Port != t.Port
	}
	host, ok := strings.CutPrefix(origin, t.scheme+"://")
	if !ok {
		return 0, false
	}
	l, ok := s.names.parse(host)
	return l.Port, ok && l.Session == t.Session && sameLink(l.Link, t.Link) && l.Port != t.Port && s.names.host(l) == host
}

// admit finds the grant that a request is made under.
func (s *Service) admit(r *http.Request, t target) (*grant, error) {
	where, sibling := s.origin(r, t)
	if where == fromForeign {
		return nil, core.E("preview.origin", core.Denied, nil, "a page of another origin may not use this preview")
	}
	var g *grant
	for _, secret := range t.secrets(r) {
		if g = s.grantOf(secret, t.label); g != nil {
			break
		}
	}
	if g != nil {
		switch {
		case where == fromSibling && !s.covers(g, sibling):
			return nil, core.E("preview.origin", core.Denied, nil, "port %d was not opened together with this one", sibling)
		case where == fromOutside && g.link == "":
			return nil, core.E("preview.origin", core.Denied, nil, "the browser does not say which page embeds this").
				WithHint("`link_ports: true` in drydock.yaml lets the ports of a session embed each other")
		}
		return g, nil
	}
	if where == fromSibling && r.Method == http.MethodOptions && r.Header.Get("Access-Control-Request-Method") != "" {
		if g = s.opened(t.label, sibling); g != nil {
			return g, nil // it carries nothing, and the app answers it
		}
	}
	if where == fromSibling || where == fromOutside {
		if g = s.linked(t.label); g != nil {
			return g, nil
		}
		return nil, core.E("preview.origin", core.Unauthorized, nil, "a call between ports without credentials").
			WithHint("`link_ports: true` in drydock.yaml lets the ports of a session call each other; or send it with credentials: \"include\"")
	}
	return nil, core.E("preview.origin", core.Unauthorized, nil, "this browser has not opened this preview, or it is over").
		WithHint("open it from the session, or with `drydock session preview`")
}

func (s *Service) covers(g *grant, port int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Contains(g.ports, port)
}
