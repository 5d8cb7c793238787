package containment

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"drydock/internal/containment/egress"
	"drydock/internal/containment/registries"
	"drydock/internal/core"
	"drydock/internal/testkit/need"
)

// outside is what lies beyond the egress: a few names and servers.
type outside struct {
	names map[string]string

	mu        sync.Mutex
	routes    map[string]string
	decisions []egress.Decision
}

func (o *outside) LookupNetIP(_ context.Context, _, host string) ([]netip.Addr, error) {
	a, err := netip.ParseAddr(o.names[strings.TrimSuffix(host, ".")])
	if err != nil {
		return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
	}
	return []netip.Addr{a}, nil
}

func (o *outside) dial(ctx context.Context, network, address string) (net.Conn, error) {
	o.mu.Lock()
	to := o.routes[address]
	o.mu.Unlock()
	if to == "" {
		return nil, fmt.Errorf("no route to %s", address)
	}
	return (&net.Dialer{}).DialContext(ctx, network, to)
}

func (o *outside) denial(match func(egress.Decision) bool) bool {
	for deadline := time.Now().Add(5 * time.Second); time.Now().Before(deadline); <-time.After(10 * time.Millisecond) {
		o.mu.Lock()
		for _, d := range o.decisions {
			if !d.Allowed && match(d) {
				o.mu.Unlock()
				return true
			}
		}
		o.mu.Unlock()
	}
	return false
}

func openNetwork(t *testing.T) (*Network, *outside) {
	t.Helper()
	need.Root(t)
	need.Program(t, "nft")
	o := &outside{names: map[string]string{"good.example": "93.184.216.34", "inside.example": "10.0.0.8"}, routes: map[string]string{}}
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprintf(w, "outside %s", r.Host) })
	plain, secure := httptest.NewServer(h), httptest.NewTLSServer(h)
	t.Cleanup(plain.Close)
	t.Cleanup(secure.Close)
	o.routes["93.184.216.34:80"] = plain.Listener.Addr().String()
	o.routes["93.184.216.34:443"] = secure.Listener.Addr().String()
	n, err := Open(t.Context(), Deps{
		Log: slog.New(slog.DiscardHandler), Resolver: o, Dial: o.dial,
		Decided: func(d egress.Decision) {
			o.mu.Lock()
			defer o.mu.Unlock()
			o.decisions = append(o.decisions, d)
		},
	}, Options{StateDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := n.Teardown(context.Background()); err != nil {
			t.Errorf("teardown: %v", err)
		}
		if left, _ := filepath.Glob("/run/drydock/netns/" + n.jail.Instance() + ".*"); len(left) > 0 {
			t.Errorf("left behind: %v", left)
		}
	})
	return n, o
}

func allow(names ...string) *core.NetworkPolicy { return &core.NetworkPolicy{Allow: names} }

// sandbox runs a shell script in a real gVisor sandbox on the network and
// returns what it prints. Its root is the host's, with a layer above.
func sandbox(t *testing.T, n *Network, policy *core.NetworkPolicy, script string) string {
	t.Helper()
	return sandboxWith(t, n, policy, registries.Settings{}, script)
}

// sandboxWith brings settings along, as an environment does.
func sandboxWith(t *testing.T, n *Network, policy *core.NetworkPolicy, settings registries.Settings, script string) string {
	t.Helper()
	runsc := need.Runsc(t)
	id := core.NewSandboxID()
	at, err := n.Attach(t.Context(), id, policy)
	if err != nil {
		t.Fatal(err)
	}
	dir, root := rootfs(t, at.Resolver, settings)
	spec := map[string]any{
		"ociVersion": "1.0.0",
		"process": map[string]any{
			"args": []string{"/bin/sh", "-c", script}, "cwd": "/",
			"env": append([]string{"PATH=/usr/local/go/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/tmp", "GOCACHE=/tmp/go", "GOPATH=/tmp/gopath"}, append(at.Env, settings.Env...)...),
		},
		"root": map[string]any{"path": root},
		"mounts": []any{
			map[string]any{"destination": "/proc", "type": "proc", "source": "proc"},
			map[string]any{"destination": "/tmp", "type": "tmpfs", "source": "tmpfs"},
		},
		"linux": map[string]any{"namespaces": []any{
			map[string]any{"type": "pid"},
			map[string]any{"type": "mount"},
			map[string]any{"type": "ipc"},
			map[string]any{"type": "uts"},
			map[string]any{"type": "network", "path": at.Namespace},
		}},
	}
	data, _ := json.Marshal(spec)
	if err := os.WriteFile(filepath.Join(dir, "config.json"), data, 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, runsc, "--root", filepath.Join(dir, "state"), "--network=sandbox", "--overlay2=none", "--ignore-cgroups", "run", "--bundle", dir, string(id))
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Logf("runsc: %v", err)
	}
	if err := n.Detach(context.Background(), id); err != nil {
		t.Error(err)
	}
	return string(out)
}

// rootfs lays a resolv.conf over the host's root.
func rootfs(t *testing.T, resolver netip.Addr, settings registries.Settings) (dir, root string) {
	t.Helper()
	dir = t.TempDir()
	for _, d := range []string{"upper/etc", "work", "root"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "upper/etc/resolv.conf"), fmt.Appendf(nil, "nameserver %s\n", resolver), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, f := range settings.Files(registries.Target{Distribution: "debian", Suite: "bookworm"}) {
		full := filepath.Join(dir, "upper", f.Path)
		if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(full, f.Data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	root = filepath.Join(dir, "root")
	options := fmt.Sprintf("lowerdir=/,upperdir=%s/upper,workdir=%s/work", dir, dir)
	if err := unix.Mount("overlay", root, "overlay", 0, options); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = unix.Unmount(filepath.Join(dir, "state/null-netns"), unix.MNT_DETACH) // runsc keeps it
		if err := unix.Unmount(root, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return dir, root
}

// TestFromInsideGVisor tries the network as programs in a sandbox do.
func TestFromInsideGVisor(t *testing.T) {
	need.Program(t, "curl")
	n, o := openNetwork(t)
	host := hostAddress(t)
	out := sandbox(t, n, allow("good.example", "inside.example"), `
say() { echo "$1: $(shift; "$@" 2>&1 | tr '\n' ' ')"; }
say proxy curl -sk https://good.example/
say proxy-http curl -s http://good.example/
say captured curl -sk --noproxy '*' https://good.example/
say captured-http curl -s --noproxy '*' http://good.example/
say denied curl -s http://bad.example/
say denied-tls curl -sSk https://bad.example/
say unknown-name curl -sS --noproxy '*' https://bad.example/
say private curl -s http://inside.example/
say literal curl -sS --noproxy '*' --max-time 5 http://93.184.216.34/
say decimal curl -sS --noproxy '*' --max-time 5 http://2130706433/
say metadata curl -sS --noproxy '*' --max-time 5 http://169.254.169.254/latest/meta-data/
say metadata-proxy curl -s http://169.254.169.254/latest/meta-data/
say host curl -sS --noproxy '*' --max-time 5 http://`+host+`/
say spoof-hosts curl -sSk --noproxy '*' --max-time 5 --resolve good.example:443:93.184.216.34 https://good.example/
say ipv6 curl -sS --noproxy '*' --max-time 5 'http://[2606:2800:220:1::1]/'
sleep 2 # refused packets are looked up every second
`)
	for _, want := range []string{
		"proxy: outside good.example", "proxy-http: outside good.example", "captured: outside good.example", "captured-http: outside good.example",
		"denied: Drydock: the network policy of this environment does not allow bad.example", "denied-tls: curl: (56) CONNECT tunnel failed, response 403",
		"unknown-name: curl: (6) Could not resolve host", "private: Drydock: inside.example leads to the private",
		"literal: curl: (7) Failed to connect", "decimal: curl: (7) Failed to connect", "metadata: curl: (7) Failed to connect",
		"metadata-proxy: Drydock: 169.254.169.254 is an address", "host: curl: (7) Failed to connect", "spoof-hosts: curl: (7) Failed to connect", "ipv6: curl: (7) ",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("not found: %s", want)
		}
	}
	if t.Failed() {
		t.Log(out)
	}
	if !o.denial(func(d egress.Decision) bool { return d.Via == "packet" && d.Host == "93.184.216.34" }) {
		t.Error("a refused packet is not in the log")
	}
}

// TestNoPolicyFromInsideGVisor has no network at all.
func TestNoPolicyFromInsideGVisor(t *testing.T) {
	need.Program(t, "curl")
	n, _ := openNetwork(t)
	out := sandbox(t, n, nil, `curl -sS --max-time 5 -x http://198.18.0.1:3128 http://good.example/ 2>&1; curl -sS --max-time 8 http://good.example/ 2>&1; echo "proxy=$http_proxy"`)
	if strings.Contains(out, "outside") || !strings.Contains(out, "Failed to connect") || !strings.Contains(out, "proxy=\n") {
		t.Error(out)
	}
}

func hostAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp4", "0.0.0.0:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	addrs, _ := net.InterfaceAddrs()
	for _, a := range addrs {
		if ip := a.(*net.IPNet).IP.To4(); ip != nil && !ip.IsLoopback() {
			return fmt.Sprintf("%s:%d", ip, l.Addr().(*net.TCPAddr).Port)
		}
	}
	return "192.0.2.1:80"
}

// insideNamespace runs a program in a plain namespace of the jail.
func insideNamespace(t *testing.T, at core.Attachment, argv ...string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	cmd := exec.CommandContext(t.Context(), need.Program(t, "nsenter"), append([]string{"--net=" + at.Namespace}, argv...)...)
	cmd.Env = append(os.Environ(), at.Env...)
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	return out.String(), err
}

func TestPolicyComesAndGoes(t *testing.T) {
	curl := need.Program(t, "curl")
	n, _ := openNetwork(t)
	id := core.NewSandboxID()
	at, err := n.Attach(t.Context(), id, allow())
	if err != nil {
		t.Fatal(err)
	}
	ask := func() string {
		out, _ := insideNamespace(t, at, curl, "-s", "http://good.example/")
		return out
	}
	if got := ask(); !strings.Contains(got, "does not allow good.example") {
		t.Errorf("empty policy: %s", got)
	}
	for _, step := range []struct {
		policy *core.NetworkPolicy
		want   string
	}{{allow("good.example"), "outside good.example"}, {allow("other.example"), "does not allow"}, {nil, ""}} {
		if err := n.SetPolicy(t.Context(), id, step.policy); err != nil {
			t.Fatal(err)
		}
		if got := ask(); !strings.Contains(got, step.want) || (step.want == "" && got != "") {
			t.Errorf("%v: %q", step.policy, got)
		}
	}
	if err := n.SetPolicy(t.Context(), id, allow("*")); !core.Is(err, core.Invalid) {
		t.Errorf("a wrong policy: %v", err)
	}
}

// TestDaemonComesBack closes the network under a living sandbox: while it is
// down nothing gets out, and afterwards all is as before.
func TestDaemonComesBack(t *testing.T) {
	curl := need.Program(t, "curl")
	need.Root(t)
	o := &outside{names: map[string]string{"good.example": "93.184.216.34"}, routes: map[string]string{}}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "outside") }))
	defer srv.Close()
	o.routes["93.184.216.34:80"] = srv.Listener.Addr().String()
	dir := t.TempDir()
	open := func() *Network {
		n, err := Open(t.Context(), Deps{Log: slog.New(slog.DiscardHandler), Resolver: o, Dial: o.dial}, Options{StateDir: dir})
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	first := open()
	at, err := first.Attach(t.Context(), core.NewSandboxID(), allow("good.example"))
	if err != nil {
		t.Fatal(err)
	}
	ids, _ := first.List(t.Context())
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	if out, err := insideNamespace(t, at, curl, "-sS", "http://good.example/"); err == nil {
		t.Errorf("without a daemon: %s", out)
	}
	second := open()
	defer func() { _ = second.Teardown(context.Background()) }()
	if lost, err := second.Recover(t.Context(), ids); err != nil || len(lost) > 0 {
		t.Errorf("lost %v, %v", lost, err)
	}
	if out, err := insideNamespace(t, at, curl, "-sS", "http://good.example/"); out != "outside" {
		t.Errorf("after a restart: %q, %v", out, err)
	}
}

// TestRegistriesAreReachable installs from the registries that this machine is
// configured to use, once through the explicit proxy and once captured.
func TestRegistriesAreReachable(t *testing.T) {
	need.Root(t)
	settings := registries.Read(t.Context(), registries.Options{Environ: os.Environ()})
	managers := map[string]bool{}
	for _, e := range settings.Hosts() {
		managers[e.Manager] = true
	}
	n, err := Open(t.Context(), Deps{Log: slog.New(slog.DiscardHandler)}, Options{StateDir: t.TempDir(), Registries: Endpoints(settings)})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = n.Teardown(context.Background()) }()
	// One half uses the explicit proxy, the other is captured.
	for before, lines := range map[string]map[string]string{
		"": {
			"go":  "mkdir /tmp/m; cd /tmp/m; go mod init m 2>/dev/null; go get github.com/google/go-cmp@v0.7.0",
			"apt": "mkdir -p /tmp/lists/partial; apt-get -o Dir::State::Lists=/tmp/lists -o APT::Sandbox::User=root -o Dir::Etc::sourceparts=/tmp -o Dir::Etc::sourcelist=/etc/apt/sources.list.d/drydock.sources update",
		},
		"unset http_proxy https_proxy HTTP_PROXY HTTPS_PROXY;\n": {
			"npm": "npm view left-pad version",
		},
	} {
		script := before
		for manager, line := range lines {
			if managers[manager] {
				script += "(" + line + ") 2>&1 && echo " + manager + " is fine;\n"
			}
		}
		out := sandboxWith(t, n, allow("registries"), settings, script)
		for manager := range lines {
			if managers[manager] && !strings.Contains(out, manager+" is fine") {
				t.Errorf("%s:\n%s", manager, out)
			}
		}
	}
}
