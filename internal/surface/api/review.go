package api

import "drydock/internal/core"

// MarkViewed says that a file has been looked at, or not.
type MarkViewed struct {
	Path   string `json:"path" minLength:"1" maxLength:"4096"`
	Raw    []byte `json:"raw,omitempty" doc:"of the list of files, where there is one"`
	Blob   string `json:"blob,omitempty" maxLength:"64" doc:"new_blob of the list of files; empty for a deleted file"`
	Viewed bool   `json:"viewed"`
}

// Name is the path, byte for byte.
func (m MarkViewed) Name() string {
	if len(m.Raw) > 0 {
		return string(m.Raw)
	}
	return m.Path
}

// MarkSeen names the head that somebody has looked at.
type MarkSeen struct {
	Head string `json:"head" minLength:"40" maxLength:"64"`
}

// PlaceOf is the place of a change that a comment is about. Without a path it
// is the change, without a line the file.
type PlaceOf struct {
	Path    string `json:"path,omitempty" maxLength:"4096"`
	Raw     []byte `json:"raw,omitempty" doc:"of the list of files, where there is one"`
	Side    string `json:"side,omitempty" enum:"old,new" doc:"default new"`
	Line    int    `json:"line,omitempty" minimum:"0"`
	EndLine int    `json:"end_line,omitempty" minimum:"0"`
	Head    string `json:"head,omitempty" maxLength:"64" doc:"commit that was looked at; default the head"`
}

// Anchor is the same in core's words; what stands there is the server's to say.
func (p PlaceOf) Anchor() core.Anchor {
	return core.Anchor{Path: p.Path, Raw: p.Raw, Side: p.Side, Line: p.Line, EndLine: p.EndLine, Head: p.Head}
}

// WriteNote keeps a comment that is being written.
type WriteNote struct {
	Anchor   PlaceOf `json:"anchor"`
	Body     string  `json:"body" minLength:"1" maxLength:"65536"`
	ClientID string  `json:"client_id,omitempty" maxLength:"100" doc:"the client's own id: a retry with it is not a second draft"`
}

// RewriteNote changes one.
type RewriteNote struct {
	Body string `json:"body" minLength:"1" maxLength:"65536"`
}

// SendNotes makes comments of all of them.
type SendNotes struct {
	To       string `json:"to" enum:"agent,people" doc:"agent: they become one prompt of yours"`
	Note     string `json:"note,omitempty" maxLength:"16384" doc:"stands above them, and is a comment of its own"`
	ClientID string `json:"client_id" minLength:"1" maxLength:"100" doc:"the same one again answers with what the first sent"`
}

// SetThread ends a thread or opens it again.
type SetThread struct {
	State string `json:"state" enum:"resolved,open"`
}

// ReplyTo adds a comment to a thread.
type ReplyTo struct {
	Body     string `json:"body" minLength:"1" maxLength:"65536"`
	ClientID string `json:"client_id,omitempty" maxLength:"100" doc:"the client's own id: a retry with it is not a second comment"`
}

// HandBack gives a change back to the agent.
type HandBack struct {
	Note     string `json:"note" minLength:"1" maxLength:"16384"`
	ClientID string `json:"client_id,omitempty" maxLength:"100" doc:"the client's own id: a retry with it is not a second prompt"`
}
