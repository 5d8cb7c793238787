package scenarios

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/cookiejar"
	"strings"
	"testing"

	"drydock/internal/core"
	"drydock/internal/surface/api"
	"drydock/internal/testkit"
)

// A server as developers start it: on loopback only, and telling what it was
// asked for.
const loopbackServer = `use IO::Socket::INET;
my $s = IO::Socket::INET->new(LocalAddr => '127.0.0.1', LocalPort => 3000, Listen => 5, ReuseAddr => 1) or die $!;
while (my $c = $s->accept) {
	my ($host, $cookie) = ('', '');
	while (<$c>) { last if /^\r?$/; $host = $1 if /^Host: (\S+)/i; $cookie = $1 if /^Cookie: (.*)\r/i; }
	my $body = "host=$host cookie=$cookie";
	print $c "HTTP/1.1 200 OK\r\nContent-Length: " . length($body) . "\r\nConnection: close\r\n\r\n$body";
	close $c;
}
`

// TestAPreview opens what listens in a real sandbox, as a browser does.
func TestAPreview(t *testing.T) {
	d := testkit.Start(t, testkit.Options{Script: scripts(mendHello())})
	env := d.BuildEnvironment(t, tinyRepo(t, func(files map[string]string) {
		files["web.pl"] = loopbackServer
		files["drydock.yaml"] += "services:\n  web: {run: perl web.pl, port: 3000}\n"
	}))
	id := d.Run(t, env, "Mend the greeting").Session.ID
	c := d.Client(t, "ana")
	ports, err := c.Ports(t.Context(), id)
	if err != nil || !ports.Awake || len(ports.Items) != 1 || ports.Items[0].Port != 3000 || !ports.Items[0].Declared || !ports.Items[0].Listening || ports.Items[0].Service != "web" {
		t.Fatalf("ports: %+v, %v", ports, err)
	}
	if _, err := c.OpenPreview(t.Context(), id, api.OpenPreview{Port: 10017, Any: true}); !core.Is(err, core.Invalid) {
		t.Errorf("the port of drydock-init: %v", err)
	}

	jar, _ := cookiejar.New(nil)
	browser := http.Client{Jar: jar, Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, addr string) (net.Conn, error) {
		_, port, _ := net.SplitHostPort(addr) // *.localhost
		return (&net.Dialer{}).DialContext(ctx, "tcp", "127.0.0.1:"+port)
	}}}
	get := func(url string) (int, string) {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
		if err != nil {
			t.Fatal(err)
		}
		res, err := browser.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		body, err := io.ReadAll(res.Body)
		if err != nil {
			t.Fatal(err)
		}
		return res.StatusCode, string(body)
	}
	enter := func() {
		t.Helper()
		in, err := c.OpenPreview(t.Context(), id, api.OpenPreview{Port: 3000})
		if err != nil {
			t.Fatal(err)
		}
		if code, body := get(in.URL); code != 200 || strings.TrimSpace(body) != "host=localhost:3000 cookie=" {
			t.Fatalf("entry: %d %q", code, body)
		}
	}
	enter()
	home := ports.Items[0].URL
	if code, body := get(home + "again"); code != 200 || !strings.HasPrefix(body, "host=localhost:3000") {
		t.Errorf("a second request: %d %q", code, body)
	}

	d.Restart(t)
	if code, _ := get(home); code != http.StatusUnauthorized {
		t.Errorf("a restart leaves the way in open: %d", code)
	}
	c = d.Client(t, "ana")
	if _, err := c.SessionDiff(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	in, err := c.OpenPreview(t.Context(), id, api.OpenPreview{Port: 3000})
	if err != nil {
		t.Fatal(err)
	}
	if code, body := get(in.URL); code != 200 && code != http.StatusServiceUnavailable {
		t.Errorf("after a restart: %d %q", code, body)
	}
	if err := c.Archive(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	if code, body := get(home); code != http.StatusGone || !strings.Contains(body, "archived") {
		t.Errorf("after the end of the session: %d %q", code, body)
	}
}
