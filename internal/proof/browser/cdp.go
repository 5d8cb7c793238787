package browser

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/coder/websocket"
)

const (
	maxMessage = 96 << 20 // of the protocol: a picture is in one message
	maxVersion = 64 << 10
	writeTime  = 10 * time.Second
)

// dialer reaches a TCP port inside the sandbox.
type dialer func(ctx context.Context, port int) (net.Conn, error)

// client speaks the DevTools protocol over one connection.
type client struct {
	conn    *websocket.Conn
	done    chan struct{}
	onEvent func(event)

	mu      sync.Mutex
	next    int64
	waiting map[int64]chan reply
	failed  error
}

type reply struct {
	result json.RawMessage
	err    error
}

type event struct {
	Session string          `json:"sessionId"`
	Method  string          `json:"method"`
	Params  json.RawMessage `json:"params"`
}

type version struct {
	Browser string `json:"Browser"`
	URL     string `json:"webSocketDebuggerUrl"`
}

func httpClient(dial dialer, port int) *http.Client {
	return &http.Client{
		Transport: &http.Transport{
			DisableKeepAlives: true, Proxy: nil, ResponseHeaderTimeout: 10 * time.Second,
			DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return dial(ctx, port) },
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// readVersion asks what browser listens on a port.
func readVersion(ctx context.Context, dial dialer, port int) (version, error) {
	var v version
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://127.0.0.1:"+strconv.Itoa(port)+"/json/version", nil)
	if err != nil {
		return v, err
	}
	resp, err := httpClient(dial, port).Do(req)
	if err != nil {
		return v, err
	}
	defer func() { _ = resp.Body.Close() }()
	raw, err := io.ReadAll(io.LimitReader(resp.Body, maxVersion))
	if err != nil {
		return v, err
	}
	if resp.StatusCode != http.StatusOK {
		return v, fmt.Errorf("the debugging port answered %d", resp.StatusCode)
	}
	if err := json.Unmarshal(raw, &v); err != nil {
		return v, errors.New("the debugging port does not answer like a browser")
	}
	if len(v.Browser) > 200 {
		v.Browser = v.Browser[:200]
	}
	return v, nil
}

// connect opens the protocol's connection. Only the path of the told address
// is used: where to connect is not the browser's to say.
func connect(ctx context.Context, dial dialer, port int, v version, onEvent func(event)) (*client, error) {
	u, err := url.Parse(v.URL)
	if err != nil || !strings.HasPrefix(u.Path, "/devtools/") {
		return nil, errors.New("the browser names no debugging address")
	}
	//nolint:bodyclose // the library keeps the body: it is the connection
	conn, _, err := websocket.Dial(ctx, "ws://127.0.0.1:"+strconv.Itoa(port)+u.Path, &websocket.DialOptions{
		HTTPClient: httpClient(dial, port), CompressionMode: websocket.CompressionDisabled,
	})
	if err != nil {
		return nil, err
	}
	conn.SetReadLimit(maxMessage)
	c := &client{conn: conn, done: make(chan struct{}), waiting: map[int64]chan reply{}, onEvent: onEvent}
	go c.read(context.WithoutCancel(ctx))
	return c, nil
}

// read takes messages until the connection ends.
func (c *client) read(ctx context.Context) {
	defer close(c.done)
	for {
		_, raw, err := c.conn.Read(ctx)
		if err != nil {
			c.fail(err)
			return
		}
		var m struct {
			ID     int64           `json:"id"`
			Result json.RawMessage `json:"result"`
			Error  *struct {
				Message string `json:"message"`
			} `json:"error"`
			event
		}
		if err := json.Unmarshal(raw, &m); err != nil {
			c.fail(errors.New("the browser sent something that is no message"))
			return
		}
		if m.ID == 0 {
			c.onEvent(m.event)
			continue
		}
		c.mu.Lock()
		wait := c.waiting[m.ID]
		delete(c.waiting, m.ID)
		c.mu.Unlock()
		if wait == nil {
			continue
		}
		r := reply{result: m.Result}
		if m.Error != nil {
			r.err = errors.New(clip(m.Error.Message, 300))
		}
		wait <- r
	}
}

func (c *client) fail(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.failed = fmt.Errorf("the connection to the browser ended: %w", err)
	for id, wait := range c.waiting {
		delete(c.waiting, id)
		wait <- reply{err: c.failed}
	}
}

// call runs one method and reads its result into out, which may be nil.
func (c *client) call(ctx context.Context, session, method string, params map[string]any, out any) error {
	wait := make(chan reply, 1)
	c.mu.Lock()
	if c.failed != nil {
		defer c.mu.Unlock()
		return c.failed
	}
	c.next++
	id := c.next
	c.waiting[id] = wait
	c.mu.Unlock()
	message := map[string]any{"id": id, "method": method, "params": params}
	if params == nil {
		message["params"] = map[string]any{}
	}
	if session != "" {
		message["sessionId"] = session
	}
	raw, err := json.Marshal(message)
	if err != nil {
		return err
	}
	// A write that is given up ends the connection, and with it the pages after
	// this one: the caller's time is up before it or not at all.
	if err := ctx.Err(); err != nil {
		c.forget(id)
		return fmt.Errorf("%s: %w", method, err)
	}
	writing, cancel := context.WithTimeout(context.WithoutCancel(ctx), writeTime)
	defer cancel()
	if err := c.conn.Write(writing, websocket.MessageText, raw); err != nil {
		return fmt.Errorf("%s: %w", method, err)
	}
	select {
	case r := <-wait:
		if r.err != nil {
			return fmt.Errorf("%s: %w", method, r.err)
		}
		if out == nil {
			return nil
		}
		if err := json.Unmarshal(r.result, out); err != nil {
			return fmt.Errorf("%s: the answer cannot be read", method)
		}
		return nil
	case <-ctx.Done():
		c.forget(id)
		return fmt.Errorf("%s: %w", method, ctx.Err())
	}
}

func (c *client) forget(id int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.waiting, id)
}

// close ends the connection and waits for the reader.
func (c *client) close() {
	_ = c.conn.CloseNow()
	<-c.done
}

func clip(s string, n int) string {
	if len(s) <= n {
		return strings.ToValidUTF8(s, "?")
	}
	return strings.ToValidUTF8(s[:n], "?") + "..."
}
