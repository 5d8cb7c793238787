package server_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"drydock/internal/core"
	"drydock/internal/surface/api"
	"drydock/internal/surface/server"
	"drydock/internal/surface/surfacetest"
)

// ask sends a request as Alice and returns status, headers and body.
func ask(t *testing.T, method, url, body string, header ...string) (int, http.Header, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+surfacetest.AliceToken)
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
		if header[i+1] == "" {
			req.Header.Del(header[i])
		}
	}
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, resp.Header, string(raw)
}

func problemIn(t *testing.T, body string) api.Error {
	t.Helper()
	var e api.Error
	if err := json.Unmarshal([]byte(body), &e); err != nil {
		t.Fatalf("body is not an error: %v: %q", err, body)
	}
	return e
}

// failing is a world whose sessions answer with a given error.
type failing struct {
	server.Sessions
	err error
}

func (f failing) Get(context.Context, core.SessionID) (core.Session, error) {
	return core.Session{}, f.err
}

const someSession = "/api/v1/sessions/ses_000000000000000001"

func TestEveryKindHasItsStatusAndForm(t *testing.T) {
	for kind := core.Internal; kind <= core.Canceled; kind++ {
		t.Run(kind.String(), func(t *testing.T) {
			w := surfacetest.New(t)
			deps := w.Deps()
			cause := errors.New("disk /secret/path")
			deps.Sessions = failing{deps.Sessions, fmt.Errorf("wrapped: %w", core.E("x", kind, nil, "session ses_1 is odd").WithHint("look twice"))}
			if kind == core.Internal {
				deps.Sessions = failing{deps.Sessions, core.E("x", kind, cause, "session ses_1 is odd")}
			}
			var log strings.Builder
			deps.Log = slog.New(slog.NewTextHandler(&log, nil))
			url := surfacetest.Serve(t, deps, server.Options{})
			status, header, body := ask(t, "GET", url+someSession, "")
			e := problemIn(t, body)
			if status != kind.HTTPStatus() || e.Code != kind.String() {
				t.Errorf("got %d %q, want %d %q", status, e.Code, kind.HTTPStatus(), kind)
			}
			if got := header.Get("Content-Type"); got != "application/json" {
				t.Errorf("content type %q", got)
			}
			if kind == core.Internal {
				if strings.Contains(body, "secret") || strings.Contains(body, "odd") {
					t.Errorf("the detail of a fault reached the client: %s", body)
				}
				if e.ID == "" || !strings.Contains(log.String(), e.ID) || !strings.Contains(log.String(), "/secret/path") {
					t.Errorf("fault %q with its cause is not in the log:\n%s", e.ID, log.String())
				}
				return
			}
			if e.Message != "wrapped: session ses_1 is odd" || e.Hint != "look twice" {
				t.Errorf("got %+v", e)
			}
		})
	}
}

func TestOnlyWhatIsMeantToBeOpenIsOpen(t *testing.T) {
	url := surfacetest.New(t).Start(t)
	open := map[string]bool{"/healthz": true, "/api/v1/openapi.json": true, "/": true}
	paths := []string{"/metrics", "/git/shop.git/info/refs", "/api/v1/nothing", "/api/v1/events"}
	raw, err := server.OpenAPI()
	if err != nil {
		t.Fatal(err)
	}
	var doc struct{ Paths map[string]map[string]any }
	if err := json.Unmarshal(raw, &doc); err != nil {
		t.Fatal(err)
	}
	for p := range doc.Paths {
		paths = append(paths, strings.NewReplacer("{id}", "x", "{prompt}", "x", "{digest}", "x").Replace(p))
	}
	for p := range open {
		if status, _, _ := ask(t, "GET", url+p, "", "Authorization", ""); status != 200 {
			t.Errorf("GET %s without a token: %d", p, status)
		}
	}
	for _, p := range paths {
		for _, method := range []string{"GET", "POST", "PUT", "DELETE", "PATCH"} {
			if p == "/metrics" && method != "GET" || p == "/api/v1/login" && method == "POST" {
				continue
			}
			for _, auth := range []string{"", "Bearer wrong", "Basic YWxpY2U6d3Jvbmc=", "Bearer", "Bearer  "} {
				status, header, body := ask(t, method, url+p, "", "Authorization", auth)
				if status != http.StatusUnauthorized {
					t.Errorf("%s %s with %q: %d %s", method, p, auth, status, body)
				} else if header.Get("WWW-Authenticate") == "" || problemIn(t, body).Hint == "" {
					t.Errorf("%s %s: the refusal does not say how to come in: %s", method, p, body)
				}
			}
		}
	}
}

func TestGitTakesTheTokenAsPassword(t *testing.T) {
	url := surfacetest.New(t).Start(t)
	req, err := http.NewRequestWithContext(t.Context(), "GET", url+"/git/shop.git/info/refs", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.SetBasicAuth("anybody", surfacetest.BobToken)
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	raw, _ := io.ReadAll(resp.Body)
	if got, want := string(raw), "git /shop.git/info/refs for bob"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestRequestsAreReadStrictly(t *testing.T) {
	url := surfacetest.New(t).Start(t)
	big := `{"environment":"shop","prompt":"` + strings.Repeat("x", 2<<20) + `"}`
	for name, c := range map[string]struct {
		method, path, body string
		status             int
		message            string
	}{
		"unknown query":      {"GET", "/api/v1/sessions?limitt=3", "", 400, "query.limitt: unknown query parameter"},
		"doubled query":      {"GET", "/api/v1/sessions?limit=3&limit=4", "", 400, `query parameter "limit" is given 2 times`},
		"malformed query":    {"GET", "/api/v1/sessions?limit=%zz", "", 400, "malformed query"},
		"semicolon":          {"GET", "/api/v1/sessions?limit=3;cursor=x", "", 400, "malformed query"},
		"not a number":       {"GET", "/api/v1/sessions?limit=many", "", 400, "query.limit"},
		"too many":           {"GET", "/api/v1/sessions?limit=5000", "", 400, "query.limit"},
		"unknown state":      {"GET", "/api/v1/sessions?state=sleeping", "", 400, "query.state"},
		"unknown field":      {"POST", "/api/v1/sessions", `{"environment":"shop","prompt":"x","colour":"red"}`, 400, "colour"},
		"missing field":      {"POST", "/api/v1/sessions", `{"environment":"shop"}`, 400, "prompt"},
		"empty prompt":       {"POST", "/api/v1/sessions", `{"environment":"shop","prompt":""}`, 400, "prompt"},
		"no JSON":            {"POST", "/api/v1/sessions", `prompt=x`, 400, ""},
		"too big":            {"POST", "/api/v1/sessions", big, 413, ""},
		"not an identifier":  {"GET", "/api/v1/sessions/..%2f..%2fetc", "", 400, "is not an identifier"},
		"another kind":       {"GET", "/api/v1/sessions/bld_000000000000000001", "", 400, "is not an identifier"},
		"not there":          {"GET", "/api/v1/sessions/ses_000000000000000009", "", 404, "does not exist"},
		"no such path":       {"GET", "/api/v1/sesions", "", 404, "no path"},
		"no such method":     {"PUT", "/api/v1/sessions", "{}", 405, "PUT is not allowed"},
		"outside":            {"GET", "/elsewhere", "", 404, "no path /elsewhere"},
		"bad digest":         {"GET", "/api/v1/blobs/sha256:abc", "", 400, "is not a digest"},
		"bad event id":       {"GET", someSession + "/events?after=-1", "", 400, "after"},
		"token handle":       {"POST", "/api/v1/tokens", `{"handle":"Über"}`, 400, "handle"},
		"build without what": {"POST", "/api/v1/builds", `{}`, 400, "neither source nor name"},
	} {
		t.Run(name, func(t *testing.T) {
			status, header, body := ask(t, c.method, url+c.path, c.body, "Content-Type", "application/json")
			e := problemIn(t, body)
			if status != c.status || !strings.Contains(e.Message, c.message) || e.Code == "" {
				t.Errorf("got %d %+v, want %d with %q", status, e, c.status, c.message)
			}
			if got := header.Get("Content-Type"); got != "application/json" {
				t.Errorf("content type %q", got)
			}
		})
	}
}

func TestPagesOfOtherOriginsMayNotWrite(t *testing.T) {
	url := surfacetest.New(t).Start(t)
	status, _, body := ask(t, "POST", url+"/api/v1/sessions", `{"environment":"shop","prompt":"x"}`, "Origin", "https://evil.example.com", "Sec-Fetch-Site", "cross-site")
	if status != http.StatusForbidden || problemIn(t, body).Code != "denied" {
		t.Errorf("got %d %s", status, body)
	}
}

type panicking struct{ server.Sessions }

func (panicking) Get(context.Context, core.SessionID) (core.Session, error) { panic("boom at /secret") }

func TestAPanicIsAFaultWithANumber(t *testing.T) {
	deps := surfacetest.New(t).Deps()
	deps.Sessions = panicking{deps.Sessions}
	var log strings.Builder
	deps.Log = slog.New(slog.NewTextHandler(&log, nil))
	url := surfacetest.Serve(t, deps, server.Options{})
	status, _, body := ask(t, "GET", url+someSession, "")
	e := problemIn(t, body)
	if status != 500 || e.ID == "" || strings.Contains(body, "secret") {
		t.Errorf("got %d %s", status, body)
	}
	if !strings.Contains(log.String(), e.ID) || !strings.Contains(log.String(), "boom") {
		t.Errorf("log: %s", log.String())
	}
}

func TestAMissingPartSaysSo(t *testing.T) {
	w := surfacetest.New(t)
	url := surfacetest.Serve(t, server.Deps{Tokens: w.Deps().Tokens}, server.Options{})
	for _, p := range []string{"/sessions", "/changes", "/usage", "/snapshots", "/approvals", "/environments"} {
		status, _, body := ask(t, "GET", url+api.Prefix+p, "")
		if status != 503 || problemIn(t, body).Code != "unavailable" {
			t.Errorf("%s: %d %s", p, status, body)
		}
	}
	if _, err := server.New(server.Deps{}, server.Options{}); err == nil {
		t.Error("a server that knows no tokens was made")
	}
}

func TestListsArePaged(t *testing.T) {
	w := surfacetest.New(t)
	w.Script = func(*surfacetest.World, *surfacetest.Run) {}
	url := w.Start(t)
	for i := range 7 {
		if status, _, body := ask(t, "POST", url+"/api/v1/sessions", fmt.Sprintf(`{"environment":"shop","prompt":"task %d"}`, i), "Content-Type", "application/json"); status != 201 {
			t.Fatal(status, body)
		}
	}
	var got []string
	for cursor := ""; ; {
		_, _, body := ask(t, "GET", url+"/api/v1/sessions?limit=3&cursor="+cursor, "")
		var l api.List[core.Session]
		if err := json.Unmarshal([]byte(body), &l); err != nil {
			t.Fatal(err)
		}
		for _, s := range l.Items {
			got = append(got, s.Title)
		}
		if cursor = l.Next; cursor == "" {
			break
		}
	}
	if diff := cmp.Diff([]string{"task 6", "task 5", "task 4", "task 3", "task 2", "task 1", "task 0"}, got); diff != "" {
		t.Error(diff)
	}
	_, _, body := ask(t, "GET", url+"/api/v1/changes", "")
	if strings.TrimSpace(body) != `{"items":[]}` {
		t.Errorf("an empty list is %s", body)
	}
}

func TestWhatCameFromASandboxIsNeverAPage(t *testing.T) {
	url := surfacetest.New(t).Start(t)
	ask(t, "POST", url+"/api/v1/sessions", `{"environment":"shop","prompt":"x"}`, "Content-Type", "application/json")
	_, header, body := ask(t, "GET", url+someSession+"/file?path=cart/total.go", "")
	if header.Get("Content-Type") != "application/octet-stream" || header.Get("Content-Disposition") != "attachment" || header.Get("X-Content-Type-Options") != "nosniff" {
		t.Errorf("headers %v", header)
	}
	if body != "package cart\n" {
		t.Errorf("body %q", body)
	}
}
