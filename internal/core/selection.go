package core

import "time"

// SelectionID is sel_.
type SelectionID string

// NewSelectionID makes one.
func NewSelectionID() SelectionID { return SelectionID(newID("sel_")) }

// Bounds of how many sessions one selection has.
const (
	MinSelection = 2
	MaxSelection = 10
)

// SelectionState says how far a selection is. Open: its sessions work.
// Waiting: they have ended, and a person has to pick. Picking: one is picked,
// the others are being put aside. Picked: that is done.
type SelectionState string

const (
	SelectionOpen    SelectionState = "open"
	SelectionWaiting SelectionState = "waiting"
	SelectionPicking SelectionState = "picking"
	SelectionPicked  SelectionState = "picked"
)

// SelectionTable says what may follow a state. A waiting one is open again
// when somebody prompts one of its sessions.
var SelectionTable = Table[SelectionState]{
	SelectionOpen:    {SelectionWaiting, SelectionPicking},
	SelectionWaiting: {SelectionOpen, SelectionPicking},
	SelectionPicking: {SelectionPicked},
}

// Decided says that one is picked, whatever is left to do about the others.
func (s SelectionState) Decided() bool { return s == SelectionPicking || s == SelectionPicked }

// SelectionRule says who picks: a person, or the platform by one of the
// others, which pick a proven session or none.
type SelectionRule string

const (
	PickPerson      SelectionRule = "person"
	PickFirstProven SelectionRule = "first-proven" // the others are stopped
	PickSmallest    SelectionRule = "smallest"     // fewest changed lines
	PickCheapest    SelectionRule = "cheapest"
	PickFastest     SelectionRule = "fastest"
)

// SelectionRules lists them.
var SelectionRules = []SelectionRule{PickPerson, PickFirstProven, PickSmallest, PickCheapest, PickFastest}

// Selection is one task given to several sessions that start alike, one of
// which is picked.
type Selection struct {
	ID          SelectionID    `json:"id"`
	Environment EnvironmentID  `json:"environment"`
	Title       string         `json:"title"`
	State       SelectionState `json:"state"`
	Reason      string         `json:"reason,omitempty"` // why it is in this state, for people
	Owner       Author         `json:"owner"`
	Rule        SelectionRule  `json:"rule"`
	Sessions    int            `json:"sessions"` // how many
	Base        string         `json:"base"`
	BaseCommit  string         `json:"base_commit"` // of all its sessions
	Snapshot    SnapshotID     `json:"snapshot"`    // that all of them, and their proofs, start from
	Budget      Budget         `json:"budget"`      // money of the whole; wall clock of each session
	Picked      SessionID      `json:"picked,omitempty"`
	PickedBy    string         `json:"picked_by,omitempty"` // handle; "platform" by a rule
	Created     time.Time      `json:"created"`
	Updated     time.Time      `json:"updated"`
}

// Candidate is one session of a selection, in figures that can be compared.
type Candidate struct {
	Rank    int          `json:"rank"` // 1 is the best by the selection's rule
	Session SessionID    `json:"session"`
	State   SessionState `json:"state"`
	Ended   bool         `json:"ended"`
	Picked  bool         `json:"picked,omitempty"`
	Model   string       `json:"model"`
	Seed    int64        `json:"seed"`
	// Unseeded says that the model takes no seed: it differs from the others by
	// chance alone.
	Unseeded bool          `json:"unseeded,omitempty"`
	Node     string        `json:"node,omitempty"` // step of the run under way
	Outcome  string        `json:"outcome,omitempty"`
	Run      RunState      `json:"run_state,omitempty"` // of its last run
	Verdict  string        `json:"verdict,omitempty"`
	Reasons  []string      `json:"reasons,omitempty"`
	NotShown []string      `json:"not_shown,omitempty"`
	Files    int           `json:"files"`
	Added    int           `json:"added"`
	Removed  int           `json:"removed"`
	Fixed    int           `json:"fixed"`
	Kept     int           `json:"kept"`
	Broken   int           `json:"broken"`
	Cost     Cost          `json:"cost"`
	Usage    Usage         `json:"usage"`
	Active   time.Duration `json:"active_ns"`
	Finished time.Time     `json:"finished,omitzero"`
	Head     string        `json:"head,omitempty"`
	Change   ChangeID      `json:"change,omitempty"`
	Number   int64         `json:"change_number,omitempty"`
	Standing ChangeState   `json:"change_state,omitempty"`
	Evidence EvidenceID    `json:"evidence,omitempty"`
}

// NewSelection asks for one.
type NewSelection struct {
	NewSession               // Model is not used; Budget is Selection.Budget
	Sessions   int           // MinSelection to MaxSelection
	Models     []string      // spread over the sessions in turn
	Rule       SelectionRule // default PickPerson
}

// SelectionFilter narrows a list of selections; zero fields do not.
type SelectionFilter struct {
	Environment EnvironmentID
	State       SelectionState
	Owner       string
}
