package egress

import (
	"context"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"drydock/internal/core"
)

// Decision is one answer the egress gave, for the session's log.
type Decision struct {
	Time    time.Time
	Sandbox core.SandboxID
	Host    string
	Port    int
	Via     string // "dns", "proxy", "tls", "http", "tcp", "packet"
	Allowed bool
	Rule    string // text of the rule that allowed it
	Code    Code   // why not, or how an allowed one failed
	Reason  string
	Hint    string
	Sent    int64 // bytes from the sandbox
	Got     int64 // bytes to it
	Count   int   // equal decisions since the last report, this one included
}

// client is one sandbox.
type client struct {
	id   core.SandboxID
	addr netip.Addr

	names     names
	conns     atomic.Int32
	transport *http.Transport

	mu     sync.Mutex
	policy *Policy
	flows  map[*flow]struct{}
	told   map[decisionKey]*toldOnce
}

type decisionKey struct {
	host string
	port uint16
	via  string
	code Code
}

type toldOnce struct {
	at    time.Time
	held  int
	first Decision
}

// flow is one allowed conversation.
type flow struct {
	target Target
	cancel context.CancelCauseFunc
}

func (c *client) current() *Policy {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.policy
}

// begin checks a target and registers the flow in one step, so that a policy
// change never misses one that is just beginning.
func (c *client) begin(ctx context.Context, t Target) (context.Context, *flow, Rule, *Denial) {
	ctx, cancel := context.WithCancelCause(ctx)
	c.mu.Lock()
	defer c.mu.Unlock()
	rule, d := c.policy.check(t)
	if d != nil {
		cancel(d)
		return nil, nil, Rule{}, d
	}
	f := &flow{target: t, cancel: cancel}
	c.flows[f] = struct{}{}
	return ctx, f, rule, nil
}

func (c *client) end(f *flow) {
	f.cancel(nil)
	c.mu.Lock()
	delete(c.flows, f)
	c.mu.Unlock()
}

// setPolicy replaces the policy and cuts what it no longer allows.
func (c *client) setPolicy(p *Policy) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.policy = p
	for f := range c.flows {
		if _, ok := p.Match(f.target); !ok {
			f.cancel(deny(CodeWithdrawn, "", "the rule for %s was withdrawn", f.target))
		}
	}
}

// newTransport carries plain HTTP for one sandbox. It is not shared, so that
// no sandbox can ride on a connection that another one's policy opened.
func newTransport(d *dialer, c *client) *http.Transport {
	t := &http.Transport{
		DisableCompression:     true,
		MaxIdleConns:           32,
		MaxIdleConnsPerHost:    4,
		IdleConnTimeout:        30 * time.Second,
		ResponseHeaderTimeout:  5 * time.Minute,
		MaxResponseHeaderBytes: maxHead,
		DialContext: func(ctx context.Context, _, address string) (net.Conn, error) {
			target, err := ParseTarget(address, 80)
			if err != nil {
				return nil, err
			}
			rule, denial := c.current().check(target)
			if denial != nil {
				return nil, denial
			}
			return d.direct(ctx, target, rule)
		},
	}
	if d.chains {
		t.Proxy = func(r *http.Request) (*url.URL, error) {
			proxy, _ := r.Context().Value(keyUpstream).(*url.URL)
			return proxy, nil
		}
		t.DialContext = d.behindProxy(t.DialContext)
	}
	return t
}

// tell reports a decision; equal denials within a while are counted and told
// together.
func (s *Server) tell(c *client, via string, t Target, dec Decision) {
	if s.deps.Decided == nil {
		return
	}
	dec.Time, dec.Sandbox, dec.Host, dec.Port, dec.Via, dec.Count = time.Now(), c.id, t.host(), int(t.Port), via, max(dec.Count, 1)
	key := decisionKey{dec.Host, t.Port, via, dec.Code}
	c.mu.Lock()
	if told, ok := c.told[key]; ok && dec.Time.Sub(told.at) < tellAgain {
		told.held += dec.Count
		told.first.Sent += dec.Sent
		told.first.Got += dec.Got
		c.mu.Unlock()
		return
	}
	if len(c.told) >= maxTold {
		c.mu.Unlock()
		return // held back until the next flush makes room
	}
	c.told[key] = &toldOnce{at: dec.Time, first: zeroBytes(dec)}
	c.mu.Unlock()
	s.deps.Decided(dec)
}

func zeroBytes(d Decision) Decision { d.Sent, d.Got = 0, 0; return d }

const (
	tellAgain = 10 * time.Second
	maxTold   = 500 // different decisions of one sandbox within tellAgain
)

// flush reports what was held back and forgets what is old.
func (s *Server) flush(now time.Time, all bool) {
	for _, c := range s.everyone() {
		s.flushClient(c, now, all)
	}
}

func (s *Server) flushClient(c *client, now time.Time, all bool) {
	var out []Decision
	c.mu.Lock()
	for key, t := range c.told {
		if !all && now.Sub(t.at) < tellAgain {
			continue
		}
		if t.held > 0 {
			d := t.first
			d.Time, d.Count = now, t.held
			out = append(out, d)
		}
		delete(c.told, key)
	}
	c.mu.Unlock()
	for _, d := range out {
		s.deps.Decided(d)
	}
}

func (s *Server) denied(c *client, t Target, via string, d *Denial) {
	s.tell(c, via, t, Decision{Code: d.Code, Reason: d.Reason, Hint: d.Hint})
}
