package review

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"drydock/internal/control/review/reading"
	"drydock/internal/core"
	"drydock/internal/delivery/forge"
	"drydock/internal/proof/exam"
)

// Page is everything that the page of a change shows at once. With allCases the
// cases that were kept are listed as well, as far as there is room.
func (s *Service) Page(ctx context.Context, id core.ChangeID, by core.Author, allCases bool) (core.ChangePage, error) {
	e, err := s.ends(ctx, id, by, core.DiffRange{})
	if err != nil {
		return core.ChangePage{}, err
	}
	c := e.span.Change
	p := core.ChangePage{
		Change: c, Meaning: []core.PageMeaning{}, Checks: []core.PageCheck{}, Pictures: []core.PagePicture{}, Commits: []core.PageCommit{},
	}
	d, err := s.diff(ctx, e)
	if err != nil {
		return p, err
	}
	p.Files = core.PageFiles{Count: d.Count, Added: d.Added, Removed: d.Removed, Digest: d.Digest}
	result, err := s.result(ctx, c.Evidence)
	if err != nil {
		return p, err
	}
	p.Verdict = verdictOf(c, result)
	p.Meaning = meaningOf(c, result, d)
	if result != nil {
		p.Checks = s.checks(ctx, c.Evidence, result, allCases)
		p.Pictures = picturesOf(result)
	}
	if err := s.around(ctx, &p); err != nil {
		return p, err
	}
	if err := s.people(ctx, &p, by); err != nil {
		return p, err
	}
	p.Actions = actionsOf(p)
	return p, nil
}

// around adds what a change belongs to.
func (s *Service) around(ctx context.Context, p *core.ChangePage) error {
	c := p.Change
	if c.Session != "" {
		one, err := s.d.Store.Session(ctx, c.Session)
		if err != nil && !core.Is(err, core.NotFound) {
			return err
		}
		if err == nil {
			p.Session = &core.PageSession{ID: one.ID, Title: one.Title, State: one.State}
			if c.Environment == "" {
				c.Environment = one.Environment
			}
		}
	}
	if c.Environment != "" {
		env, err := s.d.Store.Environment(ctx, string(c.Environment))
		if err != nil && !core.Is(err, core.NotFound) {
			return err
		}
		if err == nil {
			p.Environment = &core.PageEnvironment{ID: env.ID, Name: env.Name}
		}
	}
	commits, err := s.d.Changes.Commits(ctx, c.ID)
	for _, k := range commits {
		p.Commits = append(p.Commits, core.PageCommit{ID: k.ID, Subject: clip(strings.ToValidUTF8(k.Subject, "\uFFFD"), 300), Author: k.Author.Name, Time: k.Time})
	}
	return err
}

// people adds what was said, who agreed, and what the asking person may do.
func (s *Service) people(ctx context.Context, p *core.ChangePage, by core.Author) error {
	id := p.Change.ID
	threads, err := s.said(ctx, id)
	if err != nil {
		return err
	}
	for _, t := range threads {
		if t.State != core.ThreadResolved {
			p.Threads.Open++
		}
	}
	notes, err := s.d.Store.Notes(ctx, id, by.Handle)
	if err != nil {
		return err
	}
	p.Threads.Drafts = len(notes)
	if p.Approvals, err = s.d.Changes.Approvals(ctx, id); err != nil {
		return err
	}
	if p.Approvals == nil {
		p.Approvals = []core.ChangeApproval{}
	}
	rights, err := s.d.Changes.Rights(ctx, id, by)
	if err != nil {
		return err
	}
	if p.Me, err = s.me(ctx, p, by, rights); err != nil {
		return err
	}
	seen, err := s.d.Store.Seen(ctx, id, by.Handle)
	if err == nil {
		p.Me.Seen = &seen
	} else if !core.Is(err, core.NotFound) {
		return err
	}
	return nil
}

func (s *Service) me(ctx context.Context, p *core.ChangePage, by core.Author, rights forge.Rights) (core.PageMe, error) {
	me := core.PageMe{
		AuthorOfPrompt: rights.Author, MayApprove: rights.Approve == "", WhyNot: rights.Approve, MayMerge: rights.Merge == "", WhyNotMerge: rights.Merge,
		Approved: slices.ContainsFunc(p.Approvals, func(a core.ChangeApproval) bool { return a.By.Handle == by.Handle }),
	}
	if !me.MayMerge || s.d.MayMerge == nil {
		return me, nil
	}
	if err := s.d.MayMerge(ctx, p.Change); err != nil {
		if k := core.KindOf(err); k == core.Internal || k == core.Unavailable || k == core.Canceled {
			return me, err
		}
		me.MayMerge, me.WhyNotMerge = false, err.Error()
	}
	return me, nil
}

func actionsOf(p core.ChangePage) []string {
	out := []string{"comment"}
	add := func(word string, when bool) {
		if when {
			out = append(out, word)
		}
	}
	open := p.Change.State == core.ChangeOpen
	add("approve", p.Me.MayApprove && !p.Me.Approved)
	add("merge", p.Me.MayMerge)
	add("hand_back", open && p.Session != nil)
	add("send", p.Threads.Drafts > 0)
	add("rerun", p.Verdict.Evidence != "" && !p.Verdict.Missing)
	add("close", open)
	add("reopen", p.Change.State == core.ChangeClosed)
	return out
}

func verdictOf(c core.Change, r *exam.Result) core.PageVerdict {
	v := core.PageVerdict{Verdict: c.Verdict, Evidence: c.Evidence, Reasons: []string{}, NotShown: []string{}}
	switch {
	case c.Evidence == "":
		v.Reasons = []string{"nothing was proven yet"}
	case r == nil:
		v.Missing = true
		v.Reasons = []string{fmt.Sprintf("evidence %s is not kept any more", c.Evidence)}
	default:
		v.Verdict, v.Code, v.Head = string(r.Verdict), r.Code, r.Exam.Head
		v.Reasons = append(v.Reasons, r.Reasons...)
		v.NotShown = append(v.NotShown, r.NotShown...)
		v.Stale = r.Exam.Head != c.Head
	}
	return v
}

// Risks.
const (
	note = "note"
	look = "look"
	stop = "stop"

	maxMeaning = 300
)

// meaningOf lists what changes the meaning of the proof, worst first.
func meaningOf(c core.Change, r *exam.Result, d *diff) []core.PageMeaning {
	out := []core.PageMeaning{}
	named := map[string]bool{}
	if r != nil {
		open := map[string]bool{}
		for _, f := range r.Open() {
			open[f.ID] = true
		}
		for _, f := range r.Findings {
			risk := look
			if open[f.ID] {
				risk = stop
			}
			out = append(out, core.PageMeaning{Kind: f.Code, Path: f.Path, Line: f.Line, Text: f.Text, Risk: risk, Old: clip(f.Old, 2000), New: clip(f.New, 2000)})
			named[f.Path] = true
		}
		for _, g := range r.Guards {
			risk := stop
			if g.Base || g.Code == exam.GuardInventory || g.Code == exam.GuardSkips {
				risk = look
			}
			out = append(out, core.PageMeaning{Kind: g.Code, Text: fmt.Sprintf("check %s, cell %s: %s", g.Check, g.Cell, g.Text), Risk: risk})
		}
		for _, a := range r.Acknowledged {
			out = append(out, core.PageMeaning{Kind: "acknowledged", Text: fmt.Sprintf("%s stands for %d findings at %.12s", a.By, len(a.Findings), a.Head), Risk: note})
		}
		if r.Exam.Head != c.Head {
			out = append(out, core.PageMeaning{Kind: "stale", Text: fmt.Sprintf("the proof is of %.12s, the change stands at %.12s", r.Exam.Head, c.Head), Risk: stop})
		}
	}
	kinds := map[string]struct{ risk, text string }{
		string(reading.Protected): {stop, "a protected path is changed"},
		string(reading.Rules):     {look, "rules for agents, reviewers or the recipe are changed"},
		string(reading.CI):        {look, "what runs in CI is changed"},
		string(reading.Lock):      {note, "dependencies are changed"},
		string(reading.Test):      {note, "tests are changed"},
	}
	for i, f := range d.Items {
		k, ok := kinds[f.Role]
		if !ok || named[d.paths[i]] {
			continue
		}
		out = append(out, core.PageMeaning{Kind: f.Role, Path: f.Path, Text: k.text, Risk: k.risk})
	}
	rank := map[string]int{stop: 0, look: 1, note: 2}
	slices.SortStableFunc(out, func(a, b core.PageMeaning) int { return rank[a.Risk] - rank[b.Risk] })
	if len(out) > maxMeaning {
		more := len(out) - maxMeaning
		out = append(out[:maxMeaning], core.PageMeaning{Kind: "more", Text: fmt.Sprintf("and %d more", more), Risk: look})
	}
	return out
}

func picturesOf(r *exam.Result) []core.PagePicture {
	out := []core.PagePicture{}
	for _, c := range r.Pictures {
		p := core.PagePicture{Name: c.Page, Viewport: fmt.Sprintf("%dx%d", c.Width, c.Height), Status: "same"}
		image := func(a *exam.Artifact) *core.PageImage {
			if a == nil {
				return nil
			}
			return &core.PageImage{Digest: a.Digest, Width: c.Width, Height: c.Height}
		}
		p.Before, p.After = image(c.Before), image(c.After)
		switch {
		case p.Before == nil && p.After == nil:
			p.Status = "not_taken"
		case p.Before == nil:
			p.Status = "new"
		case p.After == nil:
			p.Status = "gone"
		case c.Changed > 0 || c.Resized != "":
			p.Status = "changed"
		}
		if p.Before != nil && p.After != nil {
			p.Difference = &core.PageDifference{Share: c.Changed, Noise: c.Noise}
			if c.Difference != nil {
				p.Difference.Digest = c.Difference.Digest
			}
		}
		why := []string{c.Problem}
		if c.Resized != "" {
			why = append(why, "the page was resized from "+c.Resized)
		}
		why = slices.Concat(why, c.NewErrors, c.NewFailures)
		p.Why = clip(strings.Join(slices.DeleteFunc(why, func(s string) bool { return s == "" }), "; "), 2000)
		out = append(out, p)
	}
	return out
}
