package preview

import (
	"net/http"
	"net/url"
	"strings"

	"drydock/internal/core"
)

// Paths of ours on the hosts of previews. An app never sees them.
const (
	ownPrefix = "/.drydock/"
	enterPath = ownPrefix + "enter"
	wakePath  = ownPrefix + "wake"
	leavePath = ownPrefix + "leave"
)

// own answers what is ours.
func (s *Service) own(w http.ResponseWriter, r *http.Request, t target) {
	switch {
	case r.URL.Path == enterPath && r.Method == http.MethodGet:
		s.enterHost(w, r, t)
	case r.URL.Path == wakePath && r.Method == http.MethodPost:
		s.wake(w, r, t)
	case r.URL.Path == leavePath && r.Method == http.MethodPost:
		if where, _ := s.origin(r, t); where != fromSelf {
			s.refuse(w, r, t, core.E("preview.leave", core.Denied, nil, "a page of another origin may not do this"))
			return
		}
		for _, secret := range t.secrets(r) {
			s.leave(secret)
		}
		t.leaveCookies(w, r, "")
		s.page(w, r, t, sheet{status: http.StatusOK, title: "Left", text: "This browser has left the preview.", back: true})
	default:
		s.page(w, r, t, sheet{status: http.StatusNotFound, title: "Nothing here", text: "Paths under " + ownPrefix + " belong to Drydock."})
	}
}

// navigates reports whether somebody opens a page, and not something on one. A
// browser that does not say is believed.
func navigates(r *http.Request) bool {
	mode, dest := r.Header.Get("Sec-Fetch-Mode"), r.Header.Get("Sec-Fetch-Dest")
	return (mode == "" || mode == "navigate") && (dest == "" || dest == "document" || dest == "iframe" || dest == "frame") && !upgrades(r)
}

// enterHost takes a ticket and leaves a cookie; then comes the next host, or
// the app.
func (s *Service) enterHost(w http.ResponseWriter, r *http.Request, t target) {
	const op = "preview.enter"
	secret := r.URL.Query().Get("ticket")
	got, ok := s.redeem(secret, t.label)
	if !ok || !navigates(r) {
		s.refuse(w, r, t, core.E(op, core.Unauthorized, nil, "this way in was used already, or is too old").
			WithHint("a link of a preview works once, within %v: open it again from the session", ticketLife))
		return
	}
	have := ""
	for _, cookie := range t.secrets(r) {
		g := s.grantOf(cookie, t.label)
		if g == nil {
			continue
		}
		if g.user == got.user {
			have = cookie
			continue
		}
		if _, err := s.still(r.Context(), g); err == nil {
			s.page(w, r, t, sheet{
				status: http.StatusConflict, title: "Another person is here",
				text: "This browser has opened this preview as " + g.user + ", and the link is for " + got.user + ".", form: leavePath, button: "Leave",
			})
			return
		}
	}
	probe := &grant{credential: got.credential, user: got.user, session: t.Session}
	if _, err := s.still(r.Context(), probe); err != nil {
		s.refuse(w, r, t, err)
		return
	}
	next := got
	if got.cookie == "" { // the first host
		next.cookie, next.home, next.rest = s.enter(got, have), t.Port, got.ports
	}
	t.leaveCookies(w, r, next.cookie)
	if t.weak {
		w.Header().Set("Clear-Site-Data", `"cache", "storage"`) // never "cookies": they are those of the whole host
	}
	to, err := s.next(r, t, next)
	if err != nil {
		s.refuse(w, r, t, err)
		return
	}
	ownHeaders(w.Header(), s.ancestors())
	http.Redirect(w, r, to, http.StatusSeeOther)
}

// next is where an entry goes on: each port once, then home without a ticket.
func (s *Service) next(r *http.Request, t target, got ticket) (string, error) {
	for len(got.rest) > 0 && got.rest[0] == t.Port {
		got.rest = got.rest[1:]
	}
	port := got.home
	if len(got.rest) > 0 {
		port, got.rest = got.rest[0], got.rest[1:]
	}
	l := t.label
	l.Port = port
	there, err := s.target(r.Context(), l)
	if err != nil {
		return "", err
	}
	if there.Port == got.home && len(got.rest) == 0 {
		return there.origin() + "/", nil
	}
	got.label = there.label
	secret, _, err := s.issue(got)
	if err != nil {
		return "", err
	}
	return there.origin() + enterPath + "?" + url.Values{"ticket": {secret}}.Encode(), nil
}

// wake opens the sandbox of a session that sleeps.
func (s *Service) wake(w http.ResponseWriter, r *http.Request, t target) {
	where, _ := s.origin(r, t)
	g, err := s.admit(r, t)
	if err == nil && where != fromSelf {
		err = core.E("preview.wake", core.Denied, nil, "a page of another origin may not do this")
	}
	if err == nil {
		_, err = s.still(r.Context(), g)
	}
	if err == nil {
		err = s.deps.Boxes.Wake(r.Context(), t.Session)
	}
	if err != nil {
		s.refuse(w, r, t, err)
		return
	}
	ownHeaders(w.Header(), s.ancestors())
	http.Redirect(w, r, "/", http.StatusSeeOther)
}

func isOwn(path string) bool {
	return strings.HasPrefix(path, ownPrefix) || path == strings.TrimSuffix(ownPrefix, "/")
}
