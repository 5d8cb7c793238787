package environment

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"drydock/internal/core"
	"drydock/internal/execution/environment/recipe"
	"drydock/internal/execution/guest"
	"drydock/internal/execution/sandbox"
	"drydock/internal/execution/snapshot"
)

// Machine is a sandbox to work with.
type Machine struct {
	launcher *Launcher
	id       core.SandboxID
	handle   sandbox.Handle
	guest    *guest.Client
	conns    *conns
	recipe   recipe.Recipe
	policy   *core.NetworkPolicy
	parent   core.SnapshotID
	live     bool   // above the running state of parent's memory image
	from     string // FromFiles, FromMemory
	limits   core.Limits
	hostname string
	base     []snapshot.Layer
	image    snapshot.Image
	leave    func() // gives the place back

	recorded, created bool      // how far Launch came
	asked             time.Time // when a pool last looked after it
	resting, restless bool      // nothing in it runs; it cannot be brought to that

	mu     sync.Mutex
	closed bool
}

// ID names the sandbox.
func (m *Machine) ID() core.SandboxID { return m.id }

// Handle is the driver's.
func (m *Machine) Handle() sandbox.Handle { return m.handle }

// Guest speaks with drydock-init inside.
func (m *Machine) Guest() *guest.Client { return m.guest }

// Recipe is what the sandbox was launched with.
func (m *Machine) Recipe() recipe.Recipe { return m.recipe }

// Parent is the snapshot it was started from, or "".
func (m *Machine) Parent() core.SnapshotID { return m.parent }

// From says how it was started: FromMemory, FromFiles.
func (m *Machine) From() string { return m.from }

// User is whose name commands of people and agents run under; "" is root.
func (m *Machine) User() string {
	if m.recipe.User != "" {
		return m.recipe.User
	}
	return m.image.User
}

// Workspace is the directory of the repository inside.
func (m *Machine) Workspace() string {
	if m.recipe.Workspace != "" {
		return m.recipe.Workspace
	}
	return recipe.DefaultWorkspace
}

// Status asks the driver.
func (m *Machine) Status(ctx context.Context) (sandbox.Status, error) {
	return m.launcher.deps.Driver.Status(ctx, m.id)
}

// Wait returns when the sandbox no longer runs.
func (m *Machine) Wait(ctx context.Context) (sandbox.Status, error) {
	return m.launcher.deps.Driver.Wait(ctx, m.id)
}

// Dial opens a connection to a port inside.
func (m *Machine) Dial(ctx context.Context, port int) (net.Conn, error) {
	return m.conns.dial(ctx, func(ctx context.Context) (net.Conn, error) { return m.launcher.deps.Driver.Dial(ctx, m.id, port) })
}

// connect makes the client of the machine's handle.
func (m *Machine) connect() {
	m.conns = newConns()
	address, dialer := m.handle.Guest.String(), net.Dialer{}
	m.guest = guest.NewClient(func(ctx context.Context) (net.Conn, error) {
		return m.conns.dial(ctx, func(ctx context.Context) (net.Conn, error) { return dialer.DialContext(ctx, "tcp", address) })
	}, m.handle.Token)
}

// setUp tells drydock-init who it is and what its processes get.
func (m *Machine) setUp(ctx context.Context, extra []string) error {
	const op = "environment.setup"
	l := m.launcher
	var settings Settings
	if l.deps.Settings != nil {
		var err error
		if settings, err = l.deps.Settings(ctx, m.policy, m.handle); err != nil {
			return core.E(op, core.KindOf(err), err, "settings of sandbox %s", m.id)
		}
	}
	setup := guest.Setup{
		Hostname: m.hostname,
		Machine:  machineID(m.id, m.handle.Purpose, m.handle.Owner),
		Clock:    time.Now(),
		Files:    settings.Files,
		// Later ones win: the image's, the operator's, the recipe's, and last what
		// the network needs, which a repository cannot turn off.
		Env: slices.Concat(m.image.Env, sortedEnv(l.opts.Env), m.recipe.Environ(), extra, m.handle.Env, settings.Env),
	}
	if m.handle.Resolver.IsValid() {
		setup.Resolver = m.handle.Resolver.String()
	}
	res, err := m.guest.Setup(ctx, setup)
	if err != nil {
		return err
	}
	for _, w := range res.Warnings {
		l.deps.Log.Debug("set up of a sandbox", "sandbox", m.id, "warning", w)
	}
	return nil
}

func sortedEnv(env map[string]string) []string {
	var out []string
	for k, v := range env {
		out = append(out, k+"="+v)
	}
	slices.Sort(out)
	return out
}

// StartServices starts the recipe's services and returns when they are ready;
// an error names those that are not, with the end of what they printed.
func (m *Machine) StartServices(ctx context.Context) ([]guest.ServiceStatus, error) {
	states, err := m.guest.StartServices(ctx, m.recipe.GuestServices())
	if err == nil || ctx.Err() != nil {
		return states, err
	}
	err = m.Explain(ctx, err)
	if _, dead := errors.AsType[*DeadError](err); dead {
		return states, err
	}
	for _, s := range states {
		if s.State != "failed" {
			continue
		}
		return states, &ServiceError{Service: s.Name, Detail: s.Detail, Output: m.serviceOutput(ctx, s), Err: err}
	}
	return states, err
}

// ServiceError says which service did not become ready.
type ServiceError struct {
	Service string
	Detail  string
	Output  string // the end of it
	Err     error
}

func (e *ServiceError) Error() string {
	return fmt.Sprintf("service %s is not ready: %s", e.Service, e.Detail)
}

func (e *ServiceError) Unwrap() error { return e.Err }

const outputTail = 4 << 10

// ServiceOutput is the end of what a service printed.
func (m *Machine) ServiceOutput(ctx context.Context, s guest.ServiceStatus) string {
	return m.serviceOutput(ctx, s)
}

// serviceOutput reads the end of what a service printed.
func (m *Machine) serviceOutput(ctx context.Context, s guest.ServiceStatus) string {
	if s.Process == "" {
		return ""
	}
	p, err := m.guest.Process(ctx, s.Process)
	if err != nil {
		return ""
	}
	var parts []string
	for name, stream := range map[string]guest.Stream{guest.Stdout: p.Stdout, guest.Stderr: p.Stderr} {
		if out := m.tail(ctx, s.Process, name, stream); out != "" {
			parts = append(parts, out)
		}
	}
	slices.Sort(parts)
	return strings.Join(parts, "\n")
}

func (m *Machine) tail(ctx context.Context, id guest.ProcessID, name string, s guest.Stream) string {
	r, err := m.guest.Output(ctx, id, name, max(s.First, s.End-outputTail), false)
	if err != nil {
		return ""
	}
	defer func() { _ = r.Close() }()
	buf := make([]byte, outputTail)
	n := 0
	for n < len(buf) {
		k, err := r.Read(buf[n:])
		n += k
		if err != nil {
			break
		}
	}
	return strings.TrimSpace(strings.ToValidUTF8(string(buf[:n]), "\uFFFD"))
}

// StopServices ends them in reverse order.
func (m *Machine) StopServices(ctx context.Context) error {
	return m.Explain(ctx, m.guest.StopServices(ctx))
}

// DeadError says that the sandbox is dead, and why.
type DeadError struct {
	Sandbox core.SandboxID
	Status  sandbox.Status
	Err     error // what was noticed first
}

func (e *DeadError) Error() string {
	return fmt.Sprintf("sandbox %s is dead (%s): %s", e.Sandbox, e.Status.Cause, e.Status.Detail)
}

func (e *DeadError) Unwrap() error { return e.Err }

// Reason is the code of a failure that comes of it, or "" where nobody can do
// anything about the cause.
func (e *DeadError) Reason() string {
	switch e.Status.Cause {
	case sandbox.CauseMemory, sandbox.CauseDisk, sandbox.CauseLifetime:
		return string(e.Status.Cause)
	}
	return ""
}

// deathNotice is how long the driver is given to notice the death of a sandbox:
// the guest falls silent, or says that it is stopping, before the driver knows.
const deathNotice = 2 * time.Second

// Explain is for everyone who asks the guest: an error that comes from the
// death of the sandbox becomes one that says so (see DeadError). Other errors
// are returned as they are.
func (m *Machine) Explain(ctx context.Context, err error) error {
	if err == nil || !m.created || ctx.Err() != nil {
		return err
	}
	if k := core.KindOf(err); k != core.Unavailable && k != core.Internal {
		return err
	}
	if _, ok := errors.AsType[*DeadError](err); ok {
		return err // explained already
	}
	wait, cancel := context.WithTimeout(ctx, deathNotice)
	defer cancel()
	s, waitErr := m.Wait(wait)
	if waitErr != nil || s.State == core.SandboxRunning {
		return err
	}
	dead := &DeadError{Sandbox: m.id, Status: s, Err: err}
	kind := core.Unavailable
	if dead.Reason() != "" { // the next one would go the same way
		kind = core.Exhausted
	}
	return core.E("environment.machine", kind, dead, "").WithHint("%s", deathHint(s.Cause))
}

// Dying is for a command that was ended by a signal: perhaps its whole sandbox
// is on its way down. It is nil when that is not so.
func (m *Machine) Dying(ctx context.Context, p guest.Process) error {
	if p.TimedOut || p.Signal != "KILL" && p.Signal != "TERM" {
		return nil
	}
	err := m.Explain(ctx, core.E("environment.command", core.Unavailable, nil, "a command was ended by signal %s", p.Signal))
	if _, dead := errors.AsType[*DeadError](err); dead {
		return err
	}
	return nil
}

func deathHint(c sandbox.Cause) string {
	switch c {
	case sandbox.CauseMemory:
		return "raise limits.memory in drydock.yaml"
	case sandbox.CauseDisk:
		return "raise limits.disk in drydock.yaml"
	case sandbox.CauseLifetime:
		return "raise limits.lifetime in drydock.yaml"
	}
	return "start it again; its files are kept"
}

const quiesceTimeout = 60 * time.Second

// quiesce lets everything inside end in order. A guest that does not manage is
// stopped all the same: files are as if the power had gone.
func (m *Machine) quiesce(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, quiesceTimeout)
	defer cancel()
	if err := m.guest.Quiesce(ctx); err != nil {
		m.launcher.deps.Log.Warn("a sandbox was frozen without ending its processes in order", "sandbox", m.id, "error", err)
	}
}

// Close destroys the sandbox. A second call does nothing.
func (m *Machine) Close(ctx context.Context) error {
	m.mu.Lock()
	closed := m.closed
	m.mu.Unlock()
	if closed {
		return nil
	}
	return m.destroy(ctx)
}

// destroy is not given up with ctx: nobody would come back for the rest.
func (m *Machine) destroy(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), destroyTimeout)
	defer cancel()
	l := m.launcher
	if m.guest != nil {
		m.guest.Close()
	}
	if m.conns != nil {
		m.conns.die()
	}
	if m.recorded {
		if err := l.deps.Driver.Destroy(ctx, m.id); err != nil {
			return err
		}
		l.record(ctx, m.id, core.SandboxGone, sandbox.CauseStopped)
	}
	m.mu.Lock()
	m.closed = true
	m.mu.Unlock()
	m.leave()
	l.mu.Lock()
	delete(l.machines, m.id)
	l.mu.Unlock()
	return nil
}
