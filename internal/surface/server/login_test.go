package server_test

import (
	"net/http"
	"strings"
	"testing"

	"drydock/internal/surface/server"
	"drydock/internal/surface/surfacetest"
)

// browser is what a browser adds to a request that our own page makes.
func browser(cookie string, more ...string) []string {
	return append([]string{"Authorization", "", "Cookie", cookie, "Sec-Fetch-Site", "same-origin", "Content-Type", "application/json"}, more...)
}

// signIn returns the cookie of Alice's browser, as it sends it.
func signIn(t *testing.T, url string) string {
	t.Helper()
	status, header, body := ask(t, "POST", url+"/api/v1/login", `{"secret":"`+surfacetest.AliceToken+`"}`, browser("")...)
	if status != 200 || !strings.Contains(body, `"handle":"alice"`) {
		t.Fatalf("login: %d %s", status, body)
	}
	set := header.Get("Set-Cookie")
	for _, want := range []string{"HttpOnly", "SameSite=Strict", "Path=/", "drydock-" + url[strings.LastIndex(url, ":")+1:] + "="} {
		if !strings.Contains(set, want) {
			t.Errorf("cookie %q lacks %s", set, want)
		}
	}
	if strings.Contains(set, surfacetest.AliceToken) {
		t.Errorf("the cookie holds the token itself: %q", set)
	}
	return set[:strings.Index(set, ";")]
}

func TestABrowserSignsInAndOut(t *testing.T) {
	url := surfacetest.New(t).Start(t)
	cookie := signIn(t, url)
	if status, _, body := ask(t, "GET", url+"/api/v1/whoami", "", browser(cookie)...); status != 200 || !strings.Contains(body, "alice") {
		t.Errorf("with the cookie: %d %s", status, body)
	}
	secret := cookie[strings.Index(cookie, "=")+1:]
	if status, _, _ := ask(t, "GET", url+"/api/v1/whoami", "", "Authorization", "Bearer "+secret); status != 401 {
		t.Errorf("the cookie's secret is a bearer token: %d", status)
	}
	if status, _, body := ask(t, "POST", url+"/api/v1/login-codes", "", browser(cookie)...); status != 403 {
		t.Errorf("a browser made a code: %d %s", status, body)
	}
	status, header, body := ask(t, "POST", url+"/api/v1/logout", "", browser(cookie)...)
	if status != 204 || !strings.Contains(header.Get("Set-Cookie"), "Max-Age=0") {
		t.Errorf("logout: %d %s %q", status, body, header.Get("Set-Cookie"))
	}
	if status, _, _ := ask(t, "GET", url+"/api/v1/whoami", "", browser(cookie)...); status != 401 {
		t.Errorf("the cookie is good after the logout: %d", status)
	}
}

func TestACodeSignsInOnce(t *testing.T) {
	url := surfacetest.New(t).Start(t)
	status, _, body := ask(t, "POST", url+"/api/v1/login-codes", "")
	if status != 201 || !strings.Contains(body, `"code":"abcd2345"`) {
		t.Fatal(status, body)
	}
	for i, want := range []int{200, 401} {
		if status, _, body := ask(t, "POST", url+"/api/v1/login", `{"secret":"abcd2345"}`, browser("")...); status != want {
			t.Errorf("use %d: %d %s", i, status, body)
		}
	}
}

func TestWrongSecretsAreBounded(t *testing.T) {
	url := surfacetest.New(t).Start(t)
	last := 0
	for range 12 {
		last, _, _ = ask(t, "POST", url+"/api/v1/login", `{"secret":"wrong"}`, browser("")...)
	}
	if last != http.StatusTooManyRequests {
		t.Errorf("after 12 wrong secrets: %d", last)
	}
	if status, _, _ := ask(t, "GET", url+"/api/v1/whoami", ""); status != 200 {
		t.Errorf("programs are kept out too: %d", status)
	}
}

func TestACookieCountsForOurOwnPageOnly(t *testing.T) {
	url := surfacetest.New(t).Start(t)
	cookie := signIn(t, url)
	const path = "/api/v1/sessions"
	for name, c := range map[string]struct {
		method string
		header []string
		want   int
	}{
		"own page reads":                    {"GET", []string{"Sec-Fetch-Site", "same-origin"}, 200},
		"own page reads, old browser":       {"GET", []string{"Origin", url}, 200},
		"nothing is said":                   {"GET", nil, 403},
		"another site reads":                {"GET", []string{"Sec-Fetch-Site", "cross-site"}, 403},
		"another port of this host reads":   {"GET", []string{"Sec-Fetch-Site", "same-site"}, 403},
		"typed address":                     {"GET", []string{"Sec-Fetch-Site", "none"}, 403},
		"another origin":                    {"GET", []string{"Origin", "http://127.0.0.1:1"}, 403},
		"another scheme":                    {"GET", []string{"Origin", strings.Replace(url, "http", "https", 1)}, 403},
		"no origin":                         {"GET", []string{"Origin", "null"}, 403},
		"two answers":                       {"GET", []string{"Sec-Fetch-Site", "same-origin, cross-site"}, 403},
		"own page writes":                   {"POST", []string{"Sec-Fetch-Site", "same-origin", "Content-Type", "application/json; charset=utf-8"}, 201},
		"form of the own page":              {"POST", []string{"Sec-Fetch-Site", "same-origin", "Content-Type", "text/plain"}, 403},
		"no type":                           {"POST", []string{"Sec-Fetch-Site", "same-origin"}, 403},
		"another port of this host writes":  {"POST", []string{"Sec-Fetch-Site", "same-site", "Content-Type", "application/json"}, 403},
		"token of a program wins, is wrong": {"GET", []string{"Sec-Fetch-Site", "same-origin", "Authorization", "Bearer wrong"}, 401},
		"two cookies":                       {"GET", []string{"Sec-Fetch-Site", "same-origin", "Cookie", cookie + "; " + cookie}, 401},
		"terminal of another page":          {"GET", []string{"Origin", "http://evil.example.com", "Upgrade", "websocket", "Connection", "Upgrade"}, 403},
	} {
		t.Run(name, func(t *testing.T) {
			header := append([]string{"Authorization", "", "Cookie", cookie, "Content-Type", ""}, c.header...)
			body := ""
			if c.method == "POST" {
				body = `{"environment":"shop","prompt":"x"}`
			}
			if status, _, got := ask(t, c.method, url+path, body, header...); status != c.want {
				t.Errorf("got %d, want %d: %s", status, c.want, got)
			}
		})
	}
}

// askHost is ask under another name of the server.
func askHost(t *testing.T, method, url, host, body string, header ...string) int {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Host = host
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	return resp.StatusCode
}

func TestOnlyKnownNamesAnswerBrowsers(t *testing.T) {
	w := surfacetest.New(t)
	url := surfacetest.Serve(t, w.Deps(), server.Options{PublicURL: "https://drydock.example.com"})
	port := url[strings.LastIndex(url, ":"):]
	for host, want := range map[string]int{
		"localhost" + port: 200, "a.localhost" + port: 200, "127.0.0.1" + port: 200, "[::1]" + port: 200, "LOCALHOST.": 200,
		"drydock.example.com": 200, "DRYDOCK.example.com:443": 200,
		"evil.example.com": 421, "drydock.example.com:8443": 421, "10.1.2.3" + port: 421, "localhost.evil.example.com": 421, "127.0.0.1.evil.example.com": 421,
	} {
		if got := askHost(t, "GET", url+"/", host, ""); got != want {
			t.Errorf("page as %s: %d, want %d", host, got, want)
		}
	}
	if got := askHost(t, "GET", url+"/api/v1/whoami", "any.name.example.com", "", "Authorization", "Bearer "+surfacetest.AliceToken); got != 200 {
		t.Errorf("a program under another name: %d", got)
	}
}

func TestNobodySignsInInTheClear(t *testing.T) {
	w := surfacetest.New(t)
	body := `{"secret":"` + surfacetest.AliceToken + `"}`
	same := []string{"Sec-Fetch-Site", "same-origin", "Content-Type", "application/json"}
	for name, c := range map[string]struct {
		opts server.Options
		host string
		want int
	}{
		"behind TLS":             {server.Options{PublicURL: "https://drydock.example.com"}, "drydock.example.com", 200},
		"plain, another host":    {server.Options{PublicURL: "http://drydock.example.com:7300"}, "drydock.example.com:7300", 403},
		"plain, and that's fine": {server.Options{PublicURL: "http://drydock.example.com:7300", PlainHTTP: true}, "drydock.example.com:7300", 200},
	} {
		t.Run(name, func(t *testing.T) {
			url := surfacetest.Serve(t, w.Deps(), c.opts)
			if got := askHost(t, "POST", url+"/api/v1/login", c.host, body, same...); got != c.want {
				t.Errorf("got %d, want %d", got, c.want)
			}
		})
	}
	if _, err := server.New(w.Deps(), server.Options{PublicURL: "drydock.example.com"}); err == nil {
		t.Error("a public address without a scheme was taken")
	}
}

func TestEverythingHasItsHeaders(t *testing.T) {
	url := surfacetest.New(t).Start(t)
	for path, policy := range map[string]string{
		"/": "script-src 'self';", "/s/anything": "frame-ancestors 'none'", "/api/v1/whoami": "default-src 'none'", "/nothing": "default-src 'none'", "/healthz": "default-src 'none'",
	} {
		_, h, _ := ask(t, "GET", url+path, "")
		for name, want := range map[string]string{
			"X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer", "Cross-Origin-Opener-Policy": "same-origin",
			"Cross-Origin-Resource-Policy": "same-origin", "Permissions-Policy": "camera=()", "Content-Security-Policy": policy,
		} {
			if !strings.Contains(h.Get(name), want) {
				t.Errorf("%s: %s is %q, want %q in it", path, name, h.Get(name), want)
			}
		}
		if p := h.Get("Content-Security-Policy"); strings.Contains(p, "unsafe") || strings.Contains(p, "script-src 'nonce") {
			t.Errorf("%s allows scripts: %q", path, p)
		}
		if h.Get("Access-Control-Allow-Origin") != "" {
			t.Errorf("%s speaks to other origins", path)
		}
	}
}
