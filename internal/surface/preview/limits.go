package preview

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"sync/atomic"
	"time"
)

var errSlow = errors.New("the body of the request did not come")

// upload is the body of a request: it may be as long as it likes, but not stop.
type upload struct {
	rc   *http.ResponseController
	body io.ReadCloser
	slow time.Duration
	n    atomic.Int64
}

func (u *upload) Read(p []byte) (int, error) {
	_ = u.rc.SetReadDeadline(time.Now().Add(u.slow))
	n, err := u.body.Read(p)
	u.n.Add(int64(n))
	switch {
	case errors.Is(err, io.EOF):
		_ = u.rc.SetReadDeadline(time.Time{}) // the answer may take longer
	case errors.Is(err, os.ErrDeadlineExceeded):
		err = errSlow
	}
	return n, err
}

func (u *upload) Close() error { return u.body.Close() }

// answer is where the app's answer goes: a browser that stops reading is let
// go, and of early answers only the switch of protocols passes. The server
// itself asks for bodies that wait to be asked for.
type answer struct {
	http.ResponseWriter
	slow time.Duration
	n    atomic.Int64
	up   atomic.Int64 // of a connection that was switched
}

func (a *answer) WriteHeader(code int) {
	if code/100 == 1 && code != http.StatusSwitchingProtocols {
		return
	}
	a.ResponseWriter.WriteHeader(code)
}

func (a *answer) Write(p []byte) (int, error) {
	_ = http.NewResponseController(a.ResponseWriter).SetWriteDeadline(time.Now().Add(a.slow))
	n, err := a.ResponseWriter.Write(p)
	a.n.Add(int64(n))
	return n, err
}

// FlushError implements what http.ResponseController asks for.
func (a *answer) FlushError() error {
	_ = http.NewResponseController(a.ResponseWriter).SetWriteDeadline(time.Now().Add(a.slow))
	return http.NewResponseController(a.ResponseWriter).Flush()
}

// Unwrap is for http.ResponseController.
func (a *answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// Hijack hands the connection over with what was read ahead of it: a client
// may speak before it has the answer.
func (a *answer) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, rw, err := http.NewResponseController(a.ResponseWriter).Hijack()
	if err != nil {
		return nil, nil, err
	}
	return &ahead{Conn: conn, buffered: rw.Reader, a: a}, rw, nil
}

type ahead struct {
	net.Conn
	buffered *bufio.Reader
	a        *answer
}

func (c *ahead) Read(p []byte) (int, error) {
	var n int
	var err error
	if c.buffered.Buffered() > 0 {
		n, err = c.buffered.Read(p[:min(len(p), c.buffered.Buffered())])
	} else {
		n, err = c.Conn.Read(p)
	}
	c.a.up.Add(int64(n))
	return n, err
}

func (c *ahead) Write(p []byte) (int, error) {
	_ = c.SetWriteDeadline(time.Now().Add(c.a.slow))
	n, err := c.Conn.Write(p)
	c.a.n.Add(int64(n))
	return n, err
}

// CloseWrite passes a half close on.
func (c *ahead) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return c.Close()
}
