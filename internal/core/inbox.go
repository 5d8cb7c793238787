package core

import "time"

// Inbox is where a person sees what needs them.
type Inbox struct {
	Needs   InboxPart `json:"needs"`
	Running InboxPart `json:"running"`
	Recent  InboxPart `json:"recent"`
}

// InboxPart is one section, or one more page of it.
type InboxPart struct {
	Items []InboxRow `json:"items" nullable:"false"`
	Count int        `json:"count" doc:"of the whole section"`
	Next  string     `json:"next,omitempty" doc:"cursor of the next page of GET /inbox/{section}"`
}

// InboxRow is a session as one person's inbox shows it.
type InboxRow struct {
	Session     Session       `json:"session"`
	Environment string        `json:"environment_name"`
	Section     InboxSection  `json:"section,omitempty" enum:"needs,running,recent" doc:"where it belongs now; left out when archived"`
	Unread      bool          `json:"unread"`
	Seq         int64         `json:"seq" doc:"number of its newest event"`
	Read        int64         `json:"read" doc:"the person's read mark"`
	Change      *ChangeBrief  `json:"change,omitempty"`
	Elapsed     time.Duration `json:"elapsed_ns" doc:"time in runs, up to now"`
	Running     bool          `json:"running" doc:"the time goes on"`
	Parent      SessionID     `json:"parent,omitempty" doc:"session it was forked from"`
}

// ChangeBrief is a change in a line.
type ChangeBrief struct {
	ID      ChangeID    `json:"id"`
	Number  int64       `json:"number"`
	State   ChangeState `json:"state"`
	Verdict string      `json:"verdict,omitempty"`
	Files   int         `json:"files"`
	Added   int         `json:"added"`
	Removed int         `json:"removed"`
}

// InboxCounts are the sizes of the sections that want attention.
type InboxCounts struct {
	Needs   int `json:"needs"`
	Running int `json:"running"`
}

// Read tells how far a person has read a session.
type Read struct {
	Session SessionID `json:"session"`
	Seq     int64     `json:"seq"`
}
