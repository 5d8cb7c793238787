package client

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"drydock/internal/core"
	"drydock/internal/surface/api"
)

// maxEvent bounds one event on the wire.
const maxEvent = 16 << 20

// SessionEvents yields the events of a session after a number, then those to
// come, until ctx ends or the loop is left. A broken connection is taken up
// again where it broke; an error ends the sequence.
func (c *Client) SessionEvents(ctx context.Context, id core.SessionID, after int64) iter.Seq2[core.Event, error] {
	return c.follow(ctx, "/sessions/"+seg(string(id))+"/events", after)
}

// BuildEvents is SessionEvents for a build.
func (c *Client) BuildEvents(ctx context.Context, id core.BuildID, after int64) iter.Seq2[core.Event, error] {
	return c.follow(ctx, "/builds/"+seg(string(id))+"/events", after)
}

// SessionLog reads one page of events; Next of the page is the number to go
// on after.
func (c *Client) SessionLog(ctx context.Context, id core.SessionID, after int64, limit int) (api.List[core.Event], error) {
	return c.log(ctx, "/sessions/"+seg(string(id))+"/events", after, limit)
}

// BuildLog is SessionLog for a build.
func (c *Client) BuildLog(ctx context.Context, id core.BuildID, after int64, limit int) (api.List[core.Event], error) {
	return c.log(ctx, "/builds/"+seg(string(id))+"/events", after, limit)
}

func (c *Client) log(ctx context.Context, path string, after int64, limit int) (api.List[core.Event], error) {
	q := url.Values{"follow": {"false"}, "after": {strconv.FormatInt(after, 10)}}
	if limit > 0 {
		q.Set("limit", strconv.Itoa(limit))
	}
	return get[api.List[core.Event]](ctx, c, path, q)
}

func (c *Client) follow(ctx context.Context, path string, after int64) iter.Seq2[core.Event, error] {
	return func(yield func(core.Event, error) bool) {
		last, heard, pause := after, time.Now(), c.opts.Backoff
		for {
			before := last
			stop, alive, err := c.connection(ctx, path, &last, yield)
			if stop {
				return
			}
			if ctx.Err() != nil {
				yield(core.Event{}, core.E("client.events", core.Canceled, ctx.Err(), ""))
				return
			}
			if err != nil && !core.Is(err, core.Unavailable) {
				yield(core.Event{}, err)
				return
			}
			if alive {
				heard = time.Now()
			}
			if last > before || alive {
				pause = c.opts.Backoff
			}
			if time.Since(heard) > c.opts.Patience {
				yield(core.Event{}, core.E("client.events", core.Unavailable, err, "event stream lost for %s after event %d", c.opts.Patience, last))
				return
			}
			select {
			case <-ctx.Done():
			case <-time.After(pause):
			}
			pause = min(pause*2, 5*time.Second)
		}
	}
}

// connection reads one connection to its end. stop: the consumer has enough.
// alive: the server spoke.
func (c *Client) connection(ctx context.Context, path string, last *int64, yield func(core.Event, error) bool) (stop, alive bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	header := http.Header{"Accept": {"text/event-stream"}}
	if *last > 0 {
		header["Last-Event-Id"] = []string{strconv.FormatInt(*last, 10)}
	}
	quiet := time.AfterFunc(c.opts.Silence, cancel)
	defer quiet.Stop()
	resp, err := c.send(ctx, request{method: http.MethodGet, path: path, header: header})
	if err != nil {
		if core.Is(err, core.Canceled) { // by the watch on silence, or by the caller, who looks himself
			err = core.E("client.events", core.Unavailable, err, "no answer for %s", c.opts.Silence)
		}
		return false, false, err
	}
	defer func() { _ = resp.Body.Close() }()
	r := newReader(resp.Body, func() { alive = true; quiet.Reset(c.opts.Silence) })
	for {
		m, err := r.next()
		if err != nil {
			return false, alive, core.E("client.events", core.Unavailable, err, "event stream broke off")
		}
		if m.event == "error" {
			return false, alive, m.failure()
		}
		var ev core.Event
		if err := json.Unmarshal(m.data, &ev); err != nil {
			return false, alive, core.E("client.events", core.Internal, err, "event after %d is not readable", *last)
		}
		if ev.Seq > 0 {
			if ev.Seq <= *last {
				continue
			}
			if ev.Seq != *last+1 {
				return false, false, core.E("client.events", core.Unavailable, nil, "event %d came after %d", ev.Seq, *last)
			}
			*last = ev.Seq
		}
		quiet.Stop() // the consumer may take its time
		if !yield(ev, nil) {
			return true, true, nil
		}
		quiet.Reset(c.opts.Silence)
	}
}

// Rerun runs a proof again; progress is called with its events.
func (c *Client) Rerun(ctx context.Context, id core.EvidenceID, progress func(core.Event)) (api.Rerun, error) {
	return work[core.Event, api.Rerun](ctx, c, "/evidence/"+seg(string(id))+"/rerun", nil, progress)
}

// PushSnapshot sends a snapshot to a registry; it ends with ctx.
func (c *Client) PushSnapshot(ctx context.Context, id core.SnapshotID, req api.PushSnapshot, progress func(api.Transfer)) (api.PushedSnapshot, error) {
	return work[api.Transfer, api.PushedSnapshot](ctx, c, "/snapshots/"+seg(string(id))+"/push", req, progress)
}

// PullSnapshot brings a snapshot to the daemon's machine; it ends with ctx.
func (c *Client) PullSnapshot(ctx context.Context, req api.PullSnapshot, progress func(api.Transfer)) (api.PulledSnapshot, error) {
	return work[api.Transfer, api.PulledSnapshot](ctx, c, "/snapshots/pull", req, progress)
}

// work asks for something long, and reads what the server streams until the
// result comes.
func work[P, R any](ctx context.Context, c *Client, path string, body any, progress func(P)) (R, error) {
	var out R
	resp, err := c.send(ctx, request{method: http.MethodPost, path: path, body: body})
	if err != nil {
		return out, err
	}
	defer func() { _ = resp.Body.Close() }()
	r := newReader(resp.Body, func() {})
	for {
		m, err := r.next()
		if err != nil {
			if ctx.Err() != nil {
				return out, core.E("client.work", core.Canceled, ctx.Err(), "")
			}
			return out, core.E("client.work", core.Unavailable, err, "the answer to %s broke off before its result", path)
		}
		switch m.event {
		case "error":
			return out, m.failure()
		case "result":
			if err := json.Unmarshal(m.data, &out); err != nil {
				return out, core.E("client.work", core.Internal, err, "the result of %s is not readable", path)
			}
			return out, nil
		}
		var p P
		if json.Unmarshal(m.data, &p) == nil && progress != nil {
			progress(p)
		}
	}
}

// message is one server-sent event.
type message struct {
	id, event string
	data      []byte
}

func (m message) failure() error {
	var e api.Error
	if json.Unmarshal(m.data, &e) != nil || e.Code == "" {
		return core.E("client.events", core.Internal, nil, "the stream ended with an error that is not readable")
	}
	return errorOf(e)
}

// reader splits a stream into messages. It knows what the server writes and
// what the format allows beyond it: comments, several data lines, CRLF.
type reader struct {
	in    *bufio.Reader
	heard func() // called for every line, comments too
}

func newReader(r io.Reader, heard func()) *reader {
	return &reader{in: bufio.NewReaderSize(r, 64<<10), heard: heard}
}

var errTooLong = errors.New("longer than an event may be")

func (r *reader) next() (message, error) {
	var m message
	seen := false
	for {
		line, err := r.line()
		if err != nil {
			return message{}, err // a message without its blank line never counts
		}
		r.heard()
		if line == "" {
			if seen {
				return m, nil
			}
			m = message{}
			continue
		}
		field, value, _ := strings.Cut(line, ":")
		value = strings.TrimPrefix(value, " ")
		switch field {
		case "id":
			m.id = value
		case "event":
			m.event = value
		case "data":
			if seen {
				m.data = append(m.data, '\n')
			}
			seen = true
			m.data = append(m.data, value...)
			if len(m.data) > maxEvent {
				return message{}, fmt.Errorf("%d bytes: %w", len(m.data), errTooLong)
			}
		}
	}
}

func (r *reader) line() (string, error) {
	var buf []byte
	for {
		part, err := r.in.ReadSlice('\n')
		buf = append(buf, part...)
		if err == nil {
			return strings.TrimRight(string(buf), "\r\n"), nil
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return "", err
		}
		if len(buf) > maxEvent {
			return "", fmt.Errorf("%d bytes: %w", len(buf), errTooLong)
		}
	}
}
