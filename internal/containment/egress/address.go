package egress

import (
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"
)

type fault uint8

const (
	faultNone    fault = iota
	faultSpecial       // private or special: only for a rule that means it
	faultNever         // for nobody
)

// never: the machine itself, its neighbours on the wire, metadata services,
// and ranges that wrap an IPv4 address into another form.
var never = prefixes(
	"0.0.0.0/8", "127.0.0.0/8", "169.254.0.0/16", "224.0.0.0/4", "255.255.255.255/32",
	"100.100.100.200/32", "168.63.129.16/32", "192.0.0.192/32", "fd00:ec2::/32",
	"::/96", "::1/128", "::ffff:0:0/96", "64:ff9b::/96", "64:ff9b:1::/48", "2001::/32", "2002::/16",
	"fe80::/10", "fec0::/10", "ff00::/8",
)

// special: private use, shared, documentation, benchmarking, reserved.
var special = prefixes(
	"10.0.0.0/8", "100.64.0.0/10", "172.16.0.0/12", "192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24",
	"192.168.0.0/16", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24", "240.0.0.0/4",
	"100::/64", "2001::/23", "2001:db8::/32", "3fff::/20", "5f00::/16", "fc00::/7",
)

func prefixes(texts ...string) []netip.Prefix {
	out := make([]netip.Prefix, len(texts))
	for i, t := range texts {
		out[i] = netip.MustParsePrefix(t)
	}
	return out
}

func within(list []netip.Prefix, a netip.Addr) bool {
	return slices.ContainsFunc(list, func(p netip.Prefix) bool { return p.Contains(a) })
}

// addressFault judges an address by itself.
func addressFault(a netip.Addr) fault {
	a = a.Unmap().WithZone("")
	switch {
	case !a.IsValid() || within(never, a):
		return faultNever
	case within(special, a):
		return faultSpecial
	case a.Is6() && !netip.MustParsePrefix("2000::/3").Contains(a):
		return faultNever // not assigned to anybody
	}
	return faultNone
}

// ownAddresses knows the host's addresses, re-read now and then.
type ownAddresses struct {
	list func() ([]net.Addr, error)

	mu    sync.Mutex
	until time.Time
	addrs []netip.Addr
	err   error
}

const ownFresh = 5 * time.Second

// has says whether a is one of the host's own. When that cannot be found out,
// it says yes.
func (o *ownAddresses) has(a netip.Addr) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if now := time.Now(); now.After(o.until) {
		var all []net.Addr
		all, o.err = o.list()
		o.addrs = o.addrs[:0]
		for _, x := range all {
			if p, err := netip.ParsePrefix(x.String()); err == nil {
				o.addrs = append(o.addrs, p.Addr().Unmap())
			}
		}
		o.until = now.Add(ownFresh)
	}
	return o.err != nil || slices.Contains(o.addrs, a.Unmap().WithZone(""))
}
