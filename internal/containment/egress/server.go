package egress

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"github.com/miekg/dns"

	"drydock/internal/core"
)

// Deps of a Server.
type Deps struct {
	Log      *slog.Logger
	Resolver Resolver                                                             // default: the host's
	Dial     func(ctx context.Context, network, address string) (net.Conn, error) // default: net.Dialer; gets addresses only
	OwnAddrs func() ([]net.Addr, error)                                           // default: net.InterfaceAddrs
	Where    func(c net.Conn) (netip.AddrPort, error)                             // original destination of a captured connection
	Decided  func(Decision)                                                       // must not block; may be nil
}

// Options of a Server. Zero values mean the defaults.
type Options struct {
	Upstream Upstream       // proxy of the host itself
	Closed   []netip.Prefix // ranges nobody may reach, e.g. those sandboxes live in
	MaxConns int            // at once, per sandbox; default 256
	Idle     time.Duration  // a silent connection is closed; default 15 min
}

// Listeners are where sandboxes arrive.
type Listeners struct {
	DNS         net.PacketConn
	DNSStream   net.Listener
	Explicit    net.Listener
	Transparent net.Listener
}

const (
	maxHead     = 64 << 10
	headTimeout = 15 * time.Second
)

// Server is the egress of one daemon.
type Server struct {
	deps   Deps
	opts   Options
	dialer *dialer

	explicit *http.Server
	plain    *http.Server
	inner    *handoff
	dnsUDP   *dns.Server
	dnsTCP   *dns.Server

	ctx    context.Context //nolint:containedctx // life of the server, ended by Close
	cancel context.CancelFunc
	work   sync.WaitGroup

	mu      sync.Mutex
	clients map[netip.Addr]*client
}

// New makes a server that serves nobody yet.
func New(deps Deps, opts Options) *Server {
	if deps.Log == nil {
		deps.Log = slog.New(slog.DiscardHandler)
	}
	if deps.Resolver == nil {
		deps.Resolver = &net.Resolver{PreferGo: true}
	}
	if deps.Dial == nil {
		deps.Dial = (&net.Dialer{KeepAlive: 30 * time.Second}).DialContext
	}
	if deps.OwnAddrs == nil {
		deps.OwnAddrs = net.InterfaceAddrs
	}
	if opts.MaxConns <= 0 {
		opts.MaxConns = 256
	}
	if opts.Idle <= 0 {
		opts.Idle = 15 * time.Minute
	}
	s := &Server{
		deps: deps, opts: opts, clients: map[netip.Addr]*client{}, inner: newHandoff(),
		dialer: &dialer{
			lookups: newLookups(deps.Resolver), dial: deps.Dial, own: &ownAddresses{list: deps.OwnAddrs},
			closed: opts.Closed, upstream: opts.Upstream.choose(), chains: opts.Upstream.set(),
		},
	}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	return s
}

// Set lets a sandbox at addr do what policy says from now on. Flows it no
// longer allows are cut.
func (s *Server) Set(id core.SandboxID, addr netip.Addr, policy *Policy) {
	s.mu.Lock()
	c := s.clients[addr]
	if c == nil || c.id != id {
		if c != nil {
			defer s.forget(c)
		}
		c = &client{id: id, addr: addr, flows: map[*flow]struct{}{}, told: map[decisionKey]*toldOnce{}}
		c.transport = newTransport(s.dialer, c)
		s.clients[addr] = c
	}
	s.mu.Unlock()
	c.setPolicy(policy)
}

// Drop forgets a sandbox and cuts all its flows.
func (s *Server) Drop(id core.SandboxID) {
	s.mu.Lock()
	var gone []*client
	for a, c := range s.clients {
		if c.id == id {
			delete(s.clients, a)
			gone = append(gone, c)
		}
	}
	s.mu.Unlock()
	for _, c := range gone {
		s.forget(c)
	}
}

// Sandboxes are those the server knows.
func (s *Server) Sandboxes() []core.SandboxID {
	var out []core.SandboxID
	for _, c := range s.everyone() {
		out = append(out, c.id)
	}
	return out
}

func (s *Server) forget(c *client) {
	c.setPolicy(nil)
	c.transport.CloseIdleConnections()
	if s.deps.Decided != nil {
		s.flushClient(c, time.Now(), true)
	}
}

func (s *Server) client(a netip.Addr) *client {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.clients[a.Unmap()]
}

func (s *Server) everyone() []*client {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]*client, 0, len(s.clients))
	for _, c := range s.clients {
		out = append(out, c)
	}
	return out
}

// clientOf finds who is at the other end of a connection.
func (s *Server) clientOf(remote net.Addr) *client {
	from, err := netip.ParseAddrPort(remote.String())
	if err != nil {
		return nil
	}
	return s.client(from.Addr())
}

// Refused is told of packets that were turned away before they could reach a
// proxy, so that the session's log has them too.
func (s *Server) Refused(id core.SandboxID, to netip.AddrPort, udp bool, packets int) {
	for _, c := range s.everyone() {
		if c.id != id {
			continue
		}
		hint := "use a host name that drydock.yaml allows under network.allow"
		d := deny(CodePacket, hint, "direct traffic to %s is refused: only allowed names are reachable", to)
		if udp {
			d = deny(CodePacket, hint, "UDP to %s is refused: only TCP to allowed names, and DNS at the sandbox's own resolver, are let through", to)
		}
		s.tell(c, "packet", Target{Addr: to.Addr(), Port: to.Port()}, Decision{Code: d.Code, Reason: d.Reason, Hint: d.Hint, Count: packets})
	}
}

// Serve starts serving and returns. The listeners are the server's from now on.
func (s *Server) Serve(l Listeners) {
	base := func(net.Listener) context.Context { return s.ctx }
	quiet := slog.NewLogLogger(s.deps.Log.Handler(), slog.LevelDebug)
	s.explicit = &http.Server{
		Handler: http.HandlerFunc(s.serveExplicit), ReadHeaderTimeout: headTimeout, IdleTimeout: s.opts.Idle,
		MaxHeaderBytes: maxHead, ErrorLog: quiet, BaseContext: base, ConnContext: s.explicitContext,
	}
	s.plain = &http.Server{
		Handler: http.HandlerFunc(s.servePlain), ReadHeaderTimeout: headTimeout, IdleTimeout: s.opts.Idle,
		MaxHeaderBytes: maxHead, ErrorLog: quiet, BaseContext: base, ConnContext: plainContext,
	}
	s.dnsUDP = &dns.Server{PacketConn: l.DNS, Handler: dnsHandler{s}}
	s.dnsTCP = &dns.Server{Listener: l.DNSStream, Handler: dnsHandler{s}, ReadTimeout: headTimeout, IdleTimeout: func() time.Duration { return headTimeout }, MaxTCPQueries: 128}
	run := func(what string, f func() error) {
		s.work.Go(func() {
			if err := f(); err != nil && !errors.Is(err, net.ErrClosed) && !errors.Is(err, http.ErrServerClosed) && s.ctx.Err() == nil {
				s.deps.Log.Error("egress stopped serving", "what", what, "error", err)
			}
		})
	}
	run("dns over udp", s.dnsUDP.ActivateAndServe)
	run("dns over tcp", s.dnsTCP.ActivateAndServe)
	run("explicit proxy", func() error { return s.explicit.Serve(&limited{Listener: l.Explicit, s: s}) })
	run("transparent proxy", func() error { return s.acceptTransparent(l.Transparent) })
	run("plain http", func() error { return s.plain.Serve(s.inner) })
	if s.deps.Decided != nil {
		s.work.Go(s.flushLoop)
	}
	s.work.Go(func() {
		<-s.ctx.Done()
		gone, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = s.dnsUDP.ShutdownContext(gone)
		_ = s.dnsTCP.ShutdownContext(gone)
		_ = l.DNS.Close()
		_ = l.DNSStream.Close()
		_ = l.Explicit.Close()
		_ = l.Transparent.Close()
		_ = s.inner.Close()
		_ = s.explicit.Close()
		_ = s.plain.Close()
	})
}

func (s *Server) flushLoop() {
	tick := time.NewTicker(tellAgain / 4)
	defer tick.Stop()
	for {
		select {
		case <-s.ctx.Done():
			return
		case now := <-tick.C:
			s.flush(now, false)
		}
	}
}

// enter counts a handler that Close has to wait for.
func (s *Server) enter() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ctx.Err() != nil {
		return false
	}
	s.work.Add(1)
	return true
}

// Close stops serving, cuts every flow and waits.
func (s *Server) Close() error {
	s.mu.Lock()
	s.cancel()
	s.mu.Unlock()
	for _, c := range s.everyone() {
		s.forget(c)
	}
	s.work.Wait()
	return nil
}
