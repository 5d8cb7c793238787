package overview

import (
	"context"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"drydock/internal/core"
	"drydock/internal/store"
)

// Bounds of one page.
const (
	maxTurns    = 200  // in an outline
	maxChildren = 100  // sessions that were forked from one
	maxQueued   = 4000 // characters of a queued prompt
)

// Page is a session as it is shown to a person when it opens.
func (s *Service) Page(ctx context.Context, by core.Author, id core.SessionID) (page core.SessionPage, err error) {
	err = s.db.View(ctx, func(r store.Reader) error {
		page, err = s.page(ctx, r, by, id)
		return err
	})
	return page, err
}

func (s *Service) page(ctx context.Context, r store.Reader, by core.Author, id core.SessionID) (page core.SessionPage, err error) {
	one, err := r.Session(ctx, id)
	if err != nil {
		return page, err
	}
	rows, err := s.rows(ctx, r, by.Handle, []core.Session{one})
	if err != nil {
		return page, err
	}
	row, ses := rows[0], rows[0].Session
	page = core.SessionPage{
		Session: ses, Environment: core.EnvironmentBrief{ID: ses.Environment, Name: row.Environment}, Seq: row.Seq, Read: row.Read,
		Elapsed: row.Elapsed, Running: row.Running, Brief: row.Change, Parent: row.Parent,
		Budget: core.PageBudget{
			Money: ses.Budget.Money, Spent: ses.Cost.Known, Unknown: ses.Cost.Unknown, WallClock: ses.Budget.WallClock, Active: row.Elapsed,
		},
	}
	for _, part := range []func(context.Context, store.Reader, *core.SessionPage) error{s.turns, s.queue, s.family, origin, work} {
		if err := part(ctx, r, &page); err != nil {
			return page, err
		}
	}
	return page, nil
}

// turns makes the outline.
func (s *Service) turns(ctx context.Context, r store.Reader, page *core.SessionPage) error {
	id := page.Session.ID
	page.Outline, page.Runs = []core.OutlineTurn{}, []core.PageRun{}
	turns, err := r.Turns(ctx, id, maxTurns)
	if err != nil || len(turns) == 0 {
		return err
	}
	if len(turns) == maxTurns {
		n, err := r.CountTurns(ctx, id)
		if err != nil {
			return err
		}
		page.Earlier = n - len(turns)
	}
	slices.Reverse(turns)
	prompts := make([]core.PromptID, len(turns))
	for i, t := range turns {
		prompts[i] = t.Prompt
	}
	heads, err := r.PromptHeads(ctx, prompts)
	if err != nil {
		return err
	}
	runs, err := r.RunsOf(ctx, prompts)
	if err != nil {
		return err
	}
	slices.SortFunc(runs, func(a, b store.RunHead) int { return strings.Compare(string(a.ID), string(b.ID)) })
	for _, v := range runs {
		page.Runs = append(page.Runs, core.PageRun{
			ID: v.ID, Prompt: v.Prompt, State: v.State, Outcome: v.Outcome, Verdict: v.Verdict, Failure: v.Failure, Created: v.Created, Finished: v.Finished,
		})
	}
	index := make(map[core.PromptID]int, len(turns))
	for i, t := range turns {
		last := page.Seq
		if i+1 < len(turns) {
			last = turns[i+1].First - 1
		}
		h := heads[t.Prompt]
		turn := core.OutlineTurn{
			Prompt: t.Prompt, Author: h.Author, Text: h.Text, Source: h.Source, Run: t.Run, State: h.State, FirstSeq: t.First, LastSeq: last,
			Started: h.Started, Finished: h.Finished, Tools: t.Tools, Files: t.Files, Errors: t.Errors, Cost: t.Cost.Known, Unknown: t.Cost.Unknown,
			Nodes: []core.OutlineNode{}, Marks: []core.OutlineMark{},
		}
		if t.Answer > 0 {
			turn.Answer = &core.OutlineAnswer{Seq: t.Answer, Head: t.AnswerHead}
		}
		turn.Left = t.Marks
		index[t.Prompt] = i
		page.Outline = append(page.Outline, turn)
	}
	return inside(ctx, r, page, index)
}

// inside puts steps and marks into their turns.
func inside(ctx context.Context, r store.Reader, page *core.SessionPage, index map[core.PromptID]int) error {
	from := page.Outline[0].FirstSeq
	nodes, err := r.TurnNodes(ctx, page.Session.ID, from)
	if err != nil {
		return err
	}
	for _, n := range nodes {
		if i, ok := index[n.Prompt]; ok {
			page.Outline[i].Nodes = append(page.Outline[i].Nodes, core.OutlineNode{
				Node: n.Node, Title: n.Title, Number: n.Number, State: n.State, Result: n.Result, Started: n.Started, Duration: n.Duration, Seq: n.Seq,
			})
		}
	}
	marks, err := r.TurnMarks(ctx, page.Session.ID, from)
	if err != nil {
		return err
	}
	for _, m := range marks {
		if i, ok := index[m.Prompt]; ok {
			t := &page.Outline[i]
			t.Marks = append(t.Marks, core.OutlineMark{Seq: m.Seq, Kind: m.Kind})
			t.Left--
		}
	}
	return nil
}

// queue is what waits, and who wrote.
func (s *Service) queue(ctx context.Context, r store.Reader, page *core.SessionPage) error {
	page.Prompts = []core.PagePrompt{}
	queued, err := r.QueuedPrompts(ctx, page.Session.ID)
	if err != nil {
		return err
	}
	for _, p := range queued {
		shown := core.PagePrompt{Prompt: p}
		if utf8.RuneCountInString(p.Text) > maxQueued {
			shown.Text, shown.Cut = string([]rune(p.Text)[:maxQueued]), true
		}
		page.Prompts = append(page.Prompts, shown)
	}
	people, err := r.Participants(ctx, page.Session.ID)
	if err != nil {
		return err
	}
	page.People = []core.Author{page.Session.Owner}
	for _, a := range people {
		if a.Handle != page.Session.Owner.Handle {
			page.People = append(page.People, a)
		}
	}
	return nil
}

// family is what was forked from it.
func (s *Service) family(ctx context.Context, r store.Reader, page *core.SessionPage) (err error) {
	if page.Children, err = r.Children(ctx, page.Session.ID, maxChildren); err != nil {
		return err
	}
	return s.show.Show(ctx, r, page.Children)
}

// origin is the snapshot that its sandbox came from.
func origin(ctx context.Context, r store.Reader, page *core.SessionPage) error {
	facts, err := r.FactsOf(ctx, []core.SessionID{page.Session.ID})
	f := facts[page.Session.ID]
	if err != nil || f.Snapshot == "" {
		return err
	}
	page.Snapshot = &core.PageSnapshot{ID: f.Snapshot, StartedFrom: f.StartedFrom, Fallback: f.Fallback}
	snap, err := r.Snapshot(ctx, f.Snapshot)
	if core.Is(err, core.NotFound) { // it was collected
		return nil
	}
	page.Snapshot.Commit, page.Snapshot.Age = snap.Commit, max(0, time.Since(snap.Created))
	return err
}

// work is what came out: the change, and the newest proof.
func work(ctx context.Context, r store.Reader, page *core.SessionPage) error {
	if page.Session.Change != "" {
		c, err := r.Change(ctx, page.Session.Change)
		if err != nil && !core.Is(err, core.NotFound) {
			return err
		}
		if err == nil {
			c.Body = ""
			page.Change = &c
		}
	}
	e, err := r.NewestEvidence(ctx, page.Session.ID)
	if core.Is(err, core.NotFound) {
		return nil
	}
	page.Evidence = &core.EvidenceBrief{ID: e.ID, Verdict: e.Verdict, Created: e.Created}
	return err
}
