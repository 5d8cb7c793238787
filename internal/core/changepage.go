package core

import "time"

// ChangePage is everything that the page of a change shows at once.
type ChangePage struct {
	Change      Change           `json:"change"`
	Session     *PageSession     `json:"session,omitempty"`
	Environment *PageEnvironment `json:"environment,omitempty"`
	Verdict     PageVerdict      `json:"verdict"`
	Meaning     []PageMeaning    `json:"meaning" nullable:"false"`
	Checks      []PageCheck      `json:"checks" nullable:"false"`
	Pictures    []PagePicture    `json:"pictures" nullable:"false"`
	Commits     []PageCommit     `json:"commits" nullable:"false"`
	Files       PageFiles        `json:"files"`
	Threads     PageThreads      `json:"threads"`
	Approvals   []ChangeApproval `json:"approvals" nullable:"false"`
	Me          PageMe           `json:"me"`
	Actions     []string         `json:"actions" nullable:"false"` // approve, merge, close, reopen, comment, send, hand_back, rerun
}

// PageSession is the session that a change came from.
type PageSession struct {
	ID    SessionID    `json:"id"`
	Title string       `json:"title"`
	State SessionState `json:"state"`
}

// PageEnvironment is the environment of a change.
type PageEnvironment struct {
	ID   EnvironmentID `json:"id"`
	Name string        `json:"name"`
}

// PageVerdict is what the proof says. Stale: it speaks of another commit.
type PageVerdict struct {
	Verdict  string     `json:"verdict,omitempty"`
	Code     string     `json:"code,omitempty"`
	Reasons  []string   `json:"reasons" nullable:"false"`
	NotShown []string   `json:"not_shown" nullable:"false"`
	Evidence EvidenceID `json:"evidence,omitempty"`
	Head     string     `json:"head,omitempty"` // that was judged
	Stale    bool       `json:"stale"`
	Missing  bool       `json:"missing,omitempty"` // the evidence is not kept any more
}

// PageMeaning is something that changes what the proof means.
type PageMeaning struct {
	Kind string `json:"kind"` // code of a finding or a guard, or dependencies, protected, rules, acknowledged
	Path string `json:"path,omitempty"`
	Line int    `json:"line,omitempty"`
	Text string `json:"text"`
	Risk string `json:"risk" enum:"note,look,stop"`
	Old  string `json:"old,omitempty"` // the assertion before
	New  string `json:"new,omitempty"`
}

// PageCheck is one check with its cells and cases.
type PageCheck struct {
	Check    string              `json:"check"`
	Optional bool                `json:"optional,omitempty"`
	Cells    map[string]PageCell `json:"cells" nullable:"false"`  // A, B, C, D
	Counts   map[string]int      `json:"counts" nullable:"false"` // cases by class
	Cases    []PageCase          `json:"cases" nullable:"false"`
	Kept     int                 `json:"kept"`           // green before and after; not in cases
	More     int                 `json:"more,omitempty"` // of the other classes, beyond 500
}

// PageCell is one check in one cell.
type PageCell struct {
	Result   string        `json:"result" enum:"green,red,died,timed_out"`
	Passed   int           `json:"passed"`
	Failed   int           `json:"failed"`
	Skipped  int           `json:"skipped"`
	Duration time.Duration `json:"duration_ns"`
	ExitCode int           `json:"exit_code"`
	Cached   bool          `json:"cached,omitempty"` // known from an earlier proof
	Log      *PageFile     `json:"log,omitempty"`
}

// PageFile is an artifact of the evidence.
type PageFile struct {
	Digest string `json:"digest"`
	Size   int64  `json:"size"`
}

// PageCase is one case across the cells.
type PageCase struct {
	ID      string            `json:"id"`
	Name    string            `json:"name"`
	Suite   string            `json:"suite,omitempty"`
	Class   string            `json:"class" enum:"fixed,broken,still_red,new,gone,flaky,changed,skipped,still_skipped,kept"`
	Cells   map[string]string `json:"cells" nullable:"false"` // red, green, mixed, skip, -
	Weak    bool              `json:"weak,omitempty"`
	Message string            `json:"message,omitempty"`
	Note    string            `json:"note,omitempty"`
	At      *PageAt           `json:"at,omitempty"`
}

// PageAt is a line of a log.
type PageAt struct {
	Digest string `json:"digest"`
	Line   int    `json:"line"`
}

// PageCases is one page of a check's cases.
type PageCases struct {
	Items []PageCase
	Next  string
}

// PagePicture is one page, before and after.
type PagePicture struct {
	Name       string          `json:"name"`
	Viewport   string          `json:"viewport,omitempty"`
	Before     *PageImage      `json:"before,omitempty"`
	After      *PageImage      `json:"after,omitempty"`
	Difference *PageDifference `json:"difference,omitempty"`
	Status     string          `json:"status" enum:"same,changed,new,gone,not_taken"`
	Why        string          `json:"why,omitempty"`
}

// PageImage is a picture.
type PageImage struct {
	Digest string `json:"digest"`
	Width  int    `json:"width"`
	Height int    `json:"height"`
}

// PageDifference is what differs between two pictures, as shares of all pixels.
type PageDifference struct {
	Digest string  `json:"digest,omitempty"`
	Share  float64 `json:"share"`
	Noise  float64 `json:"noise"`
}

// PageCommit is one commit of a change, oldest first.
type PageCommit struct {
	ID      string    `json:"id"`
	Subject string    `json:"subject"`
	Author  string    `json:"author"`
	Time    time.Time `json:"time"`
}

// PageFiles sums up the ChangeDiff of base and head.
type PageFiles struct {
	Count   int    `json:"count"`
	Added   int    `json:"added"`
	Removed int    `json:"removed"`
	Digest  string `json:"digest"`
}

// PageThreads counts what was said; drafts are the asking person's.
type PageThreads struct {
	Open   int `json:"open"`
	Drafts int `json:"drafts"`
}

// PageMe is what the asking person is to a change.
type PageMe struct {
	AuthorOfPrompt bool      `json:"author_of_prompt"`
	MayApprove     bool      `json:"may_approve"`
	WhyNot         string    `json:"why_not,omitempty"`
	MayMerge       bool      `json:"may_merge"`
	WhyNotMerge    string    `json:"why_not_merge,omitempty"`
	Approved       bool      `json:"approved"` // this head
	Seen           *SeenMark `json:"seen,omitempty"`
}
