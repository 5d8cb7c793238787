package core

import "slices"

// States are words; what may follow what is data, so that tests walk every
// edge and the store refuses every other.
type (
	SessionState  string
	PromptState   string
	RunState      string
	AttemptState  string
	BuildState    string
	SandboxState  string
	SnapshotState string
	ChangeState   string
	ApprovalState string
)

// A session is what people see. Queued: a prompt waits for a runner.
// Starting: its sandbox is being made. Running: a run is under way. Waiting:
// a run waits for a person (approval, budget). Idle: nothing to do, a
// follow-up is welcome. Stopping: somebody asked for a stop. Failed: the last
// run broke; a follow-up is still welcome. Archived: read-only.
const (
	SessionQueued   SessionState = "queued"
	SessionStarting SessionState = "starting"
	SessionRunning  SessionState = "running"
	SessionWaiting  SessionState = "waiting"
	SessionStopping SessionState = "stopping"
	SessionIdle     SessionState = "idle"
	SessionFailed   SessionState = "failed"
	SessionArchived SessionState = "archived"
)

// A prompt is queued, then running, then ends in one of the others.
const (
	PromptQueued     PromptState = "queued"
	PromptRunning    PromptState = "running"
	PromptDone       PromptState = "done"
	PromptHandedOver PromptState = "handed_over"
	PromptFailed     PromptState = "failed"
	PromptStopped    PromptState = "stopped"
	PromptRemoved    PromptState = "removed" // withdrawn before it ran
)

// A run ends done (a change was delivered, or an answer given), handed over,
// failed (a fault of the platform) or stopped.
const (
	RunRunning    RunState = "running"
	RunWaiting    RunState = "waiting"
	RunDone       RunState = "done"
	RunHandedOver RunState = "handed_over"
	RunFailed     RunState = "failed"
	RunStopped    RunState = "stopped"
)

// An attempt is one try at one node of a run. Interrupted: the daemon died
// while it ran; the node is tried again or resumed.
const (
	AttemptRunning     AttemptState = "running"
	AttemptDone        AttemptState = "done"
	AttemptFailed      AttemptState = "failed"
	AttemptInterrupted AttemptState = "interrupted"
	AttemptStopped     AttemptState = "stopped"
)

const (
	BuildQueued  BuildState = "queued"
	BuildRunning BuildState = "running"
	BuildDone    BuildState = "done"
	BuildFailed  BuildState = "failed"
	BuildStopped BuildState = "stopped"
)

// A sandbox is creating, then running, then dead (something killed it, its
// files are still there) or frozen (its files became a snapshot), then gone.
const (
	SandboxCreating SandboxState = "creating"
	SandboxRunning  SandboxState = "running"
	SandboxDead     SandboxState = "dead"
	SandboxFrozen   SandboxState = "frozen"
	SandboxGone     SandboxState = "gone"
)

const (
	SnapshotWriting SnapshotState = "writing"
	SnapshotReady   SnapshotState = "ready"
	SnapshotRemoved SnapshotState = "removed"
)

const (
	ChangeOpen   ChangeState = "open"
	ChangeMerged ChangeState = "merged"
	ChangeClosed ChangeState = "closed"
)

const (
	ApprovalPending  ApprovalState = "pending"
	ApprovalApproved ApprovalState = "approved"
	ApprovalDenied   ApprovalState = "denied"
	ApprovalExpired  ApprovalState = "expired"
)

// Table says which states may follow a state. A state without an entry, or
// with an empty one, is final.
type Table[S ~string] map[S][]S

// Allows reports whether to may follow from. Staying is always allowed.
func (t Table[S]) Allows(from, to S) bool { return from == to || slices.Contains(t[from], to) }

// Final reports whether nothing follows s.
func (t Table[S]) Final(s S) bool { return len(t[s]) == 0 }

// States lists every state the table knows, in no order.
func (t Table[S]) States() []S {
	var out []S
	add := func(s S) {
		if !slices.Contains(out, s) {
			out = append(out, s)
		}
	}
	for from, tos := range t {
		add(from)
		for _, to := range tos {
			add(to)
		}
	}
	return out
}

// SessionTable and its siblings are the only source of what may follow what.
var (
	SessionTable = Table[SessionState]{
		SessionQueued:   {SessionStarting, SessionRunning, SessionStopping, SessionIdle, SessionFailed, SessionArchived},
		SessionStarting: {SessionQueued, SessionRunning, SessionStopping, SessionIdle, SessionFailed},
		SessionRunning:  {SessionQueued, SessionStarting, SessionWaiting, SessionStopping, SessionIdle, SessionFailed},
		SessionWaiting:  {SessionQueued, SessionStarting, SessionRunning, SessionStopping, SessionIdle, SessionFailed},
		SessionStopping: {SessionQueued, SessionIdle, SessionFailed},
		SessionIdle:     {SessionQueued, SessionArchived},
		SessionFailed:   {SessionQueued, SessionArchived},
	}
	PromptTable = Table[PromptState]{
		PromptQueued:  {PromptRunning, PromptRemoved, PromptStopped},
		PromptRunning: {PromptQueued, PromptDone, PromptHandedOver, PromptFailed, PromptStopped},
	}
	RunTable = Table[RunState]{
		RunRunning: {RunWaiting, RunDone, RunHandedOver, RunFailed, RunStopped},
		RunWaiting: {RunRunning, RunDone, RunHandedOver, RunFailed, RunStopped},
	}
	AttemptTable = Table[AttemptState]{
		AttemptRunning: {AttemptDone, AttemptFailed, AttemptInterrupted, AttemptStopped},
	}
	BuildTable = Table[BuildState]{
		BuildQueued:  {BuildRunning, BuildStopped, BuildFailed},
		BuildRunning: {BuildDone, BuildFailed, BuildStopped},
	}
	SandboxTable = Table[SandboxState]{
		SandboxCreating: {SandboxRunning, SandboxDead, SandboxGone},
		SandboxRunning:  {SandboxDead, SandboxFrozen, SandboxGone},
		SandboxDead:     {SandboxFrozen, SandboxGone},
		SandboxFrozen:   {SandboxGone},
	}
	SnapshotTable = Table[SnapshotState]{
		SnapshotWriting: {SnapshotReady, SnapshotRemoved},
		SnapshotReady:   {SnapshotRemoved},
	}
	ChangeTable = Table[ChangeState]{
		ChangeOpen:   {ChangeMerged, ChangeClosed},
		ChangeClosed: {ChangeOpen},
	}
	ApprovalTable = Table[ApprovalState]{
		ApprovalPending: {ApprovalApproved, ApprovalDenied, ApprovalExpired},
	}
)
