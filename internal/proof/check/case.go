// Package check knows what a test case is, and reads the reports that test
// programs write: go test -json, JUnit XML, TAP.
//
// It runs nothing and decides nothing. Reports come from a place nobody
// trusts: every reader is bounded, and what could be read of a broken report
// is kept and marked partial.
package check

import "time"

// Status of one case. The worst status of several tries wins.
type Status string

const (
	Pass    Status = "pass"
	Fail    Status = "fail"  // an assertion said no
	Error   Status = "error" // it could not be judged: panic, build error, set-up fault, no end event
	Skip    Status = "skip"
	Todo    Status = "todo"
	Missing Status = "missing" // listed elsewhere, absent here
)

// ID is a case's identity across cells: normalised, so that addresses,
// temporary paths and times in a name do not make a new case.
type ID struct {
	Check string `json:"check"`
	Suite string `json:"suite"` // file or package
	Class string `json:"class,omitempty"`
	Name  string `json:"name"`
}

// Case is one test.
type Case struct {
	ID       ID            `json:"id"`
	Raw      string        `json:"raw,omitempty"` // name as reported, where it differs
	Status   Status        `json:"status"`
	Tries    []Status      `json:"tries,omitempty"` // when reported more than once
	File     string        `json:"file,omitempty"`
	Line     int           `json:"line,omitempty"`
	Message  string        `json:"message,omitempty"` // why it is not green, cut
	Duration time.Duration `json:"duration_ns,omitempty"`
}

// Report is everything one check run said.
type Report struct {
	Format  string   `json:"format"` // "gotest", "junit", "tap", "exit"
	Cases   []Case   `json:"cases"`
	Partial bool     `json:"partial,omitempty"` // cut off or damaged: cases are those that could be read
	Faults  []string `json:"faults,omitempty"`  // what was wrong with it, for people
}
