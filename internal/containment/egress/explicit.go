package egress

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"strings"
)

type ctxKey int

const (
	keyClient ctxKey = iota
	keyPlain
	keyUpstream
)

// limited counts the connections of each sandbox and turns away strangers and
// what is too many.
type limited struct {
	net.Listener
	s *Server
}

func (l *limited) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if counted := l.s.admit(conn); counted != nil {
			return counted, nil
		}
	}
}

// admit takes a connection on, or resets it and returns nil.
func (s *Server) admit(conn net.Conn) *countedConn {
	c := s.clientOf(conn.RemoteAddr())
	if c == nil {
		reset(conn)
		return nil
	}
	if c.conns.Add(1) > int32(s.opts.MaxConns) {
		c.conns.Add(-1)
		s.denied(c, Target{Name: "*"}, "tcp", deny(CodeBusy, "close connections that are no longer needed", "more than %d connections at once", s.opts.MaxConns))
		reset(conn)
		return nil
	}
	counted := &countedConn{Conn: conn, client: c}
	unhook := context.AfterFunc(s.ctx, func() { _ = counted.Close() })
	counted.unhook.Store(&unhook)
	return counted
}

func reset(conn net.Conn) {
	_ = setLinger(conn, 0)
	_ = conn.Close()
}

func (s *Server) explicitContext(ctx context.Context, conn net.Conn) context.Context {
	return context.WithValue(ctx, keyClient, conn.(*countedConn).client)
}

func (s *Server) serveExplicit(w http.ResponseWriter, r *http.Request) {
	if !s.enter() {
		return
	}
	defer s.work.Done()
	c := r.Context().Value(keyClient).(*client)
	switch {
	case r.Method == http.MethodConnect:
		s.serveConnect(w, r, c)
	case r.URL.Scheme == "http" && r.URL.Host != "":
		t, err := ParseTarget(r.URL.Host, 80)
		if err != nil {
			s.refuseHTTP(w, c, Target{Name: clip(r.URL.Host)}, "proxy", deny(CodeBadHost, "", "%v", err))
			return
		}
		s.forward(w, r, c, t, "proxy")
	case r.URL.IsAbs():
		s.refuseHTTP(w, c, Target{Name: clip(r.URL.Host)}, "proxy",
			deny(CodeAskedWrong, "use CONNECT, as every client does for https", "this proxy fetches http: URLs only, not %s:", clip(r.URL.Scheme)))
	default:
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		w.WriteHeader(http.StatusBadRequest)
		fmt.Fprintln(w, "This is Drydock's egress proxy. It is used as a proxy, not visited.")
	}
}

// serveConnect opens a tunnel; what runs through it must fit the name it was
// opened for.
func (s *Server) serveConnect(w http.ResponseWriter, r *http.Request, c *client) {
	refuse := func(t Target, d *Denial) { s.refuseConnect(w, c, t, d) }
	if !strings.Contains(r.Host, ":") {
		refuse(Target{Name: clip(r.Host)}, deny(CodeBadHost, "", "CONNECT %q names no port", clip(r.Host)))
		return
	}
	t, err := ParseTarget(r.Host, 0)
	if err != nil {
		refuse(Target{Name: clip(r.Host)}, deny(CodeBadHost, "", "%v", err))
		return
	}
	ctx, f, rule, d := c.begin(s.ctx, t)
	if d != nil {
		refuse(t, d)
		return
	}
	defer c.end(f)
	out, err := s.dialer.open(ctx, t, rule)
	if err != nil {
		refuse(t, asDenial(err))
		return
	}
	defer out.Close()
	conn, rw, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, "HTTP/1.1 200 Connection established\r\n\r\n"); err != nil {
		return
	}
	in := &bufferedConn{Conn: conn, r: rw.Reader}
	s.carry(ctx, c, in, out, f, rule, "proxy")
}

func asDenial(err error) *Denial {
	d := &Denial{}
	if errors.As(err, &d) {
		return d
	}
	return deny(CodeUnreach, "", "%v", err)
}

// status of a denial: 403 means a rule, 502 a failure.
func (d *Denial) status() int {
	switch d.Code {
	case CodeUnreach, CodeUnresolved:
		return http.StatusBadGateway
	case CodeBadHost, CodeAskedWrong:
		return http.StatusBadRequest
	case CodeBusy:
		return http.StatusTooManyRequests
	}
	return http.StatusForbidden
}

func (d *Denial) body() string {
	text := "Drydock: " + d.Reason + ".\n"
	if d.Hint != "" {
		text += "What to do: " + d.Hint + ".\n"
	}
	return text
}

// headline makes text fit for a header and a status line.
func headline(text string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return '?'
		}
		return r
	}, text)
}

func (s *Server) refuseHTTP(w http.ResponseWriter, c *client, t Target, via string, d *Denial) {
	s.denied(c, t, via, d)
	h := w.Header()
	h.Set("Content-Type", "text/plain; charset=utf-8")
	h.Set("X-Drydock-Reason", headline(d.Reason))
	h.Set("X-Drydock-Code", string(d.Code))
	h.Set("Cache-Control", "no-store")
	w.WriteHeader(d.status())
	_, _ = io.WriteString(w, d.body())
}

// refuseConnect answers with the reason in the status line too, since that is
// all that most clients show of a refused tunnel.
func (s *Server) refuseConnect(w http.ResponseWriter, c *client, t Target, d *Denial) {
	s.denied(c, t, "proxy", d)
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	defer conn.Close()
	body := d.body()
	_, _ = fmt.Fprintf(conn, "HTTP/1.1 %d %s\r\nX-Drydock-Reason: %s\r\nX-Drydock-Code: %s\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s",
		d.status(), headline("Drydock: "+d.Reason), headline(d.Reason), d.Code, len(body), body)
}

// forward carries one plain HTTP request to a target.
func (s *Server) forward(w http.ResponseWriter, r *http.Request, c *client, t Target, via string) {
	ctx, f, rule, d := c.begin(r.Context(), t)
	if d != nil {
		s.refuseHTTP(w, c, t, via, d)
		return
	}
	defer c.end(f)
	upstream, err := s.dialer.proxyFor("http", t)
	if err == nil && upstream != nil {
		err = s.dialer.checkBehindProxy(ctx, t, rule)
		ctx = context.WithValue(ctx, keyUpstream, upstream)
	}
	if err != nil {
		s.refuseHTTP(w, c, t, via, asDenial(err))
		return
	}
	var sent, got counter
	if r.Body != nil {
		r.Body = &countedBody{ReadCloser: r.Body, n: &sent}
	}
	failed := false
	proxy := httputil.ReverseProxy{
		Transport: c.transport, FlushInterval: -1, ErrorLog: s.plain.ErrorLog,
		Rewrite: func(p *httputil.ProxyRequest) {
			p.Out.URL.Scheme, p.Out.URL.Host = "http", t.String()
			p.Out.Host = t.host()
			if t.Port != 80 {
				p.Out.Host = t.String()
			}
			p.Out.Header.Del("Proxy-Authorization")
			p.Out.Header.Del("Proxy-Connection")
			if p.In.Header["User-Agent"] == nil {
				p.Out.Header.Set("User-Agent", "") // none was sent, none is added
			}
		},
		ModifyResponse: func(resp *http.Response) error {
			if resp.StatusCode != http.StatusSwitchingProtocols {
				resp.Body = &countedBody{ReadCloser: resp.Body, n: &got}
			}
			return nil
		},
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) {
			failed = true
			cause := &Denial{}
			if errors.As(context.Cause(ctx), &cause) {
				err = cause
			}
			s.refuseHTTP(w, c, t, via, asDenial(unwrapDenial(err)))
		},
	}
	defer func() {
		if !failed {
			s.tell(c, via, t, Decision{Allowed: true, Rule: rule.Text, Sent: sent.total(), Got: got.total()})
		}
	}()
	proxy.ServeHTTP(w, r.WithContext(ctx))
}
