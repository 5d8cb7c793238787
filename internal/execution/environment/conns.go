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
}

type conn struct {
	net.Conn
	all *conns
}

func newConns() *conns { return &conns{open: map[*conn]struct{}{}} }

// dial opens one more with f.
func (c *conns) dial(ctx context.Context, f func(context.Context) (net.Conn, error)) (net.Conn, error) {
	if c.isDead() {
		return nil, errDead()
	}
	raw, err := f(ctx)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.dead {
		_ = raw.Close()
		return nil, errDead()
	}
	out := &conn{raw, c}
	c.open[out] = struct{}{}
	return out, nil
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
