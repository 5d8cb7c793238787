package core

import (
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"strings"
	"time"
)

// Identifiers are strings with a prefix that names their kind. They sort by
// the time they were made, and every one of a kind has the same length
// (runsc matches sandbox names by prefix, so lengths must not differ).
type (
	EnvironmentID string // env_
	BuildID       string // bld_
	SnapshotID    string // snp_
	SandboxID     string // sbx_
	SessionID     string // ses_
	PromptID      string // prm_
	RunID         string // run_
	AttemptID     string // att_
	EvidenceID    string // evd_
	ChangeID      string // chg_
	ApprovalID    string // apr_
	CommentID     string // cmt_
	TokenID       string // tok_
	DraftID       string // drf_
	ThreadID      string // thr_: that of its first comment, with another prefix
	NoteID        string // nte_: a comment that is being written
)

// idAlphabet is Crockford's base 32 in lower case: no i, l, o, u.
const idAlphabet = "0123456789abcdefghjkmnpqrstvwxyz"

// idBody is 10 characters of time (milliseconds) and 8 random ones (40 bits).
const (
	idTimeLen = 10
	idRandLen = 8
	idBodyLen = idTimeLen + idRandLen
)

func newID(prefix string) string {
	var raw [8]byte
	_, _ = rand.Read(raw[:5]) // crypto/rand.Read never fails since Go 1.24
	random := binary.BigEndian.Uint64(append([]byte{0, 0, 0}, raw[:5]...))
	return prefix + encode32(uint64(time.Now().UnixMilli()), idTimeLen) + encode32(random, idRandLen)
}

func encode32(v uint64, n int) string {
	out := make([]byte, n)
	for i := n - 1; i >= 0; i-- {
		out[i] = idAlphabet[v&31]
		v >>= 5
	}
	return string(out)
}

func NewEnvironmentID() EnvironmentID { return EnvironmentID(newID("env_")) }
func NewBuildID() BuildID             { return BuildID(newID("bld_")) }
func NewSnapshotID() SnapshotID       { return SnapshotID(newID("snp_")) }
func NewSandboxID() SandboxID         { return SandboxID(newID("sbx_")) }
func NewSessionID() SessionID         { return SessionID(newID("ses_")) }
func NewPromptID() PromptID           { return PromptID(newID("prm_")) }
func NewRunID() RunID                 { return RunID(newID("run_")) }
func NewAttemptID() AttemptID         { return AttemptID(newID("att_")) }
func NewEvidenceID() EvidenceID       { return EvidenceID(newID("evd_")) }
func NewChangeID() ChangeID           { return ChangeID(newID("chg_")) }
func NewApprovalID() ApprovalID       { return ApprovalID(newID("apr_")) }
func NewCommentID() CommentID         { return CommentID(newID("cmt_")) }
func NewTokenID() TokenID             { return TokenID(newID("tok_")) }
func NewDraftID() DraftID             { return DraftID(newID("drf_")) }
func NewNoteID() NoteID               { return NoteID(newID("nte_")) }

// ThreadOf is the thread that a comment begins.
func ThreadOf(first CommentID) ThreadID {
	return ThreadID("thr_" + strings.TrimPrefix(string(first), "cmt_"))
}

// First is the comment that began a thread.
func (t ThreadID) First() CommentID {
	return CommentID("cmt_" + strings.TrimPrefix(string(t), "thr_"))
}

// ParseID checks that s is an identifier of the kind that prefix names
// ("ses_", ...) and returns it typed. Everything that arrives from outside as
// an identifier passes here, since identifiers become file names.
func ParseID[T ~string](prefix, s string) (T, error) {
	body, ok := strings.CutPrefix(s, prefix)
	if !ok || len(body) != idBodyLen || strings.Trim(body, idAlphabet) != "" {
		return "", E("id.parse", Invalid, nil, "%q is not an identifier of the form %s followed by %d characters",
			clip(s, 40), prefix, idBodyLen)
	}
	return T(s), nil
}

func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return fmt.Sprintf("%s... (%d bytes)", s[:n], len(s))
}
