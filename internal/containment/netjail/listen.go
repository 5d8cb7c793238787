package netjail

import (
	"context"
	"encoding/binary"
	"errors"
	"net"
	"net/netip"
	"os"
	"strconv"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"drydock/internal/core"
)

// Listeners are sockets inside the router namespace, reachable by sandboxes
// alone.
type Listeners struct {
	DNS         net.PacketConn
	DNSStream   net.Listener
	Explicit    net.Listener
	Transparent net.Listener
}

// Close closes all that are open.
func (l Listeners) Close() error {
	var err error
	if l.DNS != nil {
		err = errors.Join(err, l.DNS.Close())
	}
	for _, s := range []net.Listener{l.DNSStream, l.Explicit, l.Transparent} {
		if s != nil {
			err = errors.Join(err, s.Close())
		}
	}
	return err
}

// Listen opens the listeners.
func (j *Jail) Listen(ctx context.Context) (Listeners, error) {
	var out Listeners
	err := inNamespace(int(j.routerNS.Fd()), func() error {
		var lc net.ListenConfig
		var err error
		if out.DNS, err = lc.ListenPacket(ctx, "udp4", ":"+strconv.Itoa(portDNS)); err != nil {
			return err
		}
		for port, into := range map[int]*net.Listener{
			portDNS: &out.DNSStream, portExplicit: &out.Explicit, portTransparent: &out.Transparent,
		} {
			if *into, err = lc.Listen(ctx, "tcp4", ":"+strconv.Itoa(port)); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		_ = out.Close()
		return Listeners{}, core.E("netjail.listen", core.Unavailable, err, "listen inside the router namespace")
	}
	return out, nil
}

// OriginalDestination tells where a connection to the transparent proxy was
// really going.
func OriginalDestination(c net.Conn) (netip.AddrPort, error) {
	sc, ok := c.(syscall.Conn)
	if !ok {
		return netip.AddrPort{}, core.E("netjail.destination", core.Internal, nil, "%T is not a socket", c)
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return netip.AddrPort{}, err
	}
	var dst unix.RawSockaddrInet4
	var sysErr error
	err = raw.Control(func(fd uintptr) {
		size := uint32(unsafe.Sizeof(dst))
		const soOriginalDst = 80
		_, _, errno := unix.Syscall6(unix.SYS_GETSOCKOPT, fd, unix.SOL_IP, soOriginalDst,
			uintptr(unsafe.Pointer(&dst)), uintptr(unsafe.Pointer(&size)), 0)
		if errno != 0 {
			sysErr = os.NewSyscallError("getsockopt", errno)
		}
	})
	if err := errors.Join(err, sysErr); err != nil {
		return netip.AddrPort{}, err
	}
	var port [2]byte
	binary.NativeEndian.PutUint16(port[:], dst.Port)
	return netip.AddrPortFrom(netip.AddrFrom4(dst.Addr), binary.BigEndian.Uint16(port[:])), nil
}

// Refusal is traffic the rules turned away, counted since the last report.
type Refusal struct {
	Sandbox core.SandboxID
	To      netip.AddrPort
	UDP     bool
	Packets uint64
}

// Watch reports refusals every so often until ctx ends. It owns no goroutine;
// the caller runs it in one.
func (j *Jail) Watch(ctx context.Context, every time.Duration, report func(Refusal)) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	seen := map[string]uint64{}
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		j.mu.Lock()
		idle := len(j.members) == 0 || j.closed
		j.mu.Unlock()
		if idle {
			continue
		}
		j.tableMu.Lock()
		els, err := j.table.conn.GetSetElements(j.table.refused)
		j.tableMu.Unlock()
		if err != nil {
			j.log.Warn("could not read refused traffic", "error", err)
			continue
		}
		now := make(map[string]uint64, len(els))
		for _, e := range els {
			if e.Counter == nil {
				continue
			}
			key := string(e.Key)
			now[key] = e.Counter.Packets
			if fresh := e.Counter.Packets - min(seen[key], e.Counter.Packets); fresh > 0 {
				if r, ok := j.refusal(e.Key, fresh); ok {
					report(r)
				}
			}
		}
		seen = now
	}
}

// refusal reads a key of the set "refused": interface, address, protocol,
// port.
func (j *Jail) refusal(key []byte, packets uint64) (Refusal, bool) {
	const size = 16 + 4 + 4 + 4
	if len(key) < size {
		return Refusal{}, false
	}
	name := string(key[:16])
	for i, c := range name {
		if c == 0 {
			name = name[:i]
			break
		}
	}
	to := netip.AddrPortFrom(netip.AddrFrom4([4]byte(key[16:20])), binary.BigEndian.Uint16(key[24:26]))
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, m := range j.members {
		if ifname(m.Slot) == name {
			return Refusal{Sandbox: m.ID, To: to, UDP: key[20] == unix.IPPROTO_UDP, Packets: packets}, true
		}
	}
	return Refusal{}, false
}
