package mirror

import (
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"os/exec"
	"strings"
	"testing"

	"drydock/internal/core"
	"drydock/internal/gitcmd"
)

// A source behind HTTP, by git's own server program.
func TestSyncOverHTTP(t *testing.T) {
	w := newWorld(t, nil)
	first := w.commit(map[string]string{"a": "a\n"})
	execPath, err := exec.CommandContext(t.Context(), "git", "--exec-path").Output()
	if err != nil {
		t.Fatal(err)
	}
	backend := &cgi.Handler{
		Path: strings.TrimSpace(string(execPath)) + "/git-http-backend", Dir: w.source,
		Env: []string{"GIT_PROJECT_ROOT=" + w.source, "GIT_HTTP_EXPORT_ALL=1", "GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=safe.directory", "GIT_CONFIG_VALUE_0=*"},
	}
	srv := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/closed") {
			if _, password, _ := r.BasicAuth(); password != "secret" {
				rw.Header().Set("WWW-Authenticate", `Basic realm="x"`)
				rw.WriteHeader(http.StatusUnauthorized)
				return
			}
			http.StripPrefix("/closed", backend).ServeHTTP(rw, r)
			return
		}
		if strings.HasPrefix(r.URL.Path, "/broken") {
			rw.WriteHeader(http.StatusBadGateway)
			return
		}
		backend.ServeHTTP(rw, r)
	}))
	defer srv.Close()
	open := func(source string) *Mirror {
		m, err := Open(t.Context(), Options{Git: w.git, Dir: t.TempDir() + "/m", Source: source})
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	m := open(srv.URL + "/.git")
	if r, err := m.Sync(t.Context()); err != nil || r.Head != first || r.DefaultBranch != "trunk" {
		t.Errorf("open: %+v %v", r, err)
	}
	second := w.commit(map[string]string{"b": "b\n"})
	if r, err := m.Sync(t.Context()); err != nil || r.Head != second || !r.Changed {
		t.Errorf("again: %+v %v", r, err)
	}
	host := strings.TrimPrefix(srv.URL, "http://")
	if r, err := open("http://ada:secret@" + host + "/closed/.git").Sync(t.Context()); err != nil || r.Head != second {
		t.Errorf("with a password: %+v %v", r, err)
	}
	for path, want := range map[string]struct {
		kind   core.Kind
		reason gitcmd.Reason
	}{
		"/closed/.git":  {core.Denied, gitcmd.Auth},
		"/missing/.git": {core.NotFound, gitcmd.RemoteNotFound},
		"/broken/.git":  {core.Unavailable, gitcmd.Unreachable},
	} {
		_, err := open("http://ada:wrong@" + host + path).Sync(t.Context())
		if !core.Is(err, want.kind) || gitcmd.ReasonOf(err) != want.reason {
			t.Errorf("%s: kind %v reason %q: %v", path, core.KindOf(err), gitcmd.ReasonOf(err), err)
		}
		if err != nil && strings.Contains(err.Error(), "wrong") {
			t.Errorf("%s: the password is in the error: %v", path, err)
		}
	}
}
