package client

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"drydock/internal/core"
	"drydock/internal/surface/api"
)

// Options say where the daemon is and who asks.
type Options struct {
	URL   string       // http://host:port; a bare host:port is http
	Token string       // bearer token
	HTTP  *http.Client // default: own transport, no overall timeout
	// Patience is how long a broken event stream is taken up again without
	// hearing anything; default 2 minutes.
	Patience time.Duration
	// Silence is how long a stream may say nothing, not even a heartbeat,
	// before it counts as broken; default 45 seconds.
	Silence time.Duration
	// Backoff is the first pause before a new try, doubled up to 5 s;
	// default 100 ms.
	Backoff time.Duration
}

// Client speaks to one daemon.
type Client struct {
	base *url.URL
	opts Options
}

// New checks the options; it does not connect.
func New(opts Options) (*Client, error) {
	raw := opts.URL
	if !strings.Contains(raw, "://") {
		raw = "http://" + raw
	}
	u, err := url.Parse(raw)
	if err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") {
		return nil, core.E("client.new", core.Invalid, nil, "%q is not the address of a daemon", opts.URL).
			WithHint("it looks like http://127.0.0.1:7447")
	}
	u.Path = strings.TrimSuffix(u.Path, "/")
	u.RawQuery, u.Fragment, u.User = "", "", nil
	if opts.HTTP == nil {
		t := &http.Transport{
			Proxy: http.ProxyFromEnvironment, DialContext: (&net.Dialer{Timeout: 5 * time.Second}).DialContext,
			MaxIdleConnsPerHost: 8, IdleConnTimeout: 30 * time.Second, TLSHandshakeTimeout: 10 * time.Second,
		}
		opts.HTTP = &http.Client{Transport: t}
	}
	def := func(d *time.Duration, v time.Duration) {
		if *d <= 0 {
			*d = v
		}
	}
	def(&opts.Patience, 2*time.Minute)
	def(&opts.Silence, 45*time.Second)
	def(&opts.Backoff, 100*time.Millisecond)
	return &Client{base: u, opts: opts}, nil
}

// URL is the address of the daemon.
func (c *Client) URL() string { return c.base.String() }

// Close lets go of idle connections.
func (c *Client) Close() { c.opts.HTTP.CloseIdleConnections() }

// NewClientID makes an identifier for a request that must not happen twice.
func NewClientID() string { return "cli_" + strings.ToLower(rand.Text()) }

type request struct {
	method, path string
	query        url.Values
	body         any
	header       http.Header
}

func (c *Client) url(path string, query url.Values) string {
	u := *c.base
	s := u.String() + api.Prefix + path
	if len(query) > 0 {
		s += "?" + query.Encode()
	}
	return s
}

// send makes the request and turns every answer that is no success into an
// error. The caller closes the body.
func (c *Client) send(ctx context.Context, r request) (*http.Response, error) {
	var body io.Reader
	if r.body != nil {
		raw, err := json.Marshal(r.body)
		if err != nil {
			return nil, core.E("client.send", core.Internal, err, "request body")
		}
		body = bytes.NewReader(raw)
	}
	req, err := http.NewRequestWithContext(ctx, r.method, c.url(r.path, r.query), body)
	if err != nil {
		return nil, core.E("client.send", core.Invalid, err, "")
	}
	maps.Copy(req.Header, r.header)
	if r.body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if c.opts.Token != "" {
		req.Header.Set("Authorization", "Bearer "+c.opts.Token)
	}
	resp, err := c.opts.HTTP.Do(req)
	if err != nil {
		return nil, c.unreachable(ctx, err)
	}
	if resp.StatusCode/100 != 2 {
		defer func() { _ = resp.Body.Close() }()
		return nil, c.refused(resp)
	}
	return resp, nil
}

func (c *Client) unreachable(ctx context.Context, err error) error {
	if cause := ctx.Err(); errors.Is(cause, context.Canceled) {
		return core.E("client.send", core.Canceled, cause, "")
	}
	if ue, ok := errors.AsType[*url.Error](err); ok {
		err = ue.Err // its text repeats the whole address
	}
	return core.E("client.send", core.Unavailable, err, "the daemon at %s does not answer", c.base.String()).
		WithHint("start it with: drydock serve (or name another with --server or DRYDOCK_URL)")
}

// refused reads the server's error; an answer of something else that stands
// in between is told as such.
func (c *Client) refused(resp *http.Response) error {
	raw, _ := io.ReadAll(io.LimitReader(resp.Body, 64<<10))
	var e api.Error
	if json.Unmarshal(raw, &e) != nil || e.Code == "" {
		kind := core.Internal
		if resp.StatusCode == http.StatusBadGateway || resp.StatusCode == http.StatusServiceUnavailable || resp.StatusCode == http.StatusGatewayTimeout {
			kind = core.Unavailable
		}
		return core.E("client.send", kind, nil, "%s answered %s, not as a Drydock daemon does", c.base.String(), resp.Status).
			WithHint("check the address")
	}
	return errorOf(e)
}

func errorOf(e api.Error) error {
	return &core.Error{Op: "server", Kind: core.KindByName(e.Code), Message: e.Message, Hint: e.Hint}
}

// call sends and decodes; dst may be nil.
func (c *Client) call(ctx context.Context, r request, dst any) error {
	resp, err := c.send(ctx, r)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	if dst == nil {
		_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, 64<<10))
		return nil
	}
	if err := json.NewDecoder(io.LimitReader(resp.Body, 256<<20)).Decode(dst); err != nil {
		if ctx.Err() != nil {
			return c.unreachable(ctx, err)
		}
		return core.E("client.decode", core.Unavailable, err, "the answer of %s to %s %s broke off", c.base.String(), r.method, r.path)
	}
	return nil
}

func get[T any](ctx context.Context, c *Client, path string, query url.Values) (T, error) {
	var v T
	err := c.call(ctx, request{method: http.MethodGet, path: path, query: query}, &v)
	return v, err
}

func post[T any](ctx context.Context, c *Client, path string, body any) (T, error) {
	var v T
	err := c.call(ctx, request{method: http.MethodPost, path: path, body: body}, &v)
	return v, err
}

func (c *Client) do(ctx context.Context, method, path string, body any) error {
	return c.call(ctx, request{method: method, path: path, body: body}, nil)
}

func seg(s string) string { return url.PathEscape(s) }
