package core

import "time"

// SessionPage is a session as a page shows it when it opens: everything but
// the bodies of its events, as of one number of its log.
type SessionPage struct {
	Session     Session          `json:"session"`
	Environment EnvironmentBrief `json:"environment"`
	Snapshot    *PageSnapshot    `json:"snapshot,omitempty" doc:"that its sandbox was started from last"`
	Seq         int64            `json:"seq" doc:"number of the newest event: go on with the events after it"`
	Read        int64            `json:"read" doc:"the person's read mark"`
	Elapsed     time.Duration    `json:"elapsed_ns" doc:"time in runs, up to now"`
	Running     bool             `json:"running" doc:"the time goes on"`
	Outline     []OutlineTurn    `json:"outline" nullable:"false" doc:"the newest turns, oldest first"`
	Earlier     int              `json:"earlier,omitempty" doc:"turns before those"`
	Prompts     []PagePrompt     `json:"prompts" nullable:"false" doc:"that are queued, in order"`
	Runs        []PageRun        `json:"runs" nullable:"false" doc:"of the turns in the outline"`
	Change      *Change          `json:"change,omitempty" doc:"without its body"`
	Brief       *ChangeBrief     `json:"change_brief,omitempty"`
	Evidence    *EvidenceBrief   `json:"evidence,omitempty" doc:"newest"`
	Children    []Session        `json:"children" nullable:"false" doc:"forked from this one, at most 100"`
	Parent      SessionID        `json:"parent,omitempty"`
	People      []Author         `json:"people" nullable:"false" doc:"the owner, and who wrote in it"`
	Budget      PageBudget       `json:"budget"`
}

// EnvironmentBrief names an environment.
type EnvironmentBrief struct {
	ID   EnvironmentID `json:"id"`
	Name string        `json:"name"`
}

// PageSnapshot tells what a sandbox was started from.
type PageSnapshot struct {
	ID          SnapshotID    `json:"id"`
	Age         time.Duration `json:"age_ns,omitempty"`
	Commit      string        `json:"commit,omitempty"`
	StartedFrom string        `json:"started_from" doc:"memory or files"`
	Fallback    string        `json:"fallback,omitempty" doc:"why it was not started the best way"`
}

// OutlineTurn is a prompt and what it led to.
type OutlineTurn struct {
	Prompt   PromptID       `json:"prompt"`
	Author   Author         `json:"author"`
	Text     string         `json:"text" doc:"its first 400 characters"`
	Source   string         `json:"source"`
	Run      RunID          `json:"run,omitempty"`
	State    PromptState    `json:"state"`
	FirstSeq int64          `json:"first_seq"`
	LastSeq  int64          `json:"last_seq"`
	Started  time.Time      `json:"started,omitzero"`
	Finished time.Time      `json:"finished,omitzero"`
	Tools    int            `json:"tools" doc:"calls"`
	Files    int            `json:"files" doc:"changed against the base, when it committed"`
	Errors   int            `json:"errors" doc:"calls of tools that failed"`
	Cost     Money          `json:"cost_microusd"`
	Unknown  bool           `json:"cost_unknown,omitempty" doc:"a model without a price was used"`
	Nodes    []OutlineNode  `json:"nodes" nullable:"false"`
	Answer   *OutlineAnswer `json:"answer,omitempty" doc:"newest text of the agent"`
	Marks    []OutlineMark  `json:"marks" nullable:"false"`
	Left     int            `json:"marks_left_out,omitempty" doc:"marks that were too many"`
}

// OutlineNode is one attempt at a step.
type OutlineNode struct {
	Node     string        `json:"node"`
	Title    string        `json:"title"`
	Number   int           `json:"number" doc:"of the attempt, from 1"`
	State    string        `json:"state" enum:"running,done,cut" doc:"cut: the run ended in it"`
	Result   string        `json:"result,omitempty"`
	Started  time.Time     `json:"started"`
	Duration time.Duration `json:"duration_ns,omitempty"`
	Seq      int64         `json:"seq" doc:"of its node.started"`
}

// OutlineAnswer is the beginning of a text.
type OutlineAnswer struct {
	Seq  int64  `json:"seq"`
	Head string `json:"head" doc:"its first 400 characters"`
}

// OutlineMark is an event that people look for.
type OutlineMark struct {
	Seq  int64  `json:"seq"`
	Kind string `json:"kind" enum:"question,approval,denied,error,warning,verdict,change,picture"`
}

// PagePrompt is a queued prompt.
type PagePrompt struct {
	Prompt
	Cut bool `json:"cut,omitempty" doc:"the text is only its first 4000 characters"`
}

// PageRun is a run without what its steps hand on.
type PageRun struct {
	ID       RunID     `json:"id"`
	Prompt   PromptID  `json:"prompt"`
	State    RunState  `json:"state"`
	Outcome  string    `json:"outcome,omitempty"`
	Verdict  string    `json:"verdict,omitempty"`
	Failure  *Failure  `json:"failure,omitempty"`
	Created  time.Time `json:"created"`
	Finished time.Time `json:"finished,omitzero"`
}

// EvidenceBrief names a bundle.
type EvidenceBrief struct {
	ID      EvidenceID `json:"id"`
	Verdict string     `json:"verdict"`
	Created time.Time  `json:"created"`
}

// PageBudget is what may be spent, and what was.
type PageBudget struct {
	Money     Money         `json:"money_microusd,omitempty" doc:"left out: no bound"`
	Spent     Money         `json:"spent_microusd"`
	Unknown   bool          `json:"spent_unknown,omitempty" doc:"a model without a price was used"`
	WallClock time.Duration `json:"wall_clock_ns,omitempty" doc:"left out: no bound"`
	Active    time.Duration `json:"active_ns"`
}

// Found is what a search in a log found, newest first.
type Found struct {
	Hits   []Hit  `json:"hits" nullable:"false"`
	Total  int    `json:"total,omitempty" doc:"events that match; only with the first page"`
	Capped bool   `json:"capped,omitempty" doc:"there are more than were counted"`
	Next   string `json:"next,omitempty" doc:"cursor of the next page"`
}

// Hit is one event that has the words.
type Hit struct {
	Seq     int64     `json:"seq"`
	Kind    EventKind `json:"kind"`
	Time    time.Time `json:"time"`
	Snippet string    `json:"snippet" doc:"the words with what is around them"`
	Turn    PromptID  `json:"turn,omitempty" doc:"prompt whose turn it is in"`
}
