package evidence

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"drydock/internal/proof/exam"
)

// Kinds of problems.
const (
	Altered   = "altered"
	MissingIt = "missing"
	Extra     = "extra"
	Unsigned  = "unsigned"
	Malformed = "malformed"
)

// Problem is one thing that is wrong with a bundle.
type Problem struct {
	Kind string `json:"kind"`
	What string `json:"what"` // "artifact B/1/test/log.txt", "statement A/test", "line 3"
	Text string `json:"text"`
}

// Report of a verification.
type Report struct {
	OK         bool         `json:"ok"`
	Verdict    exam.Verdict `json:"verdict,omitempty"` // as signed; empty if nothing signed says one
	Repository string       `json:"repository,omitempty"`
	Head       string       `json:"head,omitempty"`
	Base       string       `json:"base,omitempty"`
	Key        string       `json:"key,omitempty"` // that signed the evidence statement
	Statements int          `json:"statements"`
	Artifacts  int          `json:"artifacts"`
	Problems   []Problem    `json:"problems"`
}

func (r *Report) problem(kind, what, text string, args ...any) {
	if len(r.Problems) < 1000 {
		r.Problems = append(r.Problems, Problem{kind, what, fmt.Sprintf(text, args...)})
	}
}

// Verify checks a bundle against keys, without a daemon or a network: every
// line and every file is the one that was signed, none is missing and none was
// added. The error is about reading the bundle at all.
func Verify(ctx context.Context, p string, keys []PublicKey) (Report, error) {
	h, err := load(ctx, p)
	if err != nil {
		return Report{}, err
	}
	return verify(h, keys), nil
}

// line is one line of the statements file.
type line struct {
	number  int
	digest  string
	kind    string
	keyID   string
	payload []byte
	err     error
}

func verify(h *held, keys []PublicKey) Report {
	r := Report{Problems: []Problem{}}
	lines := readLines(h.statements, keys)
	if _, ok := h.files[StatementsName]; !ok {
		r.problem(MissingIt, StatementsName, "the file is not in the bundle")
	}
	main, p := mainStatement(&r, lines)
	if main == nil {
		for _, l := range lines {
			r.lineProblem(l)
		}
		return r
	}
	r.Verdict, r.Head, r.Base, r.Repository, r.Key = p.Verdict, p.Head.Commit, p.Base.Commit, p.Repository, main.keyID
	r.Statements, r.Artifacts = len(p.Statements), len(p.Artifacts)
	r.checkLines(lines, main, p)
	r.checkFiles(h, p)
	r.checkManifest(h, p)
	r.OK = len(r.Problems) == 0
	return r
}

func readLines(raw []byte, keys []PublicKey) []*line {
	var out []*line
	for i, text := range bytes.Split(raw, []byte{'\n'}) {
		if len(bytes.TrimSpace(text)) == 0 {
			continue
		}
		l := &line{number: i + 1, digest: digestOf(text)}
		l.payload, l.keyID, l.err = openEnvelope(text, keys)
		if l.err == nil {
			var head struct {
				Type          string `json:"_type"`
				PredicateType string `json:"predicateType"`
			}
			if json.Unmarshal(l.payload, &head) != nil || head.Type != StatementType {
				l.err = errNotEnvelope
			}
			l.kind = head.PredicateType
		}
		if out = append(out, l); len(out) >= maxEntries {
			break
		}
	}
	return out
}

// mainStatement finds the one statement that lists everything else.
func mainStatement(r *Report, lines []*line) (*line, predicate) {
	var found *line
	var p predicate
	for _, l := range lines {
		if l.err != nil || l.kind != EvidenceType {
			continue
		}
		if found != nil {
			r.problem(Extra, fmt.Sprintf("line %d", l.number), "a second evidence statement: one of them belongs to another bundle")
			continue
		}
		var s struct {
			Predicate predicate `json:"predicate"`
		}
		if err := json.Unmarshal(l.payload, &s); err != nil {
			r.problem(Malformed, fmt.Sprintf("line %d", l.number), "the evidence statement cannot be read")
			continue
		}
		found, p = l, s.Predicate
	}
	if found == nil {
		r.problem(MissingIt, "evidence statement", "no line is an evidence statement signed by a known key: nothing in this bundle is vouched for")
	}
	return found, p
}

func (r *Report) lineProblem(l *line) {
	what := fmt.Sprintf("line %d", l.number)
	switch {
	case l.err == nil:
	case errors.Is(l.err, errUnknownKey):
		r.problem(Unsigned, what, "%v", l.err)
	case errors.Is(l.err, errSignature):
		r.problem(Altered, what, "%v", l.err)
	default:
		r.problem(Malformed, what, "%v", l.err)
	}
}

func (r *Report) checkLines(lines []*line, main *line, p predicate) {
	if p.Counts.Statements != len(p.Statements) || p.Counts.Artifacts != len(p.Artifacts) {
		r.problem(Malformed, "evidence statement", "its counts do not fit its lists")
	}
	byDigest := map[string]*line{}
	for _, l := range lines {
		byDigest[l.digest] = l
	}
	listedDigests := map[string]bool{}
	for _, s := range p.Statements {
		listedDigests[s.Digest] = true
		if byDigest[s.Digest] == nil {
			r.problem(MissingIt, "statement "+s.Name, "the line is not there as it was signed: removed or altered")
		}
	}
	seen := map[string]bool{}
	for _, l := range lines {
		switch {
		case l == main:
		case seen[l.digest]:
			r.problem(Extra, fmt.Sprintf("line %d", l.number), "the same line stands there twice")
		case !listedDigests[l.digest]:
			if l.err != nil {
				r.lineProblem(l)
			} else if l.kind != EvidenceType {
				r.problem(Extra, fmt.Sprintf("line %d", l.number), "signed, but no part of this bundle")
			}
		case l.err != nil:
			r.lineProblem(l)
		}
		seen[l.digest] = true
	}
}

func (r *Report) checkFiles(h *held, p predicate) {
	expected := map[string]bool{ManifestName: true, StatementsName: true}
	for _, a := range p.Artifacts {
		_, body, ok := cutDigest(a.Digest)
		if !ok {
			r.problem(Malformed, "artifact "+a.Name, "its digest is %.80q", a.Digest)
			continue
		}
		name := artifactsDir + body
		expected[name] = true
		f, there := h.files[name]
		switch {
		case !there:
			r.problem(MissingIt, "artifact "+a.Name, "%s is not in the bundle", name)
		case f.Digest != a.Digest:
			r.problem(Altered, "artifact "+a.Name, "%s holds %s", name, f.Digest)
		case f.Size != a.Size:
			r.problem(Altered, "artifact "+a.Name, "%s has %d bytes and was signed with %d", name, f.Size, a.Size)
		}
	}
	var extra []string
	for name := range h.files {
		if !expected[name] {
			extra = append(extra, name)
		}
	}
	slices.Sort(extra)
	for _, name := range extra {
		r.problem(Extra, "file "+cleanName(name), "no statement lists it")
	}
	for _, name := range h.odd {
		r.problem(Extra, "entry "+cleanName(name), "it is no plain file of a bundle")
	}
}

func (r *Report) checkManifest(h *held, p predicate) {
	f, ok := h.files[ManifestName]
	switch {
	case !ok:
		r.problem(MissingIt, ManifestName, "the file is not in the bundle")
		return
	case f.Digest != p.Manifest.Digest:
		r.problem(Altered, ManifestName, "it is not the one that was signed")
		return
	}
	m, err := parseManifest(h.manifest)
	if err != nil {
		r.problem(Malformed, ManifestName, "%v", err)
		return
	}
	if m.Result.Verdict != p.Verdict || m.Result.Exam.Head != p.Head.Commit {
		r.problem(Malformed, ManifestName, "it tells another verdict or commit than the statement")
	}
}

// String is the report for people.
func (r Report) String() string {
	var b strings.Builder
	if r.OK {
		fmt.Fprintf(&b, "genuine: %s for %s at %s, %d statements, %d artifacts, key %s\n",
			r.Verdict, cmp.Or(r.Repository, "the repository"), short(r.Head), r.Statements+1, r.Artifacts, short(r.Key))
		return b.String()
	}
	fmt.Fprintf(&b, "NOT genuine: %d problems\n", len(r.Problems))
	for _, p := range r.Problems {
		fmt.Fprintf(&b, "  %s: %s: %s\n", p.Kind, p.What, p.Text)
	}
	return b.String()
}

func short(s string) string {
	if len(s) > 12 {
		return s[:12]
	}
	return s
}
