// Package netjail gives every sandbox a network namespace of its own and lets
// it reach exactly one thing: this daemon's resolver and proxies.
//
// One daemon instance owns one router namespace. Every sandbox hangs off it by
// a veth pair, and the only other way into it is a veth to the host (the
// uplink). The resolver and the proxies listen inside the router namespace,
// and the nftables table drydock_<instance> lives there too, so nothing of the
// host's own rule sets, forwarding switches or addresses is touched, and even
// a host whose rules were flushed keeps every sandbox locked in: the router has
// no route to anywhere.
//
//	sandbox ns: eth0 --- s12 :router ns: up --- dd-k3x9 :host
//	                      | resolver, proxies, nftables
//
// What a sandbox may do: ask the resolver and the explicit proxy at Service,
// and open TCP to addresses inside Names, which the resolver hands out in
// place of real ones and which end at the transparent proxy. All other TCP is
// answered with a reset, other UDP with "port unreachable", the rest is dropped.
// IPv4 only. What the host may do: open TCP to any sandbox.
//
// It does not: read names, judge policies, or move bytes (package egress does).
//
// Invariants: a source address in the router namespace is the identity of one
// sandbox (anti-spoofing by interface); a namespace is never used twice; the
// record of a sandbox is on disk before anything of it exists, so that Detach
// and Recover work after a kill at any point; no nftables, no network.
//
// A Jail is safe for concurrent use.
//
//	jail, err := netjail.Open(ctx, netjail.Deps{Log: log}, netjail.Options{StateDir: dir})
//	member, err := jail.Attach(ctx, id, netjail.Grant{Policy: policy}, nil)
package netjail
