package preview

import (
	"encoding/base64"
	"net/http"
	"slices"
	"strings"
)

// Names of our cookies. A browser keeps secure ones for loopback names too, if
// it is not Safari; the plain one is for that, and is only set without TLS.
const (
	cookieTab   = "__Host-drydock-preview"
	cookieFrame = "__Host-drydock-frame" // partitioned: it counts inside the page that frames us
	cookiePlain = "drydock-preview-"     // and the port: cookies do not know ports
	cookieAge   = 7 * 24 * 3600          // the server knows when it ends
)

// ours reports whether a cookie is one of Drydock's, of the control plane or
// of previews. Browsers read prefixes without case.
func ours(name string) bool {
	name = strings.ToLower(strings.TrimSpace(name))
	for _, prefix := range []string{"__host-drydock", "__secure-drydock", "drydock-"} {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return false
}

func (t target) plainName() string {
	_, port := splitHost(t.scheme, t.host)
	return cookiePlain + port
}

// secrets are those that a request carries for this host. Two cookies of one
// name are one that somebody has put there: neither is believed.
func (t target) secrets(r *http.Request) []string {
	var out []string
	for _, name := range []string{cookieTab, cookieFrame, t.plainName()} {
		if name == t.plainName() && t.scheme == "https" || name != t.plainName() && !t.safe {
			continue
		}
		if found := r.CookiesNamed(name); len(found) == 1 {
			out = append(out, found[0].Value)
		}
	}
	return out
}

// leaveCookies puts the secret on this host, or with "" takes it away.
func (t target) leaveCookies(w http.ResponseWriter, r *http.Request, secret string) {
	age := cookieAge
	if secret == "" {
		age = -1
	}
	framed := slices.Contains([]string{"iframe", "frame", "fencedframe"}, r.Header.Get("Sec-Fetch-Dest"))
	if t.safe && (framed || secret == "") {
		http.SetCookie(w, &http.Cookie{Name: cookieFrame, Value: secret, Path: "/", MaxAge: age, HttpOnly: true, Secure: true, SameSite: http.SameSiteNoneMode, Partitioned: true})
	}
	if framed && t.safe && secret != "" {
		return
	}
	if t.safe {
		// None: ports of a session are sites of their own under localhost. What
		// others make the browser send is refused by where it says it is from.
		http.SetCookie(w, &http.Cookie{Name: cookieTab, Value: secret, Path: "/", MaxAge: age, HttpOnly: true, Secure: true, SameSite: http.SameSiteNoneMode})
	}
	if t.scheme == "http" {
		http.SetCookie(w, &http.Cookie{Name: t.plainName(), Value: secret, Path: "/", MaxAge: age, HttpOnly: true, SameSite: http.SameSiteLaxMode})
	}
}

// withoutOurs takes our cookies out of a Cookie header and leaves the app's as
// they are. It is "" when nothing is left.
func withoutOurs(line string) string {
	kept := strings.Split(line, ";")
	n := len(kept)
	kept = slices.DeleteFunc(kept, func(part string) bool { return ours(cookieName(part)) })
	if len(kept) == n {
		return line
	}
	return strings.TrimSpace(strings.Join(kept, ";"))
}

// cookieName is the name in NAME=VALUE. A cookie without a name travels as its
// value alone, and is then taken for one with a name.
func cookieName(part string) string {
	name, _, _ := strings.Cut(strings.TrimLeft(strings.TrimSpace(part), "= \t"), "=")
	return name
}

// allowedCookie judges a Set-Cookie of an app: for its own host alone, and
// none of our names.
func allowedCookie(line, host string) bool {
	parts := strings.Split(line, ";")
	if ours(cookieName(parts[0])) {
		return false
	}
	for _, attr := range parts[1:] {
		key, value, _ := strings.Cut(attr, "=")
		if !strings.EqualFold(strings.TrimSpace(key), "domain") {
			continue
		}
		if domain := strings.ToLower(strings.Trim(strings.TrimSpace(value), ".")); domain != "" && domain != host {
			return false
		}
	}
	return true
}

// clean takes everything that is ours out of the header of a request.
func (s *Service) clean(h http.Header) {
	var cookies []string
	for _, line := range h.Values("Cookie") {
		if line = withoutOurs(line); line != "" {
			cookies = append(cookies, line)
		}
	}
	h.Del("Cookie")
	for _, line := range cookies {
		h.Add("Cookie", line)
	}
	if slices.ContainsFunc(h.Values("Authorization"), s.carriesOurs) {
		h.Del("Authorization")
	}
	if slices.ContainsFunc(h.Values("Referer"), func(v string) bool { return strings.Contains(v, ownPrefix) }) {
		h.Del("Referer")
	}
}

// carriesOurs reports whether an Authorization header has a token of ours.
func (s *Service) carriesOurs(v string) bool {
	scheme, rest, _ := strings.Cut(strings.TrimSpace(v), " ")
	rest = strings.TrimSpace(rest)
	if strings.EqualFold(scheme, "Basic") {
		raw, err := base64.StdEncoding.DecodeString(rest)
		user, password, _ := strings.Cut(string(raw), ":")
		return err == nil && (s.deps.Secret(user) || s.deps.Secret(password))
	}
	return s.deps.Secret(rest) || s.deps.Secret(scheme)
}
