package egress

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"drydock/internal/core"
)

// serverFirst is how long a client of a protocol where the server speaks first
// is waited for, before it is taken for one.
const serverFirst = 300 * time.Millisecond

func (s *Server) acceptTransparent(l net.Listener) error {
	for {
		conn, err := l.Accept()
		if err != nil {
			return err
		}
		counted := s.admit(conn)
		if counted == nil {
			continue
		}
		to, err := s.deps.Where(conn)
		if err != nil {
			reset(counted)
			continue
		}
		s.work.Go(func() { s.serveCaptured(counted, to) })
	}
}

// serveCaptured carries a connection that was captured on its way to an
// address. The address tells the name it was handed out for; what the client
// sends must name the target too, where its protocol can.
func (s *Server) serveCaptured(conn *countedConn, to netip.AddrPort) {
	c := conn.client
	t := Target{Name: c.names.name(to.Addr()), Port: to.Port()}
	if t.Name == "" {
		t.Addr = to.Addr()
	}
	rule, known := c.current().Match(t)
	first, rest, err := peek(conn, known && rule.Opaque)
	switch {
	case err != nil:
		reset(conn)
	case first == recordType:
		s.capturedTLS(c, conn, rest, t)
	case isMethodStart(first):
		s.inner.give(&plainConn{Conn: rest, client: c, port: t.Port, via: "http"})
	default:
		s.capturedOpaque(c, conn, rest, t)
	}
}

// peek reads the first byte. If the server may be the one to speak first, it
// gives up soon and returns 0.
func peek(conn net.Conn, mayWait bool) (byte, net.Conn, error) {
	wait := headTimeout
	if mayWait {
		wait = serverFirst
	}
	_ = conn.SetReadDeadline(time.Now().Add(wait))
	defer func() { _ = conn.SetReadDeadline(time.Time{}) }()
	var one [1]byte
	_, err := io.ReadFull(conn, one[:])
	var timeout net.Error
	if err != nil && mayWait && errors.As(err, &timeout) && timeout.Timeout() {
		return 0, conn, nil
	}
	if err != nil {
		return 0, nil, err
	}
	return one[0], &bufferedConn{Conn: conn, r: io.MultiReader(bytes.NewReader(one[:]), conn)}, nil
}

func isMethodStart(b byte) bool { return 'A' <= b && b <= 'Z' }

func (s *Server) capturedTLS(c *client, conn *countedConn, rest net.Conn, t Target) {
	raw, named, d := s.helloTarget(rest, t.Port)
	if d == nil && t.Addr.IsValid() && !within(fakes, t.Addr) && named != t {
		d = deny(CodeMismatch, "", "the connection goes to %s, but asks for %s", t.Addr, named.host())
	}
	if d != nil {
		s.alert(c, conn, named, d)
		return
	}
	ctx, f, rule, d := c.begin(s.ctx, named)
	if d != nil {
		s.alert(c, conn, named, d)
		return
	}
	defer c.end(f)
	out, err := s.dialer.open(ctx, named, rule)
	if err != nil {
		s.alert(c, conn, named, asDenial(err))
		return
	}
	defer out.Close()
	s.splice(ctx, c, &bufferedConn{Conn: conn, r: io.MultiReader(bytes.NewReader(raw), rest)}, out, named, rule, "tls")
}

var fakes = prefixes("198.18.0.0/15")

// helloTarget reads the hello and says whom it asks for.
func (s *Server) helloTarget(conn net.Conn, port uint16) (raw []byte, named Target, d *Denial) {
	_ = conn.SetReadDeadline(time.Now().Add(headTimeout))
	name, raw, err := readHello(conn)
	_ = conn.SetReadDeadline(time.Time{})
	if err != nil {
		return raw, Target{Name: "?", Port: port}, deny(CodeProtocol, "", "the connection begins like TLS, but is not")
	}
	if name == "" {
		return raw, Target{Name: "?", Port: port}, deny(CodeNoName, "use a client that sends the server's name (SNI)", "TLS without a server name")
	}
	named, err = Canonical(name)
	named.Port = port
	if err != nil || named.Addr.IsValid() {
		return raw, Target{Name: clip(name), Port: port}, deny(CodeBadHost, "", "the TLS server name %q is not a host name", clip(name))
	}
	return raw, named, nil
}

// alert refuses a TLS client in its own language.
func (s *Server) alert(c *client, conn net.Conn, t Target, d *Denial) {
	s.denied(c, t, "tls", d)
	code := byte(alertAccessDenied)
	switch d.Code {
	case CodeNoName, CodeBadHost:
		code = alertNoName
	case CodeUnreach, CodeUnresolved:
		code = alertInternal
	}
	_ = conn.SetWriteDeadline(time.Now().Add(time.Second))
	_, _ = conn.Write(alertRecord(code))
	_ = closeWrite(conn)
	_ = conn.SetReadDeadline(time.Now().Add(time.Second))
	_, _ = io.CopyN(io.Discard, conn, maxHello) // so that the alert is not lost to a reset
	_ = conn.Close()
}

// capturedOpaque carries what is neither TLS nor HTTP, if a rule names the
// port.
func (s *Server) capturedOpaque(c *client, conn *countedConn, rest net.Conn, t Target) {
	ctx, f, rule, d := c.begin(s.ctx, t)
	if d == nil && !rule.Opaque {
		c.end(f)
		d = deny(CodeProtocol, "name the port in network.allow (host:port) to allow another protocol", "neither TLS nor HTTP on %s", t)
	}
	if d != nil {
		s.denied(c, t, "tcp", d)
		reset(conn)
		return
	}
	defer c.end(f)
	out, err := s.dialer.open(ctx, t, rule)
	if err != nil {
		s.denied(c, t, "tcp", asDenial(err))
		reset(conn)
		return
	}
	defer out.Close()
	s.splice(ctx, c, &bufferedConn{Conn: conn, r: rest}, out, t, rule, "tcp")
}

// carry looks at what runs through an opened tunnel before any of it goes on.
func (s *Server) carry(ctx context.Context, c *client, in *bufferedConn, out net.Conn, f *flow, rule Rule, via string) {
	t := f.target
	first, rest, err := peek(in, rule.Opaque)
	if err != nil {
		return
	}
	switch {
	case first == recordType:
		raw, named, d := s.helloTarget(rest, t.Port)
		if d != nil && d.Code == CodeNoName && (t.Addr.IsValid() || t.Port != 443) {
			d, named = nil, t
		}
		if d == nil && named != t {
			d = deny(CodeMismatch, "", "the tunnel is for %s, but its TLS asks for %s", t.host(), named.host())
		}
		if d != nil {
			s.alert(c, in, t, d)
			return
		}
		s.splice(ctx, c, &bufferedConn{Conn: in.Conn, r: io.MultiReader(bytes.NewReader(raw), rest)}, out, t, rule, via)
	case isMethodStart(first):
		done := make(chan struct{})
		_ = out.Close()
		s.inner.give(&plainConn{Conn: rest, client: c, port: t.Port, tunnel: &t, via: via, done: done})
		select {
		case <-done:
		case <-ctx.Done():
			_ = in.Close()
			<-done
		}
	case rule.Opaque:
		s.splice(ctx, c, &bufferedConn{Conn: in.Conn, r: rest}, out, t, rule, via)
	default:
		s.denied(c, t, via, deny(CodeProtocol, "name the port in network.allow (host:port) to allow another protocol", "neither TLS nor HTTP on %s", t))
		reset(in.Conn)
	}
}

// servePlain answers plain HTTP from a captured connection or inside a tunnel.
func (s *Server) servePlain(w http.ResponseWriter, r *http.Request) {
	if !s.enter() {
		return
	}
	defer s.work.Done()
	p := r.Context().Value(keyPlain).(*plainConn)
	t, err := ParseTarget(r.Host, p.port)
	switch {
	case err != nil:
		s.refuseHTTP(w, p.client, Target{Name: clip(r.Host), Port: p.port}, p.via, deny(CodeBadHost, "", "%v", err))
	case r.Method == http.MethodConnect || r.URL.IsAbs():
		s.refuseHTTP(w, p.client, t, p.via, deny(CodeAskedWrong, "use the proxy in HTTP_PROXY", "a request for a proxy on a connection that is not to one"))
	case t.Port != p.port:
		s.refuseHTTP(w, p.client, t, p.via, deny(CodeMismatch, "", "the connection goes to port %d, but its Host is %s", p.port, t))
	case p.tunnel != nil && *p.tunnel != t:
		s.refuseHTTP(w, p.client, t, p.via, deny(CodeMismatch, "", "the tunnel is for %s, but the Host inside is %s", p.tunnel, t))
	default:
		s.forward(w, r, p.client, t, p.via)
	}
}

func plainContext(ctx context.Context, conn net.Conn) context.Context {
	return context.WithValue(ctx, keyPlain, conn.(*plainConn))
}

// plainConn is a connection that turned out to speak HTTP.
type plainConn struct {
	net.Conn
	client *client
	port   uint16
	tunnel *Target
	via    string
	once   sync.Once
	done   chan struct{}
}

func (p *plainConn) Close() error {
	err := p.Conn.Close()
	p.once.Do(func() {
		if p.done != nil {
			close(p.done)
		}
	})
	return err
}

// handoff is a listener fed by hand.
type handoff struct {
	conns chan net.Conn
	stop  chan struct{}
	once  sync.Once
}

func newHandoff() *handoff { return &handoff{conns: make(chan net.Conn), stop: make(chan struct{})} }

func (h *handoff) give(c net.Conn) {
	select {
	case h.conns <- c:
	case <-h.stop:
		_ = c.Close()
	}
}

func (h *handoff) Accept() (net.Conn, error) {
	select {
	case c := <-h.conns:
		return c, nil
	case <-h.stop:
		return nil, net.ErrClosed
	}
}

func (h *handoff) Close() error   { h.once.Do(func() { close(h.stop) }); return nil }
func (h *handoff) Addr() net.Addr { return &net.TCPAddr{} }

// countedConn gives its place back when it closes.
type countedConn struct {
	net.Conn
	client *client
	unhook atomic.Pointer[func() bool] // from the end of the server
	once   sync.Once
}

func (c *countedConn) Close() error {
	err := c.Conn.Close()
	c.once.Do(func() {
		c.client.conns.Add(-1)
		if unhook := c.unhook.Load(); unhook != nil {
			(*unhook)()
		}
	})
	return err
}

func (c *countedConn) CloseWrite() error { return closeWrite(c.Conn) }

func (c *countedConn) SetLinger(sec int) error { return setLinger(c.Conn, sec) }

type counter struct{ n atomic.Int64 }

func (c *counter) total() int64 { return c.n.Load() }

type countedBody struct {
	io.ReadCloser
	n *counter
}

func (b *countedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.n.n.Add(int64(n))
	return n, err
}

// splice moves bytes both ways until both sides are done, the flow is cut, or
// nothing moves for too long.
func (s *Server) splice(ctx context.Context, c *client, in, out net.Conn, t Target, rule Rule, via string) {
	var sent, got counter
	cut := context.AfterFunc(ctx, func() { _ = out.Close(); reset(in) })
	defer cut()
	idle := newIdle(s.opts.Idle, func() { _ = out.Close(); _ = in.Close() })
	defer idle.stop()
	var pair sync.WaitGroup
	pair.Go(func() { pump(out, in, &sent, idle) })
	pair.Go(func() { pump(in, out, &got, idle) })
	pair.Wait()
	_ = in.Close()
	_ = out.Close()
	dec := Decision{Allowed: true, Rule: rule.Text, Sent: sent.total(), Got: got.total()}
	d := &Denial{}
	if errors.As(context.Cause(ctx), &d) {
		dec.Allowed, dec.Code, dec.Reason = false, d.Code, d.Reason
	}
	s.tell(c, via, t, dec)
}

func pump(dst, src net.Conn, n *counter, idle *idle) {
	buf := make([]byte, 32<<10)
	for {
		r, err := src.Read(buf)
		if r > 0 {
			idle.touch()
			w, werr := dst.Write(buf[:r])
			n.n.Add(int64(w))
			if werr != nil {
				_ = src.Close()
				return
			}
		}
		if err != nil {
			if errors.Is(err, io.EOF) {
				_ = closeWrite(dst)
			} else {
				_ = dst.Close()
			}
			return
		}
	}
}

// idle runs f after a time without touch.
type idle struct {
	after time.Duration
	timer *time.Timer
}

func newIdle(after time.Duration, f func()) *idle {
	return &idle{after: after, timer: time.AfterFunc(after, f)}
}

func (i *idle) touch() { i.timer.Reset(i.after) }
func (i *idle) stop()  { i.timer.Stop() }

// unwrapDenial finds our own reason inside what the HTTP client wrapped it in.
func unwrapDenial(err error) error {
	if d, ok := errors.AsType[*Denial](err); ok {
		return d
	}
	if e, ok := errors.AsType[*core.Error](err); ok {
		return e
	}
	return plainCause(err)
}
