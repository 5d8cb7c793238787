package egress

import (
	"bytes"
	"crypto/tls"
	"io"
	"net"
	"testing"
	"testing/iotest"
)

// hello is what a real client sends first.
func hello(tb testing.TB, name string) []byte {
	tb.Helper()
	a, b := net.Pipe()
	go func() {
		_ = tls.Client(a, &tls.Config{ServerName: name, InsecureSkipVerify: true}).Handshake()
		_ = a.Close()
	}() //nolint:gosec // never connects
	head := make([]byte, 5)
	if _, err := io.ReadFull(b, head); err != nil {
		tb.Fatal(err)
	}
	body := make([]byte, int(head[3])<<8|int(head[4]))
	if _, err := io.ReadFull(b, body); err != nil {
		tb.Fatal(err)
	}
	_ = b.Close()
	return append(head, body...)
}

// inRecords cuts the handshake of a hello into small TLS records.
func inRecords(raw []byte, size int) []byte {
	var out []byte
	for body := raw[5:]; len(body) > 0; {
		n := min(size, len(body))
		out = append(out, raw[0], raw[1], raw[2], byte(n>>8), byte(n))
		out = append(out, body[:n]...)
		body = body[n:]
	}
	return out
}

func TestHelloIsReadInAnyPieces(t *testing.T) {
	for _, name := range []string{"good.example", ""} {
		whole := hello(t, name)
		for _, raw := range [][]byte{whole, inRecords(whole, 7), inRecords(whole, 100)} {
			got, seen, err := readHello(iotest.OneByteReader(bytes.NewReader(raw)))
			if err != nil || got != name || !bytes.Equal(seen, raw) {
				t.Errorf("%q: got %q, %v; kept all bytes: %v", name, got, err, bytes.Equal(seen, raw))
			}
		}
		if _, _, err := readHello(bytes.NewReader(whole[:len(whole)-1])); err == nil {
			t.Error("a cut hello was read")
		}
	}
}

func FuzzHello(f *testing.F) {
	whole := hello(f, "good.example")
	f.Add(whole)
	f.Add(inRecords(whole, 9))
	f.Add(hello(f, ""))
	f.Add([]byte{0x16, 3, 1, 0, 0})
	f.Fuzz(func(t *testing.T, raw []byte) {
		_, seen, err := readHello(bytes.NewReader(raw))
		if !bytes.HasPrefix(raw, seen) {
			t.Fatal("the bytes kept are not the bytes read")
		}
		if err == nil && (len(raw) == 0 || raw[0] != recordType) {
			t.Fatal("something else was taken for a hello")
		}
	})
}
