package environment

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"drydock/internal/core"
	"drydock/internal/execution/environment/recipe"
	"drydock/internal/execution/guest"
)

// PoolDeps are what a Pool uses of others.
type PoolDeps struct {
	Launcher *Launcher
	// Environments lists all, newest first.
	Environments func(ctx context.Context) ([]core.Environment, error)
	// Recipe is that of an environment's snapshot.
	Recipe func(ctx context.Context, env core.Environment) (recipe.Recipe, error)
	// Room says whether the host has room for one more that nobody has asked
	// for yet. It may be nil.
	Room func(ctx context.Context) bool
	Log  *slog.Logger
}

// PoolOptions are the operator's.
type PoolOptions struct {
	Max int // warm sandboxes of one environment at most; 0: no pool
	Min int // of an environment that was used lately
	// Lately is how long after its last use an environment keeps Min; default
	// a day. Demand is counted over a window; default 10 minutes.
	Lately, Window time.Duration
	// Draft is how long a claim waits for its prompt; default 2 minutes.
	Draft time.Duration
	// Settle is how long a new sandbox runs before it rests; default 5 seconds.
	// Until then gVisor gives memory back that only the restore needed, and
	// services do what was due meanwhile.
	Settle time.Duration
}

// Pool keeps sandboxes restored before anybody asks: with everything running in
// them, and no network. Launch takes one where it fits, and gives it identity,
// policy and network.
type Pool struct {
	deps PoolDeps
	opts PoolOptions
	wake chan struct{}

	mu     sync.Mutex
	closed bool
	ready  map[core.EnvironmentID][]*Machine
	drafts map[core.DraftID]*draft
	claims map[core.EnvironmentID][]time.Time
	failed map[core.SnapshotID]time.Time // not tried again before
	taken  time.Time                     // the first take since the last fill
	quiet  time.Time                     // no sandbox is made before
}

// draft is a sandbox that is kept for somebody who types.
type draft struct {
	env     core.EnvironmentID
	machine *Machine // nil: there was none
	expires time.Time
}

const (
	poolTick  = 2 * time.Second
	poolProbe = 30 * time.Second
	poolRetry = time.Minute // after a warm sandbox that could not be made
	// Making the next sandbox would take the processor from the one just taken.
	poolQuiet    = 500 * time.Millisecond
	poolQuietMax = 2 * time.Second // while one after the other is taken
)

// NewPool makes one and joins it with its launcher; Run fills it.
func NewPool(deps PoolDeps, opts PoolOptions) *Pool {
	def := func(d *time.Duration, v time.Duration) {
		if *d <= 0 {
			*d = v
		}
	}
	def(&opts.Lately, 24*time.Hour)
	def(&opts.Window, 10*time.Minute)
	def(&opts.Draft, 2*time.Minute)
	def(&opts.Settle, 5*time.Second)
	opts.Min = min(opts.Min, opts.Max)
	if deps.Log == nil {
		deps.Log = slog.New(slog.DiscardHandler)
	}
	p := &Pool{
		deps: deps, opts: opts, wake: make(chan struct{}, 1), ready: map[core.EnvironmentID][]*Machine{},
		drafts: map[core.DraftID]*draft{}, claims: map[core.EnvironmentID][]time.Time{}, failed: map[core.SnapshotID]time.Time{},
	}
	deps.Launcher.setPool(p)
	return p
}

func (l *Launcher) setPool(p *Pool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.pool = p
}

// Wake makes Run look now: a build has ended, a sandbox was taken.
func (p *Pool) Wake() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// spare leaves the processor to a sandbox that was just taken, and wakes Run
// after that; p.mu is held.
func (p *Pool) spare() {
	now := time.Now()
	if p.taken.IsZero() {
		p.taken = now
	}
	p.quiet = now.Add(min(poolQuiet, p.taken.Add(poolQuietMax).Sub(now)))
	time.AfterFunc(time.Until(p.quiet), p.Wake)
}

// calm brings those to rest that have waited for a while. Nobody may take one
// meanwhile: whoever takes it wakes it, and it must not be put to rest after.
func (p *Pool) calm(ctx context.Context) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, list := range p.ready {
		for _, m := range list {
			if !m.resting && !m.restless && time.Since(m.asked) > p.opts.Settle {
				m.rest(ctx)
			}
		}
	}
}

// sparing says whether the processor is left to a sandbox that was just taken:
// none is made at this moment.
func (p *Pool) sparing() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return time.Now().Before(p.quiet)
}

// Run keeps the pool filled until ctx ends, and then empties it.
func (p *Pool) Run(ctx context.Context) {
	if p.opts.Max > 0 {
		tick := time.NewTicker(poolTick)
		defer tick.Stop()
		for ctx.Err() == nil {
			p.expire(ctx)
			p.fill(ctx)
			select {
			case <-ctx.Done():
			case <-p.wake:
			case <-tick.C:
			}
		}
	}
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	clean, cancel := context.WithTimeout(context.WithoutCancel(ctx), destroyTimeout)
	defer cancel()
	p.drain(clean, func(*Machine) bool { return true })
}

// fill makes what is missing, one after the other, and takes away what does not
// fit any more.
func (p *Pool) fill(ctx context.Context) {
	envs, err := p.deps.Environments(ctx)
	if err != nil {
		p.deps.Log.Warn("the warm pool is not filled", "error", err)
		return
	}
	current := map[core.EnvironmentID]core.SnapshotID{}
	for _, env := range envs {
		current[env.ID] = env.Snapshot
	}
	p.drain(ctx, func(m *Machine) bool {
		return m.parent != current[core.EnvironmentID(m.handle.Owner)] || !m.sound(ctx)
	})
	p.calm(ctx)
	for _, env := range envs {
		for env.Snapshot != "" && ctx.Err() == nil && p.short(env) {
			if p.sparing() {
				return
			}
			if p.deps.Room != nil && !p.deps.Room(ctx) {
				return
			}
			if !p.add(ctx, env) {
				break
			}
		}
	}
	for _, env := range envs {
		p.shrink(ctx, env.ID)
	}
}

// want is how many sandboxes of an environment should wait: what was taken
// lately, within bounds.
func (p *Pool) want(env core.EnvironmentID, updated time.Time) int {
	now := time.Now()
	recent, last := 0, updated
	for _, at := range p.claims[env] {
		if now.Sub(at) < p.opts.Window {
			recent++
		}
		if at.After(last) {
			last = at
		}
	}
	least := 0
	if now.Sub(last) < p.opts.Lately {
		least = p.opts.Min
	}
	return min(max(recent, least), p.opts.Max)
}

func (p *Pool) short(env core.Environment) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return !p.closed && time.Now().After(p.failed[env.Snapshot]) && len(p.ready[env.ID]) < p.want(env.ID, env.Updated)
}

// shrink gives up what demand no longer asks for. An environment that nobody
// has used for long keeps none.
func (p *Pool) shrink(ctx context.Context, env core.EnvironmentID) {
	p.mu.Lock()
	now := time.Now()
	p.claims[env] = slices.DeleteFunc(p.claims[env], func(at time.Time) bool { return now.Sub(at) > p.opts.Lately })
	var extra []*Machine
	if n := max(p.want(env, now), p.opts.Min); len(p.ready[env]) > n {
		extra = slices.Clone(p.ready[env][n:])
		p.ready[env] = p.ready[env][:n]
	}
	p.mu.Unlock()
	p.close(ctx, extra)
}

// add makes one; false means that it is not worth trying again at once.
func (p *Pool) add(ctx context.Context, env core.Environment) bool {
	p.mu.Lock()
	p.taken = time.Time{}
	p.mu.Unlock()
	m, err := p.make(ctx, env)
	if err != nil {
		if ctx.Err() == nil {
			p.deps.Log.Warn("a warm sandbox was not made", "environment", env.Name, "snapshot", env.Snapshot, "error", err)
		}
		p.mu.Lock()
		p.failed[env.Snapshot] = time.Now().Add(poolRetry)
		p.mu.Unlock()
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ready[env.ID] = append(p.ready[env.ID], m)
	return true
}

func (p *Pool) make(ctx context.Context, env core.Environment) (*Machine, error) {
	r, err := p.deps.Recipe(ctx, env)
	if err != nil {
		return nil, err
	}
	m, err := p.deps.Launcher.Launch(ctx, LaunchRequest{
		Snapshot: env.Snapshot, Purpose: PurposeWarm, Owner: string(env.ID), Limits: r.Limits, Recipe: &r,
	})
	if err != nil {
		return nil, err
	}
	if m.from == FromFiles && len(r.Services) > 0 {
		// Its services would start without the network that they may need.
		return nil, joinClose(ctx, m, core.E("environment.pool", core.Unavailable, nil, "snapshot %s has no memory image that fits", env.Snapshot))
	}
	if err := m.exercise(ctx); err != nil {
		return nil, joinClose(ctx, m, err)
	}
	return m, nil
}

// exercise does a few times what whoever takes the sandbox will do first. What
// was restored answers several times slower until its pages have been touched.
func (m *Machine) exercise(ctx context.Context) error {
	const times, looks = 5, 2
	for range looks {
		m.look(ctx) // see Stand; there may be no repository
	}
	for range times {
		if err := m.setUp(ctx, nil); err != nil {
			return err
		}
		_, _ = m.guest.Run(ctx, guest.Command{Argv: []string{"/bin/true"}, User: m.User()}) // an image may have none
	}
	m.asked = time.Now()
	return nil
}

// rest keeps a sandbox from using the processor until somebody takes it. Where
// that cannot be had it goes on, as good as before.
func (m *Machine) rest(ctx context.Context) {
	l := m.launcher
	if !l.deps.Driver.Capabilities().Rest {
		return
	}
	err := l.deps.Driver.Rest(ctx, m.id)
	m.resting, m.restless = err == nil, err != nil
	if err != nil {
		l.deps.Log.Warn("a warm sandbox does not rest", "sandbox", m.id, "error", err)
	}
}

// sound says whether a waiting sandbox still is what it was when it was made.
// Now and then everything that listens in one that runs is asked.
func (m *Machine) sound(ctx context.Context) bool {
	s, err := m.Status(ctx)
	if err != nil || s.State != core.SandboxRunning {
		return false
	}
	if m.resting || time.Since(m.asked) < poolProbe {
		return true
	}
	m.asked = time.Now()
	ctx, cancel := context.WithTimeout(ctx, poolProbe)
	defer cancel()
	found, err := m.guest.Probe(ctx)
	return err == nil && len(found.Silent) == 0
}

func joinClose(ctx context.Context, m *Machine, err error) error {
	clean, cancel := context.WithTimeout(context.WithoutCancel(ctx), destroyTimeout)
	defer cancel()
	if closeErr := m.Close(clean); closeErr != nil {
		return core.E("environment.pool", core.KindOf(err), err, "and sandbox %s stays: %v", m.id, closeErr)
	}
	return err
}

// drain closes those that are not wanted.
func (p *Pool) drain(ctx context.Context, unwanted func(*Machine) bool) {
	p.mu.Lock()
	if p.closed {
		for id := range p.drafts {
			p.giveBack(id)
		}
	}
	var all []*Machine
	for _, list := range p.ready {
		all = append(all, list...)
	}
	p.mu.Unlock()
	var out []*Machine
	for _, m := range all {
		if unwanted(m) {
			out = append(out, m)
		}
	}
	// Somebody may have taken one meanwhile: it is theirs.
	p.mu.Lock()
	var gone []*Machine
	for env, list := range p.ready {
		p.ready[env] = slices.DeleteFunc(list, func(m *Machine) bool {
			hit := slices.Contains(out, m)
			if hit {
				gone = append(gone, m)
			}
			return hit
		})
	}
	p.mu.Unlock()
	p.close(ctx, gone)
}

func (p *Pool) close(ctx context.Context, list []*Machine) {
	for _, m := range list {
		if err := m.Close(ctx); err != nil {
			p.deps.Log.Error("a warm sandbox is not removed", "sandbox", m.id, "error", err)
		}
	}
}

// Reclaim gives up to n warm sandboxes back, because the host needs their room,
// and says how many.
func (p *Pool) Reclaim(ctx context.Context, n int) int {
	p.mu.Lock()
	var out []*Machine
	for env, list := range p.ready {
		for len(list) > 0 && len(out) < n {
			out = append(out, list[len(list)-1])
			list = list[:len(list)-1]
		}
		p.ready[env] = list
	}
	p.mu.Unlock()
	p.close(ctx, out)
	return len(out)
}

// Counts says how many wait, by environment.
func (p *Pool) Counts() map[core.EnvironmentID]int {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := map[core.EnvironmentID]int{}
	for env, list := range p.ready {
		if len(list) > 0 {
			out[env] = len(list)
		}
	}
	return out
}

// Draft keeps a sandbox of an environment for somebody who has begun to type.
// Without a prompt it goes back by itself. Where none waits, the draft only
// tells the pool that one is wanted.
func (p *Pool) Draft(env core.Environment) (core.DraftID, time.Time, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	id, d := core.NewDraftID(), &draft{env: env.ID, expires: time.Now().Add(p.opts.Draft).UTC()}
	if p.closed || p.opts.Max <= 0 || len(p.drafts) >= maxDrafts {
		return id, d.expires, false // nobody would take it back
	}
	p.asked(env.ID)
	if list := p.ready[env.ID]; len(list) > 0 && list[0].parent == env.Snapshot {
		d.machine = list[0]
		p.ready[env.ID] = list[1:]
	}
	p.drafts[id] = d
	p.Wake()
	return id, d.expires, d.machine != nil
}

// Return gives a draft up at once.
func (p *Pool) Return(id core.DraftID) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.drafts[id] == nil {
		return core.E("environment.draft", core.NotFound, nil, "draft %s does not exist any more", id)
	}
	p.giveBack(id)
	return nil
}

// maxDrafts bounds what people who type can make the pool remember.
const maxDrafts = 1000

// asked notes that a sandbox of an environment was wanted; p.mu is held. More
// than the pool may ever hold need not be remembered.
func (p *Pool) asked(env core.EnvironmentID) {
	list := append(p.claims[env], time.Now())
	p.claims[env] = list[max(0, len(list)-p.opts.Max):]
}

// giveBack is called with p.mu held. Nobody has told the sandbox anything yet,
// so it is as good as it was.
func (p *Pool) giveBack(id core.DraftID) {
	d := p.drafts[id]
	delete(p.drafts, id)
	if d.machine != nil {
		p.ready[d.env] = append(p.ready[d.env], d.machine)
	}
	p.Wake()
}

func (p *Pool) expire(context.Context) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for id, d := range p.drafts {
		if time.Now().After(d.expires) {
			p.giveBack(id)
		}
	}
}

// take removes a sandbox that fits a request from the pool, or returns nil.
func (p *Pool) take(req LaunchRequest, limits core.Limits) *Machine {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || p.opts.Max <= 0 {
		return nil
	}
	if d := p.drafts[req.Draft]; d != nil {
		delete(p.drafts, req.Draft)
		if d.machine != nil && d.machine.serves(req, limits) {
			p.spare()
			return d.machine
		}
		if d.machine != nil {
			p.ready[d.env] = append(p.ready[d.env], d.machine)
		}
	}
	for env, list := range p.ready {
		i := slices.IndexFunc(list, func(m *Machine) bool { return m.serves(req, limits) })
		if i >= 0 {
			m := list[i]
			p.ready[env] = slices.Delete(list, i, i+1)
			p.asked(env)
			p.spare()
			return m
		}
	}
	if req.Purpose == PurposeSession && req.Environment != "" {
		p.asked(req.Environment)
		p.Wake()
	}
	return nil
}

// serves says whether a warm sandbox is what a request would get.
func (m *Machine) serves(req LaunchRequest, limits core.Limits) bool {
	return m.parent == req.Snapshot && m.limits == limits
}
