package netjail

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"drydock/internal/core"
)

// blockBits is the size of what one instance takes out of a range: 1024 times
// four addresses, the first four for the uplink.
const (
	blockBits = 20
	slots     = 1 << (32 - blockBits - 2)
)

// DefaultRanges are tried in order; whatever the host already routes is left
// alone.
func DefaultRanges() []netip.Prefix {
	return []netip.Prefix{
		netip.MustParsePrefix("10.213.0.0/16"),
		netip.MustParsePrefix("172.29.0.0/16"),
		netip.MustParsePrefix("100.112.0.0/14"),
	}
}

// block is the addresses of one instance.
type block struct{ prefix netip.Prefix }

func (b block) at(n uint32) netip.Addr {
	a := b.prefix.Addr().As4()
	v := uint32(a[0])<<24 | uint32(a[1])<<16 | uint32(a[2])<<8 | uint32(a[3])
	v += n
	return netip.AddrFrom4([4]byte{byte(v >> 24), byte(v >> 16), byte(v >> 8), byte(v)})
}

func (b block) host() netip.Addr            { return b.at(1) }
func (b block) router() netip.Addr          { return b.at(2) }
func (b block) gateway(slot int) netip.Addr { return b.at(uint32(slot)*4 + 1) }
func (b block) sandbox(slot int) netip.Addr { return b.at(uint32(slot)*4 + 2) }

// claim is a block, held as long as the file stays open. Its text says whose
// it is, so that a later daemon can sweep up after one that is gone for good.
type claim struct {
	file  *os.File
	path  string
	block block
}

type claimText struct {
	Instance string `json:"instance"`
	StateDir string `json:"state_dir"`
}

func claimPath(dir string, p netip.Prefix) string {
	return filepath.Join(dir, fmt.Sprintf("%s_%d.lock", p.Addr(), p.Bits()))
}

func claimPrefix(name string) (netip.Prefix, bool) {
	s, ok := strings.CutSuffix(name, ".lock")
	if !ok {
		return netip.Prefix{}, false
	}
	p, err := netip.ParsePrefix(strings.Replace(s, "_", "/", 1))
	return p, err == nil && p.Addr().Is4() && p.Bits() == blockBits
}

// takeClaim locks a block; ok is false if another process holds it.
func takeClaim(dir string, p netip.Prefix) (*claim, bool, error) {
	path := claimPath(dir, p)
	for {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return nil, false, err
		}
		f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
		if errors.Is(err, fs.ErrNotExist) {
			continue // a daemon that just ended removed the directory
		}
		if err != nil {
			return nil, false, err
		}
		if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
			_ = f.Close()
			if errors.Is(err, unix.EWOULDBLOCK) {
				return nil, false, nil
			}
			return nil, false, fmt.Errorf("lock %s: %w", path, err)
		}
		// The file may have been removed between open and lock.
		held, err1 := f.Stat()
		named, err2 := os.Stat(path)
		if err1 == nil && err2 == nil && os.SameFile(held, named) {
			return &claim{file: f, path: path, block: block{p}}, true, nil
		}
		_ = f.Close()
	}
}

func (c *claim) text() (claimText, bool) {
	var t claimText
	data := make([]byte, 4096)
	n, _ := c.file.ReadAt(data, 0)
	return t, json.Unmarshal(data[:n], &t) == nil && validInstance(t.Instance)
}

func (c *claim) write(t claimText) error {
	data, err := json.Marshal(t)
	if err != nil {
		return err
	}
	if err := c.file.Truncate(0); err != nil {
		return err
	}
	_, err = c.file.WriteAt(data, 0)
	return err
}

// release gives the block back; with forget nothing of it stays.
func (c *claim) release(forget bool) {
	if forget {
		_ = os.Remove(c.path)
	}
	_ = c.file.Close()
}

// findBlock claims a block nobody else uses: not another daemon, not a route
// or address of the host.
func findBlock(dir string, ranges []netip.Prefix) (*claim, error) {
	for _, r := range ranges {
		r = r.Masked()
		if !r.Addr().Is4() || r.Bits() > blockBits {
			return nil, core.E("netjail.block", core.Invalid, nil, "network range %s is not an IPv4 prefix of at most %d bits", r, blockBits)
		}
		whole := block{r}
		for i := range uint32(1) << (blockBits - r.Bits()) {
			p := netip.PrefixFrom(whole.at(i<<(32-blockBits)), blockBits)
			c, ok, err := takeClaim(dir, p)
			if err != nil {
				return nil, core.E("netjail.block", core.Unavailable, err, "claim the address block %s", p)
			}
			if !ok {
				continue
			}
			used, err := hostUses(p, "")
			if err != nil {
				c.release(true)
				return nil, core.E("netjail.block", core.Unavailable, err, "read the host's routes")
			}
			if _, others := c.text(); used || others {
				c.release(!others)
				continue
			}
			return c, nil
		}
	}
	return nil, core.E("netjail.block", core.Exhausted, nil, "no free block of addresses in %v", ranges).
		WithHint("name a private range that this host does not route under network.ranges")
}

// hostUses says whether an address or a route of the host, default routes
// aside, overlaps p. The interface called ours does not count.
func hostUses(p netip.Prefix, ours string) (bool, error) {
	own := -1
	if ours != "" {
		if link, err := netlink.LinkByName(ours); err == nil {
			own = link.Attrs().Index
		}
	}
	routes, err := netlink.RouteListFiltered(unix.AF_INET, &netlink.Route{}, netlink.RT_FILTER_TABLE)
	if err != nil {
		return false, err
	}
	for _, r := range routes {
		if r.Dst == nil || r.LinkIndex == own {
			continue
		}
		a, ok := netip.AddrFromSlice(r.Dst.IP.To4())
		bits, _ := r.Dst.Mask.Size()
		if ok && bits > 0 && p.Overlaps(netip.PrefixFrom(a, bits)) {
			return true, nil
		}
	}
	return false, nil
}

// keepBlock takes the block an instance had before. A sweep of another daemon
// may hold it for a moment.
func keepBlock(dir string, p netip.Prefix) (*claim, bool, error) {
	deadline := time.Now().Add(2 * time.Second)
	for {
		c, ok, err := takeClaim(dir, p)
		if ok || err != nil || time.Now().After(deadline) {
			return c, ok, err
		}
		pause(20 * time.Millisecond)
	}
}

// sweep removes what instances left whose daemon is dead and whose state
// directory is gone: nobody will ever come back for it.
func sweep(claims, namespaces string) error {
	entries, err := os.ReadDir(claims)
	if err != nil {
		return err
	}
	for _, e := range entries {
		p, ok := claimPrefix(e.Name())
		if !ok {
			continue
		}
		c, ok, err := takeClaim(claims, p)
		if err != nil || !ok {
			continue
		}
		text, known := c.text()
		if known {
			var id identity
			err := readJSON(filepath.Join(text.StateDir, identityFile), &id)
			if err == nil && id.Instance == text.Instance {
				c.release(false)
				continue
			}
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				c.release(false)
				continue
			}
			if err := wipe(namespaces, text.Instance); err != nil {
				c.release(false)
				return err
			}
		}
		c.release(true)
	}
	return nil
}

// wipe removes every trace of an instance from the host.
func wipe(namespaces, instance string) error {
	err := unplugUplink(uplinkOf(instance))
	entries, readErr := os.ReadDir(namespaces)
	if readErr != nil && !errors.Is(readErr, fs.ErrNotExist) {
		err = errors.Join(err, readErr)
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), instance+".") {
			err = errors.Join(err, removeNamespace(filepath.Join(namespaces, e.Name())))
		}
	}
	return err
}
