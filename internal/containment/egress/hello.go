package egress

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"time"
)

const (
	maxHello   = 64 << 10
	recordType = 0x16 // first byte of a TLS handshake
)

// readHello reads a TLS ClientHello from r and returns the server name in it
// ("" if none) with every byte that was read. The parsing is crypto/tls's own;
// nothing is answered.
func readHello(r io.Reader) (name string, raw []byte, err error) {
	rec := &recorder{r: io.LimitReader(r, maxHello)}
	got := errors.New("hello is complete")
	seen := false
	conn := tls.Server(rec, &tls.Config{
		GetConfigForClient: func(h *tls.ClientHelloInfo) (*tls.Config, error) {
			name, seen = h.ServerName, true
			return nil, got
		},
	})
	err = conn.HandshakeContext(context.Background())
	if seen {
		return name, rec.seen.Bytes(), nil
	}
	if err == nil {
		err = io.ErrUnexpectedEOF
	}
	return "", rec.seen.Bytes(), err
}

// recorder is a connection that remembers what was read and swallows writes.
type recorder struct {
	r    io.Reader
	seen bytes.Buffer
}

func (c *recorder) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.seen.Write(p[:n])
	return n, err
}

func (c *recorder) Write(p []byte) (int, error)      { return len(p), nil }
func (c *recorder) Close() error                     { return nil }
func (c *recorder) LocalAddr() net.Addr              { return &net.TCPAddr{} }
func (c *recorder) RemoteAddr() net.Addr             { return &net.TCPAddr{} }
func (c *recorder) SetDeadline(time.Time) error      { return nil }
func (c *recorder) SetReadDeadline(time.Time) error  { return nil }
func (c *recorder) SetWriteDeadline(time.Time) error { return nil }

// TLS alerts that a client turns into a readable error.
const (
	alertAccessDenied = 49
	alertInternal     = 80
	alertNoName       = 112 // unrecognized_name
)

func alertRecord(code byte) []byte { return []byte{21, 3, 1, 0, 2, 2, code} }
