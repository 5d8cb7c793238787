// Package wire is what the providers that speak HTTP have in common: it
// watches the one exchange that an SDK makes, ends it when the provider falls
// silent, bounds what is read, and names how it failed.
//
// It parses no answers; each provider does. Errors are classified from what
// was seen on the wire, not from the SDK's error types, because compatible
// servers and proxies in between answer in shapes that the SDKs do not know.
//
// An Exchange serves one request and belongs to one goroutine, apart from its
// timer.
//
//	within, x := wire.Begin(ctx, wire.Options{Idle: time.Minute, Secret: key})
//	defer x.End()
//	stream := client.NewStreaming(within, params, option.WithMiddleware(x.Middleware))
//	...
//	return x.Fault(ctx, stream.Err())
package wire

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"drydock/internal/harness/model"
)

// Options of an exchange.
type Options struct {
	Idle   time.Duration // longest silence, before the first byte too; default 3 min
	Max    int64         // largest answer in bytes; default 64 MiB
	Secret string        // never appears in a fault
}

const maxErrorBody = 64 << 10

// errTooLarge ends an answer that does not stop.
var errTooLarge = errors.New("the answer is larger than the limit")

// Exchange watches one request.
type Exchange struct {
	cancel context.CancelFunc
	opts   Options
	timer  *time.Timer

	mu      sync.Mutex
	status  int
	header  http.Header
	errBody []byte
	began   bool // some of the answer's body has come
	silent  bool // nothing came for too long, so it was ended
}

// Begin starts watching. The request must be made with the returned context,
// and End be called.
func Begin(ctx context.Context, opts Options) (context.Context, *Exchange) {
	if opts.Idle <= 0 {
		opts.Idle = 3 * time.Minute
	}
	if opts.Max <= 0 {
		opts.Max = 64 << 20
	}
	within, cancel := context.WithCancel(ctx)
	x := &Exchange{opts: opts, cancel: cancel}
	x.timer = time.AfterFunc(opts.Idle, func() {
		x.mu.Lock()
		x.silent = true
		x.mu.Unlock()
		cancel()
	})
	return within, x
}

// End releases the timer and the connection.
func (x *Exchange) End() {
	x.timer.Stop()
	x.cancel()
}

// Middleware has the form that both SDKs take.
func (x *Exchange) Middleware(req *http.Request, next func(*http.Request) (*http.Response, error)) (*http.Response, error) {
	resp, err := next(req)
	if err != nil || resp == nil {
		return resp, err
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.status, x.header = resp.StatusCode, resp.Header
	if resp.StatusCode >= 300 {
		x.errBody, _ = io.ReadAll(io.LimitReader(resp.Body, maxErrorBody))
		_ = resp.Body.Close()
		resp.Body = io.NopCloser(bytes.NewReader(x.errBody))
		if resp.StatusCode < 400 { // the SDKs take a redirect for an answer
			return nil, errors.New("the provider redirects, which is not followed: the key would go along")
		}
		return resp, nil
	}
	if kind := resp.Header.Get("Content-Type"); !strings.HasPrefix(kind, "text/event-stream") {
		x.errBody, _ = io.ReadAll(io.LimitReader(resp.Body, maxErrorBody))
		_ = resp.Body.Close()
		resp.Body = io.NopCloser(bytes.NewReader(x.errBody))
		return nil, errors.New("the answer is no event stream but " + kind)
	}
	resp.Body = &body{x: x, rc: resp.Body, left: x.opts.Max}
	return resp, nil
}

type body struct {
	x    *Exchange
	rc   io.ReadCloser
	left int64
}

func (b *body) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, errTooLarge
	}
	n, err := b.rc.Read(p)
	if n > 0 {
		b.left -= int64(n)
		b.x.timer.Reset(b.x.opts.Idle)
		b.x.mu.Lock()
		b.x.began = true
		b.x.mu.Unlock()
	}
	return n, err
}

func (b *body) Close() error { return b.rc.Close() }

// Client makes an HTTP client for a provider: no redirects, since a key in a
// header of its own would follow them.
func Client() *http.Client {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.MaxIdleConnsPerHost = 16
	t.ResponseHeaderTimeout = 0 // the exchange's own idle limit rules
	return &http.Client{
		Transport:     t,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// Fault names how the exchange failed. It returns the cause of the caller's
// own context when that is done.
func (x *Exchange) Fault(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.status >= 300 {
		return x.rejected()
	}
	f := &model.Fault{Outcome: model.Unreachable, Err: err}
	switch {
	case x.silent:
		f.Message = "nothing came for " + x.opts.Idle.String()
		if x.began {
			f.Outcome = model.Truncated
		}
	case x.status != 0 && !x.began && x.errBody != nil:
		f.Outcome, f.Retry = model.Rejected, model.RetryNo
		f.Status, f.Message = x.status, x.clean(errText(err))
	case x.began:
		f.Outcome, f.Message = model.Truncated, x.clean(errText(err))
	default:
		f.Message = x.clean(errText(err))
	}
	return f
}

// Truncated is the fault of a stream that ended without its last event.
func (x *Exchange) Truncated(ctx context.Context) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	f := &model.Fault{Outcome: model.Truncated, Message: "the stream ended without its last event"}
	if x.silent {
		f.Message = "nothing came for " + x.opts.Idle.String()
	}
	return f
}

// StreamError is the fault that an error inside a stream stands for. raw is
// its JSON.
func (x *Exchange) StreamError(raw []byte) error {
	p := parse(raw)
	f := &model.Fault{Message: x.clean(p.message)}
	f.Outcome = p.outcome(0)
	return f
}

func (x *Exchange) rejected() error {
	p := parse(x.errBody)
	f := &model.Fault{Status: x.status, Outcome: p.outcome(x.status), Message: x.clean(p.message), After: retryAfter(x.header)}
	if p.terminal() {
		f.Retry = model.RetryNo
	}
	switch x.header.Get("X-Should-Retry") {
	case "true":
		f.Retry = model.RetryYes
	case "false":
		f.Retry = model.RetryNo
	}
	if f.Outcome == model.ContextOverflow {
		f.Retry = model.RetryNo
	}
	if x.status == http.StatusUnauthorized || x.status == http.StatusForbidden {
		f.Message = "the key is not accepted" // providers repeat parts of the key here
	}
	return f
}

func (x *Exchange) clean(s string) string {
	if x.opts.Secret != "" {
		s = strings.ReplaceAll(s, x.opts.Secret, "[key]")
	}
	s = strings.Join(strings.Fields(s), " ")
	if len(s) > 500 {
		s = strings.ToValidUTF8(s[:500], "") + "..."
	}
	return s
}

func errText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
