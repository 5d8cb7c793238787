package environment

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"time"

	"drydock/internal/core"
	"drydock/internal/execution/environment/recipe"
	"drydock/internal/execution/guest"
	"drydock/internal/execution/sandbox"
	"drydock/internal/execution/snapshot"
	"drydock/internal/execution/snapshot/overlay"
	"drydock/internal/store"
)

// Purposes of sandboxes.
const (
	PurposeSession = "session"
	PurposeBuild   = "build"
	PurposeProof   = "proof"
	PurposeWarm    = "warm"
)

// SandboxRows are the database rows of sandboxes.
type SandboxRows interface {
	CreateSandbox(ctx context.Context, s store.Sandbox) error
	Sandbox(ctx context.Context, id core.SandboxID) (store.Sandbox, error)
	LiveSandboxes(ctx context.Context) ([]store.Sandbox, error)
	UpdateSandbox(ctx context.Context, id core.SandboxID, change func(*store.Sandbox) error) (store.Sandbox, error)
}

// Snapshots keeps them.
type Snapshots interface {
	Acquire(ctx context.Context, id core.SnapshotID) (layers []string, release func(), err error)
	AcquireMemory(ctx context.Context, id core.SnapshotID) (overlay.Restorable, func(), error)
	BeginMemory(ctx context.Context, id core.SnapshotID) (overlay.Pending, error)
	CommitMemory(ctx context.Context, id core.SnapshotID, frozen sandbox.Frozen, services []string) error
	DropMemory(ctx context.Context, id core.SnapshotID) error
	Get(ctx context.Context, id core.SnapshotID) (snapshot.Manifest, error)
	Begin(ctx context.Context, d snapshot.Draft) (overlay.Pending, error)
	Commit(ctx context.Context, id core.SnapshotID, frozen sandbox.Frozen) (core.Snapshot, error)
	Abort(ctx context.Context, id core.SnapshotID) error
	FromPath(into string) core.SnapshotID
	Own(ctx context.Context, id core.SnapshotID, session core.SessionID) (int64, error)
}

// Settings are what a sandbox needs to use the network it was given: the
// certificates to trust and the settings of package managers.
type Settings struct {
	Env   []string
	Files []guest.SetupFile
}

// LauncherDeps are what a Launcher uses of others.
type LauncherDeps struct {
	Driver    sandbox.Driver
	Snapshots Snapshots
	Rows      SandboxRows
	// Settings may be nil. The handle has the network's own variables already.
	Settings func(ctx context.Context, policy *core.NetworkPolicy, h sandbox.Handle) (Settings, error)
	// Crowded is called when a place of a purpose is waited for: it may free
	// one. It may be nil.
	Crowded func(ctx context.Context, purpose string)
	// Admit waits until the host has room, after a place is free; nil: it has.
	Admit func(ctx context.Context, req AdmitRequest) (release func(), err error)
	Log   *slog.Logger
}

// AdmitRequest asks for room for one sandbox.
type AdmitRequest struct {
	ID      core.SandboxID
	Purpose string
	Owner   string
	Limits  core.Limits
}

// LauncherOptions are the operator's.
type LauncherOptions struct {
	Defaults core.Limits       // for what a request leaves open
	Ceiling  core.Limits       // no request gets more; zero fields do not bound
	Places   map[string]int    // sandboxes of one purpose at once; a Launch waits for a place
	Runtime  snapshot.Runtime  // written into manifests
	Env      map[string]string // of every process in every sandbox
}

// Launcher starts sandboxes and finds them again.
type Launcher struct {
	deps   LauncherDeps
	opts   LauncherOptions
	places map[string]chan struct{}

	watchers sync.WaitGroup

	mu       sync.Mutex
	pool     *Pool // nil: there is none
	closed   bool
	unwatch  map[core.SandboxID]context.CancelFunc
	machines map[core.SandboxID]*Machine
}

// NewLauncher makes one; Recover should be called before Launch.
func NewLauncher(deps LauncherDeps, opts LauncherOptions) *Launcher {
	if deps.Log == nil {
		deps.Log = slog.New(slog.DiscardHandler)
	}
	l := &Launcher{deps: deps, opts: opts, places: map[string]chan struct{}{}, machines: map[core.SandboxID]*Machine{}, unwatch: map[core.SandboxID]context.CancelFunc{}}
	for purpose, n := range opts.Places {
		if n > 0 {
			l.places[purpose] = make(chan struct{}, n)
		}
	}
	return l
}

// Close stops watching; sandboxes go on.
func (l *Launcher) Close() error {
	l.mu.Lock()
	l.closed = true
	for _, cancel := range l.unwatch {
		cancel()
	}
	l.mu.Unlock()
	l.watchers.Wait()
	return nil
}

// LaunchRequest says what to start.
type LaunchRequest struct {
	ID       core.SandboxID   // "" takes a new one
	Snapshot core.SnapshotID  // or, for a build, ...
	Base     []snapshot.Layer // ... the layers of a base image, topmost first,
	Image    snapshot.Image   // with what it says of every process
	Purpose  string
	Owner    string
	Hostname string              // default: the purpose
	Policy   *core.NetworkPolicy // nil: no network
	Limits   core.Limits
	Recipe   *recipe.Recipe // for its environment and services; may be nil
	Env      []string       // of every process, after the recipe's
	// StartServices starts the recipe's services and waits until they are ready.
	StartServices bool
	// FilesOnly leaves memory images and warm sandboxes alone.
	FilesOnly bool
	// Environment the snapshot is of, where demand for it is to be remembered,
	// and the draft that was made for this, if any.
	Environment core.EnvironmentID
	Draft       core.DraftID
	Report      func(core.Phase) // called after each part; may be nil
	// Warn hears of every fall-back, with its reason; may be nil.
	Warn func(core.WarningData)
}

// Names of phases that Launch reports.
const (
	PhasePlace    = "wait for a place"
	PhaseSandbox  = "start sandbox"
	PhaseRestore  = "restore memory"
	PhaseClaim    = "take a warm sandbox"
	PhaseSetup    = "set up sandbox"
	PhaseServices = "services ready"
)

// Launch starts a sandbox and returns when it can be used. On error nothing is
// left behind.
func (l *Launcher) Launch(ctx context.Context, req LaunchRequest) (*Machine, error) {
	const op = "environment.launch"
	if req.ID == "" {
		req.ID = core.NewSandboxID()
	}
	if req.Report == nil {
		req.Report = func(core.Phase) {}
	}
	if req.Warn == nil {
		req.Warn = func(core.WarningData) {}
	}
	if (req.Snapshot == "") == (len(req.Base) == 0) {
		return nil, core.E(op, core.Internal, nil, "a sandbox starts from a snapshot or from a base image")
	}
	start := time.Now()
	leave, err := l.enter(ctx, AdmitRequest{ID: req.ID, Purpose: req.Purpose, Owner: req.Owner, Limits: l.limits(req.Limits)})
	if err != nil {
		return nil, err
	}
	if wait := time.Since(start); wait > time.Millisecond {
		req.Report(core.Phase{Name: PhasePlace, Duration: wait})
	}
	m := &Machine{launcher: l, id: req.ID, leave: leave}
	if req.Recipe != nil {
		m.recipe = *req.Recipe
	}
	req.Hostname = hostname(req)
	m.policy, m.limits, m.hostname = req.Policy, l.limits(req.Limits), req.Hostname
	if err := l.start(ctx, m, req); err != nil {
		l.undo(ctx, m)
		return nil, err
	}
	return m, nil
}

// enter takes a place for a purpose and then room of the host, or waits.
func (l *Launcher) enter(ctx context.Context, req AdmitRequest) (func(), error) {
	leave, err := l.place(ctx, req.Purpose)
	if err != nil || l.deps.Admit == nil {
		return leave, err
	}
	release, err := l.deps.Admit(ctx, req)
	if err != nil {
		leave()
		return nil, err
	}
	return func() { release(); leave() }, nil
}

// place takes a place for a purpose, or waits for one.
func (l *Launcher) place(ctx context.Context, purpose string) (leave func(), err error) {
	places := l.places[purpose]
	if places == nil {
		return func() {}, nil
	}
	select {
	case places <- struct{}{}:
		return sync.OnceFunc(func() { <-places }), nil
	default:
	}
	if l.deps.Crowded != nil {
		l.deps.Crowded(ctx, purpose)
	}
	select {
	case places <- struct{}{}:
		return sync.OnceFunc(func() { <-places }), nil
	case <-ctx.Done():
		return nil, core.E("environment.launch", core.KindOf(ctx.Err()), ctx.Err(), "all %d places for sandboxes of purpose %q are taken", cap(places), purpose)
	}
}

func (l *Launcher) start(ctx context.Context, m *Machine, req LaunchRequest) error {
	begin := time.Now()
	claimed, err := l.claim(ctx, m, req)
	if err != nil {
		return err
	}
	if claimed {
		req.Report(core.Phase{Name: PhaseClaim, Duration: time.Since(begin)})
		return l.services(ctx, m, req)
	}
	restored, err := l.restore(ctx, m, req)
	if err != nil {
		return err
	}
	if !restored {
		if err := l.fromFiles(ctx, m, req); err != nil {
			return err
		}
		req.Report(core.Phase{Name: PhaseSandbox, Duration: time.Since(begin)})
	} else {
		req.Report(core.Phase{Name: PhaseRestore, Duration: time.Since(begin), Detail: strings.Join(serviceNames(m.recipe), ", ")})
	}

	begin = time.Now()
	if err := l.settle(ctx, m, req); err != nil {
		return m.Explain(ctx, err)
	}
	req.Report(core.Phase{Name: PhaseSetup, Duration: time.Since(begin)})
	return l.services(ctx, m, req)
}

// services starts what the request wants to have running.
func (l *Launcher) services(ctx context.Context, m *Machine, req LaunchRequest) error {
	if !req.StartServices || len(m.recipe.Services) == 0 {
		return nil
	}
	begin := time.Now()
	if _, err := m.StartServices(ctx); err != nil {
		return err
	}
	req.Report(core.Phase{Name: PhaseServices, Duration: time.Since(begin), Detail: strings.Join(serviceNames(m.recipe), ", ")})
	return nil
}

// fromFiles starts a sandbox in which nothing runs yet.
func (l *Launcher) fromFiles(ctx context.Context, m *Machine, req LaunchRequest) error {
	layers, release, err := l.layers(ctx, m, req)
	if err != nil {
		return err
	}
	defer release()
	m.live, m.from = false, FromFiles
	spec := l.spec(req, layers, nil)
	if spec.Written, err = l.written(ctx, req); err != nil {
		return err
	}
	return l.create(ctx, m, spec)
}

// written is what a session has written in its earlier sandboxes: being
// suspended does not make its disk limit larger.
func (l *Launcher) written(ctx context.Context, req LaunchRequest) (int64, error) {
	if req.Purpose != PurposeSession || req.Snapshot == "" {
		return 0, nil
	}
	return l.deps.Snapshots.Own(ctx, req.Snapshot, core.SessionID(req.Owner))
}

func (l *Launcher) spec(req LaunchRequest, layers []string, image *sandbox.Image) sandbox.Spec {
	return sandbox.Spec{
		ID: req.ID, Purpose: req.Purpose, Owner: req.Owner, Layers: layers, Hostname: req.Hostname, Token: rand.Text(),
		Limits: l.limits(req.Limits), Network: req.Policy, Image: image, Machine: machineID(req.ID, req.Purpose, req.Owner),
	}
}

// create records a sandbox and makes it.
func (l *Launcher) create(ctx context.Context, m *Machine, spec sandbox.Spec) error {
	// The row comes first, with what is needed to find the rest again.
	now := time.Now().UTC()
	m.handle = sandbox.Handle{
		Driver: l.deps.Driver.Name(), ID: spec.ID, Purpose: spec.Purpose, Owner: spec.Owner, Layers: spec.Layers, Token: spec.Token,
		Created: now,
	}
	doc, err := m.document()
	if err != nil {
		return err
	}
	if m.recorded {
		_, err = l.deps.Rows.UpdateSandbox(ctx, spec.ID, func(s *store.Sandbox) error {
			s.Handle = doc
			return nil
		})
	} else {
		err = l.deps.Rows.CreateSandbox(ctx, store.Sandbox{
			ID: spec.ID, Purpose: spec.Purpose, Owner: spec.Owner, State: core.SandboxCreating, Handle: doc,
			Created: now, Updated: now,
		})
	}
	if err != nil {
		return err
	}
	m.recorded = true
	h, err := l.deps.Driver.Create(ctx, spec)
	if err != nil {
		return err
	}
	m.created = true
	return l.running(ctx, m, h)
}

func serviceNames(r recipe.Recipe) []string {
	var out []string
	for _, s := range r.StartOrder() {
		out = append(out, s.Name)
	}
	return out
}

// layers are what lies below the sandbox.
func (l *Launcher) layers(ctx context.Context, m *Machine, req LaunchRequest) ([]string, func(), error) {
	if req.Snapshot == "" {
		m.base, m.image = req.Base, req.Image
		var out []string
		for _, layer := range req.Base {
			out = append(out, layer.Path)
		}
		return out, func() {}, nil
	}
	layers, release, err := l.deps.Snapshots.Acquire(ctx, req.Snapshot)
	if err != nil {
		return nil, nil, err
	}
	manifest, err := l.deps.Snapshots.Get(ctx, req.Snapshot)
	if err != nil {
		release()
		return nil, nil, err
	}
	m.parent, m.image = req.Snapshot, manifest.Image
	return layers, release, nil
}

// running records that the driver has made the sandbox, and watches it.
func (l *Launcher) running(ctx context.Context, m *Machine, h sandbox.Handle) error {
	m.handle = h
	m.connect()
	doc, err := m.document()
	if err != nil {
		return err
	}
	if _, err := l.deps.Rows.UpdateSandbox(ctx, h.ID, func(s *store.Sandbox) error {
		s.State, s.Handle = core.SandboxRunning, doc
		return nil
	}); err != nil {
		return err
	}
	l.remember(ctx, m)
	return nil
}

// remember keeps the machine, and writes the death of its sandbox into its row.
func (l *Launcher) remember(ctx context.Context, m *Machine) {
	watch, cancel := context.WithCancel(context.WithoutCancel(ctx))
	l.mu.Lock()
	defer l.mu.Unlock()
	l.machines[m.id] = m
	if l.closed {
		cancel()
		return
	}
	l.unwatch[m.id] = cancel
	l.watchers.Go(func() {
		defer cancel()
		s, err := l.deps.Driver.Wait(watch, m.id)
		l.mu.Lock()
		delete(l.unwatch, m.id)
		l.mu.Unlock()
		if err == nil {
			m.conns.die()
		}
		if err != nil || s.Cause == sandbox.CauseStopped {
			return // closing, or whoever stopped it writes the row
		}
		l.record(watch, m.id, core.SandboxDead, s.Cause)
	})
}

const recordTimeout = 30 * time.Second

// record changes a row where the table of states allows it.
func (l *Launcher) record(ctx context.Context, id core.SandboxID, state core.SandboxState, cause sandbox.Cause) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), recordTimeout)
	defer cancel()
	_, err := l.deps.Rows.UpdateSandbox(ctx, id, func(s *store.Sandbox) error {
		if s.State == state || !core.SandboxTable.Allows(s.State, state) {
			return errSame
		}
		s.State = state
		if cause != sandbox.CauseNone {
			s.Cause = string(cause)
		}
		return nil
	})
	if err != nil && !errors.Is(err, errSame) && !core.Is(err, core.NotFound) {
		l.deps.Log.Error("cannot record the state of a sandbox", "sandbox", id, "state", state, "error", err)
	}
}

var errSame = errors.New("no change")

// undo removes what a failed Launch left.
func (l *Launcher) undo(ctx context.Context, m *Machine) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), destroyTimeout)
	defer cancel()
	if err := m.destroy(ctx); err != nil {
		l.deps.Log.Error("a sandbox that did not start is not fully removed", "sandbox", m.id, "error", err)
	}
}

const destroyTimeout = 2 * time.Minute

// limits fills in defaults and cuts at the ceiling.
func (l *Launcher) limits(want core.Limits) core.Limits {
	d, c := l.opts.Defaults, l.opts.Ceiling
	return core.Limits{
		CPU: limit(want.CPU, d.CPU, c.CPU), Memory: limit(want.Memory, d.Memory, c.Memory), Pids: limit(want.Pids, d.Pids, c.Pids),
		Disk: limit(want.Disk, d.Disk, c.Disk), Lifetime: limit(want.Lifetime, d.Lifetime, c.Lifetime),
	}
}

func limit[T int | int64 | float64 | time.Duration](want, otherwise, ceiling T) T {
	if want <= 0 {
		want = otherwise
	}
	if ceiling > 0 && (want <= 0 || want > ceiling) {
		want = ceiling
	}
	return want
}

// hostname of a session is its own; proofs and builds have one each, so that
// what they print does not differ for it.
func hostname(req LaunchRequest) string {
	switch {
	case req.Hostname != "":
		return req.Hostname
	case req.Purpose == PurposeWarm && len(req.ID) > ownerTail: // it keeps the name when somebody takes it
		return PurposeSession + "-" + string(req.ID[len(req.ID)-ownerTail:])
	case req.Purpose == PurposeSession && len(req.Owner) > ownerTail:
		return req.Purpose + "-" + req.Owner[len(req.Owner)-ownerTail:]
	}
	return req.Purpose
}

const ownerTail = 8

// stored is what the row of a sandbox keeps: the driver's handle, and what is
// needed to work with the sandbox after a restart.
type stored struct {
	sandbox.Handle
	Parent core.SnapshotID     `json:"parent,omitempty"`
	Live   bool                `json:"live,omitempty"`
	From   string              `json:"from,omitempty"`
	Name   string              `json:"hostname,omitempty"`
	Limits core.Limits         `json:"limits"`
	Base   []snapshot.Layer    `json:"base,omitempty"`
	Image  snapshot.Image      `json:"image"`
	Policy *core.NetworkPolicy `json:"policy,omitempty"`
	Recipe recipe.Recipe       `json:"recipe"`
}

func parseStored(raw json.RawMessage) (stored, error) {
	var doc stored
	if len(raw) == 0 {
		return doc, nil
	}
	err := json.Unmarshal(raw, &doc)
	return doc, err
}

// document is the row's form of a machine.
func (m *Machine) document() (json.RawMessage, error) {
	return json.Marshal(stored{Handle: m.handle, Parent: m.parent, Live: m.live, From: m.from, Name: m.hostname, Limits: m.limits, Base: m.base, Image: m.image, Policy: m.policy, Recipe: m.recipe})
}
