package core

// Requests that cross from the surface to coordination. Every one names its
// author; nothing is done for nobody.

// NewSession asks for a session with its first prompt.
type NewSession struct {
	Environment string // name or identifier
	Prompt      NewPrompt
	Title       string // default: first line of the prompt
	Blueprint   string // default "code-change"
	Agent       string // default "builtin"
	Model       string // default of the configuration
	Base        string // branch; default the environment's
	Budget      Budget
	Draft       DraftID // sandbox that was claimed while somebody typed
}

// NewPrompt asks for one more prompt. ClientID makes a retry harmless.
type NewPrompt struct {
	Author   Author
	Text     string
	ClientID string
	Source   string
}

// Page asks for a part of a list: at most Limit entries after Cursor, which is
// the Next of the page before ("" for the first).
type Page struct {
	Limit  int
	Cursor string
}

// DefaultPage and MaxPage bound Limit.
const (
	DefaultPage = 50
	MaxPage     = 500
)

// Size is the limit to use.
func (p Page) Size() int {
	switch {
	case p.Limit <= 0:
		return DefaultPage
	case p.Limit > MaxPage:
		return MaxPage
	}
	return p.Limit
}

// SessionFilter narrows a list of sessions; zero fields do not.
type SessionFilter struct {
	Environment EnvironmentID
	State       SessionState
	Owner       string
	Text        string // in the title
	Archived    bool   // also archived ones
}

// ChangeFilter narrows a list of changes.
type ChangeFilter struct {
	Repository string
	State      ChangeState
	Session    SessionID
}
