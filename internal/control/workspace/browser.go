package workspace

import (
	"context"
	"net"
	"strings"
	"sync"
	"time"

	"drydock/internal/execution/environment"
	"drydock/internal/execution/guest"
)

// Browser starts a browser in a machine and reaches it. It fulfils what
// package browser asks of a machine.
type Browser struct{ Machine *environment.Machine }

// Start runs a program until stop is called; output is the end of what it
// wrote so far.
func (b Browser) Start(ctx context.Context, argv []string) (stop func(), output func() string, err error) {
	g := b.Machine.Guest()
	p, err := g.Start(ctx, guest.Command{Argv: argv, Dir: "/", Merge: true})
	if err != nil {
		return nil, nil, b.Machine.Explain(ctx, err)
	}
	stop = sync.OnceFunc(func() {
		clean, cancel := context.WithTimeout(context.WithoutCancel(ctx), 15*time.Second)
		defer cancel()
		_ = g.Stop(clean, p.ID, time.Second) // a sandbox that is gone took it along
	})
	output = func() string {
		now, err := g.Process(ctx, p.ID)
		if err != nil {
			return ""
		}
		const tail = 4000
		out, err := g.Output(ctx, p.ID, guest.Stdout, max(now.Stdout.First, now.Stdout.End-tail), false)
		if err != nil {
			return ""
		}
		defer out.Close()
		var text strings.Builder
		buf := make([]byte, tail)
		for text.Len() < tail {
			n, err := out.Read(buf)
			text.Write(buf[:n])
			if err != nil {
				break
			}
		}
		return strings.ToValidUTF8(text.String(), "?")
	}
	return stop, output, nil
}

// ServicePorts are those of the recipe's services: one may be a browser.
func (b Browser) ServicePorts() []int { return servicePorts(b.Machine) }

func servicePorts(m *environment.Machine) []int {
	var out []int
	for _, s := range m.Recipe().Services {
		if s.Port > 0 {
			out = append(out, s.Port)
		}
	}
	return out
}

// Dial reaches a TCP port on the machine's loopback.
func (b Browser) Dial(ctx context.Context, port int) (net.Conn, error) {
	conn, err := b.Machine.Guest().Tunnel(ctx, port)
	if err != nil && guest.Silent(err) { // a port that nobody listens on yet is no sign of death
		err = b.Machine.Explain(ctx, err)
	}
	return conn, err
}
