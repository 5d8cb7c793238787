package gitcmd

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	"drydock/internal/core"
)

// Reason is a stable word for why git failed.
type Reason string

const (
	Other            Reason = "other"
	NotRepository    Reason = "not_a_repository" // the local directory is none
	RemoteNotFound   Reason = "remote_not_found"
	Auth             Reason = "auth"
	RefMissing       Reason = "ref_missing"
	NonFastForward   Reason = "non_fast_forward"
	LeaseFailed      Reason = "lease_failed" // somebody moved the ref since it was looked at
	Rejected         Reason = "rejected"     // the remote side said no for another reason
	Unreachable      Reason = "unreachable"
	Certificate      Reason = "certificate"
	BadObject        Reason = "bad_object" // failed the check of its form
	ProtocolRefused  Reason = "protocol_refused"
	Locked           Reason = "locked"
	DiskFull         Reason = "disk_full"
	MergeConflict    Reason = "merge_conflict"
	CheckedOutBranch Reason = "checked_out_branch"
)

// Failure is a run of git that ended badly. It is the cause inside the
// *core.Error that Run and Stream return.
type Failure struct {
	Verb   string
	Exit   int
	Reason Reason
	Stderr string // tail, passwords in URLs removed
}

func (f *Failure) Error() string {
	text := strings.TrimSpace(f.Stderr)
	if text == "" {
		return fmt.Sprintf("git %s ended with exit code %d", f.Verb, f.Exit)
	}
	return text
}

// FailureOf finds the Failure in err's chain.
func FailureOf(err error) (*Failure, bool) { return errors.AsType[*Failure](err) }

// ReasonOf is the reason of the Failure in err's chain, or "".
func ReasonOf(err error) Reason {
	if f, ok := FailureOf(err); ok {
		return f.Reason
	}
	return ""
}

type pattern struct {
	reason Reason
	kind   core.Kind
	hint   string
	texts  []string
}

// patterns are tried in order against standard error in the C locale.
func patterns() []pattern {
	return []pattern{
		{Locked, core.Unavailable, "another git works on this repository; try again", []string{".lock': file exists"}},
		{LeaseFailed, core.Conflict, "fetch again and look at what was pushed meanwhile", []string{"(stale info)", "cannot lock ref"}},
		{NonFastForward, core.Conflict, "fetch again and put the work on top of what was pushed meanwhile", []string{"(non-fast-forward)", "(fetch first)"}},
		{CheckedOutBranch, core.Conflict, "push to a bare repository, or check out another branch there", []string{"refusing to update checked out branch", "branch is currently checked out"}},
		{Rejected, core.Denied, "the remote repository refuses this push; its rules say why", []string{"[remote rejected]"}},
		{BadObject, core.Invalid, "the repository holds a damaged or forged object", []string{"fsck error", "error in object", "index-pack failed", "invalid index-pack", "bad object", "object corrupt", "sha1 collision", "not a valid object", "pack has bad", "corrupt"}},
		{ProtocolRefused, core.Denied, "use a path, http, https or ssh", []string{"transport '"}},
		{Auth, core.Denied, "check the user, the key or the token for this repository", []string{
			"could not read username", "could not read password", "authentication failed", "permission denied (publickey",
			"permission denied, please try again", "terminal prompts disabled", "error: 401", "error: 403", "host key verification failed",
		}},
		{Certificate, core.Unavailable, "set GIT_SSL_CAINFO or SSL_CERT_FILE to the certificate bundle of this host", []string{"ssl certificate", "certificate verif", "server certificate"}},
		{RefMissing, core.NotFound, "check the name of the branch, tag or commit", []string{
			"couldn't find remote ref", "unknown revision", "needed a single revision", "bad revision", "not a valid object name",
			"ambiguous argument", "does not exist in", "not our ref", "src refspec",
		}},
		{RemoteNotFound, core.NotFound, "check the path or URL of the repository, and that this account may read it", []string{
			"repository not found", "does not appear to be a git repository", "error: 404", "not found",
		}},
		{NotRepository, core.NotFound, "name the directory of a git repository", []string{"not a git repository"}},
		{Unreachable, core.Unavailable, "check the network and the proxy settings of this host", []string{
			"could not resolve host", "couldn't resolve", "failed to connect", "couldn't connect", "connection refused", "connection timed out",
			"no route to host", "network is unreachable", "connection reset", "early eof", "hung up unexpectedly", "gnutls recv", "empty reply from server",
			"error: 500", "error: 502", "error: 503", "error: 504",
		}},
		{DiskFull, core.Exhausted, "free space on this disk", []string{"no space left on device", "disk quota exceeded"}},
	}
}

func classify(call Call, exit int, stderr string) error {
	what := verb(call.Args)
	f := &Failure{Verb: what, Exit: exit, Reason: Other, Stderr: Redact(strings.TrimSpace(stderr))}
	kind, hint := core.Internal, ""
	lower := strings.ToLower(stderr)
match:
	for _, p := range patterns() {
		for _, text := range p.texts {
			if strings.Contains(lower, text) {
				f.Reason, kind, hint = p.reason, p.kind, p.hint
				break match
			}
		}
	}
	return core.E("git."+what, kind, f, "git %s failed", what).WithHint("%s", hint)
}

// credentials finds "scheme://user:secret@" and "scheme://token@".
var credentials = regexp.MustCompile(`([A-Za-z][A-Za-z0-9+.-]*://)[^/\s@']+@`)

// Redact removes user names and passwords from URLs in s.
func Redact(s string) string { return credentials.ReplaceAllString(s, "${1}***@") }
