package sandboxtest

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"drydock/internal/core"
)

// Network is the simplest sandbox.Network on this host: one namespace and one
// veth pair per sandbox, made by the ip command, with no rules at all. It
// serves tests of drivers that need root.
type Network struct {
	prefix string // of names, at most 6 letters
	octet  int

	mu    sync.Mutex
	slots map[core.SandboxID]int
	fail  error
}

// NewNetwork makes one. Prefix (at most 6 letters) keeps names of several
// tests on one host apart, octet their addresses (10.octet.0.0/16).
func NewNetwork(t testing.TB, prefix string, octet int) *Network {
	t.Helper()
	n := &Network{prefix: prefix, octet: octet, slots: map[core.SandboxID]int{}}
	t.Cleanup(func() {
		for id := range n.slots {
			if err := n.Detach(context.Background(), id); err != nil {
				t.Errorf("network of %s: %v", id, err)
			}
		}
	})
	return n
}

// Fail makes every later Attach fail, until it is called with nil.
func (n *Network) Fail(err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.fail = err
}

func (n *Network) names(slot int) (ns, host string) {
	return fmt.Sprintf("%s%d", n.prefix, slot), fmt.Sprintf("v%s%d", n.prefix, slot)
}

// Attach implements sandbox.Network.
func (n *Network) Attach(ctx context.Context, id core.SandboxID, _ *core.NetworkPolicy) (core.Attachment, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.fail != nil {
		return core.Attachment{}, n.fail
	}
	slot, found := n.slots[id]
	if !found {
		taken := map[int]bool{}
		for _, s := range n.slots {
			taken[s] = true
		}
		for slot = 1; taken[slot]; slot++ {
		}
		n.slots[id] = slot
	}
	ns, host := n.names(slot)
	base := fmt.Sprintf("10.%d.%d.", n.octet, slot)
	a := core.Attachment{
		Namespace: filepath.Join("/run/netns", ns),
		Address:   netip.MustParseAddr(base + "2"),
		Resolver:  netip.MustParseAddr(base + "1"),
		Env:       []string{"DRYDOCK_TEST_NETWORK=" + base + "1"},
	}
	if found {
		return a, nil
	}
	script := fmt.Sprintf("netns add %[1]s\nlink add %[2]s type veth peer name eth0 netns %[1]s\naddr add %[3]s1/30 dev %[2]s\nlink set %[2]s up\n", ns, host, base)
	if err := ip(ctx, script); err != nil {
		return a, err
	}
	inner := fmt.Sprintf("addr add %[1]s2/30 dev eth0\nlink set lo up\nlink set eth0 up\nroute add default via %[1]s1\n", base)
	return a, ip(ctx, inner, "-n", ns)
}

// Hold implements sandbox.Network; there is nothing to shut.
func (n *Network) Hold(ctx context.Context, id core.SandboxID, policy *core.NetworkPolicy) (core.Attachment, error) {
	return n.Attach(ctx, id, policy)
}

// Renew implements sandbox.Network.
func (n *Network) Renew(ctx context.Context, id core.SandboxID) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	slot, ok := n.slots[id]
	if !ok {
		return fmt.Errorf("sandbox %s has no network", id)
	}
	ns, _ := n.names(slot)
	base := fmt.Sprintf("10.%d.%d.", n.octet, slot)
	return ip(ctx, fmt.Sprintf("addr replace %[1]s2/30 dev eth0\nlink set eth0 up\nroute replace default via %[1]s1\n", base), "-n", ns)
}

func ip(ctx context.Context, script string, args ...string) error {
	cmd := exec.CommandContext(ctx, "ip", append(args, "-batch", "-")...)
	cmd.Stdin = strings.NewReader(script)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("ip: %w: %s", err, out)
	}
	return nil
}

// Detach implements sandbox.Network.
func (n *Network) Detach(ctx context.Context, id core.SandboxID) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	slot, ok := n.slots[id]
	if !ok {
		return nil
	}
	ns, host := n.names(slot)
	if _, err := os.Stat("/sys/class/net/" + host); err == nil {
		if err := ip(ctx, "link del "+host+"\n"); err != nil {
			return err
		}
	}
	if _, err := os.Stat("/run/netns/" + ns); err == nil {
		if err := ip(ctx, "netns del "+ns+"\n"); err != nil {
			return err
		}
	}
	delete(n.slots, id)
	return nil
}

// List implements sandbox.Network.
func (n *Network) List(context.Context) ([]core.SandboxID, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	var out []core.SandboxID
	for id := range n.slots {
		out = append(out, id)
	}
	return out, nil
}
