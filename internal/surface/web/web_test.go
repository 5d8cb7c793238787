package web_test

import (
	"net/http/httptest"
	"strings"
	"testing"
	"testing/fstest"

	"drydock/internal/surface/web"
)

func built(t *testing.T, files map[string]string) *web.Page {
	t.Helper()
	fs := fstest.MapFS{".keep": {Data: []byte("x")}}
	for name, text := range files {
		fs[name] = &fstest.MapFile{Data: []byte(text)}
	}
	p, err := web.New(fs)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func get(p *web.Page, path, snapshot string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	var raw []byte
	if snapshot != "" {
		raw = []byte(snapshot)
	}
	p.Serve(w, httptest.NewRequest("GET", path, nil), raw)
	return w
}

const indexHTML = `<html><head><meta property="csp-nonce" nonce="__CSP_NONCE__"></head><body></body></html>`

func TestRoutesShowTheShellAndFilesThemselves(t *testing.T) {
	p := built(t, map[string]string{"index.html": indexHTML, "assets/app-1a2b.js": "let a", "favicon.svg": "<svg/>", "secret.exe": "x"})
	for _, path := range []string{"/", "/s/ses_1", "/settings/tokens", "/login"} {
		w := get(p, path, "")
		if w.Code != 200 || !strings.HasPrefix(w.Header().Get("Content-Type"), "text/html") || w.Header().Get("Cache-Control") != "no-store" {
			t.Errorf("%s: %d %v", path, w.Code, w.Header())
		}
	}
	w := get(p, "/assets/app-1a2b.js", "")
	if !strings.Contains(w.Header().Get("Cache-Control"), "immutable") || w.Body.String() != "let a" || !strings.HasPrefix(w.Header().Get("Content-Type"), "text/javascript") {
		t.Errorf("asset: %v %q", w.Header(), w.Body)
	}
	again := httptest.NewRequest("GET", "/favicon.svg", nil)
	again.Header.Set("If-None-Match", get(p, "/favicon.svg", "").Header().Get("ETag"))
	w = httptest.NewRecorder()
	if p.Serve(w, again, nil); w.Code != 304 {
		t.Errorf("a file that has not changed: %d", w.Code)
	}
	for _, path := range []string{"/nothing", "/assets/old.js", "/secret.exe", "/.keep", "/index.html.bak", "/assets/", "/sx", "/../etc/passwd", "/s.js"} {
		if p.Has(path) {
			t.Errorf("%s is there", path)
		}
	}
}

func TestEachAnswerHasANonceOfItsOwn(t *testing.T) {
	p := built(t, map[string]string{"index.html": indexHTML})
	a, b := get(p, "/", ""), get(p, "/", "")
	if a.Body.String() == b.Body.String() || strings.Contains(a.Body.String(), web.Nonce) {
		t.Errorf("nonces: %s and %s", a.Body, b.Body)
	}
	nonce := a.Body.String()[strings.Index(a.Body.String(), `nonce="`)+7:]
	nonce = nonce[:strings.Index(nonce, `"`)]
	if !strings.Contains(a.Header().Get("Content-Security-Policy"), "style-src 'self' 'nonce-"+nonce+"'") {
		t.Errorf("policy %q does not name nonce %s", a.Header().Get("Content-Security-Policy"), nonce)
	}
}

func TestASnapshotStaysData(t *testing.T) {
	p := built(t, map[string]string{"index.html": indexHTML})
	body := get(p, "/", `{"title":"</script><script>alert(1)</script>"}`).Body.String()
	if strings.Count(body, "<script") != 1 || strings.Count(body, "</script>") != 1 || !strings.Contains(body, `<script type="application/json" id="snapshot">{"title"`) {
		t.Errorf("page: %s", body)
	}
}

func TestWithoutABuildThereIsAStandIn(t *testing.T) {
	p := built(t, nil)
	if body := get(p, "/", "").Body.String(); !strings.Contains(body, "make web") {
		t.Errorf("stand-in: %s", body)
	}
	if other := built(t, map[string]string{"index.html": indexHTML}); other.Build() == p.Build() || len(p.Build()) != 16 {
		t.Errorf("builds are told apart by %q and %q", p.Build(), other.Build())
	}
	if _, err := web.New(fstest.MapFS{"index.html": {Data: []byte("half")}}); err == nil {
		t.Error("half an index.html was taken")
	}
	if _, err := web.Embedded(); err != nil {
		t.Error(err)
	}
}
