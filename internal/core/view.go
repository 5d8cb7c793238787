package core

import "time"

// ViewWord is how a session stands, in one word that every list, header and
// command shows. It is worked out from what is stored and never set by hand.
type ViewWord string

const (
	ViewDraft      ViewWord = "draft" // there is nothing to do yet
	ViewQueued     ViewWord = "queued"
	ViewStarting   ViewWord = "starting"
	ViewWorking    ViewWord = "working"
	ViewNeedsYou   ViewWord = "needs_you" // a question waits for a person
	ViewPaused     ViewWord = "paused"    // the budget is spent
	ViewStopping   ViewWord = "stopping"
	ViewStopped    ViewWord = "stopped"
	ViewProven     ViewWord = "proven"
	ViewUnproven   ViewWord = "unproven"
	ViewBroken     ViewWord = "broken" // the proof says so, or the run failed
	ViewAnswered   ViewWord = "answered"
	ViewHandedOver ViewWord = "handed_over"
	ViewMerged     ViewWord = "merged"
	ViewClosed     ViewWord = "closed"
	ViewLost       ViewWord = "lost" // nobody is heard of who works on it
)

// View is a ViewWord with what goes with it.
type View struct {
	Word     ViewWord  `json:"word" enum:"draft,queued,starting,working,needs_you,paused,stopping,stopped,proven,unproven,broken,answered,handed_over,merged,closed,lost"`
	Role     string    `json:"role" enum:"idle,run,ask,ok,unp,bad" doc:"what kind of word it is; chooses the colour"`
	Glyph    string    `json:"glyph" enum:"ring,ring_quarter,ring_half,ring_dashed,diamond,bars,square,check,check_open,cross,bubble,hand,merge" doc:"shape that goes with the word"`
	Reason   string    `json:"reason" doc:"one sentence for people"`
	Action   string    `json:"action" doc:"what a person can do next; may be empty"`
	Position int       `json:"position,omitempty" doc:"of a queued one, from 1"`
	Since    time.Time `json:"since"`
	Node     string    `json:"node,omitempty" doc:"title of the step it is at"`
	Attempt  int       `json:"attempt,omitempty" doc:"at that step, from 1"`
	Sandbox  string    `json:"sandbox,omitempty" enum:"awake,asleep" doc:"asleep: suspended with its memory, wakes in a moment; left out where there is none"`
}

// viewForms are role and glyph of each word.
var viewForms = map[ViewWord][2]string{
	ViewDraft: {"idle", "ring"}, ViewQueued: {"idle", "ring"}, ViewStarting: {"run", "ring_quarter"}, ViewWorking: {"run", "ring_half"},
	ViewNeedsYou: {"ask", "diamond"}, ViewPaused: {"ask", "bars"}, ViewStopping: {"idle", "square"}, ViewStopped: {"idle", "square"},
	ViewProven: {"ok", "check"}, ViewUnproven: {"unp", "check_open"}, ViewBroken: {"bad", "cross"}, ViewAnswered: {"idle", "bubble"},
	ViewHandedOver: {"ask", "hand"}, ViewMerged: {"idle", "merge"}, ViewClosed: {"idle", "merge"}, ViewLost: {"bad", "ring_dashed"},
}

// NewView gives a word its role and its glyph.
func NewView(word ViewWord, reason, action string) View {
	f := viewForms[word]
	return View{Word: word, Role: f[0], Glyph: f[1], Reason: reason, Action: action}
}

// ViewWords lists every word.
func ViewWords() []ViewWord {
	out := make([]ViewWord, 0, len(viewForms))
	for w := range viewForms {
		out = append(out, w)
	}
	return out
}

// InboxSection is a part of the inbox.
type InboxSection string

const (
	InboxNeeds   InboxSection = "needs"   // a question, or an outcome that was not read
	InboxRunning InboxSection = "running" // something is done, or will be
	InboxRecent  InboxSection = "recent"  // the rest
)

// InboxFilter narrows the inbox of one person.
type InboxFilter struct {
	Person      string // whose inbox it is
	Mine        bool   // only own sessions, or ones they wrote in
	Environment EnvironmentID
	Text        string // in the title
}
