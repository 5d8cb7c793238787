package daemon

import (
	"context"
	"fmt"

	"drydock/internal/control/blueprint"
	"drydock/internal/control/codechange"
	"drydock/internal/control/event"
	"drydock/internal/control/session"
	"drydock/internal/core"
	"drydock/internal/delivery/change"
	"drydock/internal/store"
)

// deliverer brings branches and changes to the forge.
type deliverer struct {
	changes *change.Service
	repos   *repositories
	db      *store.DB
}

var _ codechange.Deliverer = deliverer{}

func (d deliverer) environment(ctx context.Context, job blueprint.Job) (core.Environment, error) {
	return d.db.Environment(ctx, string(job.Session.Environment))
}

// Publish implements codechange.Deliverer.
func (d deliverer) Publish(ctx context.Context, job blueprint.Job, branch, head, expected string) error {
	env, err := d.environment(ctx, job)
	if err != nil {
		return err
	}
	repo, err := d.repos.Mirror(ctx, env)
	if err != nil {
		return err
	}
	return d.changes.Push(ctx, change.PushRequest{
		Key: "push:" + string(job.Session.ID) + ":" + head, Session: job.Session.ID, Repository: env.Name,
		Branch: branch, Commit: head, Expected: expected, From: repo.Dir(),
	})
}

// Remote implements codechange.Deliverer.
func (d deliverer) Remote(ctx context.Context, job blueprint.Job, branch string) (string, core.Change, error) {
	env, err := d.environment(ctx, job)
	if err != nil {
		return "", core.Change{}, err
	}
	head, err := d.changes.Branch(ctx, env.Name, branch)
	if err != nil {
		return "", core.Change{}, err
	}
	s, err := d.db.Session(ctx, job.Session.ID)
	if err != nil || s.Change == "" {
		return head, core.Change{}, err
	}
	c, err := d.changes.Get(ctx, string(s.Change))
	return head, c, err
}

// Deliver implements codechange.Deliverer.
func (d deliverer) Deliver(ctx context.Context, v codechange.Delivery) (core.Change, error) {
	env, err := d.environment(ctx, v.Job)
	if err != nil {
		return core.Change{}, err
	}
	if v.Body, err = d.candidate(ctx, v.Job.Session.ID, v.Body); err != nil {
		return core.Change{}, err
	}
	done, err := d.changes.Deliver(ctx, change.DeliverRequest{
		Key: v.Key, Session: v.Job.Session.ID, Environment: env.ID, Repository: env.Name, Title: v.Title, Body: v.Body,
		Base: v.Base, Branch: v.Branch, Head: v.Head, Authors: v.Authors, Evidence: v.Evidence, Verdict: v.Verdict,
	})
	return done.Change, err
}

// candidate marks the change of a session that is one of several.
func (d deliverer) candidate(ctx context.Context, id core.SessionID, body string) (string, error) {
	s, err := d.db.Session(ctx, id)
	if err != nil || s.Selection == "" {
		return body, err
	}
	sel, err := d.db.Selection(ctx, s.Selection)
	if err != nil || sel.State.Decided() {
		return body, err
	}
	return fmt.Sprintf("%s\n---\nCandidate %d of %d in selection `%s`: one of them is picked (by: %s), the others are closed. Compare them with `drydock selection show %s`; merging this one picks it.\n",
		body, s.Seed, sel.Sessions, sel.ID, sel.Rule, sel.ID), nil
}

// townCrier brings what people do to changes into sessions.
type townCrier struct {
	s   *session.Service
	db  *store.DB
	log *event.Log
}

var _ change.Sessions = (*townCrier)(nil)

// Prompt implements change.Sessions.
func (t *townCrier) Prompt(ctx context.Context, id core.SessionID, p core.NewPrompt) (core.PromptID, error) {
	got, err := t.s.Prompt(ctx, id, p)
	return got.ID, err
}

// Record implements change.Sessions: the key is a row, written with the event.
func (t *townCrier) Record(ctx context.Context, id core.SessionID, key string, e core.Event) error {
	return t.db.Tx(ctx, func(tx *store.Tx) error {
		_, fresh, err := tx.IntendEffect(ctx, store.Effect{ID: "event:" + key, Kind: "event", Subject: string(id), Request: e.Data})
		if err != nil || !fresh {
			return err
		}
		if _, err := t.log.AppendTx(ctx, tx, string(id), e); err != nil {
			return err
		}
		return tx.FinishEffect(ctx, "event:"+key, store.EffectDone, nil)
	})
}
