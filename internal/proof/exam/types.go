package exam

import (
	"bytes"
	"context"
	"io"
	"io/fs"
	"time"
)

// Cell names one of the four mixtures.
type Cell string

// The cells; see the package comment.
const (
	CellA Cell = "A"
	CellB Cell = "B"
	CellC Cell = "C"
	CellD Cell = "D"
)

// Kind of task. It decides what a proof has to show.
type Kind string

const (
	KindUnknown  Kind = ""
	KindFix      Kind = "fix"      // some case must be red on the old code and green now
	KindFeature  Kind = "feature"  // new cases must exist that the old code cannot pass
	KindRefactor Kind = "refactor" // nothing may change: what was green stays green
)

// CheckSpec is one check of the base's recipe.
type CheckSpec struct {
	Name     string        `json:"name"`
	Run      string        `json:"run"`              // shell
	Report   string        `json:"report,omitempty"` // see check.ParseSource
	Dir      string        `json:"dir,omitempty"`    // relative to the repository
	Timeout  time.Duration `json:"timeout_ns,omitempty"`
	Optional bool          `json:"optional,omitempty"` // its failures are told and do not decide
}

// Exam is what is asked. It is plain data, stored in the evidence, and enough
// to run the same exam again.
type Exam struct {
	Repository  string `json:"repository"`
	Environment string `json:"environment"`
	Snapshot    string `json:"snapshot"` // digest or identifier of what rooms are restored from
	// SnapshotCommit is the commit whose dependencies the snapshot holds;
	// empty means the base.
	SnapshotCommit string        `json:"snapshot_commit,omitempty"`
	Runtime        string        `json:"runtime,omitempty"` // build of the sandbox runtime
	Base           string        `json:"base"`
	Head           string        `json:"head"`
	Kind           Kind          `json:"kind,omitempty"`
	Checks         []CheckSpec   `json:"checks"`
	Setup          string        `json:"setup,omitempty"` // the base recipe's setup command
	SetupTimeout   time.Duration `json:"setup_timeout_ns,omitempty"`
	Services       bool          `json:"services,omitempty"` // rooms start the recipe's services
	Pages          []Page        `json:"pages,omitempty"`
	RecipePath     string        `json:"recipe_path,omitempty"` // default drydock.yaml
	// BranchChecks are the checks of the branch's own recipe, to be compared
	// and named; nil if the branch did not touch the recipe or it cannot be read.
	BranchChecks  []CheckSpec `json:"branch_checks,omitempty"`
	BranchSetup   string      `json:"branch_setup,omitempty"`
	PromptAuthors []string    `json:"prompt_authors,omitempty"` // handles; they cannot acknowledge
}

// Page is a page to be pictured.
type Page struct {
	Name   string `json:"name"`
	URL    string `json:"url"` // as seen inside the room
	Width  int    `json:"width"`
	Height int    `json:"height"`
	Full   bool   `json:"full,omitempty"` // the whole height of the page
	// What is waited for after loading.
	Selector string        `json:"selector,omitempty"` // until something that matches is visible
	Wait     time.Duration `json:"wait_ns,omitempty"`  // this long
}

// RoomRequest says what a room is for.
type RoomRequest struct {
	Cell     Cell
	Try      int      // from 1
	Checks   []string // that will run in it
	Pictures bool     // pages are pictured in it, and no check runs
	Commit   string   // that will be checked out
	Services bool     // start the recipe's services after checkout and setup
}

// Rooms opens clean rooms: sandboxes restored from the environment's snapshot
// in which nothing of the change has ever run.
type Rooms interface {
	Open(ctx context.Context, req RoomRequest) (Room, error)
}

// Room is one clean room. It is used by one goroutine. All paths are relative
// to the repository.
type Room interface {
	// Root is the absolute path of the repository inside.
	Root() string
	// Checkout puts the repository at a commit, as git reset --hard does: tracked
	// files as in it, files tracked before and not in it removed. Untracked
	// files stay, ignored or not: installed dependencies are such files.
	Checkout(ctx context.Context, commit string) error
	// Overlay writes and deletes files.
	Overlay(ctx context.Context, files []OverlayFile) error
	// Ready is called once after checkout, overlay and setup, before the first
	// check: services start here if the request asked for them.
	Ready(ctx context.Context) error
	// Run runs a shell command. A command that fails is no error; an error is
	// a fault of the room.
	Run(ctx context.Context, cmd Command) (Outcome, error)
	// Files reads the regular files that match, bounded by limit bytes in all.
	Files(ctx context.Context, globs []string, limit int64) ([]RoomFile, error)
	// Remove deletes the files that match.
	Remove(ctx context.Context, globs []string) error
	// Close destroys the room. It must work with a ctx of its own.
	Close(ctx context.Context) error
}

// OverlayFile is one file to write or delete.
type OverlayFile struct {
	Path   string
	Data   []byte
	Mode   fs.FileMode // permission bits; fs.ModeSymlink with the target in Data
	Delete bool
}

// Command to run in a room.
type Command struct {
	Shell   string
	Dir     string // relative to the repository
	Env     []string
	Timeout time.Duration
}

// Outcome of a command.
type Outcome struct {
	ExitCode int
	TimedOut bool
	Died     string // the room died under it: "out_of_memory", "out_of_disk", "lifetime", ...
	Detail   string // about Died, for people: the limit that was met
	Started  time.Time
	Duration time.Duration
	Stdout   Output
	Stderr   Output
}

// Output is a stream that was kept outside the room until it is closed.
type Output struct {
	Size      int64
	Truncated bool // the middle or the end was lost
	Open      func() (io.ReadCloser, error)
}

// Bytes makes an Output of what is in memory.
func Bytes(b []byte) Output {
	return Output{Size: int64(len(b)), Open: func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(b)), nil
	}}
}

// RoomFile is one file read out of a room.
type RoomFile struct {
	Path    string
	ModTime time.Time
	Data    []byte
	Cut     bool // longer than the limit
}

// Repo tells facts of the repository, from outside any room.
type Repo interface {
	// Tree is the tree of a commit; an unknown commit is core.NotFound.
	Tree(ctx context.Context, commit string) (string, error)
	// Changes lists the files that differ, renames found.
	Changes(ctx context.Context, from, to string) ([]FileChange, error)
	// File is a file at a commit; core.NotFound if it is not there.
	File(ctx context.Context, commit, path string) (File, error)
	// Patch is the unified difference of some files, no context lines.
	Patch(ctx context.Context, from, to string, paths []string) ([]byte, error)
}

// FileChange is one line of a difference.
type FileChange struct {
	Path   string `json:"path"`
	Old    string `json:"old,omitempty"` // of a rename
	Status string `json:"status"`        // "added", "modified", "deleted", "renamed"
	Role   Role   `json:"role"`          // set by the exam
}

// File is the content of a file in a commit.
type File struct {
	Data []byte
	Mode fs.FileMode
}

// Cache remembers cell A between exams. Values are opaque.
type Cache interface {
	Get(ctx context.Context, key string) ([]byte, bool, error)
	Put(ctx context.Context, key string, value []byte) error
}

// Artifacts keeps logs, reports and pictures by their digest.
type Artifacts interface {
	Put(ctx context.Context, name, mediaType string, r io.Reader) (Artifact, error)
}

// Artifact is something kept.
type Artifact struct {
	Name      string `json:"name"`
	MediaType string `json:"media_type"`
	Digest    string `json:"digest"` // "sha256:..." of what is kept
	Size      int64  `json:"size"`   // of what is kept
	Whole     int64  `json:"whole"`  // of what there was; more than Size if it was cut
}

// Photographer pictures pages in a room. It may be nil.
type Photographer interface {
	Shoot(ctx context.Context, room Room, pages []Page) ([]Shot, error)
	Compare(ctx context.Context, page Page, base, again, branch Shot) (Comparison, error)
}

// Shot is a pictured page.
type Shot struct {
	Page           string   `json:"page"`
	PNG            []byte   `json:"-"`
	Failed         string   `json:"failed,omitempty"` // why there is no picture
	Title          string   `json:"title,omitempty"`
	Status         int      `json:"status,omitempty"` // of the document
	ConsoleErrors  []string `json:"console_errors,omitempty"`
	FailedRequests []string `json:"failed_requests,omitempty"`
	Browser        string   `json:"browser,omitempty"`
	Stable         bool     `json:"stable"` // two captures in a row were equal
}

// Comparison of a page before and after.
type Comparison struct {
	Page        string    `json:"page"`
	Width       int       `json:"width"`
	Height      int       `json:"height"`
	Before      *Artifact `json:"before,omitempty"`
	After       *Artifact `json:"after,omitempty"`
	Difference  *Artifact `json:"difference,omitempty"`
	Browser     string    `json:"browser,omitempty"`
	Changed     float64   `json:"changed"` // share of pixels outside the noise
	Noise       float64   `json:"noise"`   // share of pixels that differ between two pictures of the base
	Boxes       []Box     `json:"boxes,omitempty"`
	Resized     string    `json:"resized,omitempty"` // "1280x800 to 1280x840"
	NewErrors   []string  `json:"new_errors,omitempty"`
	NewFailures []string  `json:"new_failures,omitempty"`
	OldErrors   int       `json:"old_errors,omitempty"`
	Problem     string    `json:"problem,omitempty"` // why it could not be compared
	Broken      bool      `json:"broken,omitempty"`  // the base shows the page and the branch does not
	DiffPNG     []byte    `json:"-"`
}

// Box is a changed region.
type Box struct {
	X      int `json:"x"`
	Y      int `json:"y"`
	Width  int `json:"width"`
	Height int `json:"height"`
}
