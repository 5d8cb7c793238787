package server_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"drydock/internal/surface/server"
	"drydock/internal/surface/surfacetest"
)

func TestThePageFramesPreviewsAndNothingElse(t *testing.T) {
	w := surfacetest.New(t)
	url := w.Start(t)
	policy := func(url, path string) string {
		t.Helper()
		res, err := http.Get(url + path) //nolint:forbidigo // a browser without anything
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		_, _ = io.Copy(io.Discard, res.Body)
		return res.Header.Get("Content-Security-Policy")
	}
	if got := policy(url, "/"); !strings.Contains(got, "; frame-src http://*.localhost:7301;") || !strings.Contains(got, "frame-ancestors 'none'") {
		t.Errorf("policy of the page: %s", got)
	}
	if got := policy(url, "/api/v1/whoami"); strings.Contains(got, "frame-src") {
		t.Errorf("policy of the interface: %s", got)
	}
	deps := w.Deps()
	deps.Previews = nil
	if got := policy(surfacetest.Serve(t, deps, server.Options{}), "/"); !strings.Contains(got, "frame-src 'none'") {
		t.Errorf("without previews: %s", got)
	}
}

func TestTheControlPlaneHasNoNameOfAPreview(t *testing.T) {
	url := surfacetest.New(t).Start(t)
	for host, status := range map[string]int{"localhost": 200, "drydock.localhost": 200, "3000--0123456789abcdefgh.localhost": 421, "3000--0123456789abcdefgh.localhost:7300": 421} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url+"/", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Host = host
		res, err := http.DefaultTransport.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if res.StatusCode != status {
			t.Errorf("%s: %d, want %d", host, res.StatusCode, status)
		}
	}
}
