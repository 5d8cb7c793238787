package preview

import (
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"drydock/internal/core"
	"drydock/internal/surface/api"
)

var asPage = []string{"Accept", "text/html", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "document", "Sec-Fetch-Site", "none"}

func TestEntryLeavesACookieOnEveryDeclaredPort(t *testing.T) {
	w := newWorld(t)
	w.app(3000, func(rw http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(rw, "web "+r.URL.RequestURI()) })
	w.app(8000, func(rw http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(rw, "api") })
	b := w.browser()
	got := w.open("cred-alice", sessionA, api.OpenPreview{Port: 3000})
	if !got.Declared || got.Weak || time.Until(got.Expires) > 30*time.Second {
		t.Errorf("ticket: %+v", got)
	}
	home := b.enter(got.URL)
	web := "http://" + portLabel(3000, sessionA) + ".localhost:" + w.pub
	if home != web+"/" {
		t.Fatalf("the entry ends at %s", home)
	}
	if res, body := b.get(home + "a?b=;c"); res.StatusCode != 200 || body != "web /a?b=;c" {
		t.Errorf("app: %d %q", res.StatusCode, body)
	}
	backend := strings.Replace(web, "3000--", "8000--", 1)
	if res, body := b.get(backend + "/"); res.StatusCode != 200 || body != "api" {
		t.Errorf("second port: %d %q", res.StatusCode, body)
	}
	for _, origin := range []string{web, backend} {
		u, _ := url.Parse(origin)
		names := map[string]*http.Cookie{}
		for _, c := range b.cookies[u.Hostname()] {
			names[c.Name] = c
			if !c.HttpOnly || c.Domain != "" || c.Path != "/" {
				t.Errorf("%s: cookie %s is not for this host alone: %+v", origin, c.Name, c)
			}
		}
		if c := names[cookieTab]; c == nil || !c.Secure || c.SameSite != http.SameSiteNoneMode {
			t.Errorf("%s: %+v", origin, c)
		}
		if c := names[cookiePlain+w.pub]; c == nil || c.SameSite != http.SameSiteLaxMode {
			t.Errorf("%s: %+v", origin, c)
		}
	}
	if res, _ := w.browser().get(home); res.StatusCode != http.StatusUnauthorized {
		t.Errorf("a browser without a cookie: %d", res.StatusCode)
	}
}

func TestInAFrameTheCookieIsPartitioned(t *testing.T) {
	w := newWorld(t)
	res, _ := w.browser().get(w.open("cred-alice", sessionA, api.OpenPreview{Port: 3000}).URL,
		"Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "iframe", "Sec-Fetch-Site", "cross-site")
	lines := res.Header.Values("Set-Cookie")
	if len(lines) != 1 || !strings.HasPrefix(lines[0], cookieFrame+"=") || !strings.Contains(lines[0], "Partitioned") || !strings.Contains(lines[0], "Secure") || !strings.Contains(lines[0], "HttpOnly") {
		t.Errorf("cookies: %q", lines)
	}
}

func TestTicketsAreGoodOnceForOneHostAndNotForLong(t *testing.T) {
	w := newWorld(t)
	w.app(3000, func(http.ResponseWriter, *http.Request) {})
	refused := func(name, to string, header ...string) {
		t.Helper()
		b := w.browser()
		res, body := b.get(to, append([]string{"Accept", "text/html"}, header...)...)
		if res.StatusCode != http.StatusUnauthorized || len(res.Cookies()) != 0 {
			t.Errorf("%s: %d, cookies %v: %s", name, res.StatusCode, res.Cookies(), body)
		}
	}
	fresh := func() string { return w.open("cred-alice", sessionA, api.OpenPreview{Port: 3000}).URL }
	used := fresh()
	w.browser().enter(used)
	refused("used twice", used)

	late := fresh()
	w.s.mu.Lock()
	for key, v := range w.s.tickets {
		v.expires = time.Now()
		w.s.tickets[key] = v
	}
	w.s.mu.Unlock()
	refused("late", late)

	other := fresh()
	refused("at a sibling port", strings.Replace(other, "3000--", "8000--", 1))
	refused("after it was shown elsewhere", other)
	refused("at another session", strings.Replace(fresh(), strings.TrimPrefix(string(sessionA), "ses_"), strings.TrimPrefix(string(sessionB), "ses_"), 1))
	refused("not as a page", fresh(), "Sec-Fetch-Mode", "no-cors", "Sec-Fetch-Dest", "image")
	refused("nonsense", strings.Split(fresh(), "=")[0]+"=abc")

	revoked := fresh()
	w.set(func() { delete(w.people, "cred-alice") })
	refused("of somebody whose token was revoked", revoked)
}

func TestABrowserIsOnePersonAtATime(t *testing.T) {
	w := newWorld(t)
	w.app(3000, func(http.ResponseWriter, *http.Request) {})
	b, web, _ := w.visit("cred-alice")
	res, body := b.get(w.open("cred-bob", sessionA, api.OpenPreview{Port: 3000}).URL, asPage...)
	if res.StatusCode != http.StatusConflict || !strings.Contains(body, "alice") {
		t.Fatalf("bob's ticket in alice's browser: %d %s", res.StatusCode, body)
	}
	if res, _ := b.do(b.request("POST", web+leavePath, nil, "Origin", web, "Sec-Fetch-Site", "same-origin")); res.StatusCode != 200 {
		t.Fatalf("leave: %d", res.StatusCode)
	}
	if res, _ := b.get(web + "/"); res.StatusCode != http.StatusUnauthorized {
		t.Errorf("after leaving: %d", res.StatusCode)
	}
	b.enter(w.open("cred-bob", sessionA, api.OpenPreview{Port: 3000}).URL)
	if res, _ := b.get(web + "/"); res.StatusCode != 200 {
		t.Errorf("bob: %d", res.StatusCode)
	}
}

func TestEveryRequestAsksAgain(t *testing.T) {
	for name, c := range map[string]struct {
		end    func(*world)
		status int
		says   string
	}{
		"token revoked":    {func(w *world) { delete(w.people, "cred-alice") }, 401, "revoked"},
		"token reassigned": {func(w *world) { w.people["cred-alice"] = "mallory" }, 401, "somebody else"},
		"session archived": {func(w *world) {
			w.over[sessionA] = core.E("test", core.Conflict, nil, "session is archived")
		}, 410, "archived"},
		"session gone":   {func(w *world) { w.over[sessionA] = core.E("test", core.NotFound, nil, "no such session") }, 404, "no such session"},
		"sandbox asleep": {func(w *world) { w.asleep[sessionA] = true }, 503, "Wake it"},
		"store broken":   {func(w *world) { w.over[sessionA] = io.ErrUnexpectedEOF }, 500, "something went wrong"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.app(3000, func(rw http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(rw, "secret") })
			b, web, _ := w.visit("cred-alice")
			w.set(func() { c.end(w) })
			res, body := b.get(web+"/", asPage...)
			if res.StatusCode != c.status || !strings.Contains(body, c.says) || strings.Contains(body, "secret") {
				t.Errorf("%d, want %d: %s", res.StatusCode, c.status, body)
			}
			if csp := res.Header.Get("Content-Security-Policy"); !strings.Contains(csp, "default-src 'none'") || strings.Contains(body, "<script") {
				t.Errorf("our page runs things: %q", csp)
			}
		})
	}
}

func TestWakeNeedsThePersonsHand(t *testing.T) {
	w := newWorld(t)
	w.app(3000, func(rw http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(rw, "up") })
	b, web, backend := w.visit("cred-alice")
	w.set(func() { w.asleep[sessionA] = true })
	for _, origin := range []string{"http://evil.example", backend, "null"} {
		if res, _ := b.do(b.request("POST", web+wakePath, nil, "Origin", origin, "Sec-Fetch-Site", "cross-site")); res.StatusCode != 403 || w.woken != 0 {
			t.Errorf("%s woke it: %d", origin, res.StatusCode)
		}
	}
	if res, _ := w.browser().do(b.request("POST", web+wakePath, nil, "Origin", web, "Cookie", "")); res.StatusCode == 401 {
		t.Error("the request of the test has no cookie")
	}
	w.set(func() { w.asleep[sessionA], w.woken = true, 0 })
	stranger := w.browser()
	if res, _ := stranger.do(stranger.request("POST", web+wakePath, nil, "Origin", web)); res.StatusCode != 401 || w.woken != 0 {
		t.Errorf("a stranger woke it: %d", res.StatusCode)
	}
	if res, _ := b.do(b.request("POST", web+wakePath, nil, "Origin", web, "Sec-Fetch-Site", "same-origin")); res.StatusCode != 303 || w.woken != 1 {
		t.Errorf("wake: %d", res.StatusCode)
	}
	if _, body := b.get(web + "/"); body != "up" {
		t.Errorf("after waking: %q", body)
	}
}

func TestPortsThatAreNotDeclared(t *testing.T) {
	w := newWorld(t)
	if _, err := w.s.Open(t.Context(), "cred-alice", sessionA, api.OpenPreview{Port: 9999}); !core.Is(err, core.Denied) || core.HintOf(err) == "" {
		t.Errorf("not declared: %v", err)
	}
	if got := w.open("cred-alice", sessionA, api.OpenPreview{Port: 9999, Any: true}); got.Declared {
		t.Errorf("%+v", got)
	}
	for _, port := range []int{0, -1, 65536, 10017} {
		if _, err := w.s.Open(t.Context(), "cred-alice", sessionA, api.OpenPreview{Port: port, Any: true}); !core.Is(err, core.Invalid) {
			t.Errorf("port %d: %v", port, err)
		}
	}
	got, err := w.s.Ports(t.Context(), core.Author{Handle: "alice"}, sessionA)
	if err != nil || len(got.Items) != 3 || !got.Awake {
		t.Fatalf("ports: %+v, %v", got, err)
	}
	want := []api.Port{
		{Port: 3000, Name: "web", Service: "web", Declared: true, Listening: true}, {Port: 8000, Name: "api", Service: "api", Declared: true}, {Port: 9999, Listening: true},
	}
	for i, p := range got.Items {
		if !strings.HasPrefix(p.URL, "http://"+portLabel(p.Port, sessionA)+".localhost:") {
			t.Errorf("address of port %d: %q", p.Port, p.URL)
		}
		p.URL = ""
		if p != want[i] {
			t.Errorf("%+v, want %+v", p, want[i])
		}
	}
}

func TestWaitingPagesSayWhy(t *testing.T) {
	w := newWorld(t)
	w.waiting = Waiting{Service: "web", State: "starting", Since: time.Now().Add(-5 * time.Second), Log: "\x1b[31mboom\x1b[0m <script>alert(1)</script>\x00"}
	b, web, backend := w.visit("cred-alice")
	res, body := b.get(web+"/", asPage...)
	if res.StatusCode != 503 || !strings.Contains(body, "Service web is starting since") || !strings.Contains(body, "boom &lt;script&gt;") || !strings.Contains(body, `http-equiv="refresh"`) || strings.Contains(body, "\x1b") {
		t.Errorf("%d %s", res.StatusCode, body)
	}
	if _, body := b.get(web + "/data"); strings.Contains(body, "<") || strings.Contains(body, "boom") {
		t.Errorf("somebody who wants no page gets %q", body)
	}
	w.app(8000, func(rw http.ResponseWriter, r *http.Request) {
		http.Redirect(rw, r, "https://"+r.Host+"/", http.StatusFound)
	})
	for range 20 {
		if res, body = b.get(backend+"/", asPage...); res.StatusCode != http.StatusFound {
			break
		}
	}
	if res.StatusCode != http.StatusBadGateway || !strings.Contains(body, "Too many redirects") {
		t.Errorf("an app that goes round in circles: %d %s", res.StatusCode, body)
	}
}

func TestAFewTicketsAndGrantsArePlenty(t *testing.T) {
	w := newWorld(t)
	w.app(3000, func(http.ResponseWriter, *http.Request) {})
	first := w.open("cred-alice", sessionA, api.OpenPreview{Port: 3000}).URL
	for range ownTickets {
		w.open("cred-alice", sessionA, api.OpenPreview{Port: 3000})
	}
	if res, _ := w.browser().get(first); res.StatusCode != 401 {
		t.Errorf("the oldest of too many tickets: %d", res.StatusCode)
	}
	if n := len(w.s.tickets); n > ownTickets {
		t.Errorf("%d tickets of one person", n)
	}
	for range ownGrants + 5 {
		w.visit("cred-bob")
	}
	if n := len(w.s.grants); n > ownGrants {
		t.Errorf("%d grants of one person", n)
	}
	again, web, _ := w.visit("cred-bob")
	n := len(w.s.grants)
	again.enter(w.open("cred-bob", sessionA, api.OpenPreview{Port: 9999, Any: true}).URL)
	if len(w.s.grants) != n {
		t.Error("a second entry of one browser makes a second grant")
	}
	if res, _ := again.get(web + "/"); res.StatusCode != 200 {
		t.Errorf("the first port after the second entry: %d", res.StatusCode)
	}
}
