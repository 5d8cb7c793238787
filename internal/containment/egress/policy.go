package egress

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"drydock/internal/core"
)

// Registries is the word in an allow-list that stands for the hosts the
// machine's own package managers are configured to use.
const Registries = "registries"

// Endpoint is a host and port that "registries" stands for.
type Endpoint struct {
	Host string
	Port uint16
}

// Rule is one line of an allow-list, ready to be matched.
type Rule struct {
	Text     string // as written
	Name     string // canonical; below it too, but not itself, if Wild
	Wild     bool
	Addr     netip.Addr // instead of Name
	Ports    []uint16
	Opaque   bool // any protocol, not only TLS and HTTP: its port was named
	Registry bool // may be on a private address
}

func (r Rule) matchesHost(t Target) bool {
	if t.Addr.IsValid() {
		return r.Addr == t.Addr
	}
	if r.Wild {
		return strings.HasSuffix(t.Name, "."+r.Name)
	}
	return r.Name != "" && r.Name == t.Name
}

// mayBePrivate says whether the rule stands for an address on purpose.
func (r Rule) mayBePrivate() bool { return r.Registry || r.Addr.IsValid() }

// Policy is a compiled allow-list. The nil Policy allows nothing.
type Policy struct{ rules []Rule }

// Compile checks a policy and prepares it. Nil stays nil. All faults are
// reported at once.
func Compile(p *core.NetworkPolicy, registries []Endpoint) (*Policy, error) {
	if p == nil {
		return nil, nil
	}
	out := &Policy{}
	var faults []string
	for _, text := range p.Allow {
		if text == Registries {
			for _, e := range registries {
				// One of the host's own settings that makes no sense here opens
				// nothing; it must not make every policy wrong.
				if r, err := registryRule(e); err == nil {
					out.rules = append(out.rules, r)
				}
			}
			continue
		}
		r, err := parseRule(text)
		if err != nil {
			faults = append(faults, err.Error())
			continue
		}
		out.rules = append(out.rules, r)
	}
	if len(faults) > 0 {
		return nil, core.E("egress.policy", core.Invalid, nil, "network policy: %s", strings.Join(faults, "; ")).
			WithHint(`an entry is a host name, "*.name", either with an optional ":port", an IPv4 address, or "registries"`)
	}
	return out, nil
}

func parseRule(text string) (Rule, error) {
	rest, wild := strings.CutPrefix(text, "*.")
	t, err := ParseTarget(rest, 0)
	if err != nil {
		return Rule{}, fmt.Errorf("entry %q: %w", clip(text), err)
	}
	r := Rule{Text: text, Name: t.Name, Addr: t.Addr, Wild: wild, Ports: []uint16{80, 443}}
	if t.Port != 0 {
		r.Ports = []uint16{t.Port}
		r.Opaque = t.Port != 80 && t.Port != 443
	}
	switch {
	case wild && t.Addr.IsValid():
		return Rule{}, fmt.Errorf("entry %q: a wildcard of an address", text)
	case wild && !strings.Contains(t.Name, "."):
		return Rule{}, fmt.Errorf("entry %q: a wildcard needs at least two labels after it", text)
	case t.Addr.IsValid() && addressFault(t.Addr) == faultNever:
		return Rule{}, fmt.Errorf("entry %q: no policy can open this address", text)
	}
	return r, nil
}

func registryRule(e Endpoint) (Rule, error) {
	t, err := Canonical(e.Host)
	if err != nil {
		return Rule{}, fmt.Errorf("registry %q: %w", e.Host, err)
	}
	r := Rule{Text: Registries, Name: t.Name, Addr: t.Addr, Ports: []uint16{e.Port}, Registry: true}
	if e.Port == 80 || e.Port == 443 {
		r.Ports = []uint16{80, 443} // mirrors send people from one to the other
	}
	return r, nil
}

// Match finds the rule that allows t.
func (p *Policy) Match(t Target) (Rule, bool) {
	if p == nil {
		return Rule{}, false
	}
	for _, r := range p.rules {
		if r.matchesHost(t) && slices.Contains(r.Ports, t.Port) {
			return r, true
		}
	}
	return Rule{}, false
}

// knows says whether any port of the host is allowed.
func (p *Policy) knows(t Target) bool {
	return p != nil && slices.ContainsFunc(p.rules, func(r Rule) bool { return r.matchesHost(t) })
}

// Direct are the addresses with ports that the policy names as such, for the
// packet filter.
func (p *Policy) Direct() []netip.AddrPort {
	if p == nil {
		return nil
	}
	var out []netip.AddrPort
	for _, r := range p.rules {
		for _, port := range r.Ports {
			if a := netip.AddrPortFrom(r.Addr, port); r.Addr.IsValid() && !slices.Contains(out, a) {
				out = append(out, a)
			}
		}
	}
	return out
}

// Code is a stable word for why something was refused.
type Code string

const (
	CodeNotAllowed Code = "not_allowed"  // no rule names the host
	CodePort       Code = "port"         // a rule names the host, not the port
	CodeLiteral    Code = "address"      // an address instead of a name
	CodeBadHost    Code = "bad_host"     // not a host in canonical form
	CodeMismatch   Code = "mismatch"     // the names in one connection differ
	CodeNoName     Code = "no_name"      // TLS without a server name
	CodeProtocol   Code = "protocol"     // neither TLS nor HTTP on a port for those
	CodeSpecial    Code = "special"      // the name leads to a private or special address
	CodeBusy       Code = "busy"         // too many connections
	CodePacket     Code = "packet"       // turned away before any proxy saw it
	CodeUnresolved Code = "unresolved"   // allowed, but the host cannot resolve it
	CodeUnreach    Code = "unreachable"  // allowed, but does not answer
	CodeWithdrawn  Code = "withdrawn"    // its rule went away while it was open
	CodeAskedWrong Code = "wrong_method" // the proxy does not do this
)

// Denial says no, why, and what to do.
type Denial struct {
	Code   Code
	Reason string
	Hint   string
}

func (d *Denial) Error() string { return d.Reason }

func deny(code Code, hint, format string, args ...any) *Denial {
	return &Denial{Code: code, Reason: fmt.Sprintf(format, args...), Hint: hint}
}

// check is Match with a reason.
func (p *Policy) check(t Target) (Rule, *Denial) {
	if r, ok := p.Match(t); ok {
		return r, nil
	}
	switch {
	case p.knows(t):
		return Rule{}, deny(CodePort, fmt.Sprintf("add %q to network.allow in drydock.yaml", t.String()),
			"the network policy allows %s, but not port %d", t.host(), t.Port)
	case t.Addr.IsValid():
		return Rule{}, deny(CodeLiteral, "use the host's name, and have that name allowed in drydock.yaml",
			"%s is an address, and the network policy does not name it", t.Addr)
	}
	entry := t.Name
	if t.Port != 80 && t.Port != 443 && t.Port != 0 {
		entry = t.String()
	}
	return Rule{}, deny(CodeNotAllowed, fmt.Sprintf("add %q to network.allow in drydock.yaml; a person has to accept that change", entry),
		"the network policy of this environment does not allow %s", t.Name)
}
