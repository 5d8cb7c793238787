package egress

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// slowHost answers after a second, and counts.
type slowHost struct {
	mu    sync.Mutex
	asked []string
	fail  bool
}

func (h *slowHost) LookupNetIP(ctx context.Context, _, host string) ([]netip.Addr, error) {
	h.mu.Lock()
	h.asked = append(h.asked, host)
	fail := h.fail
	h.mu.Unlock()
	select {
	case <-time.After(time.Second):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if fail {
		return nil, errors.New("i/o timeout")
	}
	return []netip.Addr{netip.MustParseAddr("93.184.216.34")}, nil
}

func TestHostIsAskedOnceForManyConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		host := &slowHost{}
		l := newLookups(host)
		many := func(n int) {
			var wg sync.WaitGroup
			for range n {
				wg.Go(func() {
					if addrs, err := l.addresses(t.Context(), "packages.example"); err != nil || len(addrs) != 1 {
						t.Errorf("%v, error %v", addrs, err)
					}
				})
			}
			wg.Wait()
		}
		many(300)
		many(10)
		if len(host.asked) != 1 || host.asked[0] != "packages.example." {
			t.Errorf("asked %q", host.asked)
		}
		<-time.After(keepAnswers)
		many(2)
		if len(host.asked) != 2 {
			t.Errorf("an old answer is kept: asked %d times", len(host.asked))
		}
	})
}

func TestWhoGivesUpDoesNotSpoilTheOthersAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLookups(&slowHost{})
		short, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		var wg sync.WaitGroup
		wg.Go(func() {
			if _, err := l.addresses(short, "a.example"); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("error %v", err)
			}
		})
		synctest.Wait()
		if _, err := l.addresses(t.Context(), "a.example"); err != nil {
			t.Error(err)
		}
		wg.Wait()
	})
}

func TestFailuresAreNotKeptAndAnswersAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		host := &slowHost{fail: true}
		l := newLookups(host)
		for range 2 {
			if _, err := l.addresses(t.Context(), "a.example"); err == nil {
				t.Error("no error")
			}
		}
		if len(host.asked) != 2 {
			t.Errorf("asked %d times", len(host.asked))
		}
		host.fail = false
		for i := range maxAnswers + 5 {
			if _, err := l.addresses(t.Context(), fmt.Sprintf("h%d.example", i)); err != nil {
				t.Fatal(err)
			}
		}
		if len(l.answers) > maxAnswers {
			t.Errorf("%d answers are kept", len(l.answers))
		}
	})
}
