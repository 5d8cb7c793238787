package codechange

import (
	"context"
	"log/slog"

	"drydock/internal/control/blueprint"
	"drydock/internal/core"
	"drydock/internal/execution/environment/recipe"
	"drydock/internal/gitcmd/mirror"
	"drydock/internal/harness/agent"
	"drydock/internal/proof/check"
)

// Deps are the parts that the steps speak to.
type Deps struct {
	Sessions   Sessions
	Workspaces Workspaces
	Agent      agent.Agent
	Memory     agent.Transcript
	Prover     Prover
	Deliverer  Deliverer
	Events     Emitter
	Gate       Gate
	Log        *slog.Logger
}

// Sessions keeps what a run learns about its session. Every write carries the
// fence of the job.
type Sessions interface {
	Session(ctx context.Context, id core.SessionID) (core.Session, error)
	// Fix stores where a session's work stands; zero fields stay as they are.
	Fix(ctx context.Context, job blueprint.Job, place Place) error
	// Started says that the sandbox is ready and work begins.
	Started(ctx context.Context, job blueprint.Job) error
	// Earlier returns the prompts of the session that ended before this one.
	Earlier(ctx context.Context, job blueprint.Job) ([]agent.Turn, error)
	// Authors of every prompt whose work is on the session's branch, oldest
	// first, this job's included.
	Authors(ctx context.Context, job blueprint.Job) ([]core.Author, error)
}

// Place is where the work of a session stands.
type Place struct {
	Base       string
	BaseCommit string
	Branch     string
	Head       string
	Change     core.ChangeID
	Forget     bool // clear Head and Change first: a new branch starts
}

// Workspaces opens the sandbox of a session and knows its repository.
type Workspaces interface {
	// Mirror is the repository on the host.
	Mirror(ctx context.Context, env core.EnvironmentID) (*mirror.Mirror, error)
	// Sync brings the mirror up to date with its source.
	Sync(ctx context.Context, env core.EnvironmentID) error
	// Open finds the living sandbox of a session, or makes one from the newest
	// snapshot, and catches up with the session's place. It reports phases and
	// fall-backs as events of the session.
	Open(ctx context.Context, job blueprint.Job) (Workspace, error)
	// PutAway stores a session snapshot and removes the sandbox.
	PutAway(ctx context.Context, session core.SessionID) error
}

// Workspace is the open sandbox of a session.
type Workspace interface {
	// Recipe is that of the base commit.
	Recipe() recipe.Recipe
	// Harvest brings the working tree, whatever its state, into the mirror as
	// a commit on top of the session's place, and returns it.
	Harvest(ctx context.Context) (string, error)
	// Run executes a shell command in the working tree. The key makes it
	// happen once, also across restarts of the daemon.
	Run(ctx context.Context, cmd Command) (CommandResult, error)
	// RunCheck runs a check of the recipe and reads its report. Files narrows
	// it where the check can be narrowed; purge and staleness are handled.
	RunCheck(ctx context.Context, key string, c recipe.Check, files []string) (CheckRun, error)
}

// Command is one shell line in the working tree.
type Command struct {
	Key   string
	Shell string
	Env   []string
}

// CommandResult has the merged output, cut in the middle.
type CommandResult struct {
	ExitCode int
	TimedOut bool
	Output   string
}

// CheckRun is one run of a check in the agent's own sandbox: a hint, no proof.
type CheckRun struct {
	Command string
	Result  CommandResult
	Report  check.Report
}

// Prover runs the exam in clean rooms and stores the evidence.
type Prover interface {
	Prove(ctx context.Context, req ProofRequest) (Proof, error)
}

// ProofRequest says what to prove.
type ProofRequest struct {
	Job    blueprint.Job
	Node   string
	Base   string // commit
	Head   string // commit
	Key    string // of the attempt: the same proof after a restart
	Onward func(core.Event)
}

// Proof is the engine's judgement.
type Proof struct {
	Verdict    string // "proven", "unproven", "broken", "handed_over"
	Reasons    []string
	NotShown   []string
	Evidence   core.EvidenceID
	Markdown   string // for the change's body
	Improvable string // what the agent could add to make it provable, or ""
	Failures   string // what is broken, for the agent
	Data       core.VerdictData
}

// Deliverer brings a branch to the forge and opens or updates the change.
type Deliverer interface {
	// Publish pushes the branch; expected is the head it had before ("" if new).
	Publish(ctx context.Context, job blueprint.Job, branch, head, expected string) error
	// Remote is the head of the branch on the forge, "" if there is none, and
	// whether the session's change was merged or closed meanwhile.
	Remote(ctx context.Context, job blueprint.Job, branch string) (head string, change core.Change, err error)
	// Deliver opens or updates the change, exactly once for a key.
	Deliver(ctx context.Context, d Delivery) (core.Change, error)
}

// Delivery is one version of a change.
type Delivery struct {
	Key      string
	Job      blueprint.Job
	Title    string
	Body     string
	Base     string
	Branch   string
	Head     string
	Authors  []core.Author
	Evidence core.EvidenceID
	Verdict  string
}

// Emitter appends events to the session's log; durable before it returns.
type Emitter interface {
	Emit(ctx context.Context, job blueprint.Job, e core.Event) error
	Delta(session core.SessionID, text string)
}
