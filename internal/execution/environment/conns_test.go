package environment

import (
	"context"
	"net"
	"testing"
	"time"

	"drydock/internal/core"
)

func TestDeathClosesConnections(t *testing.T) {
	c := newConns()
	pipe := func(context.Context) (net.Conn, error) {
		ours, _ := net.Pipe()
		return ours, nil
	}
	kept, err := c.dial(t.Context(), pipe)
	if err != nil {
		t.Fatal(err)
	}
	closed, err := c.dial(t.Context(), pipe)
	if err != nil {
		t.Fatal(err)
	}
	if err := closed.Close(); err != nil || len(c.open) != 1 {
		t.Errorf("after a close %d are open, error %v", len(c.open), err)
	}
	ended := make(chan error, 1)
	go func() {
		_, err := kept.Read(make([]byte, 1))
		ended <- err
	}()
	c.die()
	select {
	case err := <-ended:
		if err == nil {
			t.Error("a read from the dead succeeds")
		}
	case <-time.After(10 * time.Second):
		t.Fatal("a read from the dead waits")
	}
	if err := kept.Close(); err != nil {
		t.Errorf("closing after death: %v", err)
	}
	if _, err := c.dial(t.Context(), pipe); !core.Is(err, core.Unavailable) {
		t.Errorf("a connection to the dead: %v", err)
	}
}
