package guest

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"drydock/internal/core"
)

// against makes a client of a server that does what f does.
func against(t *testing.T, f http.HandlerFunc) *Client {
	t.Helper()
	srv := httptest.NewServer(f)
	c := NewTCPClient(netip.MustParseAddrPort(srv.Listener.Addr().String()), "token")
	t.Cleanup(func() {
		c.Close()
		srv.CloseClientConnections()
		srv.Close()
	})
	return c
}

func TestGuestCannotSpeakForTheHost(t *testing.T) {
	cases := map[string]struct {
		status int
		body   string
		kind   core.Kind
	}{
		"not found":       {404, `{"error":{"kind":"not_found","message":"file x does not exist"}}`, core.NotFound},
		"denied":          {403, `{"error":{"kind":"denied","message":"policy says no"}}`, core.Internal},
		"needs approval":  {403, `{"error":{"kind":"needs_approval","message":"ask"}}`, core.Internal},
		"handed over":     {409, `{"error":{"kind":"handed_over","message":"done"}}`, core.Internal},
		"no json":         {500, `<html>`, core.Internal},
		"unauthorized":    {401, ``, core.Unavailable},
		"a redirect":      {302, ``, core.Internal},
		"success of junk": {200, `]`, core.Internal},
		"endless text":    {400, `{"error":{"kind":"invalid","message":"` + strings.Repeat("x", 1<<20) + `"}}`, core.Internal},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			c := against(t, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Location", "http://169.254.169.254/")
				w.WriteHeader(tc.status)
				_, _ = io.WriteString(w, tc.body)
			})
			_, err := c.Stat(t.Context(), "/x")
			if !core.Is(err, tc.kind) || len(err.Error()) > 3000 {
				t.Errorf("got %.200v (%s), want %s", err, core.KindOf(err), tc.kind)
			}
		})
	}
}

func TestAnswersAreBounded(t *testing.T) {
	endless := func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Drydock-File", `{}`)
		chunk := bytes.Repeat([]byte(" "), 1<<20)
		for {
			if _, err := w.Write(chunk); err != nil {
				return
			}
		}
	}
	c := against(t, endless)
	if _, err := c.Stat(t.Context(), "/x"); !core.Is(err, core.Internal) {
		t.Errorf("endless JSON: %v", err)
	}
	if data, _, err := c.ReadFile(t.Context(), "/x", 0, 1000); err != nil || len(data) != 1000 {
		t.Errorf("endless file: %d bytes, %v", len(data), err)
	}
}

func TestOtherProtocolIsRefused(t *testing.T) {
	c := against(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, `{"protocol":99}`) })
	if _, err := c.Health(t.Context()); !core.Is(err, core.Conflict) {
		t.Errorf("got %v", err)
	}
}

func frame(off uint64, size uint32, data string) string {
	var b []byte
	b = binary.BigEndian.AppendUint64(b, off)
	b = binary.BigEndian.AppendUint32(b, size)
	return string(b) + data
}

func TestFrames(t *testing.T) {
	cases := map[string]struct {
		body string
		text string
		lost int64
		err  error // nil: any error of kind Internal unless good
		good bool
	}{
		"whole":         {frame(0, 3, "abc") + frame(3, 0, "") + frame(3, 2, "de") + frame(5, FrameEnd, ""), "abcde", 0, nil, true},
		"a gap":         {frame(10, 1, "x") + frame(11, FrameEnd, ""), "x", 10, nil, true},
		"cut in a head": {frame(0, 1, "x") + "\x00", "x", 0, io.ErrUnexpectedEOF, false},
		"cut in data":   {frame(0, 5, "xy"), "xy", 0, io.ErrUnexpectedEOF, false},
		"no end":        {frame(0, 1, "x"), "x", 0, io.ErrUnexpectedEOF, false},
		"backwards":     {frame(5, 1, "x") + frame(2, 1, "y"), "x", 5, nil, false},
		"too large":     {frame(0, FrameMax+1, "x"), "", 0, nil, false},
		"huge offset":   {frame(1<<63, 1, "x"), "", 0, nil, false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			c := against(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, tc.body) })
			out, err := c.Output(t.Context(), "p1", Stdout, 0, true)
			if err != nil {
				t.Fatal(err)
			}
			defer out.Close()
			text, err := io.ReadAll(out)
			if string(text) != tc.text || out.Lost() != tc.lost {
				t.Errorf("got %q, lost %d", text, out.Lost())
			}
			switch {
			case tc.good && err != nil, tc.err != nil && !errors.Is(err, tc.err), !tc.good && err == nil:
				t.Errorf("got error %v", err)
			}
		})
	}
}

func TestTunnelOfAHostileGuest(t *testing.T) {
	answers := map[string]string{
		"silence":      "",
		"junk":         "SSH-2.0\r\n",
		"endless head": "HTTP/1.1 200 OK\r\nX: " + strings.Repeat("x", 1<<20),
		"refusal":      "HTTP/1.1 503 No\r\nContent-Length: 0\r\n\r\n",
	}
	for name, answer := range answers {
		t.Run(name, func(t *testing.T) {
			c := NewClient(func(context.Context) (net.Conn, error) {
				here, there := net.Pipe()
				go func() {
					buf := make([]byte, 1024)
					_, _ = there.Read(buf)
					_, _ = io.WriteString(there, answer)
				}()
				t.Cleanup(func() { _ = there.Close() })
				return here, nil
			}, "token")
			ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
			defer cancel()
			if conn, err := c.Tunnel(ctx, 80); err == nil {
				_ = conn.Close()
				t.Error("a tunnel")
			}
		})
	}
}

func TestNobodyAnswers(t *testing.T) {
	c := NewClient(func(context.Context) (net.Conn, error) { return nil, errors.New("no route") }, "token")
	if _, err := c.Health(t.Context()); !core.Is(err, core.Unavailable) {
		t.Errorf("got %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := c.Health(ctx); !core.Is(err, core.Canceled) {
		t.Errorf("got %v", err)
	}
}

func FuzzFrames(f *testing.F) {
	f.Add([]byte(frame(0, 3, "abc") + frame(3, FrameEnd, "")))
	f.Add([]byte(frame(7, 1, "x")))
	f.Fuzz(func(t *testing.T, raw []byte) {
		out := &OutputReader{body: io.NopCloser(bytes.NewReader(raw)), cancel: func() {}}
		n, _ := io.Copy(io.Discard, out)
		if n+out.Lost() != out.Offset() {
			t.Errorf("read %d, lost %d, at %d", n, out.Lost(), out.Offset())
		}
	})
}

// Whoever holds a sandbox still for a moment cuts its connections off. What may
// be asked twice is asked again, what may not is an error.
func TestCallsThatWereCutOff(t *testing.T) {
	var asked atomic.Int32
	cut := make(chan net.Conn, 1)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // else nobody notices that the other side has gone
		if asked.Add(1) == 1 {
			_ = (<-cut).Close()
			<-r.Context().Done()
			return
		}
		_, _ = io.WriteString(w, `{"protocol":1}`)
	}))
	defer srv.Close()
	c := NewClient(func(ctx context.Context) (net.Conn, error) {
		var d net.Dialer
		conn, err := d.DialContext(ctx, "tcp", srv.Listener.Addr().String())
		if err == nil && asked.Load() == 0 {
			cut <- conn
		}
		return conn, err
	}, "token")
	defer c.Close()
	if _, err := c.Process(t.Context(), "p1"); err != nil || asked.Load() != 2 {
		t.Errorf("a question that was cut off: %v after %d", err, asked.Load())
	}
	c.Close()
	asked.Store(0)
	if _, err := c.Rotate(t.Context(), "another-token-of-some-length"); !Silent(err) || asked.Load() != 1 {
		t.Errorf("a change that was cut off: %v after %d", err, asked.Load())
	}
}
