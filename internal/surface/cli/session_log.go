package cli

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"drydock/internal/core"
	"drydock/internal/surface/api"
	"drydock/internal/surface/client"
)

type sessionLogOptions struct {
	follow   bool
	after    int64
	full     bool
	pictures string
}

func (a *app) newSessionLog() *cobra.Command {
	var o sessionLogOptions
	cmd := &cobra.Command{
		Use:   "log SESSION",
		Short: "Show what happened in a session, or follow it",
		Long: `Show the event log of a session. With --json every event is one line, as the
interface sends it. With -f the command goes on until it is interrupted.`,
		Example: `  drydock session log last
  drydock session log -f last
  drydock session log last --full                 # whole outputs, not their ends
  drydock session log last --json | jq 'select(.kind == "verdict").data'`,
		Args: exactly("SESSION"), ValidArgsFunction: a.completeSessions,
		RunE: a.withSession(func(ctx context.Context, c *client.Client, id core.SessionID, _ []string) error {
			return a.sessionLog(ctx, c, id, o)
		}),
	}
	f := cmd.Flags()
	f.BoolVarP(&o.follow, "follow", "f", false, "go on with what comes")
	f.Int64Var(&o.after, "after", 0, "only events after this number")
	f.BoolVar(&o.full, "full", false, "do not fold outputs")
	f.StringVar(&o.pictures, "pictures", "", "save pictures into this directory")
	return cmd
}

func (a *app) sessionLog(ctx context.Context, c *client.Client, id core.SessionID, o sessionLogOptions) error {
	if a.json {
		return a.rawLog(ctx, c, id, o)
	}
	s, err := c.Session(ctx, id)
	if err != nil {
		return err
	}
	w := watchOptions{pictures: o.pictures, full: o.full, after: o.after, fromStart: o.after == 0}
	if o.follow {
		err := a.follow(ctx, c, s, w, func(core.Event) bool { return false })
		if errors.Is(err, context.Canceled) {
			return nil // leaving is how following ends
		}
		return err
	}
	r := a.sessionRenderer(ctx, c, s, w, false)
	defer r.Close()
	return a.eachPage(func(after int64) (api.List[core.Event], error) {
		return c.SessionLog(ctx, id, max(after, o.after), core.MaxPage)
	}, func(ev core.Event) error {
		r.Event(ev)
		return written(r.Err())
	})
}

func (a *app) rawLog(ctx context.Context, c *client.Client, id core.SessionID, o sessionLogOptions) error {
	if !o.follow {
		return a.eachPage(func(after int64) (api.List[core.Event], error) {
			return c.SessionLog(ctx, id, max(after, o.after), core.MaxPage)
		}, func(ev core.Event) error { return a.line(ev) })
	}
	for ev, err := range c.SessionEvents(ctx, id, o.after) {
		if err != nil {
			if errors.Is(err, context.Canceled) {
				return nil
			}
			return err
		}
		if err := a.line(ev); err != nil {
			return err
		}
	}
	return nil
}
