package supervisor

import (
	"bytes"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"drydock/internal/core"
	"drydock/internal/execution/guest"
)

func TestServicesStartInOrderAndStopInReverse(t *testing.T) {
	c, root := serve(t)
	log := filepath.Join(root, "workspace", "log")
	service := func(name, ready string, after ...string) guest.Service {
		script := "echo start " + name + " >> log; trap 'echo stop " + name + " >> log; exit 0' TERM; sleep 0.1; touch ready-" + name +
			"; while :; do sleep 0.02; done"
		return guest.Service{Name: name, Run: script, Ready: ready, After: after}
	}
	web := service("web", "test -e ready-web", "db", "cache")
	list := []guest.Service{web, service("cache", "test -e ready-cache", "db"), service("db", "test -e ready-db")}
	states, err := c.StartServices(t.Context(), list)
	if err != nil {
		t.Fatalf("%v: %+v", err, states)
	}
	for _, st := range states {
		if st.State != stateReady {
			t.Errorf("%+v", st)
		}
	}
	if _, err := c.StartServices(t.Context(), list); err != nil { // nothing changes
		t.Fatal(err)
	}
	if err := c.StopServices(t.Context()); err != nil {
		t.Fatal(err)
	}
	raw, _ := os.ReadFile(log)
	want := "start db\nstart cache\nstart web\nstop web\nstop cache\nstop db\n"
	if string(raw) != want {
		t.Errorf("got\n%s\nwant\n%s", raw, want)
	}
	if _, err := c.StartServices(t.Context(), list); err != nil { // after a stop they start again
		t.Fatal(err)
	}
}

func TestServiceRestarts(t *testing.T) {
	c, root := serve(t)
	list := []guest.Service{{Name: "flaky", Run: "echo x >> count; [ $(wc -l < count) -ge 3 ] || exit 3; sleep 300", Ready: "[ $(wc -l < count) -ge 3 ]"}}
	states, err := c.StartServices(t.Context(), list)
	if err != nil || states[0].Restarts != 2 {
		t.Fatalf("%+v, %v", states, err)
	}
	if err := c.RestartService(t.Context(), "flaky"); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it runs again", func() bool {
		raw, _ := os.ReadFile(filepath.Join(root, "workspace", "count"))
		states, err := c.Services(t.Context())
		return err == nil && states[0].State == stateReady && string(raw) == "x\nx\nx\nx\n"
	})
	if err := c.RestartService(t.Context(), "other"); !core.Is(err, core.NotFound) {
		t.Errorf("got %v", err)
	}
}

func TestServiceThatFailsIsTold(t *testing.T) {
	c, _ := serve(t)
	states, err := c.StartServices(t.Context(), []guest.Service{
		{Name: "broken", Run: "echo cannot open the database; exit 9", Restart: restartFailure},
	})
	if !core.Is(err, core.Unavailable) || states[0].State != stateFailed || !strings.Contains(states[0].Detail, "exit code 9") {
		t.Fatalf("%+v, %v", states, err)
	}
	out, err := c.Output(t.Context(), states[0].Process, guest.Stdout, 0, false)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	buf := make([]byte, 100)
	if n, _ := out.Read(buf); string(buf[:n]) != "cannot open the database\n" {
		t.Errorf("log %q", buf[:n])
	}
	states, err = c.StartServices(t.Context(), []guest.Service{
		{Name: "never", Run: "sleep 300", Ready: "echo not yet; false", Timeout: 200 * time.Millisecond},
	})
	if !core.Is(err, core.Unavailable) || !strings.Contains(states[0].Detail, "not yet") {
		t.Errorf("%+v, %v", states, err)
	}
	began := time.Now()
	states, err = c.StartServices(t.Context(), []guest.Service{
		{Name: "first", Run: "exit 1", Restart: restartNever}, {Name: "second", Run: "sleep 300", After: []string{"first"}},
	})
	if !core.Is(err, core.Unavailable) || time.Since(began) > 10*time.Second || states[1].State != stateWaiting {
		t.Errorf("%+v, %v after %s", states, err, time.Since(began))
	}
	states, err = c.StartServices(t.Context(), []guest.Service{
		{Name: "once", Run: "echo migrated", Restart: restartNever}, {Name: "after", Run: "sleep 300", After: []string{"once"}},
	})
	if err != nil || states[0].State != stateStopped || states[1].State != stateReady {
		t.Errorf("%+v, %v", states, err)
	}
}

func TestServiceReadiness(t *testing.T) {
	c, _ := serve(t)
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/healthz" {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	defer web.Close()
	_, port, _ := net.SplitHostPort(web.Listener.Addr().String())
	n, _ := strconv.Atoi(port)
	states, err := c.StartServices(t.Context(), []guest.Service{
		{Name: "http", Run: "sleep 300", Ready: web.URL + "/healthz"},
		{Name: "tcp", Run: "sleep 300", Ready: "tcp:" + port},
		{Name: "port", Run: "sleep 300", Port: n},
		{Name: "alive", Run: "sleep 300"},
	})
	if err != nil {
		t.Fatalf("%+v, %v", states, err)
	}
	states, err = c.StartServices(t.Context(), []guest.Service{{Name: "http", Run: "sleep 300", Ready: web.URL + "/other", Timeout: 100 * time.Millisecond}})
	if err == nil || !strings.Contains(states[0].Detail, "503") {
		t.Errorf("%+v, %v", states, err)
	}
}

func TestServicesRefuse(t *testing.T) {
	cases := map[string][]guest.Service{
		"itself":  {{Name: "a", Run: "x", After: []string{"b"}}, {Name: "b", Run: "x", After: []string{"a"}}},
		"unknown": {{Name: "a", Run: "x", After: []string{"b"}}},
		"twice":   {{Name: "a", Run: "x"}, {Name: "a", Run: "y"}},
		"restart": {{Name: "a", Run: "x", Restart: "sometimes"}},
		"empty":   {{Name: "a"}},
	}
	for name, list := range cases {
		if _, err := orderServices(list); !core.Is(err, core.Invalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestSetup(t *testing.T) {
	c, root := serve(t)
	in := guest.Setup{
		Hostname: "box", Env: []string{"A=1", "HTTP_PROXY=http://10.0.0.1:3128"}, Hosts: map[string]string{"db.test": "10.0.0.9"},
		Resolver: "10.0.0.1", Clock: time.Now(), Files: []guest.SetupFile{{Path: "/etc/ssl/ca.pem", Mode: 0o644, Data: []byte("CA")}},
	}
	res, err := c.Setup(t.Context(), in)
	if err != nil || len(res.Warnings) > 0 || res.Skew.Abs() > 10*time.Second {
		t.Fatalf("%+v, %v", res, err)
	}
	for path, want := range map[string]string{"etc/hostname": "box\n", "etc/resolv.conf": "nameserver 10.0.0.1\n", "etc/hosts": "10.0.0.9\tdb.test\n", "etc/ssl/ca.pem": "CA"} {
		raw, err := os.ReadFile(filepath.Join(root, path))
		if err != nil || !strings.Contains(string(raw), want) {
			t.Errorf("%s: %q, %v", path, raw, err)
		}
	}
	if out := mustRun(t, c, sh("echo $A $HTTP_PROXY")); string(out.Stdout) != "1 http://10.0.0.1:3128\n" {
		t.Errorf("got %q", out.Stdout)
	}
	in.Env = []string{"B=2"}
	if _, err := c.Setup(t.Context(), in); err != nil {
		t.Fatal(err)
	}
	if out := mustRun(t, c, sh("echo $A $B")); string(out.Stdout) != "2\n" {
		t.Errorf("got %q", out.Stdout)
	}
	for _, bad := range []guest.Setup{{Hostname: "a b"}, {Hosts: map[string]string{"x": "nowhere"}}, {Env: []string{"novalue"}}} {
		if _, err := c.Setup(t.Context(), bad); !core.Is(err, core.Invalid) {
			t.Errorf("%+v: %v", bad, err)
		}
	}
}

func TestRotateAndHealth(t *testing.T) {
	c, _ := serve(t)
	before, err := c.Health(t.Context())
	if err != nil || before.Instance == "" {
		t.Fatalf("%+v, %v", before, err)
	}
	after, err := c.Rotate(t.Context(), "a-new-token-for-this-clone")
	if err != nil || after.Instance == before.Instance {
		t.Fatalf("%+v, %v", after, err)
	}
	if _, err := c.Health(t.Context()); err != nil {
		t.Errorf("the new token: %v", err)
	}
}

func TestQuiesceEndsEverything(t *testing.T) {
	c, _ := serve(t)
	p, err := c.Start(t.Context(), sh("sleep 300"))
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Quiesce(t.Context()); err != nil {
		t.Fatal(err)
	}
	if end, err := c.Process(t.Context(), p.ID); err != nil || end.Running {
		t.Errorf("%+v, %v", end, err)
	}
}

// A second set-up writes what has changed, and nothing else.
func TestSetupAgain(t *testing.T) {
	c, root := serve(t)
	in := guest.Setup{Hostname: "box", Files: []guest.SetupFile{
		{Path: "/etc/same", Mode: 0o644, Data: []byte("AB")},
		{Path: "/etc/text", Mode: 0o644, Data: []byte("AB")},
		{Path: "/etc/mode", Mode: 0o644, Data: []byte("AB")},
		{Path: "/etc/link", Mode: 0o644, Data: []byte("AB")},
	}}
	if _, err := c.Setup(t.Context(), in); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(root, "etc/link")
	if err := errors.Join(os.Remove(link), os.Symlink("same", link)); err != nil {
		t.Fatal(err)
	}
	before := map[string]os.FileInfo{}
	for _, name := range []string{"same", "text", "mode", "link", "hosts"} {
		info, err := os.Lstat(filepath.Join(root, "etc", name))
		if err != nil {
			t.Fatal(err)
		}
		before[name] = info
	}
	in.Files[1].Data, in.Files[2].Mode = []byte("CD"), 0o600
	if _, err := c.Setup(t.Context(), in); err != nil {
		t.Fatal(err)
	}
	for name, replaced := range map[string]bool{"same": false, "text": true, "mode": true, "link": true, "hosts": false} {
		info, err := os.Lstat(filepath.Join(root, "etc", name))
		if err != nil || !info.Mode().IsRegular() || os.SameFile(info, before[name]) == replaced {
			t.Errorf("%s is %v, replaced should be %v, error %v", name, info.Mode(), replaced, err)
		}
	}
	if raw, err := os.ReadFile(filepath.Join(root, "etc/text")); err != nil || string(raw) != "CD" {
		t.Errorf("text holds %q, error %v", raw, err)
	}
}

// A large file is sent once, and again when somebody has changed it.
func TestSetupLargeFile(t *testing.T) {
	c, root := serve(t)
	large := bytes.Repeat([]byte("certificate\n"), 20_000)
	in := guest.Setup{Hostname: "box", Files: []guest.SetupFile{
		{Path: "/etc/ssl/all.pem", Mode: 0o644, Data: large}, {Path: "/etc/small", Mode: 0o644, Data: []byte("s")},
	}}
	path := filepath.Join(root, "etc/ssl/all.pem")
	var before os.FileInfo
	for i, spoil := range []func() error{
		func() error { return nil }, // not there
		func() error { return nil }, // as it was
		func() error { return os.WriteFile(path, large[1:], 0o644) },
		func() error { return os.Chmod(path, 0o600) },
		func() error { return os.Remove(path) },
		func() error { return errors.Join(os.Remove(path), os.Symlink("../small", path)) },
	} {
		if err := spoil(); err != nil {
			t.Fatal(err)
		}
		res, err := c.Setup(t.Context(), in)
		if err != nil || len(res.Missing) > 0 {
			t.Fatalf("set-up %d: %+v, %v", i, res, err)
		}
		info, err := os.Lstat(path)
		if err != nil || info.Mode() != 0o644 {
			t.Fatalf("set-up %d: %v, %v", i, info, err)
		}
		if raw, err := os.ReadFile(path); err != nil || !bytes.Equal(raw, large) {
			t.Errorf("set-up %d: %d bytes, %v", i, len(raw), err)
		}
		if i == 1 && !os.SameFile(before, info) {
			t.Error("a file that was right was written again")
		}
		before = info
	}
}
