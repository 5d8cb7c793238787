package cli

import (
	"context"

	"github.com/spf13/cobra"

	"drydock/internal/core"
	"drydock/internal/surface/client"
)

func (a *app) newSessionStop() *cobra.Command {
	var reason string
	cmd := &cobra.Command{
		Use:   "stop SESSION",
		Short: "Stop the run under way; the work so far is kept",
		Example: `  drydock session stop last
  drydock session stop ses_... --reason "wrong repository"`,
		Args: exactly("SESSION"), ValidArgsFunction: a.completeSessions,
		RunE: a.withSession(func(ctx context.Context, c *client.Client, id core.SessionID, _ []string) error {
			return a.told(string(id), "stopping", c.Stop(ctx, id, reason))
		}),
	}
	cmd.Flags().StringVar(&reason, "reason", "", "why, for the log")
	return cmd
}
