package netjail

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"reflect"
	"slices"
	"strings"

	"drydock/internal/core"
)

// Attach makes the namespace of a sandbox, or finds it if it stands already,
// and lets it do what the grant says. Before anything is let through, known is
// told (it may be nil). On error nothing is left.
func (j *Jail) Attach(ctx context.Context, id core.SandboxID, grant Grant, known func(Member)) (Member, error) {
	if known == nil {
		known = func(Member) {}
	}
	if err := ctx.Err(); err != nil {
		return Member{}, err
	}
	if _, err := core.ParseID[core.SandboxID]("sbx_", string(id)); err != nil {
		return Member{}, err
	}
	if err := grant.check(); err != nil {
		return Member{}, err
	}
	defer j.ids.lock(id)()
	if m, ok := j.member(id); ok {
		if j.standing(m) == nil {
			fresh, err := j.setGrant(m, grant)
			if err == nil {
				known(fresh)
			}
			return fresh, err
		}
		if err := j.detach(id); err != nil {
			return Member{}, err
		}
	}
	m, err := j.reserve(id, grant)
	if err != nil {
		return Member{}, err
	}
	known(*m)
	if err := j.build(m); err != nil {
		err = core.E("netjail.attach", core.Unavailable, err, "make the network of %s", id)
		return Member{}, errors.Join(err, j.detach(id))
	}
	return *m, nil
}

func (g Grant) check() error {
	for _, d := range g.Direct {
		if !d.Addr().Is4() || d.Port() == 0 {
			return core.E("netjail.grant", core.Invalid, nil, "%s is not an IPv4 address with a port", d)
		}
	}
	if len(g.Direct) != len(slices.Compact(slices.SortedFunc(slices.Values(g.Direct), netip.AddrPort.Compare))) {
		return core.E("netjail.grant", core.Invalid, nil, "an address is granted twice")
	}
	return nil
}

// reserve takes a slot and writes the record. The slot of a sandbox that just
// went away is the last to be used again.
func (j *Jail) reserve(id core.SandboxID, grant Grant) (*Member, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.closed {
		return nil, core.E("netjail.attach", core.Unavailable, nil, "the network is closed")
	}
	slot := 0
	for i := range slots - 1 {
		if s := 1 + (j.next-1+i)%(slots-1); !j.used[s] {
			slot = s
			break
		}
	}
	if slot == 0 {
		return nil, core.E("netjail.attach", core.Exhausted, nil, "all %d addresses of %s are in use", slots-1, j.id.Block)
	}
	m := &Member{ID: id, Slot: slot, Address: j.claim.block.sandbox(slot), Grant: grant}
	if err := writeJSON(j.recordPath(id), m); err != nil {
		return nil, core.E("netjail.attach", core.Unavailable, err, "record the network of %s", id)
	}
	j.used[slot] = true
	j.next = slot + 1
	j.members[id] = m
	j.byAddr[m.Address] = m
	return m, nil
}

// build makes namespace, wire and, last, the entries that let packets pass.
func (j *Jail) build(m *Member) error {
	// Whoever had the slot before may have kept its namespace alive.
	if err := unplugSandbox(j.router, m.Slot); err != nil {
		return err
	}
	ns, err := makeNamespace(j.Namespace(m.ID), sandboxSetup)
	if err != nil {
		return err
	}
	defer ns.Close()
	if err := plugSandbox(j.router, int(ns.Fd()), m, j.claim.block.gateway(m.Slot)); err != nil {
		return err
	}
	return j.changeTable(nil, m)
}

// Renew gives the sandbox's end of the wire its address and route back, which
// gVisor takes away when it starts. The grant stays as it is.
func (j *Jail) Renew(ctx context.Context, id core.SandboxID) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	defer j.ids.lock(id)()
	m, ok := j.member(id)
	if !ok {
		return core.E("netjail.renew", core.NotFound, nil, "sandbox %s has no network", id)
	}
	ns, err := openNamespace(j.Namespace(id))
	if err == nil {
		defer ns.Close()
		err = addressSandbox(int(ns.Fd()), m, j.claim.block.gateway(m.Slot))
	}
	if err != nil {
		return core.E("netjail.renew", core.Unavailable, err, "make the network of %s fit for another start", id)
	}
	return nil
}

func (j *Jail) changeTable(old, fresh *Member) error {
	j.tableMu.Lock()
	defer j.tableMu.Unlock()
	if err := j.table.change(old, fresh); err != nil {
		return fmt.Errorf("change the rules: %w", err)
	}
	return nil
}

func (j *Jail) member(id core.SandboxID) (*Member, bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	m, ok := j.members[id]
	return m, ok
}

// standing says why a member's namespace or wire is not there, or nil.
func (j *Jail) standing(m *Member) error {
	ns, err := openNamespace(j.Namespace(m.ID))
	if err != nil {
		return err
	}
	_ = ns.Close()
	_, err = j.router.LinkByName(ifname(m.Slot))
	return err
}

// SetGrant changes what a sandbox may do, in one step.
func (j *Jail) SetGrant(ctx context.Context, id core.SandboxID, grant Grant) (Member, error) {
	if err := ctx.Err(); err != nil {
		return Member{}, err
	}
	if err := grant.check(); err != nil {
		return Member{}, err
	}
	defer j.ids.lock(id)()
	m, ok := j.member(id)
	if !ok {
		return Member{}, core.E("netjail.grant", core.NotFound, nil, "sandbox %s has no network", id)
	}
	return j.setGrant(m, grant)
}

func (j *Jail) setGrant(m *Member, grant Grant) (Member, error) {
	if reflect.DeepEqual(m.Grant, grant) {
		return *m, nil
	}
	fresh := *m
	fresh.Grant = grant
	if err := writeJSON(j.recordPath(m.ID), fresh); err != nil {
		return Member{}, core.E("netjail.grant", core.Unavailable, err, "record the network of %s", m.ID)
	}
	if err := j.changeTable(m, &fresh); err != nil {
		return Member{}, core.E("netjail.grant", core.Unavailable, err, "change the rules of %s", m.ID)
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.members[m.ID] = &fresh
	j.byAddr[m.Address] = &fresh
	return fresh, nil
}

// Detach removes a sandbox's network. A second call does nothing.
func (j *Jail) Detach(ctx context.Context, id core.SandboxID) error {
	if _, err := core.ParseID[core.SandboxID]("sbx_", string(id)); err != nil {
		return err
	}
	defer j.ids.lock(id)()
	return j.detach(id)
}

// detach takes the entries away first, then the namespace and the record. The
// wire goes with the namespace, which the kernel takes down in its own time;
// without entries it leads nowhere. Asking for it at once would hold up every
// other change of the network for some 40 ms.
func (j *Jail) detach(id core.SandboxID) error {
	m, ok := j.member(id)
	if ok {
		if err := j.changeTable(m, nil); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return core.E("netjail.detach", core.Unavailable, err, "close the rules for %s", id)
		}
	}
	if err := removeNamespace(j.Namespace(id)); err != nil {
		return core.E("netjail.detach", core.Unavailable, err, "remove the namespace of %s", id)
	}
	if err := os.Remove(j.recordPath(id)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return core.E("netjail.detach", core.Unavailable, err, "remove the record of %s", id)
	}
	if !ok {
		return nil
	}
	j.mu.Lock()
	delete(j.members, id)
	delete(j.byAddr, m.Address)
	delete(j.used, m.Slot)
	j.mu.Unlock()
	return nil
}

// List names every sandbox of which anything is left: a record or a namespace.
func (j *Jail) List(context.Context) ([]core.SandboxID, error) {
	seen := map[core.SandboxID]bool{}
	for _, m := range j.Members() {
		seen[m.ID] = true
	}
	entries, err := os.ReadDir(j.namespaces)
	if err != nil {
		return nil, core.E("netjail.list", core.Unavailable, err, "read %s", j.namespaces)
	}
	for _, e := range entries {
		name, ok := strings.CutPrefix(e.Name(), j.id.Instance+".")
		if id, err := core.ParseID[core.SandboxID]("sbx_", name); ok && err == nil {
			seen[id] = true
		}
	}
	out := make([]core.SandboxID, 0, len(seen))
	for id := range seen {
		out = append(out, id)
	}
	slices.Sort(out)
	return out, nil
}

// Recover keeps the networks of the living, removes all others, and names the
// living whose network is gone, which only a reboot can do.
func (j *Jail) Recover(ctx context.Context, living []core.SandboxID) (lost []core.SandboxID, err error) {
	all, err := j.List(ctx)
	if err != nil {
		return nil, err
	}
	for _, id := range all {
		if !slices.Contains(living, id) {
			err = errors.Join(err, j.Detach(ctx, id))
		}
	}
	for _, id := range living {
		m, ok := j.member(id)
		if !ok || j.standing(m) != nil {
			lost = append(lost, id)
		}
	}
	return lost, errors.Join(err, j.removeStrayWires())
}

// removeStrayWires removes router interfaces no record speaks for.
func (j *Jail) removeStrayWires() error {
	links, err := j.router.LinkList()
	if err != nil {
		return err
	}
	wanted := map[string]bool{"lo": true, uplinkName: true}
	for _, m := range j.Members() {
		wanted[ifname(m.Slot)] = true
	}
	for _, l := range links {
		if !wanted[l.Attrs().Name] && l.Type() == "veth" {
			if delErr := j.router.LinkDel(l); delErr != nil && !isMissing(delErr) {
				err = errors.Join(err, delErr)
			}
		}
	}
	return err
}
