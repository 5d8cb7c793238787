package codechange

import (
	"context"
	"encoding/json"
	"strings"

	"drydock/internal/control/blueprint"
	"drydock/internal/control/event"
	"drydock/internal/control/session"
	"drydock/internal/core"
	"drydock/internal/harness/agent"
	"drydock/internal/store"
)

// Record keeps what runs learn in the store: it fulfils Sessions, Emitter and
// the agent's transcript. Every write is fenced by the job's claim.
type Record struct {
	db  *store.DB
	log *event.Log
}

// NewRecord returns a Record over a store and its event log.
func NewRecord(db *store.DB, log *event.Log) *Record { return &Record{db, log} }

var (
	_ Sessions = (*Record)(nil)
	_ Emitter  = (*Record)(nil)
)

// Session implements Sessions.
func (r *Record) Session(ctx context.Context, id core.SessionID) (core.Session, error) {
	return r.db.Session(ctx, id)
}

// Fix implements Sessions.
func (r *Record) Fix(ctx context.Context, job blueprint.Job, p Place) error {
	return r.db.Fenced(ctx, job.Fence, func(tx *store.Tx) error {
		_, err := tx.UpdateSession(ctx, job.Session.ID, func(s *core.Session) error {
			if p.Forget {
				s.Head, s.Change = "", ""
			}
			for _, f := range []struct {
				to   *string
				from string
			}{{&s.Base, p.Base}, {&s.BaseCommit, p.BaseCommit}, {&s.Branch, p.Branch}, {&s.Head, p.Head}} {
				if f.from != "" {
					*f.to = f.from
				}
			}
			if p.Change != "" {
				s.Change = p.Change
			}
			return nil
		})
		return err
	})
}

// Started implements Sessions.
func (r *Record) Started(ctx context.Context, job blueprint.Job) error {
	return session.NewJournal(r.db, r.log, job.Session.ID, job.Run.ID, job.Fence).Started(ctx, "")
}

// Earlier implements Sessions.
func (r *Record) Earlier(ctx context.Context, job blueprint.Job) ([]agent.Turn, error) {
	runs, err := r.db.Runs(ctx, job.Session.ID)
	if err != nil {
		return nil, err
	}
	prompts, err := r.db.Prompts(ctx, job.Session.ID)
	if err != nil {
		return nil, err
	}
	byID := map[core.PromptID]core.Prompt{}
	for _, p := range prompts {
		byID[p.ID] = p
	}
	var out []agent.Turn
	for _, run := range runs {
		p, known := byID[run.Prompt]
		if run.ID == job.Run.ID || !known || run.State == core.RunRunning {
			continue
		}
		summary := run.Outcome
		var data blueprint.Data
		if json.Unmarshal(run.Data, &data) == nil {
			var words string
			if data.Get(keySummary, &words) && words != "" {
				summary += "\n" + head(words, 2000)
			}
		}
		out = append(out, agent.Turn{Author: p.Author, Text: head(p.Text, 4000), Summary: summary})
	}
	return out, nil
}

// Authors implements Sessions.
func (r *Record) Authors(ctx context.Context, job blueprint.Job) ([]core.Author, error) {
	prompts, err := r.db.Prompts(ctx, job.Session.ID)
	if err != nil {
		return nil, err
	}
	var out []core.Author
	seen := map[string]bool{}
	for _, p := range prompts {
		// Whoever prompted had a hand in what the working tree holds, however
		// their run ended.
		if p.Run == "" || seen[p.Author.Handle] {
			continue
		}
		seen[p.Author.Handle] = true
		out = append(out, p.Author)
	}
	return out, nil
}

// Emit implements Emitter.
func (r *Record) Emit(ctx context.Context, job blueprint.Job, e core.Event) error {
	_, err := r.log.AppendFenced(ctx, job.Fence, string(job.Session.ID), e)
	return err
}

// Delta implements Emitter.
func (r *Record) Delta(session core.SessionID, text string) { r.log.Delta(string(session), text) }

// Append implements agent.Transcript: the entry and the events that tell of it
// are one write, so that what people see and what the agent remembers agree.
func (r *Record) Append(ctx context.Context, task agent.Task, entry json.RawMessage, events ...core.Event) error {
	return r.db.Tx(ctx, func(tx *store.Tx) error {
		if err := tx.AppendTranscript(ctx, task.Run, task.Node, entry); err != nil {
			return err
		}
		for i := range events {
			events[i].Run, events[i].Attempt = task.Run, task.Attempt
			// The task's node carries the number of the visit; people know the node.
			events[i].Node, _, _ = strings.Cut(task.Node, ".")
			if events[i].Actor == "" {
				events[i].Actor = "agent"
			}
		}
		_, err := r.log.AppendTx(ctx, tx, string(task.Session), events...)
		return err
	})
}

// Load implements agent.Transcript.
func (r *Record) Load(ctx context.Context, task agent.Task) ([]json.RawMessage, error) {
	return r.db.Transcript(ctx, task.Run, task.Node)
}
