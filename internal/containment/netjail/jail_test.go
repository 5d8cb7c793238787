package netjail

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"drydock/internal/core"
	"drydock/internal/testkit/need"
)

// sharedRun is where instances of one machine see each other's claims.
const sharedRun = "/run/drydock"

// openJail opens a jail of its own that must leave nothing on the host.
func openJail(t *testing.T, runDir, stateDir string) *Jail {
	t.Helper()
	need.Root(t)
	need.Program(t, "nft")
	j, err := Open(t.Context(), Deps{Log: slog.New(slog.DiscardHandler)}, Options{StateDir: stateDir, RunDir: runDir})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := j.Teardown(context.Background()); err != nil {
			t.Errorf("teardown: %v", err)
		}
		nothingLeft(t, j.Instance(), runDir)
	})
	return j
}

// nothingLeft looks for traces of an instance.
func nothingLeft(t *testing.T, instance, runDir string) {
	t.Helper()
	if _, err := netlink.LinkByName(uplinkOf(instance)); !isMissing(err) {
		t.Errorf("the uplink %s is left (%v)", uplinkOf(instance), err)
	}
	if found, _ := filepath.Glob(filepath.Join(runDir, "netns", instance+".*")); len(found) > 0 {
		t.Errorf("namespaces are left: %v", found)
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	if slices.Contains(slices.Collect(func(yield func(bool) bool) { yield(containsBytes(mounts, instance+".")) }), true) {
		t.Errorf("mounts of instance %s are left", instance)
	}
}

func containsBytes(b []byte, s string) bool {
	for i := 0; i+len(s) <= len(b); i++ {
		if string(b[i:i+len(s)]) == s {
			return true
		}
	}
	return false
}

func attach(t *testing.T, j *Jail, g Grant) Member {
	t.Helper()
	m, err := j.Attach(t.Context(), core.NewSandboxID(), g, nil)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func online(direct ...string) Grant {
	g := Grant{Policy: &core.NetworkPolicy{}}
	for _, d := range direct {
		g.Direct = append(g.Direct, netip.MustParseAddrPort(d))
	}
	return g
}

// inside runs fn in the namespace of a member.
func inside(t *testing.T, j *Jail, m Member, fn func() error) error {
	t.Helper()
	ns, err := openNamespace(j.Namespace(m.ID))
	if err != nil {
		t.Fatal(err)
	}
	defer ns.Close()
	return inNamespace(int(ns.Fd()), fn)
}

// knock opens TCP from inside a member and says how it ended.
func knock(t *testing.T, j *Jail, m Member, to string) error {
	t.Helper()
	return inside(t, j, m, func() error {
		c, err := (&net.Dialer{Timeout: 3 * time.Second}).Dial("tcp4", to)
		if err == nil {
			_ = c.Close()
		}
		return err
	})
}

// echoListeners accept and answer with where the caller wanted to go.
func echoListeners(t *testing.T, j *Jail) {
	t.Helper()
	l, err := j.Listen(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	t.Cleanup(func() { _ = l.Close(); wg.Wait() })
	for name, s := range map[string]net.Listener{"dns": l.DNSStream, "explicit": l.Explicit, "transparent": l.Transparent} {
		wg.Go(func() {
			for {
				c, err := s.Accept()
				if err != nil {
					return
				}
				dst, err := OriginalDestination(c)
				src, _ := netip.ParseAddrPort(c.RemoteAddr().String())
				m, ok := j.Caller(src.Addr())
				fmt.Fprintf(c, "%s %s %v %s %v", name, dst, err, m.ID, ok)
				_ = c.Close()
			}
		})
	}
	wg.Go(func() {
		buf := make([]byte, 512)
		for {
			n, from, err := l.DNS.ReadFrom(buf)
			if err != nil {
				return
			}
			_, _ = l.DNS.WriteTo(buf[:n], from)
		}
	})
}

func readAll(t *testing.T, j *Jail, m Member, to string) string {
	t.Helper()
	var got []byte
	err := inside(t, j, m, func() error {
		c, err := (&net.Dialer{Timeout: 3 * time.Second}).Dial("tcp4", to)
		if err != nil {
			return err
		}
		defer c.Close()
		got, err = io.ReadAll(c)
		return err
	})
	if err != nil {
		t.Errorf("%s: %v", to, err)
	}
	return string(got)
}

func TestSandboxReachesOnlyTheListeners(t *testing.T) {
	j := openJail(t, sharedRun, t.TempDir())
	echoListeners(t, j)
	m := attach(t, j, online("192.0.2.77:8443"))

	for to, want := range map[string]string{
		"198.18.0.1:3128": "explicit 198.18.0.1:3128",
		"198.18.0.1:53":   "dns 198.18.0.1:53",
		"198.18.7.9:443":  "transparent 198.18.7.9:443",
		"198.19.255.1:22": "transparent 198.19.255.1:22",
		"192.0.2.77:8443": "transparent 192.0.2.77:8443", // named by the policy
	} {
		if got := readAll(t, j, m, to); got != fmt.Sprintf("%s <nil> %s true", want, m.ID) {
			t.Errorf("%s answered %q", to, got)
		}
	}
	udp := inside(t, j, m, func() error {
		c, err := net.Dial("udp4", "198.18.0.1:53")
		if err != nil {
			return err
		}
		defer c.Close()
		_ = c.SetDeadline(time.Now().Add(3 * time.Second))
		_, _ = c.Write([]byte("hello"))
		buf := make([]byte, 16)
		n, err := c.Read(buf)
		if err == nil && string(buf[:n]) != "hello" {
			err = fmt.Errorf("answer %q", buf[:n])
		}
		return err
	})
	if udp != nil {
		t.Errorf("resolver over UDP: %v", udp)
	}
}

// TestNothingElseIsReachable walks the ways out that sandboxes are known to
// try. Every one is refused at once, not left hanging.
func TestNothingElseIsReachable(t *testing.T) {
	j := openJail(t, sharedRun, t.TempDir())
	echoListeners(t, j)
	m := attach(t, j, online("192.0.2.77:8443"))
	other := attach(t, j, online())
	host := hostListener(t)

	targets := []string{
		"8.8.8.8:53", "8.8.8.8:853", "8.8.8.8:443", // DNS, DoT, DoH elsewhere
		"169.254.169.254:80", "100.100.100.200:80", // metadata
		"10.0.0.1:80", "172.16.0.1:80", "192.168.1.1:80", "100.64.0.1:80", "203.0.113.80:443",
		"192.0.2.77:443",                                    // named, but with another port
		"198.18.0.1:22", "198.18.0.1:3129", "198.18.0.1:80", // no such service
		j.claim.block.host().String() + ":22",     // the host's end of the uplink
		j.claim.block.router().String() + ":3128", // the router itself
		j.claim.block.gateway(m.Slot).String() + ":3128",
		j.claim.block.gateway(m.Slot).String() + ":53",
		other.Address.String() + ":80",
	}
	targets = append(targets, host...)
	for _, to := range targets {
		start := time.Now()
		err := knock(t, j, m, to)
		if !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("%s: %v, want refused", to, err)
		}
		if d := time.Since(start); d > time.Second {
			t.Errorf("%s: refused only after %s", to, d)
		}
	}
	for _, to := range []string{"8.8.8.8:53", "198.18.7.9:443", other.Address.String() + ":53"} {
		err := inside(t, j, m, func() error {
			c, err := net.Dial("udp4", to)
			if err != nil {
				return err
			}
			defer c.Close()
			_ = c.SetDeadline(time.Now().Add(2 * time.Second))
			if _, err := c.Write([]byte("x")); err != nil {
				return err
			}
			_, err = c.Read(make([]byte, 1))
			return err
		})
		if err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("udp %s: %v, want a quick refusal", to, err)
		}
	}
}

// hostListener listens on every address of the host and returns what a
// sandbox would dial.
func hostListener(t *testing.T) []string {
	t.Helper()
	l, err := net.Listen("tcp4", "0.0.0.0:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	port := l.Addr().(*net.TCPAddr).Port
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, a := range addrs {
		ip := a.(*net.IPNet).IP.To4()
		if ip != nil && !ip.IsLoopback() {
			out = append(out, fmt.Sprintf("%s:%d", ip, port))
		}
	}
	return out
}

func TestNilPolicyLetsNothingOut(t *testing.T) {
	j := openJail(t, sharedRun, t.TempDir())
	echoListeners(t, j)
	m := attach(t, j, Grant{})
	for _, to := range []string{"198.18.0.1:3128", "198.18.0.1:53", "198.18.7.9:443", "8.8.8.8:443"} {
		if err := knock(t, j, m, to); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("%s: %v, want refused", to, err)
		}
	}
	// A grant that comes and goes works at once.
	if _, err := j.SetGrant(t.Context(), m.ID, online()); err != nil {
		t.Fatal(err)
	}
	if err := knock(t, j, m, "198.18.0.1:3128"); err != nil {
		t.Errorf("after a policy was set: %v", err)
	}
	if _, err := j.SetGrant(t.Context(), m.ID, Grant{}); err != nil {
		t.Fatal(err)
	}
	if err := knock(t, j, m, "198.18.0.1:3128"); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("after the policy was taken: %v, want refused", err)
	}
}

func TestHostReachesTheSandbox(t *testing.T) {
	j := openJail(t, sharedRun, t.TempDir())
	m := attach(t, j, Grant{})
	var l net.Listener
	err := inside(t, j, m, func() (err error) { l, err = net.Listen("tcp4", m.Address.String()+":7000"); return })
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		c, err := l.Accept()
		if err == nil {
			_, _ = c.Write([]byte("here"))
			_ = c.Close()
		}
	}()
	c, err := net.DialTimeout("tcp4", m.Address.String()+":7000", 3*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	got, err := io.ReadAll(c)
	if string(got) != "here" {
		t.Errorf("read %q, %v", got, err)
	}
}

// TestForgedPacketsAreDropped sends from another sandbox's address, by raw
// socket, and pings.
func TestForgedPacketsAreDropped(t *testing.T) {
	j := openJail(t, sharedRun, t.TempDir())
	echoListeners(t, j)
	m := attach(t, j, Grant{})
	victim := attach(t, j, online())
	for _, to := range []netip.Addr{Service, j.claim.block.gateway(m.Slot), victim.Address, netip.MustParseAddr("8.8.8.8")} {
		if err := ping(t, j, m, to); err == nil {
			t.Errorf("%s answers a ping", to)
		}
	}
	err := inside(t, j, m, func() error {
		link, err := netlink.LinkByName(sandboxName)
		if err != nil {
			return err
		}
		return netlink.AddrAdd(link, &netlink.Addr{IPNet: ipnet(victim.Address, 32)})
	})
	if err != nil {
		t.Fatal(err)
	}
	err = inside(t, j, m, func() error {
		d := net.Dialer{Timeout: 500 * time.Millisecond, LocalAddr: &net.TCPAddr{IP: victim.Address.AsSlice()}}
		c, err := d.Dial("tcp4", "198.18.0.1:3128")
		if err == nil {
			_ = c.Close()
		}
		return err
	})
	if err == nil {
		t.Error("a forged source address got through")
	}
}

func ping(t *testing.T, j *Jail, m Member, to netip.Addr) error {
	t.Helper()
	return inside(t, j, m, func() error {
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_ICMP)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		tv := unix.Timeval{Usec: 300_000}
		if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &tv); err != nil {
			return err
		}
		echo := []byte{8, 0, 0xf7, 0xfe, 0, 1, 0, 0}
		if err := unix.Sendto(fd, echo, 0, &unix.SockaddrInet4{Addr: to.As4()}); err != nil {
			return err
		}
		buf := make([]byte, 256)
		for {
			n, _, err := unix.Recvfrom(fd, buf, 0)
			if err != nil {
				return err
			}
			if n >= 21 && buf[20] == 0 {
				return nil
			}
		}
	})
}

func TestRefusalsAreReported(t *testing.T) {
	j := openJail(t, sharedRun, t.TempDir())
	m := attach(t, j, online())
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	_ = knock(t, j, m, "192.168.77.1:22")
	var got Refusal
	j.Watch(ctx, 20*time.Millisecond, func(r Refusal) { got = r; cancel() })
	want := Refusal{Sandbox: m.ID, To: netip.MustParseAddrPort("192.168.77.1:22"), Packets: got.Packets}
	if got != want || got.Packets == 0 {
		t.Errorf("reported %+v, want %+v", got, want)
	}
}

// TestRestartKeepsTheLiving closes the jail as a stopped daemon does, opens it
// again and finds addresses, rules and policies as they were.
func TestRestartKeepsTheLiving(t *testing.T) {
	run, state := sharedRun, t.TempDir()
	first := openJail(t, run, state)
	keep := attach(t, first, online("192.0.2.77:8443"))
	gone := attach(t, first, online())
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	second := openJail(t, run, state)
	if second.Instance() != first.Instance() || second.Block() != first.Block() {
		t.Errorf("instance %s at %s became %s at %s", first.Instance(), first.Block(), second.Instance(), second.Block())
	}
	echoListeners(t, second)
	never := core.NewSandboxID()
	lost, err := second.Recover(t.Context(), []core.SandboxID{keep.ID, never})
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(lost, []core.SandboxID{never}) {
		t.Errorf("lost %v, want %v", lost, never)
	}
	if left, _ := second.List(t.Context()); !slices.Equal(left, []core.SandboxID{keep.ID}) {
		t.Errorf("left %v, want %v without %v", left, keep.ID, gone.ID)
	}
	if got := readAll(t, second, keep, "192.0.2.77:8443"); got == "" {
		t.Error("the kept sandbox lost its policy")
	}
	again, err := second.Attach(t.Context(), keep.ID, online(), nil)
	if err != nil || again.Address != keep.Address {
		t.Errorf("attach again: %v %v, want address %s", again, err, keep.Address)
	}
}

func TestDetachIsIdempotentAndAttachAfterwardsIsFresh(t *testing.T) {
	j := openJail(t, sharedRun, t.TempDir())
	m := attach(t, j, online())
	for range 2 {
		if err := j.Detach(t.Context(), m.ID); err != nil {
			t.Fatal(err)
		}
	}
	again, err := j.Attach(t.Context(), m.ID, online(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if again.Slot == m.Slot {
		t.Errorf("slot %d was used again at once", m.Slot)
	}
}

func TestTwoInstancesDoNotShareABlock(t *testing.T) {
	run := sharedRun
	a, b := openJail(t, run, t.TempDir()), openJail(t, run, t.TempDir())
	if a.Block().Overlaps(b.Block()) {
		t.Errorf("both have %s", a.Block())
	}
}

func TestVanishedInstanceIsSwept(t *testing.T) {
	run, state := t.TempDir(), filepath.Join(t.TempDir(), "state")
	j, err := Open(t.Context(), Deps{Log: slog.New(slog.DiscardHandler)}, Options{StateDir: state, RunDir: run})
	if err != nil {
		need.Root(t)
		t.Fatal(err)
	}
	attach(t, j, online())
	if err := j.shut(); err != nil { // as a kill does
		t.Fatal(err)
	}
	if err := os.RemoveAll(state); err != nil {
		t.Fatal(err)
	}
	openJail(t, run, t.TempDir())
	nothingLeft(t, j.Instance(), run)
}

// TestKilledHalfway makes every state that a kill during Attach can leave, and
// expects Recover to clear it and a second Attach to succeed.
func TestKilledHalfway(t *testing.T) {
	for _, reached := range []string{"record", "namespace file", "namespace", "wire", "all"} {
		t.Run(reached, func(t *testing.T) {
			state := t.TempDir()
			j := openJail(t, sharedRun, state)
			m, err := j.reserve(core.NewSandboxID(), online())
			if err != nil {
				t.Fatal(err)
			}
			path := j.Namespace(m.ID)
			switch reached {
			case "namespace file":
				err = os.WriteFile(path, nil, 0o600)
			case "namespace", "wire":
				var ns *os.File
				if ns, err = makeNamespace(path, sandboxSetup); err == nil && reached == "wire" {
					err = plugSandbox(j.router, int(ns.Fd()), m, j.claim.block.gateway(m.Slot))
				}
				_ = ns.Close()
			case "all":
				err = j.build(m)
			}
			if err != nil {
				t.Fatal(err)
			}
			if err := j.shut(); err != nil { // as a kill does
				t.Fatal(err)
			}
			j.closed = true
			again := openJail(t, sharedRun, state)
			if lost, err := again.Recover(t.Context(), []core.SandboxID{m.ID}); err != nil || (len(lost) == 1) != (reached != "all" && reached != "wire") {
				t.Errorf("as living: lost %v, %v", lost, err)
			}
			if _, err := again.Attach(t.Context(), m.ID, online(), nil); err != nil {
				t.Errorf("attach again: %v", err)
			}
			if _, err := again.Recover(t.Context(), nil); err != nil {
				t.Error(err)
			}
			if left, err := again.List(t.Context()); len(left) > 0 || err != nil {
				t.Errorf("left %v, %v", left, err)
			}
		})
	}
}

func TestManyAtOnce(t *testing.T) {
	j := openJail(t, sharedRun, t.TempDir())
	var wg sync.WaitGroup
	for range 30 {
		wg.Go(func() {
			m, err := j.Attach(t.Context(), core.NewSandboxID(), online(), nil)
			if err == nil {
				err = j.Detach(t.Context(), m.ID)
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
}

func TestMissingNftMeansNoNetwork(t *testing.T) {
	_, err := Open(t.Context(), Deps{Log: slog.New(slog.DiscardHandler)},
		Options{StateDir: t.TempDir(), RunDir: t.TempDir(), NFT: "no-such-nft"})
	if !core.Is(err, core.Unavailable) {
		t.Errorf("got %v", err)
	}
}

func BenchmarkAttachDetach(b *testing.B) {
	need.Root(b)
	j, err := Open(b.Context(), Deps{Log: slog.New(slog.DiscardHandler)}, Options{StateDir: b.TempDir(), RunDir: sharedRun})
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = j.Teardown(context.Background()) }()
	var attached time.Duration
	for b.Loop() {
		id := core.NewSandboxID()
		start := time.Now()
		if _, err := j.Attach(b.Context(), id, online(), nil); err != nil {
			b.Fatal(err)
		}
		attached += time.Since(start)
		if err := j.Detach(b.Context(), id); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(attached.Milliseconds())/float64(b.N), "ms/attach")
}
