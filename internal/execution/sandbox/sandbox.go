// Package sandbox is the contract of a place to run: what a driver must be
// able to do with one isolated machine.
//
// It starts nothing itself; drivers (runsc, fake) do. It knows nothing of
// sessions, prompts or models. What happens inside a running sandbox goes
// through drydock-init (package guest), reached at Handle's endpoint.
//
// A Driver is used by many goroutines at once. Calls on different IDs may run
// at the same time; mutating calls on one ID are serialised by the driver.
// Cancelling ctx gives up waiting; it never leaves a half-made sandbox that
// Destroy cannot remove.
package sandbox

import (
	"context"
	"net"
	"net/netip"
	"time"

	"drydock/internal/core"
)

// GuestPort is where drydock-init listens inside. Programs of repositories do
// not use it, and no system hands it out by itself.
const GuestPort = 10017

// Spec says what to start.
type Spec struct {
	ID       core.SandboxID
	Purpose  string   // "session", "build", "proof", "warm": a fixed word for lists and metrics
	Owner    string   // identifier of the session or build it belongs to
	Layers   []string // read-only directories, topmost first; at least one
	Hostname string
	Env      []string // of drydock-init and so of everything below it
	Limits   core.Limits
	Network  *core.NetworkPolicy // nil: no network at all
	Token    string              // what the guest demands of every caller
	Image    *Image              // memory image to restore; nil starts from files
	Written  int64               // bytes in Layers that count towards Limits.Disk
	// Machine is its machine-id, 32 hexadecimal digits, if it is known. Only the
	// guest's set-up makes sure of it; files that say so already need no other.
	Machine string
}

// Image is a memory image: what the memory of a sandbox was at one moment, and
// all that must be as it was then for it to be restored.
type Image struct {
	Dir   string `json:"dir"`   // where its files are
	Token string `json:"token"` // what drydock-init in it demands, until it is given another
	Fit   Fit    `json:"fit"`
}

// Fit is what a memory image is bound to. It may be restored only where each
// field is the same; of CPU, where all are present.
type Fit struct {
	Runtime string   `json:"runtime"`                // digest of the runtime's program
	Init    string   `json:"init"`                   // digest of drydock-init's program
	Shape   string   `json:"shape"`                  // digest of what of the specification may not change
	Network string   `json:"network"`                // mode
	CPU     []string `json:"cpu_features,omitempty"` // of the processor, sorted
}

// Handle finds a sandbox again after a restart of the daemon. It is plain data
// and is stored before Create returns.
type Handle struct {
	Driver  string
	ID      core.SandboxID
	Purpose string
	Owner   string
	Layers  []string       // what it started from, topmost first
	Guest   netip.AddrPort // where drydock-init answers
	Token   string
	Created time.Time

	// From the Network, for whoever sets up the inside.
	Env      []string   // proxy variables and the like, of every process
	Resolver netip.Addr // for /etc/resolv.conf; invalid means none

	// Origin is the caller's own: the snapshot that Layers belong to.
	Origin string
}

// Cause says why a sandbox is dead.
type Cause string

const (
	CauseNone     Cause = ""
	CauseExited   Cause = "exited"        // drydock-init ended by itself
	CauseKilled   Cause = "killed"        // from outside, nobody knows by whom
	CauseMemory   Cause = "out_of_memory" // over its memory limit
	CauseDisk     Cause = "out_of_disk"   // over its disk limit
	CauseLifetime Cause = "lifetime"      // older than its limit
	CauseStopped  Cause = "stopped"       // Destroy or Freeze
)

// Status is what a driver knows without asking the guest.
type Status struct {
	State  core.SandboxState
	Cause  Cause
	Detail string
	Frozen string // where a freeze that was begun or is done puts the files
	// Resumed is where the last freeze from which it went on has put them: the
	// sandbox stands on what is there, whoever knows of it.
	Resumed string
	Memory  int64 // bytes in use, of the whole sandbox
	Disk    int64 // bytes written above the layers, as last measured
	Pids    int   // threads of the host, gVisor's own included
}

// Capabilities are fixed for the life of a driver.
type Capabilities struct {
	Memory bool // Freeze can take a memory image, Create can restore one
	Fork   bool // several Creates from one image at once
	Limits bool // enforces CPU, memory, pids
	Rest   bool // a sandbox can be kept without using the processor
}

// FreezeOptions say what a freeze takes. Files are always taken.
type FreezeOptions struct {
	Into   string // directory, on the driver's file system, that must not exist yet
	Memory bool   // the memory of all processes too, at the very same moment
	// Resume, with Memory, lets the sandbox go on afterwards where it was
	// stopped, under the same ID, address and token, above what was frozen.
	Resume bool
}

// Frozen is what a freeze left: Upper holds the files written above the
// layers (overlayfs form), Image the memory image that belongs to them. Image
// is nil where none was asked for, and where none could be had: Lost then says
// why, and the files are complete all the same.
type Frozen struct {
	Upper  string
	Image  *Image
	Lost   string
	Paused time.Duration // with Resume: how long it did not answer
}

// Assignment says who a sandbox works for from now on.
type Assignment struct {
	Purpose string
	Owner   string
	Network *core.NetworkPolicy
}

// Driver creates, finds again, freezes and destroys sandboxes.
type Driver interface {
	Name() string
	Capabilities() Capabilities

	// Create starts a sandbox and returns once drydock-init answers. A second
	// Create with one ID is a Conflict. On error nothing is left behind. A
	// limit of zero is no limit. From a memory image everything goes on where
	// it was; the network is shut until Open.
	Create(ctx context.Context, spec Spec) (Handle, error)

	// Fits says why a memory image cannot be restored under a spec (Conflict,
	// NotFound), before anything is started.
	Fits(ctx context.Context, spec Spec) error

	// Assign gives a sandbox to somebody else, with another policy; its
	// lifetime begins anew. The network stays, or becomes, shut until Open.
	Assign(ctx context.Context, id core.SandboxID, to Assignment) (Handle, error)

	// Open puts the policy of a sandbox in force. For one that was made from
	// files that is so from the start.
	Open(ctx context.Context, id core.SandboxID) error

	// Rest keeps a sandbox as it is: its memory stays, but nothing in it runs and
	// nothing answers until Wake. Assign, Freeze and Recover wake it too. Without
	// that capability it is Unavailable, and the sandbox runs on, as it does
	// after any other error.
	Rest(ctx context.Context, id core.SandboxID) error

	// Wake lets it run again. One that runs is left alone.
	Wake(ctx context.Context, id core.SandboxID) error

	// Recover adopts a sandbox that an earlier process made, and starts
	// watching it. It is NotFound if nothing of it is left. A dead sandbox is
	// adopted too: its files can still be frozen. A sandbox that is known
	// already is only looked at.
	Recover(ctx context.Context, h Handle) (Status, error)

	// Status is cheap; a sandbox that is not known is NotFound.
	Status(ctx context.Context, id core.SandboxID) (Status, error)

	// Wait returns when the sandbox is no longer running, or ctx ends.
	Wait(ctx context.Context, id core.SandboxID) (Status, error)

	// Dial opens a TCP connection to a port inside, from outside.
	Dial(ctx context.Context, id core.SandboxID, port int) (net.Conn, error)

	// Freeze stops the sandbox (or finds it dead) and moves its files, and on
	// request its memory, to opts.Into. It does so at once: services that want
	// to end in order are stopped through the guest before. Afterwards only
	// Destroy is allowed, unless opts.Resume is set. Interrupted at any point,
	// calling it again with the same options finishes the job. It is NotFound
	// for a sandbox that was neither created nor recovered by this process.
	//
	// A freeze that cannot go on after the files have moved is an error of a
	// dead sandbox: a Freeze without Resume and Memory into the same place gives
	// its files, or, if its Status says that it has Resumed there, one into
	// another place what was written since. One for which there is no room is
	// Exhausted, and nothing has happened. Once a freeze with Memory has begun,
	// ctx does not end it: it returns when the sandbox is whole again.
	Freeze(ctx context.Context, id core.SandboxID, opts FreezeOptions) (Frozen, error)

	// Freezes names where sandboxes of which anything is left have put, or were
	// to put, their files, Resumed or not: known to this process or not.
	Freezes(ctx context.Context) ([]string, error)

	// Destroy removes every trace: processes, mounts, network, cgroup, files
	// that were not frozen. It is safe after a failed Create and a second call
	// does nothing.
	Destroy(ctx context.Context, id core.SandboxID) error

	// List names every sandbox of which anything is left on this host under
	// this driver's state directory, known to the caller or not.
	List(ctx context.Context) ([]core.SandboxID, error)

	// Close stops watching; sandboxes go on.
	Close() error
}

// Network gives a sandbox its place on the network. The runsc driver consumes
// it; package containment fulfils it.
type Network interface {
	// Attach makes (or finds) the namespace of one sandbox under a policy; nil
	// means only drydock-init is reachable, from the host, and nothing else.
	Attach(ctx context.Context, id core.SandboxID, policy *core.NetworkPolicy) (core.Attachment, error)
	// Hold is Attach, but nothing is let out until Attach is called.
	Hold(ctx context.Context, id core.SandboxID, policy *core.NetworkPolicy) (core.Attachment, error)
	// Renew puts a namespace back into the state in which a sandbox can be
	// started in it, after one that was has ended: gVisor takes address and
	// route away. What it lets out stays as it is.
	Renew(ctx context.Context, id core.SandboxID) error
	// Detach removes it; a second call does nothing.
	Detach(ctx context.Context, id core.SandboxID) error
	// List names every sandbox with anything left.
	List(ctx context.Context) ([]core.SandboxID, error)
}
