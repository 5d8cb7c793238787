package environment

import (
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"time"

	"drydock/internal/core"
	"drydock/internal/execution/guest"
	"drydock/internal/execution/sandbox"
	"drydock/internal/execution/snapshot"
	"drydock/internal/execution/snapshot/overlay"
)

// Workspace is where the repository lies in every sandbox.
const Workspace = "/workspace"

// Snapshots is what this package needs of the snapshot store.
type Snapshots interface {
	Begin(ctx context.Context, draft snapshot.Draft) (overlay.Pending, error)
	Commit(ctx context.Context, id core.SnapshotID, frozen sandbox.Frozen) (core.Snapshot, error)
	Abort(ctx context.Context, id core.SnapshotID) error
	Get(ctx context.Context, id core.SnapshotID) (snapshot.Manifest, error)
	Acquire(ctx context.Context, id core.SnapshotID) (layers []string, release func(), err error)
}

// Registry remembers which sandboxes exist, across restarts.
type Registry interface {
	SaveSandbox(ctx context.Context, h sandbox.Handle, state core.SandboxState, cause sandbox.Cause) error
	ForgetSandbox(ctx context.Context, id core.SandboxID) error
}

// Settings are what the host's package managers are set to, for a sandbox of
// some distribution: no secret among them.
type Settings func(ctx context.Context, os Distribution) (env []string, files []guest.SetupFile)

// Distribution is what an image's /etc/os-release says.
type Distribution struct{ ID, Codename string }

// LauncherDeps are the parts a Launcher speaks to.
type LauncherDeps struct {
	Driver    sandbox.Driver
	Snapshots Snapshots
	Registry  Registry
	Settings  Settings
	Log       *slog.Logger
}

// Launcher starts machines.
type Launcher struct{ d LauncherDeps }

// NewLauncher returns a Launcher.
func NewLauncher(d LauncherDeps) *Launcher { return &Launcher{d} }

// LaunchRequest says what to start. Snapshot or Layers is set.
type LaunchRequest struct {
	Snapshot core.SnapshotID
	Layers   []string // of a base image, topmost first, when there is no snapshot yet
	Purpose  string   // "session", "build", "proof"
	Owner    string
	OS       Distribution // of the base image, where there is no snapshot yet
	Env      []string     // of the recipe, and of the image where there is no snapshot yet
	Policy   *core.NetworkPolicy
	Limits   core.Limits
	Services []guest.Service
	// SkipServices leaves them to a later StartServices.
	SkipServices bool
	Report       func(core.Phase) // called as each part ends; may be nil
	Hostname     string
}

// Labels of the snapshots that this package makes.
const (
	LabelKey      = "key"      // what the build depended on
	LabelRecipe   = "recipe"   // digest
	LabelBase     = "base"     // digest of the base image
	LabelOS       = "os"       // distribution of the base image: "debian", "alpine", ...
	LabelCodename = "codename" // its suite: "bookworm"
	LabelEnv      = "env"      // environment of the image, one NAME=value a line
)

// ImageEnv is what the base image puts into the environment.
func ImageEnv(m snapshot.Manifest) []string {
	if m.Labels[LabelEnv] == "" {
		return nil
	}
	return strings.Split(m.Labels[LabelEnv], "\n")
}

// Machine is a running sandbox with what is needed to work in it.
type Machine struct {
	l        *Launcher
	handle   sandbox.Handle
	guest    *guest.Client
	services []guest.Service
	snapshot core.SnapshotID
	labels   map[string]string // of the snapshot, inherited by those made from this machine
}

// Launch starts a sandbox, gives it its identity and settings, and waits until
// its services are ready. On error nothing is left.
func (l *Launcher) Launch(ctx context.Context, req LaunchRequest) (*Machine, error) {
	layers := req.Layers
	var labels map[string]string
	if req.Snapshot != "" {
		manifest, err := l.d.Snapshots.Get(ctx, req.Snapshot)
		if err != nil {
			return nil, err
		}
		var release func()
		if layers, release, err = l.d.Snapshots.Acquire(ctx, req.Snapshot); err != nil {
			return nil, err
		}
		defer release() // by then the sandbox's row names the snapshot
		labels = manifest.Labels
		req.OS = Distribution{manifest.Labels[LabelOS], manifest.Labels[LabelCodename]}
		req.Env = append(ImageEnv(manifest), req.Env...)
	}
	report := req.Report
	if report == nil {
		report = func(core.Phase) {}
	}
	id := core.NewSandboxID()
	if req.Hostname == "" {
		req.Hostname = "drydock"
	}
	spec := sandbox.Spec{
		ID: id, Purpose: req.Purpose, Owner: req.Owner, Layers: layers, Hostname: req.Hostname,
		Limits: req.Limits, Network: req.Policy, Token: strings.ToLower(rand.Text() + rand.Text()),
	}
	start := time.Now()
	// The row comes first: what is started after it can always be found again.
	if err := l.d.Registry.SaveSandbox(ctx, sandbox.Handle{ID: id, Driver: l.d.Driver.Name(), Purpose: req.Purpose, Owner: req.Owner, Created: start.UTC()},
		core.SandboxCreating, sandbox.CauseNone); err != nil {
		return nil, err
	}
	m := &Machine{l: l, handle: sandbox.Handle{ID: id}, services: req.Services, snapshot: req.Snapshot, labels: labels}
	fail := func(err error) (*Machine, error) {
		clean, cancel := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
		defer cancel()
		if closeErr := m.Close(clean); closeErr != nil {
			l.d.Log.Warn("a sandbox that did not start could not be removed", "sandbox", id, "err", closeErr)
		}
		return nil, err
	}
	h, err := l.d.Driver.Create(ctx, spec)
	if err != nil {
		return fail(err)
	}
	h.Origin = string(req.Snapshot)
	m.handle, m.guest = h, l.client(h)
	if err := l.d.Registry.SaveSandbox(ctx, h, core.SandboxRunning, sandbox.CauseNone); err != nil {
		return fail(err)
	}
	report(core.Phase{Name: "sandbox", Duration: time.Since(start), Detail: fmt.Sprintf("%d layers", len(layers))})
	if err := m.introduce(ctx, req); err != nil {
		return fail(err)
	}
	if len(req.Services) > 0 && !req.SkipServices {
		start = time.Now()
		if err := m.StartServices(ctx); err != nil {
			return fail(err)
		}
		report(core.Phase{Name: "services", Duration: time.Since(start), Detail: serviceNames(req.Services)})
	}
	return m, nil
}

func serviceNames(list []guest.Service) string {
	names := make([]string, 0, len(list))
	for _, s := range list {
		names = append(names, s.Name)
	}
	return strings.Join(names, ", ")
}

func (l *Launcher) client(h sandbox.Handle) *guest.Client {
	dialer := net.Dialer{Timeout: 5 * time.Second}
	return guest.NewClient(func(ctx context.Context) (net.Conn, error) {
		return dialer.DialContext(ctx, "tcp", h.Guest.String())
	}, h.Token)
}

// Adopt finds a machine that an earlier process started. It is NotFound when
// nothing is left, and Unavailable when the sandbox is dead but its files are
// still there.
func (l *Launcher) Adopt(ctx context.Context, h sandbox.Handle, services []guest.Service) (*Machine, error) {
	status, err := l.d.Driver.Status(ctx, h.ID)
	if err != nil {
		return nil, err
	}
	m := &Machine{l: l, handle: h, guest: l.client(h), services: services, snapshot: core.SnapshotID(h.Origin)}
	if m.snapshot != "" {
		if manifest, err := l.d.Snapshots.Get(ctx, m.snapshot); err == nil {
			m.labels = manifest.Labels
		}
	}
	if status.State != core.SandboxRunning {
		return m, core.E("environment.adopt", core.Unavailable, nil, "sandbox %s is dead: %s", h.ID, CauseText(status))
	}
	return m, nil
}

// CauseText says in words why a sandbox died.
func CauseText(s sandbox.Status) string {
	text := map[sandbox.Cause]string{
		sandbox.CauseNone:     "nobody knows why",
		sandbox.CauseExited:   "its init ended",
		sandbox.CauseKilled:   "it was killed from outside",
		sandbox.CauseMemory:   "it ran out of memory",
		sandbox.CauseDisk:     "it wrote more than its disk limit",
		sandbox.CauseLifetime: "it reached the end of its lifetime",
		sandbox.CauseStopped:  "it was stopped",
	}[s.Cause]
	if s.Detail != "" {
		text += " (" + s.Detail + ")"
	}
	return text
}

// introduce gives the sandbox its name, clock, settings and certificates.
func (m *Machine) introduce(ctx context.Context, req LaunchRequest) error {
	setup := guest.Setup{Hostname: req.Hostname, Clock: time.Now().UTC()}
	if m.handle.Resolver.IsValid() {
		setup.Resolver = m.handle.Resolver.String()
	}
	if m.l.d.Settings != nil {
		setup.Env, setup.Files = m.l.d.Settings(ctx, req.OS)
	}
	setup.Env = append(setup.Env, m.handle.Env...)
	setup.Env = append(setup.Env, req.Env...)
	_, err := m.guest.Setup(ctx, setup)
	if err != nil {
		return core.E("environment.launch", core.Unavailable, err, "sandbox %s does not take its settings", m.handle.ID)
	}
	return nil
}

// ID names the sandbox.
func (m *Machine) ID() core.SandboxID { return m.handle.ID }

// Handle finds the sandbox again after a restart.
func (m *Machine) Handle() sandbox.Handle { return m.handle }

// Guest speaks to drydock-init.
func (m *Machine) Guest() *guest.Client { return m.guest }

// Snapshot is what the machine was started from.
func (m *Machine) Snapshot() core.SnapshotID { return m.snapshot }

// Status asks the driver, not the guest.
func (m *Machine) Status(ctx context.Context) (sandbox.Status, error) {
	return m.l.d.Driver.Status(ctx, m.handle.ID)
}

// StartServices starts the recipe's services in order and waits until each is
// ready. The error names the one that is not, with the end of its log.
func (m *Machine) StartServices(ctx context.Context) error {
	if len(m.services) == 0 {
		return nil
	}
	list, err := m.guest.StartServices(ctx, m.services)
	if err != nil {
		return m.died(ctx, err)
	}
	for _, s := range list {
		if s.State == "ready" {
			continue
		}
		f := core.Failure{Code: "service_failed", Message: fmt.Sprintf("service %s is %s: %s", s.Name, s.State, s.Detail)}
		for _, want := range m.services {
			if want.Name == s.Name {
				f.Command = want.Run
			}
		}
		f.Output = m.processTail(ctx, s.Process, 4000)
		return &FailureError{f}
	}
	return nil
}

// died turns an error of the guest into the driver's word when the sandbox is
// no longer there.
func (m *Machine) died(ctx context.Context, err error) error {
	status, statusErr := m.Status(context.WithoutCancel(ctx))
	if statusErr != nil || status.State == core.SandboxRunning || ctx.Err() != nil {
		return err
	}
	code := "sandbox_died"
	if status.Cause == sandbox.CauseMemory {
		code = "out_of_memory"
	} else if status.Cause == sandbox.CauseDisk {
		code = "out_of_disk"
	}
	return &FailureError{core.Failure{
		Code: code, Message: "the sandbox died: " + CauseText(status),
		Hint: "its files are kept; raise the limits in drydock.yaml (limits: {memory: ...}) if it needs more",
	}}
}

func (m *Machine) processTail(ctx context.Context, id guest.ProcessID, n int64) string {
	if id == "" {
		return ""
	}
	p, err := m.guest.Process(ctx, id)
	if err != nil {
		return ""
	}
	from := max(p.Stdout.First, p.Stdout.End-n)
	out, err := m.guest.Output(ctx, id, guest.Stdout, from, false)
	if err != nil {
		return ""
	}
	defer out.Close()
	data, err := io.ReadAll(io.LimitReader(out, n))
	if err != nil {
		return ""
	}
	return strings.ToValidUTF8(string(data), "?")
}

// Quiesce ends services in reverse order and then every other process, and
// writes everything to disk: afterwards the files can be frozen.
func (m *Machine) Quiesce(ctx context.Context) error {
	if err := m.guest.Quiesce(ctx); err != nil {
		return m.died(ctx, err)
	}
	return nil
}

// Freeze stops the sandbox and makes its files a snapshot. Afterwards only
// Close is allowed.
func (m *Machine) Freeze(ctx context.Context, draft snapshot.Draft) (core.Snapshot, error) {
	if draft.Parent != "" && draft.Labels == nil {
		draft.Labels = m.labels
	}
	// A sandbox is frozen once, so its snapshot can be named after it: cut off
	// at any point, the same call goes on where it was.
	draft.ID = core.SnapshotID("snp_" + strings.TrimPrefix(string(m.handle.ID), "sbx_"))
	p, err := m.l.d.Snapshots.Begin(ctx, draft)
	if err != nil {
		return core.Snapshot{}, err
	}
	frozen, err := m.l.d.Driver.Freeze(ctx, m.handle.ID, sandbox.FreezeOptions{Into: p.Into})
	if err != nil {
		return core.Snapshot{}, err
	}
	return m.l.d.Snapshots.Commit(ctx, p.ID, frozen)
}

// Close removes every trace of the sandbox. A second call does nothing.
func (m *Machine) Close(ctx context.Context) error {
	if m.guest != nil {
		m.guest.Close()
	}
	if err := m.l.d.Driver.Destroy(ctx, m.handle.ID); err != nil && !core.Is(err, core.NotFound) {
		return err
	}
	return m.l.d.Registry.ForgetSandbox(ctx, m.handle.ID)
}

// FailureError is an error that carries a Failure for people.
type FailureError struct{ core.Failure }

func (e *FailureError) Error() string {
	if e.Command != "" {
		return fmt.Sprintf("%s (%s)", e.Message, e.Command)
	}
	return e.Message
}
