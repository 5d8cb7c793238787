package egress

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"drydock/internal/core"
)

// world is an egress in front of a small outside: names that resolve, and
// addresses that end at local servers.
type world struct {
	*Server
	id        core.SandboxID
	names     map[string]string // name -> address
	routes    map[string]string // address:port -> local address
	l         Listeners
	captured  netip.AddrPort // where captured connections seem to go
	mu        sync.Mutex
	decisions []Decision
}

var sandboxAddr = netip.MustParseAddr("127.0.0.1")

func (w *world) LookupNetIP(_ context.Context, _, host string) ([]netip.Addr, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	a, ok := w.names[strings.TrimSuffix(host, ".")]
	if !ok {
		return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
	}
	var out []netip.Addr
	for s := range strings.FieldsSeq(a) {
		out = append(out, netip.MustParseAddr(s))
	}
	return out, nil
}

func (w *world) dialOut(ctx context.Context, network, address string) (net.Conn, error) {
	w.mu.Lock()
	to, ok := w.routes[address]
	w.mu.Unlock()
	if !ok {
		return nil, &net.OpError{Op: "dial", Net: network, Err: fmt.Errorf("no route to %s", address)}
	}
	return (&net.Dialer{}).DialContext(ctx, network, to)
}

func (w *world) name(name, address string) { w.mu.Lock(); defer w.mu.Unlock(); w.names[name] = address }

func (w *world) route(address, to string)  { w.mu.Lock(); defer w.mu.Unlock(); w.routes[address] = to }
func (w *world) capture(to netip.AddrPort) { w.mu.Lock(); defer w.mu.Unlock(); w.captured = to }

func newWorld(t *testing.T, policy *Policy, opts Options) *world {
	t.Helper()
	w := &world{id: core.NewSandboxID(), names: map[string]string{}, routes: map[string]string{}}
	w.Server = New(Deps{
		Resolver: w, Dial: w.dialOut,
		OwnAddrs: func() ([]net.Addr, error) {
			return []net.Addr{&net.IPNet{IP: net.IPv4(93, 184, 216, 99), Mask: net.CIDRMask(24, 32)}}, nil
		},
		Where: func(net.Conn) (netip.AddrPort, error) {
			w.mu.Lock()
			defer w.mu.Unlock()
			return w.captured, nil
		},
		Decided: func(d Decision) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.decisions = append(w.decisions, d)
		},
	}, opts)
	w.Set(w.id, sandboxAddr, policy)
	var err error
	listen := func() net.Listener {
		l, lerr := net.Listen("tcp4", "127.0.0.1:0")
		err = errors.Join(err, lerr)
		return l
	}
	w.l = Listeners{DNSStream: listen(), Explicit: listen(), Transparent: listen()}
	var perr error
	w.l.DNS, perr = net.ListenPacket("udp4", "127.0.0.1:0")
	if err = errors.Join(err, perr); err != nil {
		t.Fatal(err)
	}
	w.Serve(w.l)
	t.Cleanup(func() { _ = w.Close() })
	return w
}

// outside starts a web server that says its name, plain or with TLS.
func (w *world) outside(t *testing.T, address string, secure bool) *httptest.Server {
	t.Helper()
	h := http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) { fmt.Fprintf(rw, "%s%s", r.Host, r.URL.Path) })
	srv := httptest.NewUnstartedServer(h)
	if secure {
		srv.StartTLS()
	} else {
		srv.Start()
	}
	t.Cleanup(srv.Close)
	w.route(address, srv.Listener.Addr().String())
	return srv
}

// viaProxy is an HTTP client that uses the explicit proxy.
func (w *world) viaProxy(serverName string) *http.Client {
	proxy := &url.URL{Scheme: "http", Host: w.l.Explicit.Addr().String()}
	return &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{
		Proxy: http.ProxyURL(proxy), DisableKeepAlives: true,
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true, ServerName: serverName}, //nolint:gosec // a test server
	}}
}

// captured is an HTTP client whose connections all arrive at the transparent
// proxy.
func (w *world) capturedClient(to string, serverName string) *http.Client {
	w.capture(netip.MustParseAddrPort(to))
	return &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "tcp", w.l.Transparent.Addr().String())
		},
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true, ServerName: serverName}, //nolint:gosec // a test server
	}}
}

func get(c *http.Client, u string) (string, *http.Response, error) {
	resp, err := c.Get(u)
	if err != nil {
		return "", nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return string(body), resp, err
}

func (w *world) lastDenial(t *testing.T) Decision {
	t.Helper()
	for deadline := time.Now().Add(3 * time.Second); time.Now().Before(deadline); <-time.After(time.Millisecond) {
		w.mu.Lock()
		for _, v := range slices.Backward(w.decisions) {
			if d := v; !d.Allowed {
				w.mu.Unlock()
				return d
			}
		}
		w.mu.Unlock()
	}
	t.Error("no denial was reported")
	return Decision{}
}

func TestAllowedNameWorksBothWays(t *testing.T) {
	w := newWorld(t, compile(t, nil, "good.example"), Options{})
	w.name("good.example", "93.184.216.34")
	w.outside(t, "93.184.216.34:443", true)
	w.outside(t, "93.184.216.34:80", false)
	for name, try := range map[string]struct {
		client *http.Client
		url    string
	}{
		"explicit https":    {w.viaProxy(""), "https://good.example/a"},
		"explicit http":     {w.viaProxy(""), "http://Good.Example./a"},
		"transparent https": {w.capturedClient("198.18.3.4:443", ""), "https://good.example/a"},
	} {
		if body, _, err := get(try.client, try.url); err != nil || body != "good.example/a" {
			t.Errorf("%s: %q, %v", name, body, err)
		}
	}
	if body, _, err := get(w.capturedClient("198.18.3.4:80", ""), "http://good.example/a"); err != nil || body != "good.example/a" {
		t.Errorf("transparent http: %q, %v", body, err)
	}
}

func TestDenialsAreReadable(t *testing.T) {
	w := newWorld(t, compile(t, nil, "good.example"), Options{})
	w.name("bad.example", "93.184.216.34")
	w.outside(t, "93.184.216.34:443", true)

	body, resp, err := get(w.viaProxy(""), "http://bad.example/")
	if err != nil || resp.StatusCode != http.StatusForbidden || !strings.Contains(resp.Header.Get("X-Drydock-Reason"), "does not allow bad.example") ||
		!strings.Contains(body, `add "bad.example" to network.allow`) {
		t.Errorf("explicit http: %v %q %v", resp, body, err)
	}
	if _, _, err = get(w.viaProxy(""), "https://bad.example/"); err == nil || !strings.Contains(err.Error(), "does not allow bad.example") {
		t.Errorf("explicit https: %v", err)
	}
	var alert *net.OpError
	if _, _, err = get(w.capturedClient("198.18.3.4:443", ""), "https://bad.example/"); !errors.As(err, &alert) || !strings.Contains(err.Error(), "access denied") {
		t.Errorf("transparent https: %v", err)
	}
	if _, resp, err = get(w.capturedClient("198.18.3.4:80", ""), "http://bad.example/"); err != nil || resp.StatusCode != http.StatusForbidden {
		t.Errorf("transparent http: %v %v", resp, err)
	}
	if d := w.lastDenial(t); d.Host != "bad.example" || d.Sandbox != w.id || d.Code != CodeNotAllowed || d.Hint == "" {
		t.Errorf("reported %+v", d)
	}
}

// TestNamesMustAgree sends one name where it is judged and another where it
// would be used.
func TestNamesMustAgree(t *testing.T) {
	w := newWorld(t, compile(t, nil, "good.example", "other.example"), Options{})
	w.name("good.example", "93.184.216.34")
	w.outside(t, "93.184.216.34:443", true)
	w.outside(t, "93.184.216.34:80", false)
	if _, _, err := get(w.viaProxy("other.example"), "https://good.example/"); err == nil {
		t.Error("a tunnel took another server name")
	}
	if d := w.lastDenial(t); d.Code != CodeMismatch {
		t.Errorf("reported %+v", d)
	}
	for name, ask := range map[string]string{
		"host in tunnel":     "CONNECT good.example:80 HTTP/1.1\r\nHost: good.example:80\r\n\r\n|GET / HTTP/1.1\r\nHost: other.example\r\n\r\n",
		"absolute in tunnel": "CONNECT good.example:80 HTTP/1.1\r\nHost: good.example:80\r\n\r\n|GET http://other.example/ HTTP/1.1\r\nHost: good.example\r\n\r\n",
	} {
		status := w.raw(t, w.l.Explicit.Addr().String(), ask)
		if status == http.StatusOK {
			t.Errorf("%s: went through", name)
		}
	}
	if status := w.raw(t, w.l.Explicit.Addr().String(), "CONNECT good.example:80 HTTP/1.1\r\nHost: good.example:80\r\n\r\n|GET / HTTP/1.1\r\nHost: good.example\r\nConnection: close\r\n\r\n"); status != http.StatusOK {
		t.Errorf("plain http in a tunnel of its own name: %d", status)
	}
	w.capture(netip.MustParseAddrPort("198.18.3.4:80"))
	if status := w.raw(t, w.l.Transparent.Addr().String(), "GET / HTTP/1.1\r\nHost: good.example:8080\r\n\r\n"); status == http.StatusOK {
		t.Error("a Host with another port went through")
	}
}

// raw sends text; a part after "|" is sent once a 200 has come back. It
// returns the last status.
func (w *world) raw(t *testing.T, to, text string) int {
	t.Helper()
	conn, err := net.Dial("tcp", to)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(5 * time.Second))
	br := bufio.NewReader(conn)
	status := 0
	for part := range strings.SplitSeq(text, "|") {
		_, _ = io.WriteString(conn, part)
		method := "GET"
		if strings.HasPrefix(part, "CONNECT") {
			method = "CONNECT"
		}
		resp, err := http.ReadResponse(br, &http.Request{Method: method})
		if err != nil {
			return 0
		}
		status = resp.StatusCode
		if method != "CONNECT" || status != http.StatusOK {
			_ = resp.Body.Close()
		}
	}
	return status
}

func TestOddTargetsAreRefused(t *testing.T) {
	w := newWorld(t, compile(t, nil, "good.example"), Options{})
	w.name("good.example", "93.184.216.34")
	for _, host := range []string{
		"127.0.0.1:443", "2130706433:443", "0x7f000001:443", "0177.0.0.1:443", "127.1:443", "[::1]:443", "[::ffff:169.254.169.254]:80",
		"169.254.169.254:80", "good.example\x00.evil.test:443", "good.example:22", "good.example", "good.example:443@evil.test:443", "*:443",
	} {
		if status := w.raw(t, w.l.Explicit.Addr().String(), "CONNECT "+host+" HTTP/1.1\r\nHost: x\r\n\r\n"); status == http.StatusOK {
			t.Errorf("CONNECT %q went through", host)
		}
		if status := w.raw(t, w.l.Explicit.Addr().String(), "GET http://"+host+"/ HTTP/1.1\r\nHost: good.example\r\n\r\n"); status == http.StatusOK {
			t.Errorf("GET http://%q/ went through", host)
		}
	}
}

// TestAddressIsCheckedWhenDialled lets allowed names lead to bad places.
func TestAddressIsCheckedWhenDialled(t *testing.T) {
	for addr, want := range map[string]struct{ plain, registry bool }{
		"93.184.216.34":             {true, true},
		"10.1.2.3":                  {false, true},
		"203.0.113.80":              {false, true},
		"10.1.2.3 93.184.216.34":    {true, true}, // the good one is taken
		"127.0.0.1":                 {false, false},
		"169.254.169.254":           {false, false},
		"93.184.216.99":             {false, false}, // the host's own
		"::ffff:127.0.0.1":          {false, false},
		"64:ff9b::a01:203":          {false, false},
		"10.213.0.6":                {false, false}, // another sandbox
		"100.100.100.200 127.0.0.1": {false, false},
	} {
		t.Run(addr, func(t *testing.T) {
			closed := Options{Closed: []netip.Prefix{netip.MustParsePrefix("10.213.0.0/16")}}
			for registry, ok := range map[bool]bool{false: want.plain, true: want.registry} {
				policy := compile(t, nil, "name.example")
				if registry {
					policy = compile(t, []Endpoint{{Host: "name.example", Port: 80}}, Registries)
				}
				w := newWorld(t, policy, closed)
				w.name("name.example", addr)
				srv := w.outside(t, "93.184.216.34:80", false)
				for a := range strings.FieldsSeq(addr) {
					w.route(net.JoinHostPort(a, "80"), srv.Listener.Addr().String())
				}
				_, resp, err := get(w.viaProxy(""), "http://name.example/")
				if err != nil {
					t.Fatal(err)
				}
				if got := resp.StatusCode == http.StatusOK; got != ok {
					t.Errorf("registry %v: %d, want through: %v", registry, resp.StatusCode, ok)
				}
				if !ok && w.lastDenial(t).Code != CodeSpecial {
					t.Errorf("reported %+v", w.lastDenial(t))
				}
			}
		})
	}
}

func TestWithdrawnRuleCutsTheFlow(t *testing.T) {
	w := newWorld(t, compile(t, nil, "good.example", "other.example:5432"), Options{})
	w.name("good.example", "93.184.216.34")
	w.name("other.example", "93.184.216.35")
	echo, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer echo.Close()
	go func() {
		for {
			c, err := echo.Accept()
			if err != nil {
				return
			}
			go func() { _, _ = io.Copy(c, c) }()
		}
	}()
	w.route("93.184.216.35:5432", echo.Addr().String())
	conn, err := net.Dial("tcp", w.l.Explicit.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
	_, _ = io.WriteString(conn, "CONNECT other.example:5432 HTTP/1.1\r\nHost: x\r\n\r\n")
	br := bufio.NewReader(conn)
	if _, err := http.ReadResponse(br, &http.Request{Method: "CONNECT"}); err != nil {
		t.Fatal(err)
	}
	_, _ = io.WriteString(conn, "\x01ping")
	buf := make([]byte, 5)
	if _, err := io.ReadFull(br, buf); err != nil || string(buf) != "\x01ping" {
		t.Fatalf("echo %q, %v", buf, err)
	}
	start := time.Now()
	w.Set(w.id, sandboxAddr, compile(t, nil, "good.example"))
	if _, err := br.ReadByte(); err == nil {
		t.Error("the flow goes on")
	}
	if d := time.Since(start); d > 2*time.Second {
		t.Errorf("cut after %s", d)
	}
	if d := w.lastDenial(t); d.Code != CodeWithdrawn {
		t.Errorf("reported %+v", d)
	}
}

func TestOpaqueProtocolNeedsItsPortNamed(t *testing.T) {
	w := newWorld(t, compile(t, nil, "db.example:5432", "good.example"), Options{})
	w.name("db.example", "93.184.216.34")
	w.name("good.example", "93.184.216.34")
	greeter, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer greeter.Close()
	go func() {
		for {
			c, err := greeter.Accept()
			if err != nil {
				return
			}
			_, _ = io.WriteString(c, "220 hello")
			_ = c.Close()
		}
	}()
	for _, port := range []string{"5432", "443"} {
		w.route("93.184.216.34:"+port, greeter.Addr().String())
	}
	read := func(name string, port uint16, send string) string {
		w.capture(netip.AddrPortFrom(w.client(sandboxAddr).names.addr(name), port))
		conn, err := net.Dial("tcp", w.l.Transparent.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		_ = conn.SetDeadline(time.Now().Add(5 * time.Second))
		_, _ = io.WriteString(conn, send)
		got, _ := io.ReadAll(conn)
		return string(got)
	}
	if got := read("db.example", 5432, ""); got != "220 hello" {
		t.Errorf("server speaks first: %q", got)
	}
	if got := read("good.example", 443, "\x00\x01\x02"); got != "" {
		t.Errorf("no TLS on 443: %q", got)
	}
	if got := read("good.example", 22, "SSH-2.0-x\r\n"); strings.HasPrefix(got, "220") {
		t.Errorf("port that is not named: %q", got)
	}
}

func TestMissingServerNameIsRefused(t *testing.T) {
	w := newWorld(t, compile(t, nil, "good.example"), Options{})
	w.name("good.example", "93.184.216.34")
	w.outside(t, "93.184.216.34:443", true)
	for _, addr := range []string{w.l.Transparent.Addr().String()} {
		w.capture(netip.AddrPortFrom(w.client(sandboxAddr).names.addr("good.example"), 443))
		conn, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if err := tls.Client(conn, &tls.Config{InsecureSkipVerify: true}).Handshake(); err == nil { //nolint:gosec // a test server
			t.Error("TLS without a server name went through")
		}
	}
	if d := w.lastDenial(t); d.Code != CodeNoName {
		t.Errorf("reported %+v", d)
	}
}

func TestUpstreamProxyIsUsed(t *testing.T) {
	var mu sync.Mutex
	var asked []string
	up := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		mu.Lock()
		asked = append(asked, r.Method+" "+r.RequestURI+" "+r.Header.Get("Proxy-Authorization"))
		mu.Unlock()
		if r.Method == http.MethodConnect {
			conn, rw2, _ := http.NewResponseController(rw).Hijack()
			_, _ = io.WriteString(conn, "HTTP/1.1 200 ok\r\n\r\n")
			hello, _ := rw2.ReadByte()
			_, _ = conn.Write([]byte{hello})
			_ = conn.Close()
			return
		}
		_, _ = io.WriteString(rw, "from upstream")
	}))
	defer up.Close()
	proxy := "http://user:pw@" + up.Listener.Addr().String()
	w := newWorld(t, compile(t, nil, "good.example", "raw.example:9000", "inner.example"), Options{Upstream: Upstream{HTTP: proxy, HTTPS: proxy}})
	w.route(up.Listener.Addr().String(), up.Listener.Addr().String())
	w.name("inner.example", "10.0.0.1")

	if body, _, err := get(w.viaProxy(""), "http://good.example/x"); err != nil || body != "from upstream" {
		t.Errorf("http: %q, %v", body, err)
	}
	if _, resp, err := get(w.viaProxy(""), "http://inner.example/x"); err != nil || resp.StatusCode != http.StatusForbidden {
		t.Errorf("a name that is private here went to the upstream proxy: %v %v", resp, err)
	}
	conn, err := net.Dial("tcp", w.l.Explicit.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(5 * time.Second))
	_, _ = io.WriteString(conn, "CONNECT raw.example:9000 HTTP/1.1\r\nHost: x\r\n\r\n")
	br := bufio.NewReader(conn)
	if resp, err := http.ReadResponse(br, &http.Request{Method: "CONNECT"}); err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("connect: %v %v", resp, err)
	}
	_, _ = conn.Write([]byte{7})
	if b, err := br.ReadByte(); b != 7 || err != nil {
		t.Errorf("read %d, %v", b, err)
	}
	want := []string{"GET http://good.example/x Basic dXNlcjpwdw==", "CONNECT raw.example:9000 Basic dXNlcjpwdw=="}
	mu.Lock()
	defer mu.Unlock()
	if fmt.Sprint(asked) != fmt.Sprint(want) {
		t.Errorf("asked %v, want %v", asked, want)
	}
}

func TestTooManyConnections(t *testing.T) {
	w := newWorld(t, compile(t, nil, "good.example"), Options{MaxConns: 2})
	var open []net.Conn
	for range 2 {
		c, err := net.Dial("tcp", w.l.Transparent.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		open = append(open, c)
	}
	third, err := net.Dial("tcp", w.l.Transparent.Addr().String())
	if err == nil { // else it was reset already
		defer third.Close()
		_ = third.SetDeadline(time.Now().Add(5 * time.Second))
		if _, err := third.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("the third of %d connections: %v", len(open)+1, err)
		}
	}
	if d := w.lastDenial(t); d.Code != CodeBusy {
		t.Errorf("reported %+v", d)
	}
}

func TestStrangersAreReset(t *testing.T) {
	w := newWorld(t, compile(t, nil, "good.example"), Options{})
	w.Drop(w.id)
	c, err := net.Dial("tcp", w.l.Explicit.Addr().String())
	if err != nil {
		return // reset already
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(5 * time.Second))
	_, _ = io.WriteString(c, "GET http://good.example/ HTTP/1.1\r\nHost: good.example\r\n\r\n")
	if n, err := c.Read(make([]byte, 1)); err == nil {
		t.Errorf("a stranger got %d bytes", n)
	}
}

func TestEqualDenialsAreToldOnce(t *testing.T) {
	w := newWorld(t, compile(t, nil), Options{})
	for range 50 {
		_, _, _ = get(w.viaProxy(""), "http://bad.example/")
	}
	w.mu.Lock()
	n := len(w.decisions)
	w.mu.Unlock()
	if n != 1 {
		t.Errorf("%d reports, want 1", n)
	}
	w.flush(time.Now().Add(time.Minute), false)
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.decisions) != 2 || w.decisions[1].Count != 49 {
		t.Errorf("after a while: %+v", w.decisions)
	}
}
