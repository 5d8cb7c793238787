// Package egress decides, for every connection a sandbox opens, whether it may
// leave, and carries it if so: a resolver, an explicit proxy and a transparent
// proxy in front of one policy.
//
// Who asks is the source address (package netjail makes sure nobody can lie
// about it). What is asked for is a name in one canonical form, or an address
// that a policy names as such. The resolver never asks anybody: it answers an
// allowed name with an address that exists inside the jail only, derived from
// the name, and everything else with NXDOMAIN. The proxies resolve the name
// themselves and check the address they are about to dial, so neither a forged
// answer nor a name that turns to a private address leads anywhere.
//
// A denial is an answer: a 403 with the reason and what to do about it, a TLS
// alert, or a reset, and a Decision for the session's log.
//
// It does not open TLS and adds no credential. Whoever will do so later stands
// between the policy and the dialer, at Deps.Dial.
//
// Invariants: no policy and an empty policy mean nothing leaves; special
// addresses are reached only by a rule that stands for a configured package
// registry or names the address, and loopback, link-local, metadata, sandboxes
// and the host's own addresses never; a flow whose rule is withdrawn is cut.
//
// A Server is safe for concurrent use; Close waits for everything it started.
//
//	s := egress.New(egress.Deps{Log: log}, egress.Options{})
//	policy, err := egress.Compile(&core.NetworkPolicy{Allow: []string{"example.com"}}, nil)
//	s.Set(id, address, policy)
//	s.Serve(egress.Listeners{...})
package egress
