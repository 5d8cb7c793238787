package tool

import (
	"context"
	"io/fs"
	"time"
)

// Processes of a sandbox.
type Processes interface {
	// Start begins a command. A second Start with the same key finds the first
	// process instead of starting another, also after a restart of the daemon.
	Start(ctx context.Context, cmd Command) (Process, error)
	// Process tells how one is now; Wait returns when it has ended or ctx is done.
	Process(ctx context.Context, id string) (Process, error)
	Wait(ctx context.Context, id string) (Process, error)
	// Output reads at most limit bytes of the merged output from a byte offset.
	// It does not wait.
	Output(ctx context.Context, id string, offset int64, limit int) ([]byte, error)
	// Signal is sent to the whole process group: "TERM", "KILL", "INT".
	Signal(ctx context.Context, id, signal string) error
}

// Files of a sandbox. Paths are absolute. A missing file is core.NotFound.
type Files interface {
	// Read returns at most max bytes, and how large the file is. A directory is
	// an error of kind Invalid, or no bytes and its mode.
	Read(ctx context.Context, path string, max int64) ([]byte, FileInfo, error)
	// Write replaces a file atomically and makes its directories. Mode 0 keeps
	// the mode there is, or makes 0644.
	Write(ctx context.Context, path string, mode fs.FileMode, data []byte) error
	Remove(ctx context.Context, path string) error
	// List walks a directory to a depth (1 is its own entries), without
	// descending into .git and the like; more says that limit cut it.
	List(ctx context.Context, path string, depth, limit int) (entries []FileInfo, more bool, err error)
	Search(ctx context.Context, q Query) (Matches, error)
}

// Box is what the tools need of a sandbox.
type Box interface {
	Processes
	Files
}

// Command to start. Its output is merged, standard error in order with the
// rest.
type Command struct {
	Key     string
	Shell   string // run by sh -c
	Dir     string
	Timeout time.Duration // then TERM, and KILL shortly after, to the group
}

// Process as the sandbox knows it.
type Process struct {
	ID       string
	Running  bool
	ExitCode int
	Signal   string
	TimedOut bool
	First    int64 // bytes before it are gone
	End      int64
	Started  time.Time
	Finished time.Time
}

// FileInfo describes one file.
type FileInfo struct {
	Path   string
	Size   int64
	Mode   fs.FileMode
	Target string // of a symbolic link
}

// Query is a search for a regular expression (RE2) in the files of a tree.
// Binary and ignored files are left out.
type Query struct {
	Path       string
	Pattern    string
	Glob       string // of the file's name or its path below Path; "" is all
	IgnoreCase bool
	Limit      int // matches
}

// Matches of a Query.
type Matches struct {
	Lines []Match
	More  bool // there are more than Limit
}

// Match is one line.
type Match struct {
	Path string
	Line int
	Text string
}

// Pictures opens pages in a browser inside the sandbox.
type Pictures interface {
	Picture(ctx context.Context, req PictureRequest) (Picture, error)
}

// PictureRequest says what to look at.
type PictureRequest struct {
	URL      string
	Width    int
	Height   int
	FullPage bool
	WaitFor  string // CSS selector; "" is the load event
}

// Picture is a page as it was seen. Digest names the PNG in the store.
type Picture struct {
	PNG     []byte
	Width   int
	Height  int
	Title   string
	Status  int      // of the page itself
	Console []string // errors and warnings
	Failed  []string // requests that failed
	Digest  string
}
