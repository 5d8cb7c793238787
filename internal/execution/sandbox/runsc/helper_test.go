package runsc_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"drydock/internal/core"
	"drydock/internal/execution/guest"
	"drydock/internal/execution/sandbox"
)

func encode(t *testing.T, v any) string {
	t.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func decode(s string, v any) error { return json.Unmarshal([]byte(s), v) }

func shell(t *testing.T, h sandbox.Handle, script string) string {
	t.Helper()
	c := guest.NewTCPClient(h.Guest, h.Token)
	defer c.Close()
	res, err := c.Run(t.Context(), guest.Command{Argv: []string{"sh", "-c", script}})
	if err != nil {
		t.Fatalf("%q: %v", script, err)
	}
	return strings.TrimSpace(string(res.Stdout) + string(res.Stderr))
}

// killSandbox kills the runtime of a sandbox as a stranger would.
func killSandbox(t *testing.T, stateDir string, id core.SandboxID) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(stateDir, "sandboxes", string(id), "bundle/pid"))
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(data)))
	if err != nil {
		t.Fatal(err)
	}
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	if err := unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0); err != nil {
		t.Fatal(err)
	}
	for {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 10_000)
		if n == 1 {
			return
		}
		if err != unix.EINTR {
			t.Fatalf("process %d does not end: %v", pid, err)
		}
	}
}
