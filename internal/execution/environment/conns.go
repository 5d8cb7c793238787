package environment

import (
	"context"
	"net"
	"sync"

	"drydock/internal/core"
)

// conns are the connections into one sandbox. When it dies nobody answers any
// more, not even to say that nobody does: whoever reads from it would wait
// until keep-alive gives up, minutes later. So its death closes them.
type conns struct {
	mu   sync.Mutex
	open map[*conn]struct{}
	dead bool
	held chan struct{} // closed when new ones are let through again; nil: they are
}

type conn struct {
	net.Conn
	all *conns
}

func newConns() *conns { return &conns{open: map[*conn]struct{}{}} }

// dial opens one more with f.
func (c *conns) dial(ctx context.Context, f func(context.Context) (net.Conn, error)) (net.Conn, error) {
	for {
		if err := c.pass(ctx); err != nil {
			return nil, err
		}
		raw, err := f(ctx)
		if err != nil {
			return nil, err
		}
		if out, err := c.add(raw); out != nil || err != nil {
			return out, err
		}
	}
}

// add is nil without an error when the sandbox was stopped meanwhile.
func (c *conns) add(raw net.Conn) (net.Conn, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.dead:
		_ = raw.Close()
		return nil, errDead()
	case c.held != nil:
		_ = raw.Close()
		return nil, nil
	}
	out := &conn{raw, c}
	c.open[out] = struct{}{}
	return out, nil
}

// pass waits while the sandbox is stopped.
func (c *conns) pass(ctx context.Context) error {
	for {
		c.mu.Lock()
		held, dead := c.held, c.dead
		c.mu.Unlock()
		switch {
		case dead:
			return errDead()
		case held == nil:
			return nil
		}
		select {
		case <-held:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// hold closes all, because they do not survive what is about to happen, and
// keeps new ones waiting until release is called.
func (c *conns) hold() (release func()) {
	held := make(chan struct{})
	c.mu.Lock()
	defer c.mu.Unlock()
	c.held = held
	for one := range c.open {
		_ = one.Conn.Close()
	}
	return func() {
		c.mu.Lock()
		c.held = nil
		c.mu.Unlock()
		close(held)
	}
}

func errDead() error {
	return core.E("environment.dial", core.Unavailable, nil, "the sandbox is dead")
}

func (c *conns) isDead() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.dead
}

// die closes all and lets no new one through.
func (c *conns) die() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.dead = true
	for one := range c.open {
		_ = one.Conn.Close()
	}
	c.open = nil
}

// Close implements net.Conn.
func (c *conn) Close() error {
	c.all.mu.Lock()
	delete(c.all.open, c)
	c.all.mu.Unlock()
	return c.Conn.Close()
}

// CloseWrite says that nothing more will be sent.
func (c *conn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}
