package preview

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"drydock/internal/core"
	"drydock/internal/surface/api"
)

// until polls for what comes soon.
func until(t *testing.T, what string, is func() bool) {
	t.Helper()
	deadline := time.After(15 * time.Second)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !is() {
		select {
		case <-deadline:
			t.Fatalf("%s did not come to pass", what)
		case <-tick.C:
		}
	}
}

// hmr is the development server of a front end: it accepts sockets of its own
// page only, judged by the Host it is asked under, and says what it got.
func hmr(t *testing.T) http.HandlerFunc {
	return func(rw http.ResponseWriter, r *http.Request) {
		if r.Host != "localhost:3000" || !strings.Contains(r.Header.Get("Origin"), ".localhost:") {
			t.Errorf("a socket with host %q and origin %q", r.Host, r.Header.Get("Origin"))
		}
		c, err := websocket.Accept(rw, r, &websocket.AcceptOptions{Subprotocols: []string{"vite-hmr"}, InsecureSkipVerify: true})
		if err != nil {
			return
		}
		defer func() { _ = c.CloseNow() }()
		_ = c.Write(r.Context(), websocket.MessageText, []byte(`{"type":"connected"}`))
		for {
			kind, data, err := c.Read(r.Context())
			if err != nil || c.Write(r.Context(), kind, data) != nil {
				return
			}
		}
	}
}

func (w *world) socket(b *browser, origin string) (*websocket.Conn, *http.Response, error) {
	h := http.Header{"Origin": {origin}, "Cookie": {b.cookieHeader(origin)}}
	return websocket.Dial(w.t.Context(), origin+"/ws", &websocket.DialOptions{HTTPClient: &b.client, HTTPHeader: h, Subprotocols: []string{"vite-hmr"}})
}

func TestSockets(t *testing.T) {
	for name, end := range map[string]func(*world){
		"token revoked":    func(w *world) { delete(w.people, "cred-alice") },
		"session archived": func(w *world) { w.over[sessionA] = core.E("test", core.Conflict, nil, "archived") },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.app(3000, hmr(t))
			b, web, _ := w.visit("cred-alice")
			c, _, err := w.socket(b, web)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = c.CloseNow() }()
			if c.Subprotocol() != "vite-hmr" {
				t.Errorf("subprotocol %q", c.Subprotocol())
			}
			if _, data, err := c.Read(t.Context()); err != nil || string(data) != `{"type":"connected"}` {
				t.Fatalf("%q, %v", data, err)
			}
			long := strings.Repeat("x", 30000)
			for _, text := range []string{"a", long, ""} {
				if err := c.Write(t.Context(), websocket.MessageText, []byte(text)); err != nil {
					t.Fatal(err)
				}
				if _, data, err := c.Read(t.Context()); err != nil || string(data) != text {
					t.Fatalf("%d bytes, %v", len(data), err)
				}
			}
			w.set(func() { end(w) })
			ctx, cancel := context.WithTimeout(t.Context(), 15*time.Second)
			defer cancel()
			if _, _, err := c.Read(ctx); err == nil || ctx.Err() != nil {
				t.Errorf("the socket outlives the right to it: %v", err)
			}
			if _, res, err := w.socket(b, web); err == nil || res == nil || res.StatusCode/100 != 4 {
				t.Errorf("a new one: %+v, %v", res, err)
			}
		})
	}
}

func TestASocketSpeaksBeforeItIsAnswered(t *testing.T) {
	w := newWorld(t)
	w.app(3000, func(rw http.ResponseWriter, _ *http.Request) {
		c, in, err := http.NewResponseController(rw).Hijack()
		if err != nil {
			return
		}
		defer c.Close()
		_, _ = io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSet-Cookie: drydock-7300=x\r\nClear-Site-Data: \"*\"\r\n\r\n")
		line, _ := in.ReadString('\n')
		_, _ = io.WriteString(c, "got "+line)
	})
	b, web, _ := w.visit("cred-alice")
	in, _ := w.speak("GET / HTTP/1.1\r\nHost: " + hostOf(web) + "\r\nOrigin: " + web + "\r\nCookie: " + b.cookieHeader(web) + "\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\nearly bird\n")
	res, err := http.ReadResponse(in, nil)
	if err != nil || res.StatusCode != 101 || len(res.Header["Set-Cookie"])+len(res.Header["Clear-Site-Data"]) > 0 {
		t.Fatalf("%+v, %v", res, err)
	}
	if line, _ := in.ReadString('\n'); line != "got early bird\n" {
		t.Errorf("the app %q", line)
	}
}

func TestEventStreamsAreNotHeldBack(t *testing.T) {
	w := newWorld(t)
	next := make(chan string)
	left := make(chan struct{})
	w.app(3000, func(rw http.ResponseWriter, r *http.Request) {
		defer close(left)
		rw.Header().Set("Content-Type", "text/event-stream")
		_ = http.NewResponseController(rw).Flush()
		for {
			select {
			case text := <-next:
				_, _ = io.WriteString(rw, text)
				_ = http.NewResponseController(rw).Flush()
			case <-r.Context().Done():
				return
			}
		}
	})
	b, web, _ := w.visit("cred-alice")
	res, err := b.client.Do(b.request("GET", web+"/events", nil))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	in := bufio.NewReader(res.Body)
	for i := range 3 {
		next <- fmt.Sprintf("data: %d\n", i)
		if line, err := in.ReadString('\n'); err != nil || line != fmt.Sprintf("data: %d\n", i) {
			t.Fatalf("%q, %v", line, err)
		}
	}
	w.set(func() { delete(w.people, "cred-alice") })
	if _, err := in.ReadString('\n'); err == nil {
		t.Error("the stream outlives the right to it")
	}
	<-left
	until(t, "letting go of the sandbox", func() bool { w.mu.Lock(); defer w.mu.Unlock(); return w.held == 0 })
}

func TestBodiesStreamBothWays(t *testing.T) {
	w := newWorld(t)
	w.app(3000, func(rw http.ResponseWriter, r *http.Request) {
		rc := http.NewResponseController(rw)
		_ = rc.EnableFullDuplex()
		rw.Header().Set("Trailer", "X-Sum")
		in := bufio.NewReader(r.Body)
		for {
			line, err := in.ReadString('\n')
			if err != nil {
				break
			}
			_, _ = io.WriteString(rw, "echo "+line)
			_ = rc.Flush()
		}
		rw.Header().Set("X-Sum", r.Trailer.Get("X-Count"))
	})
	b, web, _ := w.visit("cred-alice")
	pr, pw := io.Pipe()
	r := b.request("POST", web+"/", pr, "Origin", web)
	r.Trailer = http.Header{"X-Count": nil}
	type result struct {
		res *http.Response
		err error
	}
	done := make(chan result, 1)
	go func() {
		res, err := b.client.Do(r)
		done <- result{res, err}
	}()
	_, _ = io.WriteString(pw, "one\n")
	got := <-done
	if got.err != nil {
		t.Fatal(got.err)
	}
	defer got.res.Body.Close()
	in := bufio.NewReader(got.res.Body)
	if line, _ := in.ReadString('\n'); line != "echo one\n" {
		t.Fatalf("%q", line)
	}
	_, _ = io.WriteString(pw, "two\n")
	if line, _ := in.ReadString('\n'); line != "echo two\n" {
		t.Fatalf("%q", line)
	}
	r.Trailer.Set("X-Count", "2")
	pw.Close()
	if _, err := io.ReadAll(in); err != nil || got.res.Trailer.Get("X-Sum") != "2" {
		t.Errorf("trailers %v, %v", got.res.Trailer, err)
	}
}

func TestLargeUploadsAndKeepAlive(t *testing.T) {
	const size = 20 << 20
	w := newWorld(t)
	w.app(3000, func(rw http.ResponseWriter, r *http.Request) {
		n, _ := io.Copy(io.Discard, r.Body)
		_, _ = fmt.Fprintf(rw, "%d %d %v", n, r.ContentLength, r.TransferEncoding)
	})
	b, web, _ := w.visit("cred-alice")
	_, body := b.do(b.request("PUT", web+"/", strings.NewReader(strings.Repeat("u", size)), "Origin", web))
	if body != fmt.Sprintf("%d %d []", size, size) {
		t.Errorf("with a length: %s", body)
	}
	_, body = b.do(b.request("PUT", web+"/", io.LimitReader(strings.NewReader(strings.Repeat("u", size)), size), "Origin", web))
	if body != fmt.Sprintf("%d -1 [chunked]", size) {
		t.Errorf("in chunks: %s", body)
	}
	until(t, "counting", func() bool { w.mu.Lock(); defer w.mu.Unlock(); return w.bytes[0] >= 2*size && w.bytes[1] > 0 })
	head := "GET / HTTP/1.1\r\nHost: " + hostOf(web) + "\r\nCookie: " + b.cookieHeader(web) + "\r\n\r\n"
	in, c := w.speak(head)
	for range 3 {
		res, err := http.ReadResponse(in, nil)
		if err != nil || res.StatusCode != 200 {
			t.Fatalf("%+v, %v", res, err)
		}
		_, _ = io.Copy(io.Discard, res.Body)
		_, _ = io.WriteString(c, head)
	}
}

func TestBodiesThatWaitToBeAskedFor(t *testing.T) {
	w := newWorld(t)
	w.app(3000, func(rw http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/no" {
			rw.WriteHeader(http.StatusRequestEntityTooLarge)
			return
		}
		body, _ := io.ReadAll(r.Body)
		_, _ = rw.Write(body)
	})
	b, web, _ := w.visit("cred-alice")
	head := " HTTP/1.1\r\nHost: " + hostOf(web) + "\r\nOrigin: " + web + "\r\nCookie: " + b.cookieHeader(web) + "\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n"
	in, c := w.speak("POST /yes" + head)
	if line, _ := in.ReadString('\n'); line != "HTTP/1.1 100 Continue\r\n" {
		t.Fatalf("%q", line)
	}
	_, _ = in.ReadString('\n')
	_, _ = io.WriteString(c, "hello")
	if res, err := http.ReadResponse(in, nil); err != nil || res.StatusCode != 200 {
		t.Errorf("%+v, %v", res, err)
	}
	in, _ = w.speak("POST /no" + head)
	if line, _ := in.ReadString('\n'); !strings.Contains(line, "413") {
		t.Errorf("an app that does not want the body: %q", line)
	}
}

func TestWhoIsSlowIsLetGo(t *testing.T) {
	w := newWorld(t, func(o *Options) { o.Slow, o.Head = 200*time.Millisecond, 200*time.Millisecond })
	w.app(3000, func(rw http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) })
	b, web, _ := w.visit("cred-alice")
	head := "POST / HTTP/1.1\r\nHost: " + hostOf(web) + "\r\nOrigin: " + web + "\r\nCookie: " + b.cookieHeader(web) + "\r\nContent-Length: 1000\r\n\r\nabc"
	for name, text := range map[string]string{"body": head, "head": head[:40], "nothing": ""} {
		in, _ := w.speak(text)
		if _, err := io.ReadAll(in); err != nil {
			t.Errorf("%s: the connection stays: %v", name, err)
		}
	}
}

func TestOneBrowserHasBounds(t *testing.T) {
	w := newWorld(t)
	w.app(3000, func(http.ResponseWriter, *http.Request) {})
	b, web, _ := w.visit("cred-alice")
	w.s.mu.Lock()
	for _, g := range w.s.grants {
		for range maxRunning {
			g.running[&exchange{cancel: func(error) {}}] = struct{}{}
		}
	}
	w.s.mu.Unlock()
	if res, _ := b.get(web + "/"); res.StatusCode != http.StatusTooManyRequests {
		t.Errorf("one more: %d", res.StatusCode)
	}
}

func TestListenersOfTheirOwn(t *testing.T) {
	file := t.TempDir() + "/ports"
	mode := func(o *Options) { o.Mode, o.ListenHost, o.Name, o.File = ModeListeners, "127.0.0.1", "127.0.0.1", file }
	w := newWorld(t, mode)
	got := make(chan seen, 1)
	w.app(3000, record(got, func(rw http.ResponseWriter, _ *http.Request) { rw.Header().Set("Set-Cookie", "drydock-7300=x") }))
	w.app(8000, record(got, nil))
	b := w.browser()
	ticket := w.open("cred-alice", sessionA, api.OpenPreview{Port: 3000})
	if !ticket.Weak {
		t.Error("it is not told as weaker")
	}
	res, _ := b.get(ticket.URL)
	if res.Header.Get("Clear-Site-Data") != `"cache", "storage"` {
		t.Errorf("entry: %v", res.Header)
	}
	home := b.enter(res.Header.Get("Location"))
	if res, _ = b.get(home, "Cookie", "drydock-7300=control"); res.StatusCode != 200 || len(res.Cookies()) > 0 {
		t.Errorf("%d %v", res.StatusCode, res.Cookies())
	}
	if s := <-got; s.host != "localhost:3000" || s.header.Get("Cookie") != "" {
		t.Errorf("the app got %+v", s)
	}
	if res, _ := b.get(home, "Host", "evil.example"); res.StatusCode != http.StatusMisdirectedRequest {
		t.Errorf("rebound name: %d", res.StatusCode)
	}
	other := w.open("cred-alice", sessionB, api.OpenPreview{Port: 3000}).URL
	if strings.HasPrefix(other, home) {
		t.Errorf("two sessions share %s", home)
	}
	if res, _ := b.get(other[:strings.Index(other, "/.drydock")]+"/", "Origin", strings.TrimSuffix(home, "/")); res.StatusCode == 200 {
		t.Error("one session's app calls another's")
	}
	for range 3 { // a later daemon knows whose ports they were
		again := newWorld(t, mode)
		u := again.open("cred-alice", sessionB, api.OpenPreview{Port: 8000}).URL
		if strings.HasPrefix(u, home) || strings.HasPrefix(u, other[:strings.Index(other, "/.drydock")]) {
			t.Errorf("%s was another session's", u)
		}
	}
}
