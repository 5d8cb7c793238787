package egress

import (
	"net/netip"
	"strings"
	"testing"
)

func TestCanonicalHosts(t *testing.T) {
	for in, want := range map[string]string{
		"Example.COM":        "example.com",
		"example.com.":       "example.com",
		"a_b.example.com":    "a_b.example.com",
		"bücher.example":     "xn--bcher-kva.example",
		"EXAMPLE。com":        "example.com",
		"192.0.2.1":          "192.0.2.1",
		"1.example.com":      "1.example.com",
		"nexus":              "nexus",
		"3com.example":       "3com.example",
		"0x7f.example.test.": "0x7f.example.test",
	} {
		got, err := Canonical(in)
		if err != nil || got.host() != want {
			t.Errorf("%q became %q (%v), want %q", in, got.host(), err, want)
		}
	}
	for _, in := range []string{
		"", ".", "..", "example..com", ".example.com", "example.com..", "-a.example", "a-.example",
		"example.com\x00.evil.test", "exam ple.com", "example.com/", "user@example.com", "example.com:80", "[::1]", "::1",
		"::ffff:127.0.0.1", "[::ffff:7f00:1]", "2130706433", "0x7f000001", "0177.0.0.1", "127.1", "127.0.1", "0x7f.1",
		"192.0.2.01", "192.0.2.1.", "1.2.3.4.5", "256.1.1.1", "fe80::1%eth0", "example.com%00", "a.example.com\n",
		strings.Repeat("a", 64) + ".example", strings.Repeat("a.", 130) + "example", "64:ff9b::7f00:1",
	} {
		if got, err := Canonical(in); err == nil {
			t.Errorf("%q was taken as %q", in, got.host())
		}
	}
}

func TestPortsAreStrict(t *testing.T) {
	for _, in := range []string{"example.com:", "example.com:0", "example.com:65536", "example.com:080", "example.com:+80", "example.com:-1", "example.com:http", "::1:80", "[::1]:80"} {
		if got, err := ParseTarget(in, 80); err == nil {
			t.Errorf("%q was taken as %v", in, got)
		}
	}
	if got, err := ParseTarget("Example.com:8443", 80); err != nil || got != (Target{Name: "example.com", Port: 8443}) {
		t.Errorf("got %v, %v", got, err)
	}
}

func TestSpecialAddresses(t *testing.T) {
	for text, want := range map[string]fault{
		"93.184.216.34": faultNone, "2606:2800:220:1::1": faultNone,
		"127.0.0.1": faultNever, "0.0.0.0": faultNever, "169.254.169.254": faultNever, "::1": faultNever, "::": faultNever,
		"::ffff:127.0.0.1": faultNever, "::ffff:169.254.169.254": faultNever, "64:ff9b::a9fe:a9fe": faultNever,
		"2002:7f00:1::": faultNever, "2001:0:1::": faultNever, "fe80::1": faultNever, "224.0.0.1": faultNever, "ff02::1": faultNever,
		"255.255.255.255": faultNever, "100.100.100.200": faultNever, "168.63.129.16": faultNever, "fd00:ec2::254": faultNever,
		"10.1.2.3": faultSpecial, "172.31.0.1": faultSpecial, "192.168.0.1": faultSpecial, "100.64.0.1": faultSpecial,
		"192.0.2.1": faultSpecial, "198.18.0.1": faultSpecial, "203.0.113.80": faultSpecial, "240.0.0.1": faultSpecial,
		"::ffff:10.0.0.1": faultSpecial, "fd12::1": faultSpecial, "2001:db8::1": faultSpecial, "4000::1": faultNever,
	} {
		if got := addressFault(netip.MustParseAddr(text)); got != want {
			t.Errorf("%s is judged %d, want %d", text, got, want)
		}
	}
}

func FuzzCanonical(f *testing.F) {
	for _, s := range []string{"Example.COM.", "127.1", "0x7f.1", "bücher.example", "a\x00b", "[::1]", "::ffff:1.2.3.4", "a..b", "xn--a", "1.2.3.4"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, in string) {
		got, err := Canonical(in)
		if err != nil {
			return
		}
		if got.Addr.IsValid() {
			if !got.Addr.Is4() || got.Addr.String() != in {
				t.Fatalf("%q became the address %s", in, got.Addr)
			}
			return
		}
		again, err := Canonical(got.Name)
		if err != nil || again != got {
			t.Fatalf("%q became %q, which becomes %q (%v)", in, got.Name, again.Name, err)
		}
		if strings.ContainsAny(got.Name, "\x00 /:@[]%\\") || len(got.Name) > maxName {
			t.Fatalf("%q became %q", in, got.Name)
		}
	})
}
