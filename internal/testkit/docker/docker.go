// Package docker starts Debian's docker-registry for tests: an OCI registry in
// a process of its own, written by others.
package docker

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"drydock/internal/testkit/need"
)

const config = `version: 0.1
log: {level: error}
storage: {filesystem: {rootdirectory: %s}, delete: {enabled: true}}
http: {addr: %q}
`

// Registry starts one that ends with the test, and returns its host and port.
func Registry(t testing.TB) string {
	t.Helper()
	program := need.Program(t, "docker-registry")
	var lc net.ListenConfig
	l, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	l.Close()
	dir := t.TempDir()
	file := filepath.Join(dir, "config.yml")
	if err := os.WriteFile(file, fmt.Appendf(nil, config, filepath.Join(dir, "data"), addr), 0o600); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	cmd := exec.CommandContext(t.Context(), program, "serve", file)
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	stop := func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}
	t.Cleanup(stop)
	var dialer net.Dialer
	for deadline := time.Now().Add(20 * time.Second); ; {
		c, err := dialer.DialContext(t.Context(), "tcp", addr)
		if err == nil {
			c.Close()
			return addr
		}
		if time.Now().After(deadline) {
			stop() // nothing writes to out any more
			t.Fatalf("docker-registry does not answer: %v\n%s", err, out.String())
		}
		<-time.After(20 * time.Millisecond)
	}
}
