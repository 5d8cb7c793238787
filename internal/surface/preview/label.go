package preview

import (
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"drydock/internal/core"
)

// label is what a host name says: a port of a session, and with linked ports
// the part that nobody can guess.
type label struct {
	Port    int
	Session core.SessionID
	Link    string
}

const (
	sessionPrefix = "ses_"
	linkLen       = 20 // 100 bits
	linkLetters   = "0123456789abcdefghjkmnpqrstvwxyz"
)

// String is the label as it stands in a host name: PORT--SESSION[--LINK].
func (l label) String() string {
	s := strconv.Itoa(l.Port) + "--" + strings.TrimPrefix(string(l.Session), sessionPrefix)
	if l.Link != "" {
		s += "--" + l.Link
	}
	return s
}

// parseLabel reads only what String writes.
func parseLabel(s string) (label, bool) {
	if len(s) > 63 {
		return label{}, false
	}
	parts := strings.Split(s, "--")
	if len(parts) != 2 && len(parts) != 3 {
		return label{}, false
	}
	port, err := strconv.ParseUint(parts[0], 10, 16)
	if err != nil || port == 0 {
		return label{}, false
	}
	id, err := core.ParseID[core.SessionID](sessionPrefix, sessionPrefix+parts[1])
	if err != nil {
		return label{}, false
	}
	l := label{Port: int(port), Session: id}
	if len(parts) == 3 {
		if len(parts[2]) != linkLen || strings.Trim(parts[2], linkLetters) != "" {
			return label{}, false
		}
		l.Link = parts[2]
	}
	return l, l.String() == s
}

// wildcard is the form of the public names: https://*.preview.example:8443.
type wildcard struct {
	scheme string
	base   string // what follows the label
	port   string // never empty
}

// ParseURL reads the address of previews as the configuration gives it.
func parseURL(text string) (wildcard, error) {
	refused := core.E("preview.url", core.Invalid, nil, "%q is not of the form https://*.preview.example", clip(text, 100)).
		WithHint("the star stands for the whole first part of the name; there is no path")
	scheme, rest, ok := strings.Cut(text, "://*.")
	if !ok || scheme != "http" && scheme != "https" {
		return wildcard{}, refused
	}
	u, err := url.Parse(scheme + "://" + rest)
	if err != nil || u.Hostname() == "" || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.Fragment != "" || u.User != nil ||
		strings.ContainsAny(u.Hostname(), "*:[]") || net.ParseIP(u.Hostname()) != nil || len(u.Hostname()) > 180 {
		return wildcard{}, refused
	}
	w := wildcard{scheme: scheme, base: strings.ToLower(u.Hostname()), port: u.Port()}
	if w.port == "" {
		w.port = defaultPort(scheme)
	}
	return w, nil
}

func defaultPort(scheme string) string {
	if scheme == "https" {
		return "443"
	}
	return "80"
}

// host is the Host header that stands for a label.
func (w wildcard) host(l label) string { return joinHost(w.scheme, l.String()+"."+w.base, w.port) }

// joinHost leaves the port out that browsers leave out.
func joinHost(scheme, name, port string) string {
	if port == defaultPort(scheme) {
		return name
	}
	return net.JoinHostPort(name, port)
}

// parse reads a Host header. Only the exact name and port will do.
func (w wildcard) parse(host string) (label, bool) {
	name, port := splitHost(w.scheme, host)
	first, ok := strings.CutSuffix(name, "."+w.base)
	if !ok || port != w.port {
		return label{}, false
	}
	return parseLabel(first)
}

func splitHost(scheme, host string) (name, port string) {
	if len(host) > 300 {
		return "", ""
	}
	host = strings.ToLower(host)
	name, port, err := net.SplitHostPort(host)
	if err != nil {
		return host, defaultPort(scheme)
	}
	return name, port
}

// safe reports whether browsers keep secure cookies for these names.
func (w wildcard) safe() bool { return w.scheme == "https" || isLoopback(w.base) }

func isLoopback(name string) bool {
	if name == "localhost" || strings.HasSuffix(name, ".localhost") {
		return true
	}
	ip := net.ParseIP(name)
	return ip != nil && ip.IsLoopback()
}

func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n], "") + "..."
}

func addPort(list []int, port int) []int {
	if slices.Contains(list, port) {
		return list
	}
	return append(list, port)
}
