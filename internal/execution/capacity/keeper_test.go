package capacity_test

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"drydock/internal/core"
	"drydock/internal/execution/capacity"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	mib = int64(1) << 20
	gib = int64(1) << 30
)

// world is a host that the test decides about.
type world struct {
	mu     sync.Mutex
	host   capacity.Host
	living map[core.SandboxID]capacity.Sandbox
	err    error
	log    *slog.Logger
}

// roomy has 768 MiB to give out and 90 GiB of disk.
func roomy() *world {
	return &world{
		host:   capacity.Host{Memory: capacity.Amount{Total: 4 * gib, Free: gib}, Disk: capacity.Amount{Total: 100 * gib, Free: 90 * gib}, Processors: 2},
		living: map[core.SandboxID]capacity.Sandbox{},
	}
}

func (w *world) keeper(change func(*capacity.Options)) *capacity.Keeper {
	opts := capacity.Options{MemoryReserve: 256 * mib, DiskReserve: 10 * gib}
	if change != nil {
		change(&opts)
	}
	return capacity.New(capacity.Deps{
		Log: w.log,
		Host: func() (capacity.Host, error) {
			w.mu.Lock()
			defer w.mu.Unlock()
			return w.host, w.err
		},
		Living: func(context.Context) ([]capacity.Sandbox, error) {
			w.mu.Lock()
			defer w.mu.Unlock()
			var out []capacity.Sandbox
			for _, s := range w.living {
				out = append(out, s)
			}
			return out, nil
		},
	}, opts)
}

// set changes the host; it is noticed a second later.
func (w *world) set(change func(*capacity.Host)) {
	w.mu.Lock()
	change(&w.host)
	w.mu.Unlock()
	time.Sleep(1100 * time.Millisecond)
}

// live starts a sandbox that uses so much.
func (w *world) live(id core.SandboxID, purpose, owner string, memory int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.living[id] = capacity.Sandbox{ID: id, Purpose: purpose, Owner: owner, Memory: memory}
	w.host.Memory.Free -= memory
	w.host.Threads.Free -= sandboxThreads
}

// sandboxThreads is what a sandbox of these tests takes of the host's threads.
const sandboxThreads = 128

func (w *world) die(id core.SandboxID) int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	memory := w.living[id].Memory
	w.host.Memory.Free += memory
	w.host.Threads.Free += sandboxThreads
	delete(w.living, id)
	return memory
}

func enter(t *testing.T, k *capacity.Keeper, id core.SessionID) func() {
	t.Helper()
	leave, lack := k.Enter(t.Context(), id, false)
	if lack != "" {
		t.Fatalf("session %s is turned away: %s", id, lack)
	}
	return leave
}

func admit(t *testing.T, k *capacity.Keeper, id core.SandboxID, purpose, owner string) func() {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	release, err := k.Admit(ctx, capacity.Request{ID: id, Purpose: purpose, Owner: owner})
	if err != nil {
		t.Errorf("%s of %s: %v", purpose, owner, err)
		return func() {}
	}
	return release
}

func TestSessionsEnterWhileThereIsMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := roomy()
		k := w.keeper(nil)
		first := enter(t, k, "ses_1")
		enter(t, k, "ses_2")
		enter(t, k, "ses_3")
		_, lack := k.Enter(t.Context(), "ses_4", false)
		if lack != "memory: needs 256 MiB, 0 B are free" {
			t.Errorf("the fourth of three: %q", lack)
		}
		if got := k.Report(t.Context()); got.State != "full: memory" || got.Sessions != 3 || got.Lack != lack || got.Hint == "" {
			t.Errorf("report %+v", got)
		}
		first()
		first() // a second time changes nothing
		if lack := k.Lack(t.Context(), false); lack != "" {
			t.Errorf("one has left, and there is no room: %s", lack)
		}
		enter(t, k, "ses_4")
		if k.Lack(t.Context(), false) == "" {
			t.Error("the host has room without end")
		}
	})
}

// What a sandbox uses is in the host's figures already: only what it is
// promised beyond counts.
func TestUseIsNotCountedTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := roomy()
		k := w.keeper(nil)
		enter(t, k, "ses_1")
		admit(t, k, "sbx_1", capacity.Session, "ses_1")
		w.live("sbx_1", capacity.Session, "ses_1", 100*mib)
		time.Sleep(2 * time.Second)
		if r := k.Report(t.Context()); r.MemoryFree != 512*mib || r.MemoryUsed != 100*mib || r.MemoryKept != 156*mib || r.Busy != 1 {
			t.Errorf("with 100 MiB in use: %+v", r)
		}
		w.die("sbx_1")
		w.live("sbx_1", capacity.Session, "ses_1", 400*mib)
		time.Sleep(2 * time.Second)
		if r := k.Report(t.Context()); r.MemoryFree != 368*mib || r.MemoryKept != 0 {
			t.Errorf("with 400 MiB in use: %+v", r)
		}
	})
}

func TestTheDaemonsOwnLimitHolds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := roomy()
		w.host.Own = capacity.Amount{Total: gib, Free: 800 * mib}
		k := w.keeper(func(o *capacity.Options) { o.MemoryReserve = 100 * mib })
		w.live("sbx_1", capacity.Warm, "", 300*mib)
		if r := k.Report(t.Context()); r.MemoryFree != 400*mib {
			t.Errorf("free %s", capacity.Bytes(r.MemoryFree))
		}
	})
}

func TestWarmOnesAreGivenBackForSessions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := roomy()
		k := w.keeper(nil)
		release := map[core.SandboxID]func(){}
		for i := range 8 { // 512 MiB, and the next session still finds room
			id := core.SandboxID(fmt.Sprintf("sbx_w%d", i))
			release[id] = admit(t, k, id, capacity.Warm, "")
			w.live(id, capacity.Warm, "", 64*mib)
		}
		if ok, why := k.Room(t.Context(), capacity.Warm); ok || !strings.HasPrefix(why, "memory: ") {
			t.Errorf("warm sandboxes take the room of the next session: %v %q", ok, why)
		}
		var wants []int64
		k.SetReclaim(func(_ context.Context, want int64) (freed int64) {
			wants = append(wants, want)
			for id, back := range release {
				if freed >= want {
					break
				}
				freed += w.die(id)
				back()
				delete(release, id)
			}
			return freed
		})
		for i := range 3 {
			id := fmt.Sprint(i)
			enter(t, k, core.SessionID("ses_"+id))
			admit(t, k, core.SandboxID("sbx_"+id), capacity.Session, "ses_"+id)
			w.live(core.SandboxID("sbx_"+id), capacity.Session, "ses_"+id, 60*mib)
		}
		if len(release) != 0 || len(wants) < 2 {
			t.Errorf("%d warm ones are left, wanted %v", len(release), wants)
		}
		if _, lack := k.Enter(t.Context(), "ses_9", false); lack == "" {
			t.Error("there is room for a fourth")
		}
	})
}

// A host with much memory runs out of threads first: the kernel refuses them to
// everybody then, the daemon included.
func TestThreadsOfTheHostAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := roomy()
		w.host.Memory = capacity.Amount{Total: 400 * gib, Free: 300 * gib}
		w.host.Threads = capacity.Amount{Total: 4096, Free: 256 + 5*128} // 256 are kept
		k := w.keeper(nil)
		var back []func() int64
		for i := range 2 {
			id := core.SandboxID(fmt.Sprintf("sbx_w%d", i))
			release := admit(t, k, id, capacity.Warm, "")
			w.live(id, capacity.Warm, "", 64*mib)
			back = append(back, func() int64 { release(); return w.die(id) })
		}
		k.SetReclaim(func(context.Context, int64) (freed int64) {
			if len(back) > 0 {
				freed, back = back[0](), back[1:]
			}
			return freed
		})
		w.set(func(*capacity.Host) {})
		lack, n := "", 0
		for ; n < 20; n++ {
			id := fmt.Sprint(n)
			if _, lack = k.Enter(t.Context(), core.SessionID("ses_"+id), false); lack != "" {
				break
			}
			admit(t, k, core.SandboxID("sbx_"+id), capacity.Session, "ses_"+id)
			w.live(core.SandboxID("sbx_"+id), capacity.Session, "ses_"+id, 60*mib)
			w.set(func(*capacity.Host) {})
		}
		if n != 5 || len(back) != 1 {
			t.Errorf("%d sessions run where there is room for five, one of them in place of what was warm; %d are warm", n, len(back))
		}
		if !strings.HasPrefix(lack, "threads: only ") || !strings.Contains(lack, " of the 4096 ") {
			t.Errorf("one more of five: %q", lack)
		}
		if r := k.Report(t.Context()); r.State != "full: threads" || !strings.Contains(r.Hint, "kernel.pid_max") {
			t.Errorf("report %+v", r)
		}
	})
}

// Snapshots that take more than they may stop new work, as a full disk does.
func TestTooManySnapshotsStopNewWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := roomy()
		w.host.Stored = capacity.Amount{Total: 10 * gib, Free: -gib}
		k := w.keeper(nil)
		const want = "storage: snapshots take 11 GiB of the disk, storage.max is 10 GiB"
		if ok, got := k.Room(t.Context(), capacity.Session); ok || got != want {
			t.Errorf("room %v, %q", ok, got)
		}
		if r := k.Report(t.Context()); r.State != "full: storage" || !strings.Contains(r.Hint, "storage.max") {
			t.Errorf("state %q, hint %q", r.State, r.Hint)
		}
		if _, lack := k.Enter(t.Context(), "ses_1", true); lack != "" {
			t.Errorf("what was running does not go on: %q", lack)
		}
	})
}

// A full disk: nothing new, everything that runs goes on, and it ends by
// itself.
func TestAFullDiskStopsNewWorkUntilThereIsRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := roomy()
		w.host.Memory.Free = 2 * gib
		k := w.keeper(nil)
		enter(t, k, "ses_1")
		w.set(func(h *capacity.Host) { h.Disk.Free = 5 * gib })
		const why = "disk: the disk of the state directory has only 5 GiB left (reserve 10 GiB)"
		if _, lack := k.Enter(t.Context(), "ses_2", false); lack != why {
			t.Errorf("a new session: %q", lack)
		}
		for _, purpose := range []string{capacity.Session, capacity.Build, capacity.Warm} {
			if ok, got := k.Room(t.Context(), purpose); ok || got != why {
				t.Errorf("%s: %v %q", purpose, ok, got)
			}
		}
		if r := k.Report(t.Context()); r.State != "full: disk" || !strings.Contains(r.Hint, "snapshot gc") {
			t.Errorf("state %q, %s", r.State, r.Hint)
		}
		// What runs goes on: its sandbox, its proof, and a run that was cut off.
		admit(t, k, "sbx_1", capacity.Session, "ses_1")
		admit(t, k, "sbx_2", capacity.Proof, "run_1")
		if _, lack := k.Enter(t.Context(), "ses_3", true); lack != "" {
			t.Errorf("a resumed session: %q", lack)
		}
		var built sync.WaitGroup
		var after time.Duration
		begin := time.Now()
		built.Go(func() {
			admit(t, k, "sbx_3", capacity.Build, "bld_1")
			after = time.Since(begin)
		})
		time.Sleep(10 * time.Second)
		if r := k.Report(t.Context()); len(r.Waiting) != 1 || r.Waiting[0].For != why {
			t.Errorf("who waits: %+v", r.Waiting)
		}
		w.set(func(h *capacity.Host) { h.Disk.Free = 20 * gib })
		built.Wait()
		if after < 10*time.Second || after > 15*time.Second {
			t.Errorf("the build went on after %v", after)
		}
		if r := k.Report(t.Context()); r.State != "open" {
			t.Errorf("state %q", r.State)
		}
		// The last of the disk is nobody's.
		w.set(func(h *capacity.Host) { h.Disk.Free = gib })
		if _, lack := k.Enter(t.Context(), "ses_4", true); !strings.HasPrefix(lack, "disk: ") {
			t.Errorf("a resumed session with 1 GiB left: %q", lack)
		}
	})
}

// The host is full of running sessions, and each needs rooms for its proof.
func TestAProofNeverWaitsForItsOwnSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := roomy()
		k := w.keeper(nil)
		for i := range 3 {
			owner := fmt.Sprintf("ses_%d", i)
			enter(t, k, core.SessionID(owner))
			admit(t, k, core.SandboxID("sbx_"+owner), capacity.Session, owner)
			w.live(core.SandboxID("sbx_"+owner), capacity.Session, owner, 330*mib) // more than was promised
		}
		one, two := admit(t, k, "sbx_a", capacity.Proof, "run_0"), admit(t, k, "sbx_b", capacity.Proof, "run_0")
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		_, err := k.Admit(ctx, capacity.Request{ID: "sbx_c", Purpose: capacity.Proof, Owner: "run_1"})
		if !core.Is(err, core.Unavailable) || !strings.Contains(err.Error(), "memory: needs 256 MiB") || core.HintOf(err) == "" {
			t.Errorf("the rooms of a second proof on a full host: %v", err)
		}
		var second sync.WaitGroup
		second.Go(func() { admit(t, k, "sbx_c", capacity.Proof, "run_1") })
		time.Sleep(5 * time.Second)
		if got := k.Waits("run_1"); got != "memory: needs 256 MiB, 0 B are free" || k.Waits("run_0") != "" {
			t.Errorf("the second proof waits for %q", got)
		}
		one()
		two()
		second.Wait() // the first proof has ended
	})
}

func TestTheMoreImportantIsLetInFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := roomy()
		w.host.Memory.Free = 256 * mib
		k := w.keeper(nil)
		var mu sync.Mutex
		var order []string
		var all sync.WaitGroup
		for i, purpose := range []string{capacity.Warm, capacity.Build, capacity.Build, capacity.Session} {
			all.Go(func() {
				admit(t, k, core.SandboxID(fmt.Sprintf("sbx_%d", i)), purpose, fmt.Sprint(i))
				mu.Lock()
				defer mu.Unlock()
				order = append(order, fmt.Sprintf("%s %d", purpose, i))
			})
			synctest.Wait()
		}
		if ok, why := k.Room(t.Context(), capacity.Build); ok {
			t.Errorf("room for a build: %s", why)
		}
		for free := range 6 {
			w.set(func(h *capacity.Host) { h.Memory.Free = 256*mib + int64(free)*256*mib })
		}
		all.Wait()
		if want := []string{"session 3", "build 1", "build 2", "warm 0"}; !slices.Equal(order, want) {
			t.Errorf("order %v, want %v", order, want)
		}
	})
}

// A session that is turned away keeps builds out until it has had its turn.
func TestABuildDoesNotOvertakeAWaitingSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := roomy()
		w.host.Memory.Free = 300 * mib
		k := w.keeper(nil)
		if _, lack := k.Enter(t.Context(), "ses_1", false); lack == "" {
			t.Fatal("there is room")
		}
		w.set(func(h *capacity.Host) { h.Memory.Free = 600 * mib })
		if ok, why := k.Room(t.Context(), capacity.Build); ok || !strings.Contains(why, "a session waits") {
			t.Errorf("a build takes the room: %v %q", ok, why)
		}
		enter(t, k, "ses_1")
	})
}

func TestBusySandboxesAreBoundedByProcessors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := roomy()
		w.host.Memory.Free = 4 * gib
		k := w.keeper(func(o *capacity.Options) { o.PerProcessor = 1 })
		enter(t, k, "ses_1")
		enter(t, k, "ses_2")
		const why = "processors: 2 sandboxes work on 2 of them (limit 2)"
		if _, lack := k.Enter(t.Context(), "ses_3", false); lack != why {
			t.Errorf("a third on two: %q", lack)
		}
		admit(t, k, "sbx_1", capacity.Proof, "run_1") // what runs is not held up
		if _, lack := k.Enter(t.Context(), "ses_4", true); lack != "" {
			t.Errorf("a resumed one: %q", lack)
		}
	})
}

// The log has the beginning of a state, and its end when it lasts.
func TestTheLogTellsWhenTheHostIsFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := roomy()
		var log strings.Builder
		k := w.keeper(func(*capacity.Options) { w.log = slog.New(slog.NewTextHandler(&log, nil)) })
		look := func(free int64) {
			w.set(func(h *capacity.Host) { h.Disk.Free = free })
			k.Lack(t.Context(), false)
		}
		for range 5 { // at the edge
			look(5 * gib)
			look(20 * gib)
		}
		if n := strings.Count(log.String(), "the host is full"); n != 1 || !strings.Contains(log.String(), "5 GiB left") {
			t.Errorf("%d lines:\n%s", n, log.String())
		}
		for range 12 {
			look(20 * gib)
		}
		if n := strings.Count(log.String(), "has room again"); n != 1 {
			t.Errorf("%d times room again:\n%s", n, log.String())
		}
	})
}

func TestWhatCannotBeMeasuredBoundsNothing(t *testing.T) {
	w := roomy()
	w.host, w.err = capacity.Host{}, core.E("test", core.Unavailable, nil, "no /proc")
	k := w.keeper(nil)
	enter(t, k, "ses_1")
	if r := k.Report(t.Context()); r.State != "open" || r.MemoryReserve < 0 {
		t.Errorf("%+v", r)
	}
}

// Sessions in any number on hosts of any size: all of them end. Each needs a
// sandbox and then two rooms at once; builds come between.
func TestEverythingEndsOnAnyHost(t *testing.T) {
	for seed := range uint64(40) {
		synctest.Test(t, func(t *testing.T) {
			rnd := rand.New(rand.NewPCG(seed, 1)) //nolint:gosec // not a secret
			w := roomy()
			w.host.Memory.Free = 256*mib + 256*mib*int64(1+rnd.IntN(4))
			if seed%2 == 1 {
				w.host.Threads = capacity.Amount{Total: 2048, Free: 128 + 128*int64(1+rnd.IntN(4))}
			}
			k := w.keeper(nil)
			var all sync.WaitGroup
			run := func(id string, purpose, owner string, use int64, work time.Duration) {
				sandbox := core.SandboxID("sbx_" + id + purpose)
				ctx, cancel := context.WithTimeout(t.Context(), 24*time.Hour)
				defer cancel()
				release, err := k.Admit(ctx, capacity.Request{ID: sandbox, Purpose: purpose, Owner: owner})
				if err != nil {
					t.Errorf("seed %d: %v", seed, err)
					return
				}
				w.live(sandbox, purpose, owner, use)
				time.Sleep(work)
				w.die(sandbox)
				release()
			}
			for i := range 8 {
				id := fmt.Sprint(i)
				use, work := int64(rnd.IntN(300))*mib, time.Duration(rnd.IntN(100))*time.Second
				if i == 7 {
					all.Go(func() { run(id, capacity.Build, "bld_"+id, use, work) })
					continue
				}
				all.Go(func() {
					for {
						leave, lack := k.Enter(t.Context(), core.SessionID("ses_"+id), false)
						if lack != "" {
							time.Sleep(2 * time.Second)
							continue
						}
						defer leave()
						break
					}
					sandbox := core.SandboxID("sbx_" + id)
					release := admitLong(t, k, sandbox, "ses_"+id)
					w.live(sandbox, capacity.Session, "ses_"+id, use)
					var rooms sync.WaitGroup
					for room := range 2 {
						rooms.Go(func() { run(fmt.Sprintf("%s.%d", id, room), capacity.Proof, "run_"+id, use/2, work) })
					}
					rooms.Wait()
					w.die(sandbox)
					release()
				})
			}
			all.Wait()
			if r := k.Report(t.Context()); r.Busy != 0 || r.Sessions != 0 || len(r.Waiting) != 0 {
				t.Errorf("seed %d: left behind: %+v", seed, r)
			}
		})
	}
}

func admitLong(t *testing.T, k *capacity.Keeper, id core.SandboxID, owner string) func() {
	ctx, cancel := context.WithTimeout(t.Context(), 24*time.Hour)
	defer cancel()
	release, err := k.Admit(ctx, capacity.Request{ID: id, Purpose: capacity.Session, Owner: owner})
	if err != nil {
		t.Errorf("%s: %v", id, err)
		return func() {}
	}
	return release
}
