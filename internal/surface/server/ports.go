package server

import (
	"context"
	"encoding/json"
	"io"
	"iter"
	"log/slog"
	"net/http"
	"time"

	"drydock/internal/core"
	"drydock/internal/surface/api"
)

// Deps are the parts the interface speaks to. Only Tokens and Log are
// necessary. Several fields may hold the same service.
type Deps struct {
	Log    *slog.Logger
	Tokens Tokens

	Visitors     Visitors
	Sessions     Sessions
	Overview     Overview
	Prompts      Prompts
	Steering     Steering
	Selections   Selections
	Forks        Forks
	Drafts       Drafts
	Workspaces   Workspaces
	Terminals    Terminals
	Events       Events
	Environments Environments
	Snapshots    Snapshots
	Sandboxes    Sandboxes
	Capacity     Capacity
	Changes      Changes
	Review       Review
	Reading      Reading
	Discussion   Discussion
	Approvals    Approvals
	Evidence     Evidence
	Blobs        Blobs
	Usage        Usage
	Backup       Backup
	Previews     Previews

	// Git serves the built-in forge over smart HTTP at /git/, for one person.
	// The path it sees has no /git prefix.
	Git func(by core.Author) http.Handler
	// Metrics is mounted at /metrics.
	Metrics http.Handler
	// Web is the page; default the one that is built into the program.
	Web Page
}

// Page is the built page. Serve answers a GET or HEAD of one of its files or
// routes; snapshot, which may be nil, is JSON that the page starts with.
type Page interface {
	Build() string // a digest of all its files
	Has(path string) bool
	Serve(w http.ResponseWriter, r *http.Request, snapshot []byte)
}

// Visitors are people with a browser. SignIn takes a token or a one-use code
// and makes a secret for the browser's cookie, which is no bearer token.
type Visitors interface {
	SignIn(ctx context.Context, secret, label string) (core.Author, string, error)
	Visitor(ctx context.Context, secret string) (core.Author, error)
	SignOut(ctx context.Context, secret string) error
	// LoginCode makes a code for the holder of a token.
	LoginCode(ctx context.Context, secret string) (api.LoginCode, error)
}

// Tokens knows who holds which secret. Authenticate of an unknown or revoked
// one is Unauthorized.
type Tokens interface {
	Authenticate(ctx context.Context, secret string) (core.Author, error)
	CreateToken(ctx context.Context, by core.Author, token api.CreateToken) (api.CreatedToken, error)
	ListTokens(ctx context.Context, by core.Author, page core.Page) ([]api.Token, string, error)
	RevokeToken(ctx context.Context, by core.Author, id core.TokenID) error
}

// Sessions reads them.
type Sessions interface {
	Get(ctx context.Context, id core.SessionID) (core.Session, error)
	List(ctx context.Context, filter core.SessionFilter, page core.Page) ([]core.Session, string, error)
	Prompts(ctx context.Context, id core.SessionID) ([]core.Prompt, error)
	Runs(ctx context.Context, id core.SessionID) ([]core.Run, error)
	Attempts(ctx context.Context, id core.RunID) ([]core.Attempt, error)
}

// Overview answers what the page shows at once.
type Overview interface {
	Inbox(ctx context.Context, f core.InboxFilter, limit int) (core.Inbox, error)
	InboxPart(ctx context.Context, section core.InboxSection, f core.InboxFilter, p core.Page) (core.InboxPart, error)
	// InboxRows are single sessions as a person's inbox shows them; those that
	// are not there are left out.
	InboxRows(ctx context.Context, person string, ids []core.SessionID) ([]core.InboxRow, error)
	InboxCounts(ctx context.Context, person string) (core.InboxCounts, error)
	// Page is a session as it is shown to a person when it opens.
	Page(ctx context.Context, by core.Author, id core.SessionID) (core.SessionPage, error)
	Search(ctx context.Context, id core.SessionID, query, cursor string, limit int) (core.Found, error)
	MarkRead(ctx context.Context, by core.Author, id core.SessionID, seq int64) (core.Read, error)
	MarkUnread(ctx context.Context, by core.Author, id core.SessionID) (core.Read, error)
}

// Prompts is the way in for work. What Create and Prompt answered is stored.
type Prompts interface {
	Create(ctx context.Context, req core.NewSession) (core.Session, core.Prompt, error)
	Prompt(ctx context.Context, id core.SessionID, req core.NewPrompt) (core.Prompt, error)
	EditPrompt(ctx context.Context, id core.SessionID, prompt core.PromptID, text string, by core.Author) (core.Prompt, error)
	RemovePrompt(ctx context.Context, id core.SessionID, prompt core.PromptID, by core.Author) error
	// PromptNow stops what runs, and then runs this one.
	PromptNow(ctx context.Context, id core.SessionID, prompt core.PromptID, by core.Author) (core.Session, error)
	MovePrompt(ctx context.Context, id core.SessionID, prompt core.PromptID, position int, by core.Author) error
}

// Steering changes the course of a session.
type Steering interface {
	Stop(ctx context.Context, id core.SessionID, by core.Author, reason string) error
	Continue(ctx context.Context, id core.SessionID, by core.Author) (core.Prompt, error)
	Archive(ctx context.Context, id core.SessionID, by core.Author) error
	RaiseBudget(ctx context.Context, id core.SessionID, by core.Author, budget core.Budget) (core.Session, error)
}

// Drafts keep sandboxes for prompts that are being written.
type Drafts interface {
	Draft(ctx context.Context, nameOrID string, by core.Author) (api.Draft, error)
	ReturnDraft(ctx context.Context, id core.DraftID, by core.Author) error
}

// Forks makes sessions out of one. One that cannot be started is told in its
// own place.
type Forks interface {
	Fork(ctx context.Context, id core.SessionID, by core.Author, req api.ForkSession) (api.Forked, error)
}

// Workspaces looks into a session's files, in its sandbox or, without one, in
// its branch. Unavailable tells that neither is there.
type Workspaces interface {
	Diff(ctx context.Context, id core.SessionID) (string, error)
	ReadFile(ctx context.Context, id core.SessionID, path string, limit int64) ([]byte, error)
	ListFiles(ctx context.Context, id core.SessionID, path string) ([]api.FileInfo, error)
}

// Terminals starts commands in a session's sandbox. The process ends, whole
// group, when ctx does.
type Terminals interface {
	Exec(ctx context.Context, id core.SessionID, by core.Author, req api.ExecRequest) (Process, error)
}

// Process is one such command. Output may be called once; it ends with the
// process. The other methods may be called while it runs.
type Process interface {
	Output(ctx context.Context) iter.Seq2[Chunk, error]
	Input(ctx context.Context, p []byte) error
	CloseInput(ctx context.Context) error
	Resize(ctx context.Context, size api.Size) error
	Signal(ctx context.Context, name string) error
	Wait(ctx context.Context) (exitCode int, signal string, err error)
}

// Chunk is a piece of output; Stream is api.StreamOutput or api.StreamError.
type Chunk struct {
	Stream byte
	Data   []byte
}

// Events reads logs of a subject, which is a session or a build. Follow
// yields what is after a number and then what comes, without a gap, until ctx
// ends; deltas come with number 0.
type Events interface {
	Read(ctx context.Context, subject string, after int64, limit int) ([]core.Event, error)
	ReadBefore(ctx context.Context, subject string, before int64, limit int) ([]core.Event, error)
	One(ctx context.Context, subject string, seq int64) (core.Event, error)
	Last(ctx context.Context, subject string) (int64, error)
	Follow(ctx context.Context, subject string, after int64) iter.Seq2[core.Event, error]
	Watch() Watch
}

// Watch tells which sessions got events since Take was called last; Wake
// delivers when there are any. It never holds a writer up.
type Watch interface {
	Wake() <-chan struct{}
	Take() []string
	Close()
}

// BuildRequest asks for a build.
type BuildRequest struct {
	Source string // URL or absolute path; may be empty when Name exists
	Name   string
	Ref    string
	Fresh  bool
	By     core.Author
}

// Environments knows recipes and their builds. Build answers at once; its
// progress are events of the build.
type Environments interface {
	Build(ctx context.Context, req BuildRequest) (core.Build, error)
	Get(ctx context.Context, nameOrID string) (core.Environment, error)
	List(ctx context.Context, page core.Page) ([]core.Environment, string, error)
	Builds(ctx context.Context, id core.EnvironmentID, page core.Page) ([]core.Build, string, error)
	GetBuild(ctx context.Context, id core.BuildID) (core.Build, error)
	Recipe(ctx context.Context, id core.EnvironmentID) (api.Recipe, error)
	Remove(ctx context.Context, id core.EnvironmentID, by core.Author) error
	// Rollback makes an earlier snapshot of an environment the one in use.
	Rollback(ctx context.Context, nameOrID string, to core.SnapshotID, by core.Author) (core.Environment, error)
}

// Snapshots keeps files of environments and sessions. Collect removes what
// nothing needs; with dry it only tells.
type Snapshots interface {
	Get(ctx context.Context, id core.SnapshotID) (api.SnapshotDetail, error)
	List(ctx context.Context, page core.Page) ([]core.Snapshot, string, error)
	Remove(ctx context.Context, id core.SnapshotID, by core.Author) error
	Verify(ctx context.Context, id core.SnapshotID) (api.Verification, error)
	Collect(ctx context.Context, dry bool) (api.Collected, error)
	// Push and Pull move snapshots to and from registries; they end with ctx.
	Push(ctx context.Context, id core.SnapshotID, req api.PushSnapshot, progress func(api.Transfer)) (api.PushedSnapshot, error)
	Pull(ctx context.Context, req api.PullSnapshot, by core.Author, progress func(api.Transfer)) (api.PulledSnapshot, error)
}

// Sandboxes lists what runs.
type Sandboxes interface {
	List(ctx context.Context) ([]api.Sandbox, error)
}

// Capacity tells what the host has room for.
type Capacity interface {
	Capacity(ctx context.Context) (api.Capacity, error)
}

// Changes reads them. Get takes an identifier, ENVIRONMENT#NUMBER, or a number
// that only one repository has.
type Changes interface {
	Get(ctx context.Context, ref string) (core.Change, error)
	List(ctx context.Context, filter core.ChangeFilter, page core.Page) ([]core.Change, string, error)
	Commits(ctx context.Context, id core.ChangeID) ([]api.Commit, error)
	Diff(ctx context.Context, id core.ChangeID) (string, error)
	Comments(ctx context.Context, id core.ChangeID) ([]core.Comment, error)
	ChangeApprovals(ctx context.Context, id core.ChangeID) ([]core.ChangeApproval, error)
}

// Review is what people do with a change. The author of one of its prompts is
// Denied an Approve; a head that is not the change's is a Conflict.
type Review interface {
	Comment(ctx context.Context, id core.ChangeID, by core.Author, body, path string, line int) (core.Comment, error)
	Approve(ctx context.Context, id core.ChangeID, by core.Author, head, note string) (core.ChangeApproval, error)
	Merge(ctx context.Context, id core.ChangeID, by core.Author, method, head string) (core.Change, error)
	Close(ctx context.Context, id core.ChangeID, by core.Author, reason string) (core.Change, error)
	Reopen(ctx context.Context, id core.ChangeID, by core.Author) (core.Change, error)
}

// Reading is what people need to read a change. What somebody has viewed and
// seen is their own.
type Reading interface {
	Files(ctx context.Context, id core.ChangeID, by core.Author, r core.DiffRange) (core.ChangeDiff, error)
	Patches(ctx context.Context, id core.ChangeID, by core.Author, req core.PatchRequest) (core.Patches, error)
	Search(ctx context.Context, id core.ChangeID, by core.Author, r core.DiffRange, query string) (core.DiffHits, error)
	SetViewed(ctx context.Context, id core.ChangeID, by core.Author, mark core.ViewedMark) error
	SetSeen(ctx context.Context, id core.ChangeID, by core.Author, head string) error

	// Page is all that is shown at once; Cases are those of one check, kept ones
	// too.
	Page(ctx context.Context, id core.ChangeID, by core.Author, allCases bool) (core.ChangePage, error)
	Cases(ctx context.Context, id core.ChangeID, check, class string, page core.Page) (core.PageCases, error)
}

// Discussion is what people say about a change. Drafts are their author's;
// Send makes comments of all of them, and one prompt when they are for the
// agent.
type Discussion interface {
	Threads(ctx context.Context, id core.ChangeID, by core.Author) ([]core.Thread, error)
	Resolve(ctx context.Context, id core.ThreadID, by core.Author, resolved bool) (core.Thread, error)
	Reply(ctx context.Context, id core.ThreadID, by core.Author, body, clientID string) (core.Comment, error)
	Notes(ctx context.Context, id core.ChangeID, by core.Author) ([]core.Note, error)
	Write(ctx context.Context, id core.ChangeID, by core.Author, anchor core.Anchor, body, clientID string) (core.Note, error)
	Rewrite(ctx context.Context, id core.ChangeID, note core.NoteID, by core.Author, body string) (core.Note, error)
	Discard(ctx context.Context, id core.ChangeID, note core.NoteID, by core.Author) error
	Send(ctx context.Context, id core.ChangeID, by core.Author, req core.Sending) (core.SentNotes, error)
	HandBack(ctx context.Context, id core.ChangeID, by core.Author, note, clientID string) (core.Prompt, error)
}

// ApprovalFilter narrows a list of approvals.
type ApprovalFilter struct {
	State   core.ApprovalState
	Session core.SessionID
}

// Approvals are questions to people.
type Approvals interface {
	ListApprovals(ctx context.Context, filter ApprovalFilter, page core.Page) ([]api.Approval, string, error)
	AnswerApproval(ctx context.Context, id core.ApprovalID, by core.Author, yes bool, note string) (api.Approval, error)
}

// Evidence reads bundles and runs them again.
type Evidence interface {
	// Manifest is the manifest as it was signed, and its digest.
	Manifest(ctx context.Context, id core.EvidenceID) (manifest json.RawMessage, digest string, err error)
	// File opens one artifact that the manifest names by digest.
	File(ctx context.Context, id core.EvidenceID, digest string) (io.ReadCloser, int64, error)
	// Bundle writes the whole as a tar.
	Bundle(ctx context.Context, id core.EvidenceID, w io.Writer) error
	// Rerun runs the proof again; progress may be called with events.
	Rerun(ctx context.Context, id core.EvidenceID, by core.Author, progress func(core.Event)) (api.Rerun, error)
}

// Blobs opens pictures and logs by digest.
type Blobs interface {
	Open(ctx context.Context, digest string) (io.ReadCloser, int64, error)
}

// Usage sums what was spent, by "session", "environment" or "model".
type Usage interface {
	Usage(ctx context.Context, by string, since time.Time) (api.UsageReport, error)
}

// Backup writes a consistent copy of the daemon's state as a tar.
type Backup interface {
	Backup(ctx context.Context, w io.Writer) error
}
