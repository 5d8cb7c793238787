package check

import "time"

// Status of one case. The worst status of several tries wins.
type Status string

const (
	Pass    Status = "pass"
	Fail    Status = "fail"  // an assertion said no
	Error   Status = "error" // it ended without a judgement: see Fault
	Skip    Status = "skip"
	Todo    Status = "todo"
	Missing Status = "missing" // listed elsewhere, absent here
)

// Red reports whether the case says that something is wrong.
func (s Status) Red() bool { return s == Fail || s == Error }

// Fault says why a case is an Error and not a Fail.
type Fault string

const (
	FaultNone      Fault = ""
	FaultCrash     Fault = "crash"     // the code under test crashed: the topmost frame is not in a test file
	FaultTest      Fault = "test"      // the test itself crashed, or nobody can say who did
	FaultBuild     Fault = "build"     // it did not compile, import or load
	FaultInterface Fault = "interface" // it uses a name that the code does not have
	FaultSetup     Fault = "setup"     // a fixture or hook broke before or after the test
	FaultTimeout   Fault = "timeout"   // it did not end in time
	FaultLost      Fault = "lost"      // started, and nothing more was heard of it
	FaultExit      Fault = "exit"      // an exit code is all that is known
)

// ID is a case's identity across cells: normalised, so that addresses,
// temporary paths and times in a name do not make a new case.
type ID struct {
	Check string `json:"check"`
	Suite string `json:"suite,omitempty"` // file or package
	Class string `json:"class,omitempty"`
	Name  string `json:"name"`
}

// String is the identity in one line, for people.
func (id ID) String() string {
	out := id.Name
	if id.Class != "" {
		out = id.Class + " > " + out
	}
	if id.Suite != "" {
		out = id.Suite + ": " + out
	}
	return out
}

// Compare orders identities for lists.
func (id ID) Compare(other ID) int {
	for _, pair := range [][2]string{
		{id.Check, other.Check}, {id.Suite, other.Suite}, {id.Class, other.Class}, {id.Name, other.Name},
	} {
		switch {
		case pair[0] < pair[1]:
			return -1
		case pair[0] > pair[1]:
			return 1
		}
	}
	return 0
}

// Case is one test.
type Case struct {
	ID       ID            `json:"id"`
	Raw      string        `json:"raw,omitempty"` // name as reported, where it differs
	Status   Status        `json:"status"`
	Fault    Fault         `json:"fault,omitempty"`
	Tries    []Status      `json:"tries,omitempty"`   // when reported more than once
	Group    bool          `json:"group,omitempty"`   // it has cases below it
	Derived  bool          `json:"derived,omitempty"` // red only because a case below it is
	File     string        `json:"file,omitempty"`
	Line     int           `json:"line,omitempty"`
	Message  string        `json:"message,omitempty"` // why it is not green, cut
	Duration time.Duration `json:"duration_ns,omitempty"`
}

// Mixed reports whether the tries inside one report disagree about red and
// green: the runner retried it.
func (c Case) Mixed() bool {
	red, green := false, false
	for _, s := range c.Tries {
		red = red || s.Red()
		green = green || s == Pass
	}
	return red && green
}

// Report is everything one check run said.
type Report struct {
	Format  string   `json:"format"` // "gotest", "junit", "tap", "exit"
	Cases   []Case   `json:"cases"`
	Partial bool     `json:"partial,omitempty"` // cut off or damaged: cases are those that could be read
	Cached  bool     `json:"cached,omitempty"`  // the runner answered from a cache, at least in part
	Faults  []string `json:"faults,omitempty"`  // what was wrong with it, for people
}

// Counts of a report. Groups that are red only because of a case below them
// are not counted.
type Counts struct {
	Passed  int `json:"passed"`
	Failed  int `json:"failed"` // Fail and Error
	Skipped int `json:"skipped"`
}

// Count counts.
func (r Report) Count() Counts {
	var c Counts
	for _, one := range r.Cases {
		switch {
		case one.Derived:
		case one.Status.Red():
			c.Failed++
		case one.Status == Pass:
			c.Passed++
		default:
			c.Skipped++
		}
	}
	return c
}

// Options tell a reader where the report belongs.
type Options struct {
	Check string // name of the check, first part of every identity
	Root  string // directory of the repository in the room; stripped from paths
}

// Bounds of every reader. What is beyond them is dropped and the report is
// marked partial.
const (
	maxCases   = 200_000
	maxText    = 4 << 10  // of one message
	maxName    = 2 << 10  // of one name
	maxLine    = 4 << 20  // of one line of a text format
	maxKept    = 32 << 10 // output kept per case while reading
	maxAllKept = 64 << 20 // output kept for all cases
	maxBytes   = 1 << 30  // of one report
)
