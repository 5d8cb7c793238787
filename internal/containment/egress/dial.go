package egress

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"time"

	"golang.org/x/net/http/httpproxy"
)

const dialTimeout = 10 * time.Second

// Resolver turns names into addresses the way the host does.
type Resolver interface {
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
}

// dialer opens connections to the outside, to checked addresses only.
type dialer struct {
	lookups  *lookups
	dial     func(ctx context.Context, network, address string) (net.Conn, error)
	own      *ownAddresses
	closed   []netip.Prefix // never dialled: where sandboxes live
	upstream func(*url.URL) (*url.URL, error)
	chains   bool
}

// open connects to a target that a rule allows.
func (d *dialer) open(ctx context.Context, t Target, r Rule) (net.Conn, error) {
	if proxy, err := d.proxyFor("https", t); err != nil || proxy != nil {
		if err != nil {
			return nil, deny(CodeUnreach, "", "the host's proxy settings cannot be used: %v", err)
		}
		if err := d.checkBehindProxy(ctx, t, r); err != nil {
			return nil, err
		}
		return d.connectVia(ctx, proxy, t)
	}
	return d.direct(ctx, t, r)
}

// direct connects without another proxy.
func (d *dialer) direct(ctx context.Context, t Target, r Rule) (net.Conn, error) {
	addrs, err := d.addresses(ctx, t, r)
	if err != nil {
		return nil, err
	}
	var last error
	for _, a := range addrs {
		dctx, cancel := context.WithTimeout(ctx, dialTimeout)
		conn, err := d.dial(dctx, "tcp", netip.AddrPortFrom(a, t.Port).String())
		cancel()
		if err == nil {
			return conn, nil
		}
		last = err
		if ctx.Err() != nil {
			break
		}
	}
	return nil, deny(CodeUnreach, "", "%s is allowed, but does not answer: %v", t, plainCause(last))
}

// addresses resolves a target and keeps what may be dialled.
func (d *dialer) addresses(ctx context.Context, t Target, r Rule) ([]netip.Addr, error) {
	found := []netip.Addr{t.Addr}
	if !t.Addr.IsValid() {
		var err error
		if found, err = d.lookups.addresses(ctx, t.Name); err != nil || len(found) == 0 {
			return nil, deny(CodeUnresolved, "", "%s is allowed, but this host cannot resolve it: %v", t.Name, plainCause(err))
		}
	}
	var ok []netip.Addr
	var why *Denial
	for _, a := range found {
		a = a.Unmap().WithZone("")
		if refused := d.judge(a, t, r); refused != nil {
			why = refused
			continue
		}
		ok = append(ok, a)
	}
	if len(ok) == 0 {
		return nil, why
	}
	// IPv4 first: more hosts can reach it than can reach IPv6.
	slices.SortStableFunc(ok, func(a, b netip.Addr) int { return a.BitLen() - b.BitLen() })
	return ok, nil
}

// judge is the check of the very address that is going to be dialled.
func (d *dialer) judge(a netip.Addr, t Target, r Rule) *Denial {
	switch f := addressFault(a); {
	case f == faultNever, within(d.closed, a), d.own.has(a):
		return deny(CodeSpecial, "", "%s leads to %s, an address no sandbox may reach", t.host(), a)
	case f == faultSpecial && !r.mayBePrivate():
		return deny(CodeSpecial, "a private host is reached by naming its address in network.allow, or as a registry of this machine's package managers",
			"%s leads to the private or special address %s", t.host(), a)
	}
	return nil
}

// checkBehindProxy judges as much as can be known when another proxy resolves.
func (d *dialer) checkBehindProxy(ctx context.Context, t Target, r Rule) error {
	_, err := d.addresses(ctx, t, r)
	var refused *Denial
	if errors.As(err, &refused) && refused.Code == CodeUnresolved {
		return nil // only the proxy can resolve it
	}
	return err
}

func (d *dialer) proxyFor(scheme string, t Target) (*url.URL, error) {
	if !d.chains {
		return nil, nil
	}
	return d.upstream(&url.URL{Scheme: scheme, Host: t.String()})
}

// dialProxy connects to the host's own upstream proxy, which may be anywhere,
// loopback included.
func (d *dialer) dialProxy(ctx context.Context, proxy *url.URL) (net.Conn, error) {
	port := proxy.Port()
	if port == "" {
		port = map[string]string{"https": "443"}[proxy.Scheme]
	}
	if port == "" {
		port = "80"
	}
	conn, err := d.dial(ctx, "tcp", net.JoinHostPort(proxy.Hostname(), port))
	if err != nil || proxy.Scheme != "https" {
		return conn, err
	}
	secure := tls.Client(conn, &tls.Config{ServerName: proxy.Hostname(), MinVersion: tls.VersionTLS12})
	if err := secure.HandshakeContext(ctx); err != nil {
		_ = conn.Close()
		return nil, err
	}
	return secure, nil
}

// behindProxy makes a dial function that knows the upstream proxies apart from
// targets: a request that goes through one carries it along.
func (d *dialer) behindProxy(direct dialFunc) dialFunc {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		proxy, ok := ctx.Value(keyUpstream).(*url.URL)
		if !ok || proxy == nil {
			return direct(ctx, network, address)
		}
		return d.dial(ctx, network, address)
	}
}

type dialFunc = func(ctx context.Context, network, address string) (net.Conn, error)

func proxyAuth(proxy *url.URL) string {
	if proxy.User == nil {
		return ""
	}
	password, _ := proxy.User.Password()
	return "Basic " + base64.StdEncoding.EncodeToString([]byte(proxy.User.Username()+":"+password))
}

// connectVia asks the upstream proxy for a tunnel.
func (d *dialer) connectVia(ctx context.Context, proxy *url.URL, t Target) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*dialTimeout)
	defer cancel()
	conn, err := d.dialProxy(ctx, proxy)
	if err != nil {
		return nil, deny(CodeUnreach, "", "the host's own proxy %s does not answer: %v", proxy.Host, plainCause(err))
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	req := &http.Request{Method: http.MethodConnect, URL: &url.URL{Opaque: t.String()}, Host: t.String(), Header: http.Header{}}
	if auth := proxyAuth(proxy); auth != "" {
		req.Header.Set("Proxy-Authorization", auth)
	}
	br := bufio.NewReader(conn)
	err = req.Write(conn)
	var resp *http.Response
	if err == nil {
		resp, err = http.ReadResponse(br, req)
	}
	if err == nil && resp.StatusCode != http.StatusOK {
		err = errors.New(strconv.Itoa(resp.StatusCode))
	}
	if !stop() && err == nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		_ = conn.Close()
		return nil, deny(CodeUnreach, "", "the host's own proxy %s does not open %s: %v", proxy.Host, t, plainCause(err))
	}
	return &bufferedConn{Conn: conn, r: br}, nil
}

// bufferedConn gives first what a reader in front of it has taken already.
type bufferedConn struct {
	net.Conn
	r interface{ Read([]byte) (int, error) }
}

func (c *bufferedConn) Read(p []byte) (int, error) { return c.r.Read(p) }

func (c *bufferedConn) CloseWrite() error { return closeWrite(c.Conn) }

func (c *bufferedConn) SetLinger(sec int) error { return setLinger(c.Conn, sec) }

func setLinger(c net.Conn, sec int) error {
	if tcp, ok := c.(interface{ SetLinger(int) error }); ok {
		return tcp.SetLinger(sec)
	}
	return nil
}

func closeWrite(c net.Conn) error {
	if h, ok := c.(interface{ CloseWrite() error }); ok {
		return h.CloseWrite()
	}
	return c.Close()
}

// plainCause shortens an error of the net package to its cause: addresses and
// operations in it are the host's business.
func plainCause(err error) error {
	if dns, ok := errors.AsType[*net.DNSError](err); ok {
		return errors.New(dns.Err)
	}
	if op, ok := errors.AsType[*net.OpError](err); ok {
		return op.Err
	}
	if err == nil {
		return errors.New("no address")
	}
	return err
}

// Upstream is the proxy the host itself must use, in the form of the usual
// environment variables.
type Upstream struct{ HTTP, HTTPS, No string }

func (u Upstream) set() bool { return u.HTTP != "" || u.HTTPS != "" }

func (u Upstream) choose() func(*url.URL) (*url.URL, error) {
	c := httpproxy.Config{HTTPProxy: u.HTTP, HTTPSProxy: u.HTTPS, NoProxy: u.No}
	return c.ProxyFunc()
}
