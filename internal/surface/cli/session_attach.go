package cli

import (
	"context"

	"github.com/spf13/cobra"

	"drydock/internal/core"
	"drydock/internal/surface/api"
	"drydock/internal/surface/client"
)

func (a *app) newSessionAttach() *cobra.Command {
	return &cobra.Command{
		Use:   "attach SESSION",
		Short: "Open a shell in a session's sandbox",
		Long: `Open a login shell in the sandbox of a session, beside the agent. What you change
there is part of the session. To watch the agent instead: drydock session log -f.`,
		Example: `  drydock session attach last`,
		Args:    exactly("SESSION"), ValidArgsFunction: a.completeSessions,
		RunE: a.withSession(func(ctx context.Context, c *client.Client, id core.SessionID, _ []string) error {
			return a.terminalExec(ctx, c, id, api.ExecRequest{})
		}),
	}
}
