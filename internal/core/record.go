package core

import (
	"encoding/json"
	"net/netip"
	"time"
)

// Author is a person (or a trigger acting for one). Handle is unique.
type Author struct {
	Handle string `json:"handle"`
	Name   string `json:"name"`
	Email  string `json:"email"`
}

// Environment is how one repository becomes a working machine.
type Environment struct {
	ID            EnvironmentID `json:"id"`
	Name          string        `json:"name"`   // unique; letters, digits, dash
	Source        string        `json:"source"` // URL or absolute path the mirror is fetched from
	DefaultBranch string        `json:"default_branch"`
	Snapshot      SnapshotID    `json:"snapshot,omitempty"` // newest good one
	Created       time.Time     `json:"created"`
	Updated       time.Time     `json:"updated"`
	// Freshness is worked out by the server whenever it shows an environment.
	Freshness *Freshness `json:"freshness,omitempty"`
}

// Build is one execution of an environment's recipe at one commit.
type Build struct {
	ID          BuildID       `json:"id"`
	Environment EnvironmentID `json:"environment"`
	Commit      string        `json:"commit"`
	State       BuildState    `json:"state"`
	Snapshot    SnapshotID    `json:"snapshot,omitempty"`
	Failure     *Failure      `json:"failure,omitempty"`
	Phases      []Phase       `json:"phases"`
	By          string        `json:"by,omitempty"`     // handle of who asked; "platform" by itself
	Why         string        `json:"reason,omitempty"` // of the platform: interval, push, retry, interrupted, old
	Created     time.Time     `json:"created"`
	Finished    time.Time     `json:"finished,omitzero"`
}

// Phase is a named, timed part of a build or a start.
type Phase struct {
	Name     string        `json:"name"`
	Duration time.Duration `json:"duration_ns"`
	Cached   bool          `json:"cached,omitempty"`
	Detail   string        `json:"detail,omitempty"`
}

// Failure tells a person what broke.
type Failure struct {
	Code    string `json:"code"` // stable word, e.g. "setup_failed", "out_of_memory"
	Message string `json:"message"`
	Command string `json:"command,omitempty"`
	Output  string `json:"output,omitempty"` // tail
	Hint    string `json:"hint,omitempty"`
}

// Snapshot is the row of a snapshot; its manifest lies beside its files.
type Snapshot struct {
	ID          SnapshotID    `json:"id"`
	Parent      SnapshotID    `json:"parent,omitempty"`
	Environment EnvironmentID `json:"environment,omitempty"`
	Session     SessionID     `json:"session,omitempty"` // set on session snapshots
	Build       BuildID       `json:"build,omitempty"`
	Commit      string        `json:"commit,omitempty"`
	State       SnapshotState `json:"state"`
	Bytes       int64         `json:"bytes"` // of its own layer
	Memory      bool          `json:"memory"`
	Created     time.Time     `json:"created"`
}

// Session is what people see and own.
type Session struct {
	ID          SessionID     `json:"id"`
	Environment EnvironmentID `json:"environment"`
	Title       string        `json:"title"`
	State       SessionState  `json:"state"`
	Reason      string        `json:"reason,omitempty"` // why it is in this state, for people
	Owner       Author        `json:"owner"`
	Blueprint   string        `json:"blueprint"`
	Agent       string        `json:"agent"`
	Model       string        `json:"model"`
	Base        string        `json:"base"`                  // branch the work is for
	BaseCommit  string        `json:"base_commit,omitempty"` // fixed when the first run starts
	Branch      string        `json:"branch,omitempty"`      // the session's own branch
	Head        string        `json:"head,omitempty"`        // newest commit of Branch in the mirror
	Budget      Budget        `json:"budget"`
	Usage       Usage         `json:"usage"`
	Cost        Cost          `json:"cost"`
	Active      time.Duration `json:"active_ns"`      // time in running runs
	Held        bool          `json:"held,omitempty"` // a stop holds the queue until a person goes on
	Wait        string        `json:"wait,omitempty"` // what a waiting session waits for: "budget", "approval"
	Sandbox     SandboxID     `json:"sandbox,omitempty"`
	Snapshot    SnapshotID    `json:"snapshot,omitempty"` // files to go on from; before the first run, the environment's that it must start from
	Change      ChangeID      `json:"change,omitempty"`
	Selection   SelectionID   `json:"selection,omitempty"` // that it is a candidate of
	Seed        int64         `json:"seed,omitempty"`      // for models that take one; its place in the selection
	Created     time.Time     `json:"created"`
	Updated     time.Time     `json:"updated"`
	// View is worked out by the server whenever it shows a session.
	View *View `json:"view,omitempty"`
}

// Prompt is one queued message with one author.
type Prompt struct {
	ID       PromptID    `json:"id"`
	Session  SessionID   `json:"session"`
	ClientID string      `json:"client_id,omitempty"` // the client's own id: a retry is not a second prompt
	Author   Author      `json:"author"`
	Text     string      `json:"text"`
	Source   string      `json:"source"` // "cli", "api", "comment:cmt_..."
	State    PromptState `json:"state"`
	Position int64       `json:"position"` // order in the queue
	Run      RunID       `json:"run,omitempty"`
	Created  time.Time   `json:"created"`
	Started  time.Time   `json:"started,omitzero"`
	Finished time.Time   `json:"finished,omitzero"`
}

// Run is one blueprint executed for one prompt.
type Run struct {
	ID        RunID           `json:"id"`
	Session   SessionID       `json:"session"`
	Prompt    PromptID        `json:"prompt"`
	Blueprint string          `json:"blueprint"`
	State     RunState        `json:"state"`
	Node      string          `json:"node"`    // position: the node to run next or now
	Data      json.RawMessage `json:"data"`    // what nodes hand to later nodes
	Outcome   string          `json:"outcome"` // for people, set at the end
	Verdict   string          `json:"verdict,omitempty"`
	Failure   *Failure        `json:"failure,omitempty"`
	Created   time.Time       `json:"created"`
	Finished  time.Time       `json:"finished,omitzero"`
}

// Attempt is one try at one node of a run.
type Attempt struct {
	ID       AttemptID       `json:"id"`
	Run      RunID           `json:"run"`
	Node     string          `json:"node"`
	Number   int             `json:"number"` // from 1, per node of a run
	State    AttemptState    `json:"state"`
	Result   string          `json:"result,omitempty"` // the edge taken: "ok", "failed", ...
	Detail   json.RawMessage `json:"detail,omitempty"`
	Started  time.Time       `json:"started"`
	Finished time.Time       `json:"finished,omitzero"`
}

// Change is a proposal to merge a session's branch, on a forge.
type Change struct {
	ID          ChangeID      `json:"id"`
	Number      int64         `json:"number"` // per repository
	Repository  string        `json:"repository"`
	Session     SessionID     `json:"session,omitempty"`
	Title       string        `json:"title"`
	Body        string        `json:"body"` // Markdown
	State       ChangeState   `json:"state"`
	Base        string        `json:"base"`
	Branch      string        `json:"branch"`
	BaseCommit  string        `json:"base_commit"`
	Head        string        `json:"head"`
	Merge       string        `json:"merge,omitempty"` // commit that merged it
	Authors     []Author      `json:"authors"`         // of the prompts it came from
	Evidence    EvidenceID    `json:"evidence,omitempty"`
	Verdict     string        `json:"verdict,omitempty"`
	URL         string        `json:"url,omitempty"`
	Environment EnvironmentID `json:"environment,omitempty"`
	Created     time.Time     `json:"created"`
	Updated     time.Time     `json:"updated"`
	// Candidate is the selection that has not been decided yet and that this
	// change is one candidate of. The server works it out whenever it shows one.
	Candidate SelectionID `json:"candidate,omitempty"`
}

// Comment is a remark on a change; Path and Line are set on line comments.
type Comment struct {
	ID      CommentID `json:"id"`
	Change  ChangeID  `json:"change"`
	Author  Author    `json:"author"`
	Body    string    `json:"body"`
	Path    string    `json:"path,omitempty"`
	Line    int       `json:"line,omitempty"`
	Head    string    `json:"head,omitempty"`   // commit it was written on
	Prompt  PromptID  `json:"prompt,omitempty"` // the prompt it became
	Thread  ThreadID  `json:"thread,omitempty"` // that it answers in; a comment that begins a thread names none
	Created time.Time `json:"created"`
}

// ChangeApproval is bound to the commit that was looked at.
type ChangeApproval struct {
	Change  ChangeID  `json:"change"`
	By      Author    `json:"by"`
	Head    string    `json:"head"`
	Note    string    `json:"note,omitempty"`
	Created time.Time `json:"created"`
}

// NetworkPolicy says what a sandbox may reach. Nil and empty both mean
// nothing. An entry is a host name, "*.name", either with an optional ":port"
// (80 and 443 without one), or the word "registries".
type NetworkPolicy struct {
	Allow []string `json:"allow"`
}

// Attachment is a sandbox's place on the network, ready for it to be started in.
type Attachment struct {
	Namespace string     // path
	Address   netip.Addr // of the sandbox; the host reaches it here
	Resolver  netip.Addr // for /etc/resolv.conf
	Env       []string   // proxy variables and the like, of every process
}
