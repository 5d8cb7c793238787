package guest

import (
	"io/fs"
	"time"
)

// Protocol is the version of the wire protocol. A client refuses a guest that
// speaks another one; old memory images are dropped, not translated.
const Protocol = 1

// Names of the two output streams.
const (
	Stdout = "stdout"
	Stderr = "stderr"
)

// Bounds that both sides keep.
const (
	MaxJSON    = 16 << 20 // one JSON body
	MaxInput   = 4 << 20  // Command.Input, and one write to standard input
	MaxLimit   = 8 << 20  // Command.Limit
	MaxRead    = 64 << 20 // one ReadFile
	MaxEntries = 100_000  // of one List or Walk
)

// Health is what a running supervisor says of itself. Instance changes with
// every start and every Rotate.
type Health struct {
	Protocol  int       `json:"protocol"`
	Version   string    `json:"version"`
	Instance  string    `json:"instance"`
	Started   time.Time `json:"started"`
	Now       time.Time `json:"now"`
	Running   int       `json:"running"`    // processes
	Known     int       `json:"known"`      // processes, finished ones included
	RingBytes int64     `json:"ring_bytes"` // kept output
	Load      string    `json:"load,omitempty"`
	MemTotal  int64     `json:"mem_total,omitempty"`
	MemFree   int64     `json:"mem_free,omitempty"`
}

// SetupResult lists what could not be done, which is no error: a driver may
// have done it already.
type SetupResult struct {
	Warnings []string      `json:"warnings,omitempty"`
	Skew     time.Duration `json:"skew_ns"`           // the sandbox's clock minus Setup.Clock
	Missing  []string      `json:"missing,omitempty"` // paths of files whose content is wanted
}

// WalkOptions say what Walk lists. Paths in the result are absolute.
type WalkOptions struct {
	Dir       string `json:"dir"`
	Limit     int    `json:"limit,omitempty"`     // default and bound MaxEntries
	Depth     int    `json:"depth,omitempty"`     // 0: no bound
	SkipGit   bool   `json:"skip_git,omitempty"`  // directories named .git
	GitIgnore bool   `json:"gitignore,omitempty"` // leave out what .gitignore files name
}

// WalkResult is a list of files in lexical order per directory.
type WalkResult struct {
	Files []FileInfo `json:"files"`
	Cut   bool       `json:"cut,omitempty"` // Limit was reached
}

// TarOptions say what TarOut packs. Names in the archive are relative to Dir.
type TarOptions struct {
	Dir     string   `json:"dir"`
	Paths   []string `json:"paths,omitempty"`   // relative to Dir; none means all of it
	Exclude []string `json:"exclude,omitempty"` // patterns in the manner of .gitignore
}

// SearchRequest is a search in the manner of ripgrep.
type SearchRequest struct {
	Pattern    string   `json:"pattern"` // RE2
	Literal    bool     `json:"literal,omitempty"`
	IgnoreCase bool     `json:"ignore_case,omitempty"`
	Dir        string   `json:"dir,omitempty"`   // or a single file; default like Command.Dir
	Globs      []string `json:"globs,omitempty"` // a leading ! leaves out
	Hidden     bool     `json:"hidden,omitempty"`
	NoIgnore   bool     `json:"no_ignore,omitempty"`
	Context    int      `json:"context,omitempty"` // lines before and after, at most 20
	Limit      int      `json:"limit,omitempty"`   // matching lines; default 200, at most 5000
	FilesOnly  bool     `json:"files_only,omitempty"`
}

// Match is one matching line, or one file with FilesOnly.
type Match struct {
	Path   string   `json:"path"`
	Line   int      `json:"line,omitempty"`
	Column int      `json:"column,omitempty"` // in bytes, from 1
	Text   string   `json:"text,omitempty"`   // cut to 2000 bytes
	Before []string `json:"before,omitempty"`
	After  []string `json:"after,omitempty"`
}

// SearchResult holds matches by path, then line.
type SearchResult struct {
	Matches  []Match `json:"matches"`
	Files    int     `json:"files"`            // read
	Binary   int     `json:"binary,omitempty"` // left out as not text
	TooLarge int     `json:"too_large,omitempty"`
	Cut      bool    `json:"cut,omitempty"` // Limit was reached
}

// Port is a TCP port something listens on.
type Port struct {
	Port    int    `json:"port"`
	Address string `json:"address"` // "0.0.0.0", "127.0.0.1", "::", ...
}

// Requests and answers that are the protocol's own. They are exported for the
// supervisor, not for callers.
type (
	// ErrorBody is the body of every answer that is no success.
	ErrorBody struct {
		Error struct {
			Kind    string `json:"kind"`
			Message string `json:"message"`
			Hint    string `json:"hint,omitempty"`
		} `json:"error"`
	}
	// RunReply carries a Result.
	RunReply struct {
		Process   Process       `json:"process"`
		Stdout    []byte        `json:"stdout,omitempty"`
		Stderr    []byte        `json:"stderr,omitempty"`
		Truncated bool          `json:"truncated,omitempty"`
		Duration  time.Duration `json:"duration_ns"`
	}
	// ProcessRef names a process by ID or, failing that, by key.
	ProcessRef struct {
		ID  ProcessID `json:"id,omitempty"`
		Key string    `json:"key,omitempty"`
	}
	// SignalRequest sends a signal to the process group.
	SignalRequest struct {
		ProcessRef
		Signal string `json:"signal"` // "TERM", "INT", ...
	}
	// StopRequest sends TERM, and KILL after Grace, without waiting.
	StopRequest struct {
		ProcessRef
		Grace time.Duration `json:"grace_ns"`
	}
	// ResizeRequest changes the size of a terminal.
	ResizeRequest struct {
		ProcessRef
		Size Size `json:"size"`
	}
	// PathRequest names one path.
	PathRequest struct {
		Path      string      `json:"path"`
		To        string      `json:"to,omitempty"` // rename: new name; symlink: what it points to
		Mode      fs.FileMode `json:"mode,omitempty"`
		Recursive bool        `json:"recursive,omitempty"`
	}
	// TokenRequest replaces the token.
	TokenRequest struct {
		Token string `json:"token"`
	}
	// NameRequest names a service.
	NameRequest struct {
		Name string `json:"name"`
	}
)

// Frames of an output stream: 8 bytes of offset, 4 bytes of length (both big
// endian), then the bytes. A frame of length 0 says only that the connection
// is alive. FrameEnd as length ends the stream: nothing more will come.
const (
	FrameHeader = 12
	FrameMax    = 64 << 10
	FrameEnd    = 0xffffffff
)
