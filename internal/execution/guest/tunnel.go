package guest

import (
	"bufio"
	"io"
	"net"
	"net/http"
)

// connReader is a connection of which a few bytes may have been read already.
type connReader struct {
	net.Conn
	buffered *bufio.Reader
}

func (c *connReader) Read(p []byte) (int, error) { return c.buffered.Read(p) }

// CloseWrite says that nothing more will be sent.
func (c *connReader) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}

// limitConn bounds what the head of an answer may take.
type limitConn struct {
	net.Conn
	left int
}

func (l *limitConn) Read(p []byte) (int, error) {
	if l.left <= 0 {
		return 0, io.ErrUnexpectedEOF
	}
	n, err := l.Conn.Read(p[:min(len(p), l.left)])
	l.left -= n
	return n, err
}

func readConnect(op string, conn net.Conn) (*connReader, error) {
	limited := &limitConn{Conn: conn, left: 16 << 10}
	buffered := bufio.NewReader(limited)
	resp, err := http.ReadResponse(buffered, &http.Request{Method: http.MethodConnect})
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }() // an answer to CONNECT has none: this leaves the connection alone
	if resp.StatusCode != http.StatusOK {
		return nil, readError(op, resp)
	}
	limited.left = int(^uint(0) >> 1)
	return &connReader{Conn: conn, buffered: buffered}, nil
}
