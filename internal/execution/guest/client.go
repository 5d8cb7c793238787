package guest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"drydock/internal/core"
)

// Client speaks with the drydock-init of one sandbox.
type Client struct {
	dial      func(ctx context.Context) (net.Conn, error)
	transport *http.Transport
	http      *http.Client

	mu    sync.Mutex
	token string
}

const (
	dialTimeout = 5 * time.Second // more than the first retransmission of a SYN
	maxIdle     = 16
)

// NewClient makes a client that opens connections with dial.
func NewClient(dial func(ctx context.Context) (net.Conn, error), token string) *Client {
	c := &Client{dial: dial, token: token}
	c.transport = &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			ctx, cancel := context.WithTimeout(ctx, dialTimeout)
			defer cancel()
			return dial(ctx)
		},
		MaxIdleConns:           maxIdle,
		MaxIdleConnsPerHost:    maxIdle,
		IdleConnTimeout:        4 * time.Minute, // before the guest gives up on it
		DisableCompression:     true,
		MaxResponseHeaderBytes: 64 << 10,
		WriteBufferSize:        32 << 10,
		ReadBufferSize:         32 << 10,
	}
	c.http = &http.Client{
		Transport:     c.transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return c
}

// NewTCPClient makes a client for an address.
func NewTCPClient(addr netip.AddrPort, token string) *Client {
	return NewClient(func(ctx context.Context) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "tcp", addr.String())
	}, token)
}

// Close gives up idle connections; calls under way go on.
func (c *Client) Close() { c.transport.CloseIdleConnections() }

func (c *Client) bearer() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return "Bearer " + c.token
}

// request is one exchange with the guest.
type request struct {
	op     string
	method string
	path   string
	query  url.Values
	body   io.Reader
	again  bool // harmless to send twice
}

// send returns an answer of success; the caller closes its body.
func (c *Client) send(ctx context.Context, r request) (*http.Response, error) {
	target := url.URL{Scheme: "http", Host: "guest", Path: r.path, RawQuery: r.query.Encode()}
	req, err := http.NewRequestWithContext(ctx, r.method, target.String(), r.body)
	if err != nil {
		return nil, core.E(r.op, core.Internal, err, "")
	}
	req.Header.Set("Authorization", c.bearer())
	if r.again {
		// The transport may then repeat it on a fresh connection when a kept one
		// turns out to be dead. A nil value is not sent.
		req.Header["X-Idempotency-Key"] = nil
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, connErr(ctx, r.op, err)
	}
	if resp.StatusCode/100 == 2 {
		return resp, nil
	}
	defer resp.Body.Close()
	return nil, readError(r.op, resp)
}

// connErr is for everything between here and the guest.
func connErr(ctx context.Context, op string, err error) error {
	if ctx.Err() != nil {
		return core.E(op, core.KindOf(ctx.Err()), context.Cause(ctx), "")
	}
	return core.E(op, core.Unavailable, &silence{err}, "the sandbox does not answer")
}

// silence marks an error of the connection.
type silence struct{ error }

func (s *silence) Unwrap() error { return s.error }

// Silent says whether an error means that no answer came, rather than that the
// guest answered with an error. Mostly the sandbox has just died then.
func Silent(err error) bool {
	_, ok := errors.AsType[*silence](err)
	return ok
}

// guestKinds are what a guest may call an error of its own.
var guestKinds = map[string]core.Kind{
	"invalid": core.Invalid, "not_found": core.NotFound, "conflict": core.Conflict,
	"exhausted": core.Exhausted, "unavailable": core.Unavailable, "canceled": core.Canceled,
}

func readError(op string, resp *http.Response) error {
	if resp.StatusCode == http.StatusUnauthorized {
		return core.E(op, core.Unavailable, nil, "the sandbox does not accept its token")
	}
	raw, _ := io.ReadAll(io.LimitReader(resp.Body, 16<<10))
	var body ErrorBody
	if json.Unmarshal(raw, &body) != nil || body.Error.Message == "" {
		return core.E(op, core.Internal, nil, "the sandbox answers with status %d", resp.StatusCode)
	}
	kind, ok := guestKinds[body.Error.Kind]
	if !ok {
		kind = core.Internal
	}
	err := core.E(op, kind, nil, "")
	err.Message, err.Hint = clipText(body.Error.Message, 2000), clipText(body.Error.Hint, 500)
	return err
}

func clipText(s string, n int) string {
	s = strings.ToValidUTF8(s, "?")
	if len(s) > n {
		s = strings.ToValidUTF8(s[:n], "") + "..."
	}
	return s
}

// call sends JSON and reads JSON. A nil out discards the answer.
func (c *Client) call(ctx context.Context, op, method, path string, query url.Values, in, out any, again bool) error {
	var raw []byte
	if in != nil {
		var err error
		if raw, err = json.Marshal(in); err != nil {
			return core.E(op, core.Internal, err, "")
		}
		if len(raw) > MaxJSON {
			return core.E(op, core.Invalid, nil, "a request of %d bytes, the limit is %d", len(raw), MaxJSON)
		}
	}
	for try := 1; ; try++ {
		err := c.exchange(ctx, request{op: op, method: method, path: path, query: query, again: again}, raw, out)
		if err == nil || !again || try == cutRetries || ctx.Err() != nil || !errors.Is(err, net.ErrClosed) {
			return err
		}
	}
}

// cutRetries is how often a call is made that this side cuts off: a sandbox
// stands still for a fork, and goes on.
const cutRetries = 4

func (c *Client) exchange(ctx context.Context, r request, in []byte, out any) error {
	if in != nil {
		r.body = bytes.NewReader(in)
	}
	resp, err := c.send(ctx, r)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	return readJSON(ctx, r.op, resp.Body, out)
}

// maxAnswer bounds one JSON answer: two outputs of MaxLimit in base 64, and the
// rest.
const maxAnswer = 2*MaxLimit/3*4 + MaxJSON

func readJSON(ctx context.Context, op string, body io.Reader, out any) error {
	raw, err := io.ReadAll(io.LimitReader(body, maxAnswer+1))
	switch {
	case err != nil:
		return connErr(ctx, op, err)
	case len(raw) > maxAnswer:
		return core.E(op, core.Internal, nil, "the sandbox answers with more than %d bytes", maxAnswer)
	case out == nil:
		return nil
	}
	if err := json.Unmarshal(raw, out); err != nil {
		return core.E(op, core.Internal, err, "the sandbox answers with what is no answer")
	}
	return nil
}

func (c *Client) post(ctx context.Context, op, path string, in, out any) error {
	return c.call(ctx, op, http.MethodPost, path, nil, in, out, true)
}

func (c *Client) get(ctx context.Context, op, path string, query url.Values, out any) error {
	return c.call(ctx, op, http.MethodGet, path, query, nil, out, true)
}

// Health asks how the guest is, and refuses one of another protocol.
func (c *Client) Health(ctx context.Context) (Health, error) {
	const op = "guest.health"
	var h Health
	if err := c.get(ctx, op, "/v1/health", nil, &h); err != nil {
		return Health{}, err
	}
	if h.Protocol != Protocol {
		return Health{}, core.E(op, core.Conflict, nil, "the sandbox speaks protocol %d, this is %d", h.Protocol, Protocol)
	}
	return h, nil
}

// maxInline is how large a file of a Setup may be to be sent without asking.
const maxInline = 4 << 10

// Setup gives the sandbox its identity; calling it again replaces it. Files of
// an earlier call stay. Large files, certificates above all, are mostly there
// already from the snapshot: they are sent only when they are asked for.
func (c *Client) Setup(ctx context.Context, in Setup) (SetupResult, error) {
	const op = "guest.setup"
	lean := in
	lean.Files = slices.Clone(in.Files)
	for i, f := range in.Files {
		if len(f.Data) > maxInline {
			sum := sha256.Sum256(f.Data)
			lean.Files[i].Data, lean.Files[i].Sum = nil, hex.EncodeToString(sum[:])
		}
	}
	var out SetupResult
	if err := c.post(ctx, op, "/v1/setup", lean, &out); err != nil || len(out.Missing) == 0 {
		return out, err
	}
	rest, missing := in, out.Missing
	rest.Files = slices.DeleteFunc(slices.Clone(in.Files), func(f SetupFile) bool { return !slices.Contains(missing, f.Path) })
	out = SetupResult{}
	err := c.post(ctx, op, "/v1/setup", rest, &out)
	return out, err
}

// Rotate replaces the token, in the guest and in this client.
func (c *Client) Rotate(ctx context.Context, token string) (Health, error) {
	var h Health
	if err := c.call(ctx, "guest.rotate", http.MethodPost, "/v1/token", nil, TokenRequest{Token: token}, &h, false); err != nil {
		return Health{}, err
	}
	c.mu.Lock()
	c.token = token
	c.mu.Unlock()
	return h, nil
}

// Hold prepares for a memory image: what listens is written down for Probe, and
// token is what the guest demands from then on; this client does not take it
// over.
func (c *Client) Hold(ctx context.Context, token string) error {
	return c.call(ctx, "guest.hold", http.MethodPost, "/v1/hold", nil, TokenRequest{Token: token}, nil, false)
}

// Probe asks everything that listened when the memory image was taken. A
// service whose listener does not answer any more is started again; Probe does
// not wait until it is ready.
func (c *Client) Probe(ctx context.Context) (Probed, error) {
	var out Probed
	err := c.post(ctx, "guest.probe", "/v1/probe", struct{}{}, &out)
	return out, err
}

// RestartServices ends those services that run from a directory, and those
// that come after them, and starts them again. It names them.
func (c *Client) RestartServices(ctx context.Context, dir string) ([]string, error) {
	var out []string
	err := c.call(ctx, "guest.services", http.MethodPost, "/v1/services/reload", nil, PathRequest{Path: dir}, &out, false)
	return out, err
}

// Sync writes everything to disk.
func (c *Client) Sync(ctx context.Context) error {
	return c.post(ctx, "guest.sync", "/v1/sync", struct{}{}, nil)
}

// Quiesce stops services in reverse order, ends every other process, and
// syncs: afterwards files can be frozen.
func (c *Client) Quiesce(ctx context.Context) error {
	return c.post(ctx, "guest.quiesce", "/v1/quiesce", struct{}{}, nil)
}

// StartServices makes the list the one that runs, and returns when each
// service is ready, failed or stopped. It is an Unavailable error when one
// failed; the states are returned as well.
func (c *Client) StartServices(ctx context.Context, list []Service) ([]ServiceStatus, error) {
	const op = "guest.services"
	if list == nil {
		list = []Service{}
	}
	var out []ServiceStatus
	if err := c.post(ctx, op, "/v1/services", list, &out); err != nil {
		return nil, err
	}
	for {
		if err := c.get(ctx, op, "/v1/services", url.Values{"ms": {"30000"}}, &out); err != nil {
			return out, err
		}
		waiting := false
		var failed []string
		for _, st := range out {
			switch st.State {
			case "waiting", "starting":
				waiting = true
			case "failed":
				failed = append(failed, fmt.Sprintf("%s (%s)", st.Name, clipText(st.Detail, 300)))
			}
		}
		if len(failed) > 0 {
			return out, core.E(op, core.Unavailable, nil, "services failed: %s", strings.Join(failed, "; "))
		}
		if !waiting {
			return out, nil
		}
		if err := ctx.Err(); err != nil {
			return out, core.E(op, core.KindOf(err), context.Cause(ctx), "waiting for services")
		}
	}
}

// Services tells the state of each.
func (c *Client) Services(ctx context.Context) ([]ServiceStatus, error) {
	var out []ServiceStatus
	err := c.get(ctx, "guest.services", "/v1/services", nil, &out)
	return out, err
}

// RestartService ends one service and starts it again, without waiting for it
// to be ready.
func (c *Client) RestartService(ctx context.Context, name string) error {
	return c.call(ctx, "guest.services", http.MethodPost, "/v1/services/restart", nil, NameRequest{Name: name}, nil, false)
}

// StopServices ends all in reverse order and waits for it.
func (c *Client) StopServices(ctx context.Context) error {
	return c.post(ctx, "guest.services", "/v1/services/stop", struct{}{}, nil)
}

// Ports lists what listens.
func (c *Client) Ports(ctx context.Context) ([]Port, error) {
	var out []Port
	err := c.get(ctx, "guest.ports", "/v1/ports", nil, &out)
	return out, err
}

// Reach is nil when something accepts connections on a port of loopback.
func (c *Client) Reach(ctx context.Context, port int) error {
	return c.get(ctx, "guest.reach", "/v1/reach", url.Values{"port": {strconv.Itoa(port)}}, nil)
}

// Tunnel opens a connection to a port on the sandbox's loopback.
func (c *Client) Tunnel(ctx context.Context, port int) (net.Conn, error) {
	const op = "guest.tunnel"
	dialCtx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	conn, err := c.dial(dialCtx)
	if err != nil {
		return nil, connErr(ctx, op, err)
	}
	stop := context.AfterFunc(dialCtx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	host := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	_, err = io.WriteString(conn, "CONNECT "+host+" HTTP/1.1\r\nHost: "+host+"\r\nAuthorization: "+c.bearer()+"\r\n\r\n")
	var reader *connReader
	if err == nil {
		reader, err = readConnect(op, conn)
	}
	if !stop() && err == nil {
		err = dialCtx.Err()
	}
	if err != nil {
		_ = conn.Close()
		if _, ours := errors.AsType[*core.Error](err); ours {
			return nil, err
		}
		return nil, connErr(ctx, op, err)
	}
	_ = conn.SetDeadline(time.Time{})
	return reader, nil
}
