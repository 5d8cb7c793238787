package config

import (
	"net"
	"net/netip"
	"net/url"
	"strings"

	"golang.org/x/net/publicsuffix"

	"drydock/internal/strictyaml"
)

// Apart says how far the origins of previews are from that of the control
// plane. An app may do what it likes on its own origin, and much on others of
// its site.
func (c Config) Apart() (shared, sameSite string) {
	if c.Web.PreviewMode == "off" {
		return "", ""
	}
	if c.Web.PreviewListen != "" && overlap(c.Listen, c.Web.PreviewListen) {
		return "previews and the control plane share the address " + c.Web.PreviewListen, ""
	}
	page, _ := url.Parse(c.Web.PublicURL)
	if c.Web.PreviewMode == "listeners" {
		return "", "previews have the host name of the control plane, whose cookies do not know ports"
	}
	_, rest, ok := strings.Cut(c.Web.PreviewURL, "://*.")
	if !ok || page == nil || page.Hostname() == "" {
		return "", ""
	}
	base, _, _ := strings.Cut(rest, "/")
	if host, _, err := net.SplitHostPort(base); err == nil {
		base = host
	}
	base, name := strings.ToLower(base), strings.ToLower(page.Hostname())
	if name == base || strings.HasSuffix(name, "."+base) {
		return "the control plane (" + name + ") is inside the names of previews (*." + base + ")", ""
	}
	a, errA := publicsuffix.EffectiveTLDPlusOne(name)
	b, errB := publicsuffix.EffectiveTLDPlusOne(base)
	if errA == nil && errB == nil && a == b {
		return "", "previews (*." + base + ") and the control plane (" + name + ") are of one site, " + a
	}
	return "", ""
}

// overlap reports whether two addresses cannot both be listened on.
func overlap(a, b string) bool {
	hostA, portA, errA := net.SplitHostPort(a)
	hostB, portB, errB := net.SplitHostPort(b)
	if errA != nil || errB != nil || portA != portB || portA == "0" {
		return false
	}
	all := func(host string) bool {
		ip, err := netip.ParseAddr(host)
		return host == "" || err == nil && ip.IsUnspecified()
	}
	loopback := func(host string) bool {
		ip, err := netip.ParseAddr(host)
		return host == "localhost" || err == nil && ip.IsLoopback()
	}
	return hostA == hostB || all(hostA) || all(hostB) || loopback(hostA) && loopback(hostB)
}

// previews checks what belongs together in web.
func (d *decoder) previews(n *strictyaml.Node, c *Config) {
	at := func(key string) *strictyaml.Node {
		if n == nil {
			return nil
		}
		return n.Get(key)
	}
	if l := c.Web.PreviewListen; l != "" {
		if host, port, err := net.SplitHostPort(l); err != nil || port == "" || strings.ContainsAny(host, "/@ ") {
			d.faults.Add(at("preview_listen"), "preview_listen is an address with a port, like 127.0.0.1:7301")
		}
	}
	if u := c.Web.PreviewURL; u != "" && !strings.HasPrefix(u, "https://*.") && !strings.HasPrefix(u, "http://*.") {
		d.faults.Add(at("preview_url"), "preview_url is of the form https://*.preview.example")
	}
	if shared, _ := c.Apart(); shared != "" {
		key := "preview_url"
		if c.Web.PreviewListen != "" && overlap(c.Listen, c.Web.PreviewListen) {
			key = "preview_listen"
		}
		d.faults.Add(at(key), "%s: an app could act as the page", shared)
	}
}
