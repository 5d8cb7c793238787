// Package forge is the contract of a place where code lives and changes are
// reviewed: the built-in one (package local), later others.
//
// It does nothing itself. It knows changes, comments and approvals, and
// nothing of prompts or runs; package change joins the two.
//
// Rules every implementation keeps, or refuses to be used:
//   - OpenChange with one key opens one change, whatever is killed and repeated.
//   - Push moves a branch only from where the caller says it stands, and never
//     the default branch.
//   - An approval is bound to the commit that was looked at and counts for no
//     other. Nobody approves what came from a prompt or a commit of their own.
//   - Merge refuses conflicts and names the files; merging twice is once.
//   - What people do beside Drydock (a push, a comment) is found by Poll, each
//     with a key that stays the same however often it is found.
//
// A Forge is used by many goroutines and by several processes at once.
// Cancelling ctx gives up waiting; what was begun is either done or found to be
// done by the next call. Errors are *core.Error: NotFound, Conflict (it moved,
// it is closed, it does not merge), Denied (a rule), NeedsApproval.
//
//	change, err := f.OpenChange(ctx, forge.NewChange{Key: "run_1:open", Repository: "shop", Branch: "drydock/fix", ...})
package forge

import (
	"context"
	"time"

	"drydock/internal/core"
)

// Forge is one place.
type Forge interface {
	Name() string

	// EnsureRepository makes a repository, filled from its source, or finds it
	// and refreshes it like Refresh. A repository that follows another source is
	// a Conflict.
	EnsureRepository(ctx context.Context, spec RepositorySpec) (Repository, Refreshed, error)
	// Refresh moves branches forward to where the source has them. What has
	// diverged is named and left alone.
	Refresh(ctx context.Context, repository string) (Refreshed, error)
	Repository(ctx context.Context, name string) (Repository, error)
	Repositories(ctx context.Context, page core.Page) ([]Repository, string, error)
	// Branch is where a branch stands; "" when it does not exist.
	Branch(ctx context.Context, repository, branch string) (string, error)
	// Push moves one branch. A branch that stands at the commit already is
	// success.
	Push(ctx context.Context, push Push) error

	// OpenChange opens one, or finds the one opened with the same key; then
	// nothing is changed and opened is false. A branch that has an open change
	// already is a Conflict.
	OpenChange(ctx context.Context, c NewChange) (change core.Change, opened bool, err error)
	UpdateChange(ctx context.Context, id core.ChangeID, update ChangeUpdate) (core.Change, error)
	// Change and its siblings tell the head of an open change as it is now.
	Change(ctx context.Context, id core.ChangeID) (core.Change, error)
	ChangeByNumber(ctx context.Context, repository string, number int64) (core.Change, error)
	Changes(ctx context.Context, filter core.ChangeFilter, page core.Page) ([]core.Change, string, error)
	Commits(ctx context.Context, id core.ChangeID) ([]Commit, error)
	Diff(ctx context.Context, id core.ChangeID, opts DiffOptions) (Diff, error)

	// Span tells between which commits a change lies, and where git finds them.
	Span(ctx context.Context, id core.ChangeID) (Span, error)
	// Rights says what somebody may do with a change as it stands.
	Rights(ctx context.Context, id core.ChangeID, who core.Author) (Rights, error)

	// Comment writes one. The same key writes once.
	Comment(ctx context.Context, c NewComment) (core.Comment, error)
	Comments(ctx context.Context, id core.ChangeID) ([]core.Comment, error)
	// LinkComment remembers which prompt a comment became.
	LinkComment(ctx context.Context, id core.CommentID, prompt core.PromptID) error

	Approve(ctx context.Context, a NewApproval) (core.ChangeApproval, error)
	// Approvals lists those that count for the head as it is now.
	Approvals(ctx context.Context, id core.ChangeID) ([]core.ChangeApproval, error)
	// Merge brings the change into its base. A merged change is returned as it
	// is.
	Merge(ctx context.Context, m MergeRequest) (core.Change, error)
	// Close leaves the branch where it is.
	Close(ctx context.Context, id core.ChangeID, by core.Author) (core.Change, error)
	Reopen(ctx context.Context, id core.ChangeID, by core.Author) (core.Change, error)

	// Poll tells what people did to open changes since a moment, and perhaps
	// something from before it.
	Poll(ctx context.Context, since time.Time) ([]Activity, error)
}

// RepositorySpec names a repository.
type RepositorySpec struct {
	Name        string
	Environment core.EnvironmentID
	Source      string // URL or absolute path; may be empty
}

// Repository as a forge has it.
type Repository struct {
	Name          string             `json:"name"`
	Environment   core.EnvironmentID `json:"environment,omitempty"`
	Source        string             `json:"source,omitempty"`
	DefaultBranch string             `json:"default_branch"`
	Location      string             `json:"location"` // what git fetches from
	Created       time.Time          `json:"created"`
}

// Refreshed says what a refresh found. Branches that stand where the source
// has them are in no list.
type Refreshed struct {
	Moved    []BranchState `json:"moved,omitempty"`    // forward, or new
	Ahead    []string      `json:"ahead,omitempty"`    // have what the source has not, and all of what it has
	Diverged []BranchState `json:"diverged,omitempty"` // both sides have commits of their own: left alone
}

// BranchState is one branch, here and at the source.
type BranchState struct {
	Branch string `json:"branch"`
	Here   string `json:"here"` // before the refresh
	Source string `json:"source"`
}

// Push says which branch moves where.
type Push struct {
	Repository string
	Branch     string
	Commit     string
	Expected   string // where the branch stands now; "" when it must not exist
	From       string // directory of a repository on this host that has the commit
}

// NewChange asks for a change.
type NewChange struct {
	Key         string // makes a repetition harmless
	Repository  string
	Environment core.EnvironmentID
	Session     core.SessionID
	Title       string
	Body        string // Markdown
	Base        string // default: the default branch
	Branch      string // must exist
	Authors     []core.Author
	Evidence    core.EvidenceID
	Verdict     string
}

// ChangeUpdate changes what is not nil. Head acknowledges where the branch
// stands, so that Poll does not tell it again. Authors are added.
type ChangeUpdate struct {
	Title    *string
	Body     *string
	Evidence *core.EvidenceID
	Verdict  *string
	Head     *string
	Authors  []core.Author
}

// Commit of a change.
type Commit struct {
	ID      string      `json:"id"`
	Parents []string    `json:"parents"`
	Subject string      `json:"subject"`
	Message string      `json:"message"`
	Author  core.Author `json:"author"` // without handle
	Time    time.Time   `json:"time"`
}

// Span is a change between commits of a bare repository on this host.
type Span struct {
	Change core.Change
	Base   string // where the branch left its base
	Tip    string // of the base, before the change was merged; never holds the change's commits
	Dir    string
}

// Rights are what somebody may do; a word is the reason why not.
type Rights struct {
	Author  bool // a prompt, a commit or a push of the change is theirs
	Approve string
	Merge   string
}

// DiffOptions narrow a diff.
type DiffOptions struct {
	Paths   []string
	From    string // a commit to compare with; default where the branch left its base
	Context int    // lines; 0 means 3
	Limit   int64  // bytes of the patch; 0 means 8 MiB
}

// Diff of a change.
type Diff struct {
	Base      string `json:"base"` // the commit compared with
	Head      string `json:"head"`
	Files     []File `json:"files"`
	Patch     string `json:"patch"`
	Truncated bool   `json:"truncated,omitempty"`
}

// File is one changed file.
type File struct {
	Path    string `json:"path"`
	OldPath string `json:"old_path,omitempty"`
	Status  string `json:"status"` // A, M, D, R, C, T
	Added   int    `json:"added"`
	Removed int    `json:"removed"`
	Binary  bool   `json:"binary,omitempty"`
}

// NewComment asks for a comment; Path and Line are set on line comments.
type NewComment struct {
	Key    string
	Change core.ChangeID
	Author core.Author
	Body   string
	Path   string
	Line   int
}

// NewApproval says who approves what. Head is the commit that was looked at;
// it must be the head of the change.
type NewApproval struct {
	Change core.ChangeID
	By     core.Author
	Head   string
	Note   string
}

// Method of a merge.
type Method string

const (
	MergeCommit Method = "merge"  // a commit with two parents
	Squash      Method = "squash" // one commit on the base
	Rebase      Method = "rebase" // the commits one by one on the base
)

// MergeRequest asks for a merge. Head, if set, must be the head of the change.
type MergeRequest struct {
	Change core.ChangeID
	By     core.Author
	Method Method // default MergeCommit
	Head   string
}

// ActivityKind is what somebody did.
type ActivityKind string

const (
	Pushed    ActivityKind = "pushed"
	Commented ActivityKind = "commented"
	Merged    ActivityKind = "merged" // beside Drydock
)

// Activity is one thing somebody did to a change.
type Activity struct {
	Key     string // stable: the same thing has the same key for ever
	Kind    ActivityKind
	Change  core.Change
	By      core.Author   // zero when nobody knows
	Comment *core.Comment // of Commented
	Head    string        // of Pushed: where the branch stands now
	Before  string        // of Pushed: where it stood
}
