package supervisor

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"drydock/internal/core"
	"drydock/internal/execution/guest"
)

const (
	maxServices    = 64
	defaultReady   = 60 * time.Second
	serviceGrace   = 10 * time.Second
	crashLimit     = 5 // ends before it was ever ready, in a row
	firstBackoff   = 200 * time.Millisecond
	lastBackoff    = 30 * time.Second
	steadyAfter    = time.Minute // a run this long forgets earlier restarts
	aliveAfter     = 300 * time.Millisecond
	firstPause     = 25 * time.Millisecond // between two questions whether it is ready
	lastPause      = time.Second
	stateWaiting   = "waiting"
	stateStarting  = "starting"
	stateReady     = "ready"
	stateFailed    = "failed"
	stateStopped   = "stopped"
	restartAlways  = "always"
	restartFailure = "on-failure"
	restartNever   = "no"
)

// services keeps the declared services running, each by one goroutine.
type services struct {
	s *Supervisor

	op sync.Mutex // serialises declare, stopAll and restart

	mu      sync.Mutex
	list    []*service // in an order that honours After
	changed chan struct{}
	closed  bool
}

type service struct {
	def    guest.Service
	cancel context.CancelFunc
	ended  chan struct{} // closed when its goroutine has returned

	// guarded by services.mu
	status guest.ServiceStatus
	done   bool // ended well with restart "no": good enough for those after it
}

func newServices(s *Supervisor) *services { return &services{s: s, changed: make(chan struct{})} }

// declare makes the list the one that runs: what is new or different starts,
// what is no longer named stops, what is the same goes on.
func (v *services) declare(defs []guest.Service) ([]guest.ServiceStatus, error) {
	ordered, err := orderServices(defs)
	if err != nil {
		return nil, err
	}
	v.op.Lock()
	defer v.op.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	v.mu.Lock()
	if v.closed {
		v.mu.Unlock()
		return nil, core.E("guest.services", core.Unavailable, nil, "the sandbox is stopping")
	}
	old := slices.Clone(v.list)
	v.mu.Unlock()
	kept := map[string]*service{}
	for _, sv := range slices.Backward(old) {
		same := slices.ContainsFunc(ordered, func(d guest.Service) bool { return reflect.DeepEqual(d, sv.def) })
		if same && !sv.isOver() {
			kept[sv.def.Name] = sv
			continue
		}
		v.stopOne(ctx, sv)
	}
	var list []*service
	for _, d := range ordered {
		if sv := kept[d.Name]; sv != nil {
			list = append(list, sv)
			continue
		}
		list = append(list, &service{def: d, status: guest.ServiceStatus{Name: d.Name, State: stateWaiting, Since: time.Now().UTC()}})
	}
	v.mu.Lock()
	v.list = list
	v.mu.Unlock()
	for _, sv := range list {
		if kept[sv.def.Name] == nil {
			v.launch(sv)
		}
	}
	return v.statuses(), nil
}

func (sv *service) isOver() bool {
	select {
	case <-sv.ended:
		return true
	default:
		return false
	}
}

func (v *services) launch(sv *service) {
	ctx, cancel := context.WithCancel(context.Background())
	sv.cancel, sv.ended = cancel, make(chan struct{})
	v.s.wg.Go(func() {
		defer close(sv.ended)
		defer cancel()
		v.run(ctx, sv)
	})
}

// orderServices checks the list and sorts it so that After comes first.
func orderServices(defs []guest.Service) ([]guest.Service, error) {
	const op = "guest.services"
	if len(defs) > maxServices {
		return nil, core.E(op, core.Invalid, nil, "%d services, the limit is %d", len(defs), maxServices)
	}
	byName := map[string]guest.Service{}
	for _, d := range defs {
		switch {
		case d.Name == "" || len(d.Name) > 64 || d.Run == "":
			return nil, core.E(op, core.Invalid, nil, "service %q needs a name and a command", clip(d.Name, 80))
		case byName[d.Name].Name != "":
			return nil, core.E(op, core.Invalid, nil, "service %q is named twice", d.Name)
		case !slices.Contains([]string{"", restartAlways, restartFailure, restartNever}, d.Restart):
			return nil, core.E(op, core.Invalid, nil, "service %q: restart %q", d.Name, clip(d.Restart, 40)).
				WithHint("use always, on-failure or no")
		}
		byName[d.Name] = d
	}
	var out []guest.Service
	state := map[string]int{} // 1 under way, 2 done
	var visit func(name, from string) error
	visit = func(name, from string) error {
		d, ok := byName[name]
		switch {
		case !ok:
			return core.E(op, core.Invalid, nil, "service %q comes after %q, which does not exist", from, clip(name, 80))
		case state[name] == 1:
			return core.E(op, core.Invalid, nil, "service %q waits for itself", name)
		case state[name] == 2:
			return nil
		}
		state[name] = 1
		for _, a := range d.After {
			if err := visit(a, name); err != nil {
				return err
			}
		}
		state[name] = 2
		out = append(out, d)
		return nil
	}
	for _, d := range defs {
		if err := visit(d.Name, ""); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// set changes a status and wakes everybody who waits for one.
func (v *services) set(sv *service, f func(st *guest.ServiceStatus)) {
	v.mu.Lock()
	defer v.mu.Unlock()
	before := sv.status
	f(&sv.status)
	if sv.status.State != before.State {
		sv.status.Since = time.Now().UTC()
	}
	if sv.status != before {
		close(v.changed)
		v.changed = make(chan struct{})
	}
}

func (v *services) statuses() []guest.ServiceStatus {
	v.mu.Lock()
	defer v.mu.Unlock()
	out := []guest.ServiceStatus{}
	for _, sv := range v.list {
		out = append(out, sv.status)
	}
	return out
}

func (v *services) wake() <-chan struct{} {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.changed
}

// waitAfter returns when everything the service comes after is ready.
func (v *services) waitAfter(ctx context.Context, sv *service) bool {
	for {
		changed := v.wake()
		missing := v.missing(sv)
		if len(missing) == 0 {
			return ctx.Err() == nil
		}
		v.set(sv, func(st *guest.ServiceStatus) { st.Detail = "waits for " + strings.Join(missing, ", ") })
		select {
		case <-changed:
		case <-ctx.Done():
			return false
		}
	}
}

func (v *services) missing(sv *service) (out []string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, name := range sv.def.After {
		for _, other := range v.list {
			if other.def.Name == name && other.status.State != stateReady && !other.done {
				out = append(out, name)
			}
		}
	}
	return out
}

// run is the life of one service, until ctx ends or its policy says so.
func (v *services) run(ctx context.Context, sv *service) {
	if !v.waitAfter(ctx, sv) {
		v.set(sv, func(st *guest.ServiceStatus) { st.State = stateStopped })
		return
	}
	deadline := time.Now().Add(readyLimit(sv.def))
	backoff, crashes := firstBackoff, 0
	for {
		began := time.Now()
		wasReady, failed, detail := v.once(ctx, sv, deadline)
		if ctx.Err() != nil {
			v.set(sv, func(st *guest.ServiceStatus) { st.State, st.Detail = stateStopped, "" })
			return
		}
		if wasReady {
			crashes = 0
			deadline = time.Now().Add(readyLimit(sv.def))
		} else {
			crashes++
		}
		if time.Since(began) > steadyAfter {
			backoff = firstBackoff
		}
		switch {
		case sv.def.Restart == restartNever, sv.def.Restart == restartFailure && !failed:
			v.mu.Lock()
			sv.done = !failed
			v.mu.Unlock()
			state := stateStopped
			if failed {
				state = stateFailed
			}
			v.set(sv, func(st *guest.ServiceStatus) { st.State, st.Detail = state, detail })
			return
		case crashes >= crashLimit:
			v.set(sv, func(st *guest.ServiceStatus) {
				st.State, st.Detail = stateFailed, fmt.Sprintf("%s; ended %d times before it was ready", detail, crashes)
			})
			return
		}
		v.set(sv, func(st *guest.ServiceStatus) { st.State, st.Detail, st.Restarts = stateStarting, detail, st.Restarts+1 })
		if !sleep(ctx, backoff) {
			v.set(sv, func(st *guest.ServiceStatus) { st.State, st.Detail = stateStopped, "" })
			return
		}
		backoff = min(2*backoff, lastBackoff)
	}
}

func readyLimit(def guest.Service) time.Duration {
	if def.Timeout <= 0 {
		return defaultReady
	}
	return def.Timeout
}

func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// once runs the service's process from start to end. When ctx ends the process
// is stopped.
func (v *services) once(ctx context.Context, sv *service, deadline time.Time) (ready, failed bool, detail string) {
	p, err := v.s.start(guest.Command{
		Argv: []string{"sh", "-c", sv.def.Run}, Env: sv.def.Env, Dir: sv.def.Dir, User: sv.def.User, Merge: true,
	})
	if err != nil {
		return false, true, clip(err.Error(), 500)
	}
	v.set(sv, func(st *guest.ServiceStatus) { st.State, st.Process = stateStarting, p.info.ID })
	probing, stopProbing := context.WithCancel(ctx)
	var probes sync.WaitGroup
	probes.Go(func() { ready = v.probe(probing, sv, p, deadline) })
	select {
	case <-p.done:
	case <-ctx.Done():
		p.stop(serviceGrace, v.s.quit)
		<-p.done
	}
	stopProbing()
	probes.Wait()
	info := p.snapshot()
	return ready, info.ExitCode != 0, "exit code " + strconv.Itoa(info.ExitCode)
}

// probe asks until the service is ready, its process has ended, or ctx has.
// Past the deadline it is called failed, and asked on: it may still come.
func (v *services) probe(ctx context.Context, sv *service, p *process, deadline time.Time) bool {
	began, limit := time.Now(), firstAsk
	for {
		asked := time.Now()
		err := v.ask(ctx, sv.def, p, limit)
		took := time.Since(asked)
		if ctx.Err() != nil || !p.running() {
			return false
		}
		if err == nil {
			v.set(sv, func(st *guest.ServiceStatus) { st.State, st.Detail = stateReady, "" })
			return true
		}
		v.set(sv, func(st *guest.ServiceStatus) {
			st.Detail = clip("not ready: "+err.Error(), 500)
			if time.Now().After(deadline) {
				st.State = stateFailed
			}
		})
		// What takes long is asked more rarely: at most a tenth of the whole wait
		// is lost between two questions. A question that is a program of its own
		// takes from the service what it needs to start: half of the time is left.
		if !sleep(ctx, min(max(time.Since(began)/10, took, firstPause), lastPause)) {
			return false
		}
		limit = min(2*limit, lastAsk)
	}
}

// One readiness test may take this long: short at first, because a service
// that is just starting may take a connection and forget it, and longer with
// each try, because some are slow.
const (
	firstAsk = 500 * time.Millisecond
	lastAsk  = 5 * time.Second
)

// ask tries the readiness test once, for at most limit.
func (v *services) ask(ctx context.Context, def guest.Service, p *process, limit time.Duration) error {
	ready := def.Ready
	if ready == "" && def.Port > 0 {
		ready = "tcp:" + strconv.Itoa(def.Port)
	}
	port, isTCP := strings.CutPrefix(ready, "tcp:")
	switch {
	case ready == "":
		alive := time.NewTimer(aliveAfter)
		defer alive.Stop()
		select {
		case <-alive.C:
			return nil
		case <-p.done:
			return core.E("guest.ready", core.Unavailable, nil, "it ended")
		case <-ctx.Done():
			return ctx.Err()
		}
	case isTCP:
		n, err := portOf(port)
		if err != nil {
			return err
		}
		conn, err := dialInside(ctx, n)
		if err == nil {
			_ = conn.Close()
		}
		return err
	case strings.HasPrefix(ready, "http://"), strings.HasPrefix(ready, "https://"):
		return askHTTP(ctx, ready, limit)
	}
	return v.askShell(ctx, def, ready, 2*limit)
}

func askHTTP(ctx context.Context, target string, limit time.Duration) error {
	if _, err := url.Parse(target); err != nil {
		return err
	}
	transport := &http.Transport{DisableKeepAlives: true} // no proxy: this is about loopback
	defer transport.CloseIdleConnections()
	client := &http.Client{
		Transport: transport, Timeout: limit,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, target, nil)
	if err != nil {
		return err
	}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	_ = resp.Body.Close()
	if resp.StatusCode >= 400 {
		return core.E("guest.ready", core.Unavailable, nil, "%s answers %s", target, resp.Status)
	}
	return nil
}

func (v *services) askShell(ctx context.Context, def guest.Service, script string, limit time.Duration) error {
	p, err := v.s.launch(guest.Command{
		Argv: []string{"sh", "-c", script}, Env: def.Env, Dir: def.Dir, User: def.User, Merge: true,
		Timeout: limit, Grace: time.Second,
	}, hidden)
	if err != nil {
		return err
	}
	defer p.discard()
	select {
	case <-p.done:
	case <-ctx.Done():
		p.stop(time.Second, v.s.quit)
		<-p.done
		return ctx.Err()
	}
	info := p.snapshot()
	if info.ExitCode == 0 {
		return nil
	}
	out, _ := collect(p.out, 300)
	return core.E("guest.ready", core.Unavailable, nil, "%s: exit code %d: %s", clip(script, 80), info.ExitCode,
		strings.TrimSpace(strings.ToValidUTF8(string(out), "?")))
}

// stopOne ends a service and waits for it; the process gets TERM, then KILL.
func (v *services) stopOne(ctx context.Context, sv *service) {
	if sv.cancel == nil {
		return
	}
	sv.cancel()
	select {
	case <-sv.ended:
	case <-ctx.Done():
	}
}

// stopAll ends all in reverse order.
func (v *services) stopAll(ctx context.Context) {
	v.op.Lock()
	defer v.op.Unlock()
	v.mu.Lock()
	list := slices.Clone(v.list)
	v.mu.Unlock()
	for _, sv := range slices.Backward(list) {
		v.stopOne(ctx, sv)
	}
}

func (v *services) close(ctx context.Context) {
	v.mu.Lock()
	v.closed = true
	v.mu.Unlock()
	v.stopAll(ctx)
}

// restart ends one service and starts it again, whatever state it is in.
func (v *services) restart(name string) error {
	v.op.Lock()
	defer v.op.Unlock()
	v.mu.Lock()
	i := slices.IndexFunc(v.list, func(sv *service) bool { return sv.def.Name == name })
	if i < 0 || v.closed {
		v.mu.Unlock()
		return core.E("guest.services", core.NotFound, nil, "service %q does not exist", clip(name, 80))
	}
	old := v.list[i]
	v.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	v.stopOne(ctx, old)
	v.relaunch(old)
	return nil
}

// relaunch puts a fresh service in the place of one that has ended. The lock op
// is held.
func (v *services) relaunch(old *service) {
	v.mu.Lock()
	fresh := &service{def: old.def, status: guest.ServiceStatus{
		Name: old.def.Name, State: stateWaiting, Restarts: old.status.Restarts + 1, Since: time.Now().UTC(),
	}}
	if i := slices.Index(v.list, old); i >= 0 {
		v.list[i] = fresh
	}
	v.mu.Unlock()
	v.launch(fresh)
}

// serviceStatus answers at once, or with ms when one has failed, all are ready
// or stopped, or the time is up.
func (s *Supervisor) serviceStatus(w http.ResponseWriter, r *http.Request) {
	ms, err := intOf(r, "ms", 0, 60_000)
	if err != nil {
		s.fail(w, err)
		return
	}
	timer := time.NewTimer(time.Duration(ms) * time.Millisecond)
	defer timer.Stop()
	for over := ms == 0; ; {
		changed := s.services.wake()
		list := s.services.statuses()
		if over || settled(list) {
			s.reply(w, list, nil)
			return
		}
		select {
		case <-changed:
		case <-timer.C:
			over = true
		case <-r.Context().Done():
			over = true
		case <-s.quit:
			over = true
		}
	}
}

// settled says whether there is news: one has failed, and those after it may
// wait for ever, or none is on its way any more.
func settled(list []guest.ServiceStatus) bool {
	if slices.ContainsFunc(list, func(st guest.ServiceStatus) bool { return st.State == stateFailed }) {
		return true
	}
	return !slices.ContainsFunc(list, func(st guest.ServiceStatus) bool {
		return st.State == stateWaiting || st.State == stateStarting
	})
}
