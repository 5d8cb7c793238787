package api

import (
	"encoding/json"
	"io/fs"
	"time"

	"drydock/internal/core"
)

// Error is the body of every answer that is not a success. Code is the name
// of a core.Kind. ID is set on faults of Drydock itself: the log has the rest.
type Error struct {
	Code    string `json:"code" doc:"class of the failure, a stable word" example:"not_found"`
	Message string `json:"message" doc:"what happened, naming the object"`
	Hint    string `json:"hint,omitempty" doc:"what to do about it"`
	ID      string `json:"id,omitempty" doc:"of the log entry, on faults of the daemon"`
}

// List is one page. Next is empty on the last one.
type List[T any] struct {
	Items []T    `json:"items" nullable:"false"`
	Next  string `json:"next,omitempty" doc:"cursor of the next page"`
}

// Who answers "who am I, and to what am I speaking".
type Who struct {
	User    core.Author `json:"user"`
	Version string      `json:"version"`
}

// CreateSession asks for a session with its first prompt.
type CreateSession struct {
	Environment string      `json:"environment" minLength:"1" maxLength:"200" doc:"name or identifier"`
	Prompt      string      `json:"prompt" minLength:"1" maxLength:"262144" doc:"the task, in words"`
	ClientID    string      `json:"client_id,omitempty" maxLength:"100" doc:"the client's own id: a retry with it is not a second session"`
	Title       string      `json:"title,omitempty" maxLength:"300"`
	Blueprint   string      `json:"blueprint,omitempty" maxLength:"100"`
	Agent       string      `json:"agent,omitempty" maxLength:"100"`
	Model       string      `json:"model,omitempty" maxLength:"200"`
	Base        string      `json:"base,omitempty" maxLength:"250" doc:"branch the work is for"`
	Budget      core.Budget `json:"budget,omitzero"`
	Draft       string      `json:"draft,omitempty" maxLength:"100" doc:"of POST /drafts: the sandbox that was claimed for this"`
}

// CreateDraft says that somebody has begun to type.
type CreateDraft struct {
	Environment string `json:"environment" minLength:"1" maxLength:"200" doc:"name or identifier"`
}

// Draft keeps a warm sandbox for a prompt that is being written. Without one it
// goes back by itself when it expires.
type Draft struct {
	ID          core.DraftID       `json:"id"`
	Environment core.EnvironmentID `json:"environment"`
	Warm        bool               `json:"warm" doc:"a sandbox waits for it; without one the session starts as always"`
	Expires     time.Time          `json:"expires"`
}

// CreatedSession is its answer: both are stored, nothing has started.
type CreatedSession struct {
	Session core.Session `json:"session"`
	Prompt  core.Prompt  `json:"prompt"`
}

// ForkSession asks for sessions that go on from where one is now.
type ForkSession struct {
	Count  int    `json:"count,omitempty" minimum:"1" maximum:"50" doc:"how many; default 1"`
	Prompt string `json:"prompt,omitempty" maxLength:"262144" doc:"queued in each of them"`
}

// Forked says what became of it.
type Forked struct {
	Parent   core.SessionID  `json:"parent"`
	Snapshot core.SnapshotID `json:"snapshot" doc:"the instant, that all of them start from"`
	Paused   time.Duration   `json:"paused_ns" doc:"how long the parent stood still; 0 when it was suspended"`
	Children []ForkedSession `json:"children" nullable:"false"`
}

// ForkedSession is one of them. Error says why its sandbox did not start; the
// session is there all the same, and starts with its next prompt.
type ForkedSession struct {
	Session core.Session  `json:"session"`
	Ready   time.Duration `json:"ready_ns,omitempty" doc:"from the request until its sandbox answered"`
	From    string        `json:"from,omitempty" doc:"memory, or files when the memory could not be used"`
	Error   string        `json:"error,omitempty"`
}

// CreatePrompt queues one more message.
type CreatePrompt struct {
	Text     string `json:"text" minLength:"1" maxLength:"262144"`
	ClientID string `json:"client_id,omitempty" maxLength:"100" doc:"the client's own id: a retry with it is not a second prompt"`
}

// EditPrompt changes a queued one.
type EditPrompt struct {
	Text string `json:"text" minLength:"1" maxLength:"262144"`
}

// MovePrompt puts a queued one elsewhere among the queued ones.
type MovePrompt struct {
	Position int `json:"position" minimum:"0" doc:"0 is next"`
}

// Reason goes with a stop, a close or a denial.
type Reason struct {
	Reason string `json:"reason,omitempty" maxLength:"2000"`
}

// FileInfo describes one file inside a sandbox.
type FileInfo struct {
	Path    string      `json:"path"`
	Size    int64       `json:"size"`
	Mode    fs.FileMode `json:"mode"`
	ModTime time.Time   `json:"mod_time"`
	Target  string      `json:"target,omitempty"`
}

// Diff is a unified diff, cut at a bound.
type Diff struct {
	Base string `json:"base,omitempty"`
	Head string `json:"head,omitempty"`
	Diff string `json:"diff"`
	Cut  bool   `json:"cut,omitempty" doc:"true when it was longer than the daemon sends"`
}

// CreateBuild asks for a build of an environment.
type CreateBuild struct {
	Source string `json:"source,omitempty" maxLength:"2000" doc:"URL or absolute path of a repository; may be left out for an environment that exists"`
	Name   string `json:"name,omitempty" maxLength:"100" doc:"default: last part of the source"`
	Ref    string `json:"ref,omitempty" maxLength:"250" doc:"branch, tag or commit; default the default branch"`
	Fresh  bool   `json:"fresh,omitempty" doc:"from scratch and with a fresh base image, even if nothing has changed"`
}

// Rollback goes back to an earlier snapshot of an environment.
type Rollback struct {
	Snapshot string `json:"snapshot" minLength:"1" maxLength:"100" doc:"of an earlier build of the environment"`
}

// Recipe is the text an environment was last built from.
type Recipe struct {
	File   string `json:"file" doc:"drydock.yaml or devcontainer.json"`
	Commit string `json:"commit,omitempty"`
	Text   string `json:"text"`
}

// Sandbox is one running machine.
type Sandbox struct {
	ID          core.SandboxID     `json:"id"`
	State       core.SandboxState  `json:"state"`
	Session     core.SessionID     `json:"session,omitempty"`
	Environment core.EnvironmentID `json:"environment,omitempty"`
	Snapshot    core.SnapshotID    `json:"snapshot,omitempty"`
	Purpose     string             `json:"purpose,omitempty" doc:"session, build, proof"`
	Address     string             `json:"address,omitempty"`
	Limits      core.Limits        `json:"limits,omitzero"`
	Created     time.Time          `json:"created"`
}

// Capacity is what the host has room for.
type Capacity struct {
	State      string         `json:"state" doc:"open, or full: and what is short (memory, disk, processors)"`
	Reason     string         `json:"reason,omitempty" doc:"what a new session waits for"`
	Hint       string         `json:"hint,omitempty"`
	Memory     Room           `json:"memory"`
	Disk       Room           `json:"disk" doc:"of the state directory"`
	Processors int            `json:"processors"`
	Busy       int            `json:"busy" doc:"sandboxes that work, and sessions that will have one"`
	BusyLimit  int            `json:"busy_limit"`
	Sandboxes  map[string]int `json:"sandboxes" nullable:"false" doc:"that live, by purpose"`

	Running      int              `json:"running" doc:"sessions"`
	RunningLimit int              `json:"running_limit"`
	Queued       int              `json:"queued" doc:"sessions that wait for a runner"`
	Waiting      []WaitingSandbox `json:"waiting" nullable:"false" doc:"sandboxes that wait for room, first first"`
}

// Room is one resource, in bytes.
type Room struct {
	Total     int64 `json:"total"`
	Used      int64 `json:"used" doc:"by everything on the host"`
	Sandboxes int64 `json:"sandboxes,omitempty" doc:"part of it that sandboxes use"`
	Promised  int64 `json:"promised,omitempty" doc:"to sandboxes, beyond what they use now"`
	Reserve   int64 `json:"reserve" doc:"never given out"`
	Free      int64 `json:"free" doc:"for new ones"`
}

// WaitingSandbox is not started yet, for want of room.
type WaitingSandbox struct {
	Purpose string    `json:"purpose"`
	Owner   string    `json:"owner" doc:"identifier of the session, run or build"`
	For     string    `json:"for"`
	Since   time.Time `json:"since"`
}

// Collected tells what a collection removed, and what it kept.
type Collected struct {
	Removed []core.SnapshotID `json:"removed" nullable:"false"`
	Images  []core.SnapshotID `json:"images" nullable:"false" doc:"snapshots whose memory images were dropped; their files stay"`
	Layers  int               `json:"layers,omitempty" doc:"directories that no snapshot named any more"`
	Bytes   int64             `json:"bytes" doc:"freed by all of it"`
	Other   map[string]int64  `json:"other,omitempty" doc:"bytes of other things that were removed: base images, blobs"`
	Kept    []Kept            `json:"kept" nullable:"false"`
	DryRun  bool              `json:"dry_run,omitempty"`
}

// PushSnapshot sends a snapshot to a registry.
type PushSnapshot struct {
	Reference   string `json:"reference" minLength:"1" maxLength:"500" doc:"registry/repository:tag"`
	NoMemory    bool   `json:"no_memory,omitempty" doc:"leave the memory image here"`
	WithRuntime bool   `json:"with_runtime,omitempty" doc:"send the builds of runsc and drydock-init that the memory image is bound to"`
	Insecure    bool   `json:"insecure,omitempty" doc:"speak without TLS to a registry that is not on this machine"`
}

// PullSnapshot brings a snapshot here.
type PullSnapshot struct {
	Reference   string `json:"reference" minLength:"1" maxLength:"500" doc:"registry/repository:tag, or @sha256:..."`
	Environment string `json:"environment,omitempty" maxLength:"100" doc:"whose snapshot it becomes; made when there is none of the name"`
	Source      string `json:"source,omitempty" maxLength:"2000" doc:"repository of a new environment; default what came with the snapshot"`
	NoMemory    bool   `json:"no_memory,omitempty" doc:"only the files"`
	WithRuntime bool   `json:"with_runtime,omitempty" doc:"keep the builds of runsc and drydock-init that come with the memory image; they will run as root on the daemon's machine"`
	Insecure    bool   `json:"insecure,omitempty" doc:"speak without TLS to a registry that is not on this machine"`
}

// Transfer tells how far a part of a push or pull is.
type Transfer struct {
	What   string `json:"what" doc:"for people: layer 2 of 5"`
	State  string `json:"state" doc:"packing, sending, fetching, present, mounted, done, warning"`
	Digest string `json:"digest,omitempty"`
	Done   int64  `json:"done,omitempty" doc:"bytes"`
	Total  int64  `json:"total,omitempty" doc:"bytes; left out while it is not known"`
}

// PushedSnapshot says what is in the registry now.
type PushedSnapshot struct {
	Snapshot  core.SnapshotID `json:"snapshot"`
	Reference string          `json:"reference"`
	Digest    string          `json:"digest" doc:"of the image"`
	Memory    string          `json:"memory,omitempty" doc:"digest of the memory image's artifact"`
	Layers    int             `json:"layers"`
	Bytes     int64           `json:"bytes" doc:"of everything, packed"`
	Sent      int64           `json:"sent" doc:"of it, this time"`
}

// PulledSnapshot says what is here now.
type PulledSnapshot struct {
	Snapshot    core.Snapshot     `json:"snapshot"`
	Environment *core.Environment `json:"environment,omitempty" doc:"that starts from it now"`
	Reference   string            `json:"reference"`
	Digest      string            `json:"digest"`
	Present     bool              `json:"present,omitempty" doc:"it was here already"`
	Fetched     int64             `json:"fetched" doc:"bytes"`
}

// Kept is a snapshot that a collection left alone, and why.
type Kept struct {
	ID     core.SnapshotID `json:"id"`
	Bytes  int64           `json:"bytes" doc:"of its own files and memory image"`
	By     []string        `json:"by" nullable:"false" doc:"who needs its files"`
	Memory []string        `json:"memory,omitempty" doc:"who needs its memory image"`
}

// SnapshotDetail is a snapshot with what it is made of and who needs it.
type SnapshotDetail struct {
	core.Snapshot
	Layers []Layer      `json:"layers,omitempty" doc:"topmost first"`
	Image  *MemoryImage `json:"memory_image,omitempty"`
	Users  []string     `json:"users" nullable:"false" doc:"who needs its files"`
}

// Layer is one directory of files below a sandbox.
type Layer struct {
	Snapshot core.SnapshotID `json:"snapshot,omitempty" doc:"whose it is"`
	Base     string          `json:"base,omitempty" doc:"digest of a base image"`
	Live     bool            `json:"live,omitempty" doc:"written by running services, and goes with a memory image"`
	Merged   int             `json:"merged,omitempty" doc:"how many layers it was merged from"`
	Bytes    int64           `json:"bytes"`
	Files    int             `json:"files"`
}

// MemoryImage is the memory of processes that go on when it is restored.
type MemoryImage struct {
	Bytes    int64     `json:"bytes"`
	Runtime  string    `json:"runtime" doc:"digest of the only build of the runtime that can restore it"`
	Services []string  `json:"services,omitempty" doc:"that were ready"`
	Users    []string  `json:"users,omitempty" doc:"who needs it"`
	Created  time.Time `json:"created"`
}

// Verification says what of a snapshot is as it was written.
type Verification struct {
	Snapshot core.SnapshotID `json:"snapshot"`
	Good     bool            `json:"good"`
	Parts    []VerifiedPart  `json:"parts" nullable:"false"`
}

// VerifiedPart is one layer, or one file of a memory image.
type VerifiedPart struct {
	Name   string `json:"name"`
	Bytes  int64  `json:"bytes"`
	Damage string `json:"damage,omitempty" doc:"left out where there is none"`
}

// Commit is one commit of a change.
type Commit struct {
	ID        string    `json:"id"`
	Subject   string    `json:"subject"`
	Body      string    `json:"body,omitempty"`
	Author    string    `json:"author"`
	Email     string    `json:"email"`
	Committer string    `json:"committer,omitempty"`
	Time      time.Time `json:"time"`
}

// ChangeDetail is a change with what a reviewer wants on one page.
type ChangeDetail struct {
	Change    core.Change           `json:"change"`
	Commits   []Commit              `json:"commits" nullable:"false"`
	Comments  []core.Comment        `json:"comments" nullable:"false"`
	Approvals []core.ChangeApproval `json:"approvals" nullable:"false"`
}

// CreateComment is a remark on a change; with Path and Line, on a line.
type CreateComment struct {
	Body string `json:"body" minLength:"1" maxLength:"262144"`
	Path string `json:"path,omitempty" maxLength:"4096"`
	Line int    `json:"line,omitempty" minimum:"0"`
}

// ApproveChange approves one commit of a change.
type ApproveChange struct {
	Head string `json:"head" minLength:"1" maxLength:"64" doc:"the commit that was looked at; refused when the change has moved on"`
	Note string `json:"note,omitempty" maxLength:"2000"`
}

// MergeChange says how to merge.
type MergeChange struct {
	Method string `json:"method,omitempty" enum:"merge,squash,rebase" doc:"default merge"`
	Head   string `json:"head,omitempty" maxLength:"64" doc:"refuse when the change has moved on from this commit"`
}

// Approval is a question to a person that a run waits for.
type Approval struct {
	ID        core.ApprovalID    `json:"id"`
	Session   core.SessionID     `json:"session"`
	Run       core.RunID         `json:"run,omitempty"`
	Node      string             `json:"node,omitempty"`
	Kind      string             `json:"kind" doc:"what is asked for, a fixed word"`
	Question  string             `json:"question" doc:"one sentence for people"`
	Detail    json.RawMessage    `json:"detail,omitempty"`
	AskedBy   string             `json:"asked_by" doc:"whose prompt led here; that person may not answer"`
	State     core.ApprovalState `json:"state"`
	DecidedBy string             `json:"decided_by,omitempty"`
	Note      string             `json:"note,omitempty"`
	Deadline  time.Time          `json:"deadline,omitzero"`
	Created   time.Time          `json:"created"`
	Decided   time.Time          `json:"decided,omitzero"`
}

// Answer goes with an approval's yes or no.
type Answer struct {
	Note string `json:"note,omitempty" maxLength:"2000"`
}

// Evidence is a bundle: its manifest as it was signed.
type Evidence struct {
	ID       core.EvidenceID `json:"id"`
	Digest   string          `json:"digest" doc:"of the manifest's bytes"`
	Manifest json.RawMessage `json:"manifest"`
}

// Rerun is the result of running a proof again.
type Rerun struct {
	Result      string       `json:"result" doc:"same, differs, cannot"`
	Reason      string       `json:"reason,omitempty"`
	Differences []Difference `json:"differences,omitempty"`
}

// Difference is one place where a second run said something else.
type Difference struct {
	Where string `json:"where"`
	Was   string `json:"was"`
	Is    string `json:"is"`
}

// Verified is the result of checking a bundle without a daemon.
type Verified struct {
	Good     bool     `json:"good"`
	Evidence string   `json:"evidence,omitempty"`
	Signer   string   `json:"signer,omitempty"`
	Verdict  string   `json:"verdict,omitempty"`
	Faults   []string `json:"faults" nullable:"false"`
}

// CreateToken makes a token for a person, who is created when unknown.
type CreateToken struct {
	Handle string `json:"handle" minLength:"1" maxLength:"64" pattern:"^[a-z0-9][a-z0-9._-]*$"`
	Name   string `json:"name,omitempty" maxLength:"200"`
	Email  string `json:"email,omitempty" maxLength:"254"`
	Label  string `json:"label,omitempty" maxLength:"100" doc:"what it is for"`
}

// CreatedToken carries the secret, which is shown once and stored nowhere.
type CreatedToken struct {
	Token  Token  `json:"token"`
	Secret string `json:"secret"`
}

// ReadEvent is an event as it is read. Long texts in its data may be cut.
type ReadEvent struct {
	core.Event
	Cut map[string]CutText `json:"cut,omitempty" doc:"texts of data that are only a beginning, by path (output, input.content); an empty path: the whole data was too long and is {}"`
}

// CutText is what is left out of a long text: it begins where the text in data
// ends, and ends where Tail begins.
type CutText struct {
	Size int    `json:"size" doc:"bytes of the whole"`
	Tail string `json:"tail,omitempty"`
}

// Wants is what a browser's stream is to bring.
type Wants struct {
	Inbox    bool             `json:"inbox,omitempty" doc:"rows and counts of the inbox"`
	Sessions map[string]int64 `json:"sessions,omitempty" doc:"sessions whose events are wanted, each with the number to go on after; at most 8. One that is followed already goes on where it is"`
}

// Hello is the first message of a stream.
type Hello struct {
	Stream  string           `json:"stream" doc:"for PUT /streams/{id}"`
	Version string           `json:"version"`
	Web     string           `json:"web" doc:"digest of the page that this daemon serves"`
	Time    time.Time        `json:"time"`
	Wants   map[string]int64 `json:"sessions" doc:"sessions that are followed, and after which number"`
}

// Reset says that a stream has left a session: the page takes a new snapshot
// of it and asks for the events after that.
type Reset struct {
	Session core.SessionID `json:"session"`
	Reason  string         `json:"reason"`
	Seq     int64          `json:"seq" doc:"number of its newest event"`
}

// Presence tells who looks at a session now.
type Presence struct {
	Session core.SessionID `json:"session"`
	People  []Present      `json:"people" nullable:"false"`
}

// Present is one person who looks.
type Present struct {
	User   core.Author `json:"user"`
	Typing bool        `json:"typing,omitempty"`
}

// Here says that somebody looks at a session. It is forgotten after 45 s.
type Here struct {
	Client string `json:"client" minLength:"1" maxLength:"64" pattern:"^[A-Za-z0-9_-]+$" doc:"the tab's own id"`
	Typing bool   `json:"typing,omitempty"`
	Left   bool   `json:"left,omitempty" doc:"does not look any more"`
}

// MarkRead says how far a person has read.
type MarkRead struct {
	Seq int64 `json:"seq" minimum:"0" doc:"number of the last event that was shown"`
}

// Login signs a browser in.
type Login struct {
	Secret string `json:"secret" minLength:"1" maxLength:"200" doc:"a token, or a one-use code"`
}

// LoginCode is a one-use way in for a browser.
type LoginCode struct {
	URL     string    `json:"url,omitempty" doc:"of the page, where the configuration names one"`
	Code    string    `json:"code" doc:"8 letters; case, spaces and dashes do not matter"`
	Expires time.Time `json:"expires"`
}

// Token is a token without its secret.
type Token struct {
	ID       core.TokenID `json:"id"`
	User     string       `json:"user" doc:"handle of the person"`
	Kind     string       `json:"kind,omitempty" enum:"api,web" doc:"api: a program sends it; web: a browser that was signed in holds it"`
	Parent   core.TokenID `json:"parent,omitempty" doc:"the token a web one was made with: it ends with it"`
	Label    string       `json:"label,omitempty"`
	Created  time.Time    `json:"created"`
	LastUsed time.Time    `json:"last_used,omitzero"`
	Revoked  time.Time    `json:"revoked,omitzero"`
}

// UsageReport is what was spent and what came of it.
type UsageReport struct {
	Since    time.Time        `json:"since,omitzero"`
	Total    UsageRow         `json:"total"`
	Rows     []UsageRow       `json:"rows" nullable:"false"`
	Verdicts map[string]int64 `json:"verdicts" nullable:"false" doc:"runs by verdict"`
	Outcomes map[string]int64 `json:"outcomes" nullable:"false" doc:"runs by how they ended"`
}

// UsageRow is one group of it.
type UsageRow struct {
	Key      string     `json:"key" doc:"session, environment or model"`
	Title    string     `json:"title,omitempty"`
	Sessions int64      `json:"sessions,omitempty"`
	Usage    core.Usage `json:"usage"`
	Cost     core.Cost  `json:"cost"`
}
