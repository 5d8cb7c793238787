package runsc_test

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"drydock/internal/core"
)

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
