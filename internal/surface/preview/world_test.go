package preview

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"drydock/internal/core"
	"drydock/internal/surface/api"
)

const (
	sessionA = core.SessionID("ses_0123456789abcdefgh")
	sessionB = core.SessionID("ses_zzzzzzzzzzzzzzzzzz")
	control  = "http://127.0.0.1:7300"
)

// world is a host with two sessions and two people, and apps that do what a
// test makes them do.
type world struct {
	t   testing.TB
	s   *Service
	at  string // address of the listener
	pub string // its port

	mu      sync.Mutex
	people  map[string]string // handle by credential
	over    map[core.SessionID]error
	asleep  map[core.SessionID]bool
	apps    map[int]string // address by port inside, of any session
	linked  bool
	waiting Waiting
	woken   int
	held    int
	bytes   [2]int64
}

func (w *world) Still(_ context.Context, credential string) (core.Author, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if handle, ok := w.people[credential]; ok {
		return core.Author{Handle: handle}, nil
	}
	return core.Author{}, core.E("test", core.Unauthorized, nil, "the token was revoked")
}

func (w *world) Place(_ context.Context, _ core.Author, id core.SessionID) (Place, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.over[id]; err != nil {
		return Place{}, err
	}
	p := Place{Sandbox: "sbx_1", Linked: w.linked, Declared: []Port{{Port: 3000, Name: "web", Service: "web"}, {Port: 8000, Name: "api", Service: "api"}}}
	if w.asleep[id] {
		p.Sandbox = ""
	}
	return p, nil
}

func (w *world) Listening(context.Context, core.SessionID) ([]int, error) {
	return []int{3000, 9999, 10017}, nil
}

func (w *world) Dial(ctx context.Context, _ core.SessionID, port int) (net.Conn, error) {
	w.mu.Lock()
	addr := w.apps[port]
	w.mu.Unlock()
	if addr == "" {
		return nil, core.E("test", core.Unavailable, nil, "nothing answers on port %d", port)
	}
	return (&net.Dialer{}).DialContext(ctx, "tcp", addr)
}

func (w *world) Waiting(context.Context, core.SessionID, int) Waiting { return w.waiting }

func (w *world) Wake(_ context.Context, id core.SessionID) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.woken++
	w.asleep[id] = false
	return nil
}

func (w *world) Hold(core.SessionID) func() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.held++
	return sync.OnceFunc(func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.held--
	})
}

func (w *world) PreviewRequest(string, int) {}

func (w *world) PreviewBytes(up, down int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.bytes[0] += up
	w.bytes[1] += down
}

func newWorld(t testing.TB, change ...func(*Options)) *world {
	t.Helper()
	w := &world{
		t: t, people: map[string]string{"cred-alice": "alice", "cred-bob": "bob"}, over: map[core.SessionID]error{},
		asleep: map[core.SessionID]bool{}, apps: map[int]string{},
	}
	opts := Options{
		Mode: ModeHosts, Control: []string{control}, Recheck: 20 * time.Millisecond, Slow: 5 * time.Second, Reserved: []int{10017},
	}
	for _, f := range change {
		f(&opts)
	}
	var err error
	w.s, err = New(Deps{People: w, Boxes: w, Meter: w, Secret: func(s string) bool { return strings.HasPrefix(s, "ddk_") }}, opts)
	if err != nil {
		t.Fatal(err)
	}
	var l net.Listener
	if opts.Mode == ModeHosts {
		if l, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
			t.Fatal(err)
		}
		w.at = l.Addr().String()
		_, w.pub, _ = net.SplitHostPort(w.at)
		w.s.Listening(l)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- w.s.Serve(ctx, l) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("serve: %v", err)
		}
	})
	return w
}

// app puts a handler behind a port of every sandbox.
func (w *world) app(port int, h http.HandlerFunc) {
	srv := httptest.NewServer(h)
	w.t.Cleanup(srv.Close)
	w.behind(port, srv.Listener.Addr().String())
}

func (w *world) behind(port int, addr string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.apps[port] = addr
}

// raw puts whatever a test does with a connection behind a port.
func (w *world) raw(port int, serve func(net.Conn)) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				serve(c)
			}()
		}
	}()
	w.behind(port, l.Addr().String())
}

func (w *world) set(change func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	change()
}

func (w *world) open(credential string, id core.SessionID, req api.OpenPreview) api.Preview {
	w.t.Helper()
	got, err := w.s.Open(w.t.Context(), credential, id, req)
	if err != nil {
		w.t.Fatal(err)
	}
	return got
}

// browser keeps cookies by host, without ports and without regard to Secure,
// as one on loopback does.
type browser struct {
	w       *world
	cookies map[string][]*http.Cookie
	client  http.Client
}

func (w *world) browser() *browser {
	b := &browser{w: w, cookies: map[string][]*http.Cookie{}}
	tr := &http.Transport{DialContext: func(ctx context.Context, _, addr string) (net.Conn, error) {
		if _, port, _ := net.SplitHostPort(addr); w.at == "" || port != w.pub {
			return (&net.Dialer{}).DialContext(ctx, "tcp", addr)
		}
		return (&net.Dialer{}).DialContext(ctx, "tcp", w.at)
	}}
	b.client = http.Client{Transport: tr, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	w.t.Cleanup(tr.CloseIdleConnections)
	return b
}

func (b *browser) request(method, to string, body io.Reader, header ...string) *http.Request {
	b.w.t.Helper()
	r, err := http.NewRequestWithContext(b.w.t.Context(), method, to, body)
	if err != nil {
		b.w.t.Fatal(err)
	}
	for _, c := range b.cookies[r.URL.Hostname()] {
		r.AddCookie(c)
	}
	for i := 0; i < len(header); i += 2 {
		switch header[i] {
		case "Host":
			r.Host = header[i+1]
		case "Cookie":
			r.Header.Add("Cookie", header[i+1])
		default:
			r.Header.Set(header[i], header[i+1])
		}
	}
	return r
}

func (b *browser) do(r *http.Request) (*http.Response, string) {
	b.w.t.Helper()
	res, err := b.client.Do(r)
	if err != nil {
		b.w.t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		b.w.t.Fatal(err)
	}
	host := r.URL.Hostname()
	for _, c := range res.Cookies() {
		b.cookies[host] = slices.DeleteFunc(b.cookies[host], func(old *http.Cookie) bool { return old.Name == c.Name })
		if c.MaxAge >= 0 {
			b.cookies[host] = append(b.cookies[host], c)
		}
	}
	return res, string(body)
}

// get is a fetch without anything that browsers say of themselves.
func (b *browser) get(to string, header ...string) (*http.Response, string) {
	b.w.t.Helper()
	return b.do(b.request("GET", to, nil, header...))
}

// enter follows an entry to its end, which it returns.
func (b *browser) enter(to string, header ...string) string {
	b.w.t.Helper()
	for range 20 {
		u, err := url.Parse(to)
		if err != nil {
			b.w.t.Fatal(err)
		}
		if u.Path != enterPath {
			return to
		}
		res, body := b.get(to, append([]string{"Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "document", "Sec-Fetch-Site", "cross-site"}, header...)...)
		if res.StatusCode != http.StatusSeeOther {
			b.w.t.Fatalf("entry answered %d: %s", res.StatusCode, body)
		}
		to = res.Header.Get("Location")
	}
	b.w.t.Fatal("the entry does not end")
	return ""
}

// visit is somebody who has entered, and the origins of ports 3000 and 8000.
func (w *world) visit(credential string) (b *browser, web, backend string) {
	w.t.Helper()
	b = w.browser()
	home := b.enter(w.open(credential, sessionA, api.OpenPreview{Port: 3000}).URL)
	web = strings.TrimSuffix(home, "/")
	return b, web, strings.Replace(web, "3000--", "8000--", 1)
}

// speak sends bytes as they are and reads the answers of one connection.
func (w *world) speak(text string) (*bufio.Reader, net.Conn) {
	w.t.Helper()
	c, err := net.Dial("tcp", w.at)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { c.Close() })
	_ = c.SetDeadline(time.Now().Add(20 * time.Second))
	if _, err := io.WriteString(c, text); err != nil {
		w.t.Fatal(err)
	}
	return bufio.NewReader(c), c
}

func hostOf(origin string) string { return strings.TrimPrefix(origin, "http://") }

// cookieHeader is what the browser sends to a host.
func (b *browser) cookieHeader(origin string) string {
	u, _ := url.Parse(origin)
	parts := []string{}
	for _, c := range b.cookies[u.Hostname()] {
		parts = append(parts, c.Name+"="+c.Value)
	}
	return strings.Join(parts, "; ")
}

func portLabel(port int, id core.SessionID) string { return label{Port: port, Session: id}.String() }
