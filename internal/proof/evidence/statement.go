package evidence

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"time"

	"drydock/internal/proof/check"
	"drydock/internal/proof/exam"
)

// Types of statements.
const (
	StatementType  = "https://in-toto.io/Statement/v1"
	TestResultType = "https://in-toto.io/attestation/test-result/v0.1"
	EvidenceType   = "urn:drydock:evidence:v1"
)

type statement struct {
	Type          string     `json:"_type"`
	Subject       []resource `json:"subject"`
	PredicateType string     `json:"predicateType"`
	Predicate     any        `json:"predicate"`
}

// resource is an in-toto resource descriptor.
type resource struct {
	Name      string            `json:"name,omitempty"`
	URI       string            `json:"uri,omitempty"`
	Digest    map[string]string `json:"digest,omitempty"`
	MediaType string            `json:"mediaType,omitempty"`
}

// testResult is the predicate that other people's tools read.
type testResult struct {
	Result        string     `json:"result"` // PASSED, WARNED, FAILED
	Configuration []resource `json:"configuration"`
	PassedTests   []string   `json:"passedTests"`
	WarnedTests   []string   `json:"warnedTests"`
	FailedTests   []string   `json:"failedTests"`
}

// predicate is our own: everything a person or a machine needs to judge the
// verdict, and the digests that hold the bundle together.
type predicate struct {
	Created      time.Time              `json:"created"`
	Verdict      exam.Verdict           `json:"verdict"`
	Code         string                 `json:"code"`
	Tier         string                 `json:"tier,omitempty"`
	Reasons      []string               `json:"reasons"`
	NotShown     []string               `json:"not_shown"`
	Repository   string                 `json:"repository"`
	Base         commitTree             `json:"base"`
	Head         commitTree             `json:"head"`
	Environment  string                 `json:"environment"`
	Snapshot     string                 `json:"snapshot"`
	Runtime      string                 `json:"runtime,omitempty"`
	Cases        []exam.CaseRow         `json:"cases"`
	Commands     []command              `json:"commands"`
	Acknowledged []exam.Acknowledgement `json:"acknowledged,omitempty"`
	Manifest     listed                 `json:"manifest"`
	Statements   []listed               `json:"statements"` // every other one
	Artifacts    []listed               `json:"artifacts"`
	Counts       counts                 `json:"counts"`
}

type commitTree struct {
	Commit string `json:"commit"`
	Tree   string `json:"tree"`
}

type command struct {
	Cell     exam.Cell `json:"cell"`
	Try      int       `json:"try"`
	Check    string    `json:"check"`
	Command  string    `json:"command"`
	ExitCode int       `json:"exit_code"`
	Cached   bool      `json:"cached,omitempty"`
}

type listed struct {
	Name   string `json:"name"`
	Digest string `json:"digest"`
	Size   int64  `json:"size"`
}

type counts struct {
	Statements int `json:"statements"`
	Artifacts  int `json:"artifacts"`
}

func digestOf(b []byte) string {
	sum := sha256.Sum256(b)
	return "sha256:" + hex.EncodeToString(sum[:])
}

func subject(r exam.Result) []resource {
	return []resource{{
		Name:   r.Exam.Repository,
		Digest: map[string]string{"gitCommit": r.Exam.Head, "gitTree": r.HeadTree},
	}}
}

// testStatements makes one statement for each check and cell.
func testStatements(r exam.Result) (names []string, out []statement) {
	for _, cell := range []exam.Cell{exam.CellA, exam.CellB, exam.CellC, exam.CellD} {
		for _, c := range r.Exam.Checks {
			if !slices.ContainsFunc(r.Runs, func(run exam.RunRecord) bool { return run.Cell == cell && run.Check == c.Name }) {
				continue
			}
			p := testResult{Result: "PASSED", Configuration: configuration(r, cell, c), PassedTests: []string{}, WarnedTests: []string{}, FailedTests: []string{}}
			for _, row := range r.Cases {
				if row.ID.Check != c.Name {
					continue
				}
				p.place(row.ID.String(), row.Cells[cell])
			}
			for _, run := range r.Runs {
				if run.Cell == cell && run.Check == c.Name && (run.ExitCode != 0 || run.TimedOut || len(run.Guards) > 0) && p.Result == "PASSED" {
					p.Result = "FAILED"
				}
			}
			names = append(names, string(cell)+"/"+c.Name)
			out = append(out, statement{Type: StatementType, Subject: subject(r), PredicateType: TestResultType, Predicate: p})
		}
	}
	return names, out
}

// place sorts a case: the format knows neither skipped nor flaky, so a case
// that was red and green warns, and one that never ran is in no list.
func (p *testResult) place(name string, tries []check.Status) {
	red := slices.ContainsFunc(tries, check.Status.Red)
	green := slices.Contains(tries, check.Pass)
	switch {
	case red && green:
		p.WarnedTests = append(p.WarnedTests, name)
		p.Result = cmp.Or(map[bool]string{true: "WARNED"}[p.Result == "PASSED"], p.Result)
	case red:
		p.FailedTests = append(p.FailedTests, name)
		p.Result = "FAILED"
	case green:
		p.PassedTests = append(p.PassedTests, name)
	}
}

func configuration(r exam.Result, cell exam.Cell, c exam.CheckSpec) []resource {
	hex := func(digest string) map[string]string {
		_, body, _ := cutDigest(digest)
		return map[string]string{"sha256": body}
	}
	out := []resource{
		{Name: "cell", URI: "urn:drydock:cell:" + string(cell)},
		{Name: "base", Digest: map[string]string{"gitCommit": r.Exam.Base, "gitTree": r.BaseTree}},
		{Name: "command", Digest: hex(digestOf([]byte(c.Run)))},
	}
	for _, run := range r.Runs {
		if run.Cell == cell && run.Check == c.Name {
			for _, a := range run.Artifacts {
				out = append(out, resource{Name: a.Name, Digest: hex(a.Digest), MediaType: a.MediaType})
			}
		}
	}
	return out
}

func cutDigest(digest string) (algorithm, body string, ok bool) {
	const prefix = "sha256:"
	if len(digest) != len(prefix)+64 || digest[:len(prefix)] != prefix {
		return "", "", false
	}
	for _, c := range digest[len(prefix):] {
		if (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return "", "", false
		}
	}
	return "sha256", digest[len(prefix):], true
}
