package core

import "time"

// Anchor is the place of a change that a comment is about. Without Path it is
// the change, without Line the file.
type Anchor struct {
	Path    string `json:"path,omitempty"`
	Raw     []byte `json:"raw,omitempty"` // of the path, where it is not UTF-8
	Side    string `json:"side,omitempty" enum:"old,new"`
	Line    int    `json:"line,omitempty"`
	EndLine int    `json:"end_line,omitempty"` // 0: the line alone
	Head    string `json:"head"`               // commit of the change that it was written on
	Base    string `json:"base,omitempty"`     // where Head had left its base; lines of the old side are its
	Hunk    string `json:"hunk,omitempty"`     // what stood there, as in a patch; at most 20 lines
}

// Note is a comment that somebody is writing; nobody else sees it.
type Note struct {
	ID       NoteID    `json:"id"`
	Change   ChangeID  `json:"change"`
	Author   string    `json:"-"`
	ClientID string    `json:"client_id,omitempty"`
	Anchor   Anchor    `json:"anchor"`
	Body     string    `json:"body"`
	Created  time.Time `json:"created"`
	Updated  time.Time `json:"updated"`
}

// ThreadMark is what is known of a thread beside its comments.
type ThreadMark struct {
	ID         ThreadID
	Change     ChangeID
	Anchor     Anchor
	ResolvedBy string
	Resolved   time.Time
}

// States of a thread, as people see them.
const (
	ThreadDraft    = "draft"
	ThreadSent     = "sent"
	ThreadAnswered = "answered"
	ThreadResolved = "resolved"
)

// Thread is a remark with what was said to it.
type Thread struct {
	ID         ThreadID      `json:"id"` // of a draft the draft's
	Anchor     Anchor        `json:"anchor"`
	Now        *AnchorNow    `json:"now,omitempty"`  // where the lines are in the head
	Lost       bool          `json:"lost,omitempty"` // they are not there any more
	State      string        `json:"state" enum:"draft,sent,answered,resolved"`
	Comments   []Comment     `json:"comments" nullable:"false"`
	Prompt     PromptID      `json:"prompt,omitempty"`
	Answered   *ThreadAnswer `json:"answered,omitempty"`
	ResolvedBy string        `json:"resolved_by,omitempty"`
	Resolved   time.Time     `json:"resolved,omitzero"`
}

// AnchorNow is where an anchor's lines are now.
type AnchorNow struct {
	Path    string `json:"path,omitempty"` // set where the file was renamed
	Raw     []byte `json:"raw,omitempty"`
	Line    int    `json:"line"`
	EndLine int    `json:"end_line,omitempty"`
}

// ThreadAnswer is the commit that answered a thread.
type ThreadAnswer struct {
	Commit string `json:"commit"`
	Patch  string `json:"patch,omitempty"` // what it did there; at most 4 KiB
}

// Sending makes comments of all that somebody has written.
type Sending struct {
	To       string // agent, people
	Note     string // stands above the comments
	ClientID string // the same one again answers with what the first sent
}

// SentNotes is what was sent.
type SentNotes struct {
	Comments []Comment `json:"comments" nullable:"false"`
	Prompt   *Prompt   `json:"prompt,omitempty"`
}

// SeenMark is what somebody last looked at.
type SeenMark struct {
	Head string    `json:"head"`
	Base string    `json:"-"`
	At   time.Time `json:"at"`
}

// ViewedMark is one file that somebody has looked at.
type ViewedMark struct {
	Path   string
	Blob   string // "" for a file that the change deletes
	Viewed bool
}
