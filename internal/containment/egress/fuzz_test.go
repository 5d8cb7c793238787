package egress

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"sync"
	"testing"
	"time"

	"drydock/internal/core"
)

// fakeConn is a connection over a pipe that seems to come from the sandbox.
type fakeConn struct{ net.Conn }

func (fakeConn) RemoteAddr() net.Addr {
	return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1}
}

// FuzzProxy sends anything to the proxies. Whatever it is, nothing but the one
// allowed address may be dialled.
func FuzzProxy(f *testing.F) {
	for _, s := range []string{
		"CONNECT good.example:443 HTTP/1.1\r\nHost: good.example:443\r\n\r\n\x16\x03\x01",
		"GET http://good.example/ HTTP/1.1\r\nHost: other.example\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: good.example\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET / HTTP/1.1\r\nHost: evil.test\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: good.example\r\nHost: evil.test\r\n\r\n", "GET //evil.test/ HTTP/1.0\r\n\r\n",
		"POST http://good.example:80@evil.test/ HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello", "CONNECT [::1]:443 HTTP/1.1\r\n\r\n",
	} {
		f.Add([]byte(s), true)
		f.Add([]byte(s), false)
	}
	var mu sync.Mutex
	var bad []string
	w := &world{id: core.NewSandboxID(), names: map[string]string{"good.example": "93.184.216.34", "evil.test": "93.184.216.35"}}
	s := New(Deps{
		Resolver: w, OwnAddrs: func() ([]net.Addr, error) { return nil, nil },
		Where: func(net.Conn) (netip.AddrPort, error) { return netip.MustParseAddrPort("198.18.9.9:80"), nil },
		Dial: func(_ context.Context, _, address string) (net.Conn, error) {
			if address != "93.184.216.34:80" && address != "93.184.216.34:443" {
				mu.Lock()
				bad = append(bad, address)
				mu.Unlock()
			}
			return nil, errors.New("closed")
		},
	}, Options{})
	policy, _ := Compile(&core.NetworkPolicy{Allow: []string{"good.example"}}, nil)
	s.Set(w.id, sandboxAddr, policy)
	explicit, transparent := newHandoff(), newHandoff()
	packets, err := net.ListenPacket("udp4", "127.0.0.1:0")
	if err != nil {
		f.Fatal(err)
	}
	s.Serve(Listeners{DNS: packets, DNSStream: newHandoff(), Explicit: explicit, Transparent: transparent})
	f.Cleanup(func() { _ = s.Close() })
	f.Fuzz(func(t *testing.T, raw []byte, captured bool) {
		near, far := net.Pipe()
		l := explicit
		if captured {
			l = transparent
		}
		l.give(fakeConn{far})
		go func() { _, _ = near.Write(raw); _ = near.Close() }()
		_ = near.SetReadDeadline(time.Now().Add(2 * time.Second))
		_, _ = io.Copy(io.Discard, near)
		mu.Lock()
		defer mu.Unlock()
		if len(bad) > 0 {
			t.Fatalf("dialled %v", bad)
		}
	})
}
