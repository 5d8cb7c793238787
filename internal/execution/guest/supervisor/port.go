package supervisor

import (
	"context"
	"encoding/hex"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"drydock/internal/core"
	"drydock/internal/execution/guest"
)

const dialLimit = 3 * time.Second

// listening reads which TCP ports something listens on.
func listening() []guest.Port {
	out := []guest.Port{}
	for _, name := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		raw, err := os.ReadFile(name)
		if err != nil {
			continue
		}
		out = append(out, parsePorts(string(raw))...)
	}
	slices.SortFunc(out, func(a, b guest.Port) int {
		if a.Port != b.Port {
			return a.Port - b.Port
		}
		return strings.Compare(a.Address, b.Address)
	})
	return slices.Compact(out)
}

// parsePorts reads the kernel's table; state 0A is listening.
func parsePorts(table string) []guest.Port {
	var out []guest.Port
	for line := range strings.Lines(table) {
		f := strings.Fields(line)
		if len(f) < 4 || f[3] != "0A" {
			continue
		}
		host, port, ok := strings.Cut(f[1], ":")
		n, err := strconv.ParseUint(port, 16, 16)
		raw, hexErr := hex.DecodeString(host)
		if !ok || err != nil || hexErr != nil || len(raw) != 4 && len(raw) != 16 {
			continue
		}
		for i := 0; i < len(raw); i += 4 { // words in the byte order of the machine
			slices.Reverse(raw[i : i+4])
		}
		addr, _ := netip.AddrFromSlice(raw)
		out = append(out, guest.Port{Port: int(n), Address: addr.String()})
	}
	return out
}

// dialInside connects to a port on loopback, in either family.
func dialInside(ctx context.Context, port int) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, dialLimit)
	defer cancel()
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err == nil {
		return conn, nil
	}
	if conn, err6 := d.DialContext(ctx, "tcp", net.JoinHostPort("::1", strconv.Itoa(port))); err6 == nil {
		return conn, nil
	}
	return nil, err
}

func portOf(text string) (int, error) {
	port, err := strconv.ParseUint(text, 10, 16)
	if err != nil || port == 0 {
		return 0, core.E("guest.port", core.Invalid, nil, "%q is not a port", clip(text, 40))
	}
	return int(port), nil
}

func (s *Supervisor) reach(w http.ResponseWriter, r *http.Request) {
	port, err := portOf(r.URL.Query().Get("port"))
	if err != nil {
		s.fail(w, err)
		return
	}
	conn, err := dialInside(r.Context(), port)
	if err != nil {
		s.fail(w, core.E("guest.reach", core.Unavailable, err, "nothing answers on port %d", port))
		return
	}
	_ = conn.Close()
	s.reply(w, empty{}, nil)
}

// tunnel joins the connection with a port on loopback, and nothing else.
func (s *Supervisor) tunnel(w http.ResponseWriter, r *http.Request) {
	const op = "guest.tunnel"
	host, portText, err := net.SplitHostPort(r.Host)
	if err != nil || host != "127.0.0.1" {
		s.fail(w, core.E(op, core.Invalid, nil, "%q is not 127.0.0.1 with a port", clip(r.Host, 80)))
		return
	}
	port, err := portOf(portText)
	if err != nil {
		s.fail(w, err)
		return
	}
	inner, err := dialInside(r.Context(), port)
	if err != nil {
		s.fail(w, core.E(op, core.Unavailable, err, "nothing answers on port %d", port))
		return
	}
	outer, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		_ = inner.Close()
		s.fail(w, core.E(op, core.Internal, err, "tunnel"))
		return
	}
	_ = outer.SetDeadline(time.Time{})
	if _, err := outer.Write([]byte("HTTP/1.1 200 OK\r\n\r\n")); err != nil {
		_ = inner.Close()
		_ = outer.Close()
		return
	}
	s.splice(outer, buffered, inner)
}

// splice copies both ways until both are done or the supervisor ends.
func (s *Supervisor) splice(outer net.Conn, buffered io.Reader, inner net.Conn) {
	over := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		select {
		case <-over:
		case <-s.quit:
		}
		_ = outer.Close()
		_ = inner.Close()
	})
	var copies sync.WaitGroup
	copies.Go(func() {
		_, _ = io.Copy(inner, buffered)
		closeWrite(inner)
	})
	copies.Go(func() {
		_, _ = io.Copy(outer, inner)
		closeWrite(outer)
	})
	copies.Wait()
	close(over)
	wg.Wait()
}

func closeWrite(conn net.Conn) {
	if half, ok := conn.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite()
		return
	}
	_ = conn.Close()
}
