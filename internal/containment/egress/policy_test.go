package egress

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"drydock/internal/core"
)

func compile(t *testing.T, registries []Endpoint, allow ...string) *Policy {
	t.Helper()
	p, err := Compile(&core.NetworkPolicy{Allow: allow}, registries)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestPolicyMatchesByLabel(t *testing.T) {
	p := compile(t, []Endpoint{{Host: "mirror.corp.example", Port: 8081}}, "example.com", "*.Example.org", "db.example.net:5432", "192.0.2.7:8443", Registries)
	for target, want := range map[string]bool{
		"example.com:443": true, "EXAMPLE.com.:80": true, "example.com:8080": false, "example.com:22": false,
		"sub.example.com:443": false, "evil-example.com:443": false, "example.com.evil.test:443": false,
		"a.example.org:443": true, "a.b.example.org:80": true, "example.org:443": false, "evilexample.org:443": false, "a.example.org.evil.test:443": false,
		"db.example.net:5432": true, "db.example.net:443": false,
		"192.0.2.7:8443": true, "192.0.2.7:443": false, "192.0.2.8:8443": false,
		"mirror.corp.example:8081": true, "mirror.corp.example:80": false,
	} {
		at, err := ParseTarget(target, 0)
		if err != nil {
			t.Fatal(err)
		}
		if _, got := p.Match(at); got != want {
			t.Errorf("%s: %v, want %v", target, got, want)
		}
	}
	if got := p.Direct(); !slices.Equal(got, []netip.AddrPort{netip.MustParseAddrPort("192.0.2.7:8443")}) {
		t.Errorf("direct addresses %v", got)
	}
}

func TestNothingMeansNothing(t *testing.T) {
	none, err := Compile(nil, []Endpoint{{Host: "a.example", Port: 443}})
	if err != nil || none != nil {
		t.Fatalf("a nil policy became %v, %v", none, err)
	}
	for name, p := range map[string]*Policy{
		"nil": none, "empty": compile(t, []Endpoint{{Host: "a.example", Port: 443}}),
		"no registries found": compile(t, nil, Registries),
	} {
		for _, host := range []string{"a.example:443", "example.com:80", "192.0.2.1:443"} {
			at, _ := ParseTarget(host, 0)
			if _, ok := p.Match(at); ok {
				t.Errorf("%s policy allows %s", name, host)
			}
		}
	}
}

func TestPolicyFaultsAreAllNamed(t *testing.T) {
	_, err := Compile(&core.NetworkPolicy{Allow: []string{"*", "*.com", "good.example", "http://x.example", "127.0.0.1", "169.254.169.254:80", "*.1.2.3.4", "a b"}}, nil)
	if !core.Is(err, core.Invalid) {
		t.Fatalf("got %v", err)
	}
	for _, want := range []string{`"*"`, `"*.com"`, `"http://x.example"`, `"127.0.0.1"`, `"169.254.169.254:80"`, `"*.1.2.3.4"`, `"a b"`} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%s is not named in: %v", want, err)
		}
	}
	if strings.Contains(err.Error(), "good.example") {
		t.Errorf("a good entry is named: %v", err)
	}
}
