package gitcmd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"drydock/internal/core"
)

// Defaults of Options.
const (
	DefaultOutput = 64 << 20
	DefaultStderr = 64 << 10
	DefaultGrace  = 5 * time.Second

	defaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
)

// Options configure a Git. The zero value works offline.
type Options struct {
	Program string // default "git", looked up on PATH of the calling process

	// Environ is the environment of the host ("NAME=value"); of it only the
	// variables named in Pass reach git.
	Environ []string
	Pass    []string

	Protocols []string      // default file, http, https, ssh
	Output    int64         // bound of what Run returns, default DefaultOutput
	Stderr    int           // bound of kept standard error, default DefaultStderr
	Grace     time.Duration // between TERM and KILL, default DefaultGrace
}

// HostVariables names what a host usually sets so that git finds its way out:
// certificate bundles, proxies, the ssh agent.
func HostVariables() []string {
	return []string{
		"PATH", "TMPDIR",
		"SSL_CERT_FILE", "SSL_CERT_DIR", "CURL_CA_BUNDLE", "GIT_SSL_CAINFO", "GIT_SSL_CAPATH",
		"http_proxy", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY", "no_proxy", "NO_PROXY",
		"SSH_AUTH_SOCK",
	}
}

// Git runs git.
type Git struct {
	program string
	env     []string
	output  int64
	stderr  int
	grace   time.Duration
	global  *os.File // configuration in memory, read by git's own children too
}

// New finds the program and fixes the environment.
func New(opts Options) (*Git, error) {
	name := opts.Program
	if name == "" {
		name = "git"
	}
	program, err := exec.LookPath(name)
	if err != nil {
		return nil, core.E("git.new", core.Unavailable, err, "program %q not found", name).
			WithHint("install git (Debian: apt-get install git)")
	}
	g := &Git{program: program, output: opts.Output, stderr: opts.Stderr, grace: opts.Grace}
	if g.output <= 0 {
		g.output = DefaultOutput
	}
	if g.stderr <= 0 {
		g.stderr = DefaultStderr
	}
	if g.grace <= 0 {
		g.grace = DefaultGrace
	}
	if g.global, err = globalConfig(); err != nil {
		return nil, core.E("git.new", core.Internal, err, "cannot hold git's configuration in memory")
	}
	g.env = g.environment(opts)
	return g, nil
}

// settings override whatever a repository's own configuration says.
func settings() [][2]string {
	return [][2]string{
		{"safe.directory", "*"},
		{"core.hooksPath", "/dev/null"},
		{"core.fsmonitor", "false"},
		{"core.sshCommand", "ssh -oBatchMode=yes"},
		{"core.alternateRefsCommand", "true"},
		{"core.attributesFile", "/dev/null"},
		{"core.pager", "cat"},
		{"core.logAllRefUpdates", "false"},
		{"core.quotePath", "false"},
		{"credential.helper", ""},
		{"transfer.fsckObjects", "true"},
		{"fetch.fsckObjects", "true"},
		{"receive.fsckObjects", "true"},
		{"fetch.recurseSubmodules", "false"},
		{"push.recurseSubmodules", "no"},
		{"submodule.recurse", "false"},
		{"push.gpgSign", "false"},
		{"commit.gpgSign", "false"},
		{"log.showSignature", "false"},
		{"gc.auto", "0"},
		{"maintenance.auto", "false"},
		{"http.sslVerify", "true"},
		{"i18n.commitEncoding", "utf-8"},
		{"i18n.logOutputEncoding", "utf-8"},
		{"init.defaultBranch", "main"},
		{"protocol.version", "2"},
	}
}

// globalConfig writes the settings to a file that exists in memory only. Git
// drops settings given by environment when it starts a helper in another
// repository (upload-pack of a path), but keeps GIT_CONFIG_GLOBAL.
func globalConfig() (*os.File, error) {
	fd, err := unix.MemfdCreate("gitconfig", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), "gitconfig")
	var b strings.Builder
	for _, s := range settings() {
		section, key, _ := strings.Cut(s[0], ".")
		fmt.Fprintf(&b, "[%s]\n\t%s = \"%s\"\n", section, key, s[1])
	}
	if _, err := f.WriteString(b.String()); err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}

func (g *Git) environment(opts Options) []string {
	protocols := opts.Protocols
	if len(protocols) == 0 {
		protocols = []string{"file", "http", "https", "ssh"}
	}
	env := []string{
		"HOME=/nonexistent",
		"LC_ALL=C",
		"GIT_CONFIG_NOSYSTEM=1",
		"GIT_ATTR_NOSYSTEM=1",
		fmt.Sprintf("GIT_CONFIG_GLOBAL=/proc/%d/fd/%d", os.Getpid(), g.global.Fd()),
		"GIT_TERMINAL_PROMPT=0",
		"GIT_ASKPASS=",
		"SSH_ASKPASS=",
		"GIT_PROXY_COMMAND=",
		"GIT_EDITOR=false",
		"GIT_PAGER=cat",
		"GIT_NO_REPLACE_OBJECTS=1",
		"GIT_NO_LAZY_FETCH=1",
		"GIT_ALLOW_PROTOCOL=" + strings.Join(protocols, ":"),
	}
	pass := make(map[string]bool, len(opts.Pass))
	for _, name := range opts.Pass {
		pass[name] = true
	}
	havePath := false
	for _, kv := range opts.Environ {
		name, _, ok := strings.Cut(kv, "=")
		if !ok || !pass[name] {
			continue
		}
		havePath = havePath || name == "PATH"
		env = append(env, kv) // the last of two equal names wins in os/exec
	}
	if !havePath {
		env = append(env, "PATH="+defaultPath)
	}
	all := settings()
	env = append(env, fmt.Sprintf("GIT_CONFIG_COUNT=%d", len(all)))
	for i, s := range all {
		env = append(env, fmt.Sprintf("GIT_CONFIG_KEY_%d=%s", i, s[0]), fmt.Sprintf("GIT_CONFIG_VALUE_%d=%s", i, s[1]))
	}
	return env
}

// Call is one run of git with streams.
type Call struct {
	Dir    string
	Args   []string
	Stdin  io.Reader // nil: empty
	Stdout io.Writer // nil: thrown away
	// Progress is given every piece of standard error as it comes.
	Progress io.Writer
	// Env is added, for what git takes by environment only (GIT_INDEX_FILE,
	// GIT_AUTHOR_NAME, ...).
	Env []string
	// Inherit are kept open in git and its children: a lock held by such a
	// file lasts until the last of them has ended.
	Inherit []*os.File
}

// Run runs git in dir and returns its standard output.
func (g *Git) Run(ctx context.Context, dir string, args ...string) ([]byte, error) {
	return g.Output(ctx, Call{Dir: dir, Args: args})
}

// Output is Stream with standard output collected; more than Options.Output is
// an error.
func (g *Git) Output(ctx context.Context, call Call) ([]byte, error) {
	out := &limited{limit: g.output}
	call.Stdout = out
	err := g.Stream(ctx, call)
	if out.over {
		return nil, core.E("git.run", core.Exhausted, nil, "git %s wrote more than %d bytes", verb(call.Args), g.output)
	}
	if err != nil {
		return nil, err
	}
	return out.buf.Bytes(), nil
}

// Stream runs git with the streams of call. When Stdout refuses a write, git is
// ended and the writer's error is the cause.
func (g *Git) Stream(ctx context.Context, call Call) error {
	cmd := exec.CommandContext(ctx, g.program, call.Args...)
	cmd.Dir = call.Dir
	cmd.Env = append(append([]string{}, g.env...), call.Env...)
	cmd.Stdin = call.Stdin
	cmd.Stdout = call.Stdout
	cmd.ExtraFiles = call.Inherit
	stderr := &tail{limit: g.stderr, also: call.Progress}
	cmd.Stderr = stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
	cmd.WaitDelay = g.grace
	err := cmd.Run()
	if err == nil {
		return nil
	}
	if cmd.Process != nil && ctx.Err() != nil {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // whoever ignored TERM
	}
	return g.failure(ctx, call, err, stderr.String())
}

func (g *Git) failure(ctx context.Context, call Call, err error, stderr string) error {
	what := verb(call.Args)
	if cause := ctx.Err(); cause != nil {
		kind := core.Canceled
		if errors.Is(cause, context.DeadlineExceeded) {
			kind = core.Unavailable
		}
		return core.E("git."+what, kind, cause, "git %s did not finish", what)
	}
	exit, ok := errors.AsType[*exec.ExitError](err)
	if !ok {
		return core.E("git."+what, core.Internal, err, "git %s could not run", what)
	}
	return classify(call, exit.ExitCode(), stderr)
}

// verb is the subcommand, without options before it.
func verb(args []string) string {
	for i := 0; i < len(args); i++ {
		switch {
		case args[i] == "-c" || args[i] == "-C":
			i++
		case !strings.HasPrefix(args[i], "-"):
			return args[i]
		}
	}
	return "?"
}

// limited collects up to limit bytes and then refuses, which ends git.
type limited struct {
	buf   bytes.Buffer
	limit int64
	over  bool
}

var errTooMuch = errors.New("output limit reached")

func (l *limited) Write(p []byte) (int, error) {
	if int64(l.buf.Len()+len(p)) > l.limit {
		l.over = true
		return 0, errTooMuch
	}
	return l.buf.Write(p)
}

// tail keeps the last limit bytes.
type tail struct {
	mu    sync.Mutex
	buf   []byte
	limit int
	also  io.Writer
}

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.buf = append(t.buf, p...)
	if over := len(t.buf) - t.limit; over > 0 {
		t.buf = append(t.buf[:0], t.buf[over:]...)
	}
	if t.also != nil {
		_, _ = t.also.Write(p) // progress is for people; its loss stops nothing
	}
	return len(p), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.buf)
}
