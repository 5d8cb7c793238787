package egress

import (
	"crypto/sha256"
	"encoding/binary"
	"net/netip"
	"sync"
)

// names gives every allowed name an address inside the jail. The address is a
// hash of the name, so that it is the same after a restart of the daemon and in
// every copy of a sandbox that a memory image brings back.
type names struct {
	mu     sync.Mutex
	byAddr map[netip.Addr]string
	order  []netip.Addr
}

const (
	namesBase  = 198<<24 | 18<<16 | 1<<8 // 198.18.1.0
	namesCount = 1<<17 - 512             // to the end of 198.18.0.0/15, near enough
	namesKept  = 4096
)

func nthAddr(n uint32) netip.Addr {
	var b [4]byte
	binary.BigEndian.PutUint32(b[:], namesBase+n)
	return netip.AddrFrom4(b)
}

// addr is the address of a name. Two names on one address are told apart by
// trying the next ones.
func (n *names) addr(name string) netip.Addr {
	sum := sha256.Sum256([]byte(name))
	start := binary.BigEndian.Uint32(sum[:4]) % namesCount
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.byAddr == nil {
		n.byAddr = map[netip.Addr]string{}
	}
	for i := range uint32(64) {
		a := nthAddr((start + i) % namesCount)
		switch held, taken := n.byAddr[a]; {
		case taken && held == name:
			return a
		case !taken:
			if len(n.order) >= namesKept {
				delete(n.byAddr, n.order[0])
				n.order = n.order[1:]
			}
			n.byAddr[a] = name
			n.order = append(n.order, a)
			return a
		}
	}
	return nthAddr(start) // 64 neighbours taken: the name in the connection decides
}

// name is what an address was handed out for, or "".
func (n *names) name(a netip.Addr) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.byAddr[a]
}
