package egress

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/miekg/dns"

	"drydock/internal/core"
)

func TestResolverAnswersAllowedNamesOnly(t *testing.T) {
	w := newWorld(t, compile(t, nil, "good.example", "*.wide.example"), Options{})
	ask := func(name string, kind uint16) *dns.Msg {
		q := new(dns.Msg).SetQuestion(dns.Fqdn(name), kind)
		q.SetEdns0(1232, false)
		a, _, err := new(dns.Client).Exchange(q, w.l.DNS.LocalAddr().String())
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		return a
	}
	for _, name := range []string{"good.example", "GOOD.example", "a.b.wide.example"} {
		a := ask(name, dns.TypeA)
		if a.Rcode != dns.RcodeSuccess || len(a.Answer) != 1 || !fakes[0].Contains(netip.MustParseAddr(a.Answer[0].(*dns.A).A.String())) {
			t.Errorf("%s: %v", name, a)
		}
	}
	for _, kind := range []uint16{dns.TypeAAAA, dns.TypeHTTPS, dns.TypeSVCB, dns.TypeTXT, dns.TypeMX, dns.TypeANY, dns.TypeNULL} {
		if a := ask("good.example", kind); a.Rcode != dns.RcodeSuccess || len(a.Answer)+len(a.Ns) != 0 {
			t.Errorf("type %s: %v", dns.TypeToString[kind], a)
		}
	}
	for _, name := range []string{"bad.example", "c2VjcmV0.bad.example", "good.example.evil.test", "evilgood.example", "wide.example", "com", ".", "1.0.0.127.in-addr.arpa", "127.1"} {
		a := ask(name, dns.TypeA)
		if a.Rcode != dns.RcodeNameError || len(a.Answer) != 0 {
			t.Errorf("%s: %v", name, a)
		}
	}
	a := ask("bad.example", dns.TypeA)
	ede, ok := a.IsEdns0().Option[0].(*dns.EDNS0_EDE)
	if !ok || !strings.Contains(ede.ExtraText, "does not allow bad.example") {
		t.Errorf("no readable reason in %v", a)
	}
	if d := w.lastDenial(t); d.Via != "dns" {
		t.Errorf("reported %+v", d)
	}
}

func FuzzDNS(f *testing.F) {
	for _, name := range []string{"good.example.", "bad.example.", "localhost.", "."} {
		q, _ := new(dns.Msg).SetQuestion(name, dns.TypeA).Pack()
		f.Add(q)
	}
	s := New(Deps{}, Options{})
	policy, _ := Compile(&core.NetworkPolicy{Allow: []string{"good.example"}}, nil)
	s.Set("sbx_x", sandboxAddr, policy)
	c := s.client(sandboxAddr)
	f.Fuzz(func(t *testing.T, raw []byte) {
		q := new(dns.Msg)
		if q.Unpack(raw) != nil {
			return
		}
		a := s.answer(c, q, true)
		if a == nil {
			return
		}
		packed, err := a.Pack()
		if err == nil && len(packed) > 1300 {
			t.Fatalf("answer of %d bytes", len(packed))
		}
		for _, rr := range a.Answer {
			addr, ok := netip.AddrFromSlice(rr.(*dns.A).A.To4())
			if !ok || (!fakes[0].Contains(addr) && !addr.IsLoopback()) {
				t.Fatalf("answered %v", rr)
			}
		}
	})
}
