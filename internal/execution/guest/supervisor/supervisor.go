package supervisor

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"drydock/internal/core"
	"drydock/internal/execution/guest"
)

// Options of a Supervisor. Root, Token and Listen must be set.
type Options struct {
	Root     string // "/" in a sandbox; another directory confines paths to it, for tests
	Token    string // what every caller must present
	StateDir string // for kept output; default .drydock-state below Root. Emptied at the start
	Listen   net.Listener
	Log      *slog.Logger // default: nothing

	Env       []string // of every process; DRYDOCK_ variables are left out
	Version   string   // of the build, for Health
	Init      bool     // this program is PID 1 and collects every child
	RingBytes int64    // kept of each output stream; default 8 MiB
	Inside    int      // connections at once from inside the sandbox; 0: no bound of their own
}

const (
	defaultRing  = 8 << 20
	maxConns     = 512
	stopAllGrace = 3 * time.Second
	startLimit   = 5 * time.Second // a start under way is waited for this long
)

// Supervisor is drydock-init without its main.
type Supervisor struct {
	opts     Options
	tree     tree
	stateDir string
	log      *slog.Logger
	started  time.Time
	reg      *registry
	reaper   reaper
	services *services
	wg       sync.WaitGroup
	quit     chan struct{} // closed when everything must end

	mu       sync.Mutex
	token    [sha256.Size]byte
	instance string
	baseEnv  []string
	setup    guest.Setup
	held     []listener // what listened at the last hold
}

// New prepares a supervisor; nothing runs before Serve.
func New(opts Options) (*Supervisor, error) {
	const op = "supervisor.new"
	if opts.Token == "" || opts.Listen == nil {
		return nil, core.E(op, core.Invalid, nil, "token and listener must be set")
	}
	root, err := filepath.Abs(opts.Root)
	if err != nil || opts.Root == "" {
		return nil, core.E(op, core.Invalid, err, "root %q", opts.Root)
	}
	if root, err = filepath.EvalSymlinks(root); err != nil {
		return nil, core.E(op, core.Invalid, err, "root %q", opts.Root)
	}
	if opts.Log == nil {
		opts.Log = slog.New(slog.DiscardHandler)
	}
	if opts.RingBytes <= 0 {
		opts.RingBytes = defaultRing
	}
	if opts.StateDir == "" {
		opts.StateDir = filepath.Join(root, ".drydock-state")
	}
	// What an earlier start left belongs to processes that are gone.
	if err := os.RemoveAll(opts.StateDir); err != nil {
		opts.Log.Warn("old state stays", "err", err)
	}
	if err := os.MkdirAll(opts.StateDir, 0o700); err != nil {
		return nil, core.E(op, core.Internal, err, "state directory")
	}
	s := &Supervisor{
		opts: opts, tree: tree{root: root}, stateDir: opts.StateDir, log: opts.Log, started: time.Now().UTC(),
		reg: newRegistry(), quit: make(chan struct{}), token: sha256.Sum256([]byte(opts.Token)), instance: newInstance(),
		baseEnv: slices.DeleteFunc(slices.Clone(opts.Env), notInherited),
	}
	s.services = newServices(s)
	if opts.Init {
		s.reaper = &initReaper{children: map[int]chan syscall.WaitStatus{}}
	} else {
		s.reaper = &childReaper{}
	}
	return s, nil
}

// notInherited are variables that say something of the supervisor itself, or
// of its user.
func notInherited(kv string) bool {
	name, _, _ := strings.Cut(kv, "=")
	return strings.HasPrefix(name, "DRYDOCK_") ||
		slices.Contains([]string{"HOME", "USER", "LOGNAME", "SHELL", "PWD", "OLDPWD", "SHLVL", "TERM", "_"}, name)
}

func newInstance() string { return strings.ToLower(rand.Text()) }

func (s *Supervisor) instanceID() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.instance
}

// authentic compares in constant time.
func (s *Supervisor) authentic(header string) bool {
	token, ok := strings.CutPrefix(header, "Bearer ")
	sum := sha256.Sum256([]byte(token))
	s.mu.Lock()
	defer s.mu.Unlock()
	return subtle.ConstantTimeCompare(sum[:], s.token[:]) == 1 && ok
}

// Serve answers until ctx ends. Then it stops services in reverse order, ends
// every process, and returns when all of its goroutines have.
func (s *Supervisor) Serve(ctx context.Context) error {
	var reaping sync.WaitGroup
	reapCtx, stopReaping := context.WithCancel(context.WithoutCancel(ctx))
	if r, ok := s.reaper.(*initReaper); ok {
		reaping.Go(func() { r.run(reapCtx) })
	}
	srv := &http.Server{
		Handler:           s.handler(),
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       5 * time.Minute,
		MaxHeaderBytes:    16 << 10,
		ErrorLog:          slog.NewLogLogger(s.log.Handler(), slog.LevelDebug),
	}
	failed := make(chan error, 1)
	s.wg.Go(func() { failed <- srv.Serve(newGate(s.opts.Listen, maxConns, s.opts.Inside)) })
	var err error
	select {
	case <-ctx.Done():
	case err = <-failed:
	}
	s.shutdown(context.WithoutCancel(ctx))
	_ = srv.Close()
	s.wg.Wait()
	stopReaping()
	reaping.Wait()
	if r, ok := s.reaper.(*childReaper); ok {
		r.wg.Wait()
	}
	_ = os.RemoveAll(s.stateDir)
	if err != nil && !errors.Is(err, http.ErrServerClosed) {
		return core.E("supervisor.serve", core.Internal, err, "")
	}
	return nil
}

// shutdown ends what runs inside: services, then processes.
func (s *Supervisor) shutdown(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	s.reg.close()
	s.services.close(ctx)
	s.stopAll(ctx, stopAllGrace)
	s.endStrangers(ctx, stopAllGrace)
	close(s.quit)
}

// stopAll ends every process that is running and waits for them. A start that
// is under way comes to its end first: nothing would end its process otherwise.
func (s *Supervisor) stopAll(ctx context.Context, grace time.Duration) {
	starts, cancel := context.WithTimeout(ctx, startLimit)
	s.reg.settled(starts)
	cancel()
	list := s.reg.alive()
	var wg sync.WaitGroup
	for _, p := range list {
		wg.Go(func() { p.stop(grace, ctx.Done()) })
	}
	wg.Wait()
	for _, p := range list {
		select {
		case <-p.done:
		case <-ctx.Done():
			return
		}
	}
}

// endStrangers ends processes that belong to nobody any more: daemons that left
// the session they were started in. Only PID 1 may think that they are its own.
func (s *Supervisor) endStrangers(ctx context.Context, grace time.Duration) {
	if !s.opts.Init {
		return
	}
	_ = syscall.Kill(-1, syscall.SIGTERM)
	_ = syscall.Kill(-1, syscall.SIGCONT)
	deadline := time.Now().Add(grace)
	for strangers() > 0 && time.Now().Before(deadline) && ctx.Err() == nil {
		if !sleep(ctx, 20*time.Millisecond) {
			break
		}
	}
	_ = syscall.Kill(-1, syscall.SIGKILL)
}

// strangers counts the processes that this one sees besides itself.
func strangers() int {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return 0
	}
	n := 0
	for _, e := range entries {
		if pid, err := strconv.Atoi(e.Name()); err == nil && pid != os.Getpid() {
			n++
		}
	}
	return n
}

// gate bounds connections. Those from inside the sandbox have a small bound of
// their own, so that a hostile process cannot use up the others.
type gate struct {
	net.Listener
	limit, inside int

	mu    sync.Mutex
	total int
	local int
}

func newGate(ln net.Listener, limit, inside int) *gate {
	return &gate{Listener: ln, limit: limit, inside: inside}
}

func (g *gate) Accept() (net.Conn, error) {
	for {
		conn, err := g.Listener.Accept()
		if err != nil {
			return nil, err
		}
		local := g.inside > 0 && fromInside(conn)
		g.mu.Lock()
		full := g.total >= g.limit || local && g.local >= g.inside
		if !full {
			g.total++
			if local {
				g.local++
			}
		}
		g.mu.Unlock()
		if full {
			_ = conn.Close()
			continue
		}
		return &gated{Conn: conn, gate: g, local: local}, nil
	}
}

func fromInside(conn net.Conn) bool {
	remote, ok1 := conn.RemoteAddr().(*net.TCPAddr)
	local, ok2 := conn.LocalAddr().(*net.TCPAddr)
	return !ok1 || !ok2 || remote.IP.IsLoopback() || remote.IP.Equal(local.IP)
}

type gated struct {
	net.Conn
	gate  *gate
	local bool
	once  sync.Once
}

func (c *gated) Close() error {
	c.once.Do(func() {
		c.gate.mu.Lock()
		c.gate.total--
		if c.local {
			c.gate.local--
		}
		c.gate.mu.Unlock()
	})
	return c.Conn.Close()
}

// CloseWrite half-closes, for tunnels.
func (c *gated) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}
