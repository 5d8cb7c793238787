package egress

import (
	"context"
	"net/netip"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"
)

const (
	resolveTimeout = 10 * time.Second // the host's resolver asks twice, for 5 s each
	keepAnswers    = 30 * time.Second
	maxAnswers     = 1024
)

// lookups asks the host's resolver once for what many connections want at the
// same time: a package manager opens hundreds to one registry. Addresses are
// judged each time they are used, so an answer that is kept allows nothing.
type lookups struct {
	resolver Resolver
	now      func() time.Time
	asking   singleflight.Group

	mu      sync.Mutex
	answers map[string]answered
}

type answered struct {
	addrs []netip.Addr
	until time.Time
}

func newLookups(r Resolver) *lookups {
	return &lookups{resolver: r, now: time.Now, answers: map[string]answered{}}
}

// addresses of a name. The question goes on for the others when one asker
// gives up.
func (l *lookups) addresses(ctx context.Context, name string) ([]netip.Addr, error) {
	l.mu.Lock()
	a, ok := l.answers[name]
	l.mu.Unlock()
	if ok && l.now().Before(a.until) {
		return a.addrs, nil
	}
	answer := l.asking.DoChan(name, func() (any, error) { return l.ask(context.WithoutCancel(ctx), name) })
	select {
	case r := <-answer:
		addrs, _ := r.Val.([]netip.Addr)
		return addrs, r.Err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

func (l *lookups) ask(ctx context.Context, name string) ([]netip.Addr, error) {
	ctx, cancel := context.WithTimeout(ctx, resolveTimeout)
	defer cancel()
	full := name
	if strings.Contains(name, ".") {
		full += "." // complete: no search list
	}
	addrs, err := l.resolver.LookupNetIP(ctx, "ip", full)
	if err != nil || len(addrs) == 0 {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.answers) >= maxAnswers {
		clear(l.answers)
	}
	l.answers[name] = answered{addrs, l.now().Add(keepAnswers)}
	return addrs, nil
}
