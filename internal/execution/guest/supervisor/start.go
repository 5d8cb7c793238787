package supervisor

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/creack/pty"

	"drydock/internal/core"
	"drydock/internal/execution/guest"
)

const (
	defaultPath  = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
	workspace    = "/workspace"
	defaultGrace = 5 * time.Second
	maxArgs      = 1 << 20 // bytes of argv and env together
)

// start runs a command, or finds the one started before with the same key.
func (s *Supervisor) start(cmd guest.Command) (*process, error) {
	if err := checkCommand(cmd); err != nil {
		return nil, err
	}
	if cmd.Key == "" {
		return s.launch(cmd, listed)
	}
	k, first := s.reg.claim(cmd.Key)
	if first {
		p, err := s.launch(cmd, listed)
		s.reg.settle(cmd.Key, k, p, err)
	}
	<-k.ready
	return k.proc, k.err
}

func checkCommand(cmd guest.Command) error {
	const op = "guest.start"
	size := 0
	for _, list := range [][]string{cmd.Argv, cmd.Env} {
		for _, v := range list {
			if strings.IndexByte(v, 0) >= 0 {
				return core.E(op, core.Invalid, nil, "an argument holds a zero byte")
			}
			size += len(v) + 1
		}
	}
	switch {
	case len(cmd.Argv) == 0 || cmd.Argv[0] == "":
		return core.E(op, core.Invalid, nil, "a command without a program")
	case size > maxArgs:
		return core.E(op, core.Invalid, nil, "arguments and environment take %d bytes, the limit is %d", size, maxArgs).
			WithHint("write the data to a file and pass its name")
	case len(cmd.Key) > maxKey:
		return core.E(op, core.Invalid, nil, "a key of %d bytes, the limit is %d", len(cmd.Key), maxKey)
	case len(cmd.Input) > guest.MaxInput:
		return core.E(op, core.Invalid, nil, "input of %d bytes, the limit is %d", len(cmd.Input), guest.MaxInput)
	case cmd.Timeout < 0 || cmd.Grace < 0:
		return core.E(op, core.Invalid, nil, "a negative time limit")
	}
	return nil
}

// plan is everything about a command that can be wrong, worked out before
// anything is made.
type plan struct {
	argv0 string
	dir   string
	env   []string
	attr  *syscall.SysProcAttr
}

func (s *Supervisor) plan(cmd guest.Command) (plan, error) {
	const op = "guest.start"
	acc, err := s.tree.account(cmd.User)
	if err != nil {
		return plan{}, err
	}
	dir, err := s.workDir(cmd.Dir)
	if err != nil {
		return plan{}, err
	}
	env := s.environ(acc, cmd, dir)
	argv0, err := s.look(cmd.Argv[0], dir, env)
	if err != nil {
		return plan{}, err
	}
	attr := &syscall.SysProcAttr{Setsid: true}
	euid := os.Geteuid()
	switch {
	case euid == 0 && (acc.uid != 0 || acc.gid != 0):
		attr.Credential = &syscall.Credential{Uid: acc.uid, Gid: acc.gid, Groups: acc.groups}
	case euid != 0 && cmd.User != "" && int(acc.uid) != euid:
		return plan{}, core.E(op, core.Invalid, nil, "user %q: the supervisor has no rights to change users", clip(cmd.User, 80))
	}
	return plan{argv0: argv0, dir: dir, env: env, attr: attr}, nil
}

// workDir is the kernel's path of the working directory.
func (s *Supervisor) workDir(dir string) (string, error) {
	const op = "guest.start"
	if dir == "" {
		if real, err := s.tree.target(op, workspace); err == nil && isDir(real) {
			return real, nil
		}
		return s.tree.root, nil
	}
	real, err := s.tree.target(op, dir)
	if err != nil {
		return "", err
	}
	if !isDir(real) {
		return "", core.E(op, core.NotFound, nil, "directory %s does not exist", dir)
	}
	return real, nil
}

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// environ puts the environment together: defaults, then the supervisor's own,
// then Setup's, then the command's; the last one wins.
func (s *Supervisor) environ(acc account, cmd guest.Command, dir string) []string {
	home := acc.home
	if home == "" {
		home = "/"
	}
	if !s.tree.isSlash() {
		home = filepath.Join(s.tree.root, home)
	}
	shell := acc.shell
	if shell == "" {
		shell = "/bin/sh"
	}
	term := "dumb"
	if cmd.PTY != nil {
		term = "xterm-256color"
	}
	env := []string{
		"PATH=" + defaultPath, "LANG=C.UTF-8", "TERM=" + term, "HOME=" + home, "USER=" + acc.name,
		"LOGNAME=" + acc.name, "SHELL=" + shell, "PWD=" + dir,
	}
	s.mu.Lock()
	env = slices.Concat(env, s.baseEnv, s.setup.Env, cmd.Env)
	s.mu.Unlock()
	seen := make(map[string]int, len(env))
	out := env[:0:0]
	for _, kv := range env {
		name, _, ok := strings.Cut(kv, "=")
		if !ok || name == "" {
			continue
		}
		if i, dup := seen[name]; dup {
			out[i] = kv
			continue
		}
		seen[name] = len(out)
		out = append(out, kv)
	}
	return out
}

func getenv(env []string, name string) string {
	for _, kv := range env {
		if v, ok := strings.CutPrefix(kv, name+"="); ok {
			return v
		}
	}
	return ""
}

// look finds the program on the command's own PATH.
func (s *Supervisor) look(name, dir string, env []string) (string, error) {
	const op = "guest.start"
	if strings.Contains(name, "/") {
		if !filepath.IsAbs(name) {
			name = filepath.Join(dir, name)
		} else if !s.tree.isSlash() {
			if real, err := s.tree.target(op, name); err == nil && isProgram(real) {
				return real, nil
			}
		}
		if !isProgram(name) {
			return "", core.E(op, core.NotFound, nil, "program %s does not exist or cannot be run", clip(name, 200))
		}
		return name, nil
	}
	for _, d := range filepath.SplitList(getenv(env, "PATH")) {
		if d == "" {
			d = dir
		}
		if path := filepath.Join(d, name); filepath.IsAbs(path) && isProgram(path) {
			return path, nil
		}
	}
	return "", core.E(op, core.NotFound, nil, "program %q is not on the PATH of the sandbox", clip(name, 200)).
		WithHint("add the package that brings it to the environment's packages")
}

func isProgram(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0
}

// streams are the ends of a process's standard streams.
type streams struct {
	child   [3]*os.File // given to the process, closed here after the start
	out     *os.File    // read end, or the master
	errs    *os.File
	in      *os.File // write end, or the master
	master  *os.File
	cleanup []*os.File
}

func (t *streams) closeAll() {
	for _, f := range t.cleanup {
		_ = f.Close()
	}
}

func (t *streams) closeChild() {
	seen := map[*os.File]bool{}
	for _, f := range t.child {
		if f != nil && !seen[f] {
			seen[f] = true
			_ = f.Close()
		}
	}
}

func openStreams(cmd guest.Command) (_ *streams, err error) {
	t := &streams{}
	defer func() {
		if err != nil {
			t.closeAll()
		}
	}()
	if cmd.PTY != nil {
		master, slave, err := pty.Open()
		if err != nil {
			return nil, err
		}
		t.cleanup = append(t.cleanup, master, slave)
		if err := pty.Setsize(master, &pty.Winsize{Rows: cmd.PTY.Rows, Cols: cmd.PTY.Cols}); err != nil {
			return nil, err
		}
		t.child = [3]*os.File{slave, slave, slave}
		t.out, t.in, t.master = master, master, master
		return t, nil
	}
	pipe := func() (r, w *os.File) {
		if err != nil {
			return nil, nil
		}
		if r, w, err = os.Pipe(); err == nil {
			t.cleanup = append(t.cleanup, r, w)
		}
		return r, w
	}
	if cmd.Stdin || len(cmd.Input) > 0 {
		t.child[0], t.in = pipe()
	} else if t.child[0], err = os.Open(os.DevNull); err == nil {
		t.cleanup = append(t.cleanup, t.child[0])
	}
	t.out, t.child[1] = pipe()
	if cmd.Merge {
		t.child[2] = t.child[1]
	} else {
		t.errs, t.child[2] = pipe()
	}
	return t, err
}

// A hidden process is nobody's business: a readiness test.
const (
	listed = true
	hidden = false
)

func (s *Supervisor) launch(cmd guest.Command, inList bool) (*process, error) {
	const op = "guest.start"
	pl, err := s.plan(cmd)
	if err != nil {
		return nil, err
	}
	id, err := s.reg.reserve(s.instanceID())
	if err != nil {
		return nil, err
	}
	fds, err := openStreams(cmd)
	if err != nil {
		s.reg.unreserve()
		return nil, core.E(op, core.Unavailable, err, "streams of %q", clip(cmd.Argv[0], 200))
	}
	if cmd.PTY != nil {
		pl.attr.Setctty, pl.attr.Ctty = true, 0
		if pl.attr.Credential != nil {
			_ = fds.child[0].Chown(int(pl.attr.Credential.Uid), -1)
		}
	}
	attr := &syscall.ProcAttr{
		Dir: pl.dir, Env: pl.env, Sys: pl.attr,
		Files: []uintptr{fds.child[0].Fd(), fds.child[1].Fd(), fds.child[2].Fd()},
	}
	pid, exit, err := s.reaper.start(pl.argv0, cmd.Argv, attr)
	fds.closeChild()
	if err != nil {
		s.reg.unreserve()
		fds.closeAll()
		return nil, core.E(op, startKind(err), err, "start %q", clip(cmd.Argv[0], 200))
	}
	p := &process{
		cmd: cmd, master: fds.master, stdin: fds.in, done: make(chan struct{}), used: time.Now(),
		info: guest.Process{ID: id, Key: cmd.Key, Argv: cmd.Argv, Pid: pid, Running: true, Started: time.Now().UTC()},
	}
	p.out = s.newRing(id, guest.Stdout)
	if fds.errs != nil {
		p.errs = s.newRing(id, guest.Stderr)
	}
	p.cmd.Input = nil // fed below; no reason to keep it
	// Watched first: whoever waits for starts under way then waits for its end.
	s.watch(p, fds, exit, cmd.Input)
	if !s.reg.add(p, inList) {
		_ = p.signal(syscall.SIGKILL)
		return nil, core.E(op, core.Unavailable, nil, "the sandbox is stopping")
	}
	return p, nil
}

func startKind(err error) core.Kind {
	switch {
	case errors.Is(err, syscall.EAGAIN), errors.Is(err, syscall.ENOMEM):
		return core.Exhausted
	case errors.Is(err, syscall.ENOENT):
		return core.NotFound
	}
	return core.Invalid
}

func (s *Supervisor) newRing(id guest.ProcessID, stream string) *ring {
	return newRing(s.opts.RingBytes, func() (*os.File, error) {
		path := filepath.Join(s.stateDir, string(id)+"."+stream)
		file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
		if err == nil {
			// Nobody needs the name: without it the bytes go away with the ring,
			// whatever happens.
			_ = os.Remove(path)
		}
		return file, err
	})
}
