package scenarios

import (
	"bytes"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"drydock/internal/core"
	"drydock/internal/execution/sandbox"
	"drydock/internal/surface/api"
	"drydock/internal/surface/client"
	"drydock/internal/testkit"
)

const probe = `# Tries to reach something, and tells what came of it.
case $1 in
tcp)
	if said=$(timeout 10 bash -c "exec 3<>/dev/tcp/$2/$3" 2>&1); then echo "REACHED $2:$3"; else echo "refused $2:$3: $said"; fi ;;
name)
	getent ahostsv4 "$2" || echo "no address for $2" ;;
http)
	proxy=${http_proxy#http://}
	exec 3<>"/dev/tcp/${proxy%:*}/${proxy#*:}"
	printf 'GET http://%s/ HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n' "$2" "$2" >&3
	cat <&3 ;;
esac
`

// TestContainment tries, from inside, what a sandbox must not reach.
func TestContainment(t *testing.T) {
	d := testkit.Start(t, testkit.Options{Script: `
scripts:
  - name: probe
    when: {prompt: {contains: probe}}
    answers:
      - calls:
          - {tool: run, input: {command: "bash probe.sh tcp 169.254.169.254 80; bash probe.sh tcp 10.11.12.13 443; bash probe.sh tcp 192.168.77.1 22"}}
          - {tool: run, input: {command: "bash probe.sh name unlisted.example.org; bash probe.sh http unlisted.example.com"}}
          - {tool: run, input: {command: "apt-get -qq -o Acquire::Languages=none update && echo listed"}}
      - expect:
          - {tool: run, contains: ["refused 169.254.169.254:80", "refused 10.11.12.13:443", "refused 192.168.77.1:22"]}
          - {tool: run, contains: ["no address for unlisted.example.org", "does not allow unlisted.example.com", "drydock.yaml"]}
          - {tool: run, failed: false, contains: listed}
        calls: [{tool: run, input: {command: sleep 600}}]
  - name: neighbour
    answers:
      - calls: [{tool: run, input: {command: sleep 600}}]
`})
	env := d.BuildEnvironment(t, tinyRepo(t, func(f map[string]string) {
		f["probe.sh"] = probe
		f["drydock.yaml"] += "network: {allow: [registries]}\n"
	}))
	c := d.Client(t, "ana")
	start := func(text, title string) core.SessionID {
		made, err := c.CreateSession(t.Context(), api.CreateSession{Environment: env.Name, Prompt: text})
		if err != nil {
			t.Fatal(err)
		}
		failed := ""
		events := testkit.Follow(t, c, made.Session.ID, func(e core.Event) bool {
			if e.Kind == core.EventRunFinished {
				failed = string(e.Data)
			}
			return failed != "" || e.Kind == core.EventToolStarted && testkit.Data[core.ToolData](t, e).Title == title
		})
		if failed != "" {
			t.Fatalf("%s\n%s", failed, testkit.Story(events))
		}
		return made.Session.ID
	}
	neighbour := start("stay here", "$ sleep 600")
	id := start("probe the walls", "$ sleep 600")

	targets, touched := forbidden(t, c, neighbour)
	for _, target := range targets {
		var out bytes.Buffer
		host, port, _ := net.SplitHostPort(target)
		if _, err := c.Exec(t.Context(), id, client.Exec{ExecRequest: api.ExecRequest{Argv: []string{"bash", "probe.sh", "tcp", host, port}}, Out: &out, Err: &out}); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(out.String(), "refused "+target) {
			t.Errorf("%s: %s", target, out.String())
		}
	}
	if n := touched.Load(); n > 0 {
		t.Errorf("a server on the host was reached %d times", n)
	}
	want := []string{"169.254.169.254", "10.11.12.13", "192.168.77.1", "unlisted.example.org", "unlisted.example.com"}
	for _, target := range targets {
		host, _, _ := net.SplitHostPort(target)
		want = append(want, host)
	}
	testkit.Follow(t, c, id, func(e core.Event) bool {
		if e.Kind == core.EventNetworkDenied {
			denied := testkit.Data[core.DeniedData](t, e)
			if denied.Reason == "" || denied.Hint == "" && !strings.Contains(denied.Reason, "UDP") {
				t.Errorf("a denial says too little: %+v", denied)
			}
			want = slices.DeleteFunc(want, func(host string) bool { return host == denied.Host })
		}
		return len(want) == 0
	})
	for _, id := range []core.SessionID{id, neighbour} {
		if err := c.Stop(t.Context(), id, ""); err != nil {
			t.Error(err)
		}
	}
}

// forbidden are places that a sandbox could find: a server that listens on
// every address of the host, and the neighbour's drydock-init.
func forbidden(t *testing.T, c *client.Client, neighbour core.SessionID) (targets []string, touched *atomic.Int64) {
	t.Helper()
	l, err := net.Listen("tcp4", "0.0.0.0:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	touched = &atomic.Int64{}
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			touched.Add(1)
			_ = conn.Close()
		}
	}()
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range addrs {
		ip, ok := a.(*net.IPNet)
		if ok && ip.IP.To4() != nil && !ip.IP.IsLoopback() {
			targets = append(targets, fmt.Sprintf("%s:%d", ip.IP, l.Addr().(*net.TCPAddr).Port))
		}
	}
	boxes, err := c.Sandboxes(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	n := len(targets)
	for _, b := range boxes {
		if b.Session == neighbour {
			targets = append(targets, fmt.Sprintf("%s:%d", b.Address, sandbox.GuestPort))
		}
	}
	if n == 0 || len(targets) == n {
		t.Fatalf("nothing to try: %v", targets)
	}
	return targets, touched
}
