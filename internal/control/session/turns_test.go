package session_test

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"drydock/internal/control/event"
	"drydock/internal/control/session"
	"drydock/internal/core"
	"drydock/internal/store"
)

// host has room or lacks something.
type host struct {
	mu      sync.Mutex
	lack    string
	entered map[core.SessionID]bool
	waits   map[string]string
}

func (h *host) set(lack string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.lack = lack
}

func (h *host) inside() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.entered)
}

func (h *host) Enter(_ context.Context, id core.SessionID, resumed bool) (func(), string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.lack != "" && !resumed {
		return nil, h.lack
	}
	if h.entered == nil {
		h.entered = map[core.SessionID]bool{}
	}
	h.entered[id] = true
	return func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		delete(h.entered, id)
	}, ""
}

func (h *host) Waits(owner string) string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.waits[owner]
}

func (h *host) Lack(_ context.Context, resumed bool) string {
	h.mu.Lock()
	defer h.mu.Unlock()
	if resumed {
		return ""
	}
	return h.lack
}

func newHosted(t *testing.T, file string, e session.Executor, h *host, opts session.Options) *daemon {
	t.Helper()
	db, err := store.Open(t.Context(), store.Options{Path: file})
	if err != nil {
		t.Fatal(err)
	}
	opts.Instance = "daemon"
	log := event.New(db, event.Options{})
	service, err := session.New(session.Deps{Store: db, Log: log, Executor: e, Capacity: h}, opts)
	if err != nil {
		t.Fatal(err)
	}
	d := &daemon{Service: service, t: t, db: db, log: log}
	t.Cleanup(d.kill)
	return d
}

// One person asks for much, another for one thing, and there is one runner.
func TestNobodyStarvesBehindAHundredPrompts(t *testing.T) {
	var mu sync.Mutex
	var order []string
	step := make(chan struct{})
	e := &engine{do: func(ctx context.Context, job session.Job) (session.Ending, error) {
		mu.Lock()
		order = append(order, job.Prompt.Author.Handle)
		mu.Unlock()
		select {
		case <-step:
		case <-ctx.Done():
			return session.Ending{}, context.Cause(ctx)
		}
		return session.Ending{RunState: core.RunDone}, job.Journal.Started(ctx, "ready")
	}}
	d := newDaemon(t, path(t), e, session.Options{MaxRunning: 1, Poll: 10 * time.Millisecond})
	addEnvironment(t, d.db, "shop")
	var last core.Session
	for i := range 100 {
		last, _ = d.create(alice, fmt.Sprint(i))
	}
	bobs, _ := d.create(bob, "mine")
	if got := d.get(last.ID).Reason; got != "waits for a runner: place 101 of 101" {
		t.Errorf("the last of a hundred: %q", got)
	}
	if got := d.get(bobs.ID).Reason; got != "waits for a runner: place 2 of 101" {
		t.Errorf("the first of another: %q", got)
	}
	d.start()
	step <- struct{}{} // the first has begun and ends
	step <- struct{}{}
	d.wait(bobs.ID, core.SessionIdle)
	mu.Lock()
	if !slices.Equal(order[:2], []string{"alice", "bob"}) {
		t.Errorf("order %v", order)
	}
	mu.Unlock()
	if got := d.get(last.ID).Reason; !strings.HasPrefix(got, "waits for a runner: place 9") { // another one may run by now
		t.Errorf("later: %q", got)
	}
	// A place that changes is no event.
	if n := d.count(last.ID, core.EventSessionState); n != 0 {
		t.Errorf("%d changes of state are told of a session that only waits", n)
	}
	d.stopRunning()
}

func TestLimitsForPeopleAndEnvironments(t *testing.T) {
	d := newDaemon(t, path(t), &engine{do: untilCancelled}, session.Options{MaxRunning: 4, PerUser: 1, PerEnvironment: 2, Poll: 10 * time.Millisecond})
	addEnvironment(t, d.db, "shop")
	first, _ := d.create(alice, "one")
	second, _ := d.create(alice, "two")
	third, _ := d.create(bob, "three")
	fourth, _ := d.create(core.Author{Handle: "carol", Name: "Carol"}, "four")
	d.start()
	d.wait(first.ID, core.SessionRunning)
	d.wait(third.ID, core.SessionRunning)
	for id, want := range map[core.SessionID]string{
		second.ID: "waits for a runner: place 1 of 2; Alice has 1 session running (limit 1 for each person)",
		fourth.ID: "waits for a runner: place 2 of 2; 2 sessions of its environment run (limit 2 for each)",
	} {
		if got := d.get(id); got.State != core.SessionQueued || got.Reason != want {
			t.Errorf("%s (%s), want %s", got.State, got.Reason, want)
		}
	}
	list, _, err := d.List(t.Context(), core.SessionFilter{State: core.SessionQueued}, core.Page{})
	if err != nil || len(list) != 2 || list[0].Reason != d.get(list[0].ID).Reason {
		t.Errorf("the list tells %+v (%v)", list, err)
	}
	if _, err := d.Stop(t.Context(), first.ID, alice, ""); err != nil {
		t.Fatal(err)
	}
	d.wait(first.ID, core.SessionIdle)
	d.waitAny([]core.SessionID{second.ID, fourth.ID}, core.SessionRunning)
	d.stopRunning()
}

// waitAny waits until one of some sessions is in a state.
func (d *daemon) waitAny(ids []core.SessionID, state core.SessionState) {
	d.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		for _, id := range ids {
			if d.get(id).State == state {
				return
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			d.t.Fatalf("none of %v is %s", ids, state)
		}
	}
}

// A host without room: what waits says why and where it stands, what runs goes
// on, nothing is lost, and it ends by itself.
func TestAFullHostHoldsNewSessions(t *testing.T) {
	file := filepath.Join(t.TempDir(), "db")
	synctest.Test(t, func(t *testing.T) {
		h := &host{}
		e := &engine{do: untilCancelled}
		d := newHosted(t, file, e, h, session.Options{})
		addEnvironment(t, d.db, "shop")
		runs, _ := d.create(alice, "runs")
		d.start()
		synctest.Wait()
		const lack = "disk: the disk of the state directory has only 1 GiB left (reserve 5 GiB)"
		h.set(lack)
		one, _ := d.create(alice, "one")
		two, _ := d.create(bob, "two")
		time.Sleep(time.Minute)
		synctest.Wait()
		if got := d.get(runs.ID); got.State != core.SessionRunning || h.inside() != 1 {
			t.Errorf("what runs is %s, %d are inside", got.State, h.inside())
		}
		const memory = "memory: needs 256 MiB, 0 B are free"
		h.mu.Lock()
		h.waits = map[string]string{string(e.seen()[0].Run.ID): memory}
		h.mu.Unlock()
		if got := d.get(runs.ID).Reason; got != "the sandbox is ready; a sandbox of it waits for "+memory {
			t.Errorf("a session whose proof waits: %q", got)
		}
		for id, place := range map[core.SessionID]string{one.ID: "2", two.ID: "1"} { // alice has one running
			got := d.get(id)
			if want := "waits for " + lack + ": place " + place + " of 2"; got.State != core.SessionQueued || got.Reason != want {
				t.Errorf("%s (%s), want %s", got.State, got.Reason, want)
			}
			if n := len(d.events(id)); n != 2 {
				t.Errorf("%d events of a session that only waits", n)
			}
		}
		h.set("")
		time.Sleep(5 * time.Second)
		synctest.Wait()
		if h.inside() != 3 || d.get(one.ID).State != core.SessionRunning || d.get(two.ID).State != core.SessionRunning {
			t.Errorf("there is room, %d are inside", h.inside())
		}
		for _, id := range []core.SessionID{runs.ID, one.ID, two.ID} {
			if _, err := d.Stop(t.Context(), id, alice, ""); err != nil {
				t.Error(err)
			}
		}
		synctest.Wait()
		if h.inside() != 0 {
			t.Errorf("%d sessions that ended still have room", h.inside())
		}
		d.kill()
	})
}
