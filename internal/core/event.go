package core

import (
	"encoding/json"
	"time"
)

// Event is one entry of an append-only log. Subject is the session or build it
// belongs to; Seq counts from 1 without gaps within a subject.
type Event struct {
	Subject string          `json:"subject"`
	Seq     int64           `json:"seq"`
	Time    time.Time       `json:"time"`
	Kind    EventKind       `json:"kind"`
	Run     RunID           `json:"run,omitempty"`
	Node    string          `json:"node,omitempty"`
	Attempt AttemptID       `json:"attempt,omitempty"`
	Actor   string          `json:"actor,omitempty"` // handle, or "agent", "platform"
	Data    json.RawMessage `json:"data"`
}

// EventKind is a stable word. The shape of Data for each is the struct of the
// same name below; docs/formats/events.md lists them.
type EventKind string

const (
	EventSessionCreated EventKind = "session.created"
	EventSessionState   EventKind = "session.state"
	EventPromptQueued   EventKind = "prompt.queued"
	EventPromptState    EventKind = "prompt.state"
	EventRunStarted     EventKind = "run.started"
	EventRunFinished    EventKind = "run.finished"
	EventNodeStarted    EventKind = "node.started"
	EventNodeFinished   EventKind = "node.finished"
	EventSandbox        EventKind = "sandbox.state"
	EventPhase          EventKind = "phase" // a timed part of a start or a build
	EventService        EventKind = "service.state"
	EventAgentText      EventKind = "agent.text" // what the agent says
	EventAgentThought   EventKind = "agent.thought"
	EventToolStarted    EventKind = "tool.started"
	EventToolFinished   EventKind = "tool.finished"
	EventModelCall      EventKind = "model.call" // usage, cost, outcome of one request
	EventPicture        EventKind = "picture"
	EventNetworkDenied  EventKind = "network.denied"
	EventCommit         EventKind = "commit"
	EventCheck          EventKind = "check" // one check ran, in loop or proof
	EventVerdict        EventKind = "verdict"
	EventChange         EventKind = "change" // opened, updated, merged, closed, pushed by a person
	EventComment        EventKind = "comment"
	EventApproval       EventKind = "approval"
	EventBudget         EventKind = "budget"
	EventSelection      EventKind = "selection" // one of several sessions was picked
	EventWarning        EventKind = "warning"   // a fall-back was taken, and why
	EventLog            EventKind = "log"       // output of a build
	EventBuildState     EventKind = "build.state"

	// EventDelta is never stored: text as it is generated, at most 100 ms of
	// which may be lost. It has no sequence number.
	EventDelta EventKind = "delta"
)

// Payloads of events. All fields may grow; readers ignore what they do not know.
type (
	StateData struct {
		From   string `json:"from,omitempty"`
		To     string `json:"to"`
		Reason string `json:"reason,omitempty"`
	}
	PromptData struct {
		Prompt PromptID    `json:"prompt"`
		Author Author      `json:"author"`
		Text   string      `json:"text,omitempty"`
		State  PromptState `json:"state"`
		Reason string      `json:"reason,omitempty"`
	}
	RunData struct {
		Prompt    PromptID `json:"prompt"`
		Blueprint string   `json:"blueprint"`
		State     RunState `json:"state"`
		Outcome   string   `json:"outcome,omitempty"`
		Verdict   string   `json:"verdict,omitempty"`
		Failure   *Failure `json:"failure,omitempty"`
		Change    ChangeID `json:"change,omitempty"`
	}
	NodeData struct {
		Node     string        `json:"node"`
		Kind     string        `json:"kind"` // "step" or "agent"
		Title    string        `json:"title"`
		Number   int           `json:"number"`
		Result   string        `json:"result,omitempty"`
		Detail   string        `json:"detail,omitempty"`
		Duration time.Duration `json:"duration_ns,omitempty"`
	}
	SandboxData struct {
		Sandbox  SandboxID     `json:"sandbox"`
		State    SandboxState  `json:"state"`
		Snapshot SnapshotID    `json:"snapshot,omitempty"`
		From     string        `json:"from,omitempty"` // "files", "memory", "running"
		Cause    string        `json:"cause,omitempty"`
		Duration time.Duration `json:"duration_ns,omitempty"`
	}
	TextData struct {
		Text string `json:"text"`
	}
	ToolData struct {
		Call     string          `json:"call"`
		Tool     string          `json:"tool"`
		Title    string          `json:"title"`           // one line for people
		Input    json.RawMessage `json:"input,omitempty"` // on tool.started
		Output   string          `json:"output,omitempty"`
		Cut      bool            `json:"cut,omitempty"`
		Failed   bool            `json:"failed,omitempty"`
		ExitCode *int            `json:"exit_code,omitempty"`
		Duration time.Duration   `json:"duration_ns,omitempty"`
	}
	ModelData struct {
		Provider string        `json:"provider"`
		Model    string        `json:"model"`
		Scripted bool          `json:"scripted,omitempty"`
		Outcome  string        `json:"outcome"`
		Usage    Usage         `json:"usage"`
		Cost     Cost          `json:"cost"`
		Retries  int           `json:"retries,omitempty"`
		Duration time.Duration `json:"duration_ns"`
	}
	PictureData struct {
		Name     string     `json:"name"`
		URL      string     `json:"url"`
		Evidence EvidenceID `json:"evidence,omitempty"`
		Digest   string     `json:"digest"` // sha256:... of the PNG in the blob store
		Width    int        `json:"width"`
		Height   int        `json:"height"`
	}
	DeniedData struct {
		Host   string `json:"host"`
		Port   int    `json:"port"`
		Via    string `json:"via"` // dns, proxy, tls, http
		Reason string `json:"reason"`
		Hint   string `json:"hint,omitempty"`
		Count  int    `json:"count,omitempty"`
	}
	CommitData struct {
		Commit  string `json:"commit"`
		Branch  string `json:"branch"`
		Subject string `json:"subject"`
		Author  Author `json:"author"`
		Files   int    `json:"files"`
		Added   int    `json:"added"`
		Removed int    `json:"removed"`
	}
	CheckData struct {
		Check    string        `json:"check"`
		Cell     string        `json:"cell,omitempty"` // "A".."D" in proof, "" in the loop
		Result   string        `json:"result"`
		Passed   int           `json:"passed"`
		Failed   int           `json:"failed"`
		Skipped  int           `json:"skipped"`
		Detail   string        `json:"detail,omitempty"`
		Duration time.Duration `json:"duration_ns"`
	}
	VerdictData struct {
		Verdict  string     `json:"verdict"`
		Reasons  []string   `json:"reasons"`
		NotShown []string   `json:"not_shown"`
		Evidence EvidenceID `json:"evidence,omitempty"`
		Fixed    int        `json:"fixed"`
		Kept     int        `json:"kept"`
		Broken   int        `json:"broken"`
	}
	ChangeData struct {
		Change ChangeID `json:"change"`
		Number int64    `json:"number"`
		Action string   `json:"action"` // opened, updated, pushed, approved, merged, closed
		Title  string   `json:"title,omitempty"`
		Head   string   `json:"head,omitempty"`
		By     string   `json:"by,omitempty"`
	}
	CommentData struct {
		Change  ChangeID  `json:"change"`
		Comment CommentID `json:"comment"`
		Author  Author    `json:"author"`
		Body    string    `json:"body"`
		Path    string    `json:"path,omitempty"`
		Line    int       `json:"line,omitempty"`
		Prompt  PromptID  `json:"prompt,omitempty"`
	}
	SelectionData struct {
		Selection SelectionID `json:"selection"`
		Action    string      `json:"action"` // picked, passed_over
		Picked    SessionID   `json:"picked"`
		By        string      `json:"by"`
		Reason    string      `json:"reason,omitempty"`
	}
	ApprovalData struct {
		Approval ApprovalID    `json:"approval"`
		State    ApprovalState `json:"state"` // pending: it was asked
		Question string        `json:"question"`
		By       string        `json:"decided_by,omitempty"`
	}
	BudgetData struct {
		What  string `json:"what"` // money, wall_clock
		Spent string `json:"spent"`
		Limit string `json:"limit"`
	}
	WarningData struct {
		Code    string `json:"code"`
		Message string `json:"message"`
		Hint    string `json:"hint,omitempty"`
	}
	LogData struct {
		Phase string `json:"phase"`
		Text  string `json:"text"`
	}
	ServiceData struct {
		Service string `json:"service"`
		State   string `json:"state"`
		Detail  string `json:"detail,omitempty"`
	}
	BuildData struct {
		State    BuildState `json:"state"`
		Snapshot SnapshotID `json:"snapshot,omitempty"`
		Failure  *Failure   `json:"failure,omitempty"`
	}
)

// NewEvent packs data. It panics only if data cannot be JSON, a programming
// error.
func NewEvent(kind EventKind, data any) Event {
	raw, err := json.Marshal(data)
	if err != nil {
		panic("core: event data is not JSON: " + err.Error())
	}
	return Event{Kind: kind, Data: raw}
}
