package guest

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"io"
	"math"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"drydock/internal/core"
)

// Start starts a command, or finds the one with the same Key. A call that is
// cut off is made again: with a key of its own it starts one process.
func (c *Client) Start(ctx context.Context, cmd Command) (Process, error) {
	if cmd.Key == "" {
		cmd.Key = "start-" + rand.Text()
	}
	var out Process
	err := c.post(ctx, "guest.start", "/v1/start", cmd, &out)
	return out, err
}

// runRetries bound how often Run comes back after a broken connection.
const runRetries = 3

// Run runs a command to its end and returns what it said, in one round trip.
// A connection that breaks does not matter: the same process is found again.
// When ctx ends the command is stopped (TERM, then KILL). Use Start and Wait
// for what should live longer than the caller.
func (c *Client) Run(ctx context.Context, cmd Command) (Result, error) {
	const op = "guest.run"
	if cmd.Key == "" {
		cmd.Key = "run-" + rand.Text()
	}
	var reply RunReply
	var err error
	for try := range runRetries {
		if try > 0 {
			timer := time.NewTimer(100 * time.Millisecond << try)
			select {
			case <-timer.C:
			case <-ctx.Done():
			}
			timer.Stop()
		}
		err = c.call(ctx, op, http.MethodPost, "/v1/run", nil, cmd, &reply, true)
		if err == nil || ctx.Err() != nil || !core.Is(err, core.Unavailable) {
			break
		}
	}
	if err != nil {
		if ctx.Err() != nil {
			stopCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 3*time.Second)
			defer cancel()
			_ = c.stop(stopCtx, ProcessRef{Key: cmd.Key}, cmd.Grace)
		}
		return Result{}, err
	}
	p := reply.Process
	return Result{
		Process: p.ID, ExitCode: p.ExitCode, Signal: clipText(p.Signal, 40), TimedOut: p.TimedOut,
		Stdout: reply.Stdout, Stderr: reply.Stderr, Truncated: reply.Truncated, Duration: reply.Duration,
	}, nil
}

func refQuery(id ProcessID) url.Values { return url.Values{"id": {string(id)}} }

// Process tells the state of one process.
func (c *Client) Process(ctx context.Context, id ProcessID) (Process, error) {
	var out Process
	err := c.get(ctx, "guest.process", "/v1/wait", refQuery(id), &out)
	return out, err
}

// Find looks for the process that was started with a key.
func (c *Client) Find(ctx context.Context, key string) (Process, error) {
	var out Process
	err := c.get(ctx, "guest.process", "/v1/wait", url.Values{"key": {key}}, &out)
	return out, err
}

// Processes lists those that are running and those whose output is still kept,
// by start.
func (c *Client) Processes(ctx context.Context) ([]Process, error) {
	var out []Process
	err := c.get(ctx, "guest.processes", "/v1/processes", nil, &out)
	return out, err
}

// Wait returns when the process has ended. A guest that does not answer three
// times in a row is an Unavailable error; Wait may then be called again.
func (c *Client) Wait(ctx context.Context, id ProcessID) (Process, error) {
	q := refQuery(id)
	q.Set("ms", "30000")
	for failures := 0; ; {
		var out Process
		err := c.get(ctx, "guest.wait", "/v1/wait", q, &out)
		switch {
		case err == nil && !out.Running:
			return out, nil
		case err == nil:
			failures = 0
			continue
		case ctx.Err() != nil, !core.Is(err, core.Unavailable), failures >= 2:
			return Process{}, err
		}
		failures++
		timer := time.NewTimer(200 * time.Millisecond << failures)
		select {
		case <-timer.C:
		case <-ctx.Done():
		}
		timer.Stop()
	}
}

// Write sends bytes to a process that was started with Stdin or a terminal. It
// returns when the process has taken them.
func (c *Client) Write(ctx context.Context, id ProcessID, data []byte) error {
	for len(data) > 0 {
		n := min(len(data), 1<<20)
		if err := c.stdin(ctx, refQuery(id), data[:n]); err != nil {
			return err
		}
		data = data[n:]
	}
	return nil
}

// CloseStdin ends standard input; a terminal gets its end-of-file character.
func (c *Client) CloseStdin(ctx context.Context, id ProcessID) error {
	q := refQuery(id)
	q.Set("close", "1")
	return c.stdin(ctx, q, nil)
}

func (c *Client) stdin(ctx context.Context, q url.Values, data []byte) error {
	const op = "guest.stdin"
	resp, err := c.send(ctx, request{op: op, method: http.MethodPost, path: "/v1/stdin", query: q, body: bytes.NewReader(data)})
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	return readJSON(ctx, op, resp.Body, nil)
}

// Resize changes the size of a terminal.
func (c *Client) Resize(ctx context.Context, id ProcessID, size Size) error {
	return c.post(ctx, "guest.resize", "/v1/resize", ResizeRequest{ProcessRef: ProcessRef{ID: id}, Size: size}, nil)
}

// Signal sends "TERM", "INT", "HUP", "KILL", ... to the process group. It is a
// Conflict when nothing of the group is left.
func (c *Client) Signal(ctx context.Context, id ProcessID, signal string) error {
	return c.call(ctx, "guest.signal", http.MethodPost, "/v1/signal", nil,
		SignalRequest{ProcessRef: ProcessRef{ID: id}, Signal: signal}, nil, false)
}

// Stop sends TERM now and KILL after grace (0: 5 s), without waiting.
func (c *Client) Stop(ctx context.Context, id ProcessID, grace time.Duration) error {
	return c.stop(ctx, ProcessRef{ID: id}, grace)
}

func (c *Client) stop(ctx context.Context, ref ProcessRef, grace time.Duration) error {
	return c.post(ctx, "guest.stop", "/v1/stop", StopRequest{ProcessRef: ref, Grace: grace}, nil)
}

// Output reads a stream ("stdout" or "stderr") from an offset on. With follow
// it goes on until the process has ended; without, to what is there now. A
// connection that breaks ends it with io.ErrUnexpectedEOF: open it again at
// Offset.
func (c *Client) Output(ctx context.Context, id ProcessID, stream string, offset int64, follow bool) (*OutputReader, error) {
	q := refQuery(id)
	q.Set("stream", stream)
	q.Set("offset", strconv.FormatInt(offset, 10))
	if follow {
		q.Set("follow", "1")
	}
	ctx, cancel := context.WithCancel(ctx)
	//nolint:bodyclose // OutputReader.Close does
	resp, err := c.send(ctx, request{op: "guest.output", method: http.MethodGet, path: "/v1/output", query: q, again: true})
	if err != nil {
		cancel()
		return nil, err
	}
	return &OutputReader{body: resp.Body, cancel: cancel, offset: offset}, nil
}

// OutputReader is one reader of an output. It is for one goroutine; Close may
// be called by another.
type OutputReader struct {
	body   io.ReadCloser
	cancel context.CancelFunc
	offset int64
	left   int // of the frame under way
	lost   int64
	err    error
}

// Offset is where the next byte stands in the stream.
func (o *OutputReader) Offset() int64 { return o.offset }

// Lost is how many bytes were skipped because the ring had passed them.
func (o *OutputReader) Lost() int64 { return o.lost }

// Close ends the reading.
func (o *OutputReader) Close() error {
	o.cancel()
	return o.body.Close()
}

func (o *OutputReader) Read(p []byte) (int, error) {
	if len(p) == 0 || o.err != nil {
		return 0, o.err
	}
	for o.left == 0 {
		if o.err = o.frame(); o.err != nil {
			return 0, o.err
		}
	}
	n, err := o.body.Read(p[:min(len(p), o.left)])
	o.left -= n
	o.offset += int64(n)
	if err != nil && (n == 0 || !errors.Is(err, io.EOF)) {
		o.err = broken(err)
	}
	return n, o.err
}

func (o *OutputReader) frame() error {
	var head [FrameHeader]byte
	if _, err := io.ReadFull(o.body, head[:]); err != nil {
		return broken(err)
	}
	at, size := binary.BigEndian.Uint64(head[:8]), binary.BigEndian.Uint32(head[8:])
	if at > math.MaxInt64 || int64(at) < o.offset || size > FrameMax && size != FrameEnd {
		return core.E("guest.output", core.Internal, nil, "the sandbox sends a frame of %d bytes at %d after %d", size, at, o.offset)
	}
	o.lost += int64(at) - o.offset
	o.offset = int64(at)
	if size == FrameEnd {
		return io.EOF
	}
	o.left = int(size)
	return nil
}

// broken makes one error of all the ways in which a connection ends too early.
func broken(err error) error {
	if _, ok := errors.AsType[*net.OpError](err); ok || errors.Is(err, io.EOF) || errors.Is(err, net.ErrClosed) {
		return io.ErrUnexpectedEOF
	}
	return err
}
