package fake

import (
	"context"
	"net"
	"sync"

	"drydock/internal/core"
)

// Rest implements sandbox.Driver. Only the way to drydock-init is shut: what
// runs in the sandbox is a process of the host, and goes on.
func (d *Driver) Rest(ctx context.Context, id core.SandboxID) error {
	const op = "fake.rest"
	b, err := d.find(op, id)
	if err != nil {
		return err
	}
	if !d.opts.Rest {
		return core.E(op, core.Unavailable, nil, "sandbox %s cannot rest", id)
	}
	if err := d.world.Faults.before(ctx, Rest); err != nil {
		return core.E(op, core.KindOf(err), err, "sandbox %s does not rest", id)
	}
	b.op.Lock()
	defer b.op.Unlock()
	if s := b.state().State; s != core.SandboxRunning {
		return core.E(op, core.Conflict, nil, "sandbox %s is %s", id, s)
	}
	b.ear.cover()
	return nil
}

// Wake implements sandbox.Driver.
func (d *Driver) Wake(_ context.Context, id core.SandboxID) error {
	b, err := d.find("fake.wake", id)
	if err != nil {
		return err
	}
	b.op.Lock()
	defer b.op.Unlock()
	b.ear.uncover()
	return nil
}

// ear is what drydock-init of one sandbox hears with: connections are made
// while it is covered, but nothing that comes through them arrives.
type ear struct {
	mu    sync.Mutex
	hears chan struct{} // closed unless it is covered; nil: it never was
}

func (e *ear) cover() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.covered() {
		e.hears = make(chan struct{})
	}
}

func (e *ear) uncover() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.covered() {
		close(e.hears)
	}
}

// covered is called with mu held.
func (e *ear) covered() bool {
	if e.hears == nil {
		return false
	}
	select {
	case <-e.hears:
		return false
	default:
		return true
	}
}

// wait returns when it hears, and says false if done is closed before.
func (e *ear) wait(done <-chan struct{}) bool {
	e.mu.Lock()
	covered, hears := e.covered(), e.hears
	e.mu.Unlock()
	if !covered {
		return true
	}
	select {
	case <-hears:
		return true
	case <-done:
		return false
	}
}

// earListener gives the connections of a sandbox its ear.
type earListener struct {
	net.Listener
	ear *ear
}

func (l earListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	closed := make(chan struct{})
	return &earConn{Conn: conn, ear: l.ear, closed: closed, done: sync.OnceFunc(func() { close(closed) })}, nil
}

type earConn struct {
	net.Conn
	ear    *ear
	closed chan struct{}
	done   func()
}

func (c *earConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if !c.ear.wait(c.closed) {
		return 0, net.ErrClosed
	}
	return n, err
}

func (c *earConn) Write(p []byte) (int, error) {
	if !c.ear.wait(c.closed) {
		return 0, net.ErrClosed
	}
	return c.Conn.Write(p)
}

func (c *earConn) Close() error {
	c.done()
	return c.Conn.Close()
}
