package session

import (
	"context"
	"fmt"
	"time"

	"drydock/internal/core"
	"drydock/internal/store"
)

// stand is everything that the word for a session is worked out from. This
// file is the only place that knows how.
type stand struct {
	session  core.Session
	facts    store.Facts
	run      *store.RunHead // newest
	change   *core.Change
	question *store.Approval // that is open
	node     *store.TurnNode // it is at
	place    int             // in the queue, 0: it does not wait for a runner
	held     time.Time       // until when a runner holds it
	here     bool            // its runner is in this process
	waits    bool            // the reason tells what it waits for
	now      time.Time
	silence  time.Duration // after which nobody is taken to work on it
}

// Show works out how sessions stand and writes it into them, with the places
// of those that wait. What it reads comes from r, so that it fits what else the
// caller reads from there.
func (s *Service) Show(ctx context.Context, r store.Reader, list []core.Session) error {
	if len(list) == 0 {
		return nil
	}
	reasons := make([]string, len(list))
	for i, v := range list {
		reasons[i] = v.Reason
	}
	places, err := s.tellPlaces(ctx, list)
	if err != nil {
		return err
	}
	ids, changes := make([]core.SessionID, 0, len(list)), []core.ChangeID{}
	for _, v := range list {
		ids = append(ids, v.ID)
		if v.Change != "" {
			changes = append(changes, v.Change)
		}
	}
	facts, err := r.FactsOf(ctx, ids)
	if err != nil {
		return err
	}
	runs, err := r.LastRuns(ctx, ids)
	if err != nil {
		return err
	}
	made, err := r.ChangesByID(ctx, changes)
	if err != nil {
		return err
	}
	questions, err := r.PendingApprovals(ctx, ids)
	if err != nil {
		return err
	}
	nodes, err := r.RunningNodes(ctx, ids)
	if err != nil {
		return err
	}
	leases, err := r.LeaseEnds(ctx, ids)
	if err != nil {
		return err
	}
	for i, v := range list {
		st := stand{
			session: v, facts: facts[v.ID], place: places[v.ID], held: leases[v.ID], here: s.local(v.ID) != nil, waits: v.Reason != reasons[i],
			now: time.Now(), silence: 2 * s.opts.Lease,
		}
		st.run, st.change = found(runs, v.ID), found(made, v.Change)
		st.question, st.node = found(questions, v.ID), found(nodes, v.ID)
		view := st.view()
		list[i].View = &view
	}
	return nil
}

func found[K comparable, V any](m map[K]V, k K) *V {
	if v, ok := m[k]; ok {
		return &v
	}
	return nil
}

// ShowOne is Show for one session, and returns it.
func (s *Service) ShowOne(ctx context.Context, v core.Session) (core.Session, error) {
	list := []core.Session{v}
	err := s.Show(ctx, s.db.Reader, list)
	return list[0], err
}

func (st stand) view() core.View {
	v := st.word()
	if v.Since.IsZero() {
		v.Since = st.facts.StateAt
	}
	if v.Since.IsZero() {
		v.Since = st.session.Updated
	}
	if v.Word == core.ViewQueued {
		v.Position = st.place
	}
	v.Sandbox = st.facts.Sandbox
	return v
}

func (st stand) word() core.View {
	s := st.session
	switch s.State {
	case core.SessionArchived:
		if st.change != nil && st.change.State == core.ChangeMerged {
			return core.NewView(core.ViewMerged, s.Reason, "")
		}
		return core.NewView(core.ViewClosed, s.Reason, "")
	case core.SessionQueued:
		return core.NewView(core.ViewQueued, s.Reason, "")
	case core.SessionWaiting:
		if s.Wait == waitBudget {
			return core.NewView(core.ViewPaused, s.Reason, "raise the budget")
		}
		return st.asks()
	case core.SessionStarting, core.SessionRunning, core.SessionStopping:
		return st.active()
	}
	return st.settled()
}

// asks is a question to a person.
func (st stand) asks() core.View {
	reason := st.session.Reason
	if st.question != nil {
		reason = st.question.Question
	}
	return core.NewView(core.ViewNeedsYou, reason, "answer")
}

func (st stand) active() core.View {
	s := st.session
	// A run that was cut off and has its place waits like a new one.
	if st.place > 0 && !st.here {
		return core.NewView(core.ViewQueued, s.Reason, "")
	}
	if last := latest(st.held, s.Updated); !st.here && st.now.Sub(last) > st.silence {
		reason := "nobody has been heard of who works on it"
		if s.Head != "" {
			reason += fmt.Sprintf("; the work up to commit %.10s is safe", s.Head)
		}
		v := core.NewView(core.ViewLost, reason, "wait, or stop it")
		v.Since = last
		return v
	}
	var v core.View
	switch s.State {
	case core.SessionStopping:
		v = core.NewView(core.ViewStopping, s.Reason, "")
	case core.SessionStarting:
		v = core.NewView(core.ViewStarting, s.Reason, "stop")
	default:
		v = core.NewView(core.ViewWorking, s.Reason, "stop")
	}
	if st.node != nil {
		v.Node, v.Attempt = st.node.Title, st.node.Number
		if v.Node == "" {
			v.Node = st.node.Node
		}
		if s.State == core.SessionRunning && !st.waits {
			v.Reason = v.Node
			if st.facts.Tool != "" {
				v.Reason += ": " + st.facts.Tool
			}
		}
	}
	return v
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// settled is a session in which nothing is done.
func (st stand) settled() core.View {
	s, run := st.session, st.run
	if ch := st.change; ch != nil && ch.State != core.ChangeOpen && (run == nil || !run.Finished.After(ch.Updated)) {
		word, reason := core.ViewMerged, fmt.Sprintf("change #%d was merged", ch.Number)
		if ch.State == core.ChangeClosed {
			word, reason = core.ViewClosed, fmt.Sprintf("change #%d was closed without merging", ch.Number)
		}
		v := core.NewView(word, reason, "")
		v.Since = ch.Updated
		return v
	}
	if st.question != nil && (st.change == nil || st.change.State == core.ChangeOpen) {
		return st.asks()
	}
	switch {
	case s.Held || run != nil && run.State == core.RunStopped:
		return core.NewView(core.ViewStopped, s.Reason, "continue")
	case run == nil:
		return core.NewView(core.ViewDraft, s.Reason, "say what to do")
	case run.State == core.RunFailed:
		reason := s.Reason
		if run.Failure != nil && run.Failure.Message != "" {
			reason = run.Failure.Message
		}
		return core.NewView(core.ViewBroken, reason, "look at the failure, then prompt again")
	case run.State == core.RunHandedOver || run.Verdict == "handed_over":
		return core.NewView(core.ViewHandedOver, s.Reason, "take the branch over, or prompt again")
	}
	reason := st.facts.VerdictReason
	if reason == "" {
		reason = s.Reason
	}
	switch run.Verdict {
	case "proven":
		return core.NewView(core.ViewProven, reason, "review and merge")
	case "unproven":
		return core.NewView(core.ViewUnproven, reason, "review what is not shown")
	case "broken":
		return core.NewView(core.ViewBroken, reason, "look at what broke, then prompt again")
	}
	return core.NewView(core.ViewAnswered, s.Reason, "read the answer")
}
