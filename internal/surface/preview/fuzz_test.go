package preview

import (
	"strings"
	"testing"
)

func FuzzHost(f *testing.F) {
	names := wildcard{scheme: "https", base: "preview.example", port: "443"}
	for _, s := range []string{"3000--0123456789abcdefgh.preview.example", "3000--0123456789abcdefgh--0123456789abcdefghjk.preview.example:443", "03000--x.preview.example", "--.preview.example", "a:b:c", "[::1]:443", ".preview.example"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, host string) {
		l, ok := names.parse(host)
		if !ok {
			return
		}
		if l.Port < 1 || l.Port > 65535 || len(l.String()) > 63 {
			t.Errorf("%q is %+v", host, l)
		}
		if want := strings.TrimSuffix(strings.ToLower(host), ":443"); names.host(l) != want {
			t.Errorf("%q is written %q", host, names.host(l))
		}
	})
}

func FuzzTicket(f *testing.F) {
	f.Add(newSecret())
	f.Add("")
	f.Add(strings.Repeat("a", secretLen))
	s := &Service{tickets: map[[32]byte]ticket{}, grants: map[[32]byte]*grant{}}
	f.Fuzz(func(t *testing.T, text string) {
		if got, ok := parseSecret(text); ok && (len(got) != secretLen || strings.ContainsAny(got, "%&=;, \r\n\x00")) {
			t.Errorf("%q was taken", text)
		}
		if _, ok := s.redeem(text, label{}); ok {
			t.Errorf("%q lets somebody in", text)
		}
		if s.grantOf(text, label{}) != nil {
			t.Errorf("%q is a grant", text)
		}
	})
}

func FuzzCookies(f *testing.F) {
	for _, s := range []string{"a=1; __Host-drydock=2; b=3", "drydock-7300=1", ";;=;drydock-", "\tDRYDOCK-x = 1", "a=1; Domain=.x", "==drydock-1"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, line string) {
		for part := range strings.SplitSeq(withoutOurs(line), ";") {
			if name := strings.ToLower(strings.TrimLeft(strings.TrimSpace(part), "= \t")); strings.HasPrefix(name, "drydock-") || strings.HasPrefix(name, "__host-drydock") {
				t.Errorf("%q keeps %q", line, part)
			}
		}
		if allowedCookie(line, "a.localhost") && strings.Contains(strings.ToLower(line), "; domain=localhost") {
			t.Errorf("%q was allowed", line)
		}
	})
}

func FuzzURL(f *testing.F) {
	for _, s := range []string{"https://*.preview.example", "http://*.a:8443/", "https://preview.example", "https://*.*.x", "https://*.x/y", "https://*.[::1]"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		w, err := parseURL(text)
		if err != nil {
			return
		}
		l := label{Port: 3000, Session: sessionA}
		if got, ok := w.parse(w.host(l)); !ok || got != l {
			t.Errorf("%q: %+v does not read what it writes: %q", text, w, w.host(l))
		}
	})
}
