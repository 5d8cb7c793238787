package supervisor

import (
	"context"
	"errors"
	"maps"
	"os"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"time"

	"drydock/internal/core"
	"drydock/internal/execution/guest"
)

// process is one started command, running or finished.
type process struct {
	cmd    guest.Command
	out    *ring
	errs   *ring // nil when there is one stream
	master *os.File
	done   chan struct{} // closed when finished

	inMu  sync.Mutex // serialises writers
	stdin *os.File   // write end, or the master of a terminal

	mu   sync.Mutex
	info guest.Process
	used time.Time // last time a reader asked
}

func (p *process) snapshot() guest.Process {
	p.mu.Lock()
	info := p.info
	p.mu.Unlock()
	info.Stdout = bounds(p.out)
	if p.errs != nil {
		info.Stderr = bounds(p.errs)
	}
	return info
}

func bounds(r *ring) guest.Stream {
	first, end, _ := r.Bounds()
	return guest.Stream{First: first, End: end}
}

func (p *process) running() bool {
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

func (p *process) stream(name string) (*ring, error) {
	switch {
	case name == "" || name == guest.Stdout:
		return p.out, nil
	case name == guest.Stderr && p.errs != nil:
		return p.errs, nil
	}
	return nil, core.E("guest.output", core.NotFound, nil, "process %s has no stream %q", p.info.ID, clip(name, 40))
}

func (p *process) kept() int64 {
	n := p.out.Kept()
	if p.errs != nil {
		n += p.errs.Kept()
	}
	return n
}

func (p *process) discard() {
	p.out.Discard()
	if p.errs != nil {
		p.errs.Discard()
	}
}

// signal reaches the process group. A group whose leader has ended may still
// hold children, so it is tried as well.
func (p *process) signal(sig syscall.Signal) error {
	p.mu.Lock()
	pid := p.info.Pid
	p.mu.Unlock()
	err := syscall.Kill(-pid, sig)
	if sig == syscall.SIGKILL {
		killSession(pid) // jobs of a shell have groups of their own
	}
	if errors.Is(err, syscall.ESRCH) {
		return core.E("guest.signal", core.Conflict, nil, "process %s has ended", p.info.ID)
	}
	if err != nil {
		return core.E("guest.signal", core.Internal, err, "process %s", p.info.ID)
	}
	return nil
}

// stop sends TERM, and KILL when the process, or anything of its group, is
// still there after grace. It returns when that is settled.
func (p *process) stop(grace time.Duration, quit <-chan struct{}) {
	_ = p.signal(syscall.SIGTERM)
	_ = p.signal(syscall.SIGCONT)
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-p.done:
	case <-timer.C:
	case <-quit:
	}
	_ = p.signal(syscall.SIGKILL)
}

// registry knows every process for as long as its output is worth keeping.
type registry struct {
	mu      sync.Mutex
	next    int
	byID    map[guest.ProcessID]*process
	byKey   map[string]*keyed
	order   []*process            // by start
	live    map[*process]struct{} // running, hidden ones too
	closed  bool
	running int // live ones and those that are starting

	starting int           // reserved, and not added yet
	started  chan struct{} // closed when starting falls to zero
}

// keyed is a start under way or done; others with the same key wait for it.
type keyed struct {
	ready chan struct{}
	proc  *process
	err   error
}

const (
	maxRunning  = 1024
	maxFinished = 1024
	maxKept     = 512 << 20 // bytes of output of finished processes
	maxKey      = 256
)

func newRegistry() *registry {
	return &registry{byID: map[guest.ProcessID]*process{}, byKey: map[string]*keyed{}, live: map[*process]struct{}{}}
}

func (r *registry) find(ref guest.ProcessRef) (*process, error) {
	r.mu.Lock()
	p := r.byID[ref.ID]
	var k *keyed
	if ref.ID == "" && ref.Key != "" {
		k = r.byKey[ref.Key]
	}
	r.mu.Unlock()
	if k != nil {
		<-k.ready
		p = k.proc
	}
	if p == nil {
		name := string(ref.ID)
		if name == "" {
			name = "with key " + ref.Key
		}
		return nil, core.E("guest.process", core.NotFound, nil, "process %s does not exist", clip(name, 300))
	}
	p.mu.Lock()
	p.used = time.Now()
	p.mu.Unlock()
	return p, nil
}

// claim reserves a key. first is true when the caller must start the process
// and then call settle.
func (r *registry) claim(key string) (k *keyed, first bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if k, ok := r.byKey[key]; ok {
		return k, false
	}
	k = &keyed{ready: make(chan struct{})}
	r.byKey[key] = k
	return k, true
}

func (r *registry) settle(key string, k *keyed, p *process, err error) {
	k.proc, k.err = p, err
	if err != nil { // nothing was started: the key is free again
		r.mu.Lock()
		delete(r.byKey, key)
		r.mu.Unlock()
	}
	close(k.ready)
}

// reserve takes a place for one more running process and gives it a name. The
// caller must then call add or unreserve.
func (r *registry) reserve(instance string) (guest.ProcessID, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return "", core.E("guest.start", core.Unavailable, nil, "the sandbox is stopping")
	}
	if r.running >= maxRunning {
		return "", core.E("guest.start", core.Exhausted, nil, "%d processes are running already", r.running)
	}
	r.running++
	r.next++
	if r.starting++; r.starting == 1 {
		r.started = make(chan struct{})
	}
	return guest.ProcessID("p" + strconv.Itoa(r.next) + "-" + instance[:min(6, len(instance))]), nil
}

func (r *registry) unreserve() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.running--
	r.noStart()
}

// noStart ends what reserve began; it is called with the lock held.
func (r *registry) noStart() {
	if r.starting--; r.starting == 0 {
		close(r.started)
	}
}

// add makes a started process known. False means that everything is being
// ended, and may have been without it: the caller must end it.
func (r *registry) add(p *process, inList bool) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if p.running() { // otherwise finished has been called, or will be
		r.live[p] = struct{}{}
	}
	if inList {
		r.byID[p.info.ID] = p
		r.order = append(r.order, p)
	}
	r.noStart()
	return !r.closed
}

// settled returns when no start is under way, or ctx ends.
func (r *registry) settled(ctx context.Context) {
	for {
		r.mu.Lock()
		n, started := r.starting, r.started
		r.mu.Unlock()
		if n == 0 {
			return
		}
		select {
		case <-started:
		case <-ctx.Done():
			return
		}
	}
}

// alive are the processes that run, also those that nobody is told of.
func (r *registry) alive() []*process {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Collect(maps.Keys(r.live))
}

func (r *registry) list() []*process {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.order)
}

// finished frees the place of a process and forgets the oldest finished ones
// beyond the bounds.
func (r *registry) finished(p *process) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.live, p)
	r.running--
	var count int
	var kept int64
	for _, p := range r.order {
		if !p.running() {
			count++
			kept += p.kept()
		}
	}
	if count <= maxFinished && kept <= maxKept {
		return
	}
	r.order = slices.DeleteFunc(r.order, func(p *process) bool {
		if p.running() || count <= maxFinished && kept <= maxKept {
			return false
		}
		p.mu.Lock()
		recent := time.Since(p.used) < time.Minute
		p.mu.Unlock()
		if recent && count <= 2*maxFinished && kept <= 2*maxKept {
			return false
		}
		count--
		kept -= p.kept()
		delete(r.byID, p.info.ID)
		if p.info.Key != "" {
			delete(r.byKey, p.info.Key)
		}
		p.discard()
		return true
	})
}

// close refuses further starts.
func (r *registry) close() {
	r.mu.Lock()
	r.closed = true
	r.mu.Unlock()
}

func (r *registry) stats() (running, known int, kept int64) {
	for _, p := range r.list() {
		known++
		kept += p.kept()
	}
	r.mu.Lock()
	running = r.running
	r.mu.Unlock()
	return running, known, kept
}
