package egress

import (
	"net/netip"
	"strconv"
	"strings"

	"golang.org/x/net/idna"

	"drydock/internal/core"
)

// Target is where a sandbox wants to go: a name in canonical form, or an IPv4
// address. One of the two is set.
type Target struct {
	Name string
	Addr netip.Addr
	Port uint16
}

func (t Target) host() string {
	if t.Addr.IsValid() {
		return t.Addr.String()
	}
	return t.Name
}

func (t Target) String() string { return t.host() + ":" + strconv.Itoa(int(t.Port)) }

const (
	maxName  = 253
	maxLabel = 63
)

// Canonical brings a host to the one form that is matched, resolved and
// logged: lower case, ASCII, no final dot. An IPv4 address is taken in its
// plain dotted form only. Everything that some other reader might take for an
// address or a second name is refused.
func Canonical(host string) (Target, error) {
	bad := func(why string) (Target, error) {
		return Target{}, core.E("egress.host", core.Invalid, nil, "host %q %s", clip(host), why)
	}
	if host == "" {
		return bad("is empty")
	}
	if len(host) > 4*maxName {
		return bad("is too long")
	}
	if addr, err := netip.ParseAddr(host); err == nil {
		if addr.Is4() {
			return Target{Addr: addr}, nil
		}
		return bad("is an IPv6 address; sandboxes have IPv4 only")
	}
	name := strings.TrimSuffix(host, ".")
	if !isASCII(name) {
		ascii, err := idna.Lookup.ToASCII(name)
		if err != nil {
			return bad("is not an international name")
		}
		name = ascii
	}
	name = strings.ToLower(name)
	if len(name) > maxName {
		return bad("is too long")
	}
	labels := strings.Split(name, ".")
	for _, l := range labels {
		if why := labelFault(l); why != "" {
			return bad(why)
		}
	}
	// "127.1", "0x7f.1", "2130706433" and "0177.0.0.1" are addresses to many
	// readers: whatever ends in a number is never a name.
	if last := labels[len(labels)-1]; isNumber(last) {
		return bad("is an address in an unusual notation")
	}
	return Target{Name: name}, nil
}

func isASCII(s string) bool {
	for i := range len(s) {
		if s[i] >= 0x80 {
			return false
		}
	}
	return true
}

func labelFault(l string) string {
	if l == "" {
		return "has an empty label"
	}
	if len(l) > maxLabel {
		return "has a label that is too long"
	}
	for i := range len(l) {
		switch c := l[i]; {
		case 'a' <= c && c <= 'z', '0' <= c && c <= '9', c == '_':
		case c == '-' && i > 0 && i < len(l)-1:
		default:
			return "holds a character that names do not have"
		}
	}
	return ""
}

func isNumber(label string) bool {
	if hex, ok := strings.CutPrefix(label, "0x"); ok {
		return strings.Trim(hex, "0123456789abcdef") == ""
	}
	return strings.Trim(label, "0123456789") == ""
}

// ParseTarget reads "host" or "host:port" as it stands in a request. Without a
// port it is standard.
func ParseTarget(hostport string, standard uint16) (Target, error) {
	host, port := hostport, standard
	if i := strings.LastIndexByte(hostport, ':'); i >= 0 {
		digits := hostport[i+1:]
		n, err := strconv.ParseUint(digits, 10, 16)
		if err != nil || n == 0 || digits[0] == '0' || digits[0] == '+' {
			return Target{}, core.E("egress.host", core.Invalid, nil, "%q has no valid port", clip(hostport))
		}
		host, port = hostport[:i], uint16(n)
	}
	t, err := Canonical(host)
	t.Port = port
	return t, err
}

func clip(s string) string {
	const most = 100
	if len(s) > most {
		return s[:most] + "..."
	}
	return s
}
