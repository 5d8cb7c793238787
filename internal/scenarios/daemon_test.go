package scenarios

import (
	"bytes"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"drydock/internal/surface/client"
	"drydock/internal/testkit"
	"drydock/internal/testkit/need"
)

// program is the daemon as people run it: a process that can be killed.
type program struct {
	state, url, config, bin string
	cmd                     *exec.Cmd
	ended                   chan struct{}
}

// serve writes a configuration and starts bin/drydock on it.
func serve(t *testing.T, script string, more string) *program {
	t.Helper()
	need.Runsc(t)
	need.Bin(t, "drydock-init")
	p := &program{state: t.TempDir(), bin: need.Bin(t, "drydock")}
	p.config = filepath.Join(p.state, "drydock.yaml")
	if err := os.Symlink(testkit.ImageCache(t), filepath.Join(p.state, "images")); err != nil {
		t.Fatal(err)
	}
	scriptFile := filepath.Join(p.state, "script.yaml")
	for name, text := range map[string]string{
		scriptFile: script,
		p.config: fmt.Sprintf("listen: %s\nstate_dir: %s\nproof: {pictures: false}\nmodels:\n  - {name: scripted, kind: scripted, script: %s}\n%s",
			freeAddress(t), p.state, scriptFile, more),
	} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() {
		p.kill(t)
		if t.Failed() {
			log, _ := os.ReadFile(filepath.Join(p.state, "daemon.log"))
			t.Logf("log of the daemon (end):\n%s", log[max(0, len(log)-8000):])
		}
		// The daemon leaves its network to the next start; this one takes all down.
		testkit.Start(t, testkit.Options{State: p.state, Script: script})
	})
	p.start(t)
	return p
}

// freeAddress is one that nobody listens on, and that stays the same over
// restarts.
func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

func (p *program) start(t *testing.T) {
	t.Helper()
	log, err := os.OpenFile(filepath.Join(p.state, "daemon.log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	_ = os.Remove(filepath.Join(p.state, "api.addr"))
	p.cmd = exec.Command(p.bin, "serve", "--config", p.config)
	p.cmd.Stdout, p.cmd.Stderr = log, log
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	cmd, ended := p.cmd, make(chan struct{})
	p.ended = ended
	go func() { _ = cmd.Wait(); close(ended) }()
	deadline := time.After(time.Minute)
	alive := &http.Client{Timeout: 5 * time.Second}
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ended:
			t.Fatal("the daemon ended at its start")
		case <-deadline:
			t.Fatal("the daemon does not answer")
		case <-tick.C:
		}
		addr, err := os.ReadFile(filepath.Join(p.state, "api.addr"))
		if err != nil {
			continue
		}
		p.url = string(bytes.TrimSpace(addr))
		if resp, err := alive.Get(p.url + "/healthz"); err == nil {
			_ = resp.Body.Close()
			return
		}
	}
}

// kill is SIGKILL: the daemon gets no chance to say goodbye.
func (p *program) kill(t *testing.T) {
	t.Helper()
	_ = p.cmd.Process.Kill()
	<-p.ended
}

func (p *program) client(t *testing.T, token string) *client.Client {
	t.Helper()
	if token == "" {
		token = testkit.OperatorToken(t, p.state)
	}
	return testkit.Dial(t, p.url, token)
}
