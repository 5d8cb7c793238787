package preview

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strconv"
	"strings"
	"time"

	"drydock/internal/core"
)

// Causes of an exchange's end, and what an app may do wrong.
var (
	errEnded = errors.New("the preview is over")
	errTLS   = errors.New("the app speaks TLS on this port")
	errLoop  = errors.New("the app redirects in a circle")
)

// holdLimit bounds how long one exchange keeps a sandbox awake: a forgotten
// tab must not do so for ever.
const holdLimit = time.Minute

// exchange is one request under way.
type exchange struct {
	t      target
	g      *grant
	in     *http.Request
	cancel context.CancelCauseFunc
	kind   string
}

type exchangeKey struct{}

func exchangeOf(ctx context.Context) *exchange {
	x, _ := ctx.Value(exchangeKey{}).(*exchange)
	return x
}

// upstream names a port of one sandbox for the pool of connections: one that
// was restored gets new ones.
func upstream(box core.SandboxID, l label) string {
	return net.JoinHostPort(string(box)+"."+string(l.Session), strconv.Itoa(l.Port))
}

func (s *Service) dial(ctx context.Context, _, addr string) (net.Conn, error) {
	host, portText, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, err
	}
	_, id, _ := strings.Cut(host, ".")
	port, err := strconv.Atoi(portText)
	if err != nil {
		return nil, err
	}
	conn, err := s.deps.Boxes.Dial(ctx, core.SessionID(id), port)
	if err != nil {
		return nil, &unreachableError{err}
	}
	return &plainConn{Conn: conn}, nil
}

// unreachableError is that of a port nobody answers on.
type unreachableError struct{ err error }

func (e *unreachableError) Error() string { return e.err.Error() }
func (e *unreachableError) Unwrap() error { return e.err }

// plainConn notices an answer that is TLS: its first byte is that of an alert.
type plainConn struct {
	net.Conn
	begun bool
}

func (c *plainConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if n > 0 && !c.begun {
		c.begun = true
		if p[0] == 0x15 || p[0] == 0x16 {
			return 0, errTLS
		}
	}
	return n, err
}

func (s *Service) newProxy() (h http.Handler, release func()) {
	transport := &http.Transport{
		DialContext: s.dial, DisableCompression: true, MaxIdleConns: 200, MaxIdleConnsPerHost: 16, MaxConnsPerHost: 200,
		IdleConnTimeout: 20 * time.Second, ResponseHeaderTimeout: 5 * time.Minute, ExpectContinueTimeout: 2 * time.Second,
		MaxResponseHeaderBytes: 128 << 10, WriteBufferSize: 32 << 10, ReadBufferSize: 32 << 10,
		Protocols: new(http.Protocols),
	}
	transport.Protocols.SetHTTP1(true)
	return &httputil.ReverseProxy{
		Transport: transport, Rewrite: s.rewrite, ModifyResponse: s.answered, ErrorHandler: s.failed, FlushInterval: -1,
		ErrorLog: slog.NewLogLogger(s.log.Handler(), slog.LevelDebug),
	}, transport.CloseIdleConnections
}

// forward passes a request on under a grant.
func (s *Service) forward(w http.ResponseWriter, r *http.Request, t target, g *grant, place Place) {
	ctx, cancel := context.WithCancelCause(r.Context())
	defer cancel(nil)
	x := &exchange{t: t, g: g, in: r, cancel: cancel, kind: "http"}
	if upgrades(r) {
		x.kind = "socket"
	}
	if err := s.begin(g, x); err != nil {
		s.refuse(w, r, t, err)
		return
	}
	defer s.end(g, x)
	done := s.deps.Boxes.Hold(t.Session)
	timer := time.AfterFunc(holdLimit, done)
	defer func() {
		timer.Stop()
		done()
	}()
	rc := http.NewResponseController(w)
	_ = rc.EnableFullDuplex() // an app may answer while it is still being told
	out := &answer{ResponseWriter: w, slow: s.opts.Slow}
	in := &upload{rc: rc, body: r.Body, slow: s.opts.Slow}
	defer func() {
		_ = rc.SetWriteDeadline(time.Now().Add(s.opts.Slow)) // for what the server itself adds
		s.deps.Meter.PreviewBytes(in.n.Load()+out.up.Load(), out.n.Load())
	}()
	ctx = context.WithValue(ctx, exchangeKey{}, x)
	r = r.WithContext(ctx)
	to := *r.URL
	to.Scheme, to.Host = "http", upstream(place.Sandbox, t.label)
	r.URL = &to
	if r.ContentLength != 0 {
		r.Body = in
	}
	s.proxy.ServeHTTP(out, r)
}

// rewrite makes a request what a server on loopback expects. The app's own
// headers stay as they are.
func (s *Service) rewrite(p *httputil.ProxyRequest) {
	x := exchangeOf(p.In.Context())
	p.Out.Host = net.JoinHostPort("localhost", strconv.Itoa(x.t.Port))
	p.Out.URL.RawQuery = p.In.URL.RawQuery
	p.Out.Trailer = p.In.Trailer // the same map: it is filled when the body has been read
	if len(p.In.Trailer) > 0 {
		p.Out.Header.Del("Trailer") // the transport writes it
	}
	p.Out.Header.Set("X-Forwarded-Host", x.t.host)
	p.Out.Header.Set("X-Forwarded-Proto", x.t.scheme)
	s.clean(p.Out.Header)
	s.clean(p.Out.Trailer)
}

// dropped are headers of an app that reach further than its own origin.
var dropped = []string{
	"Clear-Site-Data", "Strict-Transport-Security", "Public-Key-Pins", "Public-Key-Pins-Report-Only", "Expect-Ct", "Alt-Svc", "Set-Cookie2", "Nel",
}

// answered makes an app's answer harmless for everybody but the app.
func (s *Service) answered(res *http.Response) error {
	x := exchangeOf(res.Request.Context())
	h := res.Header
	redirect := res.StatusCode/100 == 3 && h.Get("Location") != ""
	if x.kind == "http" && res.Request.Method == http.MethodGet && navigates(x.in) && s.looping(x.g, x.t.Port, redirect) {
		return errLoop
	}
	name, _ := splitHost(x.t.scheme, x.t.host)
	harmless(h, name)
	trailers(res.Trailer)
	if redirect {
		if to := s.relocated(h.Get("Location"), x); to != "" {
			h.Set("Location", to)
		}
	}
	h.Add("Content-Security-Policy", "frame-ancestors "+s.ancestors())
	h.Set("Referrer-Policy", "same-origin")
	s.deps.Meter.PreviewRequest(x.kind, res.StatusCode)
	if res.StatusCode != http.StatusSwitchingProtocols {
		res.Body = &download{ReadCloser: res.Body, res: res}
	}
	return nil
}

// harmless drops what an app may not say.
func harmless(h http.Header, host string) {
	for _, name := range dropped {
		h.Del(name)
	}
	cookies := h["Set-Cookie"]
	h.Del("Set-Cookie")
	for _, line := range cookies {
		if allowedCookie(line, host) {
			h.Add("Set-Cookie", line)
		}
	}
}

// trailers drops what has no business after a body.
func trailers(h http.Header) {
	for _, name := range append([]string{"Set-Cookie", "Content-Security-Policy", "Referrer-Policy"}, dropped...) {
		delete(h, name)
	}
}

// relocated is where a redirect to a loopback name leads from outside: an app
// only knows the name that it was asked under. Others are left alone.
func (s *Service) relocated(location string, x *exchange) string {
	u, err := url.Parse(location)
	if err != nil || u.Scheme != "http" || !isLoopback(u.Hostname()) {
		return ""
	}
	port, err := strconv.Atoi(u.Port())
	if err != nil || !s.covers(x.g, port) {
		return ""
	}
	l := x.t.label
	l.Port = port
	there, err := s.target(x.in.Context(), l)
	if err != nil {
		return ""
	}
	u.Scheme, u.Host = there.scheme, there.host
	return u.String()
}

// failed answers when the app did not.
func (s *Service) failed(w http.ResponseWriter, out *http.Request, err error) {
	x := exchangeOf(out.Context())
	r, t := x.in, x.t
	broken := sheet{status: http.StatusBadGateway, title: "The app broke off", text: "It closed the connection, or what it sent is not HTTP.", back: true}
	_, unreachable := errors.AsType[*unreachableError](err)
	switch {
	case errors.Is(context.Cause(out.Context()), errEnded):
		s.refuse(w, r, t, core.E("preview.end", core.Unauthorized, err, "the preview is over").WithHint("open it again from the session"))
	case out.Context().Err() != nil: // the browser left
		panic(http.ErrAbortHandler)
	case errors.Is(err, errLoop):
		s.page(w, r, t, sheet{
			status: http.StatusBadGateway, title: "Too many redirects", back: true, text: "The app sends the browser around in a circle.",
			hint: "An app that wants https or another host name often does so: here it is asked as http://localhost:" + strconv.Itoa(t.Port) + ", and X-Forwarded-Proto says " + t.scheme + ".",
		})
	case errors.Is(err, errTLS):
		s.page(w, r, t, sheet{
			status: http.StatusBadGateway, title: "The app speaks TLS", back: true, text: "Port " + strconv.Itoa(t.Port) + " wants https inside the sandbox, where nobody listens in.",
			hint: "Let it speak plain HTTP there; TLS ends in front of it.",
		})
	case unreachable:
		s.waiting(w, r, t)
	case errors.Is(err, errSlow):
		broken.status, broken.title, broken.text = http.StatusRequestTimeout, "Too slow", "The body of the request did not come."
		s.page(w, r, t, broken)
	default:
		s.log.DebugContext(out.Context(), "an app broke off", "session", t.Session, "err", err)
		s.page(w, r, t, broken)
	}
}

// download removes from trailers what may not stand in headers either.
type download struct {
	io.ReadCloser
	res *http.Response
}

func (d *download) Read(p []byte) (int, error) {
	n, err := d.ReadCloser.Read(p)
	if err != nil {
		trailers(d.res.Trailer)
	}
	return n, err
}
