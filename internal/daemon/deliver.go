package daemon

import (
	"context"

	"drydock/internal/control/blueprint"
	"drydock/internal/control/codechange"
	"drydock/internal/core"
	"drydock/internal/delivery/forge"
	"drydock/internal/store"
)

// deliverer brings branches and changes to the forge.
type deliverer struct {
	forge forge.Forge
	repos *repositories
	db    *store.DB
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
	return d.forge.Push(ctx, forge.Push{Repository: env.Name, Branch: branch, Commit: head, Expected: expected, From: repo.Dir()})
}

// Remote implements codechange.Deliverer.
func (d deliverer) Remote(ctx context.Context, job blueprint.Job, branch string) (string, core.Change, error) {
	env, err := d.environment(ctx, job)
	if err != nil {
		return "", core.Change{}, err
	}
	head, err := d.forge.Branch(ctx, env.Name, branch)
	if err != nil {
		return "", core.Change{}, err
	}
	s, err := d.db.Session(ctx, job.Session.ID)
	if err != nil || s.Change == "" {
		return head, core.Change{}, err
	}
	change, err := d.forge.Change(ctx, s.Change)
	return head, change, err
}

// Deliver implements codechange.Deliverer.
func (d deliverer) Deliver(ctx context.Context, v codechange.Delivery) (core.Change, error) {
	env, err := d.environment(ctx, v.Job)
	if err != nil {
		return core.Change{}, err
	}
	s, err := d.db.Session(ctx, v.Job.Session.ID)
	if err != nil {
		return core.Change{}, err
	}
	if s.Change != "" {
		return d.forge.UpdateChange(ctx, s.Change, forge.ChangeUpdate{
			Body: &v.Body, Evidence: &v.Evidence, Verdict: &v.Verdict, Head: &v.Head, Authors: v.Authors,
		})
	}
	change, _, err := d.forge.OpenChange(ctx, forge.NewChange{
		Key: v.Key, Repository: env.Name, Environment: env.ID, Session: s.ID, Title: v.Title, Body: v.Body,
		Base: v.Base, Branch: v.Branch, Authors: v.Authors, Evidence: v.Evidence, Verdict: v.Verdict,
	})
	return change, err
}
