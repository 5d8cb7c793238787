package preview

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"drydock/internal/core"
	"drydock/internal/surface/api"
)

// seen is what an app got.
type seen struct {
	method, uri, host, proto string
	header                   http.Header
	body                     string
}

func record(into chan<- seen, then http.HandlerFunc) http.HandlerFunc {
	return func(rw http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		into <- seen{r.Method, r.URL.RequestURI(), r.Host, r.Proto, r.Header, string(body)}
		if then != nil {
			then(rw, r)
		}
	}
}

func TestTheAppSeesALoopbackNameAndNothingOfOurs(t *testing.T) {
	w := newWorld(t)
	got := make(chan seen, 1)
	w.app(3000, record(got, nil))
	b, web, _ := w.visit("cred-alice")
	r := b.request("GET", web+"/x?ticket=mine&y=%zz", nil,
		"Authorization", "Bearer of-the-app", "X-Forwarded-Host", "evil.example", "X-Forwarded-For", "6.6.6.6", "Forwarded", "host=evil", "Connection", "X-Forwarded-Host",
		"Referer", web+enterPath+"?ticket=abc", "X-Custom", "stays", "Cookie", "theme=dark; __Host-drydock=control; drydock-7300=control; __HOST-DRYDOCK-x=1; =drydock-7300=nameless; a=\"b;c\"", "Accept-Encoding", "br")
	b.do(r)
	s := <-got
	if s.host != "localhost:3000" || s.uri != "/x?ticket=mine&y=%zz" {
		t.Errorf("host %q, address %q", s.host, s.uri)
	}
	for name, want := range map[string]string{
		"X-Forwarded-Host": hostOf(web), "X-Forwarded-Proto": "http", "X-Forwarded-For": "", "Forwarded": "", "Authorization": "Bearer of-the-app",
		"X-Custom": "stays", "Referer": "", "Accept-Encoding": "br",
	} {
		if have := strings.Join(s.header.Values(name), "|"); have != want {
			t.Errorf("%s: %q, want %q", name, have, want)
		}
	}
	cookies := strings.Join(s.header.Values("Cookie"), "; ")
	if strings.Contains(strings.ToLower(cookies), "drydock") || !strings.Contains(cookies, "theme=dark") || !strings.Contains(cookies, `a="b;c"`) {
		t.Errorf("cookies of the app: %q", cookies)
	}
	for _, auth := range []string{"Bearer ddk_secret", "bearer  ddk_secret", "Basic eDpkZGtfc2VjcmV0", "ddk_secret"} {
		b.do(b.request("GET", web+"/", nil, "Authorization", auth))
		if s := <-got; s.header.Get("Authorization") != "" {
			t.Errorf("%q reached the app", auth)
		}
	}
}

func TestTheAppSaysNothingForOthers(t *testing.T) {
	w := newWorld(t)
	w.app(3000, func(rw http.ResponseWriter, _ *http.Request) {
		h := rw.Header()
		h.Set("Clear-Site-Data", `"*"`)
		h.Set("Strict-Transport-Security", "max-age=1")
		h.Set("Alt-Svc", `h2="evil:443"`)
		h.Set("Content-Security-Policy", "default-src 'self'; frame-ancestors *")
		h.Set("Referrer-Policy", "unsafe-url")
		h.Set("Access-Control-Allow-Origin", "http://other")
		h.Set("Trailer", "Set-Cookie, X-Sum")
		for _, c := range []string{
			"plain=1", "own=1; Domain=" + portLabel(3000, sessionA) + ".localhost; Path=/", "wide=1; Domain=localhost", "wider=1; domain = .LOCALHOST ", "two=1; Domain=" + portLabel(3000, sessionA) + ".localhost; Domain=localhost",
			"__Host-drydock=stolen; Secure; Path=/", "__HOST-drydock-preview=x", "drydock-7300=x", "=drydock-7300=x", "drydock-preview-" + w.pub + "=x", "empty=1; Domain=",
		} {
			h.Add("Set-Cookie", c)
		}
		_, _ = io.WriteString(rw, "<html>body</html>")
		h.Set("Set-Cookie", "trailed=1; Domain=localhost")
		h.Set("X-Sum", "7")
	})
	b, web, _ := w.visit("cred-alice")
	res, body := b.get(web + "/")
	for _, name := range []string{"Clear-Site-Data", "Strict-Transport-Security", "Alt-Svc"} {
		if v := res.Header.Get(name); v != "" {
			t.Errorf("%s: %s", name, v)
		}
	}
	var names []string
	for _, c := range res.Cookies() {
		names = append(names, c.Name)
	}
	if strings.Join(names, " ") != "plain own empty" {
		t.Errorf("cookies that came through: %v", names)
	}
	if csp := res.Header.Values("Content-Security-Policy"); len(csp) != 2 || csp[0] != "default-src 'self'; frame-ancestors *" || csp[1] != "frame-ancestors 'self' "+control {
		t.Errorf("policies: %q", csp)
	}
	if res.Header.Get("Referrer-Policy") != "same-origin" || res.Header.Get("Access-Control-Allow-Origin") != "http://other" {
		t.Errorf("header: %v", res.Header)
	}
	if body != "<html>body</html>" {
		t.Errorf("the page was changed: %q", body)
	}
	if res.Trailer.Get("X-Sum") != "7" || res.Trailer.Get("Set-Cookie") != "" {
		t.Errorf("trailers: %v", res.Trailer)
	}
}

func TestWhereRequestsMayComeFrom(t *testing.T) {
	w := newWorld(t)
	got := make(chan seen, 1)
	w.app(3000, record(got, nil))
	w.app(8000, record(got, nil))
	b, web, backend := w.visit("cred-alice")
	foreign := strings.Replace(web, strings.TrimPrefix(string(sessionA), "ses_"), strings.TrimPrefix(string(sessionB), "ses_"), 1)
	undeclared := strings.Replace(web, "3000--", "9999--", 1)
	for name, c := range map[string]struct {
		method string
		header []string
		status int
	}{
		"its own script":                    {"POST", []string{"Origin", backend, "Sec-Fetch-Site", "same-origin"}, 200},
		"its own script, old browser":       {"POST", []string{"Origin", backend}, 200},
		"its own form with Origin null":     {"POST", []string{"Origin", "null", "Sec-Fetch-Site", "same-origin"}, 200},
		"the address bar":                   {"GET", []string{"Sec-Fetch-Site", "none", "Sec-Fetch-Mode", "navigate"}, 200},
		"a link from anywhere":              {"GET", []string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "document"}, 200},
		"the frame in the control plane":    {"GET", []string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "iframe"}, 200},
		"a sibling port":                    {"POST", []string{"Origin", web, "Sec-Fetch-Site", "cross-site"}, 200},
		"a sibling port, same site":         {"PUT", []string{"Origin", web, "Sec-Fetch-Site", "same-site"}, 200},
		"a port that was not opened":        {"POST", []string{"Origin", undeclared, "Sec-Fetch-Site", "cross-site"}, 403},
		"another session":                   {"POST", []string{"Origin", foreign, "Sec-Fetch-Site", "same-site"}, 403},
		"the control plane":                 {"POST", []string{"Origin", control, "Sec-Fetch-Site", "cross-site"}, 403},
		"a form of anybody":                 {"POST", []string{"Origin", "http://evil.example", "Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "document"}, 403},
		"a form of anybody, old browser":    {"POST", []string{"Origin", "http://evil.example"}, 403},
		"a form that says nothing":          {"POST", nil, 403},
		"a sandboxed page":                  {"GET", []string{"Origin", "null", "Sec-Fetch-Site", "cross-site"}, 403},
		"a script of anybody":               {"GET", []string{"Origin", "http://evil.example", "Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "cors"}, 403},
		"an image in anybody's page":        {"GET", []string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "no-cors", "Sec-Fetch-Dest", "image"}, 403},
		"an object in anybody's page":       {"GET", []string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "object"}, 403},
		"a sibling with another scheme":     {"POST", []string{"Origin", strings.Replace(web, "http:", "https:", 1), "Sec-Fetch-Site", "cross-site"}, 403},
		"a sibling that is written oddly":   {"POST", []string{"Origin", web + "/", "Sec-Fetch-Site", "cross-site"}, 403},
		"a sibling at another port of us":   {"POST", []string{"Origin", web[:len(web)-1], "Sec-Fetch-Site", "cross-site"}, 403},
		"a WebSocket of anybody":            {"GET", []string{"Origin", "http://evil.example", "Connection", "Upgrade", "Upgrade", "websocket"}, 403},
		"a WebSocket that says nothing":     {"GET", []string{"Connection", "Upgrade", "Upgrade", "websocket"}, 403},
		"a WebSocket typed by hand":         {"GET", []string{"Sec-Fetch-Site", "none", "Connection", "Upgrade", "Upgrade", "websocket"}, 403},
		"an upgrade to something else":      {"GET", []string{"Origin", backend, "Connection", "Upgrade", "Upgrade", "h2c"}, 400},
		"a WebSocket by POST":               {"POST", []string{"Origin", backend, "Connection", "Upgrade", "Upgrade", "websocket"}, 400},
		"an upgrade without its Connection": {"GET", []string{"Origin", backend, "Upgrade", "h2c"}, 400},
	} {
		res, body := b.do(b.request(c.method, backend+"/", nil, c.header...))
		if res.StatusCode != c.status {
			t.Errorf("%s: %d, want %d: %s", name, res.StatusCode, c.status, body)
		}
		select {
		case <-got:
			if c.status != 200 {
				t.Errorf("%s reached the app", name)
			}
		default:
			if c.status == 200 {
				t.Errorf("%s did not reach the app", name)
			}
		}
	}
}

func TestCallsBetweenPortsWithoutCredentials(t *testing.T) {
	for _, linked := range []bool{false, true} {
		t.Run(fmt.Sprintf("linked %v", linked), func(t *testing.T) {
			w := newWorld(t)
			w.linked = linked
			got := make(chan seen, 1)
			w.app(3000, record(got, nil))
			w.app(8000, record(got, func(rw http.ResponseWriter, r *http.Request) {
				if r.Method == "OPTIONS" {
					rw.Header().Set("Access-Control-Allow-Origin", r.Header.Get("Origin"))
					rw.WriteHeader(http.StatusNoContent)
				}
			}))
			_, web, backend := w.visit("cred-alice")
			bare := w.browser() // sends no cookies, as fetch without credentials does
			try := func(name, method, to string, status int, header ...string) *http.Response {
				t.Helper()
				res, body := bare.do(bare.request(method, to, nil, header...))
				if res.StatusCode != status {
					t.Errorf("%s: %d, want %d: %s", name, res.StatusCode, status, body)
				}
				select {
				case <-got:
				default:
				}
				return res
			}
			if parts := strings.Split(hostOf(web), "--"); (len(parts) == 3) != linked {
				t.Fatalf("host %s", web)
			}
			want := map[bool]int{false: 401, true: 200}[linked]
			try("module script", "GET", backend+"/m.js", want, "Origin", web, "Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "cors")
			try("image", "GET", backend+"/i.png", want, "Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "no-cors", "Sec-Fetch-Dest", "image")
			res := try("preflight", "OPTIONS", backend+"/x", 204, "Origin", web, "Access-Control-Request-Method", "PUT")
			if res.Header.Get("Access-Control-Allow-Origin") != web {
				t.Error("the preflight was not answered by the app")
			}
			try("preflight of anybody", "OPTIONS", backend+"/x", 403, "Origin", "http://evil.example", "Access-Control-Request-Method", "PUT")
			try("OPTIONS that is no preflight", "OPTIONS", backend+"/x", map[bool]int{false: 401, true: 204}[linked], "Origin", web)
			try("script of anybody", "GET", backend+"/m.js", 403, "Origin", "http://evil.example", "Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "cors")
			try("page of a leaked address", "GET", backend+"/", 401, "Sec-Fetch-Site", "none", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "document")
			if linked {
				forged := web[:len(web)-len(".localhost:"+w.pub)-1] + "0.localhost:" + w.pub
				if forged != web {
					try("guessed link", "GET", strings.Replace(forged, "3000--", "8000--", 1)+"/", 401, "Origin", forged)
				}
			}
			w.set(func() { delete(w.people, "cred-alice") })
			try("module script after the end", "GET", backend+"/m.js", 401, "Origin", web, "Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "cors")
			try("preflight after the end", "OPTIONS", backend+"/x", 401, "Origin", web, "Access-Control-Request-Method", "PUT")
		})
	}
}

func TestOnlyNamesOfPreviewsAreAnswered(t *testing.T) {
	w := newWorld(t)
	got := make(chan seen, 1)
	w.app(3000, record(got, nil))
	b, web, _ := w.visit("cred-alice")
	host := hostOf(web)
	cookie := "Cookie: " + b.cookieHeader(web) + "\r\n"
	name := strings.TrimSuffix(host, ":"+w.pub)
	for what, c := range map[string]struct {
		head   string
		status int
	}{
		"right":                     {"GET / HTTP/1.1\r\nHost: " + host + "\r\n", 200},
		"upper case":                {"GET / HTTP/1.1\r\nHost: " + strings.ToUpper(name) + ":" + w.pub + "\r\n", 200},
		"localhost":                 {"GET / HTTP/1.1\r\nHost: localhost:" + w.pub + "\r\n", 421},
		"address":                   {"GET / HTTP/1.1\r\nHost: 127.0.0.1:" + w.pub + "\r\n", 421},
		"foreign":                   {"GET / HTTP/1.1\r\nHost: evil.example\r\n", 421},
		"suffix":                    {"GET / HTTP/1.1\r\nHost: " + name + ".evil.example:" + w.pub + "\r\n", 421},
		"deeper":                    {"GET / HTTP/1.1\r\nHost: a." + host + "\r\n", 421},
		"other port":                {"GET / HTTP/1.1\r\nHost: " + name + ":1\r\n", 421},
		"no port":                   {"GET / HTTP/1.1\r\nHost: " + name + "\r\n", 421},
		"trailing dot":              {"GET / HTTP/1.1\r\nHost: " + name + ".:" + w.pub + "\r\n", 421},
		"leading zero":              {"GET / HTTP/1.1\r\nHost: 0" + host + "\r\n", 421},
		"empty":                     {"GET / HTTP/1.1\r\nHost: \r\n", 421},
		"none, HTTP/1.0":            {"GET / HTTP/1.0\r\n", 421},
		"two":                       {"GET / HTTP/1.1\r\nHost: " + host + "\r\nHost: evil.example\r\n", 400},
		"another session":           {"GET / HTTP/1.1\r\nHost: " + portLabel(3000, sessionB) + ".localhost:" + w.pub + "\r\n", 401},
		"another port":              {"GET / HTTP/1.1\r\nHost: " + portLabel(9999, sessionA) + ".localhost:" + w.pub + "\r\n", 401},
		"absolute form":             {"GET http://" + host + "/ HTTP/1.1\r\nHost: " + host + "\r\n", 400},
		"absolute form of a server": {"GET http://evil.example/ HTTP/1.1\r\nHost: " + host + "\r\n", 400},
		"CONNECT":                   {"CONNECT evil.example:443 HTTP/1.1\r\nHost: " + host + "\r\n", 400},
		"CONNECT with a path":       {"CONNECT / HTTP/1.1\r\nHost: " + host + "\r\n", 400},
		"TRACE":                     {"TRACE / HTTP/1.1\r\nHost: " + host + "\r\n", 400},
		"star":                      {"OPTIONS * HTTP/1.1\r\nHost: " + host + "\r\n", 400},
		"two lengths":               {"POST / HTTP/1.1\r\nOrigin: " + web + "\r\nHost: " + host + "\r\nContent-Length: 1\r\nContent-Length: 2\r\n", 400},
		"odd transfer":              {"POST / HTTP/1.1\r\nOrigin: " + web + "\r\nHost: " + host + "\r\nTransfer-Encoding: xchunked\r\n", 501},
		"two origins":               {"GET / HTTP/1.1\r\nHost: " + host + "\r\nOrigin: " + web + "\r\nOrigin: http://evil.example\r\n", 400},
		"two sites":                 {"GET / HTTP/1.1\r\nHost: " + host + "\r\nSec-Fetch-Site: same-origin\r\nSec-Fetch-Site: cross-site\r\n", 400},
		"space before the colon":    {"GET / HTTP/1.1\r\nHost: " + host + "\r\nX : y\r\n", 400},
		"our paths":                 {"GET /.drydock/other HTTP/1.1\r\nHost: " + host + "\r\n", 404},
		"our paths, disguised":      {"GET /%2edrydock/enter HTTP/1.1\r\nHost: " + host + "\r\n", 401},
		"huge head":                 {"GET / HTTP/1.1\r\nHost: " + host + "\r\nX-Huge: " + strings.Repeat("a", 80<<10) + "\r\n", 431},
		"a cookie twice":            {"GET / HTTP/1.1\r\nHost: " + host + "\r\n" + cookie, 401},
	} {
		in, conn := w.speak(c.head + cookie + "\r\n")
		res, err := http.ReadResponse(in, nil)
		if err != nil {
			t.Errorf("%s: %v", what, err)
			continue
		}
		if res.StatusCode != c.status {
			t.Errorf("%s: %d, want %d", what, res.StatusCode, c.status)
		}
		conn.Close()
		select {
		case <-got:
			if c.status != 200 {
				t.Errorf("%s reached the app", what)
			}
		default:
		}
	}
}

func TestLengthAndChunksTogetherAreOneRequest(t *testing.T) {
	w := newWorld(t)
	got := make(chan seen, 4)
	w.app(3000, record(got, nil))
	b, web, _ := w.visit("cred-alice")
	head := "Host: " + hostOf(web) + "\r\nOrigin: " + web + "\r\nCookie: " + b.cookieHeader(web) + "\r\n"
	in, _ := w.speak("POST /one HTTP/1.1\r\n" + head + "Content-Length: 4\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n0\r\n\r\nGET /smuggled HTTP/1.1\r\nHost: " + hostOf(web) + "\r\n\r\n")
	res, err := http.ReadResponse(in, nil)
	if err == nil && res.StatusCode == 200 {
		if s := <-got; s.uri != "/one" || s.body != "" || s.header.Get("Content-Length") == "4" {
			t.Errorf("%+v", s)
		}
	}
	if _, err := http.ReadResponse(in, nil); err == nil {
		t.Error("the second request was answered")
	}
	select {
	case s := <-got:
		t.Errorf("the app got %s", s.uri)
	default:
	}
}

func TestRedirectsToLoopbackLeadBack(t *testing.T) {
	w := newWorld(t)
	where := ""
	w.app(3000, func(rw http.ResponseWriter, _ *http.Request) {
		rw.Header().Set("Location", where)
		rw.WriteHeader(http.StatusFound)
	})
	b, web, backend := w.visit("cred-alice")
	for from, to := range map[string]string{
		"http://localhost:3000/a?b#c": web + "/a?b#c", "http://127.0.0.1:8000/": backend + "/", "/x": "/x", "https://localhost:3000/": "https://localhost:3000/",
		"http://localhost:5432/": "http://localhost:5432/", "http://example.test:3000/": "http://example.test:3000/", "//evil.example/": "//evil.example/",
	} {
		where = from
		if res, _ := b.get(web+"/", "Sec-Fetch-Mode", "cors"); res.Header.Get("Location") != to {
			t.Errorf("%s leads to %q, want %q", from, res.Header.Get("Location"), to)
		}
	}
}

func TestAnswersThatAreNotHTTP(t *testing.T) {
	w := newWorld(t)
	b, web, _ := w.visit("cred-alice")
	answer := func(text string) func(net.Conn) {
		return func(c net.Conn) {
			if _, err := http.ReadRequest(bufio.NewReader(c)); err == nil {
				_, _ = io.WriteString(c, text)
			}
		}
	}
	for name, c := range map[string]struct{ text, says string }{
		"TLS":            {"\x15\x03\x01\x00\x02\x02\x46", "speaks TLS"},
		"nonsense":       {"SSH-2.0-OpenSSH_9.2\r\n", "broke off"},
		"nothing":        {"", "broke off"},
		"endless head":   {"HTTP/1.1 200 OK\r\nX: " + strings.Repeat("a", 200<<10) + "\r\n\r\n", "broke off"},
		"early answers":  {strings.Repeat("HTTP/1.1 103 Early Hints\r\nSet-Cookie: drydock-7300=x\r\n\r\n", 100), "broke off"},
		"unasked switch": {"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n", "broke off"},
	} {
		w.raw(3000, answer(c.text))
		res, body := b.get(web+"/", asPage...)
		if res.StatusCode != http.StatusBadGateway || !strings.Contains(body, c.says) {
			t.Errorf("%s: %d %s", name, res.StatusCode, body)
		}
	}
	w.raw(3000, answer("HTTP/1.1 103 Early Hints\r\nSet-Cookie: drydock-7300=x\r\nLink: <http://evil.example>; rel=preload\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"))
	in, _ := w.speak("GET / HTTP/1.1\r\nHost: " + hostOf(web) + "\r\nCookie: " + b.cookieHeader(web) + "\r\n\r\n")
	if line, _ := in.ReadString('\n'); !strings.Contains(line, "200") {
		t.Errorf("an early answer came through: %q", line)
	}
}

func TestNamesOfTheControlPlaneAreRefused(t *testing.T) {
	for url, origin := range map[string]string{
		"https://*.example.com": "https://drydock.example.com", "https://*.drydock.example.com": "https://drydock.example.com", "http://*.EXAMPLE.com": "http://a.b.example.com:9000",
	} {
		if _, err := New(Deps{}, Options{Mode: ModeHosts, URL: url, Control: []string{origin}}); !core.Is(err, core.Invalid) {
			t.Errorf("%s with the control plane at %s: %v", url, origin, err)
		}
	}
	if _, err := New(Deps{}, Options{Mode: ModeHosts, URL: "https://*.preview.example.com", Control: []string{"https://drydock.example.com"}}); err != nil {
		t.Error(err)
	}
}

func TestOffMeansOff(t *testing.T) {
	w := newWorld(t, func(o *Options) { o.Mode = ModeOff })
	if _, err := w.s.Open(t.Context(), "cred-alice", sessionA, api.OpenPreview{Port: 3000}); !core.Is(err, core.Unavailable) {
		t.Errorf("%v", err)
	}
}
