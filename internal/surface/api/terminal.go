package api

// A terminal is one WebSocket. The first message of the client is an
// ExecRequest as text. After it, binary messages of the client are input, and
// text messages are Control. Binary messages of the server carry output: the
// first byte says which stream, the rest is bytes as they came. The last
// message of the server is an ExecEnd as text.
const (
	StreamOutput = 1 // standard output, or everything of a PTY
	StreamError  = 2
)

// ExecRequest says what to run in a session's sandbox.
type ExecRequest struct {
	Argv  []string `json:"argv"` // empty: the login shell
	Dir   string   `json:"dir,omitempty"`
	Env   []string `json:"env,omitempty"`
	PTY   *Size    `json:"pty,omitempty"`
	Stdin bool     `json:"stdin,omitempty"`
}

// Size of a terminal.
type Size struct {
	Rows uint16 `json:"rows"`
	Cols uint16 `json:"cols"`
}

// Control is one thing to do to the process; exactly one field is set.
type Control struct {
	Resize *Size  `json:"resize,omitempty"`
	Signal string `json:"signal,omitempty"` // "INT", "TERM", ...
	EOF    bool   `json:"eof,omitempty"`    // close its input
}

// ExecEnd is how it ended: an exit, or an error that kept it from ending.
type ExecEnd struct {
	ExitCode int    `json:"exit_code"`
	Signal   string `json:"signal,omitempty"`
	Error    *Error `json:"error,omitempty"`
}

// MaxFrame bounds one message of a terminal in either direction.
const MaxFrame = 64 << 10
