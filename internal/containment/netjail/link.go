package netjail

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strconv"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// Names of interfaces. Those in namespaces need to be unique there only.
const (
	uplinkName  = "up"
	sandboxName = "eth0"
)

func ifname(slot int) string { return "s" + strconv.Itoa(slot) }

// routerSysctls make the router strict before anything is plugged into it.
func routerSysctls() error {
	return setSysctls([][2]string{
		{"ipv6/conf/all/disable_ipv6", "1"},
		{"ipv6/conf/default/disable_ipv6", "1"},
		{"ipv4/ip_forward", "1"}, // of this namespace alone: from the uplink to the sandboxes
		{"ipv4/conf/all/rp_filter", "1"},
		{"ipv4/conf/default/rp_filter", "1"},
		{"ipv4/conf/all/arp_ignore", "1"},
		{"ipv4/conf/all/arp_announce", "2"},
		{"ipv4/conf/all/send_redirects", "0"},
		{"ipv4/conf/default/send_redirects", "0"},
		{"ipv4/conf/all/accept_redirects", "0"},
		{"ipv4/conf/default/accept_redirects", "0"},
		{"ipv4/conf/all/route_localnet", "0"},
		{"ipv4/icmp_echo_ignore_all", "1"},
	})
}

// sandboxSetup runs inside a sandbox's new namespace. The loopback device
// keeps ::1, which programs expect; nothing else has IPv6.
func sandboxSetup() error {
	if err := setSysctls([][2]string{{"ipv6/conf/default/disable_ipv6", "1"}}); err != nil {
		return err
	}
	return loopbackUp()
}

func loopbackUp() error {
	lo, err := netlink.LinkByName("lo")
	if err != nil {
		return err
	}
	return netlink.LinkSetUp(lo)
}

func ipnet(a netip.Addr, bits int) *net.IPNet {
	return &net.IPNet{IP: a.AsSlice(), Mask: net.CIDRMask(bits, 32)}
}

// handleAt is a netlink handle that works in the namespace fd.
func handleAt(fd int) (*netlink.Handle, error) {
	return netlink.NewHandleAt(netns.NsHandle(fd), unix.NETLINK_ROUTE)
}

// address gives a link of h an address and switches it on.
func address(h *netlink.Handle, name string, a netip.Addr, bits int) (netlink.Link, error) {
	link, err := h.LinkByName(name)
	if err != nil {
		return nil, fmt.Errorf("interface %s: %w", name, err)
	}
	if err := h.AddrAdd(link, &netlink.Addr{IPNet: ipnet(a, bits)}); err != nil && !errors.Is(err, unix.EEXIST) {
		return nil, fmt.Errorf("address %s on %s: %w", a, name, err)
	}
	if err := h.LinkSetUp(link); err != nil {
		return nil, fmt.Errorf("switch %s on: %w", name, err)
	}
	return link, nil
}

// plugUplink joins host and router, or completes what an earlier process
// began. host and router are the addresses of its two ends.
func plugUplink(routerFd int, name string, b block) error {
	h, err := netlink.NewHandle(unix.NETLINK_ROUTE)
	if err != nil {
		return err
	}
	defer h.Close()
	veth := &netlink.Veth{
		LinkAttrs: netlink.LinkAttrs{Name: name}, PeerName: uplinkName, PeerNamespace: netlink.NsFd(routerFd),
	}
	if err := h.LinkAdd(veth); err != nil && !errors.Is(err, unix.EEXIST) {
		return fmt.Errorf("make the uplink %s: %w", name, err)
	}
	// Not fatal: without IPv6 in the kernel the file is missing.
	_ = os.WriteFile("/proc/sys/net/ipv6/conf/"+name+"/disable_ipv6", []byte("1"), 0)
	host, err := address(h, name, b.host(), 30)
	if err != nil {
		return err
	}
	r, err := handleAt(routerFd)
	if err != nil {
		return err
	}
	defer r.Close()
	if _, err := address(r, uplinkName, b.router(), 30); err != nil {
		return err
	}
	route := &netlink.Route{
		LinkIndex: host.Attrs().Index, Dst: ipnet(b.prefix.Addr(), b.prefix.Bits()), Gw: b.router().AsSlice(), Src: b.host().AsSlice(),
	}
	if err := h.RouteReplace(route); err != nil {
		return fmt.Errorf("route %s to the sandboxes: %w", b.prefix, err)
	}
	return nil
}

// unplugUplink removes the host's end, and with it the router's.
func unplugUplink(name string) error {
	link, err := netlink.LinkByName(name)
	if isMissing(err) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := netlink.LinkDel(link); err != nil && !isMissing(err) {
		return fmt.Errorf("remove the uplink %s: %w", name, err)
	}
	return nil
}

func isMissing(err error) bool {
	var notFound netlink.LinkNotFoundError
	return errors.As(err, &notFound) || errors.Is(err, unix.ENODEV)
}

// plugSandbox joins a sandbox's namespace to the router.
func plugSandbox(router *netlink.Handle, sandboxFd int, m *Member, gateway netip.Addr) error {
	veth := &netlink.Veth{
		LinkAttrs: netlink.LinkAttrs{Name: ifname(m.Slot)}, PeerName: sandboxName, PeerNamespace: netlink.NsFd(sandboxFd),
	}
	if err := router.LinkAdd(veth); err != nil {
		return fmt.Errorf("make the interface %s: %w", veth.Name, err)
	}
	if _, err := address(router, veth.Name, gateway, 30); err != nil {
		return err
	}
	if err := addressSandbox(sandboxFd, m, gateway); err != nil {
		return err
	}
	return waitUp(router, veth.Name)
}

// addressSandbox gives the sandbox's end its address and its way out.
func addressSandbox(sandboxFd int, m *Member, gateway netip.Addr) error {
	s, err := handleAt(sandboxFd)
	if err != nil {
		return err
	}
	defer s.Close()
	link, err := address(s, sandboxName, m.Address, 30)
	if err != nil {
		return err
	}
	route := &netlink.Route{LinkIndex: link.Attrs().Index, Gw: gateway.AsSlice()}
	if err := s.RouteReplace(route); err != nil {
		return fmt.Errorf("default route of the sandbox: %w", err)
	}
	return waitUp(s, sandboxName)
}

// waitUp waits until the kernel has noticed that a wire carries: what is sent
// before that is lost, and TCP sends again only after a second.
func waitUp(h *netlink.Handle, name string) error {
	for deadline := time.Now().Add(2 * time.Second); ; pause(time.Millisecond) {
		link, err := h.LinkByName(name)
		if err != nil {
			return err
		}
		if link.Attrs().OperState == netlink.OperUp {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("interface %s stays %s", name, link.Attrs().OperState)
		}
	}
}

// unplugSandbox removes the router's end, and with it the sandbox's.
func unplugSandbox(router *netlink.Handle, slot int) error {
	link, err := router.LinkByName(ifname(slot))
	if isMissing(err) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := router.LinkDel(link); err != nil && !isMissing(err) {
		return fmt.Errorf("remove the interface %s: %w", ifname(slot), err)
	}
	return nil
}
