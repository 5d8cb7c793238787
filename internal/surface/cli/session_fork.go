package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"drydock/internal/core"
	"drydock/internal/surface/api"
	"drydock/internal/surface/client"
)

func (a *app) newSessionFork() *cobra.Command {
	var count int
	cmd := &cobra.Command{
		Use:   `fork SESSION ["PROMPT"]`,
		Short: "Make sessions that go on from this very moment, memory included",
		Long: `Make sessions that go on from where SESSION is now: same files, same running
services and processes, each with a branch and a life of its own. The session
itself stands still for a fraction of a second and goes on. A PROMPT is queued
in each of the new ones. One that cannot be started is told in its line, and
starts with its next prompt.`,
		Example: `  drydock session fork last
  drydock session fork last -n 3 "try it without the cache"
  drydock session fork ses_... -n 2 --json`,
		Args: between(1, 2, "SESSION PROMPT"), ValidArgsFunction: a.completeSessions,
		RunE: a.withSession(func(ctx context.Context, c *client.Client, id core.SessionID, args []string) error {
			req := api.ForkSession{Count: count}
			if len(args) > 0 {
				var err error
				if req.Prompt, err = a.text(args[0]); err != nil {
					return err
				}
			}
			return a.sessionFork(ctx, c, id, req)
		}),
	}
	cmd.Flags().IntVarP(&count, "count", "n", 1, "how many")
	return cmd
}

func (a *app) sessionFork(ctx context.Context, c *client.Client, id core.SessionID, req api.ForkSession) error {
	got, err := c.Fork(ctx, id, req)
	if err != nil {
		return err
	}
	failed := 0
	for _, child := range got.Children {
		if child.Error != "" {
			failed++
		}
	}
	if a.json {
		err = a.document(got)
	} else {
		if got.Paused > 0 {
			a.note("%s stood still for %s; snapshot %s\n", id, got.Paused.Round(time.Millisecond), got.Snapshot)
		}
		t := a.table([]string{"SESSION", "STATE", "FROM", "READY", ""}, 4)
		err = list(a, got.Children, "", t, func(s api.ForkedSession) []string {
			ready := "-"
			if s.Ready > 0 {
				ready = s.Ready.Round(time.Millisecond).String()
			}
			return []string{string(s.Session.ID), string(s.Session.State), s.From, ready, s.Error}
		})
	}
	if err == nil && failed == len(got.Children) {
		err = core.E("cli.fork", core.Unavailable, nil, "none of the %d sandboxes started", failed).
			WithHint("the sessions are there: prompt them again, or remove them with drydock session rm")
	}
	if err == nil && failed > 0 {
		err = fmt.Errorf("%d of %d sandboxes did not start", failed, len(got.Children))
	}
	return err
}
