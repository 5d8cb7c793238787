package main

import (
	"context"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"drydock/examples"
	"drydock/internal/config"
	"drydock/internal/core"
	"drydock/internal/gitcmd"
	"drydock/internal/surface/cli"
)

// demoState is where the demo keeps everything, apart from a real daemon's.
const demoState = "/var/lib/drydock-demo"

// demoHost readies a daemon of the demo's own: it stays when the demo has
// ended, so that its change can be looked at and merged.
func demoHost(_ string) func(context.Context, cli.DemoOptions) (cli.DemoHost, error) {
	return func(ctx context.Context, o cli.DemoOptions) (cli.DemoHost, error) {
		state := o.State
		if state == "" {
			state = demoState
		}
		state, err := filepath.Abs(state)
		if err != nil {
			return cli.DemoHost{}, err
		}
		if os.Geteuid() != 0 {
			return cli.DemoHost{}, core.E("demo", core.Denied, nil, "the demo makes namespaces and mounts, which needs root").WithHint("sudo drydock demo")
		}
		if err := os.MkdirAll(state, 0o700); err != nil {
			return cli.DemoHost{}, err
		}
		source, commit, err := demoSource(ctx, filepath.Join(state, "source", "shop"))
		if err != nil {
			return cli.DemoHost{}, err
		}
		if err := demoConfig(state); err != nil {
			return cli.DemoHost{}, err
		}
		url, err := demoDaemon(ctx, state)
		if err != nil {
			return cli.DemoHost{}, err
		}
		token, err := os.ReadFile(filepath.Join(state, "token"))
		if err != nil {
			return cli.DemoHost{}, err
		}
		model := o.Model
		if model == "" {
			model = "scripted"
		}
		return cli.DemoHost{
			URL: url, Token: strings.TrimSpace(string(token)), Source: source, Name: demoName(ctx, state, commit), Task: examples.Task,
			Model: model, Flags: "--state " + state, Pictures: filepath.Join(state, "pictures"),
			Note: fmt.Sprintf("The demo's daemon goes on (log: %s). End it with: kill %s", filepath.Join(state, "daemon.log"), readPid(state)),
		}, nil
	}
}

// demoSource makes a fresh repository of the bundled shop. The same content is
// always the same commit, so that an environment built before is found.
func demoSource(ctx context.Context, dir string) (source, commit string, err error) {
	if err := os.RemoveAll(dir); err != nil {
		return "", "", err
	}
	err = fs.WalkDir(examples.Shop, "shop", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		to := filepath.Join(dir, strings.TrimPrefix(path, "shop"))
		if d.IsDir() {
			return os.MkdirAll(to, 0o755)
		}
		data, err := examples.Shop.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(to, data, 0o644)
	})
	if err != nil {
		return "", "", err
	}
	git, err := gitcmd.New(gitcmd.Options{Environ: config.Environ(), Pass: gitcmd.HostVariables()})
	if err != nil {
		return "", "", err
	}
	who := []string{
		"GIT_AUTHOR_NAME=Harbour shop", "GIT_AUTHOR_EMAIL=shop@example.com", "GIT_AUTHOR_DATE=@1767225600 +0000",
		"GIT_COMMITTER_NAME=Harbour shop", "GIT_COMMITTER_EMAIL=shop@example.com", "GIT_COMMITTER_DATE=@1767225600 +0000",
	}
	for _, args := range [][]string{
		{"init", "-q", "-b", "main", "."}, {"add", "-A"}, {"commit", "-q", "--no-gpg-sign", "-m", "The shop as it is sold"},
	} {
		if _, err := git.Output(ctx, gitcmd.Call{Dir: dir, Env: who, Args: args}); err != nil {
			return "", "", err
		}
	}
	head, err := git.Run(ctx, dir, "rev-parse", "HEAD")
	return dir, strings.TrimSpace(string(head)), err
}

// demoName is "shop", or the next name when an earlier demo's change was
// merged there: its fault is gone.
func demoName(ctx context.Context, state, commit string) string {
	git, err := gitcmd.New(gitcmd.Options{})
	for n := 1; err == nil && n < 1000; n++ {
		name := "shop"
		if n > 1 {
			name += "-" + strconv.Itoa(n)
		}
		repo := filepath.Join(state, "forge", name+".git")
		if _, err := os.Stat(repo); err != nil {
			return name
		}
		head, err := git.Run(ctx, repo, "rev-parse", "refs/heads/main")
		if err != nil || strings.TrimSpace(string(head)) == commit {
			return name
		}
	}
	return "shop"
}

// demoConfig writes the configuration of the demo's daemon. Keys stay in the
// environment; the file only says where.
func demoConfig(state string) error {
	script := filepath.Join(state, "shop.script.yaml")
	if err := os.WriteFile(script, examples.Script, 0o600); err != nil {
		return err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "# Written by `drydock demo`.\nlisten: 127.0.0.1:0\nstate_dir: %s\nmodels:\n", state)
	fmt.Fprintf(&b, "  - {name: scripted, kind: scripted, script: %s}\n", script)
	if v, _ := config.OS("ANTHROPIC_API_KEY"); v != "" {
		b.WriteString("  - {name: anthropic, kind: anthropic, key: \"env:ANTHROPIC_API_KEY\"}\n")
	}
	key, _ := config.OS("OPENAI_API_KEY")
	base, _ := config.OS("OPENAI_BASE_URL")
	if key != "" || base != "" {
		b.WriteString("  - {name: openai, kind: openai")
		if key != "" {
			b.WriteString(", key: \"env:OPENAI_API_KEY\"")
		}
		if base != "" {
			fmt.Fprintf(&b, ", base_url: %q", base)
		}
		b.WriteString("}\n")
	}
	return os.WriteFile(filepath.Join(state, "demo.yaml"), []byte(b.String()), 0o600)
}

func pidFile(state string) string { return filepath.Join(state, "daemon.pid") }

func readPid(state string) string {
	data, err := os.ReadFile(pidFile(state))
	if err != nil {
		return "?"
	}
	return strings.TrimSpace(string(data))
}

// demoDaemon starts the daemon anew, so that it is this build with this
// environment, and waits until it answers.
func demoDaemon(ctx context.Context, state string) (string, error) {
	if err := endDaemon(ctx, state); err != nil {
		return "", err
	}
	self, err := os.Executable()
	if err != nil {
		return "", err
	}
	addr := filepath.Join(state, "api.addr")
	_ = os.Remove(addr)
	log, err := os.OpenFile(filepath.Join(state, "daemon.log"), os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return "", err
	}
	defer log.Close()
	cmd := exec.Command(self, //nolint:noctx // it outlives this program
		"serve", "--config", filepath.Join(state, "demo.yaml"))
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return "", err
	}
	if err := os.WriteFile(pidFile(state), []byte(strconv.Itoa(cmd.Process.Pid)+"\n"), 0o600); err != nil {
		return "", err
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	deadline := time.NewTimer(60 * time.Second)
	defer deadline.Stop()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	client := &http.Client{Timeout: time.Second}
	for {
		select {
		case <-ctx.Done():
			return "", context.Cause(ctx)
		case err := <-ended:
			text, _ := os.ReadFile(log.Name())
			return "", core.E("demo", core.Unavailable, err, "the demo's daemon ended:\n%s", lastBytes(string(text), 3000)).WithHint("drydock doctor says what this host lacks")
		case <-deadline.C:
			return "", core.E("demo", core.Unavailable, nil, "the demo's daemon does not answer; its log is %s", log.Name())
		case <-tick.C:
			url, err := os.ReadFile(addr)
			if err != nil {
				continue
			}
			at := strings.TrimSpace(string(url))
			req, err := http.NewRequestWithContext(ctx, http.MethodGet, at+"/healthz", nil)
			if err != nil {
				return "", err
			}
			if resp, err := client.Do(req); err == nil {
				_ = resp.Body.Close()
				return at, nil
			}
		}
	}
}

// endDaemon ends the daemon of an earlier demo, if there is one. The process
// is only touched while it holds the lock of the state directory.
func endDaemon(ctx context.Context, state string) error {
	pid, err := strconv.Atoi(readPid(state))
	if err != nil || pid <= 1 || !holdsLock(state) {
		return nil
	}
	process, err := os.FindProcess(pid)
	if err != nil || process.Signal(syscall.SIGTERM) != nil {
		return nil
	}
	for range 600 {
		if !holdsLock(state) {
			return nil
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(50 * time.Millisecond):
		}
	}
	return core.E("demo", core.Unavailable, nil, "the earlier demo's daemon (process %d) does not end", pid)
}

func holdsLock(state string) bool {
	f, err := os.OpenFile(filepath.Join(state, "daemon.lock"), os.O_RDWR, 0)
	if err != nil {
		return false
	}
	defer f.Close()
	return syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) != nil
}

func lastBytes(s string, n int) string {
	if len(s) > n {
		return "..." + s[len(s)-n:]
	}
	return s
}
