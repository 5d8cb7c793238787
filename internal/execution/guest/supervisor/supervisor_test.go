package supervisor

import (
	"context"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"drydock/internal/core"
	"drydock/internal/execution/guest"
)

const testToken = "a-token-for-tests-only"

// serve runs a supervisor below a temporary root until the test ends.
func serve(t *testing.T, change ...func(*Options)) (*guest.Client, string) {
	t.Helper()
	c, root, _ := serveAt(t, change...)
	return c, root
}

// serveAt is serve that also tells the address.
func serveAt(t *testing.T, change ...func(*Options)) (*guest.Client, string, string) {
	t.Helper()
	root := t.TempDir()
	if err := os.Mkdir(filepath.Join(root, "workspace"), 0o755); err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	opts := Options{Root: root, Token: testToken, Listen: ln, Env: []string{"FROM_OUTSIDE=1", "DRYDOCK_SECRET=x"}}
	for _, f := range change {
		f(&opts)
	}
	s, err := New(opts)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Serve(ctx) }()
	c := guest.NewTCPClient(netip.MustParseAddrPort(ln.Addr().String()), testToken)
	t.Cleanup(func() {
		c.Close()
		cancel()
		select {
		case err := <-done:
			if err != nil {
				t.Error(err)
			}
		case <-time.After(20 * time.Second):
			t.Error("the supervisor does not end")
		}
	})
	return c, root, ln.Addr().String()
}

func sh(script string) guest.Command { return guest.Command{Argv: []string{"sh", "-c", script}} }

func mustRun(t *testing.T, c *guest.Client, cmd guest.Command) guest.Result {
	t.Helper()
	res, err := c.Run(t.Context(), cmd)
	if err != nil {
		t.Fatalf("run %v: %v", cmd.Argv, err)
	}
	return res
}

// eventually polls until ok is true.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.After(15 * time.Second)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("never came true: %s", what)
		}
	}
}

func TestRun(t *testing.T) {
	c, root := serve(t)
	cases := []struct {
		name string
		cmd  guest.Command
		out  string
		err  string
		code int
	}{
		{"both outputs", sh("echo out; echo err >&2"), "out\n", "err\n", 0},
		{"exit code", sh("exit 7"), "", "", 7},
		{"merged in order", guest.Command{Argv: []string{"sh", "-c", "echo a; echo b >&2; echo c"}, Merge: true}, "a\nb\nc\n", "", 0},
		{"input", guest.Command{Argv: []string{"tr", "a-z", "A-Z"}, Input: []byte("hello\x00world")}, "HELLO\x00WORLD", "", 0},
		{"no input is empty", sh("cat; echo end"), "end\n", "", 0},
		{"default directory", sh("pwd -P"), filepath.Join(root, "workspace") + "\n", "", 0},
		{"directory", guest.Command{Argv: []string{"pwd"}, Dir: "/"}, root + "\n", "", 0},
		{"environment", guest.Command{Argv: []string{"sh", "-c", "echo $A-$FROM_OUTSIDE-$DRYDOCK_SECRET-$LANG"}, Env: []string{"A=1"}}, "1-1--C.UTF-8\n", "", 0},
		{"killed by a signal", sh("kill -9 $$"), "", "", 137},
		{"own session", sh("[ \"$(ps -o sid= -p $$ | tr -d ' ')\" = $$ ] && echo yes"), "yes\n", "", 0},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			res := mustRun(t, c, tc.cmd)
			if string(res.Stdout) != tc.out || string(res.Stderr) != tc.err || res.ExitCode != tc.code {
				t.Errorf("got %q, %q, %d; want %q, %q, %d", res.Stdout, res.Stderr, res.ExitCode, tc.out, tc.err, tc.code)
			}
		})
	}
}

func TestStartRefuses(t *testing.T) {
	c, _ := serve(t)
	cases := map[string]struct {
		cmd  guest.Command
		kind core.Kind
	}{
		"no program":        {guest.Command{}, core.Invalid},
		"unknown program":   {guest.Command{Argv: []string{"no-such-program"}}, core.NotFound},
		"unknown directory": {guest.Command{Argv: []string{"true"}, Dir: "/nowhere"}, core.NotFound},
		"unknown user":      {guest.Command{Argv: []string{"true"}, User: "nobody-here"}, core.NotFound},
		"zero byte":         {guest.Command{Argv: []string{"echo", "a\x00b"}}, core.Invalid},
		"relative dir":      {guest.Command{Argv: []string{"true"}, Dir: "x"}, core.Invalid},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if _, err := c.Start(t.Context(), tc.cmd); !core.Is(err, tc.kind) {
				t.Errorf("got %v (%s), want kind %s", err, core.KindOf(err), tc.kind)
			}
		})
	}
}

func TestStartWithKeyIsOnce(t *testing.T) {
	c, root := serve(t)
	cmd := sh("echo x >> count; sleep 0.2")
	cmd.Key = "once"
	ids := make(chan guest.ProcessID, 10)
	for range cap(ids) {
		go func() {
			p, err := c.Start(t.Context(), cmd)
			if err != nil {
				t.Error(err)
			}
			ids <- p.ID
		}()
	}
	first := <-ids
	for range cap(ids) - 1 {
		if id := <-ids; id != first {
			t.Errorf("a second process %s beside %s", id, first)
		}
	}
	if _, err := c.Wait(t.Context(), first); err != nil {
		t.Fatal(err)
	}
	// Also from a client that knows nothing of the first one, after the end.
	res := mustRun(t, c, cmd)
	raw, _ := os.ReadFile(filepath.Join(root, "workspace", "count"))
	if res.Process != first || string(raw) != "x\n" {
		t.Errorf("process %s, ran %q; want %s and one line", res.Process, raw, first)
	}
	bad := guest.Command{Argv: []string{"no-such-program"}, Key: "bad"}
	if _, err := c.Start(t.Context(), bad); err == nil {
		t.Fatal("started")
	}
	bad.Argv = []string{"true"} // what never started does not use up its key
	if _, err := c.Start(t.Context(), bad); err != nil {
		t.Error(err)
	}
}

func TestTimeoutEndsTheGroup(t *testing.T) {
	c, _ := serve(t)
	cmd := sh("trap '' TERM; sleep 300 & echo $!; wait; wait")
	cmd.Timeout, cmd.Grace = 200*time.Millisecond, 200*time.Millisecond
	res := mustRun(t, c, cmd)
	if !res.TimedOut || res.ExitCode != 137 || res.Signal != "KILL" {
		t.Errorf("timed out %v, code %d, signal %q; want true, 137, KILL", res.TimedOut, res.ExitCode, res.Signal)
	}
	child := strings.TrimSpace(string(res.Stdout))
	eventually(t, "the child is gone", func() bool {
		raw, err := os.ReadFile("/proc/" + child + "/stat")
		return err != nil || strings.Contains(string(raw), ") Z ")
	})
}

func TestCancelledRunStopsTheCommand(t *testing.T) {
	c, _ := serve(t)
	ctx, cancel := context.WithCancel(t.Context())
	cmd := sh("sleep 300")
	cmd.Key = "long"
	result := make(chan error, 1)
	go func() { _, err := c.Run(ctx, cmd); result <- err }()
	eventually(t, "it runs", func() bool { p, err := c.Find(t.Context(), "long"); return err == nil && p.Running })
	cancel()
	if err := <-result; !core.Is(err, core.Canceled) {
		t.Errorf("got %v, want canceled", err)
	}
	eventually(t, "it has ended", func() bool { p, err := c.Find(t.Context(), "long"); return err == nil && !p.Running })
}

func TestBrokenConnectionDoesNotEndTheCommand(t *testing.T) {
	c, _, addr := serveAt(t)
	cmd := sh("while [ ! -e go ]; do sleep 0.02; done; echo done")
	cmd.Key = "k"
	conns := make(chan net.Conn, 10)
	flaky := guest.NewClient(func(ctx context.Context) (net.Conn, error) {
		var d net.Dialer
		conn, err := d.DialContext(ctx, "tcp", addr)
		if err == nil {
			conns <- conn
		}
		return conn, err
	}, testToken)
	defer flaky.Close()
	result := make(chan guest.Result, 1)
	go func() {
		res, err := flaky.Run(t.Context(), cmd)
		if err != nil {
			t.Error(err)
		}
		result <- res
	}()
	eventually(t, "it runs", func() bool { p, err := c.Find(t.Context(), "k"); return err == nil && p.Running })
	_ = (<-conns).Close()
	if err := c.WriteFile(t.Context(), "/workspace/go", 0, strings.NewReader("")); err != nil {
		t.Fatal(err)
	}
	if res := <-result; string(res.Stdout) != "done\n" {
		t.Errorf("got %q", res.Stdout)
	}
}

func TestDetachedChildDoesNotHoldTheEnd(t *testing.T) {
	c, root := serve(t)
	began := time.Now()
	res := mustRun(t, c, sh("(while [ ! -e stop ]; do sleep 0.05; done; echo late) & echo started"))
	if string(res.Stdout) != "started\n" || time.Since(began) > 3*time.Second {
		t.Errorf("got %q after %s", res.Stdout, time.Since(began))
	}
	if err := os.WriteFile(filepath.Join(root, "workspace", "stop"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	eventually(t, "what the child says is kept", func() bool {
		p, err := c.Process(t.Context(), res.Process)
		return err == nil && p.Stdout.End == int64(len("started\nlate\n"))
	})
}

func TestLargeOutput(t *testing.T) {
	c, _ := serve(t)
	cmd := sh("head -c 10000000 /dev/zero | tr '\\0' x; echo; echo end")
	res := mustRun(t, c, cmd)
	if !res.Truncated || len(res.Stdout) > 1<<20+100 {
		t.Errorf("truncated %v, %d bytes", res.Truncated, len(res.Stdout))
	}
	if !strings.HasSuffix(string(res.Stdout), "x\nend\n") || !strings.HasPrefix(string(res.Stdout), "xxx") {
		t.Errorf("beginning or end is missing")
	}
	exact := sh("head -c 3000000 /dev/zero | tr '\\0' y")
	exact.Limit = 4 << 20
	if res := mustRun(t, c, exact); res.Truncated || len(res.Stdout) != 3000000 {
		t.Errorf("truncated %v, %d bytes; want all 3000000", res.Truncated, len(res.Stdout))
	}
}

func TestRefusesStrangers(t *testing.T) {
	c, _, addr := serveAt(t)
	if _, err := c.Health(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, header := range []string{"", "Bearer ", "Bearer wrong", "Basic " + testToken, testToken} {
		for _, path := range []string{"/v1/health", "/v1/nothing", "/"} {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+addr+path, nil)
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("Authorization", header)
			resp, err := http.DefaultTransport.RoundTrip(req)
			if err != nil {
				t.Fatal(err)
			}
			_ = resp.Body.Close()
			if resp.StatusCode != http.StatusUnauthorized || resp.ContentLength > 0 {
				t.Errorf("%q %s: status %d with %d bytes", header, path, resp.StatusCode, resp.ContentLength)
			}
		}
	}
}
