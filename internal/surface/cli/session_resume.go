package cli

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"drydock/internal/core"
	"drydock/internal/surface/client"
)

type sessionResumeOptions struct {
	budget string
	time   time.Duration
	wait   bool
}

func (a *app) newSessionResume() *cobra.Command {
	var o sessionResumeOptions
	cmd := &cobra.Command{
		Use:   "resume SESSION",
		Short: "Go on after a stop, a failure, a hand-over or a spent budget",
		Example: `  drydock session resume last
  drydock session resume last --budget 5 --wait`,
		Args: exactly("SESSION"), ValidArgsFunction: a.completeSessions,
		RunE: a.withSession(func(ctx context.Context, c *client.Client, id core.SessionID, _ []string) error {
			return a.sessionResume(ctx, c, id, o)
		}),
	}
	f := cmd.Flags()
	f.StringVar(&o.budget, "budget", "", "new budget of the session in US dollars, all in all")
	f.DurationVar(&o.time, "time", 0, "new bound on its working time, all in all")
	f.BoolVarP(&o.wait, "wait", "w", false, "wait for the end, and show the work")
	return cmd
}

func (a *app) sessionResume(ctx context.Context, c *client.Client, id core.SessionID, o sessionResumeOptions) error {
	s, err := c.Session(ctx, id)
	if err != nil {
		return err
	}
	before, err := lastEvent(ctx, c, id)
	if err != nil {
		return err
	}
	if o.budget != "" || o.time != 0 {
		b, err := budgetOf(o.budget, o.time)
		if err != nil {
			return err
		}
		if b.Money == 0 {
			b.Money = s.Budget.Money
		}
		if b.WallClock == 0 {
			b.WallClock = s.Budget.WallClock
		}
		// A run that waits for its budget goes on by itself.
		if s, err = c.SetBudget(ctx, id, b); err != nil {
			return err
		}
		if s.State == core.SessionWaiting || s.State == core.SessionRunning {
			if o.wait {
				return a.watchCurrent(ctx, c, s, before)
			}
			return a.told(string(id), "budget raised", nil)
		}
	}
	p, err := c.Continue(ctx, id)
	if err != nil || !o.wait {
		return a.promptResult(p, err, "resumed")
	}
	return a.watchPrompt(ctx, c, s, p, watchOptions{after: before})
}

// watchCurrent shows the prompt under way.
func (a *app) watchCurrent(ctx context.Context, c *client.Client, s core.Session, after int64) error {
	prompts, err := c.Prompts(ctx, s.ID)
	if err != nil {
		return err
	}
	for _, p := range prompts {
		if p.State == core.PromptRunning {
			return a.watchPrompt(ctx, c, s, p, watchOptions{after: after})
		}
	}
	return a.told(string(s.ID), "budget raised", nil)
}
