package supervisor

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"drydock/internal/core"
	"drydock/internal/execution/guest"
	"drydock/internal/testkit/need"
)

const gvisorToken = "a-token-for-the-gvisor-test"

// do runs a program that must succeed.
func do(t *testing.T, name string, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	out, err := exec.CommandContext(ctx, name, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %v: %v\n%s", name, args, err, out)
	}
	return string(out)
}

// gvisor starts drydock-init as PID 1 of a sandbox on an overlay over the
// host's own root.
func gvisor(t *testing.T) *guest.Client {
	t.Helper()
	runsc, initBin := need.Runsc(t), need.Bin(t, "drydock-init")
	need.Program(t, "ip")
	dir := t.TempDir()
	undo := func(name string, args ...string) {
		t.Cleanup(func() { _ = exec.Command(name, args...).Run() })
	}
	// The upper directory must not lie below the lower one.
	do(t, "mount", "-t", "tmpfs", "drydock-test", dir)
	undo("umount", dir)
	for _, d := range []string{"upper", "work", "root", "bundle", "state", "bin"} {
		if err := os.Mkdir(filepath.Join(dir, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	root := filepath.Join(dir, "root")
	do(t, "mount", "-t", "overlay", "drydock-test", "-o",
		"lowerdir=/,upperdir="+filepath.Join(dir, "upper")+",workdir="+filepath.Join(dir, "work"), root)
	undo("umount", root)
	do(t, "cp", initBin, filepath.Join(dir, "bin", "init"))
	for _, d := range []string{".drydock", "workspace"} {
		if err := os.MkdirAll(filepath.Join(root, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return startGvisor(t, runsc, dir, undo)
}

func startGvisor(t *testing.T, runsc, dir string, undo func(string, ...string)) *guest.Client {
	t.Helper()
	id := string(core.NewSandboxID())
	tag := id[len(id)-8:]
	ns, veth := "ddg-"+tag, "ddg"+tag
	do(t, "ip", "netns", "add", ns)
	undo("ip", "netns", "del", ns)
	do(t, "ip", "link", "add", veth, "type", "veth", "peer", "name", "eth0", "netns", ns)
	undo("ip", "link", "del", veth)
	do(t, "ip", "addr", "add", "198.18.255.253/30", "dev", veth)
	do(t, "ip", "link", "set", veth, "up")
	do(t, "ip", "-n", ns, "addr", "add", "198.18.255.254/30", "dev", "eth0")
	do(t, "ip", "-n", ns, "link", "set", "lo", "up")
	do(t, "ip", "-n", ns, "link", "set", "eth0", "up")
	do(t, "ip", "-n", ns, "route", "add", "default", "via", "198.18.255.253")
	caps := []string{
		"CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_FOWNER", "CAP_FSETID", "CAP_KILL", "CAP_SETGID", "CAP_SETUID",
		"CAP_SYS_ADMIN", "CAP_SYS_PTRACE", "CAP_NET_BIND_SERVICE", "CAP_SYS_CHROOT",
	}
	spec := map[string]any{
		"ociVersion": "1.0.0", "hostname": "drydock-test",
		"root": map[string]any{"path": filepath.Join(dir, "root")},
		"process": map[string]any{
			"args": []string{"/.drydock/init"}, "cwd": "/", "user": map[string]any{"uid": 0, "gid": 0},
			"env":          []string{"DRYDOCK_TOKEN=" + gvisorToken, "DRYDOCK_PORT=7070", "FROM_SPEC=1"},
			"capabilities": map[string]any{"bounding": caps, "effective": caps, "permitted": caps},
		},
		"mounts": []map[string]any{
			{"destination": "/proc", "type": "proc", "source": "proc"},
			{"destination": "/dev", "type": "tmpfs", "source": "tmpfs"},
			{"destination": "/dev/pts", "type": "devpts", "source": "devpts"},
			{"destination": "/.drydock", "type": "bind", "source": filepath.Join(dir, "bin"), "options": []string{"bind", "ro"}},
		},
		"linux": map[string]any{"namespaces": []map[string]any{
			{"type": "pid"}, {"type": "ipc"}, {"type": "uts"}, {"type": "mount"}, {"type": "network", "path": "/run/netns/" + ns},
		}},
	}
	raw, err := json.Marshal(spec)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "bundle", "config.json"), raw, 0o600); err != nil {
		t.Fatal(err)
	}
	base := []string{"--root", filepath.Join(dir, "state"), "--network=sandbox", "--overlay2=none"}
	log, err := os.Create(filepath.Join(t.TempDir(), "log"))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	cmd := exec.Command(runsc, append(base, "run", "--bundle", filepath.Join(dir, "bundle"), "--detach", id)...)
	cmd.Stdout, cmd.Stderr = log, log // a sandbox keeps pipes open
	undo("umount", filepath.Join(dir, "state", "null-netns"))
	undo(runsc, append(base, "delete", "--force", id)...)
	if err := cmd.Run(); err != nil {
		text, _ := os.ReadFile(log.Name())
		t.Fatalf("runsc: %v\n%s", err, text)
	}
	c := guest.NewTCPClient(netip.MustParseAddrPort("198.18.255.254:7070"), gvisorToken)
	t.Cleanup(c.Close)
	eventually(t, "drydock-init answers", func() bool { _, err := c.Health(t.Context()); return err == nil })
	t.Cleanup(func() {
		if t.Failed() {
			text, _ := os.ReadFile(log.Name())
			t.Logf("sandbox: %s", text)
		}
	})
	return c
}

func TestInGvisor(t *testing.T) {
	c := gvisor(t)
	ctx := t.Context()

	t.Run("token is out of sight", func(t *testing.T) {
		res := mustRun(t, c, sh("cat /proc/1/environ /proc/self/environ | tr '\\0' '\\n'; cat /proc/1/cmdline"))
		if strings.Contains(string(res.Stdout), gvisorToken) || !strings.Contains(string(res.Stdout), "FROM_SPEC=1") {
			t.Errorf("environments: %q", res.Stdout)
		}
	})
	t.Run("setup", func(t *testing.T) {
		res, err := c.Setup(ctx, guest.Setup{Hostname: "renamed", Env: []string{"X=1"}, Resolver: "198.18.255.253", Clock: time.Now()})
		if err != nil || len(res.Warnings) > 0 {
			t.Fatalf("%+v, %v", res, err)
		}
		if out := mustRun(t, c, sh("hostname; cat /etc/resolv.conf; echo $X $HOME $USER; pwd")); !strings.HasPrefix(string(out.Stdout),
			"renamed\nnameserver 198.18.255.253\n") || !strings.HasSuffix(string(out.Stdout), "1 /root root\n/workspace\n") {
			t.Errorf("got %q", out.Stdout)
		}
	})
	t.Run("user", func(t *testing.T) {
		res := mustRun(t, c, guest.Command{Argv: []string{"sh", "-c", "id -un; id -gn; echo $HOME"}, User: "daemon", Dir: "/"})
		if string(res.Stdout) != "daemon\ndaemon\n/usr/sbin\n" {
			t.Errorf("got %q %q", res.Stdout, res.Stderr)
		}
	})
	t.Run("orphans are reaped and exit codes are not stolen", func(t *testing.T) {
		for range 5 {
			res := mustRun(t, c, sh("(sh -c 'sleep 0.05 & exit 0') ; exit 5"))
			if res.ExitCode != 5 {
				t.Fatalf("exit code %d", res.ExitCode)
			}
		}
		eventually(t, "no zombies", func() bool {
			res := mustRun(t, c, sh("cat /proc/[0-9]*/stat 2>/dev/null | grep -c ') Z ' || true"))
			return strings.TrimSpace(string(res.Stdout)) == "0"
		})
	})
	t.Run("terminal", func(t *testing.T) {
		p, err := c.Start(ctx, guest.Command{Argv: []string{"bash", "--norc"}, PTY: &guest.Size{Rows: 30, Cols: 100}})
		if err != nil {
			t.Fatal(err)
		}
		read := func() string {
			out, err := c.Output(ctx, p.ID, guest.Stdout, 0, false)
			if err != nil {
				t.Fatal(err)
			}
			defer out.Close()
			raw, _ := io.ReadAll(out)
			return string(raw)
		}
		if err := c.Write(ctx, p.ID, []byte("stty size; sh -c 'echo in-$((2+2)); exec sleep 300'\n")); err != nil {
			t.Fatal(err)
		}
		eventually(t, "size", func() bool { return strings.Contains(read(), "30 100") && strings.Contains(read(), "in-4") })
		if err := c.Write(ctx, p.ID, []byte("\x03exit 3\n")); err != nil {
			t.Fatal(err)
		}
		if end, err := c.Wait(ctx, p.ID); err != nil || end.ExitCode != 3 {
			t.Errorf("%+v, %v: %q", end, err, read())
		}
	})
	t.Run("detached child", func(t *testing.T) {
		began := time.Now()
		if res := mustRun(t, c, sh("sleep 300 & echo started")); string(res.Stdout) != "started\n" || time.Since(began) > 3*time.Second {
			t.Errorf("%q after %s", res.Stdout, time.Since(began))
		}
	})
	t.Run("kill reaches the session", func(t *testing.T) {
		cmd := sh("setsid sleep 301 & sleep 302 & sleep 303")
		cmd.Timeout, cmd.Grace = 100*time.Millisecond, 100*time.Millisecond
		mustRun(t, c, cmd)
		if res := mustRun(t, c, sh("ps -e -o args= | grep -c '[s]leep 30[23]' || true")); strings.TrimSpace(string(res.Stdout)) != "0" {
			t.Errorf("%s are left", res.Stdout)
		}
	})
	t.Run("service, ports, tunnel", func(t *testing.T) {
		states, err := c.StartServices(ctx, []guest.Service{{
			Name: "web", Run: "exec python3 -m http.server 8000 --bind 127.0.0.1", Port: 8000,
			Ready: "http://127.0.0.1:8000/",
		}})
		if err != nil {
			t.Fatalf("%+v, %v", states, err)
		}
		ports, err := c.Ports(ctx)
		if err != nil || !strings.Contains(portList(ports), ",7070,8000,") {
			t.Errorf("ports %+v, %v", ports, err)
		}
		conn, err := c.Tunnel(ctx, 8000)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		_, _ = io.WriteString(conn, "GET / HTTP/1.0\r\n\r\n")
		answer, _ := io.ReadAll(conn)
		if !bytes.Contains(answer, []byte("200 OK")) {
			t.Errorf("got %q", answer)
		}
		mustRun(t, c, sh("setsid -f sh -c 'trap \"touch /workspace/ended; exit\" TERM; touch /workspace/armed; while :; do sleep 0.05; done'"))
		eventually(t, "the daemon is there", func() bool { _, err := c.Stat(ctx, "/workspace/armed"); return err == nil })
		if err := c.Quiesce(ctx); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Stat(ctx, "/workspace/ended"); err != nil {
			t.Errorf("a daemon of nobody's was not asked to end: %v", err)
		}
		if res := mustRun(t, c, sh("ls -d /proc/[0-9]* | wc -l")); strings.TrimSpace(string(res.Stdout)) > "4" {
			t.Errorf("%s processes are left", res.Stdout)
		}
	})
	t.Run("large output", func(t *testing.T) {
		cmd := sh("head -c 20000000 /dev/urandom | base64 -w0 | tee /tmp/x | cat; sha256sum </tmp/x >&2")
		res := mustRun(t, c, cmd)
		if !res.Truncated || len(res.Stderr) != 68 {
			t.Errorf("truncated %v, %q", res.Truncated, res.Stderr)
		}
	})
	t.Run("inside is refused beyond its bound", func(t *testing.T) {
		res := mustRun(t, c, sh("curl -s -o /dev/null -w '%{http_code}' http://127.0.0.1:7070/v1/health; for i in $(seq 40); do sleep 60 3<>/dev/tcp/127.0.0.1/7070 & done"))
		if !strings.HasPrefix(string(res.Stdout), "401") {
			t.Errorf("got %q", res.Stdout)
		}
		if _, err := c.Health(ctx); err != nil {
			t.Error(err)
		}
	})
	t.Run("latency", func(t *testing.T) {
		const turns = 50
		began := time.Now()
		for range turns {
			_, _ = c.Stat(ctx, "/")
		}
		t.Logf("a round trip: mean %s", time.Since(began)/turns)
		var list []time.Duration
		for range turns {
			began := time.Now()
			mustRun(t, c, guest.Command{Argv: []string{"true"}})
			list = append(list, time.Since(began))
		}
		slices.Sort(list)
		t.Logf("a warm command: median %s, worst %s", list[turns/2], list[turns-1])
	})
}
