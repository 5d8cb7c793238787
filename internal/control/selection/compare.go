package selection

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"time"

	"drydock/internal/core"
)

// member is a candidate with what is needed to decide.
type member struct {
	core.Candidate
	session core.Session
	run     core.Run
	change  core.Change
}

// proven says that a rule may pick it: its work is done and proven, and nobody
// has closed its change.
func (m member) proven() bool {
	return m.Ended && m.session.State != core.SessionArchived && m.run.State == core.RunDone && m.Verdict == verdictProven &&
		m.change.State == core.ChangeOpen
}

const verdictProven = "proven"

// ended says that a session does nothing until somebody comes.
func ended(s core.SessionState) bool {
	return s == core.SessionIdle || s == core.SessionFailed || s == core.SessionArchived
}

// candidates reads the sessions of a selection and ranks them by its rule.
func (s *Service) candidates(ctx context.Context, sel core.Selection) ([]member, error) {
	sessions, err := s.d.Store.SessionsOfSelection(ctx, sel.ID)
	if err != nil {
		return nil, err
	}
	out := make([]member, 0, len(sessions))
	for _, v := range sessions {
		m, err := s.member(ctx, sel, v)
		if err != nil {
			return nil, err
		}
		out = append(out, m)
	}
	slices.SortStableFunc(out, func(a, b member) int { return better(sel.Rule, a, b) })
	for i := range out {
		out[i].Rank = i + 1
	}
	return out, nil
}

func (s *Service) member(ctx context.Context, sel core.Selection, v core.Session) (member, error) {
	m := member{session: v, Candidate: core.Candidate{
		Session: v.ID, State: v.State, Ended: ended(v.State), Picked: sel.Picked == v.ID, Model: v.Model, Seed: v.Seed,
		Unseeded: !s.d.Seeded(v.Model), Cost: v.Cost, Usage: v.Usage, Active: v.Active, Head: v.Head, Change: v.Change,
	}}
	if since, err := s.d.Store.ActiveSince(ctx, v.ID); err == nil && !since.IsZero() {
		m.Active += max(0, time.Since(since))
	}
	runs, err := s.d.Store.Runs(ctx, v.ID)
	if err != nil {
		return m, err
	}
	if len(runs) > 0 {
		m.run = runs[len(runs)-1]
		m.Run = m.run.State
		m.Outcome, m.Verdict, m.Finished = m.run.Outcome, m.run.Verdict, m.run.Finished
		if !core.RunTable.Final(m.run.State) {
			m.Node = m.run.Node
		}
	}
	if v.Change != "" {
		if m.change, err = s.d.Store.Change(ctx, v.Change); err != nil && !core.Is(err, core.NotFound) {
			return m, err
		}
		m.Number, m.Standing, m.Evidence = m.change.Number, m.change.State, m.change.Evidence
		if m.run.State == core.RunDone && m.change.Verdict != "" {
			m.Verdict = m.change.Verdict // a person may have acknowledged a finding since
		}
	}
	return m, s.figures(ctx, &m)
}

// figures are told by the newest events of their kind.
func (s *Service) figures(ctx context.Context, m *member) error {
	var commit core.CommitData
	if _, err := s.newest(ctx, m.session.ID, core.EventCommit, &commit); err != nil {
		return err
	}
	m.Files, m.Added, m.Removed = commit.Files, commit.Added, commit.Removed
	var v core.VerdictData
	run, err := s.newest(ctx, m.session.ID, core.EventVerdict, &v)
	if err != nil {
		return err
	}
	if run != "" && run == m.run.ID {
		m.Fixed, m.Kept, m.Broken, m.NotShown, m.Reasons = v.Fixed, v.Kept, v.Broken, v.NotShown, v.Reasons
		if m.Evidence == "" {
			m.Evidence = v.Evidence
		}
	}
	if len(m.Reasons) > 0 && m.run.Failure == nil {
		return nil
	}
	switch {
	case m.run.Failure != nil && m.Ended:
		m.Reasons = append([]string{m.run.Failure.Message}, m.Reasons...)
	case len(m.Reasons) == 0:
		m.Reasons = []string{m.session.Reason}
	}
	m.Reasons = slices.DeleteFunc(m.Reasons, func(r string) bool { return r == "" })
	return nil
}

// newest reads the newest event of a kind, and names its run.
func (s *Service) newest(ctx context.Context, id core.SessionID, kind core.EventKind, into any) (core.RunID, error) {
	e, err := s.d.Store.LastEventOfKind(ctx, string(id), kind)
	if core.Is(err, core.NotFound) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	if err := json.Unmarshal(e.Data, into); err != nil {
		return "", core.E("selection.compare", core.Internal, err, "event %d of session %s", e.Seq, id)
	}
	return e.Run, nil
}

// class orders what came of sessions; within one, the rule decides.
func (m member) class() int {
	switch {
	case m.proven() || m.Picked && m.Verdict == verdictProven:
		return 0
	case !m.Ended:
		return 5
	case m.session.State == core.SessionArchived:
		// What was put aside keeps its place among the others.
	case m.run.State == core.RunFailed || m.run.State == core.RunStopped || m.run.ID == "":
		return 4
	}
	switch m.Verdict {
	case verdictProven:
		return 0
	case "unproven":
		return 1
	case "broken":
		return 2
	case "handed_over":
		return 3
	}
	return 4
}

// better compares two candidates: first what is proven, then what the rule
// asks for, then the seed.
func better(rule core.SelectionRule, a, b member) int {
	lines := func(m member) int { return m.Added + m.Removed }
	var by int
	switch rule {
	case core.PickFirstProven:
		by = a.Finished.Compare(b.Finished)
	case core.PickCheapest:
		by = cmp.Or(unknown(a.Cost)-unknown(b.Cost), cmp.Compare(a.Cost.Known, b.Cost.Known))
	case core.PickFastest:
		by = cmp.Compare(a.Active, b.Active)
	default: // smallest, and what a person sees first
		by = cmp.Or(cmp.Compare(lines(a), lines(b)), cmp.Compare(a.Files, b.Files))
	}
	return cmp.Or(cmp.Compare(a.class(), b.class()), by, cmp.Compare(a.Seed, b.Seed))
}

// unknown puts what has no known price behind what has one.
func unknown(c core.Cost) int {
	if c.Unknown {
		return 1
	}
	return 0
}
