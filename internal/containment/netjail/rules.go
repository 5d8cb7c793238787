package netjail

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"net/netip"
	"os/exec"
	"slices"
	"strings"
	"text/template"

	"github.com/google/nftables"

	"drydock/internal/core"
)

// Ports of the listeners inside the router namespace. It belongs to Drydock
// alone, so they are fixed and never collide.
const (
	portDNS         = 53
	portExplicit    = 3128
	portTransparent = 3129
)

// maxFlows bounds the open connections of one sandbox in the kernel.
const maxFlows = 1024

// rules is the whole table. It replaces an older one in one transaction, with
// all members, so there is no moment without rules.
//
// "guard" decides who may send at all, "steer" brings what is allowed to
// our listeners, "gate" refuses the rest before routing is asked, and the two
// filter chains say the same again with a default of drop.
var rules = template.Must(template.New("rules").Parse(`table inet {{.Table}}
delete table inet {{.Table}}
table inet {{.Table}} {
	set member { type ifname . ipv4_addr; {{with .Member}}elements = { {{.}} };{{end}} }
	set online { type ifname; {{with .Online}}elements = { {{.}} };{{end}} }
	set direct { type ifname . ipv4_addr . inet_service; {{with .Direct}}elements = { {{.}} };{{end}} }
	set flows { type ipv4_addr; size 4096; flags dynamic; }
	set refused { type ifname . ipv4_addr . inet_proto . inet_service; size 4096; flags dynamic,timeout; timeout 2m; }
	counter spoofed { }
	counter other_protocol { }
	counter refused_tcp { }
	counter refused_udp { }
	counter too_many { }
	chain guard {
		type filter hook prerouting priority raw; policy drop;
		iifname "lo" accept
		meta nfproto != ipv4 counter name other_protocol drop
		iifname "{{.Uplink}}" ip saddr {{.Host}} ip protocol tcp accept
		iifname . ip saddr @member goto protocol
		counter name spoofed drop
	}
	chain protocol {
		ip protocol { tcp, udp } accept
		counter name other_protocol drop
	}
	chain steer {
		type nat hook prerouting priority dstnat; policy accept;
		iifname "{{.Uplink}}" return
		iifname != @online return
		ip daddr {{.Service}} udp dport {{.DNS}} redirect to :{{.DNS}}
		ip daddr {{.Service}} tcp dport { {{.DNS}}, {{.Explicit}} } redirect
		ip daddr {{.Service}} return
		ip daddr {{.Names}} ip protocol tcp redirect to :{{.Transparent}}
		iifname . ip daddr . tcp dport @direct redirect to :{{.Transparent}}
	}
	chain gate {
		type filter hook prerouting priority dstnat + 10; policy drop;
		iifname "lo" accept
		iifname "{{.Uplink}}" accept
		ct state established accept
		ct status dnat ct state new ip protocol tcp add @flows { ip saddr ct count over {{.Flows}} } counter name too_many reject with tcp reset
		ct status dnat accept
		goto refuse
	}
	chain refuse {
		tcp flags & (fin | syn | rst | ack) == syn update @refused { iifname . ip daddr . ip protocol . tcp dport counter }
		ip protocol udp update @refused { iifname . ip daddr . ip protocol . udp dport counter }
		ip protocol tcp counter name refused_tcp reject with tcp reset
		ip protocol udp counter name refused_udp reject with icmp type port-unreachable
		drop
	}
	chain input {
		type filter hook input priority filter; policy drop;
		iifname "lo" accept
		iifname "{{.Uplink}}" drop
		ct state established accept
		ct status dnat tcp dport { {{.DNS}}, {{.Explicit}}, {{.Transparent}} } accept
		ct status dnat udp dport {{.DNS}} accept
	}
	chain forward {
		type filter hook forward priority filter; policy drop;
		iifname "{{.Uplink}}" oifname "s*" ip protocol tcp accept
		iifname "s*" oifname "{{.Uplink}}" ct state established ip protocol tcp accept
	}
}
`))

// script renders the table for a set of members.
func script(table string, host netip.Addr, members []*Member) ([]byte, error) {
	var member, online, direct []string
	for _, m := range members {
		name := ifname(m.Slot)
		member = append(member, fmt.Sprintf("%q . %s", name, m.Address))
		if m.Grant.Policy == nil {
			continue
		}
		online = append(online, fmt.Sprintf("%q", name))
		for _, d := range m.Grant.Direct {
			direct = append(direct, fmt.Sprintf("%q . %s . %d", name, d.Addr(), d.Port()))
		}
	}
	var out bytes.Buffer
	err := rules.Execute(&out, map[string]any{
		"Table": table, "Host": host, "Uplink": uplinkName, "Service": Service, "Names": Names, "Flows": maxFlows,
		"DNS": portDNS, "Explicit": portExplicit, "Transparent": portTransparent,
		"Member": strings.Join(member, ", "), "Online": strings.Join(online, ", "), "Direct": strings.Join(direct, ", "),
	})
	return out.Bytes(), err
}

// loadRules hands a script to nft inside the namespace.
func loadRules(ctx context.Context, nft string, fd int, text []byte) error {
	return inNamespace(fd, func() error {
		cmd := exec.CommandContext(ctx, nft, "-f", "-")
		cmd.Stdin = bytes.NewReader(text)
		out, err := cmd.CombinedOutput()
		if err != nil {
			return core.E("netjail.rules", core.Unavailable, err, "nftables refuses the rules: %s", clip(out)).
				WithHint("run drydock doctor; the kernel needs nf_tables with nat, reject, ct and connlimit")
		}
		return nil
	})
}

func clip(b []byte) string {
	const most = 600
	b = bytes.TrimSpace(b)
	if len(b) > most {
		b = b[:most]
	}
	return string(b)
}

// elements is one member's share of the sets, in nftables' own form: every
// part of a joined key is padded to four bytes, names to sixteen.
type elements struct{ member, online, direct []nftables.SetElement }

func elementsOf(m *Member) elements {
	name := nameKey(ifname(m.Slot))
	addr := m.Address.As4()
	e := elements{member: []nftables.SetElement{{Key: join(name, addr[:])}}}
	if m.Grant.Policy == nil {
		return e
	}
	e.online = []nftables.SetElement{{Key: name}}
	for _, d := range m.Grant.Direct {
		to := d.Addr().As4()
		e.direct = append(e.direct, nftables.SetElement{Key: join(name, to[:], portKey(d.Port()))})
	}
	return e
}

func nameKey(name string) []byte {
	key := make([]byte, 16)
	copy(key, name)
	return key
}

func portKey(port uint16) []byte { return binary.BigEndian.AppendUint16(nil, port) }

func join(parts ...[]byte) []byte {
	var out []byte
	for _, p := range parts {
		out = append(out, p...)
		for len(out)%4 != 0 {
			out = append(out, 0)
		}
	}
	return out
}

// table is the handle for changes of single elements.
type table struct {
	conn                            *nftables.Conn
	member, online, direct, refused *nftables.Set
}

// openTable looks the sets up in the kernel.
func openTable(fd int, name string) (*table, error) {
	conn, err := nftables.New(nftables.WithNetNSFd(fd))
	if err != nil {
		return nil, err
	}
	t := &nftables.Table{Name: name, Family: nftables.TableFamilyINet}
	out := &table{conn: conn}
	for n, into := range map[string]**nftables.Set{
		"member": &out.member, "online": &out.online, "direct": &out.direct, "refused": &out.refused,
	} {
		set, err := conn.GetSetByName(t, n)
		if err != nil {
			return nil, fmt.Errorf("nftables set %s: %w", n, err)
		}
		*into = set
	}
	return out, nil
}

// change makes the elements of fresh out of those of old in one transaction.
// Either may be nil. What both have is not touched: removing costs more.
func (t *table) change(old, fresh *Member) error {
	var before, after elements
	if old != nil {
		before = elementsOf(old)
	}
	if fresh != nil {
		after = elementsOf(fresh)
	}
	for _, s := range []struct {
		set           *nftables.Set
		before, after []nftables.SetElement
	}{{t.member, before.member, after.member}, {t.online, before.online, after.online}, {t.direct, before.direct, after.direct}} {
		if gone := without(s.before, s.after); len(gone) > 0 {
			if err := t.conn.SetDeleteElements(s.set, gone); err != nil {
				return err
			}
		}
		if added := without(s.after, s.before); len(added) > 0 {
			if err := t.conn.SetAddElements(s.set, added); err != nil {
				return err
			}
		}
	}
	return t.conn.Flush()
}

// without is a less what is in b too.
func without(a, b []nftables.SetElement) []nftables.SetElement {
	return slices.DeleteFunc(slices.Clone(a), func(e nftables.SetElement) bool {
		return slices.ContainsFunc(b, func(o nftables.SetElement) bool { return bytes.Equal(e.Key, o.Key) })
	})
}
