package egress

import (
	"fmt"
	"net"
	"net/netip"
	"strings"

	"github.com/miekg/dns"
)

// answerTTL is short: an answer costs nothing.
const answerTTL = 30

// dnsHandler answers questions from sandboxes. It asks nobody.
type dnsHandler struct{ s *Server }

func (h dnsHandler) ServeDNS(w dns.ResponseWriter, q *dns.Msg) {
	from, err := netip.ParseAddrPort(w.RemoteAddr().String())
	if err != nil {
		return
	}
	c := h.s.client(from.Addr())
	if c == nil {
		return
	}
	_, udp := w.RemoteAddr().(*net.UDPAddr)
	if a := h.s.answer(c, q, udp); a != nil {
		_ = w.WriteMsg(a)
	}
}

// answer makes the whole reply to one question.
func (s *Server) answer(c *client, q *dns.Msg, udp bool) *dns.Msg {
	if q.Response {
		return nil
	}
	a := new(dns.Msg)
	if q.Opcode != dns.OpcodeQuery || len(q.Question) != 1 || q.Question[0].Qclass != dns.ClassINET {
		return a.SetRcode(q, dns.RcodeRefused)
	}
	a.SetReply(q)
	a.RecursionAvailable = true
	size := uint16(dns.MinMsgSize)
	if opt := q.IsEdns0(); opt != nil {
		size = max(size, min(opt.UDPSize(), 1232))
		a.SetEdns0(1232, false)
	}
	question := q.Question[0]
	name := strings.ToLower(strings.TrimSuffix(question.Name, "."))
	if name == "localhost" || strings.HasSuffix(name, ".localhost") {
		if question.Qtype == dns.TypeA {
			a.Answer = []dns.RR{&dns.A{Hdr: header(question.Name, dns.TypeA), A: net.IPv4(127, 0, 0, 1).To4()}}
		}
		return a
	}
	t, err := Canonical(name)
	policy := c.current()
	switch {
	case err != nil || t.Addr.IsValid():
		h := deny(CodeBadHost, "", "%q is not a host name that is looked up here", clip(name))
		s.refuseName(c, a, Target{Name: clip(name)}, h)
	case !policy.knows(t):
		_, d := policy.check(t)
		s.refuseName(c, a, t, d)
	case question.Qtype == dns.TypeA:
		a.Answer = []dns.RR{&dns.A{Hdr: header(question.Name, dns.TypeA), A: c.names.addr(t.Name).AsSlice()}}
	}
	// An allowed name has no other records here: no IPv6, and no HTTPS record
	// that could carry keys to hide the server's name.
	if udp {
		a.Truncate(int(size))
	}
	return a
}

func header(name string, kind uint16) dns.RR_Header {
	return dns.RR_Header{Name: name, Rrtype: kind, Class: dns.ClassINET, Ttl: answerTTL}
}

// refuseName says that the name does not exist, and to those who can read it,
// why.
func (s *Server) refuseName(c *client, a *dns.Msg, t Target, d *Denial) {
	a.Rcode = dns.RcodeNameError
	if opt := a.IsEdns0(); opt != nil {
		opt.Option = append(opt.Option, &dns.EDNS0_EDE{
			InfoCode: dns.ExtendedErrorCodeProhibited, ExtraText: fmt.Sprintf("drydock: %s", d.Reason),
		})
	}
	s.denied(c, t, "dns", d)
}
